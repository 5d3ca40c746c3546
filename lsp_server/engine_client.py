"""The engine as a stream of events: finds or starts it, asks, and says what it is doing. Knows no document.

    async with aclosing(client.complete(request)) as events:
        async for event in events: ...

Closing the iterator closes the connection, and that stops the engine.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx

from lsp_server.settings import Settings
from speculation.config import EngineConfig
from speculation.errors import ConfigError, ContextTooLong, EngineError, EngineStopping, ModelError, StetError
from speculation.serving import process

POLL_S = 0.25
JSON = {"Content-Type": "application/json"}
STOPPED = (
    "the engine stopped in mid-rewrite; nothing was changed; the next rewrite starts it again. If this happens again, "
    "the machine may be short of memory: rewrite fewer lines or choose a smaller model"
)
ERRORS: dict[str, type[StetError]] = {
    error.code: error for error in (ConfigError, ContextTooLong, EngineError, EngineStopping, ModelError)
}


@dataclass(frozen=True, slots=True)
class Request:
    """One chat completion with the text that is likely to reappear."""

    messages: list[dict[str, str]]
    prediction: str
    file_type: str
    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    draft: bool = True
    prefill_only: bool = False

    def body(self, model: str) -> dict[str, Any]:
        """The JSON of the request."""
        extension: dict[str, Any] = {"file_type": self.file_type, "draft": self.draft}
        if self.prefill_only:
            extension["prefill_only"] = True
        body = {
            "model": model,
            "messages": self.messages,
            "prediction": {"type": "content", "content": self.prediction},
            "max_tokens": 1 if self.prefill_only else self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "stream": True,
            "stream_options": {"include_usage": True},
            "stet": extension,
        }
        return body if self.seed is None else {**body, "seed": self.seed}


@dataclass(frozen=True, slots=True)
class Event:
    """Something the engine said. state: "starting", "loading", "queued", "prefill", "writing" or "end"."""

    state: str
    text: str = ""
    n_tokens: int = 0
    n_copied: int = 0
    copied: tuple[tuple[int, int], ...] | None = None
    """Which spans of text were copied; None from a server that doesn't say."""
    n_prefilled: int = 0
    n_ahead: int = 0
    finish_reason: str | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    """With "end": speculation.types.Stats, or what of it another server tells by `usage`."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where to send a request."""

    base_url: str
    headers: dict[str, str]
    socket: str | None = None
    model: str = ""

    def connect(self) -> httpx.AsyncClient:
        """A client for it. Proxies of the environment are for other machines than the user's own."""
        timeout = httpx.Timeout(None, connect=5.0)
        is_local = self.socket is not None
        # To read the certificates takes longer than a keystroke may: never for a socket, else once.
        verify = False if is_local else _certificates()
        transport = httpx.AsyncHTTPTransport(uds=self.socket, verify=verify) if is_local else None
        return httpx.AsyncClient(
            verify=verify,
            transport=transport,
            base_url=self.base_url,
            headers=self.headers,
            timeout=timeout,
            trust_env=not is_local,
            # Windows names a proxy without its exceptions, and the engine listens on TCP there.
            mounts=dict.fromkeys(("all://127.0.0.1", "all://localhost", "all://[::1]")),
        )


@cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context()


