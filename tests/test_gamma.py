"""Gamma: the most expected tokens per second, from survival and the cost of a pass."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculation.gamma import SURVIVAL_FLOOR, CostCurve, best_bet

rates = st.floats(0, 1)
points = st.dictionaries(st.integers(2, 256), st.floats(1e-4, 10), max_size=6).flatmap(
    lambda more: st.floats(1e-4, 10).map(lambda first: {1: first, **more})
)


def brute_force(alphas: list[float], cost: list[float], draft_s: float, setup_s: float) -> list[float]:
    """Tokens per second of each gamma."""
    out = [1 / cost[0]]
    for gamma in range(1, len(alphas) + 1):
        survival, n_expected = 1.0, 1.0
        for alpha in alphas[:gamma]:
            survival *= alpha
            n_expected += survival
        out.append(n_expected / (cost[gamma] + draft_s * gamma + setup_s))
    return out


@given(
    st.lists(rates, max_size=40),
    st.lists(st.floats(0, 0.2), min_size=41, max_size=41),
    st.floats(0, 0.5),
    st.floats(0, 2),
)
def test_the_best_bet_is_that_of_brute_force(
    alphas: list[float], steps: list[float], draft_s: float, setup_s: float
) -> None:
    cost = [0.1 + sum(steps[: i + 1]) for i in range(len(steps))]
    bet = best_bet(alphas, lambda q: cost[q - 1], draft_s=draft_s, setup_s=setup_s)
    rates = brute_force(alphas, cost, draft_s, setup_s)
    assert bet.rate == pytest.approx(rates[bet.gamma])
    assert bet.rate >= max(rates) * (1 - len(alphas) * SURVIVAL_FLOOR)
    assert bet.rate >= rates[0]


@pytest.mark.parametrize(("alpha", "c"), [(0.9, 0.07), (0.8, 0.1), (0.6, 0.25), (0.99, 0.01), (0.3, 0.5)])
def test_leviathans_formula_is_a_special_case(alpha: float, c: float) -> None:
    """Equation 1: (1 - a^(g+1)) / (1 - a) tokens, in time T (c g + 1); T = 2 s here."""

    def speedup(gamma: int) -> float:
        return (1 - alpha ** (gamma + 1)) / ((1 - alpha) * (c * gamma + 1))

    bet = best_bet([alpha] * 500, lambda q: 2.0, draft_s=c * 2.0)
    assert bet.gamma == max(range(500), key=speedup)
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


def test_what_the_draft_costs_counts() -> None:
    assert best_bet([0.9] * 10, lambda q: 1.0).gamma == 10
    assert best_bet([0.9] * 10, lambda q: 1.0, draft_s=0.95).gamma == 0
    assert best_bet([0.9] * 3, lambda q: 1.0, setup_s=5.0).gamma == 0


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
