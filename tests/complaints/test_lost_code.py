"""Complaints 10 to 20: code was deleted that nobody had asked to delete."""

from typing import Any

import pytest
from desk import accept, fenced, propose, rewritten
from lsp_editor import Editor, fails, lines
from pygls.exceptions import JsonRpcException
from stub_engine import StubEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILE = "".join(f"def f{n}(x):\n    # Adds {n}.\n    return x + {n}\n\n\n" for n in range(10))
"""Ten functions of three lines and two blank ones."""
FIFTH = "def f5(x: int) -> int:\n    # Adds 5.\n    return x + 5\n"


@pytest.mark.complaint(10, "continuedev/continue#3582")
async def test_a_rewritten_function_leaves_the_file_around_it(ed: Editor, engine: StubEngine) -> None:
    after = FILE.replace("def f5(x):", "def f5(x: int) -> int:")
    assert await rewritten(ed, engine, FILE, fenced(FIFTH), 25, 28) == after


SIX = "".join(f"{word} = 1\n" for word in ("one", "two", "three", "four", "five", "six"))


@pytest.mark.complaint(11, "continuedev/continue#2520")
@pytest.mark.parametrize("is_whole_file_sent", [False, True])
async def test_the_line_above_the_selection_stays(ed: Editor, engine: StubEngine, is_whole_file_sent: bool) -> None:
    """Every selection in a file of six lines, also when the model writes the line above once more."""
    old = SIX.splitlines(keepends=True)
    for first in range(6):
        for last in range(first + 1, 7):
            new = [line.replace("1", "2") for line in old[first:last]]
            start = max(0, first - 1) if is_whole_file_sent else first
            uri, result = await propose(ed, engine, SIX, fenced("".join([*old[start:first], *new])), first, last)
            assert all(hunk["range"]["start"]["line"] >= first for hunk in result["hunks"])
            assert all(hunk["range"]["end"]["line"] <= last for hunk in result["hunks"])
            after = (await accept(ed, uri)).splitlines(keepends=True)
            assert after[:first] == old[:first]
            assert after[len(after) - (6 - last) :] == old[last:]


async def is_announced(ed: Editor, engine: StubEngine, text: str, answer: str) -> bool:
    """Whether a rewrite that loses code is refused, or comes with a warning, and the document stays meanwhile."""
    uri = ed.open(text)
    engine.pieces = [answer]
    try:
        result: dict[str, Any] = await ed.rewrite(uri, 0, len(text.splitlines()))
    except JsonRpcException as error:
        return error.code == -32803 and ed.text(uri) == text
    return bool(result["warnings"]) and ed.text(uri) == text


@pytest.mark.complaint(12, "continuedev/continue#2037")
async def test_a_file_of_which_one_function_came_back_is_not_emptied_in_silence(ed: Editor, engine: StubEngine) -> None:
    assert await is_announced(ed, engine, FILE, fenced(FIFTH))


@pytest.mark.complaint(13, "continuedev/continue#13307")
@pytest.mark.parametrize("snippet", ["x = 1\n", "def other():\n    pass\n", 'print("done")\n'])
async def test_a_snippet_does_not_take_the_files_place_in_silence(ed: Editor, engine: StubEngine, snippet: str) -> None:
    assert await is_announced(ed, engine, FILE, fenced(snippet))


@pytest.mark.complaint(14, "continuedev/continue#7840")
@pytest.mark.parametrize("answer", ["", "\n\n", "```\n```\n", "```python\n\n\n```\n", "```python\n   \n```", "```"])
async def test_an_empty_answer_empties_no_file(ed: Editor, engine: StubEngine, answer: str) -> None:
    uri = ed.open(FILE)
    engine.pieces = [answer]
    await fails(ed.rewrite(uri, 0, 50), -32803)
    assert ed.text(uri) == FILE and not ed.edits


