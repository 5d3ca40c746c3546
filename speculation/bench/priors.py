"""Counts the shipped priors by replay: alpha by draft source and match-length bucket. Knows no file, no tokenizer."""

from speculation.priors import BUCKET_EDGES
from speculation.survival import NO_COUNTS, Acceptance, Counts

N_NEIGHBOUR = 20.0
"""Weight of the estimate for the next shorter match, in tested tokens: a bucket that nothing fell into has it."""


class PriorCounts:
    """What a replay learns, over all its tasks and with nothing forgotten. Each task starts with the shipped priors."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], Counts] = {}

    def acceptance(self, target: str, file_type: str) -> Acceptance:
        """Nothing but the shipped priors."""
        return Acceptance("")

    def save_acceptance(self, target: str, acceptance: Acceptance) -> None:
        """Add the counts of a task."""
        for (source, _, bucket), (tested, accepted) in acceptance.fresh().items():
            old = self._counts.get((source, bucket), NO_COUNTS)
            self._counts[source, bucket] = (old[0] + tested, old[1] + accepted)

    def priors(self) -> dict[str, tuple[float, ...]]:
        """Alpha by source and bucket, rounded; never quite 0 or 1."""
        priors: dict[str, tuple[float, ...]] = {}
        for source in sorted({source for source, _ in self._counts}):
            alphas = [0.5]
            for bucket in range(len(BUCKET_EDGES)):
                tested, accepted = self._counts.get((source, bucket), NO_COUNTS)
                alphas.append((accepted + N_NEIGHBOUR * alphas[-1]) / (tested + N_NEIGHBOUR))
            priors[source] = tuple(min(0.9999, max(0.0001, round(alpha, 4))) for alpha in alphas[1:])
        return priors
