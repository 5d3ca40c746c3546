"""The protocol, as a client sees it: the real `stet lsp` process and a scripted engine."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from lsp_editor import SERVER, Editor, editor, lines, until
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException
from stub_engine import StubEngine, running

CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
NEW_TWO = "def two() -> int:\n    return 2\n"


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
    with pytest.raises(JsonRpcException, match=match) as caught:
        await request
    assert caught.value.code == code


async def test_a_rewrite_is_proposed_then_applied_as_one_versioned_edit(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    result = await ed.rewrite(uri, 4, 6)
    assert (result["jobId"], result["status"], result["version"]) == ("job", "proposed", 1)
    assert result["newText"] == NEW_TWO
    hunk = {"id": 0, "range": lines(4, 5), "oldText": "def two():\n", "newText": "def two() -> int:\n"}
    assert result["hunks"] == [hunk]
    assert result["stats"]["tokens"] == 4
    assert result["stats"]["tokensPerSecond"] == 8
    assert ed.text(uri) == CODE and not ed.edits

    answer = await ed.request("stet/accept", {"jobId": "job"})
    assert answer == {"applied": True, "acceptedHunks": [0], "remainingHunks": [], "message": "applied"}
    assert ed.text(uri) == CODE.replace("two():", "two() -> int:")
    (edit,) = ed.edits
    (document,) = edit.edit.document_changes or []
    assert isinstance(document, t.TextDocumentEdit)
    assert document.text_document.version == 1
    assert [each.new_text for each in document.edits] == ["def two() -> int:\n"]


async def test_progress_tells_states_figures_and_the_final_hunks(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.n_loading = 5
    await ed.rewrite(uri, 4, 6)
    assert ed.states() == ["loading", "prefill", "writing", "done"]
    last = ed.progress[-1]
    assert (last["tokens"], last["copiedTokens"], last["copiedShare"]) == (4, 4, 1)
    assert last["promptTokens"] == 7
    assert last["text"] == NEW_TWO
    assert [hunk["newText"] for hunk in last["hunks"]] == ["def two() -> int:\n"]


async def test_what_the_engine_is_asked(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6, temperature=0.5, seed=3, draft=False)
    (asked,) = engine.requests
    assert asked["stream"] and asked["temperature"] == 0.5 and asked["seed"] == 3
    assert asked["stet"] == {"file_type": "python", "draft": False}
    assert asked["prediction"]["content"] == "```python\ndef two():\n    return 2\n```"
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]


async def test_no_change_is_a_valid_answer(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer("def two():\n    return 2\n")
    result = await ed.rewrite(uri, 4, 6)
    assert (result["status"], result["hunks"]) == ("unchanged", [])
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602, "no rewrite 'job'")


async def test_prepare_asks_for_the_same_text_up_to_the_instruction(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    answer = await ed.request("stet/prepare", {"textDocument": {"uri": uri}, "range": lines(4, 6)})
    assert answer["state"] == "warm"
    await ed.rewrite(uri, 4, 6)
    warm, asked = engine.requests
    assert warm["stet"]["prefill_only"]
    assert warm["messages"][0] == asked["messages"][0]
    before, after = (request["messages"][1]["content"].split("Instruction: ") for request in (warm, asked))
    assert before[0] == after[0]


async def test_prepare_without_an_engine_says_so_without_an_error(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.status = "failed"
    answer = await ed.request("stet/prepare", {"textDocument": {"uri": uri}, "range": lines(4, 6)})
    assert answer == {"state": "unavailable", "message": "the engine can't load stub/model: half a file"}
    assert not ed.client.messages


async def test_cancel_request_stops_the_engine(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    request = ed.rewrite(uri, 4, 6, msg_id="r1")
    await engine.holding.wait()
    ed.client.cancel_request(t.CancelParams(id="r1"))
    await fails(request, -32800)
    await asyncio.wait_for(engine.closed_early.wait(), 20)
    assert ed.states()[-1] == "cancelled"
    assert ed.text(uri) == CODE


async def test_progress_cancel_stops_the_engine(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    ed.client.progress_reports["bar"] = []
    request = ed.rewrite(uri, 4, 6, workDoneToken="bar")
    await engine.holding.wait()
    ed.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams(token="bar"))
    await fails(request, -32800)
    await asyncio.wait_for(engine.closed_early.wait(), 20)
    kinds = [report.kind for report in ed.client.progress_reports["bar"]]  # type: ignore[attr-defined]
    assert (kinds[0], kinds[-1]) == ("begin", "end")


async def test_reject_stops_a_running_job_and_forgets_a_proposal(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    request = ed.rewrite(uri, 4, 6)
    await engine.holding.wait()
    assert await ed.request("stet/reject", {"jobId": "job"}) is None
    await fails(request, -32800)
    engine.hold_at = None
    await ed.rewrite(uri, 4, 6)
    await ed.request("stet/reject", {"jobId": "job"})
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602)
    assert ed.text(uri) == CODE


async def test_a_stale_version_is_refused(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    params = {"textDocument": {"uri": uri, "version": 0}, "range": lines(4, 6), "instruction": "do it"}
    await fails(ed.request("stet/rewrite", params), -32801, "version 0")


async def test_an_edit_above_moves_the_hunks(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    request = ed.rewrite(uri, 4, 6)
    await engine.holding.wait()
    ed.type(uri, 0, 0, "import os\n\n")
    await ed.sync()
    engine.gate.set()
    result = await request
    assert (result["version"], result["hunks"][0]["range"]) == (2, lines(6, 7))
    ed.type(uri, 0, 0, "# top\n")
    assert (await ed.request("stet/accept", {"jobId": "job"}))["applied"]
    assert ed.text(uri) == "# top\nimport os\n\n" + CODE.replace("two():", "two() -> int:")


async def test_an_edit_inside_stops_the_rewrite(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    request = ed.rewrite(uri, 4, 6)
    await engine.holding.wait()
    ed.type(uri, 5, 11, "2")
    await fails(request, -32801, "you edited the lines")
    await asyncio.wait_for(engine.closed_early.wait(), 20)
    assert ed.text(uri) == CODE.replace("return 2", "return 22")


async def test_an_edit_inside_a_proposal_makes_it_stale(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6)
    ed.type(uri, 4, 0, "async ")
    await until(lambda: ed.states()[-1] == "stale")
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602, "gone stale")
    assert not ed.edits


async def test_a_second_rewrite_of_the_same_lines_takes_the_place_of_the_first(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    first = ed.rewrite(uri, 4, 6)
    await engine.holding.wait()
    engine.hold_at = None
    second = ed.rewrite(uri, 0, 6, jobId="second")
    await fails(first, -32802, "newer rewrite")
    engine.gate.set()
    assert (await second)["jobId"] == "second"


async def test_rewrites_of_different_lines_live_side_by_side(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6)
    engine.answer("def one() -> int:\n    return 1\n")
    await ed.rewrite(uri, 0, 2, jobId="other")
    for job in ("other", "job"):
        assert (await ed.request("stet/accept", {"jobId": job}))["applied"]
    assert ed.text(uri) == CODE.replace("():", "() -> int:")


LONG = "".join(f"line_{n} = {n}\n" for n in range(40))


async def test_hunks_are_accepted_one_by_one(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(LONG)
    changed = (
        LONG.replace("line_3 = 3\n", "").replace("line_20 = 20\n", "line_20 = 20\nnew = 1\n").replace("= 35", "= 0")
    )
    engine.answer(changed)
    result = await ed.rewrite(uri, 0, 40)
    assert [hunk["id"] for hunk in result["hunks"]] == [0, 1, 2]
    answer = await ed.request("stet/accept", {"jobId": "job", "hunks": [0]})
    assert [(hunk["id"], hunk["range"]["start"]["line"]) for hunk in answer["remainingHunks"]] == [(1, 20), (2, 34)]
    await fails(ed.request("stet/accept", {"jobId": "job", "hunks": [0]}), -32602, r"the hunks \[1, 2\], not \[0\]")
    assert (await ed.request("stet/accept", {"jobId": "job", "hunks": [2]}))["applied"]
    assert (await ed.request("stet/accept", {"jobId": "job"}))["remainingHunks"] == []
    assert ed.text(uri) == changed
    assert len(ed.edits) == 3


async def test_hunks_are_final_while_the_rest_is_written(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(LONG)
    engine.answer(LONG.replace("line_3 = 3", "line_3 = 33"))
    engine.hold_at = 20
    request = ed.rewrite(uri, 0, 40)
    await engine.holding.wait()
    engine.gate.set()
    await request
    during = [progress for progress in ed.progress if progress["state"] == "writing"]
    assert all(progress["hunks"] in ([], ed.progress[-1]["hunks"]) for progress in during)
    assert all(progress["line"] <= 40 for progress in during)


async def test_an_edit_that_the_editor_only_pretends_to_apply_is_noticed(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6)
    ed.skips_edits = True
    answer = await ed.request("stet/accept", {"jobId": "job"})
    assert not answer["applied"] and "hasn't changed" in answer["message"]
    ed.skips_edits = False
    assert (await ed.request("stet/accept", {"jobId": "job"}))["applied"]
    assert ed.text(uri) == CODE.replace("two():", "two() -> int:")


async def test_a_refused_edit_can_be_accepted_again(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6)
    ed.refuses_edits = True
    answer = await ed.request("stet/accept", {"jobId": "job"})
    assert (answer["applied"], answer["message"]) == (False, "the editor refused the edit")
    ed.refuses_edits = False
    assert (await ed.request("stet/accept", {"jobId": "job"}))["applied"]


async def test_an_engine_that_dies_in_mid_rewrite_is_one_clear_error(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.die_at = 2
    await fails(ed.rewrite(uri, 4, 6), -32803, "the engine stopped in mid-rewrite; nothing was changed")
    assert ed.states()[-1] == "failed"
    assert ed.text(uri) == CODE
    engine.die_at = None
    assert (await ed.rewrite(uri, 4, 6))["status"] == "proposed"


@pytest.mark.parametrize(
    ("answer", "finish_reason", "match"),
    [
        (NEW_TWO, "length", "didn't come to an end"),
        ("def two():\n    # ... rest of the code\n", "stop", "left code out"),
        ("\n", "stop", "no code"),
    ],
)
async def test_a_bad_answer_is_never_proposed(
    ed: Editor, engine: StubEngine, answer: str, finish_reason: str, match: str
) -> None:
    uri = ed.open(CODE)
    engine.answer(answer)
    engine.finish_reason = finish_reason
    await fails(ed.rewrite(uri, 4, 6), -32803, match)
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602)


async def test_the_engines_refusal_reaches_the_user(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.refusal = (400, "context_length_exceeded", "5000 tokens don't fit into 4096")
    with pytest.raises(JsonRpcException, match="5000 tokens don't fit") as caught:
        await ed.rewrite(uri, 4, 6)
    assert caught.value.code == -32803
    assert caught.value.data["code"] == "context_length_exceeded"


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
    engine.answer(NEW_TWO)
    assert (await ed.rewrite(uri, 4, 6))["status"] == "proposed"


CARET = t.Range(t.Position(5, 4), t.Position(5, 4))
PROBLEM = t.Diagnostic(range=CARET, message="missing return type")


async def actions(ed: Editor, uri: str, **context: Any) -> list[Any]:
    answer = await ed.client.protocol.send_request_async(
        "textDocument/codeAction",
        t.CodeActionParams(t.TextDocumentIdentifier(uri), CARET, t.CodeActionContext(**{"diagnostics": [], **context})),
    )
    return list(answer or [])


OFFERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["type-hints", "docstring", "simplify"]),
    ({"diagnostics": [PROBLEM]}, ["quickfix", "type-hints", "docstring", "simplify"]),
    ({"diagnostics": [PROBLEM], "only": ["quickfix"]}, ["quickfix"]),
    ({"only": ["refactor"]}, ["type-hints", "docstring", "simplify"]),
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
    """As JSON: lsprotocol reads an action with a command as a Command."""
    received: list[dict[str, Any]] = []
    protocol = ed.client.protocol
    structure = protocol.structure_message

    def record(data: dict[str, Any]) -> Any:
        if isinstance(data.get("result"), list):
            received.extend(data["result"])
            data = {**data, "result": None}
        return structure(data)

    protocol.structure_message = record  # type: ignore[method-assign]
    try:
        await actions(ed, uri, **context)
    finally:
        protocol.structure_message = structure  # type: ignore[method-assign]
    return received


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
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    request = ed.rewrite(uri, 4, 6)
    await engine.holding.wait()
    ed.client.text_document_did_close(t.DidCloseTextDocumentParams(t.TextDocumentIdentifier(uri)))
    await fails(request, -32801, "closed")


async def test_shutdown_in_mid_rewrite_is_clean_and_stops_the_engine(folder: Path, engine: StubEngine) -> None:
    async with editor(folder) as ed:
        uri = ed.open(CODE)
        engine.answer(NEW_TWO)
        engine.hold_at = 2
        request = ed.rewrite(uri, 4, 6)
        await engine.holding.wait()
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
