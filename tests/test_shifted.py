"""Lines that come again with another indentation or other line ends are drafted so, whatever tokens they become."""

import re
from collections.abc import Sequence
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculation.acceptance import Store
from speculation.bench.replay import load_cost, replay
from speculation.bench.tasks import Task
from speculation.config import models_dir
from speculation.drafters.shifted import Codec, ShiftedDrafter
from speculation.models.loading import resolve
from speculation.models.tokenizer import Tokenizer
from speculation.types import Draft


class Pieces:
    """Splits text by a pattern, as byte-level tokenizers do; every piece is a token."""

    line_ends = range(1, 100_000, 2)

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._ids: dict[str, int] = {}
        self._texts: dict[int, str] = {}

    def encode(self, text: str) -> list[int]:
        pieces = re.findall(self._pattern, text)
        assert "".join(pieces) == text
        return [self._id(piece) for piece in pieces]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(self._texts[i] for i in token_ids)

    def _id(self, piece: str) -> int:
        i = self._ids.setdefault(piece, 2 * len(self._ids) + ("\n" in piece))
        self._texts[i] = piece
        return i


# The last blank before a word belongs to it. A line feed takes the blanks before it, or what follows up to that blank.
BEFORE = Pieces(r"\s*[\r\n]+|[ \t]+(?=[ \t]\w)|[ \t]?\w+|[^\w\s]+[\r\n]*|[ \t]+")
BEHIND = Pieces(r"\s+(?=\s\w)|[ \t]?\w+|[^\w\s]+|\s+")
SOURCE = "def f(a):\n  if a:\n    b = a\n\n    return b\n  return 0\n"


def after(source: str, output: str, codec: Codec) -> ShiftedDrafter:
    drafter = ShiftedDrafter(codec.encode(source), codec)
    for token in codec.encode(output):
        drafter.observe([token])
    return drafter


def check(source: str, output: str, rest: str, codec: Codec = BEFORE) -> None:
    """Behind this output just rest is drafted, in the tokens that the whole is split into."""
    drafted = list(after(source, output, codec).propose(1000).token_ids)
    assert codec.decode(drafted) == rest
    assert codec.encode(output) + drafted == codec.encode(output + rest)


def indented(text: str, by: str) -> str:
    return re.sub(r"(?m)^(?=.)", by, text)


@pytest.mark.parametrize("codec", [BEFORE, BEHIND])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (SOURCE, indented(SOURCE, "    ")),
        (SOURCE, indented(SOURCE, "\t")),
        (indented(SOURCE, "    "), SOURCE),
        (SOURCE, SOURCE.replace("  ", "    ")),
        (SOURCE.replace("  ", "\t"), SOURCE.replace("  ", "    ")),
        (SOURCE.replace("  ", "    "), SOURCE.replace("  ", "\t")),
        (SOURCE.replace("\n", "\r\n"), SOURCE),
        (SOURCE, SOURCE.replace("\n", "\r\n")),
        (SOURCE.replace("\n", " \n"), SOURCE),
    ],
)
def test_what_was_done_to_two_lines_is_done_to_the_rest_wherever_in_it_a_draft_begins(
    codec: Pieces, source: str, target: str
) -> None:
    token_ids = codec.encode(target)
    n_seen = len(codec.encode("".join(target.splitlines(keepends=True)[:2])))
    assert len(token_ids) - n_seen > 10
    for n in range(n_seen, len(token_ids)):
        drafter = ShiftedDrafter(codec.encode(source), codec)
        drafter.observe(token_ids[:n])
        assert codec.decode(drafter.propose(1000).token_ids) == codec.decode(token_ids[n:])
        assert list(drafter.propose(3).token_ids) == token_ids[n : n + len(drafter.propose(3).token_ids)]


def test_the_documented_example() -> None:
    check("a\n  b\n    c\n", "if x:\n  a\n", "    b\n      c\n")


def test_silent_while_nothing_is_changed_and_again_behind_the_block() -> None:
    source = "x = 0\n" + SOURCE + "y = 1\nz = 2\n"
    check(source, "", "")
    check(source, "x = 0\n", "")
    block = "x = 0\nif x:\n" + indented(SOURCE, "    ")
    check(source, block, "    y = 1\n    z = 2\n")  # a guess
    check(source, block + "y", "")
    check(source, block + "y = 1\n", "")


