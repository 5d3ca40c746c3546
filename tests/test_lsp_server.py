"""The server among good and bad clients: malformed messages, settings, encodings, shutdown."""

# ruff: noqa: F401, F811 - pytest finds fixtures by the names of a module.

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lsp_editor import CODE, NEW_TWO, SERVER, Editor, ed, editor, engine, fails, folder, lines, writing
from lsprotocol import types as t
from stub_engine import StubEngine

MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"textDocument": None}, "textDocument must be an object"),
    ({"textDocument": {"uri": 5}}, "uri must be a string"),
    ({"textDocument": {"uri": "file:///other"}}, "not open"),
    ({"range": {"start": {"line": 0}}}, "character must be a whole number"),
    ({"range": lines(-1, 2)}, "must not be negative"),
    ({"range": lines(99, 100)}, "begins in line 100"),
    ({"range": lines(3, 1)}, "ends before it begins"),
    ({"range": lines(2, 4)}, "nothing to rewrite"),
    ({"instruction": " \n"}, "instruction is empty"),
    ({"instruction": None}, "instruction is empty"),
    ({"instruction": 5}, "instruction must be a string"),
    ({"instruction": None, "recipe": "cook"}, "no recipe 'cook'"),
    ({"recipe": "simplify"}, "not both"),
    ({"instruction": None, "recipe": "fix-diagnostic"}, "needs at least one diagnostic"),
    ({"diagnostics": [5]}, "diagnostic must be an object"),
    ({"temperature": "hot"}, "temperature must be a whole number or a number"),
    ({"seed": True}, "seed must be a whole number"),
]


