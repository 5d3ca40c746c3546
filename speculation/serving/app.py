"""The engine's HTTP API (docs/engine-api.md) as a Starlette app: routes, streams, and who has hung up.

Knows HTTP; hands parsed requests to the worker and knows nothing of models.
"""

import asyncio
import contextlib
import hmac
import importlib.metadata
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from speculation.config import PRESETS
from speculation.errors import ModelError, StetError
from speculation.serving.answers import DONE, Answer, Json, comment, error_body, error_json, sse, status_of
from speculation.serving.process import Health
from speculation.serving.schema import ChatRequest, parse
from speculation.serving.worker import EngineLike, Job, Worker
from speculation.types import Chunk

MAX_BODY_BYTES = 16 << 20
KEEP_ALIVE_S = 1.0
"""How long a stream is silent at most: a comment that can't be delivered shows that the client is gone."""


def build_app(worker: Worker, *, idle_exit_s: float, shut_down: Callable[[], None]) -> ASGIApp:
    """The app; shut_down begins the end of the process."""
    started = time.monotonic()

    async def chat(request: Request) -> ASGIApp:
        asked = parse(await _body(request))
        if worker.info:
            _require_served(asked.model, _names(worker))
        job = worker.submit(lambda engine: _begin(engine, asked, _names(worker)), asked.file_type or "text")
        return _stream(worker, job, asked) if asked.is_streamed else _complete(worker, job)

    async def models(_: Request) -> Response:
        served = {"id": worker.model, "object": "model", "owned_by": "stet"}
        return _json({"object": "list", "data": [{**served, "created": 0}]})

    async def health(_: Request) -> Response:
        return _json(asdict(_health(worker, idle_exit_s, time.monotonic() - started)))

    async def shutdown(_: Request) -> Response:
        shut_down()
        return _json({"status": "stopping"})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", models, methods=["GET"]),
            Route("/health", health, methods=["GET"]),
            Route("/v1/stet/shutdown", shutdown, methods=["POST"]),
        ],
        exception_handlers={
            StetError: _stet_error,
            HTTPException: _http_error,
            ClientDisconnect: _client_gone,
            Exception: _our_bug,
        },
    )


def require_token(app: ASGIApp, token: str, socket: str | None) -> ASGIApp:
    """The app behind a bearer token, save for who comes through the Unix socket: its mode guards that."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        found = dict(scope["headers"]).get(b"authorization", b"")
        is_trusted = socket is not None and scope["server"] == (socket, None)
        if is_trusted or hmac.compare_digest(found, wanted):
            return await app(scope, receive, send)
        message = "a bearer token is needed; `stet engine status` says where it is"
        return await _json(error_json(401, message, "unauthorized"), 401)(scope, receive, send)

    return guarded


def _stream(worker: Worker, job: Job, asked: ChatRequest) -> ASGIApp:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        async def write(text: str, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": more})

        is_started = False
        async with _cancelled_when_gone(job, receive):
            try:
                async for block in _events(worker, job, asked):
                    if not is_started:
                        await send(_EVENT_STREAM)
                        is_started = True
                    await write(block)
            except StetError as error:
                if not is_started:
                    return await _stet_error(None, error)(scope, receive, send)
                await write(sse(error_body(error)))
            if is_started:
                await write("", more=False)

    return respond


_EVENT_STREAM = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")],
}


async def _events(worker: Worker, job: Job, asked: ChatRequest) -> AsyncIterator[str]:
    """The body of a stream.

    Its first block waits for a chunk or a comment, so that a request that is refused at once gets its HTTP status.
    """
    answer: Answer | None = None
    async for chunk in _chunks(job):
        if chunk is None:
            yield comment(job.waits_for)
            continue
        if answer is None:
            answer = Answer(worker.model)  # known by now: the engine is open
            yield answer.first_event()
        answer.add(chunk)
        yield answer.event(chunk)
    if job.is_cancelled or answer is None:
        return
    yield answer.last_event()
    if asked.has_usage:
        yield answer.usage_event()
    yield DONE


def _complete(worker: Worker, job: Job) -> ASGIApp:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        async with _cancelled_when_gone(job, receive):
            try:
                chunks = [chunk async for chunk in _chunks(job) if chunk is not None]
            except StetError as error:
                return await _stet_error(None, error)(scope, receive, send)
            if not job.is_cancelled:
                answer = Answer(worker.model)
                for chunk in chunks:
                    answer.add(chunk)
                await _json(answer.whole())(scope, receive, send)

    return respond


async def _chunks(job: Job) -> AsyncIterator[Chunk | None]:
    """The job's chunks, and None whenever it was silent for KEEP_ALIVE_S."""
    while True:
        try:
            chunk = await job.next_chunk(KEEP_ALIVE_S)
        except TimeoutError:
            yield None
            continue
        if chunk is None:
            return
        yield chunk


