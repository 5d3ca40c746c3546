"""Answers of which the model wrote the vowels and copied the rest: so each line made of them shows what is known."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from lsp_server.documents import BOM
from lsp_server.engine_client import Event
from lsp_server.traced import Span, Traced, written_in

Wrote = Callable[[str], bool]


def is_vowel(char: str) -> bool:
    return char in "aeiouAEIOU"


def copied(text: str, wrote: Wrote = is_vowel) -> tuple[Span, ...]:
    """The spans of the characters that were not written."""
    runs = groupby(range(len(text)), key=lambda at: wrote(text[at]))
    return tuple((run[0], run[-1] + 1) for is_written, each in runs if not is_written and (run := list(each)))


def says(text: str, wrote: Wrote = is_vowel) -> Event:
    """A piece of an answer."""
    return Event("writing", text, copied=copied(text, wrote))


def bare(line: str) -> str:
    return line.replace(BOM, "").strip()


def check_written(lines: Sequence[str], known: Iterable[str], wrote: Wrote = is_vowel) -> None:
    """What is written of lines that come from an answer is exactly what was; others stand in the document."""
    there = {"", *map(bare, known)}
    for line in lines:
        spans = list(written_in(line))
        assert all(start < end <= len(line) for start, end in spans) and spans == sorted(spans), (line, spans)
        assert all(line[start:end].strip() == line[start:end] for start, end in spans), (line, spans)
        marked = [at for span in spans for at in range(*span) if bare(line[at])]
        wanted = [at for at, char in enumerate(line) if bare(char) and wrote(char)]
        assert marked == wanted or (not isinstance(line, Traced) and bare(line) in there), (line, spans)
