"""Drafts copied from the source at the aligned cursor. Works on token ids; knows no tokenizer and no model."""

from collections.abc import Collection, Sequence
from copy import copy

from speculation.alignment import Aligner
from speculation.types import Draft

N_GRADES = 7
"""Places found after a departure are graded by their score, so that alpha is learned for each grade by itself."""


class CopyDrafter:
    """Copies on from where the output stands in the source ("copy"); after a departure, from the likeliest place.

    Then the source of the draft is "realign0" (a guess) to "realign6" (a long match in the right place).
    line_ends: the tokens behind which a line starts.
    """

    def __init__(self, source: Sequence[int], line_ends: Collection[int] = ()) -> None:
        self._aligner = Aligner(source, line_ends)

    def fork(self) -> "CopyDrafter":
        """A drafter for a supposed continuation: it observes and proposes like this one and leaves this one alone."""
        fork = copy(self)
        fork._aligner = self._aligner.fork()
        return fork

    def observe(self, token_ids: Sequence[int]) -> None:
        """Move the cursor by what came out of the target in one pass."""
        self._aligner.observe(token_ids)

    def propose(self, n_max: int) -> Draft:
        """At most n_max tokens; empty past the end of the source. O(window) after a departure, else O(n_max)."""
        place = self._aligner.best()
        if place is None:
            return Draft()
        token_ids = self._aligner.source[place.position : place.position + n_max]
        grade = min(N_GRADES - 1, max(0, round(place.score) + 1))
        return Draft(tuple(token_ids), "copy" if self._aligner.is_following else f"realign{grade}", place.match_len)
