"""What a rewrite is about: a selection as it is, or the function, class, block or paragraph around a cursor."""

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from lsp_server import indentation
from lsp_server.documents import BOM, Snapshot, is_blank
from lsp_server.syntax import Syntax, parse
from speculation.errors import ConfigError

if TYPE_CHECKING:
    from tree_sitter import Node

# Grammars name alike what is alike, so that one pattern knows the definitions of all languages.
DEFINITION = re.compile(
    r"(\w+_)?(function|method|constructor|destructor|init|deinit|operator|indexer|subscript|subroutine|macro|mixin"
    r"|class|struct|union|interface|trait|impl|enum|record|object|protocol|type|type_alias|module|mod)"
    r"_(definition|declaration|item|specifier|statement|definition_statement|declaration_statement)"
    r"|method|singleton_method|class|singleton_class|module|internal_module|companion_object|secondary_constructor"
)
ACCESSORS = {"accessor_list", "getter", "setter", "computed_property"}
"""What makes a property more than a variable."""
VALUES = {"arrow_function", "function_expression", "generator_function", "function_definition", "func_literal", "class"}
"""What may have no name. It is a definition if it is given one."""
NAMING = {
    "assignment",
    "assignment_expression",
    "assignment_statement",
    "binary_operator",
    "expression_list",
    "expression_statement",
    "field_definition",
    "lexical_declaration",
    "pair",
    "public_field_definition",
    "variable_declaration",
    "variable_declarator",
}
WRAPPING = {"ambient_declaration", "declaration", "decorated_definition", "export_statement", "template_declaration"}
"""What belongs to the definition in it."""
ATTACHED = re.compile(r"(\w+_)?comment|attribute_item|decorator|(marker_)?annotation")
"""What belongs to the definition below it."""
PART = re.compile(
    r"(\w+_)?(block|body|list|node|mapping|sequence|section|statements|clause|group|compound_statement)"
    r"|(preproc|namespace|else|elif|elsif|elseif)\w*|then|ensure|rescue|body_statement|start_tag|jsx_opening_element"
)
"""What is no block of its own, or goes on for the whole file."""


class Region(NamedTuple):
    """A part of a document: its offsets, and the numbers of the first line it touches and the one after the last.

    It is whole lines, unless there is more than blanks before it on its first line or after it on its last.
    """

    start: int
    end: int
    first: int
    last: int


def lines_region(snapshot: Snapshot, first: int, last: int) -> Region:
    """The region of lines first up to, but not including, last."""
    end = snapshot.starts[last] if last < len(snapshot.starts) else len(snapshot.text)
    return Region(snapshot.starts[first], end, first, last)


def find_region(snapshot: Snapshot, start: int, end: int) -> Region:
    """What start:end stands for, which the rewrite may change; an empty range is a cursor.

    Raises ConfigError if there is nothing to rewrite.
    """
    region = _selection(snapshot, start, end) if start < end else _around(snapshot, start)
    if region is None or is_blank(snapshot.text[region.start : region.end]):
        raise ConfigError("there is nothing to rewrite here: select some code, or put the cursor into it")
    return region


def _selection(snapshot: Snapshot, start: int, end: int) -> Region:
    """Exactly start:end, but that blanks at both ends belong to their line: taken in with it, or left out."""
    text, first, last = snapshot.text, _line(snapshot, start), _line(snapshot, end)
    line = lines_region(snapshot, first, first + 1)
    if is_blank(text[line.start : start]):
        start = line.start
    elif line.end <= end and is_blank(text[start : line.end]):
        start, first = line.end, first + 1
    line = lines_region(snapshot, last, last + 1)
    if is_blank(text[line.start : end]):
        return Region(start, line.start, first, last)
    if is_blank(text[end : line.end]):
        end = line.end
    return Region(start, end, first, last + 1)


def _around(snapshot: Snapshot, cursor: int) -> Region | None:
    """The lines of the function, class, block or paragraph around a cursor; None where nothing but blanks is above."""
    lines, at = snapshot.lines, _line(snapshot, cursor)
    row = next((n for n in range(min(at, len(lines) - 1), -1, -1) if not is_blank(lines[n])), None)
    if row is None:
        return None
    first, last = _text(snapshot, row)
    place = min(max(cursor, first), last) if row == at else first
    syntax = parse(snapshot.language_id, snapshot.text, place, place)
    block = _Tree(snapshot, syntax).block(place) if syntax else None
    return lines_region(snapshot, *(block or indentation.find_block(lines, row)))