async def test_malformed_params_are_named(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    for change, match in MALFORMED:
        params = {"textDocument": {"uri": uri}, "range": lines(4, 6), "instruction": "do it", **change}
        await fails(ed.request("stet/rewrite", params), -32602, match)
    assert not engine.requests


async def test_malformed_messages_get_an_answer_and_the_server_lives(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    for method, params in (
        ("stet/rewrite", None),
        ("stet/rewrite", [1]),
        ("stet/accept", {}),
        ("stet/accept", {"jobId": "job", "hunks": "all"}),
        ("stet/reject", {"jobId": 1}),
        ("workspace/executeCommand", {"command": "rm"}),
        ("workspace/executeCommand", {"command": "stet.rewrite"}),
        ("workspace/executeCommand", {"command": "stet.rewrite", "arguments": [5]}),
    ):
        await fails(ed.request(method, params), -32602)
    writer = ed.client.protocol.writer
    assert writer is not None
    for body in ("{nonsense", "[]", "5", '{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": 1}'):
        writer.write(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    # The last body, with an id: an answer, not silence.
    body = json.dumps({"jsonrpc": "2.0", "id": "bad", "method": "textDocument/codeAction", "params": {"range": 5}})
    future: Any = asyncio.get_running_loop().create_future()
    ed.client.protocol._request_futures["bad"] = future
    writer.write(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    await fails(asyncio.wait_for(future, 20), -32602)
    # What was no JSON may have been a change: the text is known again when it is opened again.
    await fails(ed.rewrite(uri, 4, 6), -32602, "not open")
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    assert (await ed.rewrite(uri, 4, 6))["status"] == "proposed"


async def test_bad_settings_are_one_message_and_defaults(folder: Path, engine: StubEngine) -> None:
    options = {"model": 5, "idleExitMinutes": -1, "colour": "red"}
    async with editor(folder, options=options) as ed:
        uri = ed.open(CODE)
        engine.answer(NEW_TWO)
        assert (await ed.rewrite(uri, 4, 6))["status"] == "proposed"
        (shown,) = ed.client.messages
        assert all(name in shown.message for name in ("stet.model", "stet.idleExitMinutes", "stet.colour"))


async def test_an_engine_with_another_model_is_said(folder: Path, engine: StubEngine) -> None:
    async with editor(folder, options={"model": "large"}) as ed:
        uri = ed.open(CODE)
        await fails(ed.rewrite(uri, 4, 6), -32803, "already running with stub/model")


TEXTS = [
    ("s = '😀'\nx = 1\nend = '漢'", 0, 3, "s = '😀'\nx = 2\nend = '漢'\n", "s = '😀'\nx = 2\nend = '漢'"),
    ("s = '😀'\nx = '😀'", 1, 2, "x = '😀😀'\n", "s = '😀'\nx = '😀😀'"),
    ("a = 1\n\f\nb = 2\nc = 3\n", 2, 3, "b = 22\n", "a = 1\n\f\nb = 22\nc = 3\n"),
    ("s = '\u2028\x85'\nb = 2\n", 1, 2, "b = 22\n", "s = '\u2028\x85'\nb = 22\n"),
    ("a = 1\r\nb = 2\r\nc = 3\r\n", 1, 2, "b = 22\nnew = 1\n", "a = 1\r\nb = 22\r\nnew = 1\r\nc = 3\r\n"),
    ("if a:\n\tb = 1\n\n\tc = 1\n", 1, 4, "b = 2\n\nc = 1\n", "if a:\n\tb = 2\n\n\tc = 1\n"),
]
"""Text, the lines to rewrite, the model's code for them, the text after."""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_the_text_around_stays_byte_for_byte(folder: Path, engine: StubEngine, encoding: str) -> None:
    async with editor(folder, encoding=encoding) as ed:
        for n, (text, first, last, answer, expected) in enumerate(TEXTS):
            uri = ed.open(text, uri=f"file:///demo/{n}.py")
            engine.answer(answer)
            await ed.rewrite(uri, first, last)
            assert (await ed.request("stet/accept", {"jobId": "job"}))["applied"]
            assert ed.text(uri) == expected


async def test_typing_after_a_form_feed_stays_in_step(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open("a = 1\f\nb = 2\nc = 3\n")
    ed.type(uri, 1, 4, "2")
    engine.answer("b = 0\n")
    result = await ed.rewrite(uri, 1, 2)
    assert result["hunks"][0]["oldText"] == "b = 22\n"


async def test_a_cursor_stands_for_the_block_around_it(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    at = {"line": 5, "character": 2}
    params = {"textDocument": {"uri": uri}, "range": {"start": at, "end": at}, "instruction": "do it"}
    result = await ed.request("stet/rewrite", params)
    assert result["range"] == lines(4, 6)
    assert len(result["jobId"]) == 36


async def test_closing_the_document_ends_its_rewrite(ed: Editor, engine: StubEngine) -> None:
    uri, request = await writing(ed, engine)
    ed.client.text_document_did_close(t.DidCloseTextDocumentParams(t.TextDocumentIdentifier(uri)))
    await fails(request, -32801, "closed")


async def test_shutdown_in_mid_rewrite_is_clean_and_stops_the_engine(folder: Path, engine: StubEngine) -> None:
    async with editor(folder) as ed:
        _, request = await writing(ed, engine)
        assert await ed.request("shutdown", None) is None
        await fails(request, -32800)
        await asyncio.wait_for(engine.closed_early.wait(), 20)
        ed.client.exit(None)
        server = ed.client._server
        assert server is not None
        assert await asyncio.wait_for(server.wait(), 10) == 0
        ed.client.error = RuntimeError("gone")  # So that the fixture doesn't shut it down again.


def send(server: "subprocess.Popen[bytes]", **message: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    assert server.stdin is not None
    server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    server.stdin.flush()


def start(**kwargs: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)


def receive(server: "subprocess.Popen[bytes]") -> Any:
    assert server.stdout is not None
    length = 0
    while header := server.stdout.readline().strip():
        name, _, value = header.partition(b":")
        length = int(value) if name == b"Content-Length" else length
    return json.loads(server.stdout.read(length))


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b"{nonsense", -32700, "must be JSON in UTF-8"),
        (b"\xff\xfe{}", -32700, "must be JSON in UTF-8"),
        (b"[" * 100_000, -32700, "must be JSON in UTF-8"),
        (b"[]", -32600, "must be a JSON object"),
        (b"5", -32600, "must be a JSON object"),
        (b"null", -32600, "must be a JSON object"),
        (b'{"method": "exit"}', -32600, "must be a JSON object"),
        (b'{"jsonrpc": 2, "method": "exit"}', -32600, "must be a JSON object"),
    ],
)
def test_a_body_that_is_no_message_is_one_line_and_an_answer(body: bytes, code: int, said: str) -> None:
    with start() as server:
        assert server.stdin is not None and server.stderr is not None
        server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        server.stdin.flush()
        answer = receive(server)
        assert (answer["id"], answer["error"]["code"]) == (None, code)
        assert said in answer["error"]["message"]
        send(server, id=1, method="initialize", params={"processId": None, "capabilities": {}})
        assert receive(server)["id"] == 1
        send(server, method="exit")
        server.wait(20)
        (line,) = server.stderr.read().decode().splitlines()
        assert said in line


def test_exit_without_shutdown_and_the_end_of_stdin_end_the_process() -> None:
    with start() as server:
        send(server, method="exit")
        assert server.wait(20) == 1
    with start() as server:
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait(20) == 0


def test_the_server_leaves_with_its_editor() -> None:
    with subprocess.Popen(["sleep", "60"]) as parent, start() as server:
        send(server, id=1, method="initialize", params={"processId": parent.pid, "capabilities": {}})
        assert server.stdout is not None
        server.stdout.readline()
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        assert server.wait(20) == 1


def test_the_servers_process_holds_no_torch() -> None:
    code = "import sys, lsp_server.server; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_users_text_is_not_logged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = subprocess.Popen(
        [*SERVER, "--log-file", str(log), "--log-level", "info"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with server:
        send(server, id=1, method="initialize", params={"processId": None, "capabilities": {}})
        document = {"uri": "file:///a", "languageId": "python", "version": 1, "text": "SECRET = 1\n"}
        send(server, method="textDocument/didOpen", params={"textDocument": document})
        send(server, id=2, method="stet/rewrite", params={"textDocument": {"uri": "file:///a"}, "range": "SECRET"})
        send(server, method="textDocument/didChange", params={"text": "SECRET"})
        send(server, method="exit")
        server.wait(20)
    assert "SECRET" not in log.read_text()


async def test_what_troubles_the_engine_is_told_once(ed: Editor, engine: StubEngine) -> None:
    engine.trouble = "the database was set aside"
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    await ed.request("stet/prepare", {"textDocument": {"uri": uri}, "range": lines(4, 6)})
    assert not ed.client.messages
    for _ in range(2):
        await ed.rewrite(uri, 4, 6)
    (shown,) = ed.client.messages
    assert (shown.type, shown.message) == (t.MessageType.Warning, "Stet: the database was set aside")
