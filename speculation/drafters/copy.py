"""Drafts copied from the source at the aligned cursor. Works on token ids; knows no tokenizer and no model."""

from collections.abc import Sequence
from copy import copy

from speculation.alignment import Aligner
from speculation.types import Draft


class CopyDrafter:
    """Copies on from where the output stands in the source; after a departure, from the likeliest place ("realign")."""

    def __init__(self, source: Sequence[int]) -> None:
        self._aligner = Aligner(source)

    def fork(self) -> "CopyDrafter":
        """A drafter for a supposed continuation: it observes and proposes like this one and leaves this one alone."""
        fork = copy(self)
        fork._aligner = self._aligner.fork()
        return fork

    def observe(self, token_ids: Sequence[int]) -> None:
        """Move the cursor by what came out of the target."""
        self._aligner.observe(token_ids)

    def propose(self, n_max: int) -> Draft:
        """At most n_max tokens; empty past the end of the source. O(window) after a departure, else O(n_max)."""
        place = self._aligner.best()
        if place is None:
            return Draft()
        token_ids = self._aligner.source[place.position : place.position + n_max]
        return Draft(tuple(token_ids), "copy" if self._aligner.is_following else "realign", place.match_len)
