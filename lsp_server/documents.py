r"""Open documents: text, versions and positions by the rules of LSP.

Knows no rewrite and no editor. Lines end at \n, \r\n and \r only: a form feed, NEL or U+2028 is text (str.splitlines
and pygls's own documents count them as line ends, and then put edits into the wrong line).
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from speculation.errors import ConfigError

Encoding = Literal["utf-8", "utf-16", "utf-32"]
BOM = "\ufeff"
LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


def common_prefix(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    limit = min(len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    return next(n for n in range(limit) if one[n] != other[n])


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


def units(text: str, encoding: Encoding) -> int:
    """How many code units text has."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    # A lone surrogate can come in by JSON; it must not stop the sync.
    encoded = text.encode("utf-8" if encoding == "utf-8" else "utf-16-le", "surrogatepass")
    return len(encoded) if encoding == "utf-8" else len(encoded) // 2


def prefix_of(line: str, character: int, encoding: Encoding) -> int:
    """Code points in the first `character` units of line; inside a character: before it; past the end: the end."""
    if encoding == "utf-32" or line.isascii():
        return min(character, len(line))
    seen = 0
    for index, char in enumerate(line):
        seen += units(char, encoding)
        if seen > character:
            return index
    return len(line)


@dataclass(frozen=True)
class Snapshot:
    """A document as it was at one version."""

    uri: str
    version: int
    text: str
    language_id: str = ""

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their ends."""
        return split_lines(self.text)

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each line; one more, empty line begins after a final line end (and in an empty text)."""
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line))
        if self.text and self.lines[-1][-1] not in "\r\n":
            starts.pop()
        return starts

    def offset(self, position: Mapping[str, Any], encoding: Encoding) -> int:
        """The offset of an LSP position; what lies past a line's or the document's end is taken as that end."""
        line, character = int(position["line"]), int(position["character"])
        if line >= len(self.starts):
            return len(self.text)
        start = self.starts[line]
        content = self.lines[line].rstrip("\r\n") if line < len(self.lines) else ""
        return start + prefix_of(content, character, encoding)

    def position(self, offset: int, encoding: Encoding) -> dict[str, int]:
        """The LSP position of an offset."""
        line = bisect_right(self.starts, offset) - 1
        return {"line": line, "character": units(self.text[self.starts[line] : offset], encoding)}

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
        """Apply LSP content changes in their order; returns them as edits, each on the text left by the one before."""
        edits = []
        snapshot = self.get(uri)
        for change in changes:
            if change.get("range"):
                start, end = (snapshot.offset(change["range"][side], self.encoding) for side in ("start", "end"))
                edit = Edit(min(start, end), max(start, end), change["text"])
            else:
                edit = _shortest_edit(snapshot.text, change["text"])
            snapshot = Snapshot(uri, version, edit.apply(snapshot.text), snapshot.language_id)
            edits.append(edit)
        self._open[uri] = Snapshot(uri, version, snapshot.text, snapshot.language_id)
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


def _shortest_edit(old: str, new: str) -> Edit:
    """What a client changed that sends whole documents: without the text that is the same at both ends."""
    head = common_prefix(old, new)
    tail = common_prefix(old[head:][::-1], new[head:][::-1])
    return Edit(head, len(old) - tail, new[head : len(new) - tail])
