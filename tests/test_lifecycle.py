"""From a cancel to a dead editor: the engine stops at once, the server leaves or lives as it should, and says why."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_engine import FakeEngine, own_folders, running, wait_for
from raw_lsp import ANSWER, SERVER, TWO, URI, RawServer

from speculation.serving import runtime
from speculation.serving.worker import Worker

LONG = "".join(f"line_{n} = {n}\n" for n in range(500))
ALL = {"start": {"line": 0, "character": 0}, "end": {"line": 500, "character": 0}}
REWRITE = {"textDocument": {"uri": URI}, "instruction": "do it", "jobId": "job"}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with own_folders(monkeypatch) as folder:
        yield folder


Start = Callable[..., RawServer]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts servers that end with the test."""
    servers: list[RawServer] = []

    def start(*options: str, **more: Any) -> RawServer:
        servers.append(RawServer(folder, *options, **more))
        return servers[-1]

    try:
        yield start
    finally:
        for server in servers:
            server.end()


def begin(server: RawServer, **params: Any) -> None:
    """A rewrite that takes ten seconds and more."""
    server.initialize()
    server.open(LONG)
    server.say(id="r", method="stet/rewrite", params={**REWRITE, "range": ALL, "workDoneToken": "bar", **params})


def cancel_request(server: RawServer) -> None:
    server.say(method="$/cancelRequest", params={"id": "r"})


def cancel_progress(server: RawServer) -> None:
    server.say(method="window/workDoneProgress/cancel", params={"token": "bar"})


def reject(server: RawServer) -> None:
    server.say(id="reject", method="stet/reject", params={"jobId": "job"})


def close(server: RawServer) -> None:
    server.say(method="textDocument/didClose", params={"textDocument": {"uri": URI}})


def delete_all(server: RawServer) -> None:
    changes = [{"text": ""}]
    server.say(
        method="textDocument/didChange", params={"textDocument": {"uri": URI, "version": 2}, "contentChanges": changes}
    )


def shut_down(server: RawServer) -> None:
    server.say(id="shutdown", method="shutdown", params=None)


def leave(server: RawServer) -> None:
    server.say(method="exit")


def close_stdin(server: RawServer) -> None:
    assert server.process.stdin is not None
    server.process.stdin.close()


def kill(server: RawServer) -> None:
    server.process.kill()


WAYS = [cancel_request, cancel_progress, reject, close, delete_all, shut_down, leave, close_stdin, kill]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_engine_stops_within_a_pass(start: Start, way: Callable[[RawServer], None]) -> None:
    engine = FakeEngine(echo_source=True, delay_s=0.05)
    with running(engine):
        server = start()
        begin(server)
        wait_for(lambda: engine.n_passes >= 3)
        n_before = engine.n_passes
        way(server)
        wait_for(lambda: engine.n_closed_early == 1)
        # One pass was being made, and the cancel takes its way through two processes meanwhile.
        assert engine.n_passes <= n_before + 6
    if way in WAYS[:6]:
        server.wait_for(lambda: server.answers()["r"] == 1)
        assert "Traceback" not in server.stderr()


def test_shutdown_in_mid_rewrite_is_clean_and_exit_ends_it_at_once(start: Start) -> None:
    engine = FakeEngine(echo_source=True, delay_s=0.05)
    with running(engine):
        server = start()
        begin(server)
        wait_for(lambda: engine.n_passes >= 3)
        assert server.ask("shutdown", None)["result"] is None
        assert server.ask("stet/reject", {"jobId": "job"}, "late")["error"]["code"] == -32600
        leave(server)
        assert server.process.wait(5) == 0
    assert server.answers()["r"] == 1
    assert server.stderr() == "" or "shut down" in server.stderr()


def test_exit_does_not_wait_for_an_engine_that_is_being_started(start: Start, folder: Path) -> None:
    with runtime.start_lock(folder).acquire():
        server = start()
        begin(server)
        server.wait_for(lambda: any(note["state"] == "starting" for note in server.notes("stet/progress")))
        leave(server)
        assert server.process.wait(5) == 1


