"""Complaints 51 to 55, 79 and 80: it could not be stopped, it did far too much, nobody saw how far it was."""

import asyncio
from typing import Any

import pytest
from desk import fenced, propose
from lsp_editor import CODE, NEW_TWO, Editor, fails, lines, until, writing
from lsprotocol import types as t
from stub_engine import StubEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.complaint(51, "aws/aws-toolkit-vscode#7485")
@pytest.mark.parametrize("stage", ["loading", "prefill", "writing", "end"])
async def test_it_can_be_cancelled_at_any_time(ed: Editor, engine: StubEngine, stage: str) -> None:
    uri = ed.open(CODE)
    engine.pieces = fenced(NEW_TWO).splitlines(keepends=True)
    engine.n_loading = 10**6 if stage == "loading" else 0
    engine.hold_at = {"loading": None, "prefill": 0, "writing": 2, "end": len(engine.pieces)}[stage]
    request = ed.rewrite(uri, 4, 6, "r1")
    await until(lambda: "loading" in ed.states() if stage == "loading" else engine.holding.is_set())
    ed.client.cancel_request(t.CancelParams(id="r1"))
    await fails(request, -32800)
    assert ed.states()[-1] == "cancelled"
    if stage == "loading":
        assert not engine.requests
    else:
        await asyncio.wait_for(engine.closed_early.wait(), 20)
    engine.n_loading, engine.hold_at = 0, None
    assert (await ed.rewrite(uri, 4, 6))["status"] == "proposed"


THOUSANDS = "".join(f"line_{n} = {n}\n" for n in range(5000))


@pytest.mark.complaint(52, "Amazon-Q-Developer/amazon-q-eclipse#435")
async def test_one_line_of_a_long_file_costs_one_line(ed: Editor, engine: StubEngine) -> None:
    _, result = await propose(ed, engine, THOUSANDS, fenced("line_2500 = 0\n"), 2500, 2501)
    (asked,) = engine.requests
    assert asked["prediction"]["content"].splitlines()[1:-1] == ["line_2500 = 2500"]
    assert asked["max_tokens"] < 1000
    assert len(str(asked["messages"])) < len(THOUSANDS) / 4
    assert [hunk["range"] for hunk in result["hunks"]] == [lines(2500, 2501)]


@pytest.mark.complaint(53, "continuedev/continue#1503")
async def test_after_stop_nothing_more_is_written(ed: Editor, engine: StubEngine) -> None:
    uri, request = await writing(ed, engine)
    await ed.request("stet/reject", {"jobId": "job"})
    await fails(request, -32800)
    await asyncio.wait_for(engine.closed_early.wait(), 20)
    engine.gate.set()
    n_said = len(ed.progress)
    await ed.sync()
    assert ed.states()[-1] == "cancelled" and len(ed.progress) == n_said
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602)
    assert ed.text(uri) == CODE and not ed.edits


@pytest.mark.complaint(54, "microsoft/vscode-copilot-release#5611")
async def test_what_stands_is_there_to_be_copied_and_accept_can_be_cancelled(ed: Editor, engine: StubEngine) -> None:
    uri, _ = await propose(ed, engine, THOUSANDS, fenced(THOUSANDS.replace("= 7\n", "= 8\n")))
    assert THOUSANDS in engine.requests[-1]["prediction"]["content"]
    ed.skips_edits = True  # The editor takes its time.
    request = ed.request("stet/accept", {"jobId": "job"}, "a1")
    await until(lambda: ed.edits)
    ed.client.cancel_request(t.CancelParams(id="a1"))
    await fails(request, -32800)
    # The editor may still apply that edit: it is never sent a second time.
    await until(lambda: ed.states()[-1] == "stale")
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602, "there is no rewrite 'job'")
    assert ed.text(uri) == THOUSANDS
    (document,) = ed.edits[-1].edit.document_changes or []
    assert isinstance(document, t.TextDocumentEdit) and len(document.edits) == 1


PROBLEM = {"range": lines(4, 5), "message": "missing return type"}


def command(uri: str) -> dict[str, Any]:
    argument = {
        "textDocument": {"uri": uri},
        "range": lines(4, 6),
        "recipe": "fix-diagnostic",
        "diagnostics": [PROBLEM],
    }
    return {"command": "stet.rewrite", "arguments": [argument]}


@pytest.mark.complaint(55, "microsoft/vscode-copilot-release#288")
async def test_a_fix_for_a_diagnostic_can_be_cancelled(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    request = ed.request("workspace/executeCommand", command(uri), "c1")
    await engine.holding.wait()
    ed.client.cancel_request(t.CancelParams(id="c1"))
    await fails(request, -32800)
    await asyncio.wait_for(engine.closed_early.wait(), 20)
    assert ed.text(uri) == CODE and not ed.edits


@pytest.mark.complaint(79, "openlawlibrary/pygls#517")
async def test_a_request_that_is_cancelled_at_once_is_not_carried_out(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 0
    params = {"textDocument": {"uri": uri}, "range": lines(4, 6), "instruction": "do it", "jobId": "job"}
    request = asyncio.wrap_future(ed.client.protocol.send_request("stet/rewrite", params, None, "r1"))
    ed.client.cancel_request(t.CancelParams(id="r1"))
    await fails(asyncio.wait_for(request, 20), -32800)
    await ed.sync()
    if engine.requests:
        await asyncio.wait_for(engine.closed_early.wait(), 20)
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602)
    assert not ed.edits


@pytest.mark.complaint(80, "microsoft/vscode-languageserver-node#674")
async def test_a_command_shows_how_far_it_is_and_can_be_cancelled(ed: Editor, engine: StubEngine) -> None:
    """Its client sends neither a token for progress nor one for cancelling: the server makes its own."""
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    request = ed.request("workspace/executeCommand", command(uri))
    await engine.holding.wait()
    ((token, reports),) = ed.client.progress_reports.items()
    await until(lambda: any(report.kind == "report" and "tokens" in report.message for report in reports))
    assert reports[0].kind == "begin" and reports[0].cancellable
    ed.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams(token=token))
    assert await request == {"status": "cancelled", "applied": False}
    await asyncio.wait_for(engine.closed_early.wait(), 20)
    await until(lambda: reports[-1].kind == "end")
    assert not ed.edits
