"""Three stages, copy -> small LM -> target: drafts that a small LM writes, with copies that it checks itself.

The small LM decodes as the target does: one of its passes checks a copied run and writes the word behind it, so a
draft grows by whole runs and the words between them, and ends in a copy that nobody has checked. It also settles where
copying resumes after a departure. Knows no torch: the model is behind the SmallLM protocol.

Whether one more of its passes pays is decided before every pass, in tokens; the rate R (tokens per second in the long
run) is the price of time. With s the chance that all n tokens of the draft so far are accepted, S_k the survival of the
copy, a the chance that a word of the small LM is accepted, T and T_s the seconds of a target and a small pass:

    stop here:      max over k of  s (S_1 + ... + S_k) - R (T(n + k + 1) - T(n + 1))
    one more pass:  max over k of  s (S_1 + ... + S_k + a) + W(s a) - R (T_s(k + 1) + seconds to verify what it adds)

W is what the rest of such a draft is worth. In the long run a draft is worth its price, so W(1) = R T(1), what it costs
to begin one. A small pass costs R T_s whatever s is and yields s G tokens, with G its mean yield less their share of
the target's pass. So the value of each falls to nothing at s0 = R T_s / G, and so does the number of those still to
come: W(s) = W(1) ((s - s0) / (1 - s0))^2. On a GPU W is large and s0 small, so the small LM writes on for long; where
R T_s exceeds G it stays out.

The rule sees the entropy of the small LM's distribution, never the token drawn from it: to drop a token for what it is
would make its q a lie.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from speculation.priors import BUCKET_EDGES
from speculation.survival import Acceptance
from speculation.types import Distribution, Draft

ENTROPY_EDGES = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.2, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Nats that part the buckets by which the small LM's words are counted."""
N_COPY_PASS = 10
"""Tokens that a target pass yields by copying alone, roughly."""
READ_CHUNK = 32
"""Tokens whose pass time stands for reading a prompt."""
FIRST_PASSES = 4
"""How many passes of N_COPY_PASS tokens the rate of a request begins with."""
MEAN_WEIGHT = 0.1
"""How much one small pass moves the means kept within a request."""
FIRST_WORDS = 4.0
"""Words for which a request believes the small LM; then what it makes of them counts as well."""
FIRST_YIELD = 4.0
"""Tokens that a small pass is expected to yield before there has been one."""
SLOPE_Q = 10
"""Positions over which the slope of T(q) is taken."""


@dataclass(frozen=True, slots=True)
class Written:
    """What one pass of the small LM yields: copied tokens that it keeps, and a word of its own behind them."""

    token_ids: tuple[int, ...]
    q: tuple[Distribution | None, ...]
    """Its distribution per token; empty under greedy decoding."""
    entropy: float
    """Of its distribution for the last token, in nats."""


