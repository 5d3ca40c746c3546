"""Which draft to bet on: every copying source is asked and the surest taken, as far as it pays.

Copies cost nothing to draft; the small LM is priced with its measured seconds per token and with what it takes to
catch up with the prefix, so it stays out where it does not pay. Every copying source is scored on every pass against
the tokens that came out, used or not (full information: Not-a-Bandit, 2025).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Protocol

from speculation.drafters.lm import SmallLM
from speculation.gamma import best_bet
from speculation.survival import Acceptance
from speculation.types import Draft


class Drafter(Protocol):
    """A source of copies: cheap, deterministic, follows the output by what it observes."""

    def propose(self, n_max: int) -> Draft:
        """At most n_max tokens; may be empty."""
        ...

    def observe(self, token_ids: Sequence[int]) -> None:
        """Take in what came out of the target."""
        ...


class DraftChain:
    """Aligned copy, suffix match and small LM behind one propose. cost(q): seconds of a target pass over q tokens."""

    def __init__(
        self,
        copiers: Sequence[Drafter],
        acceptance: Acceptance,
        cost: Callable[[int], float],
        gamma_max: int,
        small_lm: SmallLM | None = None,
    ) -> None:
        self._copiers = copiers
        self._acceptance = acceptance
        self._cost = cost
        self._gamma_max = gamma_max
        self._small_lm = small_lm
        self._proposals: list[Draft] = []

    def propose(self, prefix: Sequence[int], n_max: int) -> Draft:
        """The best bet of at most n_max tokens; empty when plain decoding is expected to be fastest."""
        n_max = min(n_max, self._gamma_max)
        self._proposals = [copier.propose(self._gamma_max) for copier in self._copiers]
        draft = reduce(self._surer, self._proposals, Draft())
        alphas = self._acceptance.alphas(draft.source, draft.match_len, min(n_max, len(draft.token_ids)))
        copied = best_bet(alphas, self._cost)
        best = replace(draft, token_ids=draft.token_ids[: copied.gamma]) if copied.gamma else Draft()
        if self._small_lm is None:
            return best
        alphas = self._acceptance.alphas("lm", 0, n_max)
        setup_s = self._small_lm.prefill_s(self._small_lm.n_behind(prefix))
        bet = best_bet(alphas, self._cost, draft_s=self._small_lm.token_s(), setup_s=setup_s)
        return self._small_lm.draft(prefix, bet.gamma) if bet.rate > copied.rate else best

    def _surer(self, one: Draft, other: Draft) -> Draft:
        """Of two drafts the one that is likelier right where they part.

        What they share both bring, and what follows the right one can be copied in the next pass, whichever is taken.
        """
        n_shared = 0
        for a, b in zip(one.token_ids, other.token_ids, strict=False):
            if a != b:
                break
            n_shared += 1

        def alpha(draft: Draft) -> float:
            has_next = len(draft.token_ids) > n_shared
            return self._acceptance.alphas(draft.source, draft.match_len + n_shared, 1)[0] if has_next else 0.0

        return max(one, other, key=alpha)

    def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
        """Learn from a pass: the draft used, how much of it was kept, and all that came out."""
        for proposal in self._proposals:
            n_tested = min(len(proposal.token_ids), len(token_ids))
            n_agreed = 0
            while n_agreed < n_tested and proposal.token_ids[n_agreed] == token_ids[n_agreed]:
                n_agreed += 1
            self._acceptance.observe(proposal.source, proposal.match_len, n_agreed, min(n_agreed + 1, n_tested))
        if draft.source == "lm":
            # A stop token among the accepted ones cuts the pass short: then no token was refused.
            n_tested = min(n_accepted + 1, len(draft.token_ids), len(token_ids))
            self._acceptance.observe("lm", 0, n_accepted, n_tested)
        for copier in self._copiers:
            copier.observe(token_ids)


class NoDrafts:
    """Plain decoding: gamma = 0 of the same loop."""

    def propose(self, prefix: Sequence[int], n_max: int) -> Draft:
        """Nothing."""
        return Draft()

    def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
        """Nothing to learn."""


class FixedDrafts:
    """One copying source with its own draft length, as the field's prompt lookup has it; for the benchmarks."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter

    def propose(self, prefix: Sequence[int], n_max: int) -> Draft:
        """The drafter's own length, up to n_max."""
        return self._drafter.propose(n_max)

    def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
        """Pass on what came out."""
        self._drafter.observe(token_ids)
