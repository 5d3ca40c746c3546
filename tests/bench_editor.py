"""What an editor feels of the server: keystrokes, memory, and who is left when one of the three processes is killed.

Run by hand, on a quiet machine: python tests/bench_editor.py [--json]. The server is the real one over pipes; the
engine is tests/fake_engine.py in a process of its own. Linux only.
"""

import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from fake_engine import PROGRAM

from lsp_server.documents import Documents
from lsp_server.rewrite import Params, start_job
from lsp_server.server import make_server
from speculation.config import EngineConfig
from speculation.serving import process

SERVER = (sys.executable, "-m", "lsp_server.cli", "lsp", "--stdio")
URI = "file:///demo/a.py"
N_LINES = (100, 5_000, 50_000)
N_KEYS = 500
PAUSE_S = 0.02
"""Between two keystrokes: faster than any typist, slower than the server."""
N_REWRITES = (0, 100, 1_000)
LEAVING_S = 5.0


class Editor:
    """An editor as thin as can be. A thread reads, and notes when each message came."""

    def __init__(self, **how: Any) -> None:
        self.server = subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **how)
        self.documents = Documents()
        self.n_sent = 0
        self.answers: dict[int, tuple[float, dict[str, Any]]] = {}
        self._arrived: queue.Queue[tuple[float, dict[str, Any]]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.request("initialize", {"processId": os.getpid(), "capabilities": {}})

    def _read(self) -> None:
        assert self.server.stdout is not None
        while header := self.server.stdout.readline():
            while (line := self.server.stdout.readline()).strip():
                header = line if line.lower().startswith(b"content-length") else header
            body = self.server.stdout.read(int(header.partition(b":")[2]))
            self._arrived.put((time.perf_counter(), json.loads(body)))

    def send(self, *messages: dict[str, Any]) -> None:
        """Write messages at once."""
        assert self.server.stdin is not None
        bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
        self.server.stdin.write(b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies))
        self.server.stdin.flush()

    def ask(self, method: str, params: Any, *before: dict[str, Any]) -> int:
        """Send a request, after some notifications; its id."""
        self.n_sent += 1
        self.send(*before, {"id": self.n_sent, "method": method, "params": params})
        return self.n_sent

    def wait(self, id: int, timeout_s: float = 60.0) -> tuple[float, dict[str, Any]]:
        """When a request was answered, and the answer. Serves what the server asks for meanwhile."""
        while id not in self.answers:
            when, message = self._arrived.get(timeout=timeout_s)
            if "method" not in message:
                self.answers[message["id"]] = (when, message)
            elif message["method"] == "workspace/applyEdit":
                self._apply(message)
        return self.answers.pop(id)

    def is_answered(self, id: int) -> bool:
        """Whether an answer has been seen, without waiting for it."""
        return id in self.answers

    def request(self, method: str, params: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        return self.wait(self.ask(method, params))[1]

    def open(self, text: str) -> None:
        """Open the document anew."""
        self.documents.open(URI, 1, text, "python")
        document = {"uri": URI, "languageId": "python", "version": 1, "text": text}
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def change(self, changes: list[dict[str, Any]]) -> dict[str, Any]:
        """Change the document; the notification that tells of it."""
        version = self.documents.get(URI).version + 1
        self.documents.change(URI, version, changes)
        params = {"textDocument": {"uri": URI, "version": version}, "contentChanges": changes}
        return {"method": "textDocument/didChange", "params": params}

    def key(self, line: int, character: int, text: str, n_replaced: int = 0) -> float:
        """Seconds from a keystroke until a request sent right behind it is answered."""
        places = ({"line": line, "character": character + n} for n in (0, n_replaced))
        changed = self.change([{"range": dict(zip(("start", "end"), places, strict=True)), "text": text}])
        before = time.perf_counter()
        return self.wait(self.ask("stet/reject", {"jobId": "none"}, changed))[0] - before

    def rewrite(self, first: int, last: int) -> int:
        """Ask for a rewrite of lines."""
        return self.ask("stet/rewrite", rewrite_params(first, last))

    def _apply(self, message: dict[str, Any]) -> None:
        (document,) = message["params"]["edit"]["documentChanges"]
        edits = [{"range": edit["range"], "text": edit["newText"]} for edit in reversed(document["edits"])]
        self.send(self.change(edits), {"id": message["id"], "result": {"applied": True}})

    def rss_mib(self) -> float:
        """Memory of the server."""
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def leave(self) -> None:
        """Shut the server down."""
        self.request("shutdown", None)
        self.send({"method": "exit"})
        self.server.wait(10)


def rewrite_params(first: int, last: int) -> dict[str, Any]:
    """The params of stet/rewrite for lines."""
    span = {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}
    return {"textDocument": {"uri": URI}, "range": span, "instruction": "do it", "jobId": "job"}


def code(n_lines: int) -> list[str]:
    """Lines of a file; about 45 characters each, as in most files."""
    return [f"    total_{n} = compute(total_{n - 1}, step={n % 97})  # {n}\n" for n in range(n_lines)]


def region(n_lines: int) -> tuple[int, int]:
    """The lines to rewrite: up to 400 in the middle."""
    size = min(400, n_lines // 3)
    return n_lines // 2, n_lines // 2 + size


@contextmanager
def engine(lines: list[str], delay_s: float) -> Iterator[int]:
    """A process that answers each request with these lines, one after each delay; its pid."""
    os.environ["FAKE_ENGINE"] = json.dumps({"chunks": ["```\n", *lines, "```\n"], "delay_s": delay_s})
    yield process.start(EngineConfig(database=None), program=PROGRAM).pid
    process.stop()


def summary(seconds: list[float]) -> dict[str, float]:
    """Milliseconds: median, 99th percentile, maximum."""
    ordered = sorted(1000 * each for each in seconds)
    at = {"p50": len(ordered) // 2, "p99": len(ordered) * 99 // 100, "max": len(ordered) - 1}
    return {name: round(ordered[index], 2) for name, index in at.items()}


def keystrokes(n_lines: int, type_key: Callable[[int, int, str, int], float]) -> Iterator[float]:
    """A character typed anywhere outside the region, then taken back."""
    chance = random.Random(n_lines)
    first, last = region(n_lines)
    for _ in range(N_KEYS // 2):
        line = chance.randrange(n_lines)
        line = first - 1 if first <= line < last else line
        yield type_key(line, 4, "x", 0)
        yield type_key(line, 4, "", 1)


def typed(n_lines: int, rewrite_s: float) -> dict[str, float]:
    """Keystrokes as the editor sees them, while rewrites that take so long are written one after the other."""
    lines = code(n_lines)
    first, last = region(n_lines)
    answer = [line.replace("compute", "count") if n % 10 == 0 else line for n, line in enumerate(lines[first:last])]
    with engine(answer, rewrite_s / len(answer)):
        editor = Editor()
        editor.open("".join(lines))
        editor.request("stet/reject", {"jobId": "none"})
        rewrite = editor.rewrite(first, last) if rewrite_s else 0
        time.sleep(2)  # Until it is being written.

        def type_key(line: int, character: int, text: str, n_replaced: int) -> float:
            nonlocal rewrite
            if rewrite_s and editor.is_answered(rewrite):
                assert "result" in editor.wait(rewrite)[1]
                rewrite = editor.rewrite(first, last)
            time.sleep(PAUSE_S)
            return editor.key(line, character, text, n_replaced)

        seconds = list(keystrokes(n_lines, type_key))
        editor.leave()
    return summary(seconds)


def own_work(n_lines: int) -> dict[str, float]:
    """From a didChange that was read to its being done, in this process, with a rewrite under way in the document."""
    protocol = make_server().protocol
    editor_side = Documents()
    text = "".join(code(n_lines))
    editor_side.open(URI, 1, text, "python")
    protocol.session.documents.open(URI, 1, text, "python")
    start_job(protocol.session, Params.of(rewrite_params(*region(n_lines))))

    def type_key(line: int, character: int, text: str, n_replaced: int) -> float:
        places = [{"line": line, "character": character + n} for n in (0, n_replaced)]
        changes = [{"range": dict(zip(("start", "end"), places, strict=True)), "text": text}]
        params = {"textDocument": {"uri": URI, "version": 2}, "contentChanges": changes}
        body = json.dumps({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": params})
        before = time.perf_counter()
        protocol.handle_message(json.loads(body, object_hook=protocol.structure_message))
        return time.perf_counter() - before

    seconds = list(keystrokes(n_lines, type_key))
    assert protocol.session.documents.get(URI).text == text and protocol.session.jobs.get("job")
    return summary(seconds)


def memory() -> dict[str, float]:
    """MiB of the server after so many rewrites in a file of 5,000 lines, accepted and rejected in turn."""
    lines, sizes = code(5_000), {}
    first, last = 2_500, 2_520
    with engine([line.replace("step", "step_{n}") for line in lines[first:last]], 0.0):
        editor = Editor()
        editor.open("".join(lines))
        for n in range(max(N_REWRITES) + 1):
            if n in N_REWRITES:
                sizes[str(n)] = round(editor.rss_mib(), 1)
            answer = editor.wait(editor.rewrite(first, last))[1]
            assert answer["result"]["hunks"], answer
            verdict = editor.request(f"stet/{'accept' if n % 2 else 'reject'}", {"jobId": "job"})
            assert "error" not in verdict, verdict
        editor.leave()
    return sizes


def is_alive(pid: int) -> bool:
    """Whether a process runs; a dead one that nobody has waited for doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def seconds_to_leave(pid: int) -> float | None:
    """How long a process lives on; None if longer than it may."""
    start = time.monotonic()
    while time.monotonic() - start < LEAVING_S:
        if not is_alive(pid):
            return round(time.monotonic() - start, 1)
        time.sleep(0.05)
    return None


def health() -> str:
    """What the engine says of itself, once it has noticed that a client is gone."""
    until = time.monotonic() + LEAVING_S
    endpoint = process.find()
    while endpoint and (said := process.health(endpoint)):
        if said.n_active == 0 or time.monotonic() > until:
            return f"status {said.status}, {said.n_active} requests"
        time.sleep(0.05)
    return "nothing"


def victim(is_stdin_held: bool) -> None:
    """An editor in mid-rewrite, in a process of its own; it says the server's pid."""
    editor = Editor()
    if is_stdin_held:
        assert editor.server.stdin is not None
        subprocess.Popen(
            ["sleep", "30"],
            pass_fds=[editor.server.stdin.fileno()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    editor.open("".join(code(100)))
    editor.rewrite(10, 40)
    while editor._arrived.get()[1].get("params", {}).get("state") != "writing":
        pass
    click.echo(editor.server.pid)
    threading.Event().wait()


def orphans() -> list[dict[str, Any]]:
    """Kill each of the three in mid-rewrite; who lives 5 s later, and what do the others say?"""
    found = []
    slow = code(100)[10:40]
    for is_stdin_held in (False, True):
        with engine(slow, 0.5) as engine_pid:
            arguments = [sys.executable, __file__, "--victim", "held" if is_stdin_held else "closed"]
            with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as editor_process:
                assert editor_process.stdout is not None
                server_pid = int(editor_process.stdout.readline())
                os.kill(editor_process.pid, signal.SIGKILL)
                left_after = seconds_to_leave(server_pid)
            found.append(
                {
                    "killed": "editor" + (", stdin held open by another process" if is_stdin_held else ""),
                    "server": f"left after {left_after} s" if left_after is not None else "LIVES",
                    "engine": health() if is_alive(engine_pid) else "gone",
                }
            )
    for killed in ("server", "engine"):
        with engine(slow, 0.5) as engine_pid:
            editor = Editor()
            editor.open("".join(code(100)))
            rewrite = editor.rewrite(10, 40)
            time.sleep(2)
            os.kill(editor.server.pid if killed == "server" else engine_pid, signal.SIGKILL)
            row = {"killed": killed}
            if killed == "engine":
                row["server"] = editor.wait(rewrite)[1]["error"]["message"]
                time.sleep(LEAVING_S)
                row["engine"] = "LIVES" if is_alive(engine_pid) else "gone"
                with engine(["total = 1\n", *slow], 0.0):
                    again = editor.wait(editor.rewrite(10, 40))[1]
                    row["server"] += f"; then, with a new engine: {again['result']['status']}"
                editor.leave()
            else:
                time.sleep(LEAVING_S)
                row["server"] = "LIVES" if is_alive(editor.server.pid) else "gone"
                row["engine"] = health() if is_alive(engine_pid) else "gone"
            found.append(row)
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as Markdown."""
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([row[name] for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


@click.command()
@click.option("--json", "is_json", is_flag=True)
@click.option("--victim", "stdin", type=click.Choice(["closed", "held"]), hidden=True)
@click.option("--only", type=click.Choice(["keys", "memory", "orphans"]))
def main(is_json: bool, stdin: str | None, only: str | None) -> None:
    """Measure, and print tables."""
    if stdin:
        victim(stdin == "held")
    with tempfile.TemporaryDirectory(prefix="stet") as folder:
        os.environ |= {"STET_RUNTIME_DIR": folder, "XDG_STATE_HOME": folder}
        results: dict[str, list[dict[str, Any]]] = {}
        if only in (None, "keys"):
            ways: dict[str, Callable[[int], dict[str, float]]] = {
                "idle": lambda n: typed(n, 0),
                "while one rewrite streams": lambda n: typed(n, 60),
                "while rewrites of 2 s begin and end": lambda n: typed(n, 2),
                "the server's own work": own_work,
            }
            results["keystrokes, ms"] = [
                {"lines": n, "": name, **measure(n)} for n in N_LINES for name, measure in ways.items()
            ]
        if only in (None, "memory"):
            results["memory, MiB"] = [{"rewrites": n, "RSS": size} for n, size in memory().items()]
        if only in (None, "orphans"):
            results["killed with -9"] = orphans()
    if is_json:
        click.echo(json.dumps(results, indent=2))
    else:
        for title, rows in results.items():
            click.echo(f"{title}\n\n{table(rows)}\n")


if __name__ == "__main__":
    main()
