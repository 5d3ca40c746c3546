r"""Open documents: text, versions and positions by the rules of LSP.

Knows no rewrite and no editor. Lines end at \n, \r\n and \r only: a form feed, NEL or U+2028 is text (str.splitlines
and pygls's own documents count them as line ends, and then put edits into the wrong line).
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from rapidfuzz.distance import LCSseq

from speculation.errors import ConfigError

Encoding = Literal["utf-8", "utf-16", "utf-32"]
BOM = "\ufeff"
LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
LINE_END = re.compile(r"\r\n|\n|\r")
BLOCK_LINES = 128
MAX_COMPARED = 10_000**2
"""Old lines times new lines: a change of more is one edit, and not compared line by line."""


def common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    """How many characters two texts, or lines two lists, have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # By halves: to compare slices is much faster than to compare items.
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def split_lines(text: str) -> list[str]:
    """The lines of text with their ends; joined they are the text again."""
    return LINE.findall(text)


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in a text; a byte order mark is nothing to see."""
    return not text.replace(BOM, "").strip()


class Edit(NamedTuple):
    """Replace text[start:end] by new_text; offsets in code points."""

    start: int
    end: int
    new_text: str

    def apply(self, text: str) -> str:
        """The text after the edit."""
        return text[: self.start] + self.new_text + text[self.end :]


def edits_between(old: str, new: str, at: int = 0) -> list[Edit]:
    """The edits that turn old, which stands at an offset, into new; lines that are in both stay untouched.

    They go from the end to the beginning, so that none of them moves what the next one is about.
    """
    old_lines, new_lines = split_lines(old), split_lines(new)
    head = common_prefix(old_lines, new_lines)
    tail = common_prefix(old_lines[head:][::-1], new_lines[head:][::-1])
    ours, theirs = old_lines[head : len(old_lines) - tail], new_lines[head : len(new_lines) - tail]
    starts = list(accumulate(map(len, ours), initial=at + sum(map(len, old_lines[:head]))))
    edits, first, new_first = [], 0, 0
    for last, new_last, n_equal in _equal_lines(ours, theirs):
        if first < last or new_first < new_last:
            edits.append(_shortest_edit("".join(ours[first:last]), "".join(theirs[new_first:new_last]), starts[first]))
        first, new_first = last + n_equal, new_last + n_equal
    return edits[::-1]


def _equal_lines(ours: Sequence[str], theirs: Sequence[str]) -> Sequence[tuple[int, int, int]]:
    """Runs of equal lines in order: where they begin in one and the other, and how many; an empty one at the end."""
    if len(ours) * len(theirs) > MAX_COMPARED:
        return [(len(ours), len(theirs), 0)]
    return [(block.a, block.b, block.size) for block in LCSseq.editops(ours, theirs).as_matching_blocks()]


def _shortest_edit(old: str, new: str, at: int) -> Edit:
    """The edit without the characters that are the same at both ends."""
    head = common_prefix(old, new)
    tail = common_prefix(old[head:][::-1], new[head:][::-1])
    return Edit(at + head, at + len(old) - tail, new[head : len(new) - tail])


def units(text: str, encoding: Encoding) -> int:
    """How many code units text has."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    # A lone surrogate can come in by JSON; it must not stop the sync.
    encoded = text.encode("utf-8" if encoding == "utf-8" else "utf-16-le", "surrogatepass")
    return len(encoded) if encoding == "utf-8" else len(encoded) // 2


def prefix_of(line: str, character: int, encoding: Encoding) -> int:
    """Code points in the first `character` units of line; inside a character: before it; past the end: the end."""
    lengths = range(1, min(len(line), character) + 1)
    return bisect_right(lengths, character, key=lambda n: units(line[:n], encoding))


@dataclass(frozen=True)
class Block:
    """Some whole lines of a text, and where each of them begins in it."""

    text: str
    starts: list[int]

    @cached_property
    def lines(self) -> list[str]:
        """The lines, without an empty last one."""
        return split_lines(self.text)


@dataclass(frozen=True)
class Text:
    """A text that never changes; what an edit makes of it shares all blocks of lines but the one that was edited.

    So an edit costs about the same in a short text and in a long one, and an old text is kept for nothing. The last
    line is the one without an end: an empty one begins after a final line end, and in an empty text.
    """

    blocks: Sequence[Block]

    @classmethod
    def of(cls, text: str) -> "Text":
        """A text in blocks."""
        return cls(_blocks(text, is_end=True))

    def replace(self, start: int, end: int, new_text: str) -> "Text":
        """The text with new_text instead of start:end."""
        # From the block of the character before to that of the character after: \r and \n may meet, or part.
        first, last = self._block_at(max(0, start - 1)), self._block_at(end)
        edit = Edit(start - self._offsets[first], end - self._offsets[first], new_text)
        edited = edit.apply("".join(block.text for block in self.blocks[first : last + 1]))
        after = self.blocks[last + 1 :]
        return Text([*self.blocks[:first], *_blocks(edited, is_end=not after), *after])

    def slice(self, start: int, end: int) -> str:
        """The text between two offsets."""
        first, last = self._block_at(start), self._block_at(end)
        begin = self._offsets[first]
        return "".join(block.text for block in self.blocks[first : last + 1])[start - begin : end - begin]

    def line_at(self, offset: int) -> int:
        """The line in which an offset lies."""
        at = self._block_at(offset)
        return self._numbers[at] + bisect_right(self.blocks[at].starts, offset - self._offsets[at]) - 1

    def start_of(self, line: int) -> int:
        """Where a line begins; past the last one it is the end of the text."""
        if line >= self._numbers[-1]:
            return self._offsets[-1]
        at = bisect_right(self._numbers, line) - 1
        return self._offsets[at] + self.blocks[at].starts[line - self._numbers[at]]

    @property
    def n_chars(self) -> int:
        """How many code points it has."""
        return self._offsets[-1]

    @cached_property
    def text(self) -> str:
        """All of it."""
        return "".join(block.text for block in self.blocks)

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their ends, without an empty last one."""
        return [line for block in self.blocks for line in block.lines]

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each line, and of an empty last one too."""
        return [
            begin + start for begin, block in zip(self._offsets, self.blocks, strict=False) for start in block.starts
        ]

    @cached_property
    def _offsets(self) -> list[int]:
        """Where each block begins, and the text ends."""
        return list(accumulate((len(block.text) for block in self.blocks), initial=0))

    @cached_property
    def _numbers(self) -> list[int]:
        """The first line of each block, and how many there are in all."""
        return list(accumulate((len(block.starts) for block in self.blocks), initial=0))

    def _block_at(self, offset: int) -> int:
        return bisect_right(self._offsets, offset, 0, len(self.blocks)) - 1


