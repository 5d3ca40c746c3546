"""Hunks in a document that is edited meanwhile: all encodings, line ends and orders of acceptance.

The model beside it is a list of characters, each with the number of its place in the first text, or None if it came
later. It knows nothing of spans: a hunk is whole if its characters still stand side by side, at the ends of lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.documents import Encoding, split_lines
from lsp_server.edits import Hunk, StreamDiff, apply_hunks
from lsp_server.jobs import Job
from lsp_server.prompts import build_prompt
from lsp_server.scopes import Region
from lsp_server.session import Session

CONTENTS = ["", "", "a", "b", "a b", "\ta", "x = '😀'", "é漢 = 1", "return", "}"]
NEWLINES = {"lf": ["\n"], "crlf": ["\r\n"], "cr": ["\r"], "mixed": ["\n", "\r\n"]}
ENCODINGS: list[Encoding] = ["utf-8", "utf-16", "utf-32"]
NIGHTLY = 10_000
T = TypeVar("T")


@dataclass
class Mark:
    """A character, and where it stood at first."""

    char: str
    at: int | None = None


@dataclass
class World:
    """A server and an editor that have the same document open, and the model of it."""

    text: str
    start: int
    end: int
    encoding: Encoding
    marks: list[Mark] = field(default_factory=list)
    session: Session = field(default_factory=lambda: Session(notify=lambda *_: None))
    version: int = 1
    is_exact: bool = True
    """Changes were reported where they were made."""
    whole: list[Hunk] = field(default_factory=list)
    """Hunks that nobody has ever touched: the model says so."""

    def __post_init__(self) -> None:
        self.marks = [Mark(char, at) for at, char in enumerate(self.text)]
        self.session.documents.encoding = self.encoding
        self.session.documents.open("u", 1, self.text, "python")
        snapshot = self.session.documents.get("u")
        first, last = snapshot.position(self.start, "utf-32"), snapshot.position(self.end, "utf-32")
        region = Region(self.start, self.end, first["line"], last["line"] + (last["character"] > 0))
        self.job = Job.of("job", snapshot, region, build_prompt(snapshot, region, "x", "a.py"))
        self.job.is_proposed = True
        self.session.jobs.add(self.job)

    def now(self) -> str:
        """The editor's text."""
        return "".join(mark.char for mark in self.marks)

    def places(self) -> list[int]:
        """Where an edit can begin or end: not between CR and LF."""
        text = self.now()
        return [at for at in range(len(text) + 1) if at == 0 or text[at - 1 : at + 1] != "\r\n"]

    def edit(self, start: int, end: int, new: list[Mark], *, is_whole: bool = False) -> None:
        """Edit the text and tell the server. is_whole: by sending all of it."""
        documents = self.session.documents
        span = documents.get("u").range(start, end, self.encoding)
        self.marks[start:end] = new
        self.change({"text": self.now()} if is_whole else {"range": span, "text": "".join(m.char for m in new)})

    def change(self, *changes: dict[str, Any]) -> None:
        """The server's side of a change."""
        self.version += 1
        edits = self.session.documents.change("u", self.version, changes)
        self.session.jobs.changed(edits, self.session.documents.get("u"))
        assert self.session.documents.get("u").text == self.now()
        self.check()

    def accept(self, hunks: list[Hunk]) -> None:
        """As an editor does it: from the last edit to the first."""
        places = [self.job.place(hunk) for hunk in hunks]
        sent = self.session.hunks_json(self.job, hunks)
        self.whole = [hunk for hunk in self.whole if hunk not in hunks]
        expected = self.job.expect(hunks)
        for hunk, place in zip(reversed(hunks), reversed(places), strict=True):
            assert place is not None
            self.check_place(hunk, *place)
            self.marks[slice(*place)] = [Mark(char) for char in "".join(hunk.new_lines)]
        self.change(*({"range": each["range"], "text": each["newText"]} for each in reversed(sent)))
        assert expected.is_applied and self.job.settle(is_said=True)

    def span_of(self, hunk: Hunk) -> tuple[int, int]:
        """Where a hunk stood in the first text."""
        return self.start + self.job.starts[hunk.first], self.start + self.job.starts[hunk.last]

    def is_line_start(self, at: int) -> bool:
        text = self.now()
        return at == 0 or text[at - 1 : at] == "\n" or (text[at - 1 : at] == "\r" and text[at : at + 1] != "\n")

    def whole_at(self, hunk: Hunk) -> int | None:
        """Where the model has a hunk's characters, if they are whole; a hunk of none never is."""
        start, end = self.span_of(hunk)
        at = next((n for n, mark in enumerate(self.marks) if mark.at == start), None)
        if at is None or start == end:
            return None
        stop = at + end - start
        is_together = [mark.at for mark in self.marks[at:stop]] == list(range(start, end))
        begins = self.is_line_start(at) or (start == self.start and not is_line_start(self.text, start))
        if end < self.end or self.text[end - 1] in "\r\n":
            ends = self.is_line_start(stop)
        else:
            ends = end < len(self.text) or self.now()[stop : stop + 1] in ("", "\n", "\r")
        return at if is_together and begins and ends else None

    def check_place(self, hunk: Hunk, start: int, end: int) -> None:
        """A hunk replaces its own old text and nothing else."""
        old = "".join(self.job.lines[hunk.first : hunk.last])
        assert self.now()[start:end] == old
        assert self.job.passage.start <= start <= end <= self.job.passage.end
        if hunk.first > 0 or is_line_start(self.text, self.start):
            assert self.is_line_start(start)
        if self.is_exact:
            assert all(mark.at is None or self.start <= mark.at < self.end for mark in self.marks[start:end])
            assert self.whole_at(hunk) in (None, start)

    def check(self) -> None:
        """All hunks that are left can be placed, in order; those that are whole are among them."""
        self.whole = [hunk for hunk in self.whole if self.whole_at(hunk) is not None]
        if self.session.jobs.get("job") is None:
            # It ends with the last of its text, though a hunk of blank lines could still be placed.
            left = [mark.char for mark in self.marks if mark.at is not None and self.start <= mark.at < self.end]
            assert self.whole == [] or not self.is_exact or "".join(left).isspace()
            self.job.hunks = []
            return
        places = []
        for hunk in self.job.hunks:
            place = self.job.place(hunk)
            assert place is not None
            self.check_place(hunk, *place)
            places += place
        assert places == sorted(places)
        assert [hunk for hunk in self.whole if hunk not in self.job.hunks] == [] or not self.is_exact


