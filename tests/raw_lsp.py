"""The language server's process at the level of bytes: for tests of framing, malformed messages and life cycle."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

SERVER = (sys.executable, "-m", "lsp_server.cli", "lsp", "--stdio")
CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
ANSWER = ("```python\n", "def two() -> int:\n", "    return 2\n", "```\n")
"""What an engine says to add a return type to `two`."""
URI = "file:///demo/a.py"
TWO = {"start": {"line": 4, "character": 0}, "end": {"line": 6, "character": 0}}
WAIT_S = 60.0


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class RawServer:
    """A running server; a thread of its own reads what it says, and answers its requests by `reply`."""

    def __init__(self, runtime: Path, *options: str, command: tuple[str, ...] = SERVER, **environment: str) -> None:
        self.stderr_path = runtime / f"stderr-{time.monotonic_ns()}"
        with self.stderr_path.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*command, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "STET_RUNTIME_DIR": str(runtime), **environment},
            )
        self.received: list[dict[str, Any]] = []
        self.noise = b""
        """What came on stdout and was no message."""
        self.reply: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda request: {"result": None}
        self._came = threading.Condition()
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with self._lock, suppress(BrokenPipeError):
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def say(self, **message: Any) -> None:
        self.send(frame(json.dumps({"jsonrpc": "2.0", **message}).encode()))

    def ask(self, method: str, params: Any, id: Any = "asked") -> dict[str, Any]:
        """A request and its answer, as JSON."""
        n_before = self.answers()[id]
        self.say(id=id, method=method, params=params)
        self.wait_for(lambda: self.answers()[id] > n_before)
        return next(each for each in reversed(self.received) if "method" not in each and each["id"] == id)

    def initialize(self, **more: Any) -> None:
        self.ask("initialize", {"processId": None, "capabilities": {}, "rootUri": None, **more}, "initialize")

    def open(self, text: str = CODE, uri: str = URI, language: str = "python") -> None:
        document = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.say(method="textDocument/didOpen", params={"textDocument": document})

    def answers(self) -> "Counter[Any]":
        """How many answers there were by id."""
        return Counter(each["id"] for each in self.received if "method" not in each)

    def notes(self, method: str) -> list[dict[str, Any]]:
        """The params of the notifications and requests of that method."""
        return [each["params"] for each in self.received if each.get("method") == method]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._came:
            assert self._came.wait_for(condition, WAIT_S), (self.stderr(), self.received[-3:])

    def stderr(self) -> str:
        return self.stderr_path.read_text(errors="replace")

    def end(self) -> None:
        """Kill it if it lives."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        length = None
        while line := stream.readline():
            name, _, value = line.partition(b":")
            if name == b"Content-Length":
                length = int(value)
            elif not line.strip() and length is not None:
                self._take(json.loads(stream.read(length)))
                length = None
            elif name != b"Content-Type":
                self.noise += line

    def _take(self, message: dict[str, Any]) -> None:
        with self._came:
            self.received.append(message)
            self._came.notify_all()
        if "method" in message and "id" in message and (answer := self.reply(message)) is not None:
            self.say(id=message["id"], **answer)