def test_a_dead_editor_leaves_no_server_though_nobody_buries_it_and_stdin_stays_open(start: Start) -> None:
    editor = (sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *SERVER)
    server = start(command=editor)
    server.initialize(processId=server.process.pid)
    os.kill(server.process.pid, signal.SIGKILL)
    server._reader.join(20)  # it reads until nobody holds the other end of stdout
    assert not server._reader.is_alive()


def test_a_processid_that_nobody_has_is_no_dead_editor(start: Start) -> None:
    """An editor outside of the container that the server runs in."""
    server = start()
    server.initialize(processId=2**31 - 1)
    with pytest.raises(Exception, match="timed out"):
        server.process.wait(3)
    server.open()
    assert server.ask("stet/reject", {"jobId": "x"})["result"] is None


NOISY = """
import ctypes, os
from lsp_server import session
from lsp_server.server import serve_stdio

def noise(self, uri):
    print("noise 1", flush=True)
    os.write(1, b"noise 2\\n")
    os.system("echo noise 3")
    libc = ctypes.CDLL(None)
    libc.puts(b"noise 4")
    libc.fflush(None)

session.Session.distrust = noise
serve_stdio()
"""


def test_nothing_but_the_protocol_is_on_stdout_whatever_is_printed(start: Start) -> None:
    server = start(command=(sys.executable, "-c", NOISY))
    server.initialize()
    close(server)
    assert server.ask("stet/reject", {"jobId": "x"})["result"] is None
    assert server.noise == b""
    assert sorted(server.stderr().splitlines()) == [f"noise {n}" for n in range(1, 5)]


def test_a_plain_line_on_stdin_is_passed_over(start: Start) -> None:
    server = start()
    server.send(b"hello\n")
    server.initialize()
    assert server.stderr() == ""


class OutOfMemoryError(RuntimeError):
    """Named like torch's."""


@pytest.mark.parametrize("failure", [MemoryError(), OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")])
def test_out_of_memory_is_one_message_that_says_what_to_do(start: Start, failure: Exception) -> None:
    engine = FakeEngine(ANSWER, fail_after=2, failure=failure)
    with running(engine):
        server = start()
        server.initialize()
        server.open()
        error = server.ask("stet/rewrite", {**REWRITE, "range": TWO})["error"]
        assert error["code"] == -32803
        for remedy in ("fewer lines", "smaller model", "--kv-budget", "other programs"):
            assert remedy in error["message"]
        assert "\n" not in error["message"]
        engine.fail_after = None
        assert server.ask("stet/rewrite", {**REWRITE, "range": TWO}, "again")["result"]["status"] == "proposed"


@pytest.mark.parametrize("failure", [MemoryError(), OutOfMemoryError(), RuntimeError("Cannot allocate memory")])
async def test_out_of_memory_at_load_says_what_helps_there(failure: Exception) -> None:
    def fail() -> Any:
        raise failure

    worker = Worker(fail, "some/model")
    worker.start()
    worker.join(20)
    assert worker.status == "failed"
    assert "smaller model" in str(worker.error) and "fewer lines" not in str(worker.error)


def test_two_servers_of_one_editor_share_the_engine_and_both_rewrite(start: Start) -> None:
    engine = FakeEngine(ANSWER, delay_s=0.02)
    with running(engine):
        servers = [start(), start()]
        for server in servers:
            server.initialize(processId=os.getpid())
            server.open()
            server.say(id="r", method="stet/rewrite", params={**REWRITE, "range": TWO})
        for server in servers:
            server.wait_for(lambda server=server: server.answers()["r"] == 1)  # type: ignore[misc]
            assert server.ask("stet/accept", {"jobId": "job"})["result"]["applied"] is False  # says the editor
            (edit,) = server.notes("workspace/applyEdit")
            assert edit["edit"]["documentChanges"][0]["textDocument"]["uri"] == URI
        # One of them ends in mid-rewrite; the other does not notice.
        servers[0].say(id="r2", method="stet/rewrite", params={**REWRITE, "range": TWO})
        servers[0].end()
        assert servers[1].ask("stet/rewrite", {**REWRITE, "range": TWO}, "r2")["result"]["status"] == "proposed"
    assert len({str(call.messages) for call in engine.calls}) == 1
