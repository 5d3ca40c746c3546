"""What a plain client gets: code actions, the command, work-done progress."""

# ruff: noqa: F401, F811 - pytest finds fixtures by the names of a module.

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lsp_editor import CODE, NEW_TWO, Editor, ed, editor, engine, fails, folder, lines
from lsprotocol import types as t
from raw_lsp import TWO, URI, RawServer
from stub_engine import StubEngine

from lsp_server.prompts import AGAIN
from lsp_server.recipes import RECIPES

CARET = t.Range(t.Position(5, 4), t.Position(5, 4))
PROBLEM = t.Diagnostic(range=CARET, message="missing return type")


OFFERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["type-hints", "docstring", "simplify"]),
    ({"diagnostics": [PROBLEM]}, ["quickfix", "type-hints", "docstring", "simplify"]),
    ({"diagnostics": [PROBLEM], "only": ["quickfix"]}, ["quickfix"]),
    ({"only": ["refactor"]}, [name for name in RECIPES if name != "fix-diagnostic"]),
    ({"only": ["refactor.rewrite.stet.simplify"]}, ["simplify"]),
    ({"only": ["refactor.extract"]}, []),
    ({"only": ["source.organizeImports"]}, []),
    ({"only": ["quick"], "diagnostics": [PROBLEM]}, []),
    ({"diagnostics": [PROBLEM], "trigger_kind": t.CodeActionTriggerKind.Automatic}, []),
]


