r"""Text that knows which of its characters the model wrote itself. Knows no answer and no hunk.

line = Traced.of("return stock[name]\n", copied=[(0, 7), (12, 19)])
("    " + line).written == ((11, 16),)
"""

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import SupportsIndex

Span = tuple[int, int]


class Traced(str):
    """A text and the spans of it that the model wrote. Whatever is cut from it or joined to it is Traced again.

    So it stays known while an answer is cleaned and indented anew: a plain str, as what Stet puts before a line, counts
    as copied. What `join`, `replace`, `format` or a regular expression makes of a Traced is a plain str.
    """

    __slots__ = ("written",)
    written: tuple[Span, ...]
    """In order and apart."""

    def __new__(cls, text: str, written: Iterable[Span]) -> "Traced":
        """A text of which these spans are written."""
        traced = super().__new__(cls, text)
        traced.written = tuple(written)
        return traced

    @classmethod
    def of(cls, text: str, copied: Iterable[Span]) -> "Traced":
        """A text of which these spans, in order, are copied and the rest is written."""
        borders = [0, *chain.from_iterable(copied), len(text)]
        return cls(text, [(start, end) for start, end in list(pairwise(borders))[::2] if start < end])

    def __add__(self, other: str) -> str:
        return _joined(self, other)

    def __radd__(self, other: str) -> str:
        return _joined(other, self)

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        part = super().__getitem__(key)
        if not isinstance(key, slice):
            return part
        start, end, step = key.indices(len(self))
        assert step == 1, "a text is cut, not shuffled"
        spans = ((max(start, one) - start, min(end, other) - start) for one, other in self.written)
        return Traced(part, [span for span in spans if span[0] < span[1]])

    def lstrip(self, chars: str | None = None, /) -> str:
        return self[len(self) - len(super().lstrip(chars)) :]

    def rstrip(self, chars: str | None = None, /) -> str:
        return self[: len(super().rstrip(chars))]

    def strip(self, chars: str | None = None, /) -> str:
        return self.lstrip(chars).rstrip(chars)

    def removeprefix(self, prefix: str, /) -> str:
        return self[len(prefix) :] if self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> str:
        return self[: len(self) - len(suffix)] if self.endswith(suffix) else self


def written_in(text: str) -> Iterator[Span]:
    """The spans of a text that the model wrote, without blanks at their ends."""
    for start, end in text.written if isinstance(text, Traced) else ():
        part = str(text)[start:end]
        if visible := part.strip():
            start += len(part) - len(part.lstrip())
            yield start, start + len(visible)


def _joined(one: str, other: str) -> Traced:
    n = len(one)
    spans = [*(one.written if isinstance(one, Traced) else ())]
    for start, end in other.written if isinstance(other, Traced) else ():
        if spans and spans[-1][1] == start + n:
            spans[-1] = (spans[-1][0], end + n)
        else:
            spans.append((start + n, end + n))
    return Traced(str.__add__(one, other), spans)
