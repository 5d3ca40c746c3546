"""What `stet doctor` finds of this half: versions, memory, models, engine, database. Starts nothing."""

import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from speculation.cli import stats
from speculation.cli.models import held_by_engine
from speculation.config import PRESETS, models_dir, state_dir
from speculation.errors import StetError
from speculation.models import store
from speculation.models.catalog import model_ids
from speculation.serving import process, runtime

AS_IT_SAYS = "do as it says"
LIBRARIES = ("torch", "transformers")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rewrite needs."""

    what: str
    said: str
    remedy: str | None = None
    """What to do; None where nothing is amiss."""


def findings(model: str) -> Iterator[Finding]:
    """One after another; model: as `stet rewrite` takes it."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    yield Finding("version", f"stet-lsp {version('stet-lsp')}, Python {platform.python_version()}, {libraries}")
    # Imported here: torch and transformers take seconds, and the first line need not wait for them.
    from speculation.models.fit import auto_preset, fit_presets
    from speculation.models.forms import choose_device, is_torch_without_cuda

    if is_torch_without_cuda():
        remedy = "install torch for CUDA, by the command that https://pytorch.org/get-started/locally gives"
        yield Finding("gpu", "NVIDIA's driver is here, but torch was installed without CUDA: the CPU is used", remedy)
    fits, recommended = fit_presets(models_dir(), n_held=held_by_engine("auto"))
    free = f"{store.human_size(fits[0].free_bytes)} free on {fits[0].device}"
    if recommended:
        yield Finding("memory", f"{free}; recommended: {recommended.choice}")
    else:
        yield Finding("memory", f"{free}, too little for any preset", "close other programs, or use a server by URL")
    yield from _models(auto_preset(choose_device("auto"), "auto", models_dir()) if model == "auto" else model)
    yield _engine()
    yield _database()


def _models(ref: str) -> Iterator[Finding]:
    """The target and, of a preset, its small LM."""
    for name in model_ids(ref) if ref in PRESETS else [ref]:
        try:
            path = store.find(name, models_dir())
        except StetError as error:
            if ref in PRESETS:
                yield Finding("model", f"{name} is not fetched", f"stet models fetch {ref}")
            else:
                yield Finding("model", str(error), AS_IT_SAYS)
            continue
        if damage := store.damage(path):
            again = f"stet models remove {name}, then stet models fetch {name}"
            yield Finding("model", damage, again if store.is_ready(path) else "get it anew")
        else:
            yield Finding("model", f"{name}, {_digest(path)}in {path}")


def _digest(path: Path) -> str:
    """Of what was fetched, as it was checked then; nothing for a folder of the user's own."""
    if not store.is_ready(path):
        return ""
    manifest = json.loads((path / store.MANIFEST).read_text("utf-8"))
    return next((f"{key} {manifest[key]}, " for key in ("sha256", "revision") if key in manifest), "")


def _engine() -> Finding:
    started = time.perf_counter()
    try:
        endpoint = process.find()
        said = process.health(endpoint) if endpoint else None
    except StetError as error:
        return Finding("engine", str(error), AS_IT_SAYS)
    if said is None:
        return _absent_engine()
    ms = 1000 * (time.perf_counter() - started)
    facts = f"{said.status}, {said.model} in {said.dtype} on {said.device}, pid {said.pid}, answered in {ms:.0f} ms"
    if said.status == "failed":
        return Finding("engine", f"{facts}: {said.error}", "stet engine stop, then try again")
    return Finding("engine", facts + (f"; {said.trouble}" if said.trouble else ""))


def _absent_engine() -> Finding:
    """Whether there will be one when it is needed, as far as can be told without starting it."""
    folder = runtime.log_path().parent
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        remedy = f"see that you can write into {there}"
        return Finding("engine", f"not running, and can't be started: its log would be in {folder}", remedy)
    if error := process.last_error():
        return Finding("engine", f"not running; the last one gave up: {error}", "mend that; a rewrite starts a new one")
    return Finding("engine", "not running; the first rewrite starts it")


def _database() -> Finding:
    path = state_dir() / "stet.db"
    try:
        n = len({name.removesuffix(" sampled") for name in stats.load(path)["targets"]})
    except StetError as error:
        remedy = f"delete it (it holds counts and seconds, no text), or see that you can write into {path.parent}"
        return Finding("database", str(error), remedy)
    return Finding("database", f"{n} models known, in {path}" if n else "nothing learned yet")
