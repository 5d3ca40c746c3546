"""The engine's HTTP API, against a real server on a real socket with a fake engine behind it."""

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import closing

import httpx
import openai
import pytest
from fake_engine import FakeEngine, connect, own_folders, running, wait_for

from speculation.errors import EngineError
from speculation.serving import process
from speculation.serving.app import MAX_BODY_BYTES
from speculation.serving.runtime import Endpoint

HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_folders(monkeypatch):
        yield


def post(endpoint: Endpoint, **fields: object) -> httpx.Response:
    with connect(endpoint) as client:
        return client.post("/v1/chat/completions", json={"messages": HI, **fields})


def text_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


def check_error(answer: httpx.Response, status: int, code: str, *words: str) -> None:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert set(error) == {"message", "type", "code", "param"}
    for word in words:
        assert word in error["message"]


def raw_request(endpoint: Endpoint, body: bytes) -> socket.socket:
    """A request whose connection the test can close when it likes."""
    assert endpoint.socket
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(endpoint.socket)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def chat_body(**fields: object) -> bytes:
    return json.dumps({"messages": HI, **fields}).encode()


# The standard, as its own client sees it


@pytest.fixture
def client() -> Iterator[openai.OpenAI]:
    with running(FakeEngine(), tcp_port=0) as endpoint, openai_client(endpoint, endpoint.token or "") as client:
        yield client


def openai_client(endpoint: Endpoint, token: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{endpoint.port}/v1", api_key=token, max_retries=0)


def test_the_official_client_gets_an_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="fake/model", messages=HI, prediction={"type": "content", "content": "Hello"}
    )
    assert answer.choices[0].message.content == "Hello, world"
    assert answer.choices[0].finish_reason == "stop"
    usage = answer.usage
    assert usage and usage.completion_tokens_details and usage.prompt_tokens_details
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (10, 3, 13)
    assert usage.prompt_tokens_details.cached_tokens == 3
    assert usage.completion_tokens_details.accepted_prediction_tokens == 3
    assert usage.completion_tokens_details.rejected_prediction_tokens == 2


def test_the_official_client_streams(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model="", messages=HI, stream=True, stream_options={"include_usage": True}, max_tokens=2
    ) as stream:
        events = list(stream)
    choices = [event.choices[0] for event in events if event.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == "Hello, "
    assert choices[0].delta.role == "assistant"
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["length"]
    assert events[-1].usage and events[-1].usage.completion_tokens == 2
    assert [event.usage for event in events[:-1]] == [None] * (len(events) - 1)


def test_the_official_client_sees_errors_as_its_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="fake/model"):
        client.chat.completions.create(model="gpt-4", messages=HI)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model="stet", messages=HI, temperature=-1)


def test_the_official_client_lists_the_model(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["fake/model"]


def test_tcp_wants_the_token_and_the_socket_does_not() -> None:
    with running(FakeEngine(), tcp_port=0) as endpoint:
        with openai_client(endpoint, "guess") as stranger, pytest.raises(openai.AuthenticationError, match="token"):
            stranger.models.list()
        assert httpx.get(f"http://127.0.0.1:{endpoint.port}/health", trust_env=False).status_code == 401
        assert text_of(post(endpoint)) == "Hello, world"


def test_only_the_user_can_open_the_socket() -> None:
    with running(FakeEngine(), tcp_port=0) as endpoint:
        assert endpoint.socket
        folder = os.path.dirname(endpoint.socket)
        modes = {name: stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) for name in ("engine.sock", "token")}
        assert modes == {"engine.sock": 0o600, "token": 0o600}
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


# What the engine is told, and what comes back


def test_every_field_reaches_the_engine() -> None:
    engine = FakeEngine()
    with running(engine) as endpoint:
        post(
            endpoint,
            temperature=0.5,
            top_p=0.9,
            seed=7,
            repetition_penalty=1.2,
            max_completion_tokens=2,
            stop="x",
            prediction={"type": "content", "content": "src"},
            stet={"file_type": "python", "draft": False, "top_k": 3},
        )
    (call,) = engine.calls
    assert (call.messages, call.source) == (HI, "src")
    assert call.options == {
        "file_type": "python",
        "draft": False,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "seed": 7,
        "repetition_penalty": 1.2,
        "max_new_tokens": 2,
        "stop": ("x",),
    }
    assert engine.is_closed


