"""How likely is the next drafted token accepted? Counts per position, and estimates that lean on each other.

Acceptance is counted per position: of the drafted tokens that were tested (all before the first rejection, and it),
how many were accepted, per (draft source, file type, match-length bucket). accepted / drafted would be biased:
tokens behind a rejection were never tested. A cell with little data leans on its parent (all file types), that one on
the shipped priors. Knows no database and no tokenizer.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from speculation.priors import BUCKET_EDGES, PRIORS
from speculation.types import Draft

N_PARENT = 20.0
"""Weight of a parent's estimate, in tested tokens."""
N_MEMORY = 4000.0
"""A cell never weighs more than so many tested tokens: older counts fade as new ones come."""
ALL_FILE_TYPES = ""

Cell = tuple[str, str, int]  # source, file type, bucket
Counts = tuple[float, float]  # tested, accepted
NO_COUNTS: Counts = (0.0, 0.0)


def bucket_of(match_len: int) -> int:
    """The match-length bucket: 0, 1, 2, 3, 4-5, 6-7, 8-11 and so on."""
    return bisect_right(BUCKET_EDGES, match_len) - 1


class Acceptance:
    """Counts and estimates of alpha for one request: a target's cells as a Store has them, and what it adds."""

    def __init__(self, file_type: str, cells: Mapping[Cell, Counts] | None = None) -> None:
        self._cells: dict[Cell, Counts] = dict(cells or {})
        self._levels = tuple(dict.fromkeys((ALL_FILE_TYPES, file_type)))
        self._fresh: dict[Cell, Counts] = {}

    def alphas(self, source: str, match_len: int, n_tokens: int) -> list[float]:
        """Per drafted token the probability that it is accepted, given that those before it were."""
        alphas: list[float] = []
        for bucket, start, end in _in_buckets(match_len, n_tokens):
            alphas += [self._alpha(source, bucket)] * (end - start)
        return alphas

    def _alpha(self, source: str, bucket: int) -> float:
        estimate = PRIORS[source][bucket]
        for file_type in self._levels:
            estimate = _shrink(self._cells.get((source, file_type, bucket)), estimate, N_PARENT)
        return estimate

    def surest(self, drafts: Sequence[Draft]) -> Draft:
        """Of several drafts the one that is likeliest right where they part.

        What they share all bring, and what follows the right one can be copied in the next pass, whichever is taken.
        """
        return reduce(self._surer, drafts, Draft())

    def _surer(self, one: Draft, other: Draft) -> Draft:
        n_shared = 0
        for a, b in zip(one.token_ids, other.token_ids, strict=False):
            if a != b:
                break
            n_shared += 1

        def alpha(draft: Draft) -> float:
            has_next = len(draft.token_ids) > n_shared
            return self.alphas(draft.source, draft.match_len + n_shared, 1)[0] if has_next else 0.0

        return max(one, other, key=alpha)

    def observe(self, source: str, match_len: int, n_accepted: int, n_tested: int) -> None:
        """Count one draft: n_tested is n_accepted, plus one when a token was rejected."""
        for bucket, start, end in _in_buckets(match_len, n_tested):
            counts = (float(end - start), float(max(0, min(end, n_accepted) - start)))
            for file_type in self._levels:
                cell = (source, file_type, bucket)
                self._cells[cell] = merged(self._cells.get(cell, NO_COUNTS), counts)
                self._fresh[cell] = merged(self._fresh.get(cell, NO_COUNTS), counts)

    def fresh(self) -> dict[Cell, Counts]:
        """What was counted since the last call, to be merged into what others counted meanwhile."""
        fresh, self._fresh = self._fresh, {}
        return fresh


def _in_buckets(match_len: int, n_tokens: int) -> Iterator[tuple[int, int, int]]:
    """The buckets through which a draft of n_tokens goes: bucket, and from which token to which (excluded)."""
    start = 0
    while start < n_tokens:
        bucket = bucket_of(match_len + start)
        is_last = bucket + 1 == len(BUCKET_EDGES)
        end = n_tokens if is_last else min(n_tokens, BUCKET_EDGES[bucket + 1] - match_len)
        yield bucket, start, end
        start = end


def merged(old: Counts, fresh: Counts) -> Counts:
    """Both together, N_MEMORY tested tokens at most: of the old ones no more is kept than there is room for."""
    keep = min(1.0, max(0.0, N_MEMORY - fresh[0]) / old[0]) if old[0] else 0.0
    return old[0] * keep + fresh[0], old[1] * keep + fresh[1]


def _shrink(counts: Counts | None, parent: float, weight: float) -> float:
    """Posterior mean of a Beta(weight * parent, weight * (1 - parent)) after the counts."""
    tested, accepted = counts or NO_COUNTS
    return (accepted + weight * parent) / (tested + weight)
