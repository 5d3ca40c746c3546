"""Where both halves log, and what must not be logged: the user's text. Knows no file of either."""

import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def begin(level: int, file: Path | None = None) -> None:
    """Log to stderr, or to a file. Raises OSError."""
    handler = logging.FileHandler(file) if file else logging.StreamHandler()
    handler.setFormatter(logging.Formatter(FORMAT) if level <= logging.DEBUG else Discreet(FORMAT))
    logging.basicConfig(level=level, handlers=[handler])


class Discreet(logging.Formatter):
    """Says where an exception came from and its kind. Its own words may quote the user's text."""

    def formatException(self, ei: ExcInfo) -> str:
        """The frames and kinds of an exception and of those that led to it."""
        return "\n".join(
            f"{''.join(traceback.format_tb(error.__traceback__))}{type(error).__qualname__}" for error in _chain(ei[1])
        )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The first cause first, as Python prints them."""
    if error is not None:
        yield from _chain(error.__cause__ or (None if error.__suppress_context__ else error.__context__))
        yield error
