"""transformers' own ways to decode, on the same weights and the same prompt: what Stet is measured against."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList

from speculation.models.cached_lm import CachedLM, wait_for

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
    total_s: float
    decode_s: float
    """After the first pass, which reads the prompt (and writes the first tokens)."""
    n_passes: int
    n_small_passes: int


class Baselines:
    """Greedy decoding by transformers' generate."""

    def __init__(self, target: CachedLM, small_lm: CachedLM | None) -> None:
        self._target = target.model
        self._small = small_lm.model if small_lm else None
        self._stop_ids = sorted(target.stop_ids) or [target.n_vocab - 1]  # of the padding: no text ends with it

    @property
    def names(self) -> list[str]:
        """The methods that can be run with these models."""
        return [name for name in BASELINES if name != "assisted" or self._small is not None]

    @torch.inference_mode()
    def run(
        self, name: str, prompt: Sequence[int], max_new_tokens: int, processor: LogitsProcessor | None = None
    ) -> Run:
        """Decode from a cold start, as generate does it; a processor changes the logits of all models."""
        options: dict[str, Any] = dict(BASELINES[name])
        if name == "assisted":
            options["assistant_model"] = self._small
        ids = torch.tensor([list(prompt)], device=self._target.device)
        with _passes(self._target) as passes, _passes(self._small) as small_passes:
            started = time.perf_counter()
            # No KV cache is passed in: behind one that is already filled, prompt lookup and assisted decoding in
            # transformers 5.24 wrote other tokens than greedy decoding, by margins of 13 logits and more.
            output = self._target.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                repetition_penalty=1.0,
                eos_token_id=self._stop_ids,
                pad_token_id=self._stop_ids[0],
                max_new_tokens=max_new_tokens,
                logits_processor=LogitsProcessorList([processor] if processor else []),
                **options,
            )
            # A decoder beside an encoder begins with its start token.
            n_before = 1 if self._target.config.is_encoder_decoder else len(prompt)
            token_ids = tuple(output[0, n_before:].tolist())
            ended = time.perf_counter()
        return Run(token_ids, ended - started, ended - passes[0], len(passes), len(small_passes))


def margin(lm: CachedLM, prompt: Sequence[int], written: Sequence[int], token: int, other: int) -> float:
    """How much more the model prefers one token to the other after what it has written, in logits."""
    logits = lm.reading(prompt).logits([*lm.begin(prompt), *written], ())[0].float()
    return float(logits[token] - logits[other])


@contextmanager
def _passes(model: Any) -> Iterator[list[float]]:
    """The times at which the forward passes of a model end."""
    ends: list[float] = []
    if model is None:
        yield ends
        return

    def note(*_: object) -> None:
        wait_for(model.device)
        ends.append(time.perf_counter())

    handle = model.register_forward_hook(note)
    try:
        yield ends
    finally:
        handle.remove()
