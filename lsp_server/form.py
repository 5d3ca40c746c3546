r"""How a region's lines look to the model, and how what it wrote is put back.

The model is shown the lines without BOM, common indentation and blank lines at both ends, each ended by \n; the
document keeps its own. Lines that the rewrite leaves alone are never touched, whatever their ends and blanks are.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from lsp_server.documents import BOM, common_prefix, is_blank, split_lines
from lsp_server.edits import Hunk

NEARBY = 20_000
"""So many characters before and after a region tell what it doesn't tell itself: line ends, and tabs or spaces."""


def plain(line: str) -> str:
    """A line as it is compared: blanks on an empty line, which models drop, don't count as a change."""
    content = line.rstrip("\n")
    return content + "\n" if content.strip(" \t") else "\n"


def blanks(line: str) -> str:
    """The blanks that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True)
class Form:
    """The lines of a region, and what was taken off them for the model."""

    lines: tuple[str, ...]
    """All lines of the region as they stand in the document. The first and the last may be parts of lines."""
    first: int
    last: int
    """lines[first:last] are shown to the model."""
    indent: str
    newline: str
    unit: str
    """One step of indentation; empty where it can't be told or tabs and spaces are mixed."""
    lead: str
    """What the first line shown has in place of the indentation: a BOM before it, or nothing of it."""
    trail: str
    """Blanks between the region and what follows on its last line."""
    head: str
    tail: str
    """What stands on the first line before the region, and on the last one after it."""

    @classmethod
    def of(cls, region_text: str, before: str = "", after: str = "") -> "Form":
        """The form of a region's text, which must not be blank, in a document with this text before and after it."""
        lines = split_lines(region_text)
        filled = [n for n, line in enumerate(lines) if not is_blank(line)]
        head = "" if filled[0] > 0 else re.split(r"[\r\n]", before[-NEARBY:])[-1]
        is_cut = filled[-1] == len(lines) - 1 and lines[-1][-1] not in "\r\n"
        tail = re.split(r"[\r\n]", after[:NEARBY])[0] if is_cut else ""
        content = [lines[n] for n in filled]
        bom = BOM if content[0].startswith(BOM) else ""
        content[0] = head.removeprefix(BOM) if head else content[0].removeprefix(bom)
        # The least and the greatest of texts have in common what all of them have.
        indents = [blanks(line) for line in content]
        indent = min(indents)[: common_prefix(min(indents), max(indents))]
        near = split_lines(before[-NEARBY:] + region_text + after[:NEARBY])
        unit = _unit([line.removeprefix(indent) for line in content])
        return cls(
            tuple(lines),
            filled[0],
            filled[-1] + 1,
            indent,
            newline=_newline(lines) or _newline(near) or "\n",
            unit=_unit(near) or "" if unit is None else unit,
            lead=blanks(lines[0]) if head else bom + indent,
            trail=lines[-1][len(lines[-1].rstrip(" \t")) :] if tail else "",
            head=head,
            tail=tail,
        )

    @cached_property
    def source(self) -> list[str]:
        """The lines for the model."""
        return self.shown("".join(self.lines))

    def shown(self, text: str) -> list[str]:
        """The same of another text for the region, which must not be blank."""
        lines = split_lines(text)
        filled = [n for n, line in enumerate(lines) if not is_blank(line)]
        lines = lines[filled[0] : filled[-1] + 1]
        shown = [line.removeprefix(self.indent) for line in lines]
        shown[0] = lines[0].removeprefix(self.lead)
        shown[-1] = shown[-1].removesuffix(self.trail)
        return [plain(line.rstrip("\r\n")) for line in shown]

    def restore(self, line: str) -> str:
        """A line that the model wrote, as the document has it."""
        content = line.rstrip("\n")
        return (self.indent + content if content.strip() else content) + self.newline

    def with_lead(self, line: str) -> str:
        """A line of the document as the first one of the region."""
        return self.lead + line.removeprefix(self.indent)

    def restore_hunk(self, hunk: Hunk) -> Hunk:
        """A hunk on `source` as a hunk on `lines`. What begins and ends the region stays as it is in the document."""
        first, last = self.first + hunk.first, self.first + hunk.last
        new = [self.restore(line) for line in hunk.new_lines]
        if hunk.first == 0 and self.lead != self.indent:
            if first == last or not new:
                # Something comes before the first line, or another becomes the first: take that into the hunk.
                taken = self.lead if first == last else self.indent
                new += [self.indent + line.removeprefix(taken) for line in self.lines[last : last + 1]]
                last += 1
            new[:1] = map(self.with_lead, new[:1])
        if last == len(self.lines) and self.lines[-1][-1] not in "\r\n":
            if (first == last or not new) and first > 0:
                first -= 1
                trail = self.trail if first == last - 1 else ""
                new = [self.lines[first].rstrip("\r\n").removesuffix(trail) + self.newline, *new]
            new[-1:] = [line.rstrip("\r\n") + self.trail for line in new[-1:]]
        return Hunk(hunk.id, first, min(last, len(self.lines)), tuple(new))


