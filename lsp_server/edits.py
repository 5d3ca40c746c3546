"""From old lines and new lines to hunks: minimal, line-aligned, final as early as can be.

Works on any lines that can be compared; knows no document and no model.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import accumulate
from typing import NamedTuple

from rapidfuzz.distance import Indel

ANCHOR_LINES = 3
ANCHOR_CHARS = 20
"""So many equal lines, with so many characters beside blanks, prove that the rewrite is back on the old text."""
LOOKAHEAD = 400
"""How many old lines beyond the current one a rewrite may delete before the end settles it."""
CONTEXT_LINES = 3
WORD = re.compile(r"\w+|\s+|.")
MIN_ALIKE = 0.5
"""Lines less alike are no versions of one line: to mark what they have in common would say nothing."""
MAX_PAIRS = 2500
MAX_CHARS = 10_000
"""Hunks of more (old lines times new lines, characters) are not compared word by word."""


class Hunk(NamedTuple):
    """Old lines first:last become new_lines. id counts from 0 in the order of the text."""

    id: int
    first: int
    last: int
    new_lines: tuple[str, ...]


def apply_hunks(old: Sequence[str], hunks: Iterable[Hunk]) -> list[str]:
    """The lines after the hunks, which are in order and don't overlap."""
    new: list[str] = []
    at = 0
    for hunk in hunks:
        new += [*old[at : hunk.first], *hunk.new_lines]
        at = hunk.last
    return [*new, *old[at:]]


class Part(NamedTuple):
    """Some characters of a line."""

    line: int
    start: int
    end: int


def changed_words(old: Sequence[str], new: Sequence[str]) -> tuple[list[Part], list[Part]]:
    """What differs within lines that became others: parts of the old lines, and of the new ones."""
    removed: list[Part] = []
    added: list[Part] = []
    if len(old) * len(new) > MAX_PAIRS or sum(map(len, old)) + sum(map(len, new)) > MAX_CHARS:
        return removed, added
    words, others = ([WORD.findall(line.rstrip("\r\n")) for line in lines] for lines in (old, new))
    for n_old, n_new in _paired_lines(words, others):
        ours, theirs = words[n_old], others[n_new]
        starts, new_starts = (list(accumulate(map(len, each), initial=0)) for each in (ours, theirs))
        for code in Indel.opcodes(ours, theirs):
            if code.tag == "delete":
                removed.append(Part(n_old, starts[code.src_start], starts[code.src_end]))
            elif code.tag == "insert":
                added.append(Part(n_new, new_starts[code.dest_start], new_starts[code.dest_end]))
    return removed, added


def _paired_lines(old: Sequence[list[str]], new: Sequence[list[str]]) -> Iterator[tuple[int, int]]:
    """Which old line became which new one, in order; lines that are like no other have no partner."""
    at = 0
    for n_new, line in enumerate(new):
        # As many lines as before: line by line. Else the one that is most alike, of like ones the first.
        candidates = range(n_new, n_new + 1) if len(old) == len(new) else range(at, len(old))
        likeness = {n_old: Indel.normalized_similarity(old[n_old], line) for n_old in candidates}
        best = max(likeness, key=likeness.__getitem__, default=-1)
        if best >= 0 and likeness[best] >= MIN_ALIKE:
            yield best, n_new
            at = best + 1


