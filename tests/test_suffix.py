"""The suffix automaton agrees with a search by brute force, and prompt lookup with transformers' rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculation.drafters.lookup import PromptLookupDrafter
from speculation.drafters.suffix import SuffixAutomaton, SuffixDrafter

texts = st.lists(st.integers(0, 2), max_size=40) | st.lists(st.integers(0, 9), max_size=60)


def longest_repeated_suffix(text: list[int]) -> tuple[int, set[int]]:
    """Its length, and every index that followed an earlier occurrence; occurrences may overlap the suffix."""
    for n in range(len(text) - 1, 0, -1):
        ends = {end for end in range(n, len(text)) if text[end - n : end] == text[-n:]}
        if ends:
            return n, ends
    return 0, set()


def check(text: list[int]) -> None:
    automaton = SuffixAutomaton()
    for i, token in enumerate(text, start=1):
        automaton.extend([token])
        n, ends = longest_repeated_suffix(text[:i])
        match_len, start = automaton.match
        assert match_len == n
        assert start in ends if n else start == 0


@given(texts)
def test_the_match_is_the_longest_and_truly_occurred_before(text: list[int]) -> None:
    check(text)


@pytest.mark.parametrize(
    "text", [[0] * 60, [0, 1] * 30, [0, 1, 1] * 20 + [0, 1], list(range(40)) * 2, [0] * 20 + [1] + [0] * 20]
)
def test_repetitive_texts(text: list[int]) -> None:
    check(text)


@given(texts)
def test_the_match_is_the_last_occurrence_where_text_is_not_very_repetitive(text: list[int]) -> None:
    automaton = SuffixAutomaton()
    automaton.extend(text[:16])  # up to sixteen suffix links are refreshed a token
    n, ends = longest_repeated_suffix(text[:16])
    if n:
        assert automaton.match == (n, max(ends))


def test_the_documented_example() -> None:
    automaton = SuffixAutomaton()
    automaton.extend("abcab")  # type: ignore[arg-type]
    assert automaton.match == (2, 2)


def test_a_draft_is_what_followed() -> None:
    drafter = SuffixDrafter([1, 2, 3, 4, 5, 9, 2, 3])
    draft = drafter.propose(2)
    assert (draft.token_ids, draft.source, draft.match_len) == ((4, 5), "suffix", 2)
    drafter.observe([4, 7])
    assert drafter.propose(2).token_ids == ()
    drafter.observe([9])
    assert drafter.propose(9).token_ids == (2, 3, 4, 7, 9)


@given(texts, texts)
def test_a_fork_finds_the_longest_match_in_the_text_known_and_leaves_the_original_alone(
    text: list[int], supposed: list[int]
) -> None:
    original, witness = SuffixDrafter(text), SuffixDrafter(text)
    fork = original.fork()
    assert fork.propose(9) == original.propose(9)
    whole = list(text)
    for token in supposed:
        fork.observe([token])
        whole.append(token)
        draft = fork.propose(5)
        n = next(
            (
                n
                for n in range(len(whole) - 1, 0, -1)
                if any(text[end - n : end] == whole[-n:] for end in range(n, len(text) + 1))
            ),
            0,
        )
        assert draft.match_len == n
        if n:
            ends = [end for end in range(n, len(text) + 1) if text[end - n : end] == whole[-n:]]
            assert draft.token_ids in [tuple(whole[end : end + 5]) for end in ends]
    assert original.propose(9) == witness.propose(9)
    original.observe(supposed)
    witness.observe(supposed)
    assert original.propose(9) == witness.propose(9)


def test_nothing_is_drafted_from_nothing() -> None:
    assert SuffixDrafter([]).propose(5).token_ids == ()
    assert SuffixDrafter([1]).propose(5).token_ids == ()
    assert PromptLookupDrafter([1], 2, 10).propose(5).token_ids == ()


@given(texts, st.integers(1, 4), st.integers(1, 6))
def test_prompt_lookup_takes_the_leftmost_match_of_the_longest_n_gram(
    text: list[int], n_gram: int, n_copied: int
) -> None:
    drafter = PromptLookupDrafter(text, n_gram, n_copied)
    wanted: tuple[int, ...] = ()
    for n in range(min(n_gram, len(text)), 0, -1):
        ends = [end for end in range(n, len(text)) if text[end - n : end] == text[-n:]]
        if ends:
            wanted = tuple(text[ends[0] : ends[0] + n_copied])
            break
    assert drafter.propose(100).token_ids == wanted
    assert drafter.propose(1).token_ids == wanted[:1]
