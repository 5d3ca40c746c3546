"""The client turns any OpenAI-compatible stream into events, and every trouble into one line."""

import asyncio
import functools
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_engine import PROGRAM, own_folders
from stub_engine import StubEngine, running

from lsp_server.engine_client import EngineClient, Event, Request
from lsp_server.settings import Settings, read_settings
from speculation.errors import ContextTooLong, EngineError, ModelError, StetError
from speculation.serving import process

REQUEST = Request([{"role": "user", "content": "x"}], "y", "python", 9)


async def ask(settings: Settings, request: Request = REQUEST) -> list[Event]:
    async with aclosing(EngineClient(settings).complete(request)) as events:
        return [event async for event in events]


@asynccontextmanager
async def server(lines: list[str], status: int = 200) -> AsyncIterator[tuple[Settings, list[str]]]:
    """A foreign server on TCP that answers each POST with these lines; yields settings for it and what it was sent."""
    seen: list[str] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        seen.append(head)
        answer = "\n\n".join([*lines, ""])
        if head.startswith("GET"):
            answer = '{"data": [{"id": "their/model"}]}'
        else:
            length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
            seen.append((await reader.readexactly(length)).decode())
        writer.write(f"HTTP/1.1 {status} X\r\nConnection: close\r\n\r\n{answer}".encode())
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        yield read_settings({"server": {"url": f"http://127.0.0.1:{port}/v1/", "token": "secret"}})[0], seen


def delta(text: str, finish_reason: str | None = None) -> str:
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}, 'finish_reason': finish_reason}]})}"


USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}}


async def test_a_foreign_server_is_asked_by_its_own_model_name_and_token() -> None:
    stream = [": ping", delta("a"), delta("b", "stop"), f"data: {json.dumps(USAGE)}", "data: [DONE]"]
    async with server(stream) as (settings, seen):
        events = await ask(settings)
    assert [(event.state, event.text) for event in events] == [("writing", "a"), ("writing", "b"), ("end", "")]
    assert (events[-1].finish_reason, events[-1].stats) == ("stop", {"n_tokens": 2, "n_prompt": 5})
    assert {event.copied for event in events} == {None}, "it doesn't say what it copied"
    assert seen[0].startswith("GET /v1/models") and "Bearer secret" in seen[0]
    assert seen[1].startswith("POST /v1/chat/completions") and "Bearer secret" in seen[1]
    assert json.loads(seen[2])["model"] == "their/model"


@pytest.mark.parametrize(
    ("lines", "status", "error", "match"),
    [
        (["data: {}"], 200, EngineError, "stopped in mid-rewrite"),
        ([delta("a", "stop")], 200, EngineError, "stopped in mid-rewrite"),
        (['data: {"error": {"code": "model_error", "message": "bad weights"}}'], 200, ModelError, "bad weights"),
        (['data: {"error": {"code": "new_kind", "message": "oh"}}'], 200, EngineError, "oh"),
        (['{"error": {"code": "context_length_exceeded", "message": "long"}}'], 400, ContextTooLong, "long"),
        (["<html>"], 502, EngineError, "HTTP status 502"),
        (["data: nonsense"], 200, EngineError, "can't be read"),
        (['data: {"choices": 5}'], 200, EngineError, "can't be read"),
        (["data: 5"], 200, EngineError, "can't be read"),
        (['data: {"stet": {"n_tokens": 1, "copied": [1]}}'], 200, EngineError, "can't be read"),
    ],
)
async def test_trouble_is_one_error(lines: list[str], status: int, error: type[StetError], match: str) -> None:
    async with server(lines, status) as (settings, _):
        named = Settings(model="m", server_url=settings.server_url)
        with pytest.raises(error, match=match):
            await ask(named)


async def test_no_proxy_hears_what_is_said_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with server([delta("a", "stop"), "data: [DONE]"]) as (settings, _):
        assert (await ask(settings))[-1].finish_reason == "stop"


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:9"):
        await ask(Settings(model="m", server_url="http://127.0.0.1:9"))
    with pytest.raises(EngineError, match=r"stet\.server\.url"):
        await ask(Settings(server_url="http://127.0.0.1:9"))


async def test_the_local_engine_is_found_and_its_loading_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("STET_RUNTIME_DIR", str(tmp_path))
    async with running(tmp_path) as stub:
        stub.answer("x = 1\n")
        stub.n_loading = 8
        events = await ask(Settings())
        states = [event.state for event in events]
        assert [event.copied for event in events if event.text] == [(), (), ()]
        assert states[0] == "loading"
        assert [state for state in states if state != "loading"] == ["prefill", *["writing"] * 3, "end"]
        stub.status = "failed"
        with pytest.raises(EngineError, match="can't load stub/model: half a file"):
            await ask(Settings())