async def is_refused_while_written(ed: Editor, engine: StubEngine, text: str, head: str, note: str) -> None:
    """The answer is stopped at the note, not only looked at when it has ended."""
    uri = ed.open(text)
    engine.pieces = ["```\n", head, note + "\n", "x = 1\n", "y = 1\n"]
    engine.hold_at = len(engine.pieces)
    await fails(ed.rewrite(uri, 0, len(text.splitlines())), -32803, "left code out")
    assert ed.text(uri) == text and not ed.edits


@pytest.mark.complaint(15, "Aider-AI/aider#1915")
@pytest.mark.parametrize(
    "note",
    [
        "# ... rest of the file",
        "// ... rest of the code ...",
        "/* … remaining functions unchanged … */",
        "<!-- ... the rest of the page stays the same -->",
        "-- ... other methods",
        "    # ... (rest of the function)",
        "    # rest of the code remains the same",
    ],
)
async def test_a_note_about_the_rest_is_not_written_over_the_rest(ed: Editor, engine: StubEngine, note: str) -> None:
    await is_refused_while_written(ed, engine, FILE, "def f0(x: int):\n", note)


@pytest.mark.complaint(16, "Aider-AI/aider#1832")
@pytest.mark.parametrize("note", ["# keep existing code here", "// existing code ...", "# ... existing code ..."])
async def test_a_note_to_keep_code_is_not_written_over_it(ed: Editor, engine: StubEngine, note: str) -> None:
    await is_refused_while_written(ed, engine, FILE, "def f0(x: int):\n", note)


@pytest.mark.complaint(17, "MatthewZMD/aidermacs#160")
async def test_a_file_does_not_become_a_note_about_itself(ed: Editor, engine: StubEngine) -> None:
    await is_refused_while_written(ed, engine, FILE, "", "// ... rest of the file")


@pytest.mark.complaint(18, "QwenLM/qwen-code#2575")
@pytest.mark.parametrize(
    "line", ["# ... rest of the setup is in setup.py", "x = ...", "def f(self, *args): ...", "print('loading ...')"]
)
async def test_dots_that_stood_there_before_may_stay(ed: Editor, engine: StubEngine, line: str) -> None:
    text = f"{line}\na = 1\n"
    assert await rewritten(ed, engine, text, fenced(f"{line}\na = 2\n")) == f"{line}\na = 2\n"


LONG = "# First.\na = 1\n" + "".join(f"line{n} = {n}\n" for n in range(20)) + "# Last.\nb = 1\n"


@pytest.mark.complaint(19, "sourcegraph/cody#5158")
async def test_a_comment_that_the_model_dropped_can_be_kept(ed: Editor, engine: StubEngine) -> None:
    dropped = LONG.replace("# First.\n", "").replace("b = 1", "b = 2")
    uri, result = await propose(ed, engine, LONG, fenced(dropped))
    comment, wanted = result["hunks"]
    assert (comment["oldText"], comment["newText"]) == ("# First.\n", "")
    assert await accept(ed, uri, [wanted["id"]]) == LONG.replace("b = 1", "b = 2")
    await ed.request("stet/reject", {"jobId": "job"})
    assert ed.text(uri) == LONG.replace("b = 1", "b = 2")


METHOD = (
    "class A:\n    def f(self):\n        # Adds one.\n        return self.x + 1\n\n    def g(self):\n        pass\n"
)


@pytest.mark.complaint(20, "microsoft/vscode-copilot-release#4026")
@pytest.mark.parametrize("indent", ["", "    "])
async def test_code_that_came_back_with_another_indentation_keeps_its_own(
    ed: Editor, engine: StubEngine, indent: str
) -> None:
    answer = [f"{indent}def f(self):\n", f"{indent}    # Adds one.\n", f"{indent}    return self.x + 2\n"]
    uri, result = await propose(ed, engine, METHOD, fenced("".join(answer)), 1, 4)
    assert [hunk["range"] for hunk in result["hunks"]] == [lines(3, 4)]
    assert await accept(ed, uri) == METHOD.replace("+ 1", "+ 2")
