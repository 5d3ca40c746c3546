"""Replay counts what it says it counts, and says what it can't read. A byte is a token here: no tokenizer is needed."""

import json
from ast import literal_eval
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from speculation.acceptance import Store
from speculation.bench import tasks as edit_tasks
from speculation.bench.priors import N_NEIGHBOUR, PriorCounts
from speculation.bench.replay import RecordedTarget, load_cost, replay
from speculation.bench.tasks import Task
from speculation.cli.bench import bench
from speculation.errors import ConfigError
from speculation.gamma import CostCurve
from speculation.priors import BUCKET_EDGES, PRIORS
from speculation.types import Draft, Verdict


class Bytes:
    line_ends = frozenset(b"\n")

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode(errors="replace")


SOURCE = "".join(f"def f{i}(a):\n    return a + {i}\n\n" for i in range(20))
RENAME = Task("rename", "python", "call f7 seven", SOURCE, SOURCE.replace("f7", "seven"))
FLAT = CostCurve({1: 1.0, 128: 1.0, 256: 2.0})


def check(drafter: str, *tasks: Task, store: Path | None = None, **options: Any) -> dict[str, Any]:
    with closing(Store(store)) as learned:
        tally = replay(tasks or (RENAME,), Bytes(), cost=FLAT, drafter=drafter, learned=learned, **options)
    return tally.report()


def test_plain_decoding_takes_a_pass_a_token() -> None:
    report = check("none")
    n_tokens = len(RENAME.after) + 1  # and the end
    assert (report["tokens"], report["passes"]) == (n_tokens, n_tokens)
    assert (report["tokens_per_pass"], report["speedup"], report["drafted_per_token"]) == (1.0, 1.0, 0.0)


def test_drafts_save_passes_and_stet_saves_more_than_prompt_lookup() -> None:
    lookup, stet = check("prompt-lookup:2:12"), check("stet")
    assert 1 < lookup["tokens_per_pass"] <= 13
    assert stet["speedup"] > lookup["speedup"]
    assert stet["tokens"] == lookup["tokens"] == len(RENAME.after) + 1


def test_an_unchanged_file_is_copied_in_few_passes() -> None:
    report = check("stet", Task("same", "python", "nothing", SOURCE, SOURCE))
    assert report["passes"] <= len(SOURCE) / 256 + 3


def test_the_store_learns_from_task_to_task() -> None:
    """Where every copy is refused, drafts become fewer; a store per task would draft as much each time."""
    unlike = Task("unlike", "x", "x", "abc" * 40, "".join(f"a{i:02d}c{99 - i:02d}" for i in range(60)))
    alone, together = check("stet", unlike), check("stet", *[unlike] * 6)
    assert together["drafted_per_token"] < 0.9 * alone["drafted_per_token"]


def test_a_second_replay_goes_on_with_what_the_first_learned(tmp_path: Path) -> None:
    unlike = Task("unlike", "x", "x", "abc" * 40, "".join(f"a{i:02d}c{99 - i:02d}" for i in range(60)))
    first, second = (check("stet", unlike, store=tmp_path / "stet.db") for _ in range(2))
    assert second["drafted_per_token"] < 0.9 * first["drafted_per_token"]
    assert check("stet", unlike)["drafted_per_token"] == first["drafted_per_token"]


def test_the_slowest_tasks_are_told() -> None:
    """Of 21 tasks the slowest tenth begins with the third."""
    novel = [Task(f"{n}", "python", "x", "", "".join(chr(300 + i) for i in range(n))) for n in (20, 30)]
    report = check("stet", *novel, *[RENAME] * 19)
    assert report["slowest"] == pytest.approx(1.0, abs=0.1)
    assert report["slowest_tenth"] > 3
    assert check("none", *novel, RENAME)["slowest_tenth"] == 1.0
    assert check("stet", *novel, RENAME)["slowest_tenth"] == report["slowest"]


def test_priors_are_what_was_counted() -> None:
    """Over tasks and file types; a bucket that nothing fell into is like that of the next shorter match."""
    counts = PriorCounts()
    for file_type in ("go", "python"):
        acceptance = counts.acceptance("replay", file_type)
        acceptance.observe("copy", 192, 1000, 1000)
        for _ in range(100):
            acceptance.observe("suffix", 1, 0, 1)
        counts.save_acceptance("replay", acceptance)
    priors = counts.priors()
    assert list(priors) == ["copy", "suffix"]
    assert priors["copy"][:-1] == (0.5,) * (len(BUCKET_EDGES) - 1)
    assert priors["copy"][-1] == round((2000 + 0.5 * N_NEIGHBOUR) / (2000 + N_NEIGHBOUR), 4)
    refused = round(0.5 * N_NEIGHBOUR / (200 + N_NEIGHBOUR), 4)
    assert priors["suffix"] == (0.5, *[refused] * (len(BUCKET_EDGES) - 1))


