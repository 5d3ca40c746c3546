"""What is learned of acceptance: counted per position, leaning on its parents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculation.priors import BUCKET_EDGES, PRIORS
from speculation.survival import N_MEMORY, N_PARENT, Acceptance, bucket_of, merged


def shrunk(tested: float, accepted: float, parent: float, weight: float) -> float:
    return (accepted + weight * parent) / (tested + weight)


def test_buckets_are_those_of_the_edges() -> None:
    assert [bucket_of(n) for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12)] == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7]
    assert bucket_of(192) == bucket_of(10_000) == len(BUCKET_EDGES) - 1


@pytest.mark.parametrize("source", PRIORS)
def test_the_priors_fit_the_buckets(source: str) -> None:
    assert len(PRIORS[source]) == len(BUCKET_EDGES)
    assert all(0 < alpha < 1 for alpha in PRIORS[source])


@given(st.sampled_from(sorted(PRIORS)), st.integers(0, 300), st.integers(0, 300))
def test_without_counts_alpha_is_the_prior_of_the_bucket_of_each_position(
    source: str, match_len: int, n_tokens: int
) -> None:
    wanted = [PRIORS[source][bucket_of(match_len + j)] for j in range(n_tokens)]
    assert Acceptance("python").alphas(source, match_len, n_tokens) == pytest.approx(wanted)


def test_counts_lean_on_the_parent_and_what_comes_in_counts_at_once() -> None:
    cells = {("copy", "", 0): (100.0, 60.0), ("copy", "python", 0): (30.0, 24.0)}
    parent = shrunk(100, 60, PRIORS["copy"][0], N_PARENT)
    python = shrunk(30, 24, parent, N_PARENT)
    assert Acceptance("python", cells).alphas("copy", 0, 1) == pytest.approx([python])
    assert Acceptance("cobol", cells).alphas("copy", 0, 1) == pytest.approx([parent])
    assert Acceptance("", cells).alphas("copy", 0, 1) == pytest.approx([parent])
    acceptance = Acceptance("python", cells)
    acceptance.observe("copy", 0, 0, 1)
    parent = shrunk(101, 60, PRIORS["copy"][0], N_PARENT)
    python = shrunk(31, 24, parent, N_PARENT)
    assert acceptance.alphas("copy", 0, 1) == pytest.approx([python])


def test_each_position_is_counted_in_the_bucket_of_its_run() -> None:
    acceptance = Acceptance("")
    acceptance.observe("suffix", 2, n_accepted=3, n_tested=4)  # runs of 2, 3, 4 went on, that of 5 ended
    assert acceptance.fresh() == {("suffix", "", 2): (1, 1), ("suffix", "", 3): (1, 1), ("suffix", "", 4): (2, 1)}
    assert acceptance.fresh() == {}


def test_a_draft_that_was_not_tested_counts_nothing() -> None:
    acceptance = Acceptance("python")
    acceptance.observe("copy", 5, 0, 0)
    assert acceptance.fresh() == {}


def test_old_counts_fade_and_new_habits_are_learned() -> None:
    acceptance = Acceptance("")
    acceptance.observe("copy", 500, 20_000, 20_000)
    for _ in range(int(2 * N_MEMORY)):
        acceptance.observe("copy", 500, 0, 1)
    tested, accepted = acceptance.fresh()["copy", "", bucket_of(500)]
    assert tested == pytest.approx(N_MEMORY)
    assert accepted < 0.15 * N_MEMORY


def test_merged_counts_weigh_no_more_than_a_cell_may() -> None:
    assert merged((100, 60), (10, 1)) == (110, 61)
    assert merged((N_MEMORY, N_MEMORY), (1000, 0)) == (N_MEMORY, N_MEMORY - 1000)
    assert merged((10, 10), (N_MEMORY, 0)) == (N_MEMORY, 0)
    assert merged((0, 0), (3, 2)) == (3, 2)
