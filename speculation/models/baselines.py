"""transformers' own ways to decode, on the same weights and the same prompt: what Stet is measured against."""

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from speculation.models.cached_lm import CachedLM

BASELINES: dict[str, Mapping[str, int]] = {
    "greedy": {},
    "prompt lookup": {"prompt_lookup_num_tokens": 10},
    "prompt lookup n=3/32": {"prompt_lookup_num_tokens": 32, "max_matching_ngram_size": 3},
    "assisted": {},
}
"""Options of generate() by the name of the method. Draft lengths that are not named are transformers' defaults."""


@dataclass(frozen=True, slots=True)
class Run:
    """One answer and what it cost."""

    token_ids: tuple[int, ...]
    decode_s: float
    n_passes: int
    n_small_passes: int


class Baselines:
    """Greedy decoding by transformers' generate, from a prompt that is prefilled once for all methods."""

    def __init__(self, target: CachedLM, small_lm: CachedLM | None) -> None:
        self._target = target.model
        self._small = small_lm.model if small_lm else None
        self._stop_ids = sorted(target.stop_ids)

    @property
    def names(self) -> list[str]:
        """The methods that can be run with these models."""
        return [name for name in BASELINES if name != "assisted" or self._small is not None]

    @torch.inference_mode()
    def prefill(self, prompt: Sequence[int]) -> tuple[DynamicCache, float]:
        """The KV cache of all but the last prompt token, and the seconds it took."""
        started = time.perf_counter()
        cache = DynamicCache(config=self._target.config)
        ids = torch.tensor([list(prompt[:-1])], device=self._target.device)
        self._target(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=1)
        if self._target.device.type == "cuda":
            torch.cuda.synchronize()
        return cache, time.perf_counter() - started

    @torch.inference_mode()
    def run(self, name: str, prompt: Sequence[int], cache: DynamicCache, max_new_tokens: int) -> Run:
        """Decode behind a prefilled prompt; cache is left as it was. The assistant prefills for itself, in decode_s."""
        options: dict[str, Any] = dict(BASELINES[name])
        if name == "assisted":
            options["assistant_model"] = self._small
        ids = torch.tensor([list(prompt)], device=self._target.device)
        warm = copy.deepcopy(cache)
        with _counted(self._target) as passes, _counted(self._small) as small_passes:
            started = time.perf_counter()
            output = self._target.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                cache=warm,
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                repetition_penalty=1.0,
                eos_token_id=self._stop_ids,
                pad_token_id=self._stop_ids[0],
                max_new_tokens=max_new_tokens,
                **options,
            )
            token_ids = tuple(output[0, len(prompt) :].tolist())
            decode_s = time.perf_counter() - started
        return Run(token_ids, decode_s, passes[0], small_passes[0])


def margin(lm: CachedLM, prefix: Sequence[int], token: int, other: int) -> float:
    """How much more the model prefers one token to the other after prefix, in logits."""
    logits = lm.logits(prefix, ())[0].float()
    return float(logits[token] - logits[other])


@contextmanager
def _counted(model: Any) -> Iterator[list[int]]:
    """Count the forward passes of a model."""
    n_passes = [0]
    if model is None:
        yield n_passes
        return

    def count(*_: object) -> None:
        n_passes[0] += 1

    handle = model.register_forward_pre_hook(count)
    try:
        yield n_passes
    finally:
        handle.remove()
