"""A finished greedy answer scored again by plain passes: is each token the first choice of the target itself, or not.

Speculative decoding scores many positions in one pass, plain decoding one. In float32 both choose the same token; in
bfloat16 sums in another order may end on the other side of a near-tie. Knows token ids and logits, no tokenizer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import frexp

import torch

from speculation.models.cached_lm import CachedLM
from speculation.models.forms import QUANTIZED

NEAR_TIE_STEPS = {torch.bfloat16: 4, torch.float16: 16, torch.float32: 64}
"""By dtype of the logits: a margin of so many steps between neighbouring numbers is a near-tie.

About twice what rounding was measured to do to the margin of the first two choices (docs/experiments.md); float16 is a
guess between the others. Where weights are packed, logits are float32.
"""
NEAR_TIE_STEPS_QUANTIZED = 8
"""Of bfloat16, whatever the logits are: an activation that attention's rounding pushes over the edge of an int8 step
moves all that comes after it."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A token that is not the target's first choice in a plain pass."""

    position: int
    """In the answer, from 0."""
    token: int
    choice: int
    """What plain decoding would have written instead."""
    margin: float
    """By how many logits the choice is ahead of the token."""
    step: float
    """Distance of neighbouring numbers of the logits' dtype, or of bfloat16, at the size of the choice's logit."""
    n_steps_near: int
    """Up to how many steps it is a near-tie."""

    @property
    def is_near_tie(self) -> bool:
        """Whether rounding explains it; else it is a mistake of ours."""
        return self.margin <= self.n_steps_near * self.step


def rescore(
    lm: CachedLM, prompt: Sequence[int], answer: Sequence[int], on_token: Callable[[int], None] = lambda n: None
) -> list[Flip]:
    """Score the answer token by token, one position a pass, from a fresh KV cache. on_token gets the tokens done."""
    lm.forget()
    lm, prefix = lm.reading(prompt), lm.begin(prompt)
    for _ in lm.prefill(prefix[:-1]):
        pass
    flips = []
    for position, token in enumerate(answer):
        logits = lm.logits(prefix, ())[0]  # [vocab]
        choice = int(logits.argmax())
        if choice != token:
            best = float(logits[choice])
            margin = best - float(logits[token])
            dtype, n_steps_near = logits.dtype, NEAR_TIE_STEPS[logits.dtype]
            if lm.dtype in QUANTIZED:
                dtype, n_steps_near = torch.bfloat16, NEAR_TIE_STEPS_QUANTIZED
            flips.append(Flip(position, token, choice, margin, step_at(best, dtype), n_steps_near))
        prefix.append(token)
        on_token(position + 1)
    return flips


def step_at(value: float, dtype: torch.dtype) -> float:
    """The distance of neighbouring numbers of a dtype at the size of value: 0.125 for bfloat16 at 16 to 32."""
    _, exponent = frexp(value)  # value = m * 2 ** exponent, m from 0.5
    return float(torch.finfo(dtype).eps * 2.0 ** (exponent - 1))