def test_a_line_that_goes_another_way_is_left_alone_and_the_next_one_found() -> None:
    start = "if x:\n  def f(a):\n    if a:\n"
    check(SOURCE, start + "      c", "")
    check(SOURCE, start + "      c = 1\n", "      b = a\n\n      return b\n    return 0\n")  # inserted, as a guess
    check(SOURCE, start + "      c = 1\n      return b\n", "    return 0\n")


def test_of_lines_alike_the_nearest_is_meant_and_a_new_blank_line_leads_nowhere() -> None:
    source = "a\n  b\n    c\n\n  b\n    d\n"
    check(source, "  a\n    b\n", "      c\n\n    b\n      d\n")
    check("  b\n  c\n  d\n  b\n    e\n", "    b\n    c\n    b\n", "        e\n")
    check(source, "  a\n\n", "    b\n      c\n\n    b\n      d\n")


def test_match_len_counts_from_the_last_line_that_is_new() -> None:
    draft = after(SOURCE, "if x:\n  def f(a):\n", BEFORE).propose(5)
    assert (draft.source, draft.match_len) == ("shifted", len(BEFORE.encode("  def f(a):\n")))
    assert after(SOURCE, "  def f(a):\n  new\n", BEFORE).propose(5).match_len == 0


def test_an_output_that_is_split_otherwise_is_left_alone() -> None:
    """The target wrote the indentation in two tokens: what would follow it is not known."""
    drafter = after(SOURCE, "  def f(a):\n", BEFORE)
    drafter.observe([*BEFORE.encode("\t")])
    assert drafter.propose(5) == Draft()
    drafter = after(SOURCE, "  def f(a):\n", BEFORE)
    drafter.observe([*BEFORE.encode("  "), *BEFORE.encode("  ")])
    assert drafter.propose(5) == Draft()


LONG = "def f(a):\n" + "".join(
    f"    if a[{i}]:\n        b = {i}\n    a = g(b, {i})\n" if i % 2 else f"    x{i} = a or {i}\n\n    y = {i} - b\n"
    for i in range(24)
)
CHANGES = {
    "wrapped": (LONG, "if True:\n" + indented(LONG, "    ")),
    "CRLF to LF": (LONG.replace("\n", "\r\n"), LONG),
    "tabs to spaces": (LONG.replace("    ", "\t"), LONG),
}


def n_passes(codec: Codec, name: str) -> int:
    task = Task(name, "python", "", *CHANGES[name])
    with closing(Store(None)) as learned:
        return replay([task], codec, cost=load_cost("flat"), learned=learned).passes


@pytest.mark.parametrize("codec", [BEFORE, BEHIND])
@pytest.mark.parametrize("name", CHANGES)
def test_sixty_lines_that_all_change_alike_take_a_few_passes(name: str, codec: Pieces) -> None:
    assert n_passes(codec, name) <= 12  # without: 63 to 149


@pytest.mark.torch
@pytest.mark.model
@pytest.mark.parametrize("name", CHANGES)
def test_a_real_tokenizer_is_no_obstacle(name: str) -> None:
    codec = Tokenizer(resolve("tiny", models_dir()))
    assert n_passes(codec, name) <= 12  # without: 65 to 132


words = st.lists(st.sampled_from(["a\n", "  b\n", "    c\n", "    a\n", "\n", "  ", "x", "a"]), max_size=12).map(
    "".join
)


@given(words, words, words)
def test_a_fork_does_as_the_original_would_and_leaves_it_alone(source: str, output: str, supposed: str) -> None:
    original, witness = after(source, output, BEFORE), after(source, output, BEFORE)
    before = original.propose(50)
    fork = original.fork()
    for token in BEFORE.encode(supposed):
        fork.observe([token])
        witness.observe([token])
        assert fork.propose(50) == witness.propose(50)
    assert original.propose(50) == before
    original.observe(BEFORE.encode(supposed))
    assert original.propose(50) == witness.propose(50)
