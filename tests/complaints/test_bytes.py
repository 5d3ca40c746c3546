"""Complaints 56 to 70: line ends, indentation, the end of the file, characters of more than one unit."""

from pathlib import Path

import pytest
from desk import asked, fenced, propose, rewritten
from lsp_editor import CODE, NEW_TWO, Editor, editor
from stub_engine import StubEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

AFTER = CODE.replace("two():", "two() -> int:")
NEWLINES = ["\n", "\r\n", "\r"]
ENCODINGS = ["utf-8", "utf-16", "utf-32"]


@pytest.mark.complaint(56, "microsoft/vscode#252238")
@pytest.mark.parametrize("newline", NEWLINES)
@pytest.mark.parametrize("theirs", ["\n", "\r\n"])
async def test_no_two_lines_become_one(ed: Editor, engine: StubEngine, newline: str, theirs: str) -> None:
    """Whatever line ends the document has, and whatever the model writes."""
    text, new = "a = 1\nb = 2\nc = 3\n", "a = 1\nnew = 1\nb = 22\nnew = 2\nc = 3\nlast = 1\n"
    answer = fenced(new).replace("\n", theirs)
    after = await rewritten(ed, engine, text.replace("\n", newline), answer)
    assert after == new.replace("\n", newline)


@pytest.mark.complaint(57, "microsoft/vscode#274657")
@pytest.mark.parametrize("newline", NEWLINES)
async def test_every_hunk_is_of_whole_lines(ed: Editor, engine: StubEngine, newline: str) -> None:
    """A line end that is missing from one side of an edit is how lines get merged."""
    text = "".join(f"line_{n} = {n}\n" for n in range(30)).replace("\n", newline)
    new = text.replace(f"line_3 = 3{newline}", "").replace("= 12", "= 0").replace("= 29", f"= 29{newline}end = 1")
    _, result = await propose(ed, engine, text, fenced(new.replace(newline, "\n")))
    assert len(result["hunks"]) == 3
    for hunk in result["hunks"]:
        assert all(place["character"] == 0 for place in hunk["range"].values())
        assert all(hunk[side] == "" or hunk[side].endswith(newline) for side in ("oldText", "newText"))


@pytest.mark.complaint(58, "anthropics/claude-code#62713")
async def test_in_a_file_of_mixed_line_ends_each_line_keeps_its_own(ed: Editor, engine: StubEngine) -> None:
    text = "a = 1\r\nb = 2\nc = 3\rd = 4\r\n\r\ne = 5\n"
    new = text.replace("\r\n", "\n").replace("\r", "\n").replace("c = 3", "c = 33")
    assert await rewritten(ed, engine, text, fenced(new)) == text.replace("c = 3\r", "c = 33\r\n")


@pytest.mark.complaint(59, "QwenLM/qwen-code#2277")
@pytest.mark.parametrize("newline", NEWLINES)
async def test_a_byte_order_mark_stays_where_it_is(ed: Editor, engine: StubEngine, newline: str) -> None:
    text = "\ufeff" + CODE.replace("\n", newline)
    new = "# First.\n" + AFTER
    assert await rewritten(ed, engine, text, fenced(new)) == "\ufeff" + new.replace("\n", newline)
    assert "\ufeff" not in asked(engine)


TABS = "func f() {\n\tif a {\n\t\tg()\n\t}\n}\n"
WITH_TABS = "func f() {\n\tif a {\n\t\tg()\n\t\th()\n\t}\n\tk()\n}\n"


@pytest.mark.complaint(60, "microsoft/vscode-copilot-release#4581")
@pytest.mark.parametrize("unit", ["\t", "    ", "  "])
async def test_in_a_file_of_tabs_the_new_lines_have_tabs(ed: Editor, engine: StubEngine, unit: str) -> None:
    """Models love spaces."""
    assert await rewritten(ed, engine, TABS, fenced(WITH_TABS.replace("\t", unit))) == WITH_TABS


@pytest.mark.complaint(61, "microsoft/vscode-copilot-release#13140")
async def test_lines_of_tabs_that_stand_are_not_touched(ed: Editor, engine: StubEngine) -> None:
    _, result = await propose(ed, engine, TABS, fenced(WITH_TABS))
    assert [hunk["oldText"] for hunk in result["hunks"]] == ["", ""]
    text = "class A {\n" + "".join("\t" + line for line in TABS.splitlines(keepends=True)) + "}\n"
    after = "class A {\n" + "".join("\t" + line for line in WITH_TABS.splitlines(keepends=True)) + "}\n"
    assert await rewritten(ed, engine, text, fenced(WITH_TABS), 1, 6) == after


METHOD = "class A:\n    class B:\n        def f(self):\n            return 1\n"


@pytest.mark.complaint(62, "microsoft/vscode-copilot-release#1223")
@pytest.mark.parametrize("indent", ["", " " * 8])
async def test_all_lines_are_indented_not_the_first_alone(ed: Editor, engine: StubEngine, indent: str) -> None:
    new = "def f(self):\n    x = 1\n\n    return x\n"
    answer = "".join(indent + line for line in new.splitlines(keepends=True))
    after = "class A:\n    class B:\n        def f(self):\n            x = 1\n\n            return x\n"
    assert await rewritten(ed, engine, METHOD, fenced(answer.replace(" " * 8 + "\n", "\n")), 2, 4) == after


