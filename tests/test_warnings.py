"""A rewrite that seems to lose code is proposed with a warning, and nowhere applied without the user's word."""

# ruff: noqa: F401, F811 - pytest finds fixtures by the names of a module.

import json
from pathlib import Path
from typing import Any

import pytest
from lsp_editor import Editor, ed, editor, engine, folder, lines
from lsprotocol import types as t
from pygls.exceptions import JsonRpcMethodNotFound
from stub_engine import StubEngine
from test_cli_rewrite import Cli, cli

from lsp_server.edits import StreamDiff
from lsp_server.guards import lost_code

SOURCE = [f"line {n}\n" for n in range(10)]
CODE = "".join(SOURCE)
CUT = "".join(SOURCE[:6])
LOST = {"code": "lost_tail", "message": "the model left off the last 4 lines of the code"}
SAID = "Stet: the model left off the last 4 lines of the code. Apply it?"


def codes(answer: list[str], task: str = "Do it.", source: list[str] = SOURCE) -> list[str]:
    diff = StreamDiff(source)
    diff.feed(answer)
    return [warning.code for warning in lost_code(source, diff.finish(), task)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (SOURCE, []),
        (SOURCE[:6], ["lost_tail"]),
        (SOURCE[:7], ["lost_tail"]),
        (SOURCE[:8], []),
        (["new\n", *SOURCE[1:6]], ["lost_tail"]),
        (["\n", *SOURCE[:6], "\n", "\n"], ["lost_tail"]),
        (SOURCE[3:], ["lost_head"]),
        (SOURCE[2:], []),
        (SOURCE[3:7], ["lost_head", "lost_tail"]),
        # Something stands in the place of what is gone.
        ([*SOURCE[:6], "the four others in one\n"], []),
        ([*SOURCE[:3], *SOURCE[7:]], []),
        ([*SOURCE[:2], *SOURCE[8:]], ["large_deletion"]),
        (["all in one\n"], ["large_deletion"]),
        ([f"other {n}\n" for n in range(5)], []),
        ([f"other {n}\n" for n in range(4)], ["large_deletion"]),
    ],
)
def test_what_seems_to_lose_code(answer: list[str], expected: list[str]) -> None:
    assert codes(answer) == expected


def test_of_a_long_text_the_end_must_be_more_than_a_few_lines() -> None:
    source = [f"line {n}\n" for n in range(100)]
    assert codes(source[:96], source=source) == []
    assert codes(source[:95], source=source) == ["lost_tail"]


def test_a_few_lines_may_go_without_a_word() -> None:
    assert codes(["one\n"], source=["one\n", "two\n", "three\n"]) == []


@pytest.mark.parametrize(
    ("task", "is_warned"),
    [
        ("Remove the last function", False),
        ("delete all that is unused", False),
        ("Make it shorter: drop the tests", False),
        ("Move it into a class of its own", False),
        ("Entferne den letzten Test", False),
        ("Supprime la dernière fonction", False),
        ("Elimina el final", False),
        ("删除最后一个函数", False),
        ("最後の関数を削除してください", False),
        ("Удали последнюю функцию", False),
        ("Rename x to y", True),
        ("Add a dropdown", True),
        ("Add types, but don't remove anything", True),
        ("Add types without deleting code", True),
        ("Do not remove the comments", True),
    ],
)
def test_who_asks_for_removing_is_not_warned(task: str, is_warned: bool) -> None:
    assert codes(SOURCE[:6], task) == ["lost_tail"] * is_warned


