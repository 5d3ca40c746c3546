"""Which draft to bet on: every copying source is asked and the surest taken, as far as it pays.

Where the small LM pays it writes the draft, copies included; else a copy goes to the target unchecked. Every copying
source is scored on every pass against the tokens that came out, used or not (full information: Not-a-Bandit, 2025).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from speculation.drafters.lm import Copier, SmallLM, SmallLMFailed, Stages
from speculation.gamma import best_bet
from speculation.survival import Acceptance
from speculation.types import Draft


class Drafter(Copier, Protocol):
    """A source of copies: cheap, deterministic, follows the output by what it observes."""

    def fork(self) -> Copier:
        """One like it for a supposed continuation."""
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
        self._stages = Stages(small_lm, acceptance, cost) if small_lm else None
        self._proposals: list[Draft] = []

    def propose(self, prefix: Sequence[int], n_max: int) -> Draft:
        """The best bet of at most n_max tokens; empty when plain decoding is expected to be fastest."""
        n_max = min(n_max, self._gamma_max)
        self._proposals = [copier.propose(self._gamma_max) for copier in self._copiers]
        if self._stages:
            try:
                draft = self._stages.draft(prefix, [copier.fork() for copier in self._copiers], n_max)
            except SmallLMFailed:
                self._stages = None
            else:
                if draft.parts:
                    return draft
        draft = self._acceptance.surest(self._proposals)
        alphas = self._acceptance.alphas(draft.source, draft.match_len, min(n_max, len(draft.token_ids)))
        copied = best_bet(alphas, self._cost)
        return draft.cut(copied.gamma) if copied.gamma else Draft()

    def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
        """Learn from a pass: the draft used, how much of it was kept, and all that came out."""
        for proposal in self._proposals:
            n_tested = min(len(proposal.token_ids), len(token_ids))
            n_agreed = 0
            while n_agreed < n_tested and proposal.token_ids[n_agreed] == token_ids[n_agreed]:
                n_agreed += 1
            self._acceptance.observe(proposal.source, proposal.match_len, n_agreed, min(n_agreed + 1, n_tested))
        if self._stages:
            self._stages.observe(draft, n_accepted, token_ids)
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

    def __init__(self, drafter: Copier) -> None:
        self._drafter = drafter

    def propose(self, prefix: Sequence[int], n_max: int) -> Draft:
        """The drafter's own length, up to n_max."""
        return self._drafter.propose(n_max)

    def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
        """Pass on what came out."""
        self._drafter.observe(token_ids)