class SmallLM(Protocol):
    """A language model with the target's vocabulary and a KV cache of its own that follows the prefix."""

    def n_behind(self, prefix: Sequence[int]) -> int:
        """Tokens of prefix that its KV cache does not hold yet, less the last, which is always fed."""
        ...

    def pass_s(self, q: int) -> float:
        """Seconds of one pass over q tokens, as measured so far."""
        ...

    def write(self, prefix: Sequence[int], copied: Sequence[int]) -> Written:
        """One pass over what it lacks of prefix, and over copied: the tokens that it keeps, and one of its own."""
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
        self._yield = FIRST_YIELD
        self._n_promised = self._n_kept = FIRST_WORDS  # what the estimates promised in this request, and what came
        self._seconds = FIRST_PASSES * cost(N_COPY_PASS + 1)
        self._n_tokens = FIRST_PASSES * N_COPY_PASS

    def draft(self, prefix: Sequence[int], copiers: Sequence[Copier], n_max: int) -> Draft:
        """At most n_max tokens, mixed; empty when the small LM doesn't pay. copiers, behind prefix, are used up."""
        text, survival = list(prefix), 1.0
        parts: list[Draft] = []
        rate = self._n_tokens / self._seconds
        trust = min(1.0, self._n_kept / self._n_promised)
        n_behind = self._small.n_behind(prefix)
        while (n := len(text) - len(prefix)) < n_max:
            copy = self._acceptance.surest([copier.propose(n_max - n) for copier in copiers])
            tail, unchecked = self._stop(copy, survival, n, rate)
            copy, checked = self._go_on(copy, survival, trust * self._word_alpha, n, n_behind, rate)
            if unchecked >= checked:
                parts += [tail] if parts and tail.token_ids else []
                break
            self._seconds += self._small.pass_s(n_behind + len(copy.token_ids) + 1)
            written = self._small.write(text, copy.token_ids[: n_max - n - 1])
            n_behind = 0
            kept, word = written.token_ids[:-1], written.token_ids[-1]
            if kept:
                parts.append(Draft(kept, "checked", copy.match_len, written.q[:-1]))
                survival *= _product(self._acceptance.alphas("checked", copy.match_len, len(kept)))
            bucket = BUCKET_EDGES[bisect_right(ENTROPY_EDGES, written.entropy)]
            parts.append(Draft((word,), "lm", bucket, written.q[-1:]))
            alpha = self._acceptance.alphas("lm", bucket, 1)[0]
            survival *= alpha * trust
            self._word_alpha += MEAN_WEIGHT * (alpha - self._word_alpha)
            self._yield += MEAN_WEIGHT * (len(written.token_ids) - self._yield)
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
        self._n_tokens += len(token_ids)
        self._seconds += self._cost(len(draft.token_ids) + 1)

    def _stop(self, copy: Draft, survival: float, n: int, rate: float) -> tuple[Draft, float]:
        """The copy, as long as it pays unchecked, and what it is worth in tokens."""
        best, best_value, expected = 0, 0.0, 0.0
        for k, alpha in enumerate(self._alphas(copy), start=1):
            survival *= alpha
            expected += survival
            value = expected - rate * (self._cost(n + k + 1) - self._cost(n + 1))
            if value > best_value:
                best, best_value = k, value
        return _cut(copy, best), best_value

    def _go_on(
        self, copy: Draft, survival: float, word_alpha: float, n: int, n_behind: int, rate: float
    ) -> tuple[Draft, float]:
        """The copy, as long as it pays to have the small LM check it, and what that pass is worth in tokens."""
        base = self._cost(n + 1)
        word = survival * word_alpha
        word += self._rest(word, n, rate)
        best, best_value = 0, word - rate * (self._small.pass_s(n_behind + 1) + self._cost(n + 2) - base)
        run, kept = 1.0, 0.0
        for k, alpha in enumerate(self._alphas(copy), start=1):
            run *= alpha
            kept += run
            to_verify = self._cost(n + 2 + round(kept)) - base
            value = word + survival * kept - rate * (self._small.pass_s(n_behind + 1 + k) + to_verify)
            if value > best_value:
                best, best_value = k, value
        return _cut(copy, best), best_value

    def _rest(self, survival: float, n: int, rate: float) -> float:
        """W: what a draft of n tokens with that survival is worth beyond them."""
        token_s = (self._cost(n + SLOPE_Q + 1) - self._cost(n + 1)) / SLOPE_Q
        gain = self._yield * (1.0 - rate * token_s)
        price = rate * self._small.pass_s(round(self._yield))
        if survival * gain <= price:
            return 0.0
        least = price / gain
        return rate * self._cost(1) * ((survival - least) / (1.0 - least)) ** 2

    def _alphas(self, copy: Draft) -> list[float]:
        return self._acceptance.alphas(copy.source, copy.match_len, len(copy.token_ids)) if copy.token_ids else []


def pays_to_read(small_lm: SmallLM, prefix: Sequence[int], n_source: int, cost: Callable[[int], float]) -> bool:
    """Whether a rewrite of n_source tokens gains more by the small LM than it takes to have it read the prefix.

    Rough on purpose: a small pass saves half of a target pass, and copying alone takes one in N_COPY_PASS tokens.
    """
    gain_s = n_source / N_COPY_PASS * (cost(1) / 2 - small_lm.pass_s(1))
    n_behind = small_lm.n_behind(prefix)
    return n_behind == 0 or gain_s > n_behind * small_lm.pass_s(READ_CHUNK) / READ_CHUNK


def _cut(draft: Draft, n_tokens: int) -> Draft:
    return Draft(draft.token_ids[:n_tokens], draft.source, draft.match_len)


def _product(alphas: Sequence[float]) -> float:
    product = 1.0
    for alpha in alphas:
        product *= alpha
    return product
