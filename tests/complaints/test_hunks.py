"""Complaints 41 to 50, seen from the server: preview, accept, reject, try again. More in test_neovim.py."""

import pytest
from desk import accept, asked, fenced, propose
from lsp_editor import CODE, NEW_TWO, Editor, lines
from lsprotocol import types as t
from stub_engine import StubEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORTY = "".join(f"line_{n} = {n}\n" for n in range(40))
TWO_CHANGES = FORTY.replace("= 3\n", "= 33\n").replace("= 30\n", "= 999\n")


@pytest.mark.complaint(42, "microsoft/vscode#275061")
async def test_what_is_accepted_arrives_as_one_edit(ed: Editor, engine: StubEngine) -> None:
    uri, result = await propose(ed, engine, FORTY, fenced(TWO_CHANGES))
    assert len(result["hunks"]) == 2
    await accept(ed, uri)
    (edit,) = ed.edits
    assert len(edit.edit.document_changes or []) == 1


@pytest.mark.complaint(44, "microsoft/vscode#233339")
async def test_nothing_is_left_of_a_rejected_hunk(ed: Editor, engine: StubEngine) -> None:
    uri, result = await propose(ed, engine, FORTY, fenced(TWO_CHANGES))
    kept, rejected = result["hunks"]
    answer = await ed.request("stet/accept", {"jobId": "job", "hunks": [kept["id"]]})
    assert [hunk["id"] for hunk in answer["remainingHunks"]] == [rejected["id"]]
    await ed.request("stet/reject", {"jobId": "job"})
    assert ed.text(uri) == FORTY.replace("= 3\n", "= 33\n")
    assert len(ed.edits) == 1
    # And the next rewrite knows nothing of it.
    engine.pieces = [fenced("line_30 = 0\n")]
    assert (await ed.rewrite(uri, 30, 31))["hunks"][0]["oldText"] == "line_30 = 30\n"
    assert "999" not in asked(engine)


@pytest.mark.complaint(45, "microsoft/vscode#248284")
async def test_after_an_undo_all_goes_on_as_if_nothing_had_been(ed: Editor, engine: StubEngine) -> None:
    uri, _ = await propose(ed, engine, CODE, fenced(NEW_TWO), 4, 6)
    await accept(ed, uri)
    ed.type(uri, 4, 0, "def two():\n", (5, 0))
    assert ed.text(uri) == CODE
    for verdict in ("reject", "accept"):
        result = await ed.rewrite(uri, 4, 6)
        assert [hunk["range"] for hunk in result["hunks"]] == [lines(4, 5)]
        await ed.request(f"stet/{verdict}", {"jobId": "job"})
        assert ed.text(uri) == (CODE if verdict == "reject" else CODE.replace("two():", "two() -> int:"))


@pytest.mark.complaint(46, "microsoft/vscode#213563")
async def test_another_try_starts_from_the_users_text(ed: Editor, engine: StubEngine) -> None:
    uri, _ = await propose(ed, engine, CODE, fenced("def first_try():\n    return 2\n"), 4, 6)
    engine.pieces = [fenced(NEW_TWO)]
    result = await ed.rewrite(uri, 4, 6, seed=2, temperature=0.8)
    assert "first_try" not in asked(engine)
    assert [hunk["oldText"] for hunk in result["hunks"]] == ["def two():\n"]
    assert await accept(ed, uri) == CODE.replace("two():", "two() -> int:")


@pytest.mark.complaint(47, "microsoft/vscode#260840")
async def test_a_later_rewrite_leaves_alone_what_was_accepted(ed: Editor, engine: StubEngine) -> None:
    uri, _ = await propose(ed, engine, CODE, fenced(NEW_TWO), 4, 6)
    first = await accept(ed, uri)
    engine.pieces = [fenced("def two() -> int:\n    return 22\n")]
    await ed.rewrite(uri, 4, 6)
    second = await accept(ed, uri)
    assert second == first.replace("return 2\n", "return 22\n")
    # The edit that an undo would take back is about the second change alone.
    (document,) = ed.edits[1].edit.document_changes or []
    assert isinstance(document, t.TextDocumentEdit)
    assert [edit.new_text for edit in document.edits] == ["    return 22\n"]


@pytest.mark.complaint(49, "sourcegraph/cody#4879")
async def test_to_look_at_a_proposal_accepts_nothing(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.pieces = [fenced(NEW_TWO)]
    await ed.request("stet/prepare", {"textDocument": {"uri": uri}, "range": lines(4, 6)})
    result = await ed.rewrite(uri, 4, 6)
    assert result["newText"] == NEW_TWO and ed.progress[-1]["hunks"] == result["hunks"]
    await ed.sync()
    assert ed.text(uri) == CODE and not ed.edits
