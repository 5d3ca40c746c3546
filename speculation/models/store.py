"""Where models lie on disk: one folder each below models_dir, ready only when its manifest is in it.

Knows folders, locks and names. Does not know how weights come there, nor how they are loaded; imports no torch.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open

from speculation.config import PRESETS
from speculation.errors import FetchError, ModelError
from speculation.models.catalog import is_model_id

MANIFEST = "stet.json"
INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def folder_of(model_id: str, models_dir: Path) -> Path:
    """Where this model's weights lie once they are ready."""
    return models_dir / model_id.replace("/", "--")


def staging_of(model_id: str, models_dir: Path) -> Path:
    """Where an unfinished fetch of this model keeps what it has, so that the next one resumes."""
    return models_dir / ".staging" / model_id.replace("/", "--")


def is_ready(folder: Path) -> bool:
    """Whether the folder is whole; it is renamed into place with its manifest in it."""
    return (folder / MANIFEST).is_file()


def finish(built: Path, folder: Path, manifest: dict[str, str]) -> Path:
    """Put a folder that was built in a staging place where it belongs, in one step."""
    manifest = manifest | {"stet": version("stet-lsp")}
    (built / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    folder.parent.mkdir(parents=True, exist_ok=True)
    return built.rename(folder)


def ready_folders(models_dir: Path) -> list[Path]:
    """The folders of all models that are ready, in order of name."""
    return sorted(manifest.parent for manifest in models_dir.glob(f"*/{MANIFEST}"))


def model_id_of(folder: Path) -> str:
    """The id whose weights lie in this folder; the inverse of folder_of."""
    return folder.name.replace("--", "/", 1)


def tree_size(folder: Path) -> int:
    """Bytes of all files below folder; files that vanish meanwhile count as nothing."""
    total = 0
    for place, _, names in os.walk(folder):  # not rglob: it fails on a folder that pip removes meanwhile
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def check_room(models_dir: Path, n_bytes: int, what: str) -> None:
    """Raise FetchError when the disk that holds models_dir has less than n_bytes free."""
    place = models_dir.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < n_bytes:
        raise FetchError(
            f"not enough disk for {what}: {human_size(n_bytes)} needed, {human_size(free)} free at {place}"
        )


def human_size(n_bytes: int) -> str:
    """A size as people say it."""
    return f"{n_bytes / 1e9:.2f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


@contextmanager
def locked(model_id: str, models_dir: Path, on_wait: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold this model against other processes that fetch, convert or remove it; on_wait is called when one does."""
    staging = staging_of(model_id, models_dir)
    lock_file = staging.with_name(f"{staging.name}.lock")
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def find(ref: str, models_dir: Path) -> Path:
    """The folder (or the user's own .gguf file) that a preset, Hugging Face id or path stands for.

    Raises ModelError for what is not there, not fetched or not loadable. A preset stands for its target.
    """
    if ref and ref not in PRESETS and (path := Path(ref).expanduser()).exists():
        return checked(path)
    model_id = PRESETS[ref].target if ref in PRESETS else ref
    if is_model_id(model_id) and not ref.endswith(".gguf"):
        folder = folder_of(model_id, models_dir)
        if not is_ready(folder):
            raise ModelError(f"{ref} is not fetched; run: stet models fetch {ref}")
        return folder
    raise ModelError(
        f"no model {ref!r}: wanted a preset ({', '.join(PRESETS)}), a Hugging Face id like {PRESETS['tiny'].target}, "
        "a folder with safetensors or a .gguf file"
    )


def checked(path: Path) -> Path:
    """The local path itself if Stet can read models like it. Raises ModelError: never pickle."""
    if path.is_file():
        if path.suffix != ".gguf":
            raise ModelError(f"{path} is no model: wanted a folder with safetensors or a .gguf file")
        return path
    if any(path.glob("*.safetensors")):
        if not (path / "config.json").is_file():
            raise ModelError(f"{path} has weights but no config.json")
        return path
    if any(file for pattern in PICKLES for file in path.glob(pattern)):
        raise ModelError(f"{path} has only pickled weights, which can run code when loaded; wanted *.safetensors")
    if ggufs := sorted(path.glob("*.gguf")):
        raise ModelError(f"{path} has no *.safetensors; to use its GGUF, name the file: {ggufs[0]}")
    raise ModelError(f"{path} is no model folder: it has no *.safetensors")


def damage(path: Path) -> str | None:
    """What is wrong with a model's folder, by its config, index and what its safetensors say of themselves; or None."""
    named: set[str] = set()
    for file in (path / "config.json", path / INDEX):
        # Where all weights are in one file, that one is loaded, whatever an index says.
        if not file.is_file() or (file.name == INDEX and (path / "model.safetensors").is_file()):
            continue
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
            named = {str(name) for name in said["weight_map"].values()} if file.name == INDEX else set()
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return f"{file} is damaged: it can't be read as JSON, or says nothing of what it should"
    if missing := sorted(name for name in named if not (path / name).is_file()):
        return f"{path} lacks {', '.join(missing)}"
    for file in sorted(path.glob("*.safetensors")):
        try:
            safe_open(file, "np")
        except (SafetensorError, OSError) as error:
            return f"{file} is damaged or cut short: {error}"
    return None


def remove(model_id: str, models_dir: Path) -> int:
    """Delete what was fetched of this model, finished or not, and say how many bytes that was. Raises ModelError."""
    freed = 0
    with locked(model_id, models_dir):
        for folder in (folder_of(model_id, models_dir), staging_of(model_id, models_dir)):
            if folder.is_symlink():
                # A link that the user put there: the weights behind it are not ours.
                folder.unlink()
            elif folder.is_dir():
                freed += tree_size(folder)
                try:
                    shutil.rmtree(folder)
                except OSError as error:  # Windows keeps what an engine has open
                    reason = error.strerror or str(error)
                    raise ModelError(f"{folder} can't be removed: {reason}; stop the engine that uses it") from error
    return freed
