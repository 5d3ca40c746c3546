"""`stet stats` says what the database holds, and what to do when it holds nothing."""

import importlib.util
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from speculation.acceptance import Store
from speculation.cli import stats as module
from speculation.cli.stats import stats
from speculation.config import PRESETS
from speculation.errors import ConfigError
from speculation.types import SourceStats, Stats

SMALL = PRESETS["small"].target
needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs the extra 'plot'")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "state_dir", lambda: tmp_path)
    return tmp_path


def fill(folder: Path, target: str = SMALL) -> None:
    with closing(Store(folder / "stet.db")) as store:
        for file_type, n_accepted, decode_s in (("python", 8, 4.0), ("go", 4, 1.0)):
            acceptance = store.acceptance(target, file_type)
            acceptance.observe("copy", 0, n_accepted, n_accepted + 1)
            sources = {"copy": SourceStats(1, 10, n_accepted + 1, n_accepted)}
            store.note_run(target, file_type, Stats(n_tokens=10, n_passes=2, decode_s=decode_s, sources=sources), 8.0)
            store.save_acceptance(target, acceptance)
        store.save_pass_times("cpu", {1: 0.1, 8: 0.2})


def run(*arguments: str) -> Result:
    return CliRunner().invoke(stats, arguments)


def report(*arguments: str) -> Any:
    result = run("--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_figures_are_told_by_file_type_source_and_match_length(folder: Path) -> None:
    fill(folder)
    said = report()
    assert said["pass_times"] == {"cpu": {"1": 0.1, "8": 0.2}}
    figures = said["targets"][SMALL]
    assert set(figures) == {"", "python", "go"}
    python = figures["python"]
    assert (python["requests"], python["tokens"], python["tokens_per_pass"]) == (1, 10, 5.0)
    assert (python["gamma"], python["speedup"]) == (5.0, 2.0)
    copy = python["sources"]["copy"]
    assert (copy["tested"], copy["accepted"], copy["alpha"]) == (9, 8, 0.8889)
    # Runs of 0 to 7 went on, that of 8 ended; 4-5 and 6-7 are buckets of two.
    assert [(bucket["from"], bucket["tested"]) for bucket in copy["by_match_length"]] == [
        *((0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (6, 2), (8, 1)),
    ]
    assert copy["by_match_length"][-1]["alpha"] == 0.0
    everything = figures[""]
    assert (everything["requests"], everything["speedup"]) == (2, 3.2)
    assert everything["sources"]["copy"]["tested"] == 14


def test_the_tables_hold_the_same_figures(folder: Path) -> None:
    fill(folder)
    lines = run().stdout.splitlines()
    assert SMALL in lines[0]
    cells = [" ".join(line.split()) for line in lines]
    assert "all 2 20 5.0 5.0 3.2" in cells
    assert "python copy 9 8 88.9 100.0 100.0 100.0 100.0 0.0" in cells
    assert max(map(len, lines)) <= 80


def test_one_target_can_be_chosen(folder: Path) -> None:
    fill(folder)
    fill(folder, "other/model")
    fill(folder, f"{SMALL} sampled")
    assert set(report()["targets"]) == {SMALL, f"{SMALL} sampled", "other/model"}
    assert set(report("--model", "small")["targets"]) == {SMALL, f"{SMALL} sampled"}
    assert set(report("--model", "other/model")["targets"]) == {"other/model"}
    with pytest.raises(ConfigError, match=f"nothing is known of some/model; there are figures of .*{SMALL}"):
        raise_from("--model", "some/model")


def raise_from(*arguments: str) -> None:
    error = run(*arguments).exception
    assert error is not None
    raise error


def test_without_a_database_it_says_what_to_do_and_makes_none(folder: Path) -> None:
    result = run()
    assert (result.exit_code, "stet rewrite" in result.stdout) == (0, True)
    assert report() == {"targets": {}, "pass_times": {}}
    with pytest.raises(ConfigError, match="nothing to draw"):
        raise_from("--plot", "a.png")
    assert list(folder.iterdir()) == []


def test_a_database_that_cannot_be_read_is_one_line(folder: Path) -> None:
    (folder / "stet.db").mkdir()
    with pytest.raises(ConfigError, match="can't be used"):
        raise_from()


def test_a_damaged_database_is_said_and_left_to_the_engine(folder: Path) -> None:
    fill(folder)
    database = folder / "stet.db"
    damaged = database.read_bytes()[:5000] + b"x" * 20000
    database.write_bytes(damaged)
    with pytest.raises(ConfigError, match="is damaged"):
        raise_from()
    assert database.read_bytes() == damaged and not (folder / "stet.broken").exists()


@needs_matplotlib
@pytest.mark.parametrize(("name", "beginning"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_a_plot_is_drawn(folder: Path, name: str, beginning: bytes) -> None:
    fill(folder)
    result = run("--plot", str(folder / name))
    assert result.exit_code == 0, result.exception
    assert (folder / name).read_bytes().startswith(beginning)


@needs_matplotlib
def test_what_cannot_be_drawn_is_one_line(folder: Path) -> None:
    fill(folder)
    for name, said in (("a.pdf", r"\.png and \.svg"), ("none/a.png", "can't write")):
        with pytest.raises(ConfigError, match=said):
            raise_from("--plot", str(folder / name))


def test_a_missing_matplotlib_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(folder)
    monkeypatch.delitem(sys.modules, "speculation.cli.plot", raising=False)
    for name in ("matplotlib", "matplotlib.axes", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"pip install 'stet-lsp\[plot\]'"):
        raise_from("--plot", "a.png")