def is_line_start(text: str, at: int) -> bool:
    return at == 0 or text[at - 1 : at] == "\n" or (text[at - 1 : at] == "\r" and text[at : at + 1] != "\n")


def diff(old: list[str], new: list[str]) -> list[Hunk]:
    stream = StreamDiff(old)
    stream.feed(new)
    return stream.finish()


class Choices:
    """Random choices out of bytes: one draw of hypothesis for a whole story, which is many times faster."""

    def __init__(self, data: bytes) -> None:
        self._left = iter(data)

    def number(self, n: int) -> int:
        """One of 0 to n - 1; 0 when the bytes are used up."""
        return next(self._left, 0) % n

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(len(options))]


def make_world(choices: Choices, encoding: Encoding, newlines: list[str]) -> World:
    """A document with a region in it, whole lines or not, and the hunks of a random rewrite."""

    def lines(n: int) -> list[str]:
        return [choices.pick(CONTENTS) + choices.pick(newlines) for _ in range(n)]

    above, old, below = lines(choices.number(4)), lines(1 + choices.number(8)), lines(choices.number(4))
    old[0] = "first = 1" + old[0]  # So that it is not blank.
    if not below and choices.number(2):
        old[-1] = old[-1].rstrip("\r\n")
    start, end = len("".join(above)), len("".join(above + old))
    text = "".join(above + old + below)
    if choices.number(2):  # Not from the beginning of a line to the end of one.
        start += choices.number(len("first"))
        n_off = choices.number(len(old[-1].rstrip("\r\n")) + 1)
        end -= len(old[-1]) - n_off if len(old) > 1 else 0
    world = World(text, start, end, encoding)
    new: list[str] = []
    for line in world.job.lines:
        new += {"k": [line], "d": [], "r": lines(1), "i": [*lines(1), line]}[choices.pick("kkkkdri")]
    rewritten = "".join(new)
    if text[end - 1] not in "\r\n":
        rewritten = rewritten.rstrip("\r\n")
    world.job.hunks = diff(world.job.lines, split_lines(rewritten))
    world.whole = list(world.job.hunks)
    world.check()
    return world


