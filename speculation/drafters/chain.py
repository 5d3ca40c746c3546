"""Which draft to bet on: every source is asked, the one with the most expected tokens per second wins.

Copies cost nothing to draft; the small LM is priced with its measured seconds per token and with what it takes to
catch up with the prefix, so it stays out where it does not pay. Every copying source is scored on every pass against
the tokens that came out, used or not (full information: Not-a-Bandit, 2025).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
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
        best, rate = Draft(), 1.0 / self._cost(1)
        for draft in self._proposals:
            n_drafted = min(n_max, len(draft.token_ids))
            bet = best_bet(self._acceptance.alphas(draft.source, draft.match_len, n_drafted), self._cost)
            if bet.rate > rate:
                best, rate = replace(draft, token_ids=draft.token_ids[: bet.gamma]), bet.rate
        if self._small_lm is None:
            return best
        alphas = self._acceptance.alphas("lm", 0, n_max)
        setup_s = self._small_lm.prefill_s(self._small_lm.n_behind(prefix))
        bet = best_bet(alphas, self._cost, draft_s=self._small_lm.token_s(), setup_s=setup_s)
        return self._small_lm.draft(prefix, bet.gamma) if bet.rate > rate else best

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
