"""`stet doctor` looks at everything, starts no engine, and says what to do."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from speculation.cli import doctor
from speculation.config import PRESETS
from speculation.models import store
from speculation.models.catalog import SHAPES

pytestmark = pytest.mark.torch

SMALL = [PRESETS["small"].target, PRESETS["small"].small_lm or ""]
EVERYTHING = ["version", "memory", "model", "model", "engine", "database", "language server"]


def run(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    places = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "STATE", "CONFIG", "DATA")}
    environment = {**os.environ, **places, "STET_RUNTIME_DIR": str(home / "run")}
    program = [sys.executable, "-m", "lsp_server.cli", "doctor", *arguments]
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300, check=False)


def findings(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def pretend_to_fetch(home: Path, **manifest: str) -> None:
    for model_id in SMALL:
        folder = store.folder_of(model_id, home / "cache" / "stet" / "models")
        folder.mkdir(parents=True)
        (folder / store.MANIFEST).write_text(json.dumps(manifest))
        (folder / "config.json").write_text(json.dumps(SHAPES[model_id]))


def test_what_is_missing_is_said_with_its_remedy(tmp_path: Path) -> None:
    done = run(tmp_path, "--model", "small", "--json")
    found = findings(done)
    assert [finding["what"] for finding in found] == EVERYTHING
    remedies = {finding["what"]: finding["remedy"] for finding in found}
    assert remedies["model"] == "stet models fetch small"
    assert done.returncode == 1
    assert "answered" in found[-1]["said"] and remedies["language server"] is None
    assert not (tmp_path / "run" / "engine.json").exists() and not (tmp_path / "state").exists(), "nothing is made"


def test_a_gpu_that_torch_was_not_installed_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    _, gpu, *_ = itertools.islice(doctor.findings("small"), 2)
    assert gpu.what == "gpu" and "without CUDA" in gpu.said and "pytorch.org" in str(gpu.remedy)


def test_with_everything_there_the_digest_is_shown(tmp_path: Path) -> None:
    pretend_to_fetch(tmp_path, sha256="cc324af0")
    done = run(tmp_path, "--model", "small")
    assert done.stdout.count("sha256 cc324af0") == 2, done.stdout
    amiss = [line for line in done.stdout.splitlines() if line.startswith("amiss")]
    assert [line for line in amiss if "memory" not in line] == [], "memory depends on the machine"
    assert done.returncode == len(amiss)


def test_what_is_damaged_is_said_and_left_as_it_is(tmp_path: Path) -> None:
    pretend_to_fetch(tmp_path)
    weights = store.folder_of(SMALL[0], tmp_path / "cache" / "stet" / "models") / "model.safetensors"
    save_file({"weight": torch.zeros(100)}, weights)
    os.truncate(weights, weights.stat().st_size - 1)
    state = tmp_path / "state" / "stet"
    state.mkdir(parents=True)
    (state / "stet.db").write_text("no database" * 100)
    (state / "engine.log").write_text("stet: error: out of memory\n")
    _, _, target, small_lm, engine, database, _ = findings(run(tmp_path, "--model", "small", "--json"))
    assert f"{weights} is damaged or cut short" in target["said"]
    assert target["remedy"] == f"stet models remove {SMALL[0]}, then stet models fetch {SMALL[0]}"
    assert small_lm["remedy"] is None
    assert "the last one gave up: out of memory" in engine["said"] and engine["remedy"]
    assert "damaged" in database["said"] and "delete it" in database["remedy"]
    assert sorted(path.name for path in state.iterdir()) == ["engine.log", "stet.db"]


def test_a_folder_in_which_no_engine_can_log_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    engine = next(finding for finding in findings(run(tmp_path, "--json")) if finding["what"] == "engine")
    assert "can't be started" in engine["said"] and str(tmp_path) in engine["remedy"]


def test_a_path_that_holds_no_model_is_said(tmp_path: Path) -> None:
    found = findings(run(tmp_path, "--model", str(tmp_path), "--json"))
    [model] = [finding for finding in found if finding["what"] == "model"]
    assert "no *.safetensors" in model["said"] and model["remedy"]
