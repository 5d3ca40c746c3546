r"""Drafts lines that the target writes as the source has them, but with another indentation or other line ends.

Behind four more spaces the same line is other tokens, so lines are compared as text here. The draft is the source's
next lines with the change that was made to the last one, split into tokens as the tokenizer splits them where they
will stand. Worked example: of the source "a\n  b\n    c\n" the output has written "if x:\n  a\n". Two spaces came
before "a", so "    b\n      c\n" is drafted. Silent where the source's lines would be drafted as they are.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from typing import Protocol

from speculation.types import Draft

N_CHARACTERS = 3
"""Characters of the source that are split per drafted token, at most."""

Reindent = Callable[[str], str]


class Codec(Protocol):
    """What copying needs of a tokenizer."""

    @property
    def line_ends(self) -> Collection[int]:
        """The tokens that hold a line feed."""
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids."""
        ...


class ShiftedDrafter:
    """Follows the output line by line. match_len of its drafts: tokens since a line that the source does not have."""

    source = "shifted"

    def __init__(self, source: Sequence[int], codec: Codec) -> None:
        self._codec = codec
        self._line_ends = codec.line_ends
        self._lines = [_parted(line) for line in re.split("(?<=\n)", codec.decode(source))]
        self._at: dict[str, list[int]] = {}
        for number, (_, body, _) in enumerate(self._lines):
            self._at.setdefault(body, []).append(number)
        self._next = 0  # the source's line that is expected next
        self._match_len = 0
        self._reindent: Reindent = str  # the indentation of a line of the source to that of the output's
        self._last = ("", "")  # both, of the last line
        self._ends: dict[str, str] = {}  # what follows the last visible character of a line: the source's, the output's
        self._tail: list[int] = []  # output tokens from the one with the last line feed on
        self._start = 0  # characters of the tail before the line that is being written

    def fork(self) -> "ShiftedDrafter":
        """A drafter for a supposed continuation: it observes and proposes like this one and leaves this one alone."""
        fork = copy(self)
        fork._ends, fork._tail = dict(self._ends), list(self._tail)
        return fork

    def observe(self, token_ids: Sequence[int]) -> None:
        """Take in what came out of the target in one pass."""
        for token in token_ids:
            self._tail.append(token)
            self._match_len += 1
            if token in self._line_ends:
                *lines, _ = self._codec.decode(self._tail)[self._start :].split("\n")
                for line in lines:
                    self._take(line + "\n")
                self._tail = [token]
                self._start = self._codec.decode([token]).rfind("\n") + 1

    def propose(self, n_max: int) -> Draft:
        """At most n_max tokens; empty while nothing is changed, and in a line that goes another way. O(n_max)."""
        written = self._codec.decode(self._tail)
        theirs, ours = "", written[: self._start]
        n_unsure = 0
        for indent, body, end in self._lines[self._next :]:
            if len(ours) > len(written) + n_max * N_CHARACTERS:
                n_unsure = 1  # the last token may go on in the next line
                break
            theirs += indent + body + end
            ours += (self._reindent(indent) if body else "") + body + self._ends.get(end, end)
        if ours[self._start :] == theirs:
            return Draft()
        token_ids = self._codec.encode(ours) if ours.startswith(written) else []
        n_written = len(self._tail)
        if token_ids[:n_written] != self._tail:
            return Draft()
        drafted = token_ids[n_written : len(token_ids) - n_unsure]
        return Draft(tuple(drafted[:n_max]), self.source, self._match_len)

    def _take(self, line: str) -> None:
        """Find a line that is complete in the source, and see how it was changed."""
        indent, body, end = _parted(line)
        places = self._at.get(body, [])
        middle = bisect_left(places, self._next)
        number = min(places[max(0, middle - 1) : middle + 1], key=lambda n: abs(n - self._next), default=None)
        if number is None:
            self._match_len = 0
        elif body or number == self._next:
            old_indent, _, old_end = self._lines[number]
            self._next = number + 1
            self._ends[old_end] = end
            if body and self._reindent(old_indent) != indent:
                rules = _rules(old_indent, indent)
                self._reindent = max(rules, key=lambda rule: rule(self._last[0]) == self._last[1], default=str)
            if body:
                self._last = (old_indent, indent)


def _parted(line: str) -> tuple[str, str, str]:
    """Indentation, text, and what stands behind it; the text of a blank line is empty."""
    body = line.strip()
    return line.partition(body) if body else ("", "", line)


def _rules(old: str, new: str) -> Iterator[Reindent]:
    """What may have been done to an indentation: something put before it, cut off, or each unit of it replaced."""
    if new.endswith(old):
        added = new.removesuffix(old)
        yield lambda indent: added + indent
    if old.endswith(new):
        cut = old.removesuffix(new)
        yield lambda indent: indent.removeprefix(cut)
    if len(set(old)) == len(set(new)) == 1:
        yield lambda indent: new[0] * (len(indent) * len(new) // len(old)) if set(indent) <= set(old) else indent
