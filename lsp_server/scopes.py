"""Which lines a rewrite is about: the lines of a selection, or the block around a cursor.

Knows text and indentation, no grammar.
"""

import re
from typing import NamedTuple

from lsp_server.documents import Snapshot, is_blank
from speculation.errors import ConfigError

DEFINITION = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|pub(?:\(\w+\))?|unsafe|const)\s+)*"
    r"(?:def|class|fn|func|fun|function|sub|proc|interface|struct|impl|trait|enum|module)\b"
)
ATTACHED = re.compile(r"\s*(?:@|#|//|/\*|\*|--|;)")
"""A line that belongs to the definition below it: a decorator or a comment."""
CLOSER = re.compile(r"\s*(?:[)}\]]|end\b)")


class Region(NamedTuple):
    """Whole lines of a document: offsets, and the numbers of the first line and the one after the last."""

    start: int
    end: int
    first: int
    last: int


def lines_region(snapshot: Snapshot, first: int, last: int) -> Region:
    """The region of lines first up to, but not including, last."""
    end = snapshot.starts[last] if last < len(snapshot.starts) else len(snapshot.text)
    return Region(snapshot.starts[first], end, first, last)


def find_region(snapshot: Snapshot, start: int, end: int) -> Region:
    """The lines touched by start:end, which the rewrite may change; an empty range stands for the block around it.

    Raises ConfigError if there is nothing to rewrite.
    """
    lines = snapshot.lines
    first, last = (snapshot.position(offset, "utf-32") for offset in (start, end))
    if start == end:
        block = find_block(lines, first["line"])
        region = lines_region(snapshot, *block) if block else None
    else:
        touched = last["line"] + (last["character"] > 0)
        region = lines_region(snapshot, first["line"], min(touched, len(lines)))
    if region is None or is_blank(snapshot.text[region.start : region.end]):
        raise ConfigError("there is nothing to rewrite here: select some code, or put the cursor into it")
    return region


def find_block(lines: list[str], at: int) -> tuple[int, int] | None:
    """The block around a line: the nearest definition that holds it, else the nearest block, else the paragraph."""
    at = next((n for n in range(min(at, len(lines) - 1), -1, -1) if lines[n].strip()), -1)
    if at < 0:
        return None
    headers = [n for n in _headers(lines, at) if _end(lines, n) > at]
    header = next((n for n in headers if DEFINITION.match(lines[n])), headers[0] if headers else None)
    if header is None:
        return _paragraph(lines, at)
    first = header
    while first > 0 and ATTACHED.match(lines[first - 1]) and _indent(lines[first - 1]) == _indent(lines[header]):
        first -= 1
    return first, _end(lines, header)


def _headers(lines: list[str], at: int) -> list[int]:
    """The lines that open the blocks around a line, from the innermost; the line itself if it opens one."""
    headers = []
    depth = _indent(lines[at]) + 1
    for n in range(at, -1, -1):
        if lines[n].strip() and _indent(lines[n]) < depth and not CLOSER.match(lines[n]):
            depth = _indent(lines[n])
            if _end(lines, n) > n + 1:
                headers.append(n)
        if depth == 0:
            break
    return headers


def _end(lines: list[str], header: int) -> int:
    """The line after the block that a header opens: all that is deeper, and the bracket or `end` that closes it."""
    end = header + 1
    for n in range(header + 1, len(lines)):
        if not lines[n].strip():
            continue
        deeper = _indent(lines[n]) > _indent(lines[header])
        closes = _indent(lines[n]) == _indent(lines[header]) and CLOSER.match(lines[n])
        if deeper or closes:
            end = n + 1
        if not deeper and not (closes and lines[n].rstrip().endswith((":", "{"))):
            break
    return end


def _paragraph(lines: list[str], at: int) -> tuple[int, int]:
    """The lines around one up to the next blank lines."""
    first, last = at, at + 1
    while first > 0 and lines[first - 1].strip():
        first -= 1
    while last < len(lines) and lines[last].strip():
        last += 1
    return first, last


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
