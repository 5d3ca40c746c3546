"""A passage knows where its lines stand, whatever is edited around them and between them."""

import pytest

from lsp_server.documents import Documents, Snapshot, split_lines
from lsp_server.rebase import Passage

ABOVE = "above\n"
TEXT = "one\ntwo\n\nfour\nfive\n"
BELOW = "below\n"


class Typing:
    """A document of three parts, the passage in the middle of it, and edits given by what they replace."""

    def __init__(self, above: str = ABOVE, text: str = TEXT, below: str = BELOW) -> None:
        self.documents = Documents()
        self.documents.open("u", 1, above + text + below, "python")
        self.passage = Passage(self.snapshot, len(above), len(above + text))

    @property
    def snapshot(self) -> Snapshot:
        return self.documents.get("u")

    def edit(self, start: int, end: int, text: str) -> None:
        span = self.snapshot.range(start, end, "utf-16")
        edits = self.documents.change("u", self.snapshot.version + 1, [{"range": span, "text": text}])
        self.passage.follow(edits, self.snapshot)

    def replace(self, old: str, new: str) -> None:
        """Edit the only place where old stands."""
        assert self.snapshot.text.count(old) == 1
        start = self.snapshot.text.index(old)
        self.edit(start, start + len(old), new)

    def standing(self) -> list[str]:
        """The lines of the passage that can be placed; there they must stand."""
        standing, start = [], 0
        for line in split_lines(self.passage.text):
            at = self.passage.place(start, start + len(line))
            if at is not None:
                assert self.snapshot.slice(at, at + len(line)) == line
                standing.append(line)
            start += len(line)
        return standing


ALL = ["one\n", "two\n", "\n", "four\n", "five\n"]


@pytest.mark.parametrize(
    ("old", "new", "standing"),
    [
        ("above\n", "", ALL),
        ("above\n", "above\nmore\n", ALL),
        ("below\n", "", ALL),
        ("five\n", "five\nsix\n", ALL),
        ("below", "low", ALL),
        ("one", "1", ALL[1:]),
        ("one", "zero\none", ALL),
        ("one", "zero one", ALL[1:]),
        ("above\n", "above", ALL[1:]),
        ("two\n", "two\nthree\n", ALL),
        ("two", "two\nthree", ALL),
        ("two", "three\ntwo", ALL),
        ("two", "t\nwo", ["one\n", "\n", "four\n", "five\n"]),
        ("one\ntwo\n", "one two\n", ["\n", "four\n", "five\n"]),
        ("two\n", "", ["one\n", "\n", "four\n", "five\n"]),
        ("\ntwo", "", ["one\n", "\n", "four\n", "five\n"]),
        ("five\n", "", ALL[:4]),
        ("five\nbelow", "b", ALL[:4]),
        ("five\nb", "b", ALL[:4]),
        ("five\nbelow\n", "five\n", ALL),
        ("above\none\n", "above\n", ALL[1:]),
        (TEXT, "", []),
        (ABOVE + TEXT, ABOVE, []),
        (TEXT, "ONE\ntwo\nthree\nfour\n", ["two\n", "four\n"]),
    ],
)
def test_lines_stand_where_nobody_edited(old: str, new: str, standing: list[str]) -> None:
    typing = Typing()
    typing.replace(old, new)
    assert typing.standing() == standing
    assert typing.passage.is_gone == (standing == [])


@pytest.mark.parametrize("old", ["one", "one\n", "two\n\n", "four\nfi", TEXT, ABOVE + TEXT, TEXT + BELOW, "above\non"])
@pytest.mark.parametrize("new", ["", "x", "x\ny\n", "\n"])
def test_what_was_undone_costs_nothing(old: str, new: str) -> None:
    typing = Typing()
    start = typing.snapshot.text.index(old)
    typing.edit(start, start + len(old), new)
    typing.edit(start, start + len(new), old)
    assert typing.standing() == ALL
    assert typing.passage.spans == []
    assert (typing.passage.start, typing.passage.end) == (len(ABOVE), len(ABOVE + TEXT))


def test_what_was_typed_letter_by_letter_and_deleted_costs_nothing() -> None:
    typing = Typing()
    at = typing.snapshot.text.index("two")
    for n, letter in enumerate("word"):
        typing.edit(at + n, at + n, letter)
    assert typing.standing() == ["one\n", "\n", "four\n", "five\n"]
    for n in reversed(range(4)):
        typing.edit(at + n, at + n + 1, "")
    assert typing.standing() == ALL


def test_two_edits_of_one_change_are_put_together() -> None:
    """Each is about the text that the one before left, but only the last text is there to look at."""
    typing = Typing()
    start = typing.snapshot.text.index("two")
    changes = [
        {"range": typing.snapshot.range(start, start + 3, "utf-16"), "text": "a\nb"},
        {"range": typing.snapshot.range(start, start + 1, "utf-16"), "text": "twenty"},
    ]
    edits = typing.documents.change("u", 2, changes)
    typing.passage.follow(edits, typing.snapshot)
    assert "twenty\nb\n" in typing.snapshot.text
    assert typing.standing() == ["one\n", "\n", "four\n", "five\n"]


@pytest.mark.parametrize(
    ("old", "new", "stands"),
    [
        ("two\n", "two\nmore\n", True),
        ("two\n", "", True),
        ("\nfour", "\n\nfour", True),
        ("\nfour", "x\nfour", True),
        ("two\n\n", "two \n\n", True),
        ("two\n\n", "two", False),
        ("two\n\n", "", False),
    ],
)
def test_a_place_between_two_lines(old: str, new: str, stands: bool) -> None:
    """Between "two" and the blank line. Only who deletes over it, or joins the lines, takes it away."""
    typing = Typing()
    typing.replace(old, new)
    at = typing.passage.place(8, 8)
    assert (at is not None) == stands
    assert at is None or typing.snapshot.is_line_start(at)


def test_at_the_end_of_a_document_without_a_final_line_end() -> None:
    typing = Typing(text="one\ntwo", below="")
    end = typing.snapshot.n_chars
    typing.edit(end, end, "x")
    assert typing.standing() == ["one\n"]
    typing.edit(end, end + 1, "")
    typing.edit(end, end, "\nmore\n")
    assert typing.standing() == ["one\n", "two"]


def test_a_passage_within_a_line_ends_and_begins_there() -> None:
    typing = Typing(above="x = ", text="[one,\ntwo]", below=" + y\n")
    typing.edit(0, 1, "name")
    assert typing.standing() == ["one,\n".join(["[", ""]), "two]"]
    end = typing.passage.end
    typing.edit(end, end + 4, "\n")
    assert typing.standing() == ["[one,\n", "two]"]
    typing.replace("two", "2")
    assert typing.standing() == ["[one,\n"]


def test_cr_and_lf_that_meet_are_one_line_end() -> None:
    typing = Typing(above="a\r", text="b\rc\r", below="d\r")
    assert typing.standing() == ["b\r", "c\r"]
    typing.edit(4, 4, "\n")
    assert typing.standing() == ["c\r"]
    typing.edit(2, 2, "\n")
    assert typing.snapshot.text == "a\r\nb\r\nc\rd\r"


def test_whole_lines_added_at_the_border_are_outside() -> None:
    typing = Typing()
    for at in (typing.passage.start, typing.passage.end + 2):
        typing.edit(at, at, "x\n")
        assert (typing.passage.start, typing.passage.end) == (len(ABOVE) + 2, len(ABOVE + TEXT) + 2)
