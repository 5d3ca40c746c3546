"""Complaints 34 to 40, seen from the server: the user went on typing while the model wrote. More in test_neovim.py."""

import pytest
from desk import accept, fenced, propose
from lsp_editor import CODE, NEW_TWO, Editor, fails, writing
from stub_engine import StubEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

AFTER = CODE.replace("two():", "two() -> int:")


@pytest.mark.complaint(34, "jameshiew/nvim-magic#11")
@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ((0, 0, "# 🙂\n\n\n"), lambda text: "# 🙂\n\n\n" + text),
        ((0, 0, "", (3, 0)), lambda text: text.split("\n", 3)[3]),
        ((1, 11, "11 + 1", (1, 12)), lambda text: text.replace("return 1", "return 11 + 1")),
        ((6, 0, "\n\nend = 1"), lambda text: text + "\n\nend = 1"),
    ],
)
async def test_a_change_elsewhere_leaves_the_rewrite_in_its_place(
    ed: Editor, engine: StubEngine, change: tuple[object, ...], changed: object
) -> None:
    assert callable(changed)
    uri, request = await writing(ed, engine)
    ed.type(uri, *change)  # type: ignore[arg-type]
    await ed.sync()
    engine.gate.set()
    await request
    assert await accept(ed, uri) == changed(AFTER)


@pytest.mark.complaint(35, "jim-at-jibba/nvim-redraft#5")
async def test_the_edit_goes_to_the_document_that_was_asked_for(ed: Editor, engine: StubEngine) -> None:
    uri, request = await writing(ed, engine)
    other = ed.open(CODE, uri="file:///demo/other.py")
    ed.type(other, 0, 0, "# here\n")
    await ed.sync()
    engine.gate.set()
    await request
    assert await accept(ed, uri) == AFTER
    assert ed.text(other) == "# here\n" + CODE


@pytest.mark.complaint(39, "microsoft/vscode#188832")
@pytest.mark.parametrize("is_proposed", [False, True])
async def test_reject_keeps_what_the_user_typed_meanwhile(ed: Editor, engine: StubEngine, is_proposed: bool) -> None:
    uri, request = await writing(ed, engine)
    ed.type(uri, 0, 0, "import os\n")
    await ed.sync()
    if is_proposed:
        engine.gate.set()
        await request
    ed.type(uri, 2, 4, "pass\n    ")
    mine = ed.text(uri)
    await ed.request("stet/reject", {"jobId": "job"})
    if not is_proposed:
        await fails(request, -32800)
    await ed.sync()
    assert ed.text(uri) == mine and not ed.edits


@pytest.mark.complaint(40, "neovim/neovim#12970")
async def test_an_edit_that_came_too_late_is_not_taken_for_applied(ed: Editor, engine: StubEngine) -> None:
    """Some editors skip it, and answer that they applied it."""
    uri, _ = await propose(ed, engine, CODE, fenced(NEW_TWO), 4, 6)
    ed.skips_edits = True
    answer = await ed.request("stet/accept", {"jobId": "job"})
    assert (answer["applied"], [hunk["id"] for hunk in answer["remainingHunks"]]) == (False, [0])
    ed.skips_edits = False
    ed.type(uri, 0, 0, "# typed\n")
    assert await accept(ed, uri) == "# typed\n" + AFTER
