"""A small editor for protocol tests: pytest-lsp's client with its own documents, against the real `stet lsp`."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException
from pytest_lsp import LanguageClient, make_test_lsp_client
from stub_engine import StubEngine, running

from lsp_server.documents import Documents

SERVER = (sys.executable, "-m", "lsp_server.cli", "lsp", "--stdio")
CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
NEW_TWO = "def two() -> int:\n    return 2\n"


class Editor:
    """Open documents, and what the server sent."""

    def __init__(self, client: LanguageClient, encoding: str) -> None:
        self.client = client
        self.documents = Documents()
        self.documents.encoding = encoding  # type: ignore[assignment]
        self.edits: list[t.ApplyWorkspaceEditParams] = []
        self.progress: list[dict[str, Any]] = []
        self.skips_edits = False
        """Answer applied: true without doing anything, as Neovim does for a stale version."""
        self.refuses_edits = False
        self.lies = False
        """Answer applied: true to an edit for another version too, as Neovim does; VS Code says false."""
        self.keys: list[Callable[[], None]] = []
        """What the user does just before the next edits of the server arrive, one each."""
        self.typed_along: list[dict[str, Any]] = []
        """Changes that are told in the same message as the server's next edit."""
        self.tells_in_parts = False
        """Tell each change of an edit in a message of its own."""
        self.n_applied = 0

    def open(self, text: str, language: str = "python", uri: str = "file:///demo/a.py") -> str:
        """Open a document, version 1."""
        self.documents.open(uri, 1, text, language)
        self.client.text_document_did_open(
            t.DidOpenTextDocumentParams(t.TextDocumentItem(uri=uri, language_id=language, version=1, text=text))
        )
        return uri

    def text(self, uri: str) -> str:
        """A document's text."""
        return self.documents.get(uri).text

    def type(self, uri: str, line: int, character: int, text: str, end: tuple[int, int] | None = None) -> None:
        """Replace a range (by default an empty one) as a user would."""
        start = {"line": line, "character": character}
        stop = {"line": end[0], "character": end[1]} if end else start
        self.change(uri, [{"range": {"start": start, "end": stop}, "text": text}])

    def change(self, uri: str, changes: list[dict[str, Any]], later_s: float = 0) -> None:
        """Change a document and tell the server; later, as editors do that gather changes."""
        version = self.documents.get(uri).version + 1
        self.documents.change(uri, version, changes)
        if later_s:
            asyncio.get_running_loop().call_later(later_s, self.tell, uri, version, changes)
        else:
            self.tell(uri, version, changes)

    def tell(self, uri: str, version: int, changes: list[dict[str, Any]]) -> None:
        """Send didChange."""
        kinds = {True: t.TextDocumentContentChangePartial, False: t.TextDocumentContentChangeWholeDocument}
        self.client.protocol.notify(
            "textDocument/didChange",
            t.DidChangeTextDocumentParams(
                t.VersionedTextDocumentIdentifier(uri=uri, version=version),
                [self.client.protocol._converter.structure(c, kinds["range" in c]) for c in changes],
            ),
        )

    def apply(self, uri: str, edits: list[dict[str, Any]]) -> None:
        """Apply the server's edits, as one undo step."""
        # From the end, so that each edit leaves the places of those before it as they are.
        edits.sort(key=lambda edit: (edit["range"]["start"]["line"], edit["range"]["start"]["character"]))
        changes = [{"range": edit["range"], "text": edit["newText"]} for edit in reversed(edits)]
        changes += self.typed_along
        self.typed_along = []
        for told in [[change] for change in changes] if self.tells_in_parts else [changes]:
            self.change(uri, told)
        self.n_applied += 1

    def request(self, method: str, params: Any, msg_id: str | None = None) -> "asyncio.Future[Any]":
        """Send a request; the result comes as plain dicts."""
        return asyncio.ensure_future(self._request(method, params, msg_id))

    async def _request(self, method: str, params: Any, msg_id: str | None) -> Any:
        if method == t.WORKSPACE_EXECUTE_COMMAND:  # pygls knows the method, and sends nothing but its type
            params = t.ExecuteCommandParams(params["command"], params.get("arguments"))
        answer = await asyncio.wait_for(self.client.protocol.send_request_async(method, params, msg_id), 30)
        return plain(answer)

    async def raw(self, method: str, params: Any) -> Any:
        """Send a request; the result as JSON: lsprotocol reads an action with a command as a Command."""
        received: list[Any] = []
        protocol = self.client.protocol
        structure = protocol.structure_message

        def record(data: dict[str, Any]) -> Any:
            if "jsonrpc" in data and "result" in data:
                received.append(data["result"])
                data = {**data, "result": None}
            return structure(data)

        protocol.structure_message = record  # type: ignore[method-assign]
        try:
            await protocol.send_request_async(method, params)
        finally:
            protocol.structure_message = structure  # type: ignore[method-assign]
        return received[-1]

    async def sync(self) -> None:
        """Wait until the server has read all that was sent: it takes messages in their order."""
        await self.request("stet/reject", {"jobId": "no such job"})

    def rewrite(self, uri: str, first: int, last: int, msg_id: str | None = None, **more: Any) -> "asyncio.Future[Any]":
        """stet/rewrite of the lines first up to last."""
        params = {
            "textDocument": {"uri": uri, "version": self.documents.get(uri).version},
            "range": lines(first, last),
            "jobId": "job",
            **({} if "recipe" in more else {"instruction": "do it"}),
            **more,
        }
        return self.request("stet/rewrite", params, msg_id)

    def states(self) -> list[str]:
        """The states that stet/progress went through."""
        said = [progress["state"] for progress in self.progress]
        return [state for n, state in enumerate(said) if n == 0 or said[n - 1] != state]


