"""The small LM behind its drafter: writes tokens one by one with a KV cache of its own, and knows what they cost."""

import time
from collections.abc import Mapping, Sequence

import torch

from speculation.models.cached_lm import CachedLM
from speculation.models.verify import Noise, distribution, draw, penalized
from speculation.types import Distribution, Draft, Sampling

TIME_WEIGHT = 0.2
"""How much a new measurement moves the kept seconds per token (exponential moving average)."""


class TorchSmallLM:
    """Drafts for one request. Under greedy decoding its own first choices, else samples with their q."""

    def __init__(self, lm: CachedLM, sampling: Sampling, pass_s: Mapping[int, float], n_vocab: int) -> None:
        """pass_s: seconds of a pass over q positions, by q; needs q = 1 and one larger. n_vocab: the target's logits.

        Models of one family pad the same vocabulary differently: ids that only one of the two has are never drafted,
        and never shown to the small LM.
        """
        self._lm = lm
        self._sampling = sampling
        self._noise = Noise(sampling.seed, "draft")
        self._n_vocab = n_vocab
        self._token_s = pass_s[1]
        longest = max(pass_s)
        self._prefill_token_s = pass_s[longest] / longest

    def n_behind(self, prefix: Sequence[int]) -> int:
        """Tokens of prefix that must be fed before the first draft token, less the one that always is."""
        return max(0, len(prefix) - 1 - self._lm.n_held(self._readable(prefix)))

    def token_s(self) -> float:
        """Seconds to draft one token."""
        return self._token_s

    def prefill_s(self, n_tokens: int) -> float:
        """Seconds to catch up with so many tokens."""
        return n_tokens * self._prefill_token_s

    def draft(self, prefix: Sequence[int], n_tokens: int) -> Draft:
        """n_tokens tokens; catches up with the prefix first."""
        text = self._readable(prefix)
        for _ in self._lm.prefill(text[:-1]):
            pass
        token_ids: list[int] = []
        q: list[Distribution | None] = []
        started = time.perf_counter()
        for _ in range(n_tokens):
            token, q_token = self._write(self._lm.logits(text, ())[:, : self._n_vocab], text)
            token_ids.append(token)
            q.append(q_token)
            text.append(token)
        if n_tokens:
            self._token_s += TIME_WEIGHT * ((time.perf_counter() - started) / n_tokens - self._token_s)
        return Draft(tuple(token_ids), "lm", 0, tuple(q))

    def _write(self, logits: torch.Tensor, text: Sequence[int]) -> tuple[int, Distribution | None]:
        logits = penalized(logits, self._sampling, text)
        if self._sampling.temperature == 0:
            # A greedy target keeps a token if it is its own first choice, whatever q says.
            return int(logits.argmax()), None
        q = distribution(logits, self._sampling)
        share, _ = self._noise.at(len(text))
        return draw(q, [share])[0], q[0]

    def _readable(self, prefix: Sequence[int]) -> list[int]:
        n_vocab = self._lm.n_vocab
        return [token if token < n_vocab else 0 for token in prefix]
