"""Ranges as a client sends them: to the character, or a cursor."""

# ruff: noqa: F401, F811 - pytest finds fixtures by the names of a module.

from pathlib import Path

import pytest
from lsp_editor import Editor, ed, editor, engine, folder
from stub_engine import StubEngine

TEXT = 'class A:\r\n    def f(self):\r\n        x = ["😀", 1]  # é\r\n        return x\r\n'


async def propose(ed: Editor, engine: StubEngine, text: str, start: int, end: int, answer: str) -> tuple[str, dict]:  # type: ignore[type-arg]
    """Have text[start:end] rewritten and all of it accepted: the document, and the answer to stet/rewrite."""
    uri = ed.open(text)
    span = ed.documents.get(uri).range(start, end, ed.documents.encoding)
    engine.answer(answer)
    result = await ed.rewrite(uri, 0, 0, range=span)
    assert (await ed.request("stet/accept", {"jobId": "job"}))["applied"]
    return ed.text(uri), result


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_the_rest_of_a_line_stays_whatever_the_encoding(folder: Path, engine: StubEngine, encoding: str) -> None:
    async with editor(folder, encoding) as ed:
        start, end = TEXT.index("["), TEXT.index("  #")
        after, result = await propose(ed, engine, TEXT, start, end, '[\n    "é",\n]\n')
        assert after == TEXT.replace('["😀", 1]', '[\r\n            "é",\r\n        ]')
        document = ed.documents.get(ed.open(TEXT))
        assert result["range"] == document.range(start, end, ed.documents.encoding)


async def test_a_cursor_stands_for_the_function_around_it(ed: Editor, engine: StubEngine) -> None:
    at = TEXT.index("return")
    after, result = await propose(ed, engine, TEXT, at, at, 'def f(self):\n    return ["😀", 1]\n')
    assert after == 'class A:\r\n    def f(self):\r\n        return ["😀", 1]\r\n'
    assert (result["range"]["start"]["line"], result["range"]["end"]["line"]) == (1, 4)


async def test_a_result_that_does_not_parse_is_said_to(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(TEXT)
    engine.answer('def f(self):\n    return ["😀", 1\n')
    span = ed.documents.get(uri).range(TEXT.index("return"), TEXT.index("return"), ed.documents.encoding)
    result = await ed.rewrite(uri, 0, 0, range=span)
    assert [warning["code"] for warning in result["warnings"]] == ["does_not_parse"]
    assert ed.progress[-1]["warnings"] == result["warnings"]
    assert ed.progress[-1]["message"].startswith("warning: the result doesn't parse any more")
    engine.answer('def f(self):\n    return ["😀", 1]\n')
    assert (await ed.rewrite(uri, 0, 0, range=span))["warnings"] == []
