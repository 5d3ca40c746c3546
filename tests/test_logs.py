"""What is written where others may read it: logs carry none of the user's text, and files are for the user alone."""

import json
import logging
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_engine import PROGRAM, FakeEngine, connect, own_folders, running, wait_for
from raw_lsp import RawServer

from speculation import logs
from speculation.config import EngineConfig
from speculation.serving import process, runtime

MARK = "Zanzibar"
"""Stands in code, instruction, path, diagnostics and answer."""
CODE = f"def {MARK}():\n    return '{MARK}'\n"
URI = f"file:///home/{MARK}/{MARK}.py"
CONFIG = EngineConfig(model="fake/model", database=None)
ALL = {"start": {"line": 0, "character": 0}, "end": {"line": 2, "character": 0}}
REWRITE = {
    "textDocument": {"uri": URI},
    "range": ALL,
    "instruction": f"rename {MARK}",
    "jobId": MARK,
    "diagnostics": [{"range": ALL, "message": MARK}],
}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with own_folders(monkeypatch) as folder:
        yield folder


def behave(monkeypatch: pytest.MonkeyPatch, **arguments: object) -> None:
    monkeypatch.setenv("FAKE_ENGINE", json.dumps(arguments))


def engine_logs() -> str:
    return "".join(path.read_text() for path in runtime.log_path().parent.glob("engine.log*"))


def check_quotes_nothing(text: str, *wanted: str) -> None:
    assert MARK not in text
    for part in wanted:
        assert part in text


def use(server: RawServer) -> None:
    """A user's minutes, with everything that can go wrong on the server's side."""
    server.initialize()
    server.open(CODE, URI)
    server.ask("stet/rewrite", REWRITE, "1")
    server.ask("stet/accept", {"jobId": MARK}, "2")
    server.ask("stet/rewrite", {**REWRITE, "range": MARK}, "3")
    server.ask("stet/rewrite", {**REWRITE, "recipe": MARK}, "4")
    server.ask("workspace/executeCommand", {"command": MARK, "arguments": [MARK]}, "5")
    server.ask("textDocument/codeAction", {"textDocument": {"uri": URI}, "range": MARK, "context": MARK}, "6")
    server.ask(f"{MARK}/unknown", {"text": MARK}, "7")
    document = {"uri": URI + "other", "version": 2}
    server.say(method="textDocument/didChange", params={"textDocument": document, "contentChanges": [{"text": MARK}]})
    server.say(method="textDocument/didChange", params={"textDocument": document, "contentChanges": MARK})
    server.send(b"Content-Length: 12\r\n\r\n{ " + MARK.encode() + b"}\r\n" + MARK.encode() + b"\r\n")
    server.ask("stet/reject", {"jobId": "sync"}, "8")


@pytest.mark.parametrize("level", ["info", "warning"])
def test_the_servers_log_quotes_nothing_of_the_user(folder: Path, level: str) -> None:
    with running(FakeEngine(echo_source=True)):
        log = folder / "lsp.log"
        server = RawServer(folder, "--log-file", str(log), "--log-level", level)
        use(server)
        server.end()
        check_quotes_nothing(log.read_text(), "is not open")
        server = RawServer(folder, "--log-level", level)
        use(server)
        server.end()
        check_quotes_nothing(server.stderr(), "is not open")


BUG = """
import sys
from lsp_server import rewrite
from lsp_server.cli import main

def bug(snapshot, *rest):
    try:
        raise KeyError(snapshot.text)
    except KeyError as error:
        raise ValueError(snapshot.uri) from error

rewrite.build_prompt = bug
sys.argv[1:] = ["lsp", "--log-level", "info"]
main()
"""


def test_a_bug_is_logged_by_its_place_and_kind_and_the_user_is_told_without_a_traceback(folder: Path) -> None:
    server = RawServer(folder, command=(sys.executable, "-c", BUG))
    server.initialize()
    server.open(CODE, URI)
    error = server.ask("stet/rewrite", {**REWRITE, "diagnostics": []})["error"]
    server.ask("stet/reject", {"jobId": "sync"}, "sync")
    server.end()
    assert error == {"code": -32603, "message": error["message"]} and "nothing was changed" in error["message"]
    check_quotes_nothing(server.stderr(), "in bug")


def test_the_engines_log_quotes_nothing_of_the_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [{"role": "user", "content": CODE}]
    body = {"messages": messages, "prediction": {"type": "content", "content": CODE}}

    def ask(**more: object) -> str:
        with connect(process.start(CONFIG, program=PROGRAM)) as http:
            return http.post("/v1/chat/completions", json={**body, **more}).text

    behave(monkeypatch, echo_source=True)
    assert MARK in ask() and MARK in ask(stream=True)
    assert MARK in ask(temperature=MARK)
    assert MARK in ask(model=MARK)
    with connect(process.start(CONFIG, program=PROGRAM)) as http:
        http.get(f"/{MARK}")
    check_quotes_nothing(engine_logs(), "done: 2 tokens")
    process.stop()

    behave(monkeypatch, fail_after=1)  # by an error that quotes the request
    assert MARK in ask() and MARK in ask(stream=True)
    check_quotes_nothing(engine_logs(), "RuntimeError", "fake_engine.py")
    process.stop()

    behave(monkeypatch, echo_source=True, delay_s=60)
    endpoint = process.start(CONFIG, program=PROGRAM)
    with connect(endpoint) as http, http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}):
        os.kill(endpoint.pid, signal.SIGKILL)
    wait_for(lambda: process.find() is None)
    check_quotes_nothing(engine_logs())


def test_a_traceback_tells_all_causes_without_their_words() -> None:
    try:
        try:
            raise KeyError(MARK)
        except KeyError as error:
            raise ValueError(MARK) from error
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "it failed", (), sys.exc_info())
    text = logs.Discreet(logs.FORMAT).format(record)
    check_quotes_nothing(text, "it failed", "KeyError", "ValueError", "test_logs.py")
    assert text.index("KeyError") < text.index("\nValueError")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_an_engine_leaves_in_the_file_system_is_for_its_user_alone(folder: Path) -> None:
    before = os.umask(0)  # a careless one
    try:
        endpoint = process.start(CONFIG, program=PROGRAM, tcp_port=0)
    finally:
        os.umask(before)
    modes = {name: mode(folder / name) for name in ("engine.sock", "token", "engine.json")}
    assert modes == {"engine.sock": 0o600, "token": 0o600, "engine.json": 0o600}
    assert mode(folder) == 0o700
    assert mode(runtime.log_path()) == 0o600
    assert endpoint.token and endpoint.token not in engine_logs()


def test_the_log_of_the_engine_before_is_kept_and_no_more(folder: Path) -> None:
    pids = []
    runtime.log_path().parent.mkdir()
    for _ in range(3):
        with runtime.log_path().open("a") as log:
            log.write(f"generation {len(pids)}\n")
        pids.append(process.start(CONFIG, program=PROGRAM).pid)
        process.stop()
    names = sorted(path.name for path in runtime.log_path().parent.glob("engine.log*"))
    assert names == ["engine.log", "engine.log.1"]
    assert "generation 2" in runtime.log_path().with_suffix(".log.1").read_text()
