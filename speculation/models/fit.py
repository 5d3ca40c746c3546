"""Which preset suits this machine: what each would take in memory, against what there is, and why one is recommended.

Loads nothing and touches no network. Knows presets, folders and memory; no commands.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig

from speculation.config import PRESETS, EngineConfig, Preset
from speculation.models import store
from speculation.models.catalog import CATALOG, SHAPES, model_ids
from speculation.models.forms import (
    QUANTIZED,
    choose_device,
    choose_dtype,
    choose_small_dtype,
    computed_in,
    has_kernels,
    place_of,
)
from speculation.models.memory import config_of, free_bytes, kv_bytes, other_bytes, total_bytes, weights_bytes

DEFAULT = {"cpu": "small", "cuda": "medium"}
"""A CPU reads a 7B's weights once a pass, seconds each: larger presets fit many laptops, and suit none. On a GPU a
larger one is worth its download only as it is; up to this one it is better to have the larger model in fewer bits."""
SLOW = ("int4", "cpu")
"""Several times slower than int8, and little smaller beside the rest that a process takes."""
N_CONTEXT = 8192
"""Tokens of prompt and answer that a preset is chosen for."""
TOKENIZER_BYTES = 12_000_000
DEFAULTS = EngineConfig()


@dataclass(frozen=True, slots=True)
class Fit:
    """One preset on this machine. Bytes; those of the small LM are in each sum."""

    preset: str
    model: str
    small_lm: str | None
    dtype: str
    """Of the target."""
    with_dtype: str
    """What to ask for as dtype to have it so."""
    context: int
    weights_bytes: int
    kv_bytes: int
    total_bytes: int
    """With what the process and its passes take besides."""
    device: str
    free_bytes: int
    fits: bool
    fetched: bool
    download_bytes: int
    """What is still to be downloaded; 0 when fetched."""
    why: str

    @property
    def choice(self) -> str:
        """In words, what to choose to have it so."""
        return self.preset if self.with_dtype == "auto" else f"{self.preset} with dtype {self.with_dtype}"


def fit_presets(
    models_dir: Path, *, device: str = "auto", dtype: str = "auto", n_context: int = N_CONTEXT, n_held: int = 0
) -> tuple[list[Fit], Fit | None]:
    """Every preset, smallest first, and the recommended one; None when none fits.

    With dtype "auto" a preset that doesn't fit as it is is tried in int8, and on a GPU in int4. n_held: memory that
    will be free besides, because who holds it leaves first. Raises ConfigError.
    """
    place = choose_device(device)
    fits = []
    for preset in PRESETS.values():
        size = asked = _size(preset, dtype, place, n_context, models_dir)
        free = free_bytes(asked.place) + n_held
        if dtype == "auto" and asked.total > free:
            forms = (form for form in QUANTIZED if has_kernels(form, place) and (form, place.type) != SLOW)
            others = (_size(preset, form, place, n_context, models_dir) for form in forms)
            size = next((other for other in others if other.total <= free_bytes(other.place) + n_held), asked)
            free = free_bytes(size.place) + n_held
        missing = [name for name in model_ids(preset.name) if not store.is_ready(store.folder_of(name, models_dir))]
        fits.append(
            Fit(
                preset=preset.name,
                model=preset.target,
                small_lm=preset.small_lm,
                dtype=size.form,
                with_dtype=size.dtype,
                context=n_context,
                weights_bytes=size.weights,
                kv_bytes=size.kv,
                total_bytes=size.total,
                device=str(place),
                free_bytes=free,
                fits=size.total <= free,
                fetched=not missing,
                # The hub has bfloat16.
                download_bytes=sum(
                    CATALOG[name].n_bytes
                    if name in CATALOG
                    else weights_bytes(_config(name, models_dir), "bfloat16") + TOKENIZER_BYTES
                    for name in missing
                ),
                why=_why(preset, size, free, place),
            )
        )
    sensible = [fit for fit in fits if fit.fits and (_is_up_to_default(fit.preset, place) or _is_worth_it(fit, place))]
    return fits, sensible[-1] if sensible else None


def auto_preset(device: torch.device, dtype: str, models_dir: Path) -> str:
    """The preset that model "auto" stands for: the device's own, or "small" on a GPU that has no room for it.

    The memory that a GPU has counts, not what is free of it: what "auto" is must not change from day to day.
    """
    if device.type != "cuda":
        return DEFAULT["cpu"]
    size = _size(PRESETS[DEFAULT["cuda"]], dtype, device, N_CONTEXT, models_dir)
    return DEFAULT["cuda"] if size.total <= total_bytes(size.place) else DEFAULT["cpu"]


class _Size(NamedTuple):
    """Bytes, with the small LM's."""

    dtype: str
    """As it is asked for."""
    form: str
    """What that is for the target's weights here."""
    place: torch.device
    weights: int
    kv: int
    total: int
    """With what the process and its passes take besides."""


def _size(preset: Preset, dtype: str, device: torch.device, n_context: int, models_dir: Path) -> _Size:
    target = _config(preset.target, models_dir)
    form, small_form = choose_dtype(dtype, device), choose_small_dtype(dtype, device)
    n_weights = weights_bytes(target, form)
    n_kv = kv_bytes(target, computed_in(form, device), n_context, DEFAULTS.kv_budget_bytes)
    if preset.small_lm:
        small = _config(preset.small_lm, models_dir)
        n_weights += weights_bytes(small, small_form)
        n_kv += kv_bytes(small, computed_in(small_form, device), n_context, DEFAULTS.small_kv_budget_bytes)
    return _Size(dtype, form, place_of(form, device), n_weights, n_kv, n_weights + n_kv + other_bytes(target, device))


def _config(model_id: str, models_dir: Path) -> Any:
    """Of the model as it is there; else as the catalogue knows it."""
    folder = store.folder_of(model_id, models_dir)
    if store.is_ready(folder):
        with suppress(OSError, ValueError):  # damaged: `stet doctor` must be able to say so
            return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return config_of(SHAPES[model_id])


def _is_up_to_default(preset: str, device: torch.device) -> bool:
    names = list(PRESETS)
    return names.index(preset) <= names.index(DEFAULT["cuda" if device.type == "cuda" else "cpu"])


def _is_worth_it(fit: Fit, device: torch.device) -> bool:
    """Of a preset beyond the device's own."""
    return device.type != "cpu" and fit.dtype not in QUANTIZED


def _why(preset: Preset, size: _Size, free: int, device: torch.device) -> str:
    sizes = f"takes {store.human_size(size.total)}, {store.human_size(free)} are free"
    if size.total > free:
        return f"does not fit: {sizes}"
    fits = "fits" if size.dtype == "auto" else f"fits with dtype {size.dtype}"
    slow = "; slow without a GPU" if device.type == "cpu" and not _is_up_to_default(preset.name, device) else ""
    return f"{fits}: {sizes}{slow}"