async def test_code_actions_are_offered_without_the_engine(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    for context, kinds in OFFERS:
        offered = [action["kind"] for action in await raw_actions(ed, uri, **context)]
        names = ["quickfix.stet" if kind == "quickfix" else f"refactor.rewrite.stet.{kind}" for kind in kinds]
        assert (context, offered) == (context, names)
    assert not engine.requests


async def raw_actions(ed: Editor, uri: str, **context: Any) -> list[dict[str, Any]]:
    params = t.CodeActionParams(
        t.TextDocumentIdentifier(uri), CARET, t.CodeActionContext(**{"diagnostics": [], **context})
    )
    offered: list[dict[str, Any]] = await ed.raw("textDocument/codeAction", params)
    return offered


async def test_a_plain_client_gets_the_rewrite_by_a_code_action(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    (action,) = await raw_actions(ed, uri, diagnostics=[PROBLEM], only=["quickfix"])
    assert action["title"] == "Stet: Fix: missing return type"
    answer = await ed.request("workspace/executeCommand", action["command"])
    assert answer == {"status": "proposed", "applied": True}
    assert ed.text(uri) == CODE.replace("two():", "two() -> int:")
    assert len(ed.edits) == 1
    assert "at `return 2`: missing return type" in engine.requests[0]["messages"][1]["content"]
    ((token, reports),) = ed.client.progress_reports.items()
    assert len(str(token)) == 36
    assert (reports[0].kind, reports[0].cancellable, reports[-1].kind) == ("begin", True, "end")  # type: ignore[attr-defined]


def command(uri: str) -> dict[str, Any]:
    argument = {"textDocument": {"uri": uri}, "range": lines(4, 6), "instruction": "do it"}
    return {"command": "stet.rewrite", "arguments": [argument]}


@pytest.mark.parametrize("how", ["request", "progress"])
async def test_a_command_is_really_cancelled(ed: Editor, engine: StubEngine, how: str) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    request = ed.request("workspace/executeCommand", command(uri), "c1")
    await engine.holding.wait()
    if how == "request":
        ed.client.cancel_request(t.CancelParams(id="c1"))
        await fails(request, -32800)
    else:
        (token,) = ed.client.progress_reports
        ed.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams(token=token))
        assert await request == {"status": "cancelled", "applied": False}
    await asyncio.wait_for(engine.closed_early.wait(), 20)
    assert not ed.edits and not ed.client.messages


async def test_a_failing_command_shows_one_message(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.die_at = 1
    answer = await ed.request("workspace/executeCommand", command(uri))
    assert answer == {"status": "failed", "applied": False}
    (shown,) = ed.client.messages
    assert shown.type == t.MessageType.Error
    assert shown.message.startswith("Stet: the engine stopped in mid-rewrite")


async def test_actions_can_be_switched_off_and_carry_the_llm_tag(folder: Path, engine: StubEngine) -> None:
    tagged = t.ClientCapabilities(
        text_document=t.TextDocumentClientCapabilities(
            code_action=t.CodeActionClientCapabilities(
                tag_support=t.CodeActionTagOptions(value_set=[t.CodeActionTag.LlmGenerated])
            )
        )
    )
    async with editor(folder, capabilities=tagged) as ed:
        uri = ed.open(CODE)
        assert all(action["tags"] == [1] for action in await raw_actions(ed, uri))
        ed.client.workspace_did_change_configuration(
            t.DidChangeConfigurationParams(settings={"stet": {"codeActions": False}})
        )
        assert await raw_actions(ed, uri) == []


@pytest.mark.parametrize(("choice", "n_asked"), [("Try again", 2), (None, 1)])
async def test_after_no_change_the_user_may_try_again(
    ed: Editor, engine: StubEngine, choice: str | None, n_asked: int
) -> None:
    uri = ed.open(CODE)
    engine.answer("def two():\n    return 2\n")

    @ed.client.feature(t.WINDOW_SHOW_MESSAGE_REQUEST)
    def on_question(params: t.ShowMessageRequestParams) -> t.MessageActionItem | None:
        assert params.message == "Stet: nothing to change here"
        engine.answer(NEW_TWO)
        return t.MessageActionItem(choice) if choice else None

    answer = await ed.request("workspace/executeCommand", command(uri))
    assert answer == ({"status": "proposed", "applied": True} if choice else {"status": "unchanged", "applied": False})
    assert [AGAIN in asked["messages"][-1]["content"] for asked in engine.requests] == [False, True][:n_asked]
    assert ed.text(uri) == (CODE.replace("two():", "two() -> int:") if choice else CODE)


async def test_a_client_that_can_not_ask_says_that_nothing_changed(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer("def two():\n    return 2\n")
    answer = await ed.request("workspace/executeCommand", command(uri))
    assert answer == {"status": "unchanged", "applied": False}
    assert [shown.message for shown in ed.client.messages] == ["Stet: nothing to change here"]


async def test_an_editor_that_tells_of_the_change_after_the_answer_hears_of_no_failure(
    ed: Editor, engine: StubEngine
) -> None:
    """As Emacs does, which waits for the answer."""
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    ed.skips_edits = True
    (action,) = await raw_actions(ed, uri, diagnostics=[PROBLEM], only=["quickfix"])
    answer = await ed.request("workspace/executeCommand", action["command"])
    assert answer == {"status": "proposed", "applied": True}
    assert len(ed.edits) == 1 and not ed.client.messages


async def test_requests_are_numbered_and_a_choice_without_a_title_is_none(folder: Path, engine: StubEngine) -> None:
    """Vim's lsp plugin can't answer ids that are no numbers, and Kate answers {} where nothing was chosen."""
    engine.answer(CODE)
    server = RawServer(folder)
    try:
        server.reply = lambda request: {"result": {}}
        await asyncio.to_thread(server.initialize)
        server.open()
        argument = {"textDocument": {"uri": URI}, "range": TWO, "instruction": "do it"}
        command = {"command": "stet.rewrite", "arguments": [argument]}
        answer = await asyncio.to_thread(server.ask, "workspace/executeCommand", command)
        assert answer["result"] == {"status": "unchanged", "applied": False}
        (asked,) = [each for each in server.received if each.get("method") == "window/showMessageRequest"]
        assert type(asked["id"]) is int
    finally:
        server.end()