def events_of(answer: httpx.Response) -> list[dict[str, object]]:
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_stream_tells_prefill_copies_and_cost() -> None:
    with running(FakeEngine(["é", "x"], prefill_chunks=2)) as endpoint:
        events = events_of(post(endpoint, stream=True))
    told = [event["stet"] for event in events if "stet" in event]
    assert told[:4] == [
        {"n_tokens": 0, "n_copied": 0, "n_prefilled": 10, "copied": []},
        {"n_tokens": 0, "n_copied": 0, "n_prefilled": 20, "copied": []},
        {"n_tokens": 1, "n_copied": 1, "n_prefilled": 0, "copied": [[0, 1]]},
        {"n_tokens": 1, "n_copied": 1, "n_prefilled": 0, "copied": [[0, 1]]},
    ]
    assert told[-1]["stats"]["n_passes"] == 2
    assert not any("usage" in event for event in events)


def test_prefill_writes_nothing_and_says_its_cost() -> None:
    engine = FakeEngine(prefill_chunks=4)
    with running(engine) as endpoint:
        answer = post(endpoint, stet={"prefill_only": True})
    assert text_of(answer) == ""
    assert answer.json()["stet"]["stats"]["n_prompt"] == 40
    assert engine.n_passes == 0


# Who has hung up


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
def test_hanging_up_stops_the_work_within_a_chunk(is_streamed: bool) -> None:
    engine = FakeEngine(["x"] * 1000, delay_s=0.05)
    with running(engine) as endpoint:
        connection = raw_request(endpoint, chat_body(stream=is_streamed))
        wait_for(lambda: engine.n_passes >= 3)
        n_before = engine.n_passes
        connection.close()
        wait_for(lambda: engine.n_closed_early == 1)
        # One chunk was in the making; a slow machine may fit a second between the two lines above.
        assert engine.n_passes <= n_before + 3
        assert text_of(post(endpoint, max_tokens=1)) == "x"


def test_hanging_up_during_prefill_stops_it() -> None:
    engine = FakeEngine(prefill_chunks=1000, delay_s=0.02)
    with running(engine) as endpoint:
        connection = raw_request(endpoint, chat_body(stream=True))
        wait_for(lambda: engine.n_started == 1)
        connection.close()
        wait_for(lambda: engine.n_closed_early == 1)
        assert engine.n_passes == 0


def test_hanging_up_in_the_queue_means_it_never_starts() -> None:
    engine = FakeEngine(["x"] * 1000, delay_s=0.02)
    with running(engine) as endpoint, closing(raw_request(endpoint, chat_body())) as first:
        wait_for(lambda: engine.n_started == 1)
        with closing(raw_request(endpoint, chat_body(stream=True))):
            wait_for(lambda: said(endpoint).n_waiting == 1)
        wait_for(lambda: said(endpoint).n_waiting == 0)
        first.close()
        wait_for(lambda: said(endpoint).n_active == 0)
        assert (engine.n_started, len(engine.calls)) == (1, 1)


def said(endpoint: Endpoint) -> process.Health:
    health = process.health(endpoint)
    assert health
    return health


def test_who_waits_is_told_how_many_are_ahead() -> None:
    engine = FakeEngine(["x"] * 1000, delay_s=0.02)
    with running(engine) as endpoint, closing(raw_request(endpoint, chat_body())) as first:
        wait_for(lambda: engine.n_started == 1)
        with closing(raw_request(endpoint, chat_body(stream=True))) as second:
            seen = b""
            while b": queued 1\n\n" not in seen:
                seen += second.recv(4096)
            first.close()
            while b"data: " not in seen:
                seen += second.recv(4096)


# Several at once


def test_requests_at_once_are_served_in_order_and_not_mixed_up() -> None:
    engine = FakeEngine(["{n}"] * 20, delay_s=0.002)
    answers: dict[int, str] = {}
    with running(engine) as endpoint:

        def ask(n: int) -> None:
            messages = [{"role": "user", "content": str(n)}]
            answers[n] = "".join(
                event["choices"][0]["delta"].get("content", "")
                for event in events_of(post(endpoint, messages=messages, stream=True))
            )

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    order = [int(call.messages[0]["content"]) for call in engine.calls]
    assert sorted(order) == list(range(6))
    assert {n: answers[n] for n in order} == {n: str(place) * 20 for place, n in enumerate(order, 1)}