class Reindent:
    """Gives the lines of an answer the form of the source's, where the model chose another.

    It may keep the indentation that it saw in the rest of the file, write spaces for tabs or tabs for spaces, or give
    back the whole line when a part of it is asked for.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self._source = set(form.source)
        self._tabs: dict[str, int] = {}
        """How deep the source has a line, by what stands on it; 0 where that differs."""
        for line in form.source:
            content, depth = line.lstrip("\t"), len(line) - len(line.lstrip("\t"))
            self._tabs[content] = depth if self._tabs.get(content, depth) == depth else 0
        self._excess: str | None = None
        self._is_faithful = False
        self._width = 0
        """How many spaces the model writes for a tab."""

    def line(self, line: str) -> str:
        """The next line of the answer, as it is compared with the source."""
        if self._excess is None:
            self._excess = self._find_excess(line)
            line = self._cut(line)
        line = plain(line.removeprefix(self._excess))
        indent, unit = blanks(line), self._form.unit
        # Once it indents as the document does, other blanks are meant: those in a string, say.
        self._is_faithful = self._is_faithful or not unit or indent.startswith(unit)
        if self._is_faithful or line in self._source:
            return line
        content = line.removeprefix(indent)
        if unit != "\t":
            return indent.replace("\t", unit) + content
        if len(indent) < 2 or indent.strip(" "):
            return line
        width = self._find_width(len(indent), content)
        return "\t" * (len(indent) // width) + " " * (len(indent) % width) + content

    def _find_excess(self, line: str) -> str:
        """What to take off each line of an answer whose first line shows that it kept the document's indentation."""
        ours, theirs, indent = blanks(self._form.source[0]), blanks(line), self._form.indent
        if theirs == indent + ours:
            return indent
        is_as_deep = any(theirs.expandtabs(width) == indent.expandtabs(width) for width in (2, 4, 8))
        return theirs if is_as_deep and not ours else ""

    def _cut(self, line: str) -> str:
        """The first line without what stands around the region on its line, if the answer repeats that."""
        head, tail, content = self._form.head.strip(), self._form.tail.strip(), line.lstrip().rstrip()
        if len("".join((head + tail).split())) < 3 or (tail and len(self._form.source) > 1):
            return line
        is_whole = len(content) >= len(head + tail) and content.startswith(head) and content.endswith(tail)
        source = self._form.source[0].strip()
        if not is_whole or (source.startswith(head) and source.endswith(tail)):
            return line
        return content[len(head) : len(content) - len(tail)].lstrip().rstrip() + "\n"

    def _find_width(self, n_spaces: int, content: str) -> int:
        if not self._width:
            n_tabs = self._tabs.get(content, 0)
            is_even = n_tabs > 0 and n_spaces % n_tabs == 0
            self._width = n_spaces // n_tabs if is_even else 4 if n_spaces % 4 < 2 else 2
        return self._width


def _newline(lines: Iterable[str]) -> str:
    """The line end that most of the lines have; empty if none has one."""
    ends = Counter(line[len(line.rstrip("\r\n")) :] for line in lines)
    del ends[""]
    return ends.most_common(1)[0][0] if ends else ""


def _unit(lines: Sequence[str]) -> str | None:
    """One step of indentation; empty if some lines have tabs and others spaces; None if no line is indented."""
    indents = [blanks(line) for line in lines if not is_blank(line)]
    has_tabs = any(indent.startswith("\t") for indent in indents)
    # One space alone aligns the lines of a comment.
    widths = [len(indent) for indent in indents if indent.startswith("  ")]
    if not widths:
        return "\t" if has_tabs else None
    if has_tabs:
        return ""
    steps = Counter(deeper - width for width, deeper in pairwise([0, *map(len, indents)]) if deeper - width > 1)
    return " " * (steps.most_common(1)[0][0] if steps else min(widths))
