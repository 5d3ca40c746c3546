"""Complaints 21 to 33: the right change in the wrong place."""

import random
from itertools import permutations
from typing import Any

import pytest
from desk import accept, asked, fenced, numbers, pieces, propose, rewritten
from lsp_editor import CODE, Editor, fails, lines
from stub_engine import StubEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")


def span(start: tuple[int, int], end: tuple[int, int]) -> dict[str, Any]:
    sides = zip(("start", "end"), (start, end), strict=True)
    return {side: {"line": line, "character": character} for side, (line, character) in sides}


@pytest.mark.complaint(21, "continuedev/continue#4921")
@pytest.mark.parametrize("answer", ["compute(3)\n", "total = compute(3) + offset\n"])
async def test_of_a_part_of_a_line_only_that_part_changes(ed: Editor, engine: StubEngine, answer: str) -> None:
    """Also when the model, which sees the whole line, writes more of it than was selected."""
    text = "a = 1\ntotal = compute(1) + offset\nb = 2\n"
    uri = ed.open(text)
    engine.pieces = pieces(fenced(answer))
    result = await ed.rewrite(uri, 0, 0, range=span((1, 8), (1, 18)))
    for hunk in result["hunks"]:
        assert (hunk["range"]["start"]["line"], hunk["range"]["end"]["line"]) == (1, 1)
        assert hunk["range"]["start"]["character"] >= 8 and hunk["range"]["end"]["character"] <= 18
    assert await accept(ed, uri) == text.replace("compute(1)", "compute(3)")


@pytest.mark.complaint(22, "lmarena/copilot-arena#13")
@pytest.mark.parametrize("end", [(1, 9), (2, 0)])
async def test_one_selected_line_is_one_line(ed: Editor, engine: StubEngine, end: tuple[int, int]) -> None:
    text = "one = 1\ntwo = 2  \nthree = 3\n"
    uri = ed.open(text)
    engine.pieces = pieces(fenced("two = 22\n"))
    result = await ed.rewrite(uri, 0, 0, range=span((1, 0), end))
    assert "three" not in engine.requests[-1]["prediction"]["content"]
    assert result["hunks"][0]["range"]["end"] in ({"line": 1, "character": 9}, {"line": 2, "character": 0})
    assert (await accept(ed, uri)).splitlines()[2:] == ["three = 3"]


FORTY = "".join(f"line_{n} = {n}\n" for n in range(40))
SHIFTED = (
    FORTY.replace("line_3 = 3\n", "").replace("line_20 = 20\n", "line_20 = 20\nx = 1\ny = 1\n").replace("= 35", "= 0")
)


@pytest.mark.complaint(23, "avante-corp/avante.nvim#1179")
@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_an_accepted_hunk_moves_the_others_along(ed: Editor, engine: StubEngine, order: tuple[int, ...]) -> None:
    uri, result = await propose(ed, engine, FORTY, fenced(SHIFTED))
    assert len(result["hunks"]) == 3
    for hunk in order:
        await accept(ed, uri, [hunk])
    assert ed.text(uri) == SHIFTED


@pytest.mark.complaint(24, "avante-corp/avante.nvim#417")
async def test_in_a_long_file_of_like_lines_nothing_is_doubled(ed: Editor, engine: StubEngine) -> None:
    """A hundred classes of seven lines that differ in a number, two levels deep; one method is rewritten."""
    classes = [
        f"class A{n}:\n    def get(self):\n        if self.x:\n            return {n}\n        return 0\n\n\n"
        for n in range(100)
    ]
    text = "".join(classes)
    answer = "def get(self) -> int:\n    if self.x:\n        return 50\n    return -1\n"
    after = text.replace(
        classes[50], classes[50].replace("(self):", "(self) -> int:").replace("return 0\n", "return -1\n")
    )
    assert await rewritten(ed, engine, text, fenced(answer), 351, 355) == after
    whole = text.replace("return 50\n", "return 5050\n")
    assert await rewritten(ed, engine, text, fenced(whole)) == whole


@pytest.mark.complaint(25, "avante-corp/avante.nvim#967")
async def test_whatever_the_model_writes_the_hunks_lead_there(ed: Editor, engine: StubEngine) -> None:
    """Lines moved, doubled, dropped and new among many that are alike: fifty answers."""
    chance = random.Random(25)
    text = "".join(chance.choice(["a = 1\n", "}\n", "\n", "b()\n", "c = [\n", "]\n"]) for _ in range(60)) + "end\n"
    for _ in range(50):
        new = text.splitlines(keepends=True)
        for _ in range(chance.randint(1, 6)):
            at, to = chance.randrange(len(new) - 1), chance.randrange(1, len(new) - 1)
            chance.choice(
                [
                    lambda: new.insert(to, new.pop(at)),  # noqa: B023
                    lambda: new.insert(to, new[at]),  # noqa: B023
                    lambda: new.insert(to, f"new_{to}()\n"),  # noqa: B023
                    lambda: new.pop(to),  # noqa: B023
                ]
            )()
        after = "start\n" + "".join(new)
        assert await rewritten(ed, engine, "start\n" + text, fenced(after)) == after