@contextlib.asynccontextmanager
async def _cancelled_when_gone(job: Job, receive: Receive) -> AsyncIterator[None]:
    """Cancel the job when its client hangs up, and in any case when the response is over."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        job.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        job.cancel()


def _begin(engine: EngineLike, asked: ChatRequest, names: list[str]) -> Iterator[Chunk]:
    """In the worker's thread: the engine's own checks run here, before the first chunk is pulled."""
    _require_served(asked.model, names)
    if asked.is_prefill:
        return engine.prefill(asked.messages)
    return engine.generate(
        asked.messages,
        source=asked.source,
        file_type=asked.file_type,
        draft=asked.is_drafted,
        temperature=asked.sampling.temperature,
        top_p=asked.sampling.top_p,
        top_k=asked.sampling.top_k,
        seed=asked.sampling.seed,
        repetition_penalty=asked.sampling.repetition_penalty,
        max_new_tokens=asked.max_tokens,
        stop=asked.stop,
    )


def _names(worker: Worker) -> list[str]:
    """Every name of the served model: as asked for, as the engine calls it, and the presets that mean it."""
    names = {"stet", worker.asked_model, worker.model}
    for preset in PRESETS.values():
        if preset.name in names or preset.target in names:
            names |= {preset.name, preset.target}
    return sorted(names)


def _require_served(wanted: str, names: list[str]) -> None:
    if wanted and wanted not in names:
        raise ModelError(f"the model {wanted[:200]!r} is not served here; this engine serves: {', '.join(names)}")


def _health(worker: Worker, idle_exit_s: float, uptime_s: float) -> Health:
    info = worker.info
    return Health(
        status=worker.status,
        error=str(worker.error) if worker.error else None,
        model=worker.model,
        names=_names(worker),
        small_lm=info.small_lm if info else None,
        device=info.device if info else "",
        dtype=info.dtype if info else "",
        context_len=info.context_len if info else None,
        gpu_bytes=info.gpu_bytes if info else 0,
        pid=os.getpid(),
        version=importlib.metadata.version("stet-lsp"),
        uptime_s=round(uptime_s, 1),
        n_active=worker.n_active,
        n_waiting=worker.n_waiting,
        trouble=worker.trouble,
        idle_exit_s=idle_exit_s,
    )


async def _body(request: Request) -> bytes:
    """The request body.

    One that is too long is read to its end, unkept: a client that is still sending would not see the answer.
    """
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= MAX_BODY_BYTES:
            parts.append(part)
    if size > MAX_BODY_BYTES:
        raise HTTPException(413, f"the request body has {size} bytes; at most {MAX_BODY_BYTES} are taken")
    return b"".join(parts)


def _json(value: Json, status: int = 200) -> Response:
    # Not JSONResponse's own rendering: an error may quote a lone surrogate, which only ASCII JSON can carry.
    return Response(json.dumps(value), status, media_type="application/json")


def _stet_error(_: Request | None, error: Exception) -> Response:
    assert isinstance(error, StetError)
    return _json(error_body(error), status_of(error))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = HTTPStatus(error.status_code).name.lower()
    message = error.detail
    if error.status_code in (404, 405):
        message = f"{request.method} {request.url.path}: {error.detail}"
    return Response(
        json.dumps(error_json(error.status_code, message, code)), error.status_code, error.headers, "application/json"
    )


def _client_gone(_: Request, __: Exception) -> Response:
    return Response(status_code=499)


def _our_bug(_: Request, error: Exception) -> Response:
    return _json(error_json(500, f"the engine failed on this request: {type(error).__name__}", "engine_error"), 500)
