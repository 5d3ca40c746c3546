"""Promises of speculation.models.store and catalog: what a reference stands for, what is refused, in which words."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from speculation.config import PRESETS
from speculation.errors import FetchError, ModelError
from speculation.models import catalog, store

TINY = "Qwen/Qwen2.5-Coder-0.5B-Instruct"


def make_ready(model_id: str, models_dir: Path) -> Path:
    built = store.staging_of(model_id, models_dir)
    built.mkdir(parents=True)
    (built / "model.safetensors").write_bytes(b"weights")
    return store.finish(built, store.folder_of(model_id, models_dir), {"model": model_id})


def test_a_preset_stands_for_its_target(tmp_path):
    folder = make_ready(TINY, tmp_path)
    assert store.find("tiny", tmp_path) == store.find(TINY, tmp_path) == folder
    assert store.model_id_of(folder) == TINY
    assert store.ready_folders(tmp_path) == [folder]


@pytest.mark.parametrize("ref", ["small", "Qwen/Qwen2.5-Coder-7B-Instruct"])
def test_what_is_not_fetched_says_how_to_fetch_it(tmp_path, ref):
    with pytest.raises(ModelError, match=f"{ref} is not fetched; run: stet models fetch {ref}"):
        store.find(ref, tmp_path)


@pytest.mark.parametrize("ref", ["nope", "", "a/b/c", "/no/such/folder", "no/such.gguf", "~/nothing-here"])
def test_an_unknown_reference_says_what_is_wanted(tmp_path, ref):
    with pytest.raises(
        ModelError, match="wanted a preset .* a Hugging Face id .* a folder with safetensors or a .gguf"
    ):
        store.find(ref, tmp_path)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["pytorch_model.bin", "config.json"], "only pickled weights"),
        (["model.pt"], "only pickled weights"),
        (["model.safetensors"], "no config.json"),
        (["model-q4.gguf"], "name the file"),
        (["README.md"], "no \\*.safetensors"),
        ([], "no \\*.safetensors"),
    ],
)
def test_a_folder_that_cannot_be_loaded_is_refused(tmp_path, files, said):
    for file in files:
        (tmp_path / file).touch()
    with pytest.raises(ModelError, match=said):
        store.find(str(tmp_path), tmp_path / "models")


def test_local_folders_and_ggufs_are_taken_as_they_are(tmp_path):
    for file in ("config.json", "model.safetensors", "pytorch_model.bin", "m.gguf", "notes.txt"):
        (tmp_path / file).touch()
    assert store.find(str(tmp_path), tmp_path / "models") == tmp_path
    assert store.find(str(tmp_path / "m.gguf"), tmp_path / "models") == tmp_path / "m.gguf"
    with pytest.raises(ModelError, match="is no model"):
        store.find(str(tmp_path / "notes.txt"), tmp_path / "models")


def test_remove_deletes_what_was_fetched_and_never_behind_a_link(tmp_path):
    models_dir, elsewhere = tmp_path / "models", tmp_path / "elsewhere"
    make_ready(TINY, models_dir)
    half = store.staging_of(TINY, models_dir)
    half.mkdir()
    (half / "part").write_bytes(b"half")
    assert store.remove(TINY, models_dir) > len(b"weights" + b"half")
    assert not half.exists() and store.ready_folders(models_dir) == []

    elsewhere.mkdir()
    (elsewhere / "mine").touch()
    store.folder_of(TINY, models_dir).symlink_to(elsewhere)
    store.remove(TINY, models_dir)
    assert (elsewhere / "mine").exists() and not store.folder_of(TINY, models_dir).is_symlink()


def test_what_an_engine_has_open_is_not_removed_without_a_word(tmp_path, monkeypatch):
    def rmtree(folder):
        raise PermissionError(13, "in use")

    make_ready(TINY, tmp_path)
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    with pytest.raises(ModelError, match="can't be removed: in use; stop the engine that uses it"):
        store.remove(TINY, tmp_path)


def test_a_full_disk_is_said_with_what_is_needed_and_free(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10**12, 10**12, 5_000_000))
    with pytest.raises(FetchError, match=r"not enough disk for tiny: 1\.27 GB needed, 5\.0 MB free"):
        store.check_room(tmp_path / "not" / "made" / "yet", 1_270_000_000, "tiny")


def test_every_model_has_its_own_lock(tmp_path):
    other = TINY.replace("0.5B-Instruct", "0.5B")
    waited: list[str] = []
    with store.locked(TINY, tmp_path), store.locked(other, tmp_path, on_wait=lambda: waited.append(other)):
        assert waited == []


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_name_their_models_target_first(preset):
    ids = catalog.model_ids(preset)
    assert ids[0] == PRESETS[preset].target
    assert ids[1:] == ([PRESETS[preset].small_lm] if PRESETS[preset].small_lm else [])


@pytest.mark.parametrize("ref", ["../x", "a/..", "a/", "/a", "a//b", "a/b/c", "a b/c", f"a{os.sep}..{os.sep}b", ""])
def test_what_could_leave_the_models_folder_is_no_id(ref):
    assert not catalog.is_model_id(ref)
    with pytest.raises(ModelError, match="wanted a preset"):
        catalog.model_ids(ref)


def test_a_shard_that_is_missing_is_named(tmp_path):
    names = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    save_file({"weight": np.zeros(2)}, tmp_path / names[1])
    assert store.damage(tmp_path) is None
    (tmp_path / store.INDEX).write_text(json.dumps({"weight_map": {f"layer.{name}": name for name in names}}))
    assert store.damage(tmp_path) == f"{tmp_path} lacks {names[0]}, {names[2]}"
    save_file({"weight": np.zeros(2)}, tmp_path / "model.safetensors")
    assert store.damage(tmp_path) is None, "that one is loaded"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *[(store.INDEX, text) for text in ("", "[]", "{}", '{"weight_map": []}', "{")],
        ("config.json", ""),
        ("config.json", "{"),
    ],
)
def test_a_config_or_an_index_that_says_nothing_is_damaged(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert store.damage(tmp_path).startswith(f"{tmp_path / name} is damaged")
