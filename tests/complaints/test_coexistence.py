"""Complaints 72 to 78: other servers, no network, no account, not enough memory, and what the model really saw."""

from pathlib import Path

import pytest
from desk import accept, asked, fenced, listen, propose
from lsp_editor import CODE, NEW_TWO, Editor, editor, fails, lines
from stub_engine import StubEngine
from test_lsp_actions import raw_actions

pytestmark = pytest.mark.asyncio(loop_scope="module")

AFTER = CODE.replace("two():", "two() -> int:")


@pytest.mark.complaint(72, "neovim/neovim#34731")
async def test_an_edit_has_no_note_that_is_not_explained(ed: Editor, engine: StubEngine) -> None:
    heard = listen(ed)
    uri, _ = await propose(ed, engine, CODE, fenced(NEW_TWO), 4, 6)
    await accept(ed, uri)
    (edit,) = [message["params"]["edit"] for message in heard if message.get("method") == "workspace/applyEdit"]
    named = {change.get("annotationId") for document in edit["documentChanges"] for change in document["edits"]}
    assert named - {None} <= set(edit.get("changeAnnotations") or {})


@pytest.mark.complaint(73, "zed-industries/zed#31036")
async def test_without_a_backend_all_but_the_answer_is_there(folder: Path) -> None:
    """The prompt opens, the actions are listed; only the rewrite says what is wrong, in one line."""
    async with editor(folder, options={"model": "m", "server": {"url": "http://127.0.0.1:9/v1"}}) as ed:
        uri = ed.open(CODE)
        assert await raw_actions(ed, uri)
        answer = await ed.request("stet/prepare", {"textDocument": {"uri": uri}, "range": lines(4, 6)})
        assert answer["state"] == "unavailable" and "127.0.0.1:9" in answer["message"]
        assert not ed.client.messages
        for _ in range(2):
            await fails(ed.rewrite(uri, 4, 6), -32803, r"can't reach http://127\.0\.0\.1:9")
        assert ed.text(uri) == CODE


@pytest.mark.complaint(74, "zed-industries/zed#21898")
async def test_nobody_asks_for_an_account(folder: Path, engine: StubEngine) -> None:
    async with editor(folder) as ed:
        heard = listen(ed)
        uri, _ = await propose(ed, engine, CODE, fenced(NEW_TWO), 4, 6)
        assert await accept(ed, uri) == AFTER
        assert {message["method"] for message in heard if "method" in message} == {
            "stet/progress",
            "workspace/applyEdit",
        }
        assert not ed.client.messages


@pytest.mark.complaint(75, "continuedev/continue#471")
async def test_a_proxy_does_not_stand_between_the_editor_and_its_engine(
    folder: Path, engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    async with editor(folder) as ed:
        uri, _ = await propose(ed, engine, CODE, fenced(NEW_TWO), 4, 6)
        assert await accept(ed, uri) == AFTER


@pytest.mark.complaint(76, "ollama/ollama#1952")
async def test_out_of_memory_is_one_line_and_the_next_rewrite_works(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.pieces = [fenced(NEW_TWO)]
    engine.refusal = (503, "model_error", "out of memory: the prompt needs 9 GB, 4 are free; select fewer lines")
    await fails(ed.rewrite(uri, 4, 6), -32803, "out of memory: .* select fewer lines")
    assert ed.text(uri) == CODE
    engine.refusal = None
    assert (await ed.rewrite(uri, 4, 6))["status"] == "proposed"


@pytest.mark.complaint(77, "continuedev/continue#2908")
async def test_the_file_around_the_selection_is_really_sent(ed: Editor, engine: StubEngine) -> None:
    diagnostic = {"range": lines(4, 5), "message": "missing return type"}
    await propose(ed, engine, CODE, fenced(NEW_TWO), 4, 6, instruction="Add types", diagnostics=[diagnostic])
    sent = asked(engine)
    assert all(part in sent for part in ("def one():\n    return 1\n", "Add types", "missing return type"))


@pytest.mark.complaint(78, "TabbyML/tabby#2969")
async def test_a_result_can_be_refined_by_another_instruction(ed: Editor, engine: StubEngine) -> None:
    uri, _ = await propose(ed, engine, CODE, fenced(NEW_TWO), 4, 6, instruction="Add types")
    await accept(ed, uri)
    engine.pieces = [fenced("async def two() -> int:\n    return 2\n")]
    await ed.rewrite(uri, 4, 6, instruction="Make it async")
    assert "def two() -> int:" in engine.requests[-1]["prediction"]["content"]
    assert await accept(ed, uri) == AFTER.replace("def two", "async def two")