def _blocks(text: str, *, is_end: bool) -> list[Block]:
    """Whole lines in blocks. is_end: they are the last ones of their text."""
    starts = [0, *(match.end() for match in LINE_END.finditer(text))]
    if not is_end:
        starts.pop()  # There the next block begins.
    if len(starts) <= 2 * BLOCK_LINES:
        return [Block(text, starts)]
    cuts = [*starts[::BLOCK_LINES], len(text)]
    return [
        Block(text[cut : cuts[n + 1]], [start - cut for start in starts[n * BLOCK_LINES : (n + 1) * BLOCK_LINES]])
        for n, cut in enumerate(cuts[:-1])
    ]


class Snapshot:
    """A document as it was at one version. What it offers beside `text`, `lines` and `starts` is cheap at any size."""

    def __init__(self, uri: str, version: int, text: str | Text, language_id: str = "") -> None:
        self.uri = uri
        self.version = version
        self.language_id = language_id
        self.body = Text.of(text) if isinstance(text, str) else text

    @property
    def text(self) -> str:
        """All of it."""
        return self.body.text

    @property
    def lines(self) -> list[str]:
        """The lines with their ends."""
        return self.body.lines

    @property
    def starts(self) -> list[int]:
        """The offset of each line; one more, empty line begins after a final line end (and in an empty text)."""
        return self.body.starts

    @property
    def n_chars(self) -> int:
        """len(text)."""
        return self.body.n_chars

    def slice(self, start: int, end: int) -> str:
        """text[start:end]."""
        return self.body.slice(start, end)

    def is_line_start(self, offset: int) -> bool:
        """Whether a line begins at an offset: `offset in starts`."""
        return self.body.start_of(self.body.line_at(offset)) == offset

    def offset(self, position: Mapping[str, Any], encoding: Encoding) -> int:
        """The offset of an LSP position; what lies past a line's or the document's end is taken as that end."""
        line, character = int(position["line"]), int(position["character"])
        start, end = self.body.start_of(line), self.body.start_of(line + 1)
        return start + prefix_of(self.slice(start, end).rstrip("\r\n"), character, encoding)

    def position(self, offset: int, encoding: Encoding) -> dict[str, int]:
        """The LSP position of an offset."""
        line = self.body.line_at(offset)
        start = self.body.start_of(line)
        return {"line": line, "character": units(self.slice(start, offset), encoding) if offset > start else 0}

    def range(self, start: int, end: int, encoding: Encoding) -> dict[str, Any]:
        """The LSP range of two offsets."""
        return {"start": self.position(start, encoding), "end": self.position(end, encoding)}


class Documents:
    """The open documents, fed by didOpen, didChange and didClose."""

    def __init__(self) -> None:
        self.encoding: Encoding = "utf-16"
        self._open: dict[str, Snapshot] = {}

    def open(self, uri: str, version: int, text: str, language_id: str) -> None:
        """Take a document in; one that is open already is replaced."""
        self._open[uri] = Snapshot(uri, version, text, language_id)

    def change(self, uri: str, version: int, changes: Sequence[Mapping[str, Any]]) -> list[Edit]:
        """Apply LSP content changes in their order; returns them as edits, each on the text left by the one before.

        A change that replaces many lines, or the whole text, becomes edits of what differs.
        """
        edits = []
        old = snapshot = self.get(uri)
        for change in changes:
            start, end = 0, snapshot.n_chars
            if change.get("range"):
                start, end = sorted(snapshot.offset(change["range"][side], self.encoding) for side in ("start", "end"))
            edits += edits_between(snapshot.slice(start, end), change["text"], start)
            snapshot = Snapshot(uri, version, snapshot.body.replace(start, end, change["text"]), old.language_id)
        self._open[uri] = Snapshot(uri, version, snapshot.body, old.language_id)
        return edits

    def close(self, uri: str) -> None:
        """Forget a document."""
        self._open.pop(uri, None)

    def get(self, uri: str) -> Snapshot:
        """The document as it is now."""
        try:
            return self._open[uri]
        except KeyError:
            raise ConfigError(f"{uri} is not open in the editor; open it, then try again") from None