# What goes wrong


def test_an_error_of_the_engine_before_any_work_has_its_status_streamed_or_not() -> None:
    with running(FakeEngine(context_chars=1)) as endpoint:
        for is_streamed in (True, False):
            check_error(post(endpoint, stream=is_streamed), 400, "context_length_exceeded", "2 tokens")


class OutOfMemoryError(RuntimeError):
    """Named like torch's."""


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (ValueError("bad\nthing"), "ValueError: bad"),
        (MemoryError(), "out of memory"),
        (OutOfMemoryError(), "out of memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "out of memory"),
    ],
    ids=["bug", "memory", "gpu-memory", "cpu-memory"],
)
def test_an_error_in_mid_stream_is_one_event_and_the_engine_lives(failure: Exception, words: str) -> None:
    engine = FakeEngine(["a", "b", "c"], fail_after=2, failure=failure)
    with running(engine) as endpoint:
        blocks = post(endpoint, stream=True).text.strip().split("\n\n")
        error = json.loads(blocks[-1].removeprefix("data: "))["error"]
        assert error["code"] == "engine_error"
        assert words in error["message"] and "\n" not in error["message"]
        check_error(post(endpoint), 500, "engine_error", words)
        engine.fail_after = None
        assert text_of(post(endpoint)) == "abc"


def test_unknown_places_and_methods_are_json_errors() -> None:
    with running(FakeEngine()) as endpoint, connect(endpoint) as http:
        check_error(http.get("/v1/nothing"), 404, "not_found", "/v1/nothing")
        check_error(http.get("/v1/chat/completions"), 405, "method_not_allowed", "GET")
        check_error(http.post("/v1/chat/completions", content=b"{"), 400, "invalid_request", "JSON")
        check_error(http.post("/v1/chat/completions", json=[]), 400, "invalid_request", "object")
        check_error(post(endpoint, n=3), 400, "invalid_request", "one answer")
        assert post(endpoint, n=3).json()["error"]["param"] == "n"
        check_error(post(endpoint, model="other"), 404, "model_error", "fake/model")


def test_a_body_that_is_too_long_is_refused_and_the_engine_lives() -> None:
    with running(FakeEngine()) as endpoint, connect(endpoint) as http:
        body = b" " * (MAX_BODY_BYTES + 1)
        check_error(
            http.post("/v1/chat/completions", content=body), 413, "request_entity_too_large", str(MAX_BODY_BYTES)
        )
        assert text_of(post(endpoint)) == "Hello, world"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["binary", "no-http", "cut-body"],
)
def test_garbage_on_the_wire_leaves_it_alive(garbage: bytes) -> None:
    with running(FakeEngine()) as endpoint:
        assert endpoint.socket
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(endpoint.socket)
            connection.sendall(garbage)
        assert text_of(post(endpoint)) == "Hello, world"


def test_shutdown_fails_the_running_and_the_waiting_request_clearly() -> None:
    engine = FakeEngine(["x"] * 1000, delay_s=0.02)
    answers: list[httpx.Response] = []
    with running(engine) as endpoint:
        threads = [threading.Thread(target=lambda: answers.append(post(endpoint))) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_for(lambda: (said(endpoint).n_active, said(endpoint).n_waiting) == (1, 1))
        with connect(endpoint) as http:
            assert http.post("/v1/stet/shutdown").json() == {"status": "stopping"}
        for thread in threads:
            thread.join()
    for answer in answers:
        check_error(answer, 503, "engine_stopping", "stopping")
    assert (engine.n_closed_early, engine.is_closed) == (1, True)


def test_a_second_engine_refuses_to_start_beside_the_first() -> None:
    with (
        running(FakeEngine()),
        pytest.raises(EngineError, match=rf"already running \(pid {os.getpid()}, model fake/model"),
    ):
        from speculation.serving.server import serve

        serve(FakeEngine, model="fake/model")
