"""The document lives on while a rewrite is written and proposed: typing, undo, save, format, rename, checkout."""

# ruff: noqa: F401, F811 - pytest finds fixtures by the names of a module.

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from lsp_editor import CODE, NEW_TWO, Editor, ed, engine, fails, folder, lines, until, writing
from lsprotocol import types as t
from stub_engine import StubEngine

LONG = "".join(f"line_{n} = {n}\n" for n in range(40))


def changed(text: str, *numbers: int) -> str:
    """What the model makes of the lines of these numbers; by default, of three of them."""
    for n in numbers or (3, 20, 35):
        text = text.replace(f"= {n}\n", f"= {n}  # seen\n")
    return text


def ids(hunks: list[dict[str, Any]]) -> list[int]:
    return [hunk["id"] for hunk in hunks]


async def streaming(ed: Editor, engine: StubEngine) -> "tuple[str, asyncio.Future[Any]]":
    """A rewrite of LONG that waits before the last of its three hunks: the other two are final."""
    uri = ed.open(LONG)
    engine.answer(changed(LONG))
    engine.hold_at = 26
    request = ed.rewrite(uri, 0, 40)
    await engine.holding.wait()
    # Progress is told ten times a second at most: a line at a time, until it was due and has told it.
    while not ed.progress or ids(ed.progress[-1]["hunks"]) != [0, 1]:
        assert engine.hold_at < 35
        await asyncio.sleep(0.3)
        engine.holding.clear()
        engine.hold_at += 1
        engine.gate.set()
        engine.gate.clear()
        await engine.holding.wait()
    return uri, request


async def proposed(ed: Editor, engine: StubEngine) -> str:
    """A rewrite of LONG with three hunks."""
    uri = ed.open(LONG)
    engine.answer(changed(LONG))
    result = await ed.rewrite(uri, 0, 40)
    assert ids(result["hunks"]) == [0, 1, 2]
    return uri


async def accept(ed: Editor, *hunks: int) -> Any:
    return await ed.request("stet/accept", {"jobId": "job", **({"hunks": list(hunks)} if hunks else {})})


async def test_typing_between_the_hunks_costs_nothing(ed: Editor, engine: StubEngine) -> None:
    uri, request = await streaming(ed, engine)
    ed.type(uri, 10, 0, "typed = 1\n")
    ed.type(uri, 25, 0, "", (26, 0))
    ed.type(uri, 36, 0, "#")
    await ed.sync()
    engine.gate.set()
    result = await request
    typed = ed.text(uri)
    assert [hunk["range"]["start"]["line"] for hunk in result["hunks"]] == [3, 21, 35]
    assert result["droppedHunks"] == []
    assert result["newText"] == changed(typed)
    assert (await accept(ed))["applied"]
    assert ed.text(uri) == changed(typed)


async def test_an_edited_hunk_is_dropped_and_said_and_the_others_live(ed: Editor, engine: StubEngine) -> None:
    uri, request = await streaming(ed, engine)
    ed.type(uri, 3, 0, "my_")
    await until(lambda: ids(ed.progress[-1]["droppedHunks"]) == [0])
    assert (ed.progress[-1]["state"], ids(ed.progress[-1]["hunks"])) == ("writing", [1])
    # Once said, it stays so.
    ed.type(uri, 3, 0, "", (3, 3))
    # Not final yet: it is found when it is.
    ed.type(uri, 35, 0, "my_")
    await ed.sync()
    engine.gate.set()
    result = await request
    assert ids(result["hunks"]) == [1]
    assert result["droppedHunks"] == [{"id": n, "reason": "you edited the lines that it changes"} for n in (0, 2)]
    answer = await accept(ed, 0, 1)
    assert (answer["applied"], answer["acceptedHunks"], ids(answer["droppedHunks"])) == (True, [1], [0, 2])
    assert ed.text(uri) == changed(LONG, 20).replace("line_35", "my_line_35")


async def test_what_was_undone_before_its_hunk_was_final_costs_nothing(ed: Editor, engine: StubEngine) -> None:
    uri, request = await streaming(ed, engine)
    ed.type(uri, 35, 0, "", (37, 0))
    ed.type(uri, 35, 0, "line_35 = 35\nline_36 = 36\n")
    await ed.sync()
    engine.gate.set()
    assert ids((await request)["hunks"]) == [0, 1, 2]


