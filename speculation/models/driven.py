"""Real passes whose outcome a recording decides: what a model would cost, without its weights.

A random model of the right shape takes the same time for a pass as the real one. The recorded token is made the first
choice of its row, so the target's check, the drafts and transformers' own loops do all that they do with real weights.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import LogitsProcessor

from speculation.errors import ModelError
from speculation.models import packed
from speculation.models.cached_lm import CachedLM, wait_for
from speculation.models.catalog import SHAPES
from speculation.models.fit import auto_preset
from speculation.models.forms import choose_device
from speculation.models.loading import build_random, load_model, read_config, resolve
from speculation.models.memory import config_of, weights_bytes
from speculation.models.static import StaticLM

RANDOM = "random:"
FIRST_CHOICE = 3e4
"""A logit that no other reaches, and that float16 can hold."""
COPY_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}
"""Far more than a cache holds."""
N_COPIES = 5


class DrivenLM(CachedLM):
    """A CachedLM that writes the recording it was given."""

    _n_prompt = 0
    _recording: Sequence[int] = ()

    def drive(self, n_prompt: int, recording: Sequence[int]) -> None:
        """What to write behind the next prompt, which has n_prompt tokens."""
        self._n_prompt, self._recording = n_prompt, recording

    @torch.inference_mode()
    def logits(self, prefix: Sequence[int], continuation: Sequence[int]) -> torch.Tensor:
        """The pass as ever; then the recorded token is the first choice of each row."""
        rows = super().logits(prefix, continuation)
        at = len(prefix) - self._n_prompt
        chosen = torch.tensor(self._recording[at : at + len(rows)], dtype=torch.long, device=rows.device)
        rows[: len(chosen)].scatter_(1, chosen[:, None], FIRST_CHOICE)
        return rows


class DrivenStaticLM(DrivenLM, StaticLM):
    """The same with passes of a few fixed shapes: on a GPU, captured."""


class Recorded(LogitsProcessor):
    """The same for transformers' generate: the recorded token is the first choice."""

    def __init__(self, n_prompt: int, recording: Sequence[int]) -> None:
        self._n_prompt, self._recording = n_prompt, recording

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """scores: [1, vocab] behind input_ids [1, n]."""
        at = input_ids.shape[1] - self._n_prompt
        if at < len(self._recording):
            scores[:, self._recording[at]] = FIRST_CHOICE
        return scores


def load_for_times(ref: str, models_dir: Path, device: str, dtype: str) -> Any:
    """Real weights, or random ones for random:SIZE and random:FOLDER. Raises ModelError, ConfigError."""
    if ref.startswith(RANDOM):
        return build_random(_random_config(ref.removeprefix(RANDOM)), device, dtype)
    if ref == "auto":
        ref = auto_preset(choose_device(device), dtype, models_dir)
    return load_model(resolve(ref, models_dir), device, dtype)


def _random_config(name: str) -> Any:
    """SIZE is that of a preset's model; of a folder only config.json is read."""
    for model_id, shape in SHAPES.items():
        if f"-{name.upper()}-" in model_id:
            return config_of(shape)
    if not (Path(name) / "config.json").is_file():
        sizes = ", ".join(model_id.split("-")[-2] for model_id in SHAPES)
        raise ModelError(f"no shape {name!r}: wanted one of {sizes} or a folder with a config.json")
    config = read_config(Path(name))
    config.dtype = config.dtype or torch.float32  # as transformers takes a config that doesn't say
    return config


def bytes_read(lm: CachedLM) -> int:
    """Weights that a pass over one position reads: all but the embedding table, of which it takes one row."""
    config: Any = lm.model.config
    form = packed.form(lm.model)
    n_bytes = weights_bytes(config, lm.dtype)
    if config.tie_word_embeddings and form is None:
        return n_bytes  # there the table is the last layer as well
    itemsize = config.dtype.itemsize if form else lm.model.dtype.itemsize
    return n_bytes - int(lm.n_vocab * config.get_text_config().hidden_size * itemsize)


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second that the device's memory moves when it copies, read and written; the best of a few tries."""
    a = torch.ones(COPY_BYTES.get(device.type, COPY_BYTES["cuda"]), dtype=torch.uint8, device=device)
    b = torch.zeros_like(a)
    seconds = []
    for _ in range(N_COPIES):
        wait_for(device)
        started = time.perf_counter()
        b.copy_(a)
        wait_for(device)
        seconds.append(time.perf_counter() - started)
    return 2 * a.numel() / min(seconds)


def peak_bytes(device: torch.device) -> int | None:
    """The most memory of the GPU that this process has held; None on a CPU."""
    return int(torch.cuda.max_memory_reserved(device)) if device.type == "cuda" else None
