r"""Text that knows which of its characters the model wrote itself. Knows no answer and no hunk.

line = Traced.of("return stock[name]\n", copied=[(0, 7), (12, 19)])
("    " + line).written == ((11, 16),)
"""

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import SupportsIndex

Span = tuple[int, int]


class Traced(str):
    """A text and the spans of it that the model wrote; what the methods below cut from it or join to it knows its own.

    So they stay known while an answer is cleaned and indented anew. A plain str, as what Stet puts before a line,
    counts as copied; so does what any other method makes of a text. `strip` is one: it mostly serves to compare.
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
        if not self.written or not isinstance(key, slice):
            return part
        start, end, step = key.indices(len(self))
        assert step == 1, "a text is cut, not shuffled"
        if len(part) == len(self):
            return self
        spans = ((max(start, one) - start, min(end, other) - start) for one, other in self.written)
        return Traced(part, [span for span in spans if span[0] < span[1]])

    def lstrip(self, chars: str | None = None, /) -> str:
        part = super().lstrip(chars)
        return self[-len(part) :] if self.written and part else part

    def rstrip(self, chars: str | None = None, /) -> str:
        part = super().rstrip(chars)
        return self[: len(part)] if self.written else part

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


def _joined(one: str, other: str) -> str:
    if not one or not other:
        return one or other
    n = len(one)
    spans = [*(one.written if isinstance(one, Traced) else ())]
    for start, end in other.written if isinstance(other, Traced) else ():
        if spans and spans[-1][1] == start + n:
            spans[-1] = (spans[-1][0], end + n)
        else:
            spans.append((start + n, end + n))
    return Traced(str.__add__(one, other), spans)