@pytest.mark.complaint(63, "microsoft/vscode-copilot-release#10255")
async def test_a_docstring_stands_under_its_def_on_lines_of_its_own(ed: Editor, engine: StubEngine) -> None:
    new = 'def f(self):\n    """Return one.\n\n    Always.\n    """\n    return 1\n'
    after = METHOD.replace(
        "            return 1\n",
        '            """Return one.\n\n            Always.\n            """\n            return 1\n',
    )
    assert await rewritten(ed, engine, METHOD, fenced(new, name="python"), 2, 4) == after


@pytest.mark.complaint(64, "zarldev/zarlmono#26")
@pytest.mark.parametrize("answer", ["```\nb = 22```", "```\nb = 22\n```", "```\nb = 22", "b = 22", "b = 22\n"])
async def test_an_answer_without_a_last_line_end_is_not_glued_to_the_next_line(
    ed: Editor, engine: StubEngine, answer: str
) -> None:
    text = "a = 1\nb = 2\nc = 3\n"
    assert await rewritten(ed, engine, text, answer, 1, 2) == "a = 1\nb = 22\nc = 3\n"


@pytest.mark.complaint(65, "cecli-dev/cecli#305")
@pytest.mark.parametrize("newline", NEWLINES)
@pytest.mark.parametrize("is_ended", [True, False])
@pytest.mark.parametrize(
    "new", ["a = 1\nb = 22\n", "a = 1\nb = 2\nc = 3\n", "a = 1\n", "b = 2\n", "x = 0\na = 1\nb = 2\n"]
)
async def test_the_file_ends_as_it_ended(
    ed: Editor, engine: StubEngine, newline: str, is_ended: bool, new: str
) -> None:
    """With a line end or without, whether its last line is changed, deleted or followed by another."""

    def ended(text: str) -> str:
        return (text if is_ended else text.removesuffix("\n")).replace("\n", newline)

    assert await rewritten(ed, engine, ended("a = 1\nb = 2\n"), fenced(new)) == ended(new)


INVISIBLE = ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.complaint(66, "NousResearch/hermes-agent#45393")
@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_what_python_takes_for_a_line_end_is_text(folder: Path, engine: StubEngine, encoding: str) -> None:
    async with editor(folder, encoding) as ed:
        for char in INVISIBLE:
            text = f"a = 1{char}\n{char}\nb = '{char}' + 1\nc = 3\n"
            assert await rewritten(ed, engine, text, "```\nc = 33\n```", 3, 4) == text.replace("c = 3", "c = 33")
            new = text.replace("+ 1", "+ 2")
            assert await rewritten(ed, engine, text, fenced(new)) == new


@pytest.mark.complaint(67, "fmagent-project/FM-Agent#153")
async def test_typing_below_such_a_character_lands_where_it_was_typed(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open("".join(f"a = '{char}'\n" for char in INVISIBLE) + "b = 1\nc = 3\n")
    ed.type(uri, len(INVISIBLE), 5, "2")
    engine.pieces = ["```\nc = 33\n```"]
    result = await ed.rewrite(uri, len(INVISIBLE), len(INVISIBLE) + 2)
    assert "".join(hunk["oldText"] for hunk in result["hunks"]).startswith("b = 12\n")


@pytest.mark.complaint(68, "NousResearch/hermes-agent#116094")
@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_last_line_of_emoji_is_replaced_to_its_last_unit(
    folder: Path, engine: StubEngine, encoding: str
) -> None:
    async with editor(folder, encoding) as ed:
        for line in ("s = '😀'", "s = '👩\u200d🚀e\u0301'", "s = '漢字𠀀'"):
            assert await rewritten(ed, engine, "a = 1\n" + line, "```\ns = ''\n```", 1, 2) == "a = 1\ns = ''"


@pytest.mark.complaint(69, "openlawlibrary/pygls#224")
@pytest.mark.parametrize("newline", NEWLINES)
async def test_line_ends_of_text_outside_the_range_are_not_translated(
    ed: Editor, engine: StubEngine, newline: str
) -> None:
    text = CODE.replace("\n", newline)
    assert await rewritten(ed, engine, text, fenced(NEW_TWO), 4, 6) == AFTER.replace("\n", newline)


@pytest.mark.complaint(70, "openlawlibrary/pygls#116")
@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_positions_are_counted_in_the_clients_units(folder: Path, engine: StubEngine, encoding: str) -> None:
    """What is typed behind emoji and wide characters, and a proposal below and between them."""
    async with editor(folder, encoding) as ed:
        uri = ed.open("s = '😀漢é'\nx = 1\ns = '😀'\n")
        line = "s = '😀漢é'"
        end = {"utf-8": len(line.encode()), "utf-16": len(line.encode("utf-16-le")) // 2, "utf-32": len(line)}[encoding]
        ed.type(uri, 0, end, " + '👍'")
        engine.pieces = [fenced("s = '😀漢é' + '👍'\nx = 2\ns = '😀'\n")]
        result = await ed.rewrite(uri, 0, 3)
        assert [hunk["oldText"] for hunk in result["hunks"]] == ["x = 1\n"]
        await ed.request("stet/accept", {"jobId": "job"})
        assert ed.text(uri) == "s = '😀漢é' + '👍'\nx = 2\ns = '😀'\n"
