"""Gamma: soonest through a run of draft tokens, from survival and the cost of a pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from speculation.gamma import Bet, CostCurve, best_bet

rates = st.floats(0, 1)
points = st.dictionaries(st.integers(2, 256), st.floats(1e-4, 10), max_size=6).flatmap(
    lambda more: st.floats(1e-4, 10).map(lambda first: {1: first, **more})
)


@dataclass
class Run:
    """Tokens of which each goes on with its alpha, and what a pass over them takes; all plans are tried."""

    alphas: Sequence[float]
    cost: Callable[[int], float]

    def seconds(self, gamma: int, start: int = 0) -> float:
        """Expected until the run has ended, with a first pass over gamma drafts and the best ones after it."""
        behind = start + gamma + 1
        goes_on = prod(self.alphas[start:behind]) if behind <= len(self.alphas) else 0.0
        return self.cost(gamma + 1) + (goes_on * self.best_s(behind) if goes_on else 0.0)

    def best_s(self, start: int = 0) -> float:
        return min(self.seconds(gamma, start) for gamma in range(len(self.alphas) - start + 1))

    def bet(self) -> Bet:
        return best_bet(self.alphas, self.cost)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Up to seven tokens at any odds and prices; within seven, STOPS leave out two places only."""
    steps = draw(st.lists(st.floats(0, 0.2), min_size=8, max_size=8))
    alphas = draw(st.lists(rates, max_size=7))
    return Run(alphas, lambda q: 0.1 + sum(steps[:q]))


@given(runs())
def test_no_plan_is_much_sooner_through_the_run(run: Run) -> None:
    assert run.seconds(run.bet().gamma) <= 1.25 * run.best_s()


@given(runs())
@example(Run([1, 1, 1, 1, 0.01, 1, 1], lambda q: 5.9 if q == 6 else q))  # no plan stops after five tokens
def test_a_bet_is_as_good_as_said_and_never_worse_than_plain_decoding(run: Run) -> None:
    bet = run.bet()
    n_expected = sum(prod(run.alphas[:j]) for j in range(bet.gamma + 1))
    assert bet.n_expected == pytest.approx(n_expected)
    assert bet.rate == pytest.approx(n_expected / run.cost(bet.gamma + 1))
    assert bet.rate >= 1 / run.cost(1)


def most_tokens_per_second(run: Run) -> int:
    """The gamma for passes that are all alike."""
    expected = accumulate(run.alphas, lambda survival, alpha: survival * alpha, initial=1.0)
    rates = [n_expected / run.cost(gamma + 1) for gamma, n_expected in enumerate(accumulate(expected))]
    return rates.index(max(rates))


@pytest.mark.parametrize("cost", [lambda q: 1.0 + q / 50, lambda q: 1.0 + q / 20], ids=["slowly", "fast"])
@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.8, 0.95, 0.99])
def test_where_all_tokens_are_alike_the_most_tokens_per_second_win(alpha: float, cost: Callable[[int], float]) -> None:
    run = Run([alpha] * 400, cost)
    wanted = most_tokens_per_second(run)
    n_expected = sum(alpha**j for j in range(wanted + 1))
    assert run.bet().rate >= 0.97 * n_expected / run.cost(wanted + 1)


def test_a_doubtful_start_is_a_short_bet_and_a_sure_one_a_long_one() -> None:
    """Tokens per second alone would bet on all 60 tokens behind a start that is wrong three times in four."""
    cost = CostCurve({1: 0.172, 4: 0.174, 8: 0.197, 16: 0.252, 32: 0.385, 64: 0.72}).seconds
    sure, doubtful = Run([0.99] * 60, cost), Run([0.25] + [0.99] * 59, cost)
    assert most_tokens_per_second(doubtful) > 25
    assert sure.bet().gamma > 25
    assert 1 <= doubtful.bet().gamma < 8


@pytest.mark.parametrize(("alpha", "c"), [(0.9, 0.07), (0.8, 0.1), (0.6, 0.25), (0.99, 0.01), (0.3, 0.5)])
def test_leviathans_formula_is_a_special_case(alpha: float, c: float) -> None:
    """Equation 1: (1 - a^(g+1)) / (1 - a) tokens, in time T (c g + 1); T = 2 s here."""

    def speedup(gamma: int) -> float:
        return (1 - alpha ** (gamma + 1)) / ((1 - alpha) * (c * gamma + 1))

    bet = best_bet([alpha] * 500, lambda q: 2.0 * (1 + c * (q - 1)))
    assert speedup(bet.gamma) >= 0.98 * max(speedup(gamma) for gamma in range(500))
    assert bet.n_expected == pytest.approx((1 - alpha ** (bet.gamma + 1)) / (1 - alpha))
    assert bet.rate * 2.0 == pytest.approx(speedup(bet.gamma))


