"""Where in the source does the output stand? A token-level cursor that re-aligns at once after a departure.

Works on token ids; knows no tokenizer and no model. Worked example, source a b c d e f, output so far a b X:
the target wrote X where c was expected (place 2). X may replace c (resume at d, place 3), be inserted before it
(resume at c, place 2) or stand elsewhere in the source. Each place is scored by the exact suffix that it shares with
the output, by how alike the two contexts are (rapidfuzz), by its distance from where the cursor stood, by whether
both stand at the start of a line, and by whether the place was copied before. The weights of the score were fitted to
edits from public git repositories (git_*) by coordinate ascent on the mean of log(1 + tokens right).
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from math import log1p

from rapidfuzz.distance import LCSseq

WINDOW = 24
"""Tokens of context that are compared."""
N_NEAR = 16
"""Candidates on either side of the expected place that share the output's last token."""
N_LINES = 4
"""Line starts on either side that are candidates when the output stands at one."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the source at which the output may go on, and what speaks for it."""

    position: int
    match_len: int
    """Tokens just before the position that equal the end of the output (at most WINDOW after a departure)."""
    score: float
    """Comparable between places after a departure; about -3 (a guess) to 14 (a long match)."""


class Aligner:
    """Follows the output through the source. line_ends: the tokens behind which a line starts."""

    def __init__(self, source: Sequence[int], line_ends: Collection[int] = ()) -> None:
        self._source = list(source)
        self._line_ends = line_ends
        self._after: dict[int, list[int]] = {}
        for position, token in enumerate(self._source, start=1):
            self._after.setdefault(token, []).append(position)
        self._line_starts = [0, *(p for p, token in enumerate(self._source, start=1) if token in line_ends)]
        self._tail: list[int] = []  # the last WINDOW output tokens
        self._copied: set[int] = set()  # where the output has followed, or agreed when it came back
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
        """An aligner that stands where this one does and goes its own way; the source is shared."""
        fork = copy(self)
        fork._tail, fork._copied = list(self._tail), set(self._copied)
        return fork

    def observe(self, token_ids: Sequence[int]) -> None:
        """Advance by tokens that the target has written in one pass.

        A place is looked for once, before them: where the output comes back in their midst, the next best() finds it.
        """
        if not token_ids:
            return
        place = self.best()
        for token in token_ids:
            if place is not None and place.position < len(self._source) and self._source[place.position] == token:
                self._copied.add(place.position)
                place = Place(place.position + 1, place.match_len + 1, place.score)
                self._expected, self._n_departed, self._run = place.position, 0, place.match_len
            else:
                self._n_departed += 1
                place = None
        self._tail = [*self._tail, *token_ids][-WINDOW:]
        self._realigned = None

    def best(self) -> Place | None:
        """The likeliest place to go on from; None at the end of the source or when nothing fits."""
        if not self._n_departed:
            return Place(self._expected, self._run, 0.0) if self._expected < len(self._source) else None
        if self._realigned is None:
            places = (self._place(p) for p in self._candidates() if 0 <= p < len(self._source))
            self._realigned = max(places, key=lambda place: (place.score, place.position), default=None)
        return self._realigned

    def _candidates(self) -> set[int]:
        last = self._tail[-1]
        substituted = self._expected + self._n_departed
        found = {self._expected, substituted - 1, substituted, substituted + 1}
        found.update(_nearest(self._after.get(last, []), substituted, N_NEAR))
        if last in self._line_ends:
            found.update(_nearest(self._line_starts, substituted, N_LINES))
        return found

    def _place(self, position: int) -> Place:
        source, tail = self._source, self._tail
        before = source[max(0, position - len(tail)) : position]
        match_len = 0
        for ours, theirs in zip(reversed(before), reversed(tail), strict=False):
            if ours != theirs:
                break
            match_len += 1
        substituted = self._expected + self._n_departed
        score = 3.8 * LCSseq.similarity(before, tail) / len(tail)
        score += 0.2 * log1p(len(self._after[source[position]]))  # a frequent token is likelier
        if position in self._copied:
            score -= 0.6
        if match_len:
            score += 3.0 * log1p(match_len) - 0.3 * log1p(abs(position - substituted))
        else:
            n_starts = (tail[-1] in self._line_ends) + (position == 0 or source[position - 1] in self._line_ends)
            score += (-2.5, -3.3, -0.2)[n_starts] + 0.2 * (position == substituted)
        return Place(position, match_len, score)


def _nearest(positions: Sequence[int], expected: int, n: int) -> Sequence[int]:
    """At most n of the sorted positions on either side."""
    middle = bisect_left(positions, expected)
    return positions[max(0, middle - n) : middle + n]