def _line(snapshot: Snapshot, offset: int) -> int:
    return bisect_right(snapshot.starts, offset) - 1


def _text(snapshot: Snapshot, row: int) -> tuple[int, int]:
    """The first and the last character of a row that is not blank: no node of its own holds the blanks around them."""
    line = snapshot.lines[row]
    n_blanks = len(line) - len(line.removeprefix(BOM).lstrip())
    return snapshot.starts[row] + n_blanks, snapshot.starts[row] + len(line.rstrip()) - 1


class _Tree:
    """A document's lines and their syntax."""

    def __init__(self, snapshot: Snapshot, syntax: Syntax) -> None:
        self._snapshot = snapshot
        self._syntax = syntax

    def block(self, place: int) -> tuple[int, int] | None:
        """The lines of the definition, or else the block, around a character; None if it can't be told."""
        path = self._syntax.path(place)
        node = self._below(path) or _definition(path) or self._block(path)
        # Code of another language in the text is one piece to its grammar.
        is_unknown = any(each.is_error or each.type == "raw_text" for each in path)
        if node is None or node.has_error or is_unknown:
            return None
        first, last = self._rows(node)
        while (above := self._attached(first - 1)) is not None:
            first = self._rows(above)[0]
        return first, last

    def _below(self, path: "list[Node]") -> "Node | None":
        """The definition that a path into a comment or decorator is attached to."""
        attached = next((node for node in path if ATTACHED.fullmatch(node.type)), None)
        while attached is not None:
            row = self._rows(attached)[1]
            path = self._path(row)
            node = _definition(path)
            if node is not None and self._rows(node)[0] == row:
                return node
            attached = next((node for node in path if ATTACHED.fullmatch(node.type)), None)
        return None

    def _block(self, path: "list[Node]") -> "Node | None":
        """The innermost block of several lines; by its first line a definition, if one is known by that alone."""
        blocks = [node for node in path if self._is_block(node)]
        rows = [self._snapshot.lines[self._rows(node)[0]] for node in blocks]
        named = [node for node, line in zip(blocks, rows, strict=True) if indentation.DEFINITION.match(line)]
        return next(iter((named or blocks)[::-1]), None)

    def _is_block(self, node: "Node") -> bool:
        first, last = self._rows(node)
        if node.parent is None or not node.is_named or last - first < 2 or not self._starts_line(node):
            return False
        return not PART.fullmatch(node.type)

    def _attached(self, row: int) -> "Node | None":
        """The comment or decorator that ends with a row and has its lines for itself."""
        for node in self._path(row):
            if ATTACHED.fullmatch(node.type):
                return node if self._starts_line(node) and self._rows(node)[1] == row + 1 else None
        return None

    def _path(self, row: int) -> "list[Node]":
        """The nodes around the first character of a row that is not blank."""
        lines = self._snapshot.lines
        if not 0 <= row < len(lines) or is_blank(lines[row]):
            return []
        return self._syntax.path(_text(self._snapshot, row)[0])

    def _rows(self, node: "Node") -> tuple[int, int]:
        """The first row of a node and the one after the last."""
        start, end = self._syntax.start(node), self._syntax.end(node)
        return _line(self._snapshot, start), _line(self._snapshot, max(start, end - 1)) + 1

    def _starts_line(self, node: "Node") -> bool:
        start = self._syntax.start(node)
        return is_blank(self._snapshot.text[self._snapshot.starts[_line(self._snapshot, start)] : start])


def _definition(path: "list[Node]") -> "Node | None":
    """The innermost definition of a path, with all that belongs to it."""
    for index in range(len(path) - 1, 0, -1):
        if _is_definition(path[index]):
            while index > 1 and path[index - 1].type in WRAPPING | NAMING:
                index -= 1
            return path[index]
    return None


def _is_definition(node: "Node") -> bool:
    if not node.is_named:
        return False
    if node.type in WRAPPING | NAMING:
        return any(_is_definition(each) or _is_long_value(each) for each in node.named_children)
    if node.type in VALUES:
        return any(node.child_by_field_name(name) for name in ("name", "declarator"))
    if node.type.endswith("_specifier"):  # else it's only the name of a type
        return node.child_by_field_name("body") is not None
    if node.type == "property_declaration":
        return any(child.type in ACCESSORS for child in node.children)
    return DEFINITION.fullmatch(node.type) is not None


def _is_long_value(node: "Node") -> bool:
    """Whether this is a function of several lines: of the others there are many in one function."""
    return node.type in VALUES and node.start_point.row < node.end_point.row
