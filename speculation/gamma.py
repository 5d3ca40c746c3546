"""How many draft tokens to bet on: gamma* from survival and the measured cost of a target pass.

With S_k the probability that the first k draft tokens are all accepted, a pass over k drafts yields
E(k) = 1 + S_1 + ... + S_k tokens and takes T(k + 1) seconds; a copy costs nothing to draft. Where the run ends is a
fact of the text that no bet changes, so gamma* is the start of the plan that comes to that end soonest: the time W_i
still to go after i tokens is the least, over k, of T(k + 1) + S_{i+k+1} / S_i W_{i+k+1} (Bellman). With one alpha for
all tokens this is the gamma with the most tokens per second, Leviathan et al. 2023, equation 1. With a doubtful first
token that rule bets too much: it prices the tokens behind it like those of a pass of one token, while once the run has
begun they are cheap. gamma = 0 is plain decoding and always in the race. Knows no model and no database.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf, log2
from operator import mul

COST_WEIGHT = 0.1
"""How much a real pass moves the kept time (exponential moving average)."""
SURVIVAL_FLOOR = 1e-4
"""Below this a longer draft changes nothing."""
STOPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Tokens of a run after which a pass of the plan may end; with twice as many a replay gains 0.1 %."""


@dataclass(frozen=True, slots=True)
class Bet:
    """A gamma with what its pass is expected to yield: tokens, and tokens per second."""

    gamma: int
    n_expected: float
    rate: float


@dataclass(frozen=True, slots=True)
class Plan:
    """How to get through the run of a draft: the gamma to begin with, and what to expect of all of it."""

    gamma: int
    seconds: float
    """Until the run is over and the token behind it has come out."""
    n_expected: float
    """Tokens of the draft that are accepted."""


class CostCurve:
    """T(q): seconds of one target pass over q positions; linear between measured points and beyond the last two.

    With edges, passes are padded to the next of these lengths: a staircase, on whose edges gamma then comes to lie.
    Raises ValueError without a point at q = 1.
    """

    def __init__(self, points: Mapping[int, float], edges: Sequence[int] = ()) -> None:
        if 1 not in points:
            raise ValueError(f"a cost curve needs the time at q = 1, got {sorted(points)}")
        self._points = dict(sorted(points.items()))
        self._edges = edges
        self._refresh()

    @property
    def points(self) -> Mapping[int, float]:
        """The measured points, as they stand now."""
        return self._points

    def seconds(self, q: int) -> float:
        """T(q) for q >= 1."""
        if self._edges and q < self._edges[-1]:
            q = self._edges[bisect_left(self._edges, q)]
        n_beyond = q - len(self._table) + 1
        return self._table[q] if n_beyond <= 0 else self._table[-1] + self._slope * n_beyond

    def observe(self, q: int, seconds: float) -> None:
        """Let a real pass move the nearest point a little; an outlier counts as twice or half at most."""
        nearest = min(self._points, key=lambda point: abs(log2(point / q)))
        ratio = min(2.0, max(0.5, seconds / self.seconds(q)))
        # Towards the curve's own value there: a point off the curve that was only scaled would run away.
        self._points[nearest] += COST_WEIGHT * (self.seconds(nearest) * ratio - self._points[nearest])
        self._refresh()

    def scaled(self, by: float) -> "FixedCost":
        """The same curve, so many times as high; passes don't move it."""
        return FixedCost({q: by * seconds for q, seconds in self._points.items()})

    def _refresh(self) -> None:
        points = list(zip(self._points, _isotonic(list(self._points.values())), strict=True))
        self._slope, self._table = 0.0, [points[0][1]] * 2  # for q = 0, which nobody asks about, and q = 1
        for (left, left_s), (right, right_s) in pairwise(points):
            self._slope = (right_s - left_s) / (right - left)
            self._table += [left_s + self._slope * i for i in range(1, right - left + 1)]


class FixedCost(CostCurve):
    """The prices of another machine: passes on this one don't move them."""

    def observe(self, q: int, seconds: float) -> None:
        """Nothing to learn."""


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


def plan_run(alphas: Sequence[float], cost: Callable[[int], float], *, n_held: int = 0, chance: float = 1.0) -> Plan:
    """The plan that is through the run of a draft soonest, where the first pass takes n_held other tokens along.

    alphas[j]: probability that the draft token after j accepted ones is accepted. cost(q): seconds of a pass.
    chance: that the first pass gets as far as the draft at all.
    """
    survival = [1.0]
    for alpha in alphas:
        if survival[-1] * alpha < SURVIVAL_FLOOR:
            break
        survival.append(survival[-1] * alpha)
    n_drafted = len(survival) - 1
    n_expected = sum(survival) - 1.0
    survival.append(0.0)  # behind the draft nothing is known
    stops = [0, *(stop for stop in STOPS if stop <= n_drafted), n_drafted + 1]
    later = [(stops.pop(), 0.0)]  # stops, and the chance that the run gets there times the seconds it has to go then
    gamma, best_s = 0, 0.0
    for start in reversed(stops):
        n_more, certainty = (0, 1.0) if start else (n_held, chance)
        certainty /= survival[start]
        best_s = inf
        for stop, after_s in reversed(later):
            seconds = cost(n_more + stop - start) + certainty * after_s  # the token at the stop is the target's own
            if seconds < best_s:
                best_s, gamma = seconds, stop - start - 1
        later.append((start, survival[start] * best_s))
    return Plan(gamma, best_s, n_expected)


def best_bet(alphas: Sequence[float], cost: Callable[[int], float]) -> Bet:
    """The first pass of the plan that is through the run soonest; at least as fast as plain decoding.

    alphas and cost as in plan_run.
    """
    gamma = plan_run(alphas, cost).gamma
    n_expected = 1.0 + sum(accumulate(alphas[:gamma], mul))
    # Between the stops a plan can't decode plainly, so the plain pass is compared once more.
    plain = Bet(0, 1.0, 1.0 / cost(1))
    return max(plain, Bet(gamma, n_expected, n_expected / cost(gamma + 1)), key=lambda bet: bet.rate)
