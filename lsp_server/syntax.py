"""Syntax trees: what stands around a place in a text, and whether an edit broke it.

The grammars come in the wheel of tree-sitter-language-pack: nothing is fetched. They are imported when they are first
needed, so that they cost the server's start nothing.
"""

import ast
import re
import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, cast

from lsp_server.documents import Edit, Snapshot

if TYPE_CHECKING:
    from tree_sitter import Language, Node

GRAMMARS = {
    name: name
    for name in [
        "bash",
        "c",
        "clojure",
        "cmake",
        "commonlisp",
        "cpp",
        "csharp",
        "css",
        "cuda",
        "dart",
        "dockerfile",
        "elisp",
        "elixir",
        "elm",
        "erlang",
        "fish",
        "fortran",
        "go",
        "graphql",
        "groovy",
        "haskell",
        "hcl",
        "html",
        "ini",
        "java",
        "javascript",
        "json",
        "julia",
        "kotlin",
        "latex",
        "lua",
        "make",
        "matlab",
        "nix",
        "objc",
        "ocaml",
        "pascal",
        "php",
        "powershell",
        "prisma",
        "proto",
        "python",
        "r",
        "ruby",
        "rust",
        "scala",
        "scss",
        "solidity",
        "sql",
        "starlark",
        "svelte",
        "swift",
        "terraform",
        "toml",
        "tsx",
        "typescript",
        "verilog",
        "vhdl",
        "vim",
        "vue",
        "xml",
        "yaml",
        "zig",
    ]
} | {
    "cs": "csharp",
    "cuda-cpp": "cuda",
    "emacs-lisp": "elisp",
    "javascriptreact": "javascript",
    "jsonc": "json",
    "lisp": "commonlisp",
    "makefile": "make",
    "objective-c": "objc",
    "plaintex": "latex",
    "proto3": "proto",
    "sh": "bash",
    "shellscript": "bash",
    "systemverilog": "verilog",
    "tex": "latex",
    "typescriptreact": "tsx",
    "zsh": "bash",
}
"""Editors' language ids -> grammars. Not all of the pack: on some texts cobol and perl never end, markdown crashes."""

WINDOW = 25_000
"""So many characters on both sides of a place are parsed: some 700 lines and ten milliseconds each."""
MAX_CHARS = 50_000
"""Of what is between: to parse more would take too long."""
TIMEOUT_S = 1.0
"""For text on which a grammar takes very long."""
CHUNK = 4096
"""So many bytes at a time are handed to the parser: in between other threads get their turn."""
LONE_CR = re.compile(r"\r(?!\n)")
GAP = re.compile(r"\n[ \t\r]*\n(?=[^\s)}\]])")
"""Blank lines before a line without indentation: a good place to cut."""


