"""Prepare, rewrite, progress, accept, reject, as a client sees them: the real `stet lsp` and a scripted engine."""

# ruff: noqa: F401, F811 - pytest finds fixtures by the names of a module.

import asyncio
from typing import Any

import pytest
from lsp_editor import CODE, NEW_TWO, Editor, ed, engine, fails, folder, lines, until, writing
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException
from stub_engine import StubEngine

from lsp_server.prompts import AGAIN, AGAIN_TEMPERATURE


async def test_a_rewrite_is_proposed_then_applied_as_one_versioned_edit(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    result = await ed.rewrite(uri, 4, 6)
    assert (result["jobId"], result["status"], result["version"]) == ("job", "proposed", 1)
    assert result["newText"] == NEW_TWO
    (hunk,) = result["hunks"]
    assert (hunk["id"], hunk["range"]) == (0, lines(4, 5))
    assert (hunk["oldText"], hunk["newText"]) == ("def two():\n", "def two() -> int:\n")
    assert (hunk["removed"], hunk["added"]) == ([], [{"line": 0, "start": 9, "end": 16}])
    assert hunk["written"] == [{"line": 0, "start": 0, "end": 17}]
    assert result["stats"]["tokens"] == 4
    assert result["stats"]["tokensPerSecond"] == 8
    assert ed.text(uri) == CODE and not ed.edits

    answer = await ed.request("stet/accept", {"jobId": "job"})
    nothing: dict[str, Any] = {"remainingHunks": [], "droppedHunks": []}
    assert answer == {"applied": True, "acceptedHunks": [0], "message": "applied", **nothing}
    assert ed.text(uri) == CODE.replace("two():", "two() -> int:")
    (edit,) = ed.edits
    (document,) = edit.edit.document_changes or []
    assert isinstance(document, t.TextDocumentEdit)
    assert document.text_document.version == 1
    assert [each.new_text for each in document.edits] == ["def two() -> int:\n"]


async def test_progress_tells_states_figures_and_the_final_hunks(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.n_loading = 8
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


async def test_another_try_is_asked_in_firmer_words_and_sampled(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6)
    await ed.rewrite(uri, 4, 6, again=True)
    await ed.rewrite(uri, 4, 6, again=True, temperature=0.9)
    first, second, _ = engine.requests
    assert AGAIN not in first["messages"][-1]["content"]
    assert f"do it\n{AGAIN}" in second["messages"][-1]["content"]
    assert [asked["temperature"] for asked in engine.requests] == [0, AGAIN_TEMPERATURE, 0.9]


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
    uri, request = await writing(ed, engine, msg_id="r1")
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
    uri, request = await writing(ed, engine)
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
    uri, request = await writing(ed, engine)
    ed.type(uri, 0, 0, "import os\n\n")
    await ed.sync()
    engine.gate.set()
    result = await request
    assert (result["version"], result["hunks"][0]["range"]) == (2, lines(6, 7))
    ed.type(uri, 0, 0, "# top\n")
    assert (await ed.request("stet/accept", {"jobId": "job"}))["applied"]
    assert ed.text(uri) == "# top\nimport os\n\n" + CODE.replace("two():", "two() -> int:")


async def test_an_edit_inside_a_proposal_makes_it_stale(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6)
    ed.type(uri, 4, 0, "async ")
    await until(lambda: ed.states()[-1] == "stale")
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602, "gone stale")
    assert not ed.edits


async def test_a_second_rewrite_of_the_same_lines_takes_the_place_of_the_first(ed: Editor, engine: StubEngine) -> None:
    uri, first = await writing(ed, engine)
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


async def half_written(ed: Editor, engine: StubEngine) -> "asyncio.Future[Any]":
    """A rewrite of LONG whose engine stands still in the middle."""
    uri = ed.open(LONG)
    engine.answer(LONG.replace("line_3 = 3", "line_3 = 33"))
    engine.hold_at = 20
    request = ed.rewrite(uri, 0, 40)
    await engine.holding.wait()
    return request


async def test_hunks_are_final_while_the_rest_is_written(ed: Editor, engine: StubEngine) -> None:
    request = await half_written(ed, engine)
    engine.gate.set()
    await request
    during = [progress for progress in ed.progress if progress["state"] == "writing"]
    assert all(progress["hunks"] in ([], ed.progress[-1]["hunks"]) for progress in during)
    assert all(progress["line"] <= 40 for progress in during)


async def test_what_is_written_is_told_though_the_engine_then_stands_still(ed: Editor, engine: StubEngine) -> None:
    request = await half_written(ed, engine)
    await until(lambda: ed.progress and ed.progress[-1]["tokens"] == 20)
    assert [hunk["newText"] for hunk in ed.progress[-1]["hunks"]] == ["line_3 = 33\n"]
    engine.gate.set()
    await request
    n_told = len(ed.progress)
    await ed.sync()
    assert len(ed.progress) == n_told and ed.progress[-1]["state"] == "done"


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
