"""Which preset suits this machine: what each would take in memory, against what is free, and why one is recommended.

Loads nothing and touches no network. Knows presets, folders and memory; no commands.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from speculation.config import PRESETS, EngineConfig, Preset
from speculation.models import store
from speculation.models.catalog import CATALOG, SHAPES, model_ids
from speculation.models.forms import choose_device, choose_dtype, choose_small_dtype
from speculation.models.memory import config_of, free_bytes, kv_bytes, other_bytes, weights_bytes

LARGEST_ON_CPU = "small"
"""A CPU reads a 7B's weights once a pass, seconds each: larger presets fit many laptops, and suit none."""
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


def fit_presets(
    models_dir: Path, *, device: str = "auto", dtype: str = "auto", n_context: int, n_held: int = 0
) -> tuple[list[Fit], str | None]:
    """Every preset, smallest first, and the name of the recommended one; None when none fits.

    n_held: RAM that will be free besides, because who holds it leaves first. Raises ConfigError.
    """
    place = choose_device(device)
    free = free_bytes(place) + (0 if place.type == "cuda" else n_held)
    form, small_form = choose_dtype(dtype, place), choose_small_dtype(dtype, place)
    weights = cache(lambda model_id, form: weights_bytes(_config(model_id, models_dir), form))
    fits = []
    for preset in PRESETS.values():
        target = _config(preset.target, models_dir)
        n_weights = weights(preset.target, form)
        n_kv = kv_bytes(target, form, n_context, DEFAULTS.kv_budget_bytes)
        if preset.small_lm:
            n_weights += weights(preset.small_lm, small_form)
            small = _config(preset.small_lm, models_dir)
            n_kv += kv_bytes(small, small_form, n_context, DEFAULTS.small_kv_budget_bytes)
        n_total = n_weights + n_kv + other_bytes(target, place)
        missing = [name for name in model_ids(preset.name) if not store.is_ready(store.folder_of(name, models_dir))]
        fits.append(
            Fit(
                preset=preset.name,
                model=preset.target,
                small_lm=preset.small_lm,
                dtype=form,
                context=n_context,
                weights_bytes=n_weights,
                kv_bytes=n_kv,
                total_bytes=n_total,
                device=str(place),
                free_bytes=free,
                fits=n_total <= free,
                fetched=not missing,
                # The hub has bfloat16.
                download_bytes=sum(
                    CATALOG[name].n_bytes if name in CATALOG else weights(name, "bfloat16") + TOKENIZER_BYTES
                    for name in missing
                ),
                why=_why(preset, n_total, free, place),
            )
        )
    sensible = [fit.preset for fit in fits if fit.fits and not _is_slow(fit.preset, place)]
    return fits, sensible[-1] if sensible else None


def _config(model_id: str, models_dir: Path) -> Any:
    """Of the model as it is there; else as the catalogue knows it."""
    folder = store.folder_of(model_id, models_dir)
    if store.is_ready(folder):
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return config_of(SHAPES[model_id])


def _is_slow(preset: str, device: torch.device) -> bool:
    names = list(PRESETS)
    return device.type == "cpu" and names.index(preset) > names.index(LARGEST_ON_CPU)


def _why(preset: Preset, n_total: int, free: int, device: torch.device) -> str:
    sizes = f"takes {store.human_size(n_total)}, {store.human_size(free)} are free"
    if n_total > free:
        return f"does not fit: {sizes}"
    return f"fits: {sizes}" + ("; slow without a GPU" if _is_slow(preset.name, device) else "")
