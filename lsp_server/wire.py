"""Messages off stdin and onto stdout: framed by Content-Length, bounded, found again behind garbage. Reads no JSON."""

import re
from collections.abc import Callable
from typing import BinaryIO

MAX_MESSAGE_BYTES = 32 << 20
MAX_LINE_BYTES = 8192
CONTENT_LENGTH = re.compile(rb"content-length:[ \t]*(\d{1,20})[ \t]*\r?\n\Z", re.IGNORECASE)
LONGEST_HEADER = 64


class TooLong(Exception):
    """A message that is not read."""

    def __init__(self, n_bytes: int) -> None:
        super().__init__(f"a message may have {MAX_MESSAGE_BYTES:,} bytes, not {n_bytes:,}")


def read_message(stream: BinaryIO) -> bytes | None:
    """The body of the next message; None at the end of the stream. Raises TooLong, and can go on behind it.

    A line that is no header is passed over, and so is the body of a message that is too long: the next line that ends
    with a Content-Length counts, wherever in the line it begins, for a body has no line end of its own.
    """
    length, held = None, b""
    while line := stream.readline(MAX_LINE_BYTES):
        if match := CONTENT_LENGTH.search(held + line):
            length = int(match[1])
            if length > MAX_MESSAGE_BYTES:
                raise TooLong(length)
        elif length is not None and not line.strip():
            body = stream.read(length)
            return body if len(body) == length else None
        held = b"" if line.endswith(b"\n") else line[-LONGEST_HEADER:]
    return None


class Writer:
    """Writes for pygls; a reader that is gone is told to `on_lost`."""

    def __init__(self, stream: BinaryIO, on_lost: Callable[[], object]) -> None:
        self._stream = stream
        self._on_lost = on_lost

    def write(self, data: bytes) -> None:
        """Write a message."""
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError:
            self._on_lost()

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