def lines(first: int, last: int) -> dict[str, Any]:
    """The range of whole lines."""
    return {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}


def plain(value: Any) -> Any:
    """What pygls makes of JSON objects of unknown type, as dicts again."""
    if hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


async def writing(ed: Editor, engine: StubEngine, **more: Any) -> "tuple[str, asyncio.Future[Any]]":
    """A rewrite of `two` that has begun and waits in mid-stream: the document and the request."""
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    request = ed.rewrite(uri, 4, 6, **more)
    await engine.holding.wait()
    return uri, request


async def until(condition: Any, seconds: float = 20) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def editor(
    folder: Path,
    encoding: str = "utf-16",
    options: Any = None,
    capabilities: t.ClientCapabilities | None = None,
    workspace: list[t.WorkspaceFolder] | None = None,
) -> AsyncIterator[Editor]:
    """An editor with its server, whose engine is looked for in folder."""
    client = make_test_lsp_client()
    ours = Editor(client, encoding)

    @client.feature(t.WORKSPACE_APPLY_EDIT)
    def on_apply(params: t.ApplyWorkspaceEditParams) -> t.ApplyWorkspaceEditResult:
        ours.edits.append(params)
        if ours.keys:
            ours.keys.pop(0)()
        (document,) = params.edit.document_changes or []
        assert isinstance(document, t.TextDocumentEdit)
        uri = document.text_document.uri
        is_stale = document.text_document.version != ours.documents.get(uri).version
        if not (is_stale or ours.skips_edits or ours.refuses_edits):
            ours.apply(uri, [client.protocol._converter.unstructure(edit) for edit in document.edits])
        return t.ApplyWorkspaceEditResult(applied=not ours.refuses_edits and (ours.lies or not is_stale))

    @client.feature("stet/progress")
    def on_progress(params: Any) -> None:
        ours.progress.append(plain(params))

    env = {**os.environ, "STET_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    await client.start_io(*SERVER, env=env)
    capabilities = capabilities or t.ClientCapabilities(
        general=t.GeneralClientCapabilities(position_encodings=[t.PositionEncodingKind(encoding)]),
        window=t.WindowClientCapabilities(work_done_progress=True),
    )
    await client.initialize_session(
        t.InitializeParams(
            capabilities=capabilities,
            process_id=os.getpid(),
            initialization_options=options,
            workspace_folders=workspace,
        )
    )
    try:
        yield ours
    finally:
        await client.shutdown_session()
        await client.stop()


@pytest.fixture
def folder() -> Iterator[Path]:
    # Short: a Unix socket's path may have some hundred characters only.
    with tempfile.TemporaryDirectory(prefix="stet", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
async def engine(folder: Path) -> AsyncIterator[StubEngine]:
    async with running(folder) as stub:
        yield stub


@pytest.fixture
async def ed(folder: Path, engine: StubEngine) -> AsyncIterator[Editor]:
    async with editor(folder) as ours:
        yield ours


async def fails(request: "asyncio.Future[Any]", code: int, match: str | None = None) -> None:
    """Wait for a request to fail."""
    with pytest.raises(JsonRpcException, match=match) as caught:
        await request
    assert caught.value.code == code