async def test_a_rewrite_whose_every_hunk_was_edited_fails_as_modified(ed: Editor, engine: StubEngine) -> None:
    uri, request = await writing(ed, engine)
    ed.type(uri, 4, 0, "async ")
    await ed.sync()
    engine.gate.set()
    await fails(request, -32801, "you edited all the lines that it would change")
    assert ed.states()[-1] == "failed"
    assert ed.text(uri) == CODE.replace("def two", "async def two")


async def test_a_rewrite_whose_lines_are_deleted_is_stopped_at_once(ed: Editor, engine: StubEngine) -> None:
    uri, request = await writing(ed, engine)
    ed.type(uri, 3, 0, "", (6, 0))
    await fails(request, -32801, "are gone")
    await asyncio.wait_for(engine.closed_early.wait(), 20)


async def test_a_proposal_says_what_is_left_of_it(ed: Editor, engine: StubEngine) -> None:
    uri = await proposed(ed, engine)
    ed.type(uri, 0, 0, "new\n")
    ed.type(uri, 21, 2, "x")
    await until(lambda: ids(ed.progress[-1]["droppedHunks"]) == [1])
    last = ed.progress[-1]
    assert (last["state"], last["version"], ids(last["hunks"])) == ("done", 3, [0, 2])
    assert last["hunks"][1]["range"] == lines(36, 37)
    ed.type(uri, 4, 2, "x")
    ed.type(uri, 36, 2, "x")
    await until(lambda: ed.states()[-1] == "stale")
    assert ids(ed.progress[-1]["droppedHunks"]) == [1, 0, 2]
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602, "gone stale")


async def test_hunks_are_accepted_in_any_order_with_typing_and_undo_between(ed: Editor, engine: StubEngine) -> None:
    uri = await proposed(ed, engine)
    answer = await accept(ed, 2)
    assert (answer["acceptedHunks"], ids(answer["remainingHunks"])) == ([2], [0, 1])
    ed.type(uri, 0, 0, "# top\n")
    assert (await accept(ed, 0))["acceptedHunks"] == [0]
    # Undo.
    ed.type(uri, 4, 0, "line_3 = 3\n", (5, 0))
    ed.type(uri, 15, 0, "x = 1\n")
    assert (await accept(ed))["remainingHunks"] == []
    assert ed.text(uri) == "# top\n" + changed(LONG, 20, 35).replace("line_14", "x = 1\nline_14")
    assert (len(ed.edits), ed.n_applied) == (3, 3)


async def test_hunks_are_rejected_one_by_one(ed: Editor, engine: StubEngine) -> None:
    uri = await proposed(ed, engine)
    await ed.request("stet/reject", {"jobId": "job", "hunks": [0, 7]})
    await fails(ed.request("stet/accept", {"jobId": "job", "hunks": [0]}), -32602, r"the hunks \[1, 2\], not \[0\]")
    answer = await accept(ed, 1)
    assert ids(answer["remainingHunks"]) == [2]
    await ed.request("stet/reject", {"jobId": "job", "hunks": [2]})
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602, "no rewrite")
    assert ed.text(uri) == changed(LONG, 20)


async def test_a_hunk_can_be_rejected_before_the_rewrite_is_done(ed: Editor, engine: StubEngine) -> None:
    _, request = await streaming(ed, engine)
    await ed.request("stet/reject", {"jobId": "job", "hunks": [1]})
    engine.gate.set()
    assert ids((await request)["hunks"]) == [0, 2]


async def test_saving_changes_nothing(ed: Editor, engine: StubEngine) -> None:
    uri, request = await streaming(ed, engine)
    ed.client.text_document_did_save(t.DidSaveTextDocumentParams(t.TextDocumentIdentifier(uri)))
    engine.gate.set()
    assert ids((await request)["hunks"]) == [0, 1, 2]
    ed.client.text_document_did_save(t.DidSaveTextDocumentParams(t.TextDocumentIdentifier(uri)))
    assert (await accept(ed))["applied"]


