"""A stand-in for speculation.engine.Engine: scripted output, a delay per chunk, and a record of what was done to it.

In a test's own process, on its own thread:

    with running(FakeEngine(chunks=["a", "b"], delay_s=0.01)) as endpoint: ...

As a process of its own, for tests that kill it: process.start(config, program=PROGRAM). Its behaviour then comes from
the environment variable FAKE_ENGINE, a JSON object of FakeEngine's arguments; {"fail_open": "text"} fails the load.
"""

import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import click
import httpx
import pytest

from speculation.config import EngineConfig
from speculation.errors import ContextTooLong, ModelError
from speculation.serving import process
from speculation.serving.command import become_engine, model_options
from speculation.serving.runtime import Endpoint
from speculation.types import Chunk, EngineInfo, SourceStats, Stats

T = TypeVar("T")
PROGRAM = (sys.executable, str(Path(__file__).resolve()))


@dataclass(frozen=True)
class Call:
    """What one generate or prefill was asked."""

    messages: list[Mapping[str, str]]
    source: str = ""
    options: dict[str, object] = field(default_factory=dict)


class FakeEngine:
    """One chunk is one target pass, of one token. `{n}` in a chunk is replaced by the number of the request, from 1."""

    def __init__(
        self,
        chunks: Sequence[str] = ("Hello", ", ", "world"),
        delay_s: float = 0.0,
        *,
        load_s: float = 0.0,
        prefill_chunks: int = 1,
        fail_after: int | None = None,
        failure: Exception | None = None,
        echo_source: bool = False,
        context_chars: int = 1_000_000,
    ) -> None:
        time.sleep(load_s)
        self.info = EngineInfo("fake/model", None, "cpu", "float32", 4096)
        self.trouble: str | None = None
        self.chunks = list(chunks)
        self.delay_s = delay_s
        self.prefill_chunks = prefill_chunks
        self.fail_after = fail_after
        """Raise `failure` after so many chunks."""
        self.failure = failure
        """What is raised then; None: an error that quotes the request, as those of libraries may."""
        self.echo_source = echo_source
        """Answer with the prediction's text, line by line, instead of `chunks`."""
        self.context_chars = context_chars
        self.calls: list[Call] = []
        self.n_passes = 0
        """Text chunks made, over all requests."""
        self.n_started = 0
        self.n_finished = 0
        """Requests that ran to their end."""
        self.n_closed_early = 0
        """Requests whose iterator was closed before its end: cancelled."""
        self.is_closed = False

    def generate(
        self,
        messages: Sequence[Mapping[str, str]] | None = None,
        *,
        prompt: str | None = None,
        source: str = "",
        file_type: str = "",
        draft: bool = True,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
        repetition_penalty: float = 1.0,
        max_new_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[Chunk]:
        options = {
            "file_type": file_type,
            "draft": draft,
            "temperature": temperature,
            "top_p": top_p,
            "top_k": top_k,
            "seed": seed,
            "repetition_penalty": repetition_penalty,
            "max_new_tokens": max_new_tokens,
            "stop": tuple(stop),
        }
        self._begin(Call(list(messages or []), source, options))
        texts = source.splitlines(keepends=True) if self.echo_source else self.chunks
        texts = [text.replace("{n}", str(len(self.calls))) for text in texts]
        return self._run(texts, max_new_tokens)

    def prefill(self, messages: Sequence[Mapping[str, str]]) -> Iterator[Chunk]:
        self._begin(Call(list(messages)))
        return self._run([], None)

    def close(self) -> None:
        self.is_closed = True

    def _begin(self, call: Call) -> None:
        n = sum(len(message["content"]) for message in call.messages)
        if n > self.context_chars:
            raise ContextTooLong(f"the prompt has {n} tokens, the model's context {self.context_chars}")
        self.calls.append(call)

    def _run(self, texts: list[str], max_new_tokens: int | None) -> Iterator[Chunk]:
        self.n_started += 1
        is_done = False
        try:
            for n in range(1, self.prefill_chunks + 1):
                time.sleep(self.delay_s)
                yield Chunk(n_prefilled=10 * n)
            yield from self._texts(texts[:max_new_tokens])
            is_done = True
            self.n_finished += 1
            reason = "length" if max_new_tokens is not None and max_new_tokens < len(texts) else "stop"
            yield Chunk(finish_reason=reason, stats=self._stats(len(texts[:max_new_tokens])))
        finally:
            self.n_closed_early += not is_done

    def _texts(self, texts: list[str]) -> Iterator[Chunk]:
        for n, text in enumerate(texts):
            if n == self.fail_after:
                raise self.failure or RuntimeError(f"told to fail at {self.calls[-1]}")
            time.sleep(self.delay_s)
            self.n_passes += 1
            yield Chunk(text=text, token_ids=(n,), n_copied=1, copied=((0, len(text)),))

    def _stats(self, n_tokens: int) -> Stats:
        copied = SourceStats(n_drafts=1, n_drafted=n_tokens + 2, n_tested=n_tokens + 1, n_accepted=n_tokens)
        return Stats(
            n_prompt=10 * self.prefill_chunks,
            n_cached=3,
            n_tokens=n_tokens,
            n_passes=n_tokens,
            n_copied=n_tokens,
            sources={"copy": copied},
        )


@contextlib.contextmanager
def own_folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Runtime and state folders of the test's own; whatever engine process it left there is stopped at the end."""
    # Not tmp_path: a socket's path may have about 100 characters only.
    with tempfile.TemporaryDirectory(prefix="stet") as folder:
        monkeypatch.setenv("STET_RUNTIME_DIR", folder)
        monkeypatch.setenv("XDG_STATE_HOME", folder)
        yield Path(folder)
        monkeypatch.setenv("STET_RUNTIME_DIR", folder)  # the test may have set another one
        process.stop()


@contextlib.contextmanager
def running(engine: FakeEngine, *, model: str = "fake/model", tcp_port: int | None = None) -> Iterator[Endpoint]:
    """Serve the engine from a thread of this process. The test has set STET_RUNTIME_DIR to a folder of its own."""
    from speculation.serving.server import serve

    thread = threading.Thread(target=lambda: serve(lambda: engine, model=model, tcp_port=tcp_port), daemon=True)
    thread.start()
    try:
        endpoint = wait_for(process.find)
        assert endpoint is not None
        yield endpoint
    finally:
        # Not process.stop: where the server hangs, that would kill this very process.
        endpoint = process.find()
        if endpoint:
            with connect(endpoint) as http:
                http.post("/v1/stet/shutdown")
        thread.join(20)
        assert not thread.is_alive()


def connect(endpoint: Endpoint, timeout_s: float = 30.0) -> httpx.Client:
    """A blocking client; its URLs are paths."""
    transport = httpx.HTTPTransport(uds=endpoint.socket)
    return httpx.Client(transport=transport, base_url=endpoint.base_url, headers=endpoint.headers, timeout=timeout_s)


def wait_for(ask: Callable[[], T], timeout_s: float = 20.0) -> T:
    """The first true answer of ask()."""
    until = time.monotonic() + timeout_s
    while not (answer := ask()):
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.01)
    return answer


def open_fake(config: EngineConfig) -> FakeEngine:
    arguments = json.loads(os.environ.get("FAKE_ENGINE", "{}"))
    if "fail_open" in arguments:
        raise ModelError(arguments["fail_open"])
    return FakeEngine(**arguments)


@click.command()
@model_options
def main(**options: object) -> None:
    become_engine(open_fake, options)


if __name__ == "__main__":
    main()
