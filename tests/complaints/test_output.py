"""Complaints 1 to 9: what came out of the model's answer was not the code, or not all of it."""

import json
from pathlib import Path

import pytest
from desk import asked, fenced, pieces, propose, rewritten
from lsp_editor import CODE, NEW_TWO, Editor, editor, fails
from stub_engine import StubEngine
from test_engine_client import delta, server

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARKDOWN = "# Setup\n\n```sh\nmake\n```\n\nThen run it.\n\n```\n./run\n```\n\nDone.\n"
STARTED = MARKDOWN.replace("run it", "start it")


@pytest.mark.complaint(1, "continuedev/continue#1471")
@pytest.mark.parametrize(
    "answer",
    [
        fenced(STARTED, "````", "markdown"),
        fenced(STARTED, "```", "markdown"),
        fenced(STARTED, "````") + "\nI changed one word.\n",
        "Here it is:\n\n" + fenced(STARTED, "```", "markdown"),
        STARTED,
    ],
)
async def test_fences_inside_the_text_do_not_end_it(ed: Editor, engine: StubEngine, answer: str) -> None:
    uri, result = await propose(ed, engine, MARKDOWN, answer)
    assert [(hunk["oldText"], hunk["newText"]) for hunk in result["hunks"]] == [("Then run it.\n", "Then start it.\n")]
    assert all(progress["hunks"] in ([], result["hunks"]) for progress in ed.progress)
    assert ed.text(uri) == MARKDOWN


DOCUMENTED = 'def f():\n    """Use it so:\n\n    ```\n    f()\n    ```\n    """\n    return 1\n\n\n' + "".join(
    f"def g{n}():\n    return {n}\n\n\n" for n in range(10)
)


@pytest.mark.complaint(2, "continuedev/continue#5842")
@pytest.mark.parametrize("fence", ["```", "````"])
async def test_a_fence_in_a_docstring_does_not_cut_the_file_off(ed: Editor, engine: StubEngine, fence: str) -> None:
    after = DOCUMENTED.replace("return 9", "return 99")
    assert await rewritten(ed, engine, DOCUMENTED, fenced(after, fence, "python")) == after


@pytest.mark.complaint(3, "continuedev/continue#5418")
@pytest.mark.parametrize(
    "thoughts",
    [
        "<think>\nThe type is int.\n</think>\n\n",
        "<think>The type is int.</think>",
        "<think>\nPerhaps so:\n\n```python\ndef two() -> str:\n    return 2\n```\n\nNo, it is an int.\n</think>\n\n",
    ],
)
async def test_thoughts_are_not_written_into_the_file(ed: Editor, engine: StubEngine, thoughts: str) -> None:
    after = CODE.replace("two():", "two() -> int:")
    assert await rewritten(ed, engine, CODE, thoughts + fenced(NEW_TWO, name="python"), 4, 6) == after


@pytest.mark.complaint(4, "olimorris/codecompanion.nvim#3353")
@pytest.mark.parametrize("longest", ["```", "````", "`" * 9])
async def test_no_text_can_close_the_fence_that_it_is_shown_in(ed: Editor, engine: StubEngine, longest: str) -> None:
    text = f"# Title\n{longest}\ncode\n{longest}\n\nText.\n"
    after = text.replace("Text", "More text")
    assert await rewritten(ed, engine, text, fenced(after, longest + "`")) == after
    shown = [line for line in asked(engine).splitlines() if line.startswith("`")]
    assert [line for line in shown if line.startswith(longest + "`")] == [shown[0], shown[-1]]
    # The same for a fence in the part of the file that is shown for reference only.
    await propose(ed, engine, text, fenced("More text.\n", longest + "`"), 5, 6)
    assert engine.requests[-1]["prediction"]["content"].startswith(longest + "`")


DIALECTS = {
    "a role first, figures last": [
        'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": null}}]}',
        *map(delta, pieces(fenced(NEW_TWO))),
        delta("", "stop"),
        'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}}',
        "data: [DONE]",
    ],
    "no blank after the colon, and comments": [
        ": keep-alive",
        *(delta(text).replace("data: ", "data:") for text in pieces(fenced(NEW_TWO))),
        ": keep-alive",
        delta("", "stop"),
        "data:[DONE]",
    ],
    "event names, ids, the end with the last piece": [
        "event: message\nid: 1\n" + delta(fenced(NEW_TWO), "stop"),
        "data: [DONE]",
    ],
    "thoughts apart from the answer": [
        'data: {"choices": [{"delta": {"reasoning_content": "It is an int.", "content": null}}]}',
        delta(fenced(NEW_TWO), "stop"),
        "data: [DONE]",
    ],
    "all at once": [delta(fenced(NEW_TWO), "stop"), "data: [DONE]"],
}


@pytest.mark.complaint(5, "olimorris/codecompanion.nvim#55")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_servers_way_to_stream_is_understood(folder: Path, dialect: str) -> None:
    async with server(DIALECTS[dialect]) as (settings, _), editor(folder, options=url(settings.server_url)) as ed:
        uri = ed.open(CODE)
        assert (await ed.rewrite(uri, 4, 6))["newText"] == NEW_TWO


def url(server_url: str | None) -> dict[str, object]:
    return {"server": {"url": server_url}}


@pytest.mark.complaint(6, "olimorris/codecompanion.nvim#990")
async def test_bare_code_replaces_the_lines(ed: Editor, engine: StubEngine) -> None:
    """The answer has no fields that could be missing: whatever it looks like, it stands for the selected lines."""
    assert await rewritten(ed, engine, CODE, NEW_TWO, 4, 6) == CODE.replace("two():", "two() -> int:")


@pytest.mark.complaint(7, "olimorris/codecompanion.nvim#426")
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
async def test_selected_lines_reach_the_model_as_lines(ed: Editor, engine: StubEngine, newline: str) -> None:
    await propose(ed, engine, CODE.replace("\n", newline), fenced(NEW_TWO), 4, 6)
    assert "\ndef two():\n    return 2\n```" in asked(engine)


@pytest.mark.complaint(8, "zed-industries/zed#34627")
@pytest.mark.parametrize("turn", [["    return 2\n"], ["    a = 1\n", "    b = 2\n", "\n"]])
async def test_a_model_that_repeats_itself_without_end_is_stopped(
    ed: Editor, engine: StubEngine, turn: list[str]
) -> None:
    """The server by URL may heed no limit of tokens, so the stream itself must be watched."""
    uri = ed.open(CODE)
    engine.pieces = ["```\n", "def two():\n", *turn * 2000]
    engine.hold_at = len(engine.pieces)
    await fails(ed.rewrite(uri, 4, 6), -32803)
    assert ed.text(uri) == CODE


@pytest.mark.complaint(9, "zed-industries/zed#52585")
async def test_the_prompt_has_no_models_own_markers(ed: Editor, engine: StubEngine) -> None:
    """It goes as messages with roles; the server that knows the model puts them into the model's form."""
    await propose(ed, engine, CODE, fenced(NEW_TWO), 4, 6)
    assert not any(marker in json.dumps(engine.requests[-1]) for marker in ("<|", "[INST]", "<start_of_turn>", "<s>"))