async def test_a_formatter_that_sends_the_whole_text_costs_only_what_it_changed(ed: Editor, engine: StubEngine) -> None:
    uri, request = await streaming(ed, engine)
    formatted = "import os\n\n" + LONG.replace("line_10 = 10", "line_10 =  10").replace("line_35 = 35", "line_35=35")
    ed.change(uri, [{"text": formatted}])
    await ed.sync()
    engine.gate.set()
    result = await request
    assert (ids(result["hunks"]), ids(result["droppedHunks"])) == ([0, 1], [2])
    assert (await accept(ed))["applied"]
    assert ed.text(uri) == changed(formatted, 3, 20)


async def test_a_checkout_of_another_branch_drops_what_is_different_there(ed: Editor, engine: StubEngine) -> None:
    uri = await proposed(ed, engine)
    other = LONG.replace("line_3 =", "line_three =").replace("line_30 = 30\n", "")
    ed.change(uri, [{"text": other}])
    await until(lambda: ids(ed.progress[-1]["droppedHunks"]) == [0])
    assert (await accept(ed))["acceptedHunks"] == [1, 2]
    assert ed.text(uri) == changed(other, 20, 35)


async def test_a_checkout_of_a_branch_without_these_lines_ends_it(ed: Editor, engine: StubEngine) -> None:
    uri, request = await streaming(ed, engine)
    ed.change(uri, [{"text": "another\nfile\n"}])
    await fails(request, -32801, "are gone")
    assert ed.text(uri) == "another\nfile\n"


def close(ed: Editor, uri: str) -> None:
    ed.client.text_document_did_close(t.DidCloseTextDocumentParams(t.TextDocumentIdentifier(uri)))


async def test_a_renamed_file_ends_its_rewrites_and_takes_new_ones(ed: Editor, engine: StubEngine) -> None:
    uri, request = await streaming(ed, engine)
    close(ed, uri)
    renamed = ed.open(LONG, uri="file:///demo/b.py")
    await fails(request, -32801, "the document was closed")
    engine.hold_at = None
    assert ids((await ed.rewrite(renamed, 0, 40))["hunks"]) == [0, 1, 2]
    assert (await accept(ed))["applied"]
    assert ed.text(renamed) == changed(LONG)


@pytest.mark.parametrize("closes", [True, False])
async def test_a_document_that_is_opened_anew_has_no_proposals(ed: Editor, engine: StubEngine, closes: bool) -> None:
    uri = await proposed(ed, engine)
    if closes:
        close(ed, uri)
    ed.open("other\n")
    await until(lambda: ed.states()[-1] == "stale")
    await fails(ed.request("stet/accept", {"jobId": "job"}), -32602, "gone stale")
    assert ed.text(uri) == "other\n"


