"""How many draft tokens to bet on: gamma* from survival and the measured cost of a target pass.

With S_k the probability that the first k draft tokens are all accepted, a pass over k drafts yields
E(k) = 1 + S_1 + ... + S_k tokens and takes T(k + 1) + c k seconds. gamma* maximises the quotient; gamma = 0 is
plain decoding and always in the race. Leviathan et al. 2023, equation 1, is the case S_k = alpha^k and T constant.
Knows no model and no database.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

COST_WEIGHT = 0.1
"""How much a real pass moves the kept time (exponential moving average)."""
SURVIVAL_FLOOR = 1e-4
"""Below this a longer draft changes nothing."""


@dataclass(frozen=True, slots=True)
class Bet:
    """A gamma with what it is expected to yield: tokens of one pass, and tokens per second."""

    gamma: int
    n_expected: float
    rate: float


class CostCurve:
    """T(q): seconds of one target pass over q positions; linear between measured points and beyond the last two.

    Raises ValueError without a point at q = 1.
    """

    def __init__(self, points: Mapping[int, float]) -> None:
        if 1 not in points:
            raise ValueError(f"a cost curve needs the time at q = 1, got {sorted(points)}")
        self._points = dict(sorted(points.items()))
        self._refresh()

    @property
    def points(self) -> Mapping[int, float]:
        """The measured points, as they stand now."""
        return self._points

    def seconds(self, q: int) -> float:
        """T(q) for q >= 1."""
        return self._table[q] if q < len(self._table) else self._interpolate(q)

    def observe(self, q: int, seconds: float) -> None:
        """Let a real pass move the nearest point a little; an outlier counts as twice or half at most."""
        nearest = min(self._points, key=lambda point: abs(log2(point / q)))
        ratio = min(2.0, max(0.5, seconds / self.seconds(q)))
        # Towards the curve's own value there: a point off the curve that was only scaled would run away.
        self._points[nearest] += COST_WEIGHT * (self.seconds(nearest) * ratio - self._points[nearest])
        self._refresh()

    def _refresh(self) -> None:
        self._qs = list(self._points)
        self._seconds = _isotonic(list(self._points.values()))
        self._table = [self._interpolate(q) for q in range(self._qs[-1] + 1)]

    def _interpolate(self, q: int) -> float:
        qs, seconds = self._qs, self._seconds
        if q <= 1 or len(qs) == 1:
            return seconds[0]
        right = min(max(1, bisect_left(qs, q)), len(qs) - 1)
        left = right - 1
        slope = (seconds[right] - seconds[left]) / (qs[right] - qs[left])
        return seconds[left] + slope * (q - qs[left])


def _isotonic(seconds: Sequence[float]) -> list[float]:
    """The nearest non-decreasing values: times are noisy, and a longer pass is never cheaper than a shorter one.

    Pool adjacent violators (Ayer et al. 1955): neighbours in the wrong order share their mean.
    """
    pools: list[tuple[float, int]] = []  # mean, count
    for value in seconds:
        mean, n = value, 1
        while pools and pools[-1][0] > mean:
            before, n_before = pools.pop()
            mean, n = (mean * n + before * n_before) / (n + n_before), n + n_before
        pools.append((mean, n))
    return [mean for mean, n in pools for _ in range(n)]


def best_bet(
    alphas: Sequence[float], cost: Callable[[int], float], *, draft_s: float = 0.0, setup_s: float = 0.0
) -> Bet:
    """The gamma up to len(alphas) with the most expected tokens per second.

    alphas[j]: probability that the draft token after j accepted ones is accepted. cost(q): seconds of a target pass.
    draft_s: seconds to draft one token (0 for a copy). setup_s: seconds before the first draft token.
    """
    best = Bet(0, 1.0, 1.0 / cost(1))
    survival = n_expected = 1.0
    for gamma, alpha in enumerate(alphas, start=1):
        survival *= alpha
        if survival < SURVIVAL_FLOOR:
            break
        n_expected += survival
        rate = n_expected / (cost(gamma + 1) + draft_s * gamma + setup_s)
        if rate > best.rate:
            best = Bet(gamma, n_expected, rate)
    return best
