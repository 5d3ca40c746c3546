"""The small LM behind its drafter: checks copied runs and writes words, with a KV cache of its own."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch

from speculation.drafters.lm import SmallLMFailed, Written
from speculation.models.cached_lm import CachedLM
from speculation.models.verify import Noise, distribution, penalized, verify_sampled
from speculation.types import Draft, Sampling

logger = logging.getLogger(__name__)


class PassTimes(Protocol):
    """T(q) of the small LM; speculation.gamma.CostCurve."""

    def seconds(self, q: int) -> float: ...
    def observe(self, q: int, seconds: float) -> None: ...


class TorchSmallLM:
    """The small LM for one request. Under greedy decoding it takes its own first choices, else it samples."""

    def __init__(self, lm: CachedLM, sampling: Sampling, cost: PassTimes, n_vocab: int) -> None:
        """cost: its pass times, which real passes correct. n_vocab: length of a row of the target's logits.

        Models of one family pad the same vocabulary differently: ids that only one of the two has are never drafted,
        and never shown to the small LM.
        """
        self._lm = lm
        self._sampling = sampling
        self._noise = Noise(sampling.seed, "draft")
        self._cost = cost
        self._n_vocab = n_vocab
        self.n_passes = 0
        """Passes so far, without prefill."""

    def n_behind(self, prefix: Sequence[int]) -> int:
        """Tokens of prefix that must be fed before the first draft token, less the one that always is."""
        return self._n_behind(self._readable(prefix))

    def _n_behind(self, text: Sequence[int]) -> int:
        return max(0, len(text) - 1 - self._lm.n_held(text))

    def prefill(self, prefix: Sequence[int]) -> Iterator[int]:
        """Feed all of prefix but its last token, in chunks; yields the number of tokens held after each.

        Raises SmallLMFailed.
        """
        with self._failures():
            yield from self._lm.prefill(self._readable(prefix[:-1]))

    def pass_s(self, q: int) -> float:
        """Seconds of one pass over q tokens."""
        return self._cost.seconds(q)

    def is_end(self, token: int) -> bool:
        """Whether an answer ends with this token."""
        return token in self._lm.stop_ids

    def write(self, prefix: Sequence[int], copied: Sequence[int]) -> Written:
        """One pass: exact speculative decoding of the small LM itself, with copied as a draft of point masses.

        Raises SmallLMFailed.
        """
        text = self._readable(prefix)
        n_behind = self._n_behind(text)
        started = time.perf_counter()
        with self._failures():
            logits = self._lm.logits(text, self._readable(copied))[:, : self._n_vocab]  # [len(copied) + 1, vocab]
            logits = penalized(logits, self._sampling, text, copied)
            if self._sampling.temperature == 0:
                written = _write_greedily(logits, copied)
            else:
                written = self._sample(logits, copied, len(prefix))
        self.n_passes += 1
        self._cost.observe(n_behind + len(copied) + 1, time.perf_counter() - started)
        return written

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """What torch raises, as SmallLMFailed. The caches go: most likely memory ran out, and the target needs it."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:  # torch's own out-of-memory errors are RuntimeErrors
            logger.warning("the small LM failed; the rewrite goes on without it", exc_info=True)
            self._lm.forget()
            raise SmallLMFailed from error

    def _sample(self, logits: torch.Tensor, copied: Sequence[int], position: int) -> Written:
        q = distribution(logits, self._sampling)
        verdict = verify_sampled(q, Draft(tuple(copied)), self._noise, position)
        n_kept = verdict.n_accepted
        entropy = float(torch.special.entr(q[n_kept]).sum())
        return Written((*copied[:n_kept], verdict.next_token), tuple(q[: n_kept + 1]), entropy)

    def _readable(self, token_ids: Sequence[int]) -> Sequence[int]:
        n_vocab = self._lm.n_vocab
        if max(token_ids, default=0) < n_vocab:  # nearly always, and a prefix is long
            return token_ids
        return [token if token < n_vocab else 0 for token in token_ids]


def _write_greedily(logits: torch.Tensor, copied: Sequence[int]) -> Written:
    """The first choices, as long as they are the copied tokens, and the one after. One wait for the device."""
    choices = logits.argmax(dim=-1)  # [len(copied) + 1]
    drafted = torch.tensor(copied, dtype=choices.dtype, device=choices.device)
    n_kept = (choices[:-1] == drafted).cumprod(dim=0).sum()
    log_q = logits.index_select(0, n_kept[None])[0].float().log_softmax(dim=-1)
    entropy = -(log_q.exp() * log_q).sum()
    # In one copy to the host: float32 holds every id of a vocabulary, and mps has no float64.
    *numbers, n, nats = torch.cat([choices.float(), n_kept[None].float(), entropy[None]]).tolist()
    token_ids = tuple(int(number) for number in numbers[: int(n) + 1])
    # A greedy target keeps a token if it is its own first choice, whatever q says.
    return Written(token_ids, (), nats)
