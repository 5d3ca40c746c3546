"""All edits of the task data through the real `stet lsp`, with a scripted engine that answers as models do.

A document is equal to the task's `after` when it has the same lines, byte for byte. What is not the model's to say is
the document's own: its line ends, the blank lines at both ends, and whether its last line has an end. (So a document
without a final newline still has none, though in a fence every text ends with one.) Blanks at the ends of lines that
are otherwise the same are the document's as well, for models drop them: the tasks where that shows are counted.
"""

# ruff: noqa: F401, F811 - pytest finds fixtures by the names of a module.

import asyncio
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lsp_editor import Editor, ed, engine, fails, folder
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException
from stub_engine import StubEngine

from lsp_server.languages import language_of
from lsp_server.prompts import fence_for

DATA = Path(__file__).parents[2] / "shared/data/edits"
if not DATA.is_dir():
    pytest.skip("needs the edit tasks in shared/data/edits beside the project", allow_module_level=True)


@dataclass(frozen=True)
class Task:
    """An edit, in the form that one user's editor holds it."""

    id: str
    path: str
    before: str
    after: str

    @property
    def language(self) -> str:
        return language_of(Path(self.path))


def tasks(chance: random.Random) -> Iterator[Task]:
    """Every edit; some with CRLF, some with tabs for four blanks, as chance has it."""
    for path in sorted(DATA.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            said = json.loads(line)
            texts = [said["before"], said["after"]]
            if chance.random() < 0.25:
                texts = [re.sub("^(?: {4})+", lambda m: "\t" * (len(m[0]) // 4), text, flags=re.M) for text in texts]
            if chance.random() < 0.25:
                texts = [text.replace("\r\n", "\n").replace("\n", "\r\n") for text in texts]
            yield Task(said["id"], said["path"], *texts)


def answer(task: Task, chance: random.Random) -> list[str]:
    """What a model says that means `after`, in one of the usual wrappings, cut into pieces of any size."""
    code = task.after.replace("\r\n", "\n")
    code += "" if code.endswith("\n") else "\n"
    fence = fence_for(task.before)
    block = f"{fence}{task.language}\n{code}{fence}"
    said = chance.choice(
        [
            block,
            f"{fence}\n{code}{fence}\n",
            f"{fence}{task.language}\n{code}",
            f"Sure! Here is the edited code:\n\n{block}\n\nI changed only what you asked for.\n",
            f"<think>\nThe user wants an edit.\n\nI keep the rest.\n</think>\n\n{block}\n",
            block.replace("\n", "\r\n"),
            code,
            code.rstrip("\n"),
        ]
    )
    longest = chance.choice([12, 100, 1000])
    pieces = []
    while said:
        size = chance.randint(1, longest)
        pieces.append(said[:size])
        said = said[size:]
    return pieces


def wanted(task: Task) -> str:
    """`after` with the document's own blank lines at both ends, and its own end of the last line."""
    return task.after.strip("\r\n").join(re.fullmatch(r"([\r\n]*).*?([\r\n]*)", task.before, flags=re.S).groups())


def without_blanks(text: str) -> str:
    """A text without blanks at the ends of its lines, and without blank lines at its own ends but for one line end."""
    lines = re.sub(r"[ \t]+(?=[\r\n]|$)", "", text)
    return lines.strip("\r\n") + ("\n" if lines.endswith(("\r", "\n")) else "")


def begin(ed: Editor, engine: StubEngine, task: Task, chance: random.Random) -> str:
    engine.pieces = answer(task, chance)
    return ed.open(task.before, task.language, f"file:///edits/{task.id}/{task.path}")


def close(ed: Editor, uri: str) -> None:
    ed.client.text_document_did_close(t.DidCloseTextDocumentParams(t.TextDocumentIdentifier(uri)))


def whole(ed: Editor, uri: str, **more: Any) -> "asyncio.Future[Any]":
    return ed.rewrite(uri, 0, len(ed.documents.get(uri).lines), **more)


async def test_every_edit_arrives_byte_for_byte(ed: Editor, engine: StubEngine) -> None:
    chance = random.Random(368)
    n_tasks, wrong, differ_in_blanks = 0, {}, []
    for task in tasks(chance):
        n_tasks += 1
        uri = begin(ed, engine, task, chance)
        try:
            result = await whole(ed, uri)
            assert ed.text(uri) == task.before
            if result["status"] == "proposed":
                await ed.request("stet/accept", {"jobId": "job"})
        except JsonRpcException as error:
            wrong[task.id] = error.message
        if without_blanks(ed.text(uri)) != without_blanks(wanted(task)):
            wrong.setdefault(task.id, ed.text(uri))
        elif ed.text(uri) != wanted(task):
            differ_in_blanks.append(task.id)
        close(ed, uri)
    assert not wrong
    assert n_tasks == 368 and len(differ_in_blanks) <= 22


async def test_a_cancelled_edit_leaves_the_document_byte_for_byte(ed: Editor, engine: StubEngine) -> None:
    chance = random.Random(367)
    for n, task in enumerate(tasks(chance)):
        uri = begin(ed, engine, task, chance)
        engine.holding, engine.closed_early = asyncio.Event(), asyncio.Event()
        engine.hold_at = chance.randint(0, len(engine.pieces))
        request = whole(ed, uri, msg_id=f"r{n}", workDoneToken=f"bar{n}")
        await engine.holding.wait()
        how = chance.choice(["request", "progress", "reject"])
        if how == "request":
            ed.client.cancel_request(t.CancelParams(id=f"r{n}"))
        elif how == "progress":
            ed.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams(token=f"bar{n}"))
        else:
            await ed.request("stet/reject", {"jobId": "job"})
        await fails(request, -32800)
        await asyncio.wait_for(engine.closed_early.wait(), 20)
        assert ed.text(uri) == task.before
        close(ed, uri)
    assert not ed.edits


async def test_hunks_accepted_in_any_order_lead_to_the_edit(ed: Editor, engine: StubEngine) -> None:
    chance = random.Random(366)
    n_hunks = []
    for task in list(tasks(chance))[::5]:
        uri = begin(ed, engine, task, chance)
        hunks = (await whole(ed, uri))["hunks"]
        chance.shuffle(hunks)
        for hunk in hunks:
            await ed.request("stet/accept", {"jobId": "job", "hunks": [hunk["id"]]})
        assert without_blanks(ed.text(uri)) == without_blanks(wanted(task)), task.id
        close(ed, uri)
        n_hunks.append(len(hunks))
    assert max(n_hunks) > 3
