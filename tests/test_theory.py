"""`stet bench theory`: the formulas are the paper's, and where acceptance is what they assume, they are right."""

import json
import random
from itertools import accumulate
from operator import mul
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_bench import RENAME, SOURCE, Bytes

from speculation.acceptance import Store
from speculation.bench.replay import load_cost, replay
from speculation.bench.tasks import Task
from speculation.bench.theory import Pass, compare, iid_tokens, replay_passes
from speculation.cli.bench import bench

GAMMA = 8


@pytest.mark.parametrize(
    ("alpha", "gamma", "tokens"),
    [(0.8, 3, 1 + 0.8 + 0.64 + 0.512), (0.0, 5, 1.0), (1.0, 5, 6.0), (0.5, 0, 1.0), (0.999999, 9, 9.999955)],
)
def test_equation_1(alpha: float, gamma: int, tokens: float) -> None:
    assert iid_tokens(alpha, gamma) == pytest.approx(tokens)


def one_pass(alphas: list[float], rng: random.Random, target_s: float = 1.0) -> Pass:
    """A pass whose drafted tokens are accepted with these probabilities, and whose estimates know them."""
    n_accepted = 0
    while n_accepted < len(alphas) and rng.random() < alphas[n_accepted]:
        n_accepted += 1
    n_tested = min(n_accepted + 1, len(alphas))
    n_expected = 1 + sum(accumulate(alphas, mul))
    return Pass("python", "copy", len(alphas), n_tested, n_accepted, n_accepted + 1, n_expected, target_s, 0.25)


def test_both_forms_are_right_where_all_tokens_are_alike_and_passes_cost_the_same() -> None:
    rng = random.Random(1)
    [row, *_] = compare([one_pass([0.8] * GAMMA, rng) for _ in range(20_000)], 1.0)["rows"]
    assert (row["passes"], row["gamma"]) == (20_000, GAMMA)
    assert row["c"] == pytest.approx(0.25 / GAMMA, abs=1e-4)
    assert row["alpha"] == pytest.approx(0.8, rel=0.01)
    for form in ("iid", "survival"):
        assert row[f"tokens_per_pass_{form}"] == pytest.approx(row["tokens_per_pass"], rel=0.02)
        assert row[f"speedup_{form}"] == pytest.approx(row["speedup"], rel=0.02)
    assert row["speedup"] == pytest.approx(row["tokens_per_pass"] / 1.25, abs=1e-3)


def test_where_some_drafts_are_safe_and_others_are_not_one_alpha_is_off_and_survival_is_right() -> None:
    rng = random.Random(2)
    passes = [one_pass([0.99] * 60 if rng.random() < 0.5 else [0.5] * 60, rng, target_s=2.0) for _ in range(20_000)]
    report = compare(passes, 1.0)
    row = report["rows"][0]
    assert row["tokens_per_pass_survival"] == pytest.approx(row["tokens_per_pass"], rel=0.03)
    assert row["speedup_survival"] == pytest.approx(row["speedup"], rel=0.03)
    assert abs(row["tokens_per_pass_iid"] / row["tokens_per_pass"] - 1) > 0.1
    assert row["speedup_iid"] > 1.4 * row["speedup"]  # a longer pass costs twice as much here
    for bucket in report["calibration"]:
        assert bucket["survival"] == pytest.approx(bucket["measured"], rel=0.04)
    assert [bucket["from"] for bucket in report["calibration"]] == [2, 32]  # 1 + 0.5 + 0.25 + ... and 46


def test_passes_are_those_of_the_replay() -> None:
    cost = load_cost("cpu")
    tasks = [RENAME, Task("other", "go", "x", "package a\n", "package b\n"), Task("long", "x", "x", SOURCE * 9, "x")]
    passes = replay_passes(tasks, Bytes(), cost, max_tokens=2500)
    wanted = replay(tasks, Bytes(), cost=cost, learned=Store(None)).report()
    assert (len(passes), sum(p.n_tokens for p in passes)) == (wanted["passes"], wanted["tokens"])
    assert sum(p.target_s for p in passes) == pytest.approx(
        wanted["tokens"] * cost.seconds(1) / wanted["speedup"], 1e-3
    )
    assert all(p.n_accepted <= p.n_tested <= p.gamma and p.n_expected >= 1 for p in passes)
    assert all(p.n_expected == 1 for p in passes if not p.gamma)
    rows = compare(passes, cost.seconds(1))["rows"]
    assert [row["file_type"] for row in rows if row["source"] == "all"] == ["all", "python", "go"]
    assert sum(row["passes"] for row in rows if row["file_type"] == "all" and row["source"] != "all") == len(passes)


@pytest.mark.model
def test_theory_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    fields = {"before": RENAME.before, "after": RENAME.after, "instruction": "rename", "language": "Python"}
    path.write_text(json.dumps(fields))
    result = CliRunner().invoke(bench, ["theory", str(path), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"][0]["speedup"] > 3
    table = CliRunner().invoke(bench, ["theory", str(path)])
    assert "Python" in table.stdout and "expected from" in table.stdout