class Syntax:
    """The tree of a text around a place. Offsets are the text's, in code points."""

    def __init__(self, language: "Language", text: str, start: int, end: int) -> None:
        from tree_sitter import Parser

        self._origin, stop = _window(text, start, end)
        # Grammars know no line that ends at \r alone; nothing may change its place.
        part = LONE_CR.sub("\n", text[self._origin : stop])
        self._data = part.encode("utf-8", "replace")
        self._is_ascii = len(self._data) == len(part)
        deadline = time.monotonic() + TIMEOUT_S
        tree = Parser(language).parse(
            _reader(self._data), progress_callback=lambda at, has_error: time.monotonic() > deadline
        )
        self.root = tree.root_node

    def path(self, offset: int) -> "list[Node]":
        """The nodes around a character, from the root to the leaf."""
        at = self._byte(offset)
        cursor = self.root.walk()
        path = [self.root]
        while cursor.goto_first_child_for_byte(at) is not None:
            node = cursor.node
            if node is None or node.start_byte > at:
                break
            path.append(node)
        return path

    def start(self, node: "Node") -> int:
        """Where a node begins."""
        return self._offset(node.start_byte)

    def end(self, node: "Node") -> int:
        """Where a node ends, without the blanks and line ends that some grammars take in."""
        return self._offset(node.start_byte + len(self._data[node.start_byte : node.end_byte].rstrip()))

    def top_level(self, start: int, end: int) -> tuple[int, int]:
        """The ends of all that stands at top level and touches start:end."""
        first, last = self._byte(start), self._byte(end)
        touched = [node for node in self.root.children if node.end_byte >= first and node.start_byte <= last]
        return min([start, *map(self.start, touched)]), max([end, *map(self.end, touched)])

    def has_errors(self, start: int, end: int) -> bool:
        """Whether there is a place in start:end, or at its ends, that doesn't parse."""
        first, last = self._byte(start), self._byte(end)
        nodes = [self.root]
        while nodes:
            node = nodes.pop()
            if node.end_byte >= first and node.start_byte <= last:
                if node.is_error or node.is_missing:
                    return True
                nodes += [child for child in node.children if child.has_error]
        return False

    def _byte(self, offset: int) -> int:
        at = offset - self._origin
        if self._is_ascii:
            return at
        # A code point has at most four bytes: enough of them to find the first `at` code points.
        return len(self._data[: 4 * at].decode("utf-8", "ignore")[:at].encode("utf-8"))

    def _offset(self, byte: int) -> int:
        return self._origin + (byte if self._is_ascii else len(self._data[:byte].decode("utf-8")))


def _reader(data: bytes) -> Callable[[int, object], bytearray]:
    """What hands data to the parser.

    The tree keeps this function, and no garbage collector sees through a tree: it must not know who holds the tree.
    And py-tree-sitter (0.26) never lets go of what the function returns, so that is one object for all chunks.
    """
    chunk = bytearray()

    def read(at: int, _: object) -> bytearray:
        chunk[:] = data[at : at + CHUNK]
        return chunk

    return read


def parse(language_id: str, text: str, start: int, end: int) -> Syntax | None:
    """The syntax tree around start:end; None if there is no grammar for the language, or too much to parse."""
    grammar = GRAMMARS.get(language_id)
    if grammar is None or end - start > MAX_CHARS:
        return None
    try:
        return Syntax(_language(grammar), text, start, end)
    except ValueError:  # out of time
        return None


def breaks(snapshot: Snapshot, edit: Edit) -> bool:
    """Whether a document parses before an edit and not after it; in a broken one: whether that place did.

    Takes up to a second: not for an event loop.
    """
    language_id, before = snapshot.language_id, snapshot.text
    after = edit.apply(before)
    new_end = edit.start + len(edit.new_text)
    old, new = parse(language_id, before, edit.start, edit.end), parse(language_id, after, edit.start, new_end)
    if old is None or new is None:
        return False
    if old.root.has_error:
        return new.has_errors(edit.start, new_end) and not old.has_errors(edit.start, edit.end)
    if new.root.has_error or language_id != "python":
        return new.root.has_error
    # Python's grammar takes a body without indentation for an empty one.
    start, end = old.top_level(edit.start, edit.end)
    grown = len(edit.new_text) - (edit.end - edit.start)
    return _is_badly_indented(after[start : end + grown]) and not _is_badly_indented(before[start:end])


def _is_badly_indented(python: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(python)
    except IndentationError:
        return True
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Perhaps a newer Python than ours, or no text for it at all.
        return False
    return False


@cache
def _language(grammar: str) -> "Language":
    import tree_sitter_language_pack as pack

    return pack.get_language(cast("pack.SupportedLanguage", grammar))


def _window(text: str, start: int, end: int) -> tuple[int, int]:
    """The part of a text to parse for start:end: all of it if it is short, else cut between definitions."""
    first, last = 0, len(text)
    if start > WINDOW:
        gap = GAP.search(text, start - WINDOW, start)
        first = gap.end() if gap else start - WINDOW
    if len(text) - end > WINDOW:
        gap = GAP.search(text, end + WINDOW // 2, end + WINDOW)
        last = gap.start() + 1 if gap else end + WINDOW
    return first, last