AROUND = "def one():\n    first = load()\n    second = 2\n    third = first + second\n    return third\n"


@pytest.mark.complaint(26, "avante-corp/avante.nvim#783")
@pytest.mark.parametrize("n_before", [0, 1, 2])
@pytest.mark.parametrize("n_after", [0, 1, 2])
async def test_lines_around_that_the_model_repeats_do_not_stand_there_twice(
    ed: Editor, engine: StubEngine, n_before: int, n_after: int
) -> None:
    wanted = AROUND.replace("second = 2", "second = 20")
    said = "".join(wanted.splitlines(keepends=True)[2 - n_before : 3 + n_after])
    assert await rewritten(ed, engine, AROUND, fenced(said), 2, 3) == wanted


@pytest.mark.complaint(27, "avante-corp/avante.nvim#435")
async def test_nothing_selected_is_said_and_nothing_is_touched(ed: Editor, engine: StubEngine) -> None:
    for text, where in (("", lines(0, 0)), ("\n\n", lines(0, 2)), ("a = 1\n\n\n", lines(1, 2)), (" \t\n", lines(0, 0))):
        uri = ed.open(text, uri=f"file:///demo/{next(numbers)}.py")
        await fails(ed.rewrite(uri, 0, 0, range=where), -32602, "nothing to rewrite here")
    await fails(ed.rewrite(uri, 0, 0, range=None), -32602, "range must be an object")
    assert not engine.requests


@pytest.mark.complaint(29, "folke/sidekick.nvim#125")
async def test_a_hunk_is_shown_where_its_old_text_is(ed: Editor, engine: StubEngine) -> None:
    """In each version of the document that a notification speaks of, while lines come and go above."""
    uri = ed.open(FORTY)
    texts = {1: FORTY}
    engine.pieces = [fenced(SHIFTED)]
    engine.hold_at = 0
    request = ed.rewrite(uri, 2, 40)
    await engine.holding.wait()

    def typed(*change: Any) -> None:
        ed.type(uri, *change)
        texts[ed.documents.get(uri).version] = ed.text(uri)

    typed(0, 0, "# one\n# two\n# three\n")
    await ed.sync()
    typed(1, 0, "", (3, 0))
    engine.gate.set()
    result = await request
    for said in [*ed.progress, {**result, "state": "result"}]:
        here = texts[said["version"]].splitlines(keepends=True)
        for hunk in said["hunks"]:
            first, last = hunk["range"]["start"]["line"], hunk["range"]["end"]["line"]
            assert "".join(here[first:last]) == hunk["oldText"]


@pytest.mark.complaint(30, "olimorris/codecompanion.nvim#744")
@pytest.mark.parametrize("is_followed", [False, True])
async def test_the_model_is_shown_the_selection_once(ed: Editor, engine: StubEngine, is_followed: bool) -> None:
    text = "".join(f"line_{n} = {n}\n" for n in range(1, 6)) + ("after = 1\n" if is_followed else "")
    await propose(ed, engine, text, fenced("line_3 = 33\nline_4 = 44\nline_5 = 55\n"), 2, 5)
    assert asked(engine).count("line_4 = 4\n") == 1


@pytest.mark.complaint(31, "olimorris/codecompanion.nvim#423")
@pytest.mark.parametrize("text", ["a = 1\nb = 2", "a = 1\nb = 2\n", "a = 1"])
async def test_no_hunk_lies_beyond_the_end(ed: Editor, engine: StubEngine, text: str) -> None:
    """Lines added after the last one, which some editors don't let one stand behind."""
    after = text + ("" if text.endswith("\n") else "\n") + "c = 3\nd = 4" + ("\n" if text.endswith("\n") else "")
    uri, result = await propose(ed, engine, text, fenced(after if after.endswith("\n") else after + "\n"))
    snapshot = ed.documents.get(uri)
    for hunk in result["hunks"]:
        for place in hunk["range"].values():
            assert snapshot.position(snapshot.offset(place, ed.documents.encoding), ed.documents.encoding) == place
    assert await accept(ed, uri) == after


@pytest.mark.complaint(33, "David-Kunz/gen.nvim#96")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_blank_lines_in_the_new_text_are_blank_lines(ed: Editor, engine: StubEngine, newline: str) -> None:
    new = "def two():\n\n    x = 2\n\n\n    return x\n"
    after = CODE.replace("def two():\n    return 2\n", new).replace("\n", newline)
    assert await rewritten(ed, engine, CODE.replace("\n", newline), fenced(new), 4, 6) == after
