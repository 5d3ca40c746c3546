"""Blocks of code by indentation alone, for languages without a grammar and text that doesn't parse."""

import re

DEFINITION = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|pub(?:\(\w+\))?|unsafe|const)\s+)*"
    r"(?:def|class|fn|func|fun|function|sub|proc|interface|struct|impl|trait|enum|module)\b"
)
ATTACHED = re.compile(r"\s*(?:@|#|//|/\*|\*|--|;)")
"""A line that belongs to the definition below it: a decorator or a comment."""
CLOSER = re.compile(r"\s*(?:[)}\]]|end\b)")


def find_block(lines: list[str], at: int) -> tuple[int, int]:
    """The lines of the nearest definition that holds a line (no blank one), else of the nearest block or paragraph."""
    headers = [n for n in _headers(lines, at) if _end(lines, n) > at]
    header = next((n for n in headers if DEFINITION.match(lines[n])), headers[0] if headers else None)
    if header is None:
        return _paragraph(lines, at)
    first = header
    while first > 0 and ATTACHED.match(lines[first - 1]) and width(lines[first - 1]) == width(lines[header]):
        first -= 1
    return first, _end(lines, header)


def _headers(lines: list[str], at: int) -> list[int]:
    """The lines that open the blocks around a line, from the innermost; the line itself if it opens one."""
    headers = []
    depth = width(lines[at]) + 1
    for n in range(at, -1, -1):
        if lines[n].strip() and width(lines[n]) < depth and not CLOSER.match(lines[n]):
            depth = width(lines[n])
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
        deeper = width(lines[n]) > width(lines[header])
        closes = width(lines[n]) == width(lines[header]) and CLOSER.match(lines[n])
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


def width(line: str) -> int:
    """How many blanks a line begins with."""
    return len(line) - len(line.lstrip(" \t"))