async def test_the_result_and_the_last_progress_have_the_warnings(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(CUT)
    result = await ed.rewrite(uri, 0, 10)
    assert (result["status"], result["warnings"]) == ("proposed", [LOST])
    assert ed.progress[-1]["warnings"] == [LOST]
    assert ed.progress[-1]["message"].startswith("warning: the model left off the last 4 lines of the code; 8 tokens")
    assert all(progress["warnings"] == [] for progress in ed.progress[:-1])
    assert (await ed.request("stet/accept", {"jobId": "job"}))["applied"]
    assert ed.text(uri) == CUT
    engine.answer(CODE)
    assert (await ed.rewrite(uri, 0, 6))["warnings"] == []


def command(uri: str) -> dict[str, Any]:
    argument = {"textDocument": {"uri": uri}, "range": lines(0, 10), "instruction": "do it"}
    return {"command": "stet.rewrite", "arguments": [argument]}


@pytest.mark.parametrize(("answer", "is_applied"), [("Apply", True), ("Discard", False), (None, False)])
async def test_a_plain_client_is_asked_first(
    ed: Editor, engine: StubEngine, answer: str | None, is_applied: bool
) -> None:
    asked: list[t.ShowMessageRequestParams] = []

    @ed.client.feature(t.WINDOW_SHOW_MESSAGE_REQUEST)
    def on_ask(params: t.ShowMessageRequestParams) -> t.MessageActionItem | None:
        asked.append(params)
        assert ed.text(uri) == CODE
        return t.MessageActionItem(answer) if answer else None

    uri = ed.open(CODE)
    engine.answer(CUT)
    result = await ed.request("workspace/executeCommand", command(uri))
    assert result == {"status": "proposed", "applied": is_applied}
    assert ed.text(uri) == (CUT if is_applied else CODE)
    ((message, actions),) = [(params.message, params.actions) for params in asked]
    assert (message, [action.title for action in actions or []]) == (SAID, ["Apply", "Discard"])


async def test_a_plain_client_that_cannot_ask_changes_nothing(ed: Editor, engine: StubEngine) -> None:
    @ed.client.feature(t.WINDOW_SHOW_MESSAGE_REQUEST)
    def on_ask(params: t.ShowMessageRequestParams) -> None:
        raise JsonRpcMethodNotFound

    uri = ed.open(CODE)
    engine.answer(CUT)
    result = await ed.request("workspace/executeCommand", command(uri))
    assert result == {"status": "proposed", "applied": False}
    assert [shown.message for shown in ed.client.messages] == [SAID.replace("Apply it?", "Nothing was changed.")]
    assert ed.text(uri) == CODE


async def test_without_warnings_nobody_is_asked(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(CODE.replace("line 3", "other"))
    assert (await ed.request("workspace/executeCommand", command(uri)))["applied"]


async def test_a_client_with_annotations_confirms_by_them(folder: Path, engine: StubEngine) -> None:
    support = t.WorkspaceEditClientCapabilities(change_annotation_support=t.ChangeAnnotationsSupportOptions())
    capabilities = t.ClientCapabilities(workspace=t.WorkspaceClientCapabilities(workspace_edit=support))
    async with editor(folder, capabilities=capabilities) as ed:
        uri = ed.open(CODE)
        engine.answer(CUT)
        assert (await ed.request("workspace/executeCommand", command(uri)))["applied"]
        assert ed.text(uri) == CUT
        engine.answer(CODE)
        await ed.request("workspace/executeCommand", command(uri))
        warned, plain = (params.edit for params in ed.edits)
        ((name, annotation),) = (warned.change_annotations or {}).items()
        assert (annotation.needs_confirmation, annotation.description) == (True, SAID.removesuffix(". Apply it?"))
        (document,) = warned.document_changes or []
        assert isinstance(document, t.TextDocumentEdit)
        assert {edit.annotation_id for edit in document.edits if isinstance(edit, t.AnnotatedTextEdit)} == {name}
        assert all(isinstance(edit, t.AnnotatedTextEdit) for edit in document.edits)
        assert plain.change_annotations is None


async def test_the_command_line_writes_only_with_force(cli: Cli) -> None:
    file = cli.file(CODE)
    cli.engine.answer(CUT)
    done = await cli.run("a.py", "x", "--write")
    assert (done.code, file.read_text()) == (1, CODE)
    assert b"-line 9\n" in done.out
    assert done.err.splitlines()[1:] == [
        "warning: the model left off the last 4 lines of the code",
        "stet: error: a.py was not written, because of the warning; to write it all the same, add --force",
    ]
    said = json.loads((await cli.run("a.py", "x", "--json")).out)
    assert said["warnings"] == [LOST]
    done = await cli.run("a.py", "x", "--write", "--force")
    assert (done.code, file.read_text()) == (0, CUT)
    assert "warning: the model left off" in done.err


async def test_force_without_write_is_refused(cli: Cli) -> None:
    cli.file(CODE)
    done = await cli.run("a.py", "x", "--force")
    assert (done.code, "--force says how to --write" in done.err) == (2, True)