@pytest.mark.parametrize(
    ("alphas", "cost", "gamma"),
    [
        ([], lambda q: 1.0, 0),
        ([0.0] * 5, lambda q: 1.0, 0),
        ([0.1] * 5, lambda q: q, 0),  # every position costs a whole pass
        ([1.0] * 5, lambda q: 1.0, 5),
        ([1.0, 0.0, 1.0], lambda q: 1.0 + q / 100, 1),  # nothing survives the second
        ([0.0001, 1.0, 1.0], lambda q: 1.0, 3),
    ],
)
def test_bets(alphas: list[float], cost, gamma: int) -> None:  # type: ignore[no-untyped-def]
    assert best_bet(alphas, cost).gamma == gamma


def test_a_curve_is_linear_between_its_points_and_beyond_the_last() -> None:
    curve = CostCurve({4: 4.0, 1: 1.0, 8: 12.0})
    assert [curve.seconds(q) for q in (1, 2, 3, 4, 6, 8, 10)] == [1, 2, 3, 4, 8, 12, 16]


def test_a_curve_with_one_point_is_flat() -> None:
    assert [CostCurve({1: 3.0}).seconds(q) for q in (1, 2, 500)] == [3, 3, 3]


def test_a_curve_without_the_time_of_plain_decoding_is_refused() -> None:
    with pytest.raises(ValueError, match="q = 1"):
        CostCurve({2: 1.0})


@given(points, st.lists(st.tuples(st.integers(1, 600), st.floats(0, 100)), max_size=20))
def test_a_longer_pass_never_costs_less_whatever_was_measured(
    points: dict[int, float], passes: list[tuple[int, float]]
) -> None:
    curve = CostCurve(points)
    for q, seconds in passes:
        curve.observe(q, seconds)
    times = [curve.seconds(q) for q in range(1, 600)]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(times))
    assert times[0] > 0
    assert set(curve.points) == set(points)


def test_a_noisy_point_does_not_lift_all_behind_it() -> None:
    """Once a slow measurement of T(1) became the floor of the whole curve, and drafts grew far too long."""
    curve = CostCurve({1: 0.4, 2: 0.2, 4: 0.2, 8: 0.25})
    assert [curve.seconds(q) for q in (1, 4, 8)] == pytest.approx([1.05 / 4] * 3)


@given(st.lists(st.sampled_from([1, 2, 3, 5, 9, 16, 30, 64]), min_size=400, max_size=400))
def test_a_curve_finds_back_from_bad_measurements(qs: list[int]) -> None:
    """Points that the curve did not pass through ran away: each pass moved them, and none moved the curve."""
    true = CostCurve({1: 0.2, 2: 0.2, 4: 0.2, 8: 0.22, 16: 0.26, 32: 0.4, 64: 0.7})
    curve = CostCurve({1: 0.5, 2: 0.1, 4: 0.4, 8: 0.2, 16: 0.1, 32: 0.5, 64: 0.7})
    for q in [*qs, *[1, 2, 4, 8, 16, 32, 64] * 60]:
        curve.observe(q, true.seconds(q))
    for q in (1, 2, 4, 8, 16, 32, 64):
        assert curve.seconds(q) == pytest.approx(true.seconds(q), rel=0.15), q


def test_real_passes_move_the_curve_and_an_outlier_moves_it_little() -> None:
    curve = CostCurve({1: 1.0, 8: 2.0})
    curve.observe(1, 1000.0)
    assert curve.seconds(1) == pytest.approx(1.1)
    for _ in range(200):
        curve.observe(1, 0.5)
        curve.observe(8, 4.0)
    assert curve.seconds(1) == pytest.approx(0.5, rel=0.01)
    assert curve.seconds(8) == pytest.approx(4.0, rel=0.01)


def test_prices_of_another_machine_stay() -> None:
    fixed = CostCurve({1: 1.0, 8: 2.0}).scaled(0.5)
    fixed.observe(1, 100.0)
    assert [fixed.seconds(q) for q in (1, 8)] == [0.5, 1.0]