class EngineClient:
    """Talks to the local engine, or to the server that the settings name."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.trouble: str | None = None
        """What the engine wants the user to know although it works."""

    async def complete(self, request: Request) -> AsyncGenerator[Event, None]:
        """Send a request; yields events, the last one "end". Raises StetError."""
        for is_last_try in (False, True):
            has_begun = False
            try:
                async with aclosing(self._complete(request)) as events:
                    async for event in events:
                        has_begun = event.state not in ("starting", "loading")
                        yield event
                return
            except EngineStopping:
                # An idle engine may leave in the very instant in which it is asked: another one is started.
                if has_begun or is_last_try:
                    raise

    async def _complete(self, request: Request) -> AsyncGenerator[Event, None]:
        server = None
        async with aclosing(self._reach()) as reaching:
            async for step in reaching:
                if isinstance(step, Server):
                    server = step
                else:
                    yield step
        assert server is not None, "_reach ends with a server or raises"
        # In ASCII: half a surrogate pair in a document is for the engine to refuse.
        body = json.dumps(request.body(server.model))
        lost = EngineError if self.settings.server_url else EngineStopping
        try:
            async with (
                server.connect() as http,
                http.stream("POST", "/v1/chat/completions", content=body, headers=JSON) as response,
            ):
                if response.status_code != httpx.codes.OK:
                    raise _refusal(response.status_code, await response.aread())
                lost = EngineError
                async with aclosing(_events(response.aiter_lines())) as events:
                    async for event in events:
                        yield event
        except httpx.ConnectError as error:
            raise lost(
                f"can't reach {server.socket or server.base_url}: {error}; the next rewrite tries again"
            ) from error
        except httpx.HTTPError as error:
            raise lost(STOPPED) from error

    async def _reach(self) -> AsyncGenerator[Event | Server, None]:
        """Find the server, start the engine if need be; yields what goes on, then the server."""
        if self.settings.server_url:
            async for step in self._reach_url(self.settings.server_url):
                yield step
            return
        endpoint = await asyncio.to_thread(process.find)
        if endpoint is None:
            yield Event("starting")
        # Also for one that runs: start() refuses when it serves another model than the settings name.
        ours = self.settings
        config = EngineConfig(model=ours.model, small_lm=ours.small_lm, dtype=ours.dtype)
        endpoint = await asyncio.to_thread(process.start, config, idle_exit_s=60 * ours.idle_exit_minutes)
        while (health := await asyncio.to_thread(process.health, endpoint)) and health.status == "loading":
            yield Event("loading")
            await asyncio.sleep(POLL_S)
        if health is None:
            raise EngineError(
                "the engine stopped while it started; its log says why (stet engine status). If it says nothing, the "
                "machine may be short of memory: choose a smaller model or close other programs"
            )
        if health.status == "failed":
            raise EngineError(f"the engine can't load {health.model}: {health.error}")
        self.trouble = health.trouble
        yield Server(endpoint.base_url, endpoint.headers, endpoint.socket)

    async def _reach_url(self, url: str) -> AsyncGenerator[Server, None]:
        token = self.settings.server_token
        # Users give the base with and without /v1.
        server = Server(url.removesuffix("/v1"), {"Authorization": f"Bearer {token}"} if token else {})
        model = self.settings.model
        if model == "auto":
            model = await _first_model(server)
        yield Server(server.base_url, server.headers, model=model)


async def _first_model(server: Server) -> str:
    """The model that a server by URL serves, if the user named none."""
    try:
        async with server.connect() as http:
            response = await http.get("/v1/models", timeout=10.0)
            return str(response.raise_for_status().json()["data"][0]["id"])
    except httpx.TransportError:
        raise EngineError(f"{server.base_url} can't be reached; start the server, or check stet.server.url") from None
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise EngineError(
            f"{server.base_url} doesn't say which models it serves ({error!r}); check stet.server.url"
        ) from error


async def _events(lines: AsyncIterator[str]) -> AsyncGenerator[Event, None]:
    """The events of a server-sent stream, ended by one "end"."""
    stats: dict[str, Any] = {}
    finish_reason = None
    async for line in lines:
        if line.startswith(": queued "):
            yield Event("queued", n_ahead=int(line.removeprefix(": queued ")))
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            yield Event("end", finish_reason=finish_reason, stats=stats)
            return
        try:
            event = _read(json.loads(data))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise EngineError(
                f"the server's answer can't be read ({error!r}); is it an OpenAI-compatible one?"
            ) from error
        finish_reason = event.finish_reason or finish_reason
        stats |= event.stats
        # An opening role, an end or a usage alone is nothing to tell.
        if event.n_tokens or event.n_prefilled or event.text:
            yield event
    raise EngineError(STOPPED)


def _read(said: dict[str, Any]) -> Event:
    """One event of the stream. A server that counts no tokens is taken to send one at a time."""
    if "error" in said:
        raise _error(said["error"])
    ours = said.get("stet") or {}
    choice = (said.get("choices") or [{}])[0]
    text = (choice.get("delta") or {}).get("content") or ""
    n_tokens = int(ours.get("n_tokens", 1 if text else 0))
    copied = ours.get("copied")
    return Event(
        "writing" if text or n_tokens else "prefill",
        text,
        n_tokens,
        n_copied=int(ours.get("n_copied", 0)),
        copied=None if copied is None else tuple((int(start), int(end)) for start, end in copied),
        n_prefilled=int(ours.get("n_prefilled", 0)),
        finish_reason=choice.get("finish_reason"),
        stats=_stats_of_usage(said.get("usage") or {}) | (ours.get("stats") or {}),
    )


def _stats_of_usage(usage: dict[str, Any]) -> dict[str, Any]:
    """The standard's figures under our names; a server tells some of them, or none."""
    figures = {
        "n_tokens": usage.get("completion_tokens"),
        "n_prompt": usage.get("prompt_tokens"),
        "n_cached": (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        "n_copied": (usage.get("completion_tokens_details") or {}).get("accepted_prediction_tokens"),
    }
    return {name: value for name, value in figures.items() if value is not None}


def _refusal(status: int, body: bytes) -> StetError:
    try:
        return _error(json.loads(body)["error"])
    except (ValueError, LookupError, TypeError):
        return EngineError(
            f"the server answered with HTTP status {status}; check that it is an OpenAI-compatible server"
        )


def _error(said: dict[str, Any]) -> StetError:
    """The server's error in our own tree; unknown codes are the engine's."""
    return ERRORS.get(str(said.get("code")), EngineError)(str(said.get("message") or "the server gave no reason"))
