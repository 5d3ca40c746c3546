"""Drafts written by a small language model. Knows no torch: the model is behind the SmallLM protocol."""

from collections.abc import Sequence
from typing import Protocol

from speculation.types import Draft


class SmallLM(Protocol):
    """A language model with the target's vocabulary and a KV cache of its own that follows the prefix."""

    def n_behind(self, prefix: Sequence[int]) -> int:
        """Tokens of prefix that its KV cache does not hold yet."""
        ...

    def token_s(self) -> float:
        """Seconds to draft one token, as measured so far."""
        ...

    def prefill_s(self, n_tokens: int) -> float:
        """Seconds to catch up with so many tokens of prefix, as measured so far."""
        ...

    def draft(self, prefix: Sequence[int], n_tokens: int) -> Draft:
        """n_tokens tokens sampled from its own distribution, each with its q (none under greedy decoding)."""
        ...
