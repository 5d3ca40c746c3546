"""A scripted engine for the language server's tests: the engine's API on a Unix socket, in the test's own event loop.

Unlike tests/fake_engine.py it stands still and dies exactly where a test wants it to.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from speculation.serving import process

HEAD = "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n"
MODELS = {"object": "list", "data": [{"id": "stub/model", "object": "model"}]}


@dataclass
class StubEngine:
    """Says `pieces`, a token each; waits before piece `hold_at` for `gate`; breaks off before piece `die_at`."""

    pieces: Sequence[str] = ()
    hold_at: int | None = None
    die_at: int | None = None
    finish_reason: str = "stop"
    refusal: tuple[int, str, str] | None = None
    """HTTP status, code and message instead of an answer."""
    refusals: list[tuple[int, str, str] | None] = field(default_factory=list)
    """The same for the next requests only; None: it hangs up without a word."""
    status: str = "ok"
    trouble: str | None = None
    tells_copied: bool = True
    """Whether it says which pieces were copied: those that are in the prediction."""
    n_loading: int = 0
    """How many times /health says "loading" before `status`."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    holding: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it waits at the gate."""
    closed_early: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client hangs up before the end."""
    requests: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, code: str, fence: str = "```") -> None:
        """Say this code in a fence, a line a piece."""
        self.pieces = [f"{fence}\n", *code.splitlines(keepends=True), f"{fence}\n"]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        try:
            method, path, _ = (await reader.readline()).decode().split(" ", 2)
            length = 0
            while (line := (await reader.readline()).strip()) != b"":
                name, _, value = line.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            body = await reader.readexactly(length)
            if method == "POST":
                await self.complete(json.loads(body), reader, writer)
            else:
                await self.send_json(writer, 200, self.health() if path == "/health" else MODELS)
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()

    def health(self) -> dict[str, Any]:
        self.n_loading -= 1
        said = {
            "status": "loading" if self.n_loading >= 0 else self.status,
            "error": "half a file" if self.status == "failed" else None,
            "model": "stub/model",
            "names": ["stub/model", "tiny"],
            "pid": os.getpid(),
            "trouble": self.trouble,
        }
        return {**{each.name: None for each in fields(process.Health)}, **said}

    async def send_json(self, writer: asyncio.StreamWriter, status: int, answer: dict[str, Any]) -> None:
        writer.write(HEAD.format(status=status, kind="application/json").encode() + json.dumps(answer).encode())
        await writer.drain()

    async def complete(
        self, request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.requests.append(request)
        if self.refusals or self.refusal:
            if refusal := self.refusals.pop(0) if self.refusals else self.refusal:
                status, code, message = refusal
                await self.send_json(writer, status, {"error": {"message": message, "code": code, "type": code}})
            return
        hung_up = asyncio.ensure_future(reader.read(1))
        writer.write(HEAD.format(status=200, kind="text/event-stream").encode())
        await self.say(writer, "", {"n_prefilled": 7})
        for index, piece in enumerate([] if request["stet"].get("prefill_only") else self.pieces):
            if index == self.die_at:
                return
            if index == self.hold_at:
                await self.wait(hung_up)
                if self.closed_early.is_set():
                    return
            ours: dict[str, Any] = {"n_tokens": 1, "n_copied": 1}
            if self.tells_copied:
                ours["copied"] = [[0, len(piece)]] if piece in request["prediction"]["content"] else []
            await self.say(writer, piece, ours)
        if self.hold_at == len(self.pieces):
            await self.wait(hung_up)
        n = len(self.pieces)
        stats = {"n_prompt": 7, "n_cached": 2, "n_tokens": n, "n_passes": 3, "n_copied": n, "decode_s": 0.5}
        await self.say(writer, "", {"stats": stats}, self.finish_reason)
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()

    async def wait(self, hung_up: "asyncio.Future[bytes]") -> None:
        """Stand still until the gate opens or the client hangs up."""
        self.holding.set()
        gate = asyncio.ensure_future(self.gate.wait())
        await asyncio.wait([gate, hung_up], return_when=asyncio.FIRST_COMPLETED)
        gate.cancel()
        if hung_up.done():
            self.closed_early.set()

    async def say(
        self, writer: asyncio.StreamWriter, text: str, ours: dict[str, Any], finish_reason: str | None = None
    ) -> None:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}
        writer.write(f"data: {json.dumps({'choices': [choice], 'stet': ours})}\n\n".encode())
        await writer.drain()


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[StubEngine]:
    """A stub where the server looks for the user's engine: STET_RUNTIME_DIR must be `folder`, which needs mode 0700."""
    stub = StubEngine()
    path = folder / "engine.sock"
    server = await asyncio.start_unix_server(stub.handle, path)
    (folder / "engine.json").write_text(
        json.dumps({"pid": os.getpid(), "socket": str(path), "host": "127.0.0.1", "port": None})
    )
    try:
        yield stub
    finally:
        stub.gate.set()
        server.close()
        path.unlink(missing_ok=True)
        (folder / "engine.json").unlink()