class StreamDiff:
    """Compares lines that arrive one by one with the old ones.

    `hunks` only grows: what is in it stays as it is. `line` is the old line up to which all is settled.
    """

    def __init__(self, old: Sequence[str]) -> None:
        self._old = old
        self._new: list[str] = []
        """New lines that are not settled yet."""
        self.line = 0
        self.n_settled = 0
        """How many new lines are settled."""
        self.hunks: list[Hunk] = []

    def feed(self, lines: Iterable[str]) -> None:
        """Take in the next new lines."""
        for line in lines:
            self._new.append(line)
            if len(self._new) == 1 and self.line < len(self._old) and self._old[self.line] == line:
                self._settle(1, 1)
            else:
                self._look_for_anchor()

    def finish(self) -> list[Hunk]:
        """No more lines come: settle the rest and return all hunks."""
        self._emit(opcodes(self._old[self.line :], self._new))
        self._settle(len(self._old) - self.line, len(self._new))
        return self.hunks

    def _look_for_anchor(self) -> None:
        """Settle what lies before a long run of equal lines, if the new lines end with one."""
        if not is_anchor(self._new[-ANCHOR_LINES:]):
            return
        window = self._old[self.line : self.line + len(self._new) + LOOKAHEAD]
        codes = opcodes(window, self._new)
        for index, (tag, _, old_end, new_start, new_end) in enumerate(codes):
            if tag == "equal" and is_anchor(self._new[new_start:new_end]):
                self._emit(codes[:index])
                self._settle(old_end, new_end)
                # What comes after the run starts the search anew.
                rest, self._new = self._new, []
                self.feed(rest)
                return

    def _emit(self, codes: Iterable["Opcode"]) -> None:
        for tag, i1, i2, j1, j2 in codes:
            if tag != "equal":
                self.hunks.append(Hunk(len(self.hunks), self.line + i1, self.line + i2, tuple(self._new[j1:j2])))

    def _settle(self, n_old: int, n_new: int) -> None:
        self.line += n_old
        self.n_settled += n_new
        del self._new[:n_new]


Opcode = tuple[str, int, int, int, int]


def opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    """The opcodes of difflib, after taking off the equal lines at both ends: fast, and no change is split around them.

    difflib rather than a true shortest edit script: it looks for long equal runs, which is what a person would mark.
    """
    limit = min(len(old), len(new))
    head = next((n for n in range(limit) if old[n] != new[n]), limit)
    tail = next((n for n in range(limit - head) if old[-1 - n] != new[-1 - n]), limit - head)
    middle = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    codes: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    codes += [(tag, i1 + head, i2 + head, j1 + head, j2 + head) for tag, i1, i2, j1, j2 in middle.get_opcodes()]
    if tail:
        codes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return codes


def is_anchor(lines: Sequence[str]) -> bool:
    """Whether a run of lines is long enough to be no coincidence."""
    return len(lines) >= ANCHOR_LINES and sum(len("".join(line.split())) for line in lines) >= ANCHOR_CHARS


@dataclass
class UnifiedDiff:
    """Writes hunks as a unified diff, each group as soon as it is known to be whole."""

    path: str
    old: Sequence[str]
    _group: list[Hunk] = field(default_factory=list)
    _shift: int = 0
    """How many lines the new text has more than the old one, before the current group."""
    _is_begun: bool = False

    def feed(self, hunks: Iterable[Hunk], line: int) -> Iterator[str]:
        """New hunks, and the old line up to which there are no others; yields pieces of the diff."""
        for hunk in hunks:
            if self._group and hunk.first - self._group[-1].last > 2 * CONTEXT_LINES:
                yield self._write()
            self._group.append(hunk)
        if self._group and line - self._group[-1].last > 2 * CONTEXT_LINES:
            yield self._write()

    def finish(self) -> Iterator[str]:
        """The last group."""
        if self._group:
            yield self._write()

    def _write(self) -> str:
        group, self._group = self._group, []
        start = max(0, group[0].first - CONTEXT_LINES)
        end = min(len(self.old), group[-1].last + CONTEXT_LINES)
        body: list[str] = []
        at = start
        for hunk in group:
            body += [" " + line for line in self.old[at : hunk.first]]
            body += ["-" + line for line in self.old[hunk.first : hunk.last]]
            body += ["+" + line for line in hunk.new_lines]
            at = hunk.last
        body += [" " + line for line in self.old[at:end]]
        grown = sum(len(hunk.new_lines) - (hunk.last - hunk.first) for hunk in group)
        title = f"@@ -{_span(start, end - start)} +{_span(start + self._shift, end - start + grown)} @@\n"
        self._shift += grown
        end_of_name = "\t" if " " in self.path else ""  # as git has it: else patch takes the name for two words
        files = "" if self._is_begun else f"--- a/{self.path}{end_of_name}\n+++ b/{self.path}{end_of_name}\n"
        self._is_begun = True
        return files + title + "".join(_with_end(line) for line in body)


def _span(start: int, count: int) -> str:
    """A range as unified diffs count it: from 1, and an empty one stands after the line before."""
    return f"{start + (count > 0)},{count}"


def _with_end(line: str) -> str:
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
