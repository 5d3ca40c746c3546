"""The aligner follows the output through the source and finds its place again at once. One letter is one token."""

import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculation.alignment import WINDOW, Aligner
from speculation.drafters.copy import CopyDrafter
from speculation.drafters.suffix import SuffixDrafter

LINES = [f"{name} = load({name})\n" for name in ("alpha", "beta", "gamma", "delta", "omega")]
SOURCE = "".join(LINES)


def after(source: str, output: str) -> Aligner:
    """The aligner after as many passes as the output has tokens."""
    aligner = Aligner([ord(c) for c in source], {ord("\n")})
    for c in output:
        aligner.observe([ord(c)])
    return aligner


def check(source: str, output: str, rest: str) -> None:
    """After this output the source goes on with rest."""
    place = after(source, output).best()
    assert (source[place.position :] if place else "") == rest


def n_missed(source: str, target: str) -> int:
    """How many tokens of target the aligner did not foresee, one by one."""
    aligner = Aligner([ord(c) for c in source], {ord("\n")})
    missed = 0
    for c in target:
        place = aligner.best()
        missed += place is None or source[place.position] != c
        aligner.observe([ord(c)])
    return missed


@pytest.mark.parametrize("n", [0, 1, 5, 20, len(SOURCE) - 1])
def test_while_the_output_is_the_source_the_cursor_follows(n: int) -> None:
    check(SOURCE, SOURCE[:n], SOURCE[n:])
    assert after(SOURCE, SOURCE[:n]).is_following


def test_the_documented_example_offers_what_replaces_then_what_was_inserted_before() -> None:
    check("abcdef", "abX", "def")
    check("abcdef", "abXc", "def")
    check("abcdef", "abXd", "ef")
    assert not after("abcdef", "abX").is_following
    assert after("abcdef", "abXd").is_following


@pytest.mark.parametrize(
    ("what", "target", "at_most"),
    [
        ("nothing", SOURCE, 0),
        ("a line deleted", SOURCE.replace(LINES[1], ""), 2),
        ("two lines deleted", SOURCE.replace(LINES[1] + LINES[2], ""), 2),
        ("a line inserted", SOURCE.replace(LINES[2], "check()\n" + LINES[2]), len("check()\n") + 2),
        ("a character substituted", SOURCE.replace("beta = ", "bexa = "), 1),
        ("a character inserted", SOURCE.replace("beta = ", "betta = "), 2),
        ("a character deleted", SOURCE.replace("beta = ", "bta = "), 2),
        ("a word substituted by one as long", SOURCE.replace("beta = load", "beta = read"), 5),
        ("a word substituted by a longer one", SOURCE.replace("gamma = load(", "gamma = read_all("), 11),
        ("the end cut off", "".join(LINES[:3]), 0),
        ("a new beginning", "# new\n" + SOURCE, 10),
    ],
)
def test_after_an_edit_it_costs_about_the_new_text_and_no_more(what: str, target: str, at_most: int) -> None:
    assert n_missed(SOURCE, target) <= at_most


def test_after_a_deletion_the_first_token_shows_where_it_goes_on() -> None:
    context = "these are twenty-four tokens. "
    check(context + "abcdefgh", context + "abe", "fgh")


def test_after_a_substitution_within_a_line_the_rest_of_the_line_is_next() -> None:
    check("x = f(a, b)\ny = 1\n", "x = g", "(a, b)\ny = 1\n")


def test_of_repeated_blocks_the_nearest_is_chosen() -> None:
    source = "abcdeXabcdeYabcdeZ"
    for n in (0, 6, 12):
        check(source, source[:n] + "ab#", source[n + 3 :])  # written for c
        check(source, source[:n] + "ab#c", source[n + 3 :])  # inserted before c
        check(source, source[:n] + "ab#d", source[n + 4 :])


def test_ten_similar_functions_do_not_throw_the_cursor_into_another_one() -> None:
    blocks = [f"def f{c}(a):\n    b = a\n    return b + {c}\n\n" for c in "qrstuvwxyz"]
    source = "".join(blocks)
    for i in range(9):
        before, after_it = "".join(blocks[:i]), "".join(blocks[i + 1 :])
        check(source, before + blocks[i].replace("return b", "yield"), after_it)  # a word replaced
        check(source, before + blocks[i].replace("    b = a\n", ""), after_it)  # a line deleted
        check(source, before + blocks[i].replace("return", "c = b\n    return"), after_it)  # a line inserted
        check(source, before + "def f#", blocks[i][len("def fq") :] + after_it)  # at once, in mid-line


def test_rows_of_a_table_are_copied_in_order() -> None:
    rows = [f'  {{"id": {i}, "on": true}},\n' for i in range(10)]
    for i in range(10):
        changed = rows[i].replace("true", "false")
        check("".join(rows), "".join(rows[:i]) + changed, "".join(rows[i + 1 :]))


