"""The fixtures of the complaints' tests: one server and one scripted engine for all tests of a file."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lsp_editor import Editor, editor
from lsprotocol import types as t
from stub_engine import StubEngine, running

Shared = tuple[Path, StubEngine, Editor]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Shared]:
    with tempfile.TemporaryDirectory(prefix="stet", dir="/tmp") as name:
        async with running(Path(name)) as stub, editor(Path(name)) as ours:
            yield Path(name), stub, ours


@pytest.fixture
def folder(shared: Shared) -> Path:
    return shared[0]


@pytest.fixture
def engine(shared: Shared) -> StubEngine:
    vars(shared[1]).update(vars(StubEngine()))
    return shared[1]


@pytest_asyncio.fixture(loop_scope="module")
async def ed(shared: Shared, engine: StubEngine) -> AsyncIterator[Editor]:
    ours = shared[2]
    yield ours
    engine.gate.set()
    for uri in list(ours.documents._open):
        ours.client.text_document_did_close(t.DidCloseTextDocumentParams(t.TextDocumentIdentifier(uri)))
        ours.documents.close(uri)
    await ours.sync()
    ours.skips_edits = ours.refuses_edits = False
    for seen in (ours.edits, ours.progress, ours.client.messages, ours.client.progress_reports):
        seen.clear()