async def test_the_engine_is_started_with_the_users_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("STET_RUNTIME_DIR", str(tmp_path))
    asked = []

    def start(config: Any, *, idle_exit_s: float) -> None:
        asked.append((config.model, config.small_lm, config.dtype, idle_exit_s))
        raise EngineError("no weights")

    monkeypatch.setattr(process, "start", start)
    seen = []
    with pytest.raises(EngineError, match="no weights"):
        async with aclosing(EngineClient(Settings("tiny", "none", "int8", 2.0)).complete(REQUEST)) as events:
            async for event in events:
                seen.append(event.state)
    assert (seen, asked) == (["starting"], [("tiny", "none", "int8", 120.0)])


@pytest.mark.parametrize(
    ("given", "settings", "problems"),
    [
        (None, Settings(), []),
        ({}, Settings(), []),
        (
            {"model": "tiny", "smallLm": "none", "dtype": "int8", "idleExitMinutes": 1},
            Settings("tiny", "none", "int8", 1),
            [],
        ),
        ({"server.url": "https://a/v1/"}, Settings(server_url="https://a/v1"), []),
        ({"server": {"url": "https://a", "token": None}}, Settings(server_url="https://a"), []),
        ({"server": {"url": "file:///etc"}}, Settings(), ["stet.server.url must be a URL"]),
        ({"codeActions": 1, "model": ""}, Settings(), ["stet.codeActions must be", "stet.model must be"]),
        ({"idleExitMinutes": 0}, Settings(idle_exit_minutes=0), []),
        ({"dtype": "float8"}, Settings(), ["stet.dtype must be auto, float32"]),
        ({"idleExitMinutes": True}, Settings(), ["stet.idleExitMinutes must be"]),
        ({"modle": "x"}, Settings(), ["there is no setting stet.modle"]),
        ([1], Settings(), ["must be an object"]),
    ],
)
def test_settings_are_read_or_told(given: object, settings: Settings, problems: list[str]) -> None:
    read, told = read_settings(given)
    assert read == settings
    assert len(told) == len(problems)
    assert all(start in line for line, start in zip(told, problems, strict=True))


async def test_closing_the_stream_closes_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("STET_RUNTIME_DIR", str(tmp_path))
    async with running(tmp_path) as stub:
        stub.answer("x = 1\ny = 2\n")
        stub.hold_at = 2
        async with aclosing(EngineClient(Settings()).complete(REQUEST)) as events:
            async for event in events:
                if event.state == "writing":
                    break
        await asyncio.wait_for(stub.closed_early.wait(), 20)


async def test_a_killed_engine_is_one_error_and_the_next_request_starts_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "start", functools.partial(process.start, program=PROGRAM))
    monkeypatch.setenv("FAKE_ENGINE", json.dumps({"chunks": ["a", "b", "c"] * 9, "delay_s": 0.05}))
    with own_folders(monkeypatch):
        with pytest.raises(EngineError, match="the engine stopped in mid-rewrite; nothing was changed"):
            async with aclosing(EngineClient(Settings("fake/model")).complete(REQUEST)) as events:
                states = set()
                async for event in events:
                    states.add(event.state)
                    if event.state == "writing" and (endpoint := process.find()):
                        os.kill(endpoint.pid, signal.SIGKILL)
        assert "starting" in states
        again = await ask(Settings("fake/model"))
        assert (again[-1].state, again[-1].finish_reason) == ("end", "length")
        assert again[-1].stats["n_copied"] == REQUEST.max_tokens


@pytest.fixture
async def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StubEngine]:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("STET_RUNTIME_DIR", str(tmp_path))
    async with running(tmp_path) as stub:
        stub.answer("x = 1\n")
        yield stub


LEAVING = [None, (503, "engine_stopping", "the engine is stopping")]


@pytest.mark.parametrize("refusal", LEAVING, ids=["hangs up", "says so"])
async def test_a_request_that_meets_a_leaving_engine_is_sent_once_more(stub: StubEngine, refusal: Any) -> None:
    stub.refusals = [refusal]
    events = await ask(Settings())
    assert "".join(event.text for event in events) == "```\nx = 1\n```\n"
    assert events[-1].state == "end"
    assert len(stub.requests) == 2


@pytest.mark.parametrize("refusal", LEAVING, ids=["hangs up", "says so"])
async def test_it_is_sent_twice_at_most(stub: StubEngine, refusal: Any) -> None:
    stub.refusals = [refusal] * 9
    with pytest.raises(EngineError, match="stop"):
        await ask(Settings())
    assert len(stub.requests) == 2


async def test_what_has_begun_is_not_sent_again(stub: StubEngine) -> None:
    stub.die_at = 1
    with pytest.raises(EngineError, match="fewer lines or choose a smaller model"):
        await ask(Settings())
    assert len(stub.requests) == 1


async def test_half_a_surrogate_pair_is_for_the_engine_to_refuse(stub: StubEngine) -> None:
    await ask(Settings(), Request([{"role": "user", "content": "\ud800"}], "", "python", 9))
    assert stub.requests[0]["messages"][0]["content"] == "\ud800"
