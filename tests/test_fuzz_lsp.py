"""A thousand malformed messages over real stdio: each request is answered, framing is found again, the server lives."""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_engine import FakeEngine, own_folders, running
from fuzz import mutated, nested, peak_mb
from raw_lsp import ANSWER, CODE, TWO, URI, RawServer, frame

from lsp_server.wire import MAX_MESSAGE_BYTES

SEED = int(os.environ.get("FUZZ_SEED", "1"))
"""The same in every CI run; others by hand."""
N_MESSAGES, N_FRAMES = 800, 200
DOCUMENT = {"uri": URI, "version": 1}
PROBLEM = {"range": TWO, "message": "missing return type", "severity": 1, "code": "x", "data": {"a": [1]}}
REWRITE = {
    "textDocument": DOCUMENT,
    "range": TWO,
    "instruction": "do it",
    "recipe": None,
    "diagnostics": [PROBLEM],
    "jobId": "job",
    "temperature": 0,
    "topP": 1,
    "seed": 1,
    "draft": True,
    "workDoneToken": "bar",
}
CHANGE = {"range": TWO, "rangeLength": 3, "text": "x"}
GOOD: list[tuple[str, bool, Any]] = [
    ("stet/prepare", True, {"textDocument": DOCUMENT, "range": TWO}),
    ("stet/rewrite", True, REWRITE),
    ("stet/rewrite", True, {**REWRITE, "recipe": "simplify", "instruction": None}),
    ("stet/rewrite", True, {"textDocument": DOCUMENT, "alternativeTo": "job"}),
    ("stet/rewrite", True, {"textDocument": DOCUMENT, "refines": "job", "instruction": "more"}),
    ("stet/recipes", True, {"textDocument": DOCUMENT}),
    ("stet/accept", True, {"jobId": "job", "hunks": [0]}),
    ("stet/reject", True, {"jobId": "job"}),
    ("textDocument/codeAction", True, {"textDocument": DOCUMENT, "range": TWO, "context": {"diagnostics": [PROBLEM]}}),
    ("workspace/executeCommand", True, {"command": "stet.rewrite", "arguments": [REWRITE]}),
    ("textDocument/didOpen", False, {"textDocument": {**DOCUMENT, "languageId": "python", "text": CODE}}),
    ("textDocument/didChange", False, {"textDocument": DOCUMENT, "contentChanges": [CHANGE, {"text": CODE}]}),
    ("textDocument/didClose", False, {"textDocument": DOCUMENT}),
    ("workspace/didChangeConfiguration", False, {"settings": {"stet": {"codeActions": True, "idleExitMinutes": 1}}}),
    ("workspace/didChangeWorkspaceFolders", False, {"event": {"added": [{"uri": URI, "name": "x"}], "removed": []}}),
    ("window/workDoneProgress/cancel", False, {"token": "bar"}),
    ("$/cancelRequest", False, {"id": "m1"}),
    ("textDocument/nothing", True, {"a": 1}),
    ("nothing/known", False, [1]),
]
REPLIES: list[dict[str, Any] | None] = [
    {"result": {"applied": False}},
    {"result": {"applied": "perhaps"}},
    {"result": None},
    {"result": [5]},
    {"error": {"code": -1, "message": "no"}},
    {"error": 5},
    {"error": {"code": "x"}, "result": {}},
]
"""An editor's answers to our own requests."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RawServer]:
    with own_folders(monkeypatch) as folder, running(FakeEngine(ANSWER)):
        raw = RawServer(folder)
        try:
            raw.initialize()
            yield raw
        finally:
            raw.end()


def message(rng: random.Random, n: int) -> dict[str, Any]:
    """A message of which some places are wrong, or one that is good in itself and comes at the wrong time."""
    method, is_request, params = rng.choice(GOOD)
    said = {"jsonrpc": "2.0", "method": method, "params": params}
    if is_request:
        said["id"] = f"m{n}" if rng.random() < 0.95 else f"m{max(0, n - rng.randint(1, 5))}"
    match rng.randrange(12):
        case 0:
            return mutated(rng, said)
        case 1:
            return {"jsonrpc": "2.0", "id": rng.choice([f"m{n}", 5, "unknown"]), **(rng.choice(REPLIES) or {})}
        case 2:
            return {**said, "id": rng.choice([None, True, 1.5, [], {}, "x" * 9999, 10**30, f"m{n}"])}
        case 3:
            return {**said, "params": rng.choice([None, 5, [], "x", nested(500)])}
        case 4:
            return {
                **said,
                "method": rng.choice(["$/cancelRequest", "stet/", "stet/rewrite\0", "", 5, None, [], "\ud800"]),
            }
        case 5:
            return said
        case _:
            return {**said, "params": mutated(rng, params)}


NOBODY = object()


def owed(said: dict[str, Any]) -> Any:
    """The id that the answer to a message must have; NOBODY if there must be none."""
    id = said.get("id")
    own = id if isinstance(id, str | int) and not isinstance(id, bool) else None
    if said.get("jsonrpc") != "2.0":
        return own
    if "method" not in said:
        return NOBODY if "id" in said else None
    if not isinstance(said["method"], str) or "id" in said:
        return own
    return NOBODY


def check_lives(server: RawServer) -> None:
    """A real rewrite works, and its text arrives."""
    uri = "file:///demo/after.py"
    server.reply = lambda request: {"result": {"applied": False}}
    server.open(uri=uri)
    server.say(method="workspace/didChangeConfiguration", params={"settings": {"stet": {}}})
    params = {"textDocument": {"uri": uri}, "range": TWO, "instruction": "do it", "jobId": "last"}
    answer = server.ask("stet/rewrite", params, "last")
    assert answer["result"]["newText"] == "def two() -> int:\n    return 2\n", answer
    assert server.ask("stet/accept", {"jobId": "last"}, "accept")["result"]["applied"] is False
    assert "Traceback" not in server.stderr() and "handler failed" not in server.stderr(), server.stderr()[-3000:]
    assert server.noise == b""
    assert peak_mb(server.process.pid) < 400


@pytest.mark.parametrize("method", ["stet/accept", "stet/reject", "stet/rewrite", "stet/prepare"])
def test_a_request_sent_as_a_notification_is_no_failure(server: RawServer, method: str) -> None:
    server.say(method=method, params={})
    check_lives(server)


def test_every_malformed_request_is_answered(server: RawServer) -> None:
    print(f"seed {SEED}")  # noqa: T201 - pytest shows it with a failure
    rng = random.Random(SEED)
    server.open()
    server.reply = lambda request: rng.choice(REPLIES)
    expected: Counter[Any] = Counter(["initialize"])
    for n in range(N_MESSAGES):
        said = message(rng, n)
        expected.update([] if (id := owed(said)) is NOBODY else [id])
        server.send(frame(json.dumps(said).encode()))
    server.wait_for(lambda: server.answers() >= expected)
    server.ask("stet/reject", {"jobId": "none"}, "sync")
    expected["sync"] += 1
    assert server.answers() == expected
    check_lives(server)


def bad_frame(rng: random.Random) -> bytes:
    """Bytes that are no message, or that a wrong length parts wrongly from what follows."""
    body = json.dumps({"jsonrpc": "2.0", "id": "lost", "method": "stet/reject", "params": {"jobId": "x"}}).encode()
    match rng.randrange(12):
        case 0:
            return rng.randbytes(rng.randint(1, 3000))
        case 1:
            return b"Traceback: hello\r\n"
        case 2:
            return b"Content-Length: %d\r\n\r\n" % (len(body) - rng.randint(1, len(body))) + body
        case 3:  # too long: swallows the beginning of the filler
            return b"Content-Length: %d\r\n\r\n" % (len(body) + rng.randint(1, 300)) + body
        case 4:
            return b"Content-Length: " + rng.choice([b"-5", b"many", b"0x10", b"1e3", b"", b"5 5"]) + b"\r\n\r\n" + body
        case 5:
            return body  # no header at all
        case 6:
            return b"Content-Length: %d\r\n\r\n" % rng.choice([MAX_MESSAGE_BYTES + 1, 10**15, 10**19]) + body
        case 7:
            return b"Content-Length: 0\r\n\r\n"
        case 8:
            return frame(rng.choice([b"[" * 100_000, b"\xff" * 50, b'{"id": ' + b"1" * 9000 + b"}", body[:-1]]))
        case 9:
            return b"X: " + b"y" * rng.choice([9_000, 100_000]) + b"\r\n\r\n"
        case 10:
            return b"\n" * 500
        case _:
            return b"content-length:%d\nContent-Type: x; charset=utf-16\n\n%s" % (len(body), body)


def test_framing_is_found_again_behind_garbage(server: RawServer) -> None:
    print(f"seed {SEED}")  # noqa: T201
    rng = random.Random(SEED)
    filler = b"".join(frame(json.dumps({"jsonrpc": "2.0", "method": "$/setTrace"}).encode()) for _ in range(10))
    for n in range(N_FRAMES):
        server.send(bad_frame(rng) + filler)
        server.ask("stet/reject", {"jobId": "none"}, f"probe{n}")
    check_lives(server)
    shown = server.notes("window/showMessage")
    assert sum("could not be read" in note["message"] for note in shown) == 1


def test_a_message_that_is_too_long_is_refused_and_passed_over(server: RawServer) -> None:
    server.open()
    server.send(frame(b'{"jsonrpc": "2.0", "method": "x", "params": "' + b"x" * (MAX_MESSAGE_BYTES + 999) + b'"}'))
    server.wait_for(lambda: server.answers()[None] == 1)
    # It may have been a change: what was open is not trusted any more.
    params = {"textDocument": {"uri": URI}, "range": TWO, "instruction": "do it"}
    assert "not open" in server.ask("stet/rewrite", params)["error"]["message"]
    check_lives(server)


def test_a_change_that_cannot_be_read_costs_the_trust_in_that_document_alone(server: RawServer) -> None:
    other = "file:///demo/b.py"
    server.open()
    server.open(uri=other)
    server.say(method="textDocument/didChange", params={"textDocument": DOCUMENT, "contentChanges": 5})
    params = {"range": TWO, "instruction": "do it"}
    assert "not open" in server.ask("stet/rewrite", {"textDocument": {"uri": URI}, **params})["error"]["message"]
    assert server.ask("stet/rewrite", {"textDocument": {"uri": other}, **params})["result"]["status"] == "proposed"


def test_a_message_cut_off_by_the_end_of_the_stream_ends_the_server(server: RawServer, tmp_path: Path) -> None:
    server.send(b"Content-Length: 100\r\n\r\n{")
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(20) == 0