async def test_one_rewrite_is_accepted_while_another_streams_beside_it(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(LONG)
    engine.answer("new = 1\n" + "".join(LONG.splitlines(keepends=True)[:10]))
    await ed.rewrite(uri, 0, 10, jobId="above")
    engine.answer("".join(changed(LONG).splitlines(keepends=True)[10:30]))
    engine.hold_at = 15
    request = ed.rewrite(uri, 10, 30)
    await engine.holding.wait()
    assert (await ed.request("stet/accept", {"jobId": "above"}))["applied"]
    engine.gate.set()
    assert (await request)["hunks"][0]["range"] == lines(21, 22)
    assert (await accept(ed))["applied"]
    assert ed.text(uri) == "new = 1\n" + changed(LONG, 20)


def keys_of(ed: Editor, uri: str, later_s: float) -> Callable[[], None]:
    """A key that is pressed above everything."""
    here = {"line": 0, "character": 0}
    return lambda: ed.change(uri, [{"range": {"start": here, "end": here}, "text": "k"}], later_s)


@pytest.mark.parametrize("later_s", [0, 0.2], ids=["told_at_once", "told_later"])
@pytest.mark.parametrize("lies", [False, True], ids=["refused", "skipped"])
async def test_keys_pressed_just_before_the_edit_arrives_cost_nothing(
    ed: Editor, engine: StubEngine, lies: bool, later_s: float
) -> None:
    uri = ed.open("\n" + LONG)
    engine.answer(changed(LONG))
    await ed.rewrite(uri, 1, 41)
    ed.lies = lies
    ed.keys = [keys_of(ed, uri, later_s)] * 2
    answer = await accept(ed)
    assert (answer["applied"], answer["acceptedHunks"]) == (True, [0, 1, 2])
    assert ed.text(uri) == "kk\n" + changed(LONG)
    assert (len(ed.edits), ed.n_applied) == (3, 1)


async def test_who_never_stops_typing_gets_a_message_and_keeps_the_proposal(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open("\n" + LONG)
    engine.answer(changed(LONG))
    await ed.rewrite(uri, 1, 41)
    ed.keys = [keys_of(ed, uri, 0)] * 20
    answer = await accept(ed)
    assert (answer["applied"], ids(answer["remainingHunks"])) == (False, [0, 1, 2])
    assert ed.n_applied == 0
    ed.keys = []
    assert (await accept(ed))["applied"]


async def test_a_key_pressed_in_a_hunk_just_before_the_edit_arrives_drops_that_hunk(
    ed: Editor, engine: StubEngine
) -> None:
    uri = await proposed(ed, engine)
    ed.keys = [lambda: ed.type(uri, 20, 0, "k")]
    answer = await accept(ed)
    assert (answer["acceptedHunks"], ids(answer["droppedHunks"])) == ([0, 2], [1])
    assert ed.text(uri) == changed(LONG, 3, 35).replace("line_20", "kline_20")


async def test_an_edit_that_is_told_in_parts_is_taken_once(ed: Editor, engine: StubEngine) -> None:
    uri = await proposed(ed, engine)
    ed.tells_in_parts = True
    assert (await accept(ed))["acceptedHunks"] == [0, 1, 2]
    assert ed.text(uri) == changed(LONG)
    assert len(ed.edits) == 1


async def test_what_is_told_along_with_our_edit_does_not_hide_it(ed: Editor, engine: StubEngine) -> None:
    uri = await proposed(ed, engine)
    here = {"line": 3, "character": 0}
    ed.typed_along = [{"range": {"start": here, "end": here}, "text": "typed "}]
    answer = await accept(ed, 0, 1)
    assert (answer["acceptedHunks"], ids(answer["remainingHunks"])) == ([0, 1], [2])
    assert ed.text(uri) == changed(LONG, 3, 20).replace("line_3 ", "typed line_3 ")


async def test_an_edit_that_may_or_may_not_be_in_a_change_is_never_sent_again(ed: Editor, engine: StubEngine) -> None:
    """A client that applies something else than it was sent."""
    uri = ed.open(LONG)
    engine.answer(LONG.replace("line_3 =", "new = 1\nline_3 ="))
    await ed.rewrite(uri, 0, 40)
    ed.lies = True
    ed.keys = [lambda: ed.type(uri, 3, 0, "new  = 1\n")]
    answer = await accept(ed)
    assert not answer["applied"] and "look whether it was" in answer["message"]
    assert len(ed.edits) == 1
    assert ed.text(uri).count("new") == 1


async def test_a_cancelled_accept_is_never_done_twice(ed: Editor, engine: StubEngine) -> None:
    await proposed(ed, engine)
    ed.skips_edits = True
    request = ed.request("stet/accept", {"jobId": "job", "hunks": [0]}, "a1")
    await until(lambda: ed.edits)
    ed.client.cancel_request(t.CancelParams(id="a1"))
    await fails(request, -32800)
    ed.skips_edits = False
    answer = await accept(ed)
    assert (answer["acceptedHunks"], ids(answer["droppedHunks"])) == ([1, 2], [0])


async def test_what_differs_within_the_lines_is_told(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open("s = '😀' + one\n")
    engine.answer("s = '😀' + two + three\n")
    (hunk,) = (await ed.rewrite(uri, 0, 1))["hunks"]
    place = {"line": 0, "character": 11}
    assert hunk["removed"] == [{"start": place, "end": {"line": 0, "character": 14}}]
    assert hunk["added"] == [{"line": 0, "start": 11, "end": 22}]


@pytest.mark.parametrize(("tells_copied", "written"), [(True, [{"line": 0, "start": 11, "end": 14}]), (False, None)])
async def test_what_the_model_wrote_itself_is_told_if_the_engine_says_it(
    ed: Editor, engine: StubEngine, tells_copied: bool, written: list[dict[str, int]] | None
) -> None:
    uri = ed.open("s = '😀' + one + three\n")
    engine.pieces = ["```\n", "s = '😀' + ", "two", " + three\n", "```\n"]
    engine.tells_copied = tells_copied
    (hunk,) = (await ed.rewrite(uri, 0, 1))["hunks"]
    assert hunk["written"] == written