TYPED = ["", "", "x", "a", "\n", "\r", "\r\n", "a\n", "x\r\ny", "\r\n\r\n", "😀"]


def type_something(world: World, choices: Choices) -> None:
    """A random edit, most of the time a small one, by a random kind of client; or the undoing of one."""
    text, places = world.now(), world.places()
    starts = [at for at in places if is_line_start(text, at)]
    at = choices.pick(choices.pick([places, starts]))
    reach = at + choices.pick([0, 0, 0, 1, 3, 9, len(text)])
    to = max(place for place in places if place <= max(at, reach))
    removed = world.marks[at:to]
    new = [Mark(char) for char in choices.pick(TYPED)]
    is_whole = choices.number(10) == 9
    world.is_exact &= not is_whole
    world.edit(at, to, new, is_whole=is_whole)
    if choices.number(4) == 3 and {at, at + len(new)} <= set(world.places()):
        world.edit(at, at + len(new), removed)


def every_text(function: Any) -> Any:
    """In all encodings, with all line ends, for stories of so many choices.

    As many cases as the profile says for all of them together; at night for each.
    """
    n_cases = settings.default.max_examples
    if n_cases < NIGHTLY:
        n_cases //= len(NEWLINES) * len(ENCODINGS)
    function = settings(max_examples=n_cases)(given(data=st.binary(min_size=80, max_size=80))(function))
    function = pytest.mark.parametrize("newlines", NEWLINES.values(), ids=NEWLINES)(function)
    return pytest.mark.parametrize("encoding", ENCODINGS)(function)


@every_text
def test_any_hunks_in_any_order_with_typing_between(encoding: Encoding, newlines: list[str], data: bytes) -> None:
    choices = Choices(data)
    world = make_world(choices, encoding, newlines)
    for _ in range(choices.number(7)):
        if world.job.hunks and choices.number(2):
            chosen = [hunk for hunk in world.job.hunks if choices.number(2)]
            world.accept(chosen or world.job.hunks[:1])
        else:
            type_something(world, choices)


@every_text
def test_without_typing_any_order_gives_the_mix_that_was_chosen(
    encoding: Encoding, newlines: list[str], data: bytes
) -> None:
    choices = Choices(data)
    world = make_world(choices, encoding, newlines)
    chosen = [hunk for hunk in world.job.hunks if choices.number(3)]
    left = list(chosen)
    while left:
        some = [hunk for hunk in left if choices.number(2)] or left[-1:]
        world.accept(some)
        left = [hunk for hunk in left if hunk not in some]
    mix = apply_hunks(world.job.lines, chosen)
    assert world.now() == world.text[: world.start] + "".join(mix) + world.text[world.end :]


@every_text
def test_an_accepted_hunk_that_is_undone_leaves_the_others(
    encoding: Encoding, newlines: list[str], data: bytes
) -> None:
    choices = Choices(data)
    world = make_world(choices, encoding, newlines)
    hunks = list(world.job.hunks)
    if not hunks:
        return
    one = choices.pick(hunks)
    others = [hunk for hunk in hunks if hunk != one]
    before = list(world.marks)
    place = world.job.place(one)
    assert place is not None
    world.accept([one])
    world.edit(place[0], place[0] + len("".join(one.new_lines)), before[slice(*place)])
    if others:
        assert world.job.hunks == others
        world.accept(others)
    mix = apply_hunks(world.job.lines, others)
    assert world.now() == world.text[: world.start] + "".join(mix) + world.text[world.end :]
