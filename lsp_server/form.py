r"""How a region's lines look to the model, and how what it wrote is put back.

The model is shown the lines without BOM, common indentation and blank lines at both ends, each ended by \n; the
document keeps its own. Lines that the rewrite leaves alone are never touched, whatever their ends and blanks are.
"""

from dataclasses import dataclass
from functools import cached_property

from lsp_server.documents import BOM, common_prefix, is_blank, split_lines
from lsp_server.edits import Hunk


def plain(line: str) -> str:
    """A line as it is compared: blanks on an empty line, which models drop, don't count as a change."""
    content = line.rstrip("\n")
    return content + "\n" if content.strip(" \t") else "\n"


@dataclass(frozen=True)
class Form:
    """The lines of a region, and what was taken off them for the model."""

    lines: tuple[str, ...]
    """All lines of the region as they stand in the document."""
    first: int
    last: int
    """lines[first:last] are shown to the model."""
    indent: str
    newline: str
    bom: str

    @classmethod
    def of(cls, region_text: str) -> "Form":
        """The form of a region's text, which must not be blank."""
        lines = split_lines(region_text)
        filled = [n for n, line in enumerate(lines) if not is_blank(line)]
        bom = BOM if lines[filled[0]].startswith(BOM) else ""
        content = [lines[n].removeprefix(bom) for n in filled]
        # The least and the greatest of the texts have in common what all of them have.
        blanks = sorted(line[: len(line) - len(line.lstrip(" \t"))] for line in content)
        indent = blanks[0][: common_prefix(blanks[0], blanks[-1])]
        ends = [line[len(line.rstrip("\r\n")) :] for line in lines]
        return cls(tuple(lines), filled[0], filled[-1] + 1, indent, max(("\n", "\r\n", "\r"), key=ends.count), bom)

    @cached_property
    def source(self) -> list[str]:
        """The lines for the model."""
        shown = [self.lines[self.first].removeprefix(self.bom), *self.lines[self.first + 1 : self.last]]
        return [plain(line.rstrip("\r\n").removeprefix(self.indent)) for line in shown]

    def align(self, first_line: str) -> str:
        """What to take off each line of an answer whose first line shows that it kept the document's indentation."""
        return self.indent if self.indent and first_line == self.indent + self.source[0] else ""

    def restore(self, line: str) -> str:
        """A line that the model wrote, as the document has it."""
        content = line.rstrip("\n")
        return (self.indent + content if content.strip() else content) + self.newline

    def restore_hunk(self, hunk: Hunk) -> Hunk:
        """A hunk on `source` as a hunk on `lines`. BOM and final newline stay as they are in the document."""
        first, last = self.first + hunk.first, self.first + hunk.last
        new = [self.restore(line) for line in hunk.new_lines]
        if self.bom and hunk.first == 0:
            if first == last or not new:
                # Something comes before the first line, or another becomes the first: take that into the hunk.
                new, last = [*new, *(line.removeprefix(self.bom) for line in self.lines[last : last + 1])], last + 1
            new[:1] = [self.bom + line for line in new[:1]]
        if last == len(self.lines) and self.lines[-1][-1] not in "\r\n":
            if (first == last or not new) and first > 0:
                first -= 1
                new = [self.lines[first].rstrip("\r\n") + self.newline, *new]
            new[-1:] = [line.rstrip("\r\n") for line in new[-1:]]
        return Hunk(hunk.id, first, min(last, len(self.lines)), tuple(new))