def test_a_drafter_does_not_learn_where_the_recording_ends() -> None:
    """Once the last draft was cut to the recording's length, which no real run can do."""
    report = check("prompt-lookup:3:40", Task("same", "", "x", "abcabc" * 30, "abcabc" * 5))
    assert report["tokens"] == 31
    assert report["drafted_per_token"] * 31 == pytest.approx(40, abs=0.2)


def test_long_tasks_are_left_out() -> None:
    assert check("none", RENAME, Task("short", "", "x", "a", "b"), max_tokens=10)["tasks"] == 1


def test_figures_by_language_add_up() -> None:
    report = check("stet", RENAME, Task("other", "go", "x", "package a\n", "package b\n"))
    assert set(report["by_language"]) == {"python", "go"}
    assert sum(row["tokens"] for row in report["by_language"].values()) == report["tokens"]


def test_the_recorded_target_keeps_what_was_recorded() -> None:
    target = RecordedTarget(2, [5, 6, 7, -1])
    assert target.verify([1, 2], Draft((5, 6, 9))) == Verdict(2, 7)
    assert target.verify([1, 2, 5, 6], Draft((7,))) == Verdict(1, -1)
    assert target.verify([1, 2], Draft()) == Verdict(0, 5)


@pytest.mark.parametrize("name", ["stets", "prompt-lookup", "prompt-lookup:0:12", "prompt-lookup:a:b", "none:1"])
def test_an_unknown_drafter_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="drafter must be"):
        check(name)


def test_a_cost_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cost.json"
    path.write_text('{"1": 0.5, "3": 0.9}')
    assert load_cost(str(path)).seconds(2) == pytest.approx(0.7)


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "[]", '{"2": 1}', '{"a": 1}', '{"1": "x"}', "1"),
        *('{"1": 0}', '{"1": 1, "8": -2}', '{"1": NaN}', '{"1": 1, "2": Infinity}', '{"0": 1, "1": 1}'),
    ],
)
def test_a_bad_cost_file_is_said(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "cost.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match="cost must be"):
        load_cost(str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not list"),
        ('{"before": "a", "after": "b"}', "instruction is missing"),
        ('{"before": "a", "after": 1, "instruction": "c"}', "after is missing or not text"),
        (r'{"before": "\ud800", "after": "b", "instruction": "c"}', "before has half a surrogate pair"),
    ],
)
def test_a_bad_task_file_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"before": "a", "after": "b", "instruction": "c"}\n\n' + text)
    with pytest.raises(ConfigError, match=rf"tasks\.jsonl:3: .*{said}"):
        edit_tasks.load([path])


def test_a_line_ends_at_a_line_feed_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"before": "a\u2028b\x85", "after": "b", "instruction": "c"}\r\n', "utf-8")
    assert [task.before for task in edit_tasks.load([path])] == ["a\u2028b\x85"]


def test_a_missing_task_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="wanted a file of JSON lines"):
        edit_tasks.load([tmp_path / "none.jsonl"])


@pytest.mark.parametrize("command", ["replay", "theory", "priors", "run"])
def test_a_file_without_tasks_is_said_before_anything_is_loaded(tmp_path: Path, command: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n")
    result = CliRunner().invoke(bench, [command, str(path)])
    assert isinstance(result.exception, ConfigError)
    assert "there is no task in" in str(result.exception)


def test_a_file_that_is_no_database_is_not_taken_for_a_damaged_one(tmp_path: Path) -> None:
    """It would be set aside: mistaken for --store, a file of tasks was renamed once."""
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"before": "a", "after": "b", "instruction": "c"}')
    result = CliRunner().invoke(bench, ["replay", str(path), "--store", str(path)])
    assert isinstance(result.exception, ConfigError)
    assert "no SQLite database" in str(result.exception)
    assert [file.name for file in tmp_path.iterdir()] == ["tasks.jsonl"]


@pytest.mark.model
def test_replay_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    fields = {"before": RENAME.before, "after": RENAME.after, "instruction": "rename", "language": "Python"}
    path.write_text(json.dumps(fields))
    result = CliRunner().invoke(bench, ["replay", str(path), "--cost", "flat", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["tasks"] == 1
    assert report["speedup"] > 3
    assert {"tokens", "passes", "tokens_per_pass", "drafted_per_token", "by_language"} <= set(report)


@pytest.mark.model
def test_priors_from_the_command_line_are_entries_of_the_shipped_table(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"before": RENAME.before, "after": RENAME.after, "instruction": "rename"}))
    result = CliRunner().invoke(bench, ["priors", str(path)])
    assert result.exit_code == 0, result.output
    priors = literal_eval("{" + result.stdout + "}")
    assert set(priors) <= set(PRIORS)
    assert {len(alphas) for alphas in priors.values()} == {len(BUCKET_EDGES)}
    assert priors["copy"][-1] > 0.9
