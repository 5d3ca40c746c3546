"""Where in the source does the output stand? A token-level cursor that re-aligns at once after a departure.

Works on token ids; knows no tokenizer and no model. Worked example, source a b c d e f, output so far a b X:
the target wrote X where c was expected (place 2). X may replace c (resume at d, place 3), be inserted before it
(resume at c, place 2) or stand elsewhere in the source. Each place is scored by the exact suffix that it shares with
the output, by how alike the two contexts are (rapidfuzz), and by its distance from where the cursor stood.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from rapidfuzz.distance import LCSseq

WINDOW = 24
"""Tokens of context that are compared."""
N_SCORED = 48
"""Candidates that get the fuzzy comparison; the ones nearest to the cursor when there are more."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the source at which the output may go on, and what speaks for it."""

    position: int
    match_len: int
    """Tokens just before the position that equal the end of the output (at most WINDOW)."""
    score: float


class Aligner:
    """Follows the output through the source."""

    def __init__(self, source: Sequence[int]) -> None:
        self._source = list(source)
        self._output: list[int] = []
        self._after: dict[int, list[int]] = {}
        for position, token in enumerate(self._source, start=1):
            self._after.setdefault(token, []).append(position)
        self._expected = 0  # where the last departure took place, or the cursor while the output follows
        self._n_departed = 0  # output tokens since that departure; 0 while the output follows
        self._run = 0
        self._realigned: Place | None = None  # kept until the next token: propose and observe both ask

    @property
    def source(self) -> Sequence[int]:
        """The source's token ids."""
        return self._source

    @property
    def is_following(self) -> bool:
        """Whether the last output token was the source's at the cursor; at the very start, yes."""
        return self._n_departed == 0

    def fork(self) -> "Aligner":
        """An aligner that stands where this one does and goes its own way; the source is shared. O(WINDOW)."""
        fork = copy(self)
        fork._output = self._output[-WINDOW:]
        return fork

    def observe(self, token_ids: Sequence[int]) -> None:
        """Advance by tokens that the target has written."""
        for token in token_ids:
            self._advance(token)

    def _advance(self, token: int) -> None:
        if self._n_departed:
            place = self.best()
            if place is not None and self._agrees(place.position, token):
                self._expected, self._n_departed, self._run = place.position + 1, 0, place.match_len + 1
            else:
                self._n_departed += 1
        elif self._agrees(self._expected, token):
            self._expected += 1
            self._run += 1
        else:
            self._n_departed, self._run = 1, 0
        self._output.append(token)
        self._realigned = None

    def _agrees(self, position: int, token: int) -> bool:
        return position < len(self._source) and self._source[position] == token

    def best(self) -> Place | None:
        """The likeliest place to go on from; None at the end of the source or when nothing fits."""
        if not self._n_departed:
            return Place(self._expected, self._run, 1.0) if self._expected < len(self._source) else None
        if self._realigned is None:
            self._realigned = self._realign()
        return self._realigned

    def _realign(self) -> Place | None:
        output, source = self._output, self._source
        substituted = self._expected + self._n_departed
        candidates = set(self._after.get(output[-1], ()))
        if len(candidates) > N_SCORED:
            candidates = set(sorted(candidates, key=lambda p: abs(p - substituted))[:N_SCORED])
        candidates |= {self._expected, substituted}
        tail = output[-WINDOW:]
        places = (self._place(p, tail, substituted) for p in candidates if p < len(source))
        return max(places, key=lambda place: (place.score, place.position), default=None)

    def _place(self, position: int, tail: list[int], substituted: int) -> Place:
        source = self._source
        before = source[max(0, position - len(tail)) : position]
        match_len = 0
        for ours, theirs in zip(reversed(before), reversed(tail), strict=False):
            if ours != theirs:
                break
            match_len += 1
        alike = LCSseq.similarity(before, tail) / max(1, len(tail))
        distance = abs(position - substituted)
        score = min(match_len, 12) + 8.0 * alike - 1.5 * (distance + 1) ** 0.25
        return Place(position, match_len, score)