def test_behind_a_line_end_the_source_goes_on_at_the_start_of_a_line() -> None:
    """A line replaced by a longer one that ends in another token (90 is ";" and a line feed, 91 ")" and one)."""
    source, output = [1, 2, 90, 3, 4, 90, 5, 6, 90], [1, 2, 90, 7, 8, 9, 9, 91]
    positions = []
    for line_ends in ({90, 91}, set[int]()):
        aligner = Aligner(source, line_ends)
        for token in output:
            aligner.observe([token])
        place = aligner.best()
        positions.append(place and place.position)
    assert positions == [6, 8]


def test_of_two_places_alike_the_one_that_was_not_copied_yet_is_chosen() -> None:
    """Both stand behind "ab" and nothing else agrees; the copied one is even a little nearer."""
    copied = "ab1" + "".join(chr(1000 + i) for i in range(24))
    ahead = "".join(chr(2000 + i) for i in range(40)) + "ab"
    check(copied + ahead + "23", copied + "Xab", "23")


def test_an_output_that_comes_back_in_the_midst_of_a_pass_is_found() -> None:
    """A draft of somebody else's was accepted: one pass left the source and came back to it."""
    aligner = Aligner([ord(c) for c in "abcdefghij"])
    aligner.observe([ord(c) for c in "abXdef"])
    place = aligner.best()
    assert place is not None and (place.position, place.match_len) == (6, 3)


def test_at_the_end_of_the_source_there_is_nothing_to_offer() -> None:
    assert after("abc", "abc").best() is None
    check("abc", "abcX", "")


@pytest.mark.parametrize("output", ["", "x", "xyz"])
def test_an_empty_source_offers_nothing(output: str) -> None:
    assert after("", output).best() is None
    assert CopyDrafter([]).propose(8).token_ids == ()


def test_a_copy_says_how_much_agrees_before_it() -> None:
    drafter = CopyDrafter([1, 2, 3, 4, 5, 6])
    drafter.observe([1, 2])
    draft = drafter.propose(3)
    assert (draft.token_ids, draft.source, draft.match_len) == ((3, 4, 5), "copy", 2)
    drafter.observe([9])
    draft = drafter.propose(10)
    assert (draft.token_ids, draft.source, draft.match_len) == ((4, 5, 6), "realign1", 0)
    drafter.observe([4])
    draft = drafter.propose(10)
    assert (draft.token_ids, draft.source, draft.match_len) == ((5, 6), "copy", 1)


def test_a_place_in_a_long_source_is_found_soon() -> None:
    """4,000 tokens of twenty kinds, every tenth one replaced. Meant to take 1 ms: this is against a blow-up only."""
    random = Random(0)
    source = [random.randrange(20) for _ in range(4000)]
    drafters = CopyDrafter(source), SuffixDrafter(source)
    started = time.perf_counter()
    for i in range(0, 4000, 10):
        for drafter in drafters:
            drafter.propose(256)
            drafter.observe([99, *source[i + 1 : i + 10]])
            drafter.fork().propose(256)
    assert time.perf_counter() - started < 400 * 0.05


few = st.lists(st.integers(0, 3), max_size=30)


@given(few, few)
def test_a_place_is_in_the_source_and_its_match_is_true(source: list[int], output: list[int]) -> None:
    aligner = Aligner(source)
    for i, token in enumerate(output, start=1):
        aligner.observe([token])
        place = aligner.best()
        if place is None:
            continue
        assert 0 <= place.position < len(source)
        n = min(place.match_len, WINDOW)
        assert source[place.position - n : place.position] == output[i - n : i]


@given(few, few, few)
def test_one_block_replaced_is_found_again(before: list[int], new: list[int], rest: list[int]) -> None:
    """Behind the new text, six tokens that occur once are enough to follow to the end."""
    anchor = [100, 101, 102, 103, 104, 105]
    source = [*before, 50, 51, *anchor, *rest]
    aligner = Aligner(source)
    aligner.observe([*before, *(token + 10 for token in new), *anchor])
    for i in range(len(rest)):
        place = aligner.best()
        assert place is not None and place.position == len(before) + 8 + i
        aligner.observe([rest[i]])


@given(few, few, few, st.integers(0, 9))
def test_a_fork_does_as_the_original_would_and_leaves_it_alone(
    source: list[int], output: list[int], supposed: list[int], n: int
) -> None:
    original, witness = CopyDrafter(source), CopyDrafter(source)
    original.observe(output)
    witness.observe(output)
    fork = original.fork()
    for token in supposed:
        fork.observe([token])
        witness.observe([token])
        assert fork.propose(n) == witness.propose(n)
    unforked = CopyDrafter(source)
    unforked.observe(output)
    assert original.propose(n) == unforked.propose(n)
    for token in supposed:
        original.observe([token])
    assert original.propose(n) == witness.propose(n)
