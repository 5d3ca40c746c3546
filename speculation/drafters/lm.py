"""Three stages, copy -> small LM -> target: drafts that a small LM writes, with copies that it checks itself.

The small LM decodes as the target does: one of its passes checks a copied run and writes the word behind it, so a
draft grows by whole runs and the words between them, and ends in a copy that nobody has checked. It also settles where
copying resumes after a departure. Knows no torch: the model is behind the SmallLM protocol.

Whether one more of its passes pays is decided before every pass. Both models have a plan to get through the copied run
that comes next (speculation.gamma.plan_run), so many seconds each, until the run is over and the word behind it is
written. With n tokens in the draft so far, s the chance that all of them are accepted, a the chance that a word of the
small LM is, and L the expected length of the run:

    by the target:    seconds of its plan, whose first pass checks the n tokens as well, less T(n + 1)
    by the small LM:  seconds of its plan, and what L + 1 more tokens cost the target, T(n + L + 2) - T(n + 1)

Where the small LM does it and all holds, the draft goes on and one target pass is saved: T(1) (s a)^3 is taken off. The
cube was found by replay: far out the chance is overestimated, for words that follow each other err together.

The rule sees the entropy of the small LM's distribution, never the token drawn from it: to drop a token for what it is
would make its q a lie.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

from speculation.gamma import plan_run
from speculation.priors import BUCKET_EDGES
from speculation.survival import Acceptance
from speculation.types import Distribution, Draft

ENTROPY_EDGES = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.2, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Nats that part the buckets by which the small LM's words are counted."""
N_COPY_PASS = 10
"""Tokens that a target pass yields by copying alone, roughly."""
READ_CHUNK = 32
"""Tokens whose pass time stands for reading a prompt."""
MEAN_WEIGHT = 0.1
"""How much one small pass moves the means kept within a request."""
FIRST_WORDS = 4.0
"""Words for which a request believes the small LM; then what it makes of them counts as well."""
CAUTION = 3
"""The power of s a: see above."""


@dataclass(frozen=True, slots=True)
class Written:
    """What one pass of the small LM yields: copied tokens that it keeps, and a word of its own behind them."""

    token_ids: tuple[int, ...]
    q: tuple[Distribution | None, ...]
    """Its distribution per token; empty under greedy decoding."""
    entropy: float
    """Of its distribution for the last token, in nats."""


class SmallLMFailed(Exception):
    """A pass of the small LM broke off, for want of memory most likely. The rewrite goes on without it."""


class SmallLM(Protocol):
    """A language model with the target's vocabulary and a KV cache of its own that follows the prefix."""

    def n_behind(self, prefix: Sequence[int]) -> int:
        """Tokens of prefix that its KV cache does not hold yet, less the last, which is always fed."""
        ...

    def pass_s(self, q: int) -> float:
        """Seconds of one pass over q tokens, as measured so far."""
        ...

    def write(self, prefix: Sequence[int], copied: Sequence[int]) -> Written:
        """One pass over what it lacks of prefix, and over copied: the tokens that it keeps, and one of its own.

        Raises SmallLMFailed.
        """
        ...

    def is_end(self, token: int) -> bool:
        """Whether nothing comes behind this token."""
        ...


class Copier(Protocol):
    """A source of copies at some point of the output, or of a supposed one."""

    def propose(self, n_max: int) -> Draft:
        """At most n_max tokens; may be empty."""
        ...

    def observe(self, token_ids: Sequence[int]) -> None:
        """Take in what comes out, or is supposed to."""
        ...


class Stages:
    """Writes mixed drafts for one request. cost(q): seconds of a target pass over q tokens."""

    def __init__(self, small_lm: SmallLM, acceptance: Acceptance, cost: Callable[[int], float]) -> None:
        self._small = small_lm
        self._acceptance = acceptance
        self._cost = cost
        self._word_alpha = acceptance.alphas("lm", 0, 1)[0]
        self._n_promised = self._n_kept = FIRST_WORDS  # what the estimates promised in this request, and what came

    def draft(self, prefix: Sequence[int], copiers: Sequence[Copier], n_max: int) -> Draft:
        """At most n_max tokens, mixed; empty when the small LM doesn't pay. copiers, behind prefix, are used up.

        Raises SmallLMFailed.
        """
        text, survival = list(prefix), 1.0
        parts: list[Draft] = []
        trust = min(1.0, self._n_kept / self._n_promised)
        n_behind = self._small.n_behind(prefix)
        while (n := len(text) - len(prefix)) < n_max:
            copy = self._acceptance.surest([copier.propose(n_max - n) for copier in copiers])
            alphas = self._acceptance.alphas(copy.source, copy.match_len, len(copy.token_ids))
            by_target = plan_run(alphas, self._cost, n_held=n, chance=survival)
            by_small = plan_run(alphas, self._small.pass_s, n_held=n_behind)
            to_check_s = self._cost(n + 2 + round(by_small.n_expected)) - self._cost(n + 1)
            saved_s = self._cost(1) * (survival * trust * self._word_alpha) ** CAUTION
            if by_target.seconds - self._cost(n + 1) <= by_small.seconds + to_check_s - saved_s:
                if parts and by_target.gamma:
                    parts.append(copy.cut(by_target.gamma))
                break
            written = self._small.write(text, copy.token_ids[: min(by_small.gamma, n_max - n - 1)])
            n_behind = 0
            kept, word = written.token_ids[:-1], written.token_ids[-1]
            if kept:
                parts.append(replace(copy.cut(len(kept)), source="checked", q=written.q[:-1]))
                survival *= prod(self._acceptance.alphas("checked", copy.match_len, len(kept)))
            bucket = BUCKET_EDGES[bisect_right(ENTROPY_EDGES, written.entropy)]
            parts.append(Draft((word,), "lm", bucket, written.q[-1:]))
            alpha = self._acceptance.alphas("lm", bucket, 1)[0]
            survival *= alpha * trust
            self._word_alpha += MEAN_WEIGHT * (alpha - self._word_alpha)
            text += written.token_ids
            for copier in copiers:
                copier.observe(written.token_ids)
            if self._small.is_end(word):
                break
        return Draft.mixed(parts)

    def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
        """Learn from a pass, whoever made its draft."""
        for part, n_kept, n_tested in draft.judged(n_accepted, len(token_ids)):
            if part.source == "lm":
                self._n_promised += self._acceptance.alphas("lm", part.match_len, 1)[0]
                self._n_kept += n_kept
            if part.source in ("lm", "checked"):
                self._acceptance.observe(part.source, part.match_len, n_kept, n_tested)


def pays_to_read(small_lm: SmallLM, prefix: Sequence[int], n_source: int, cost: Callable[[int], float]) -> bool:
    """Whether a rewrite of n_source tokens gains more by the small LM than it takes to have it read the prefix.

    Rough on purpose: a small pass saves half of a target pass, and copying alone takes one in N_COPY_PASS tokens.
    """
    gain_s = n_source / N_COPY_PASS * (cost(1) / 2 - small_lm.pass_s(1))
    n_behind = small_lm.n_behind(prefix)
    return n_behind == 0 or gain_s > n_behind * small_lm.pass_s(READ_CHUNK) / READ_CHUNK
