"""A selection stands for itself, a cursor for the block around it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import CODE, JS, snapshot

from lsp_server.documents import BOM, is_blank, split_lines
from lsp_server.scopes import find_region
from lsp_server.syntax import WINDOW
from speculation.errors import ConfigError

SAMPLES = Path(__file__).parent / "scopes"
"""For each language a text, dashes, and rows: where the cursor is, first and last line of what it stands for. The
cursor and the first line are named by a part of the text that occurs once; the last line stands there in full."""


def around(text: str, at: int, language: str = "python") -> str:
    """What a cursor stands for."""
    region = find_region(snapshot(text, language), at, at)
    assert text[region.start : region.end] == "".join(split_lines(text)[region.first : region.last])
    return text[region.start : region.end]


def rows() -> list[Any]:
    params = []
    for file in sorted(SAMPLES.glob("*.txt")):
        text, table = file.read_text(encoding="utf-8").split("\n-----\n")
        for row in table.splitlines():
            cursor, first, last = row.split(" | ")
            params.append(pytest.param(file.stem, text + "\n", cursor, first, last, id=f"{file.stem}: {cursor}"))
    return params


@pytest.mark.parametrize(("language", "text", "cursor", "first", "last"), rows())
def test_a_cursor_means_what_is_around_it(language: str, text: str, cursor: str, first: str, last: str) -> None:
    assert text.count(cursor) == text.count(first) == 1
    lines = text.splitlines(keepends=True)
    begin = text[: text.index(first)].count("\n")
    end = lines.index(f"{last}\n", begin) + 1
    at, expected = text.index(cursor), "".join(lines[begin:end])
    assert around(text, at, language) == expected
    assert around(text.replace("\n", "\r\n"), at + text[:at].count("\n"), language) == expected.replace("\n", "\r\n")
    if end == len(lines):
        assert around(text.removesuffix("\n"), at, language) == expected.removesuffix("\n")


def test_there_are_samples_of_many_languages() -> None:
    assert len(list(SAMPLES.glob("*.txt"))) >= 20


@pytest.mark.parametrize("language", ["python", "a language without a grammar"])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (0, "import os\n"),
        (2, "import os\n"),
        (3, CODE[CODE.index("class") :]),
        (5, "    def one(self):\n        return 1\n"),
        (6, "    def one(self):\n        return 1\n"),
        (7, "    def two(self):\n        return 2\n"),
        (9, "    def two(self):\n        return 2\n"),
    ],
)
def test_a_cursor_in_python_means_the_function_or_class(line: int, expected: str, language: str) -> None:
    assert around(CODE, snapshot(CODE).starts[line], language) == expected


@pytest.mark.parametrize("language", ["javascript", "../javascript", ""])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (0, "const a = 1;\n"),
        (4, JS[JS.index("function f") : JS.index("\n// About")]),
        (8, JS[JS.index("function f") : JS.index("\n// About")]),
        (12, JS[JS.index("// About") :]),
    ],
)
def test_a_cursor_in_braces_means_the_function_with_its_comment(line: int, expected: str, language: str) -> None:
    assert around(JS, snapshot(JS).starts[line], language) == expected


@pytest.mark.parametrize("language", ["python", ""])
def test_decorators_belong_to_the_function(language: str) -> None:
    text = "@cache\n@other\ndef f():\n    return 1\n"
    assert around(text, text.index("return"), language) == text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", BOM, "\f", "# é 😀 \ud800\n"])
def test_the_grammar_is_asked_about_the_right_place(start: str, end: str) -> None:
    function = "def f():\n    # é\n    return 1\n"
    text = f"{start}{function}x = '😀'\n\n{function.replace('f', 'g')}".replace("\n", end)
    expected = function.replace("f", "g").replace("\n", end)
    assert around(text, text.rindex("return")) == expected
    # Where a line begins and where it ends.
    assert around(text, text.rindex("    return")) == around(text, len(text)) == expected
    assert around(text, text.index("return")).endswith(function.replace("\n", end))


def test_where_the_text_does_not_parse_indentation_tells() -> None:
    text = "function f() {\n  if (a) {\n    g();\n\n}\n\nfunction k() {\n  return 1;\n}\n"
    assert around(text, text.index("return"), "javascript") == text[text.index("function k") :]
    assert around(text, text.index("if"), "javascript") == text[: text.index("\nfunction k")]


def test_in_a_large_file_a_part_of_it_is_parsed() -> None:
    function = '@cache\ndef f():\n    """\nno indentation\n"""\n\n    def g():\n        pass\n\n    return 1\n\n\n'
    n_times = 5 * WINDOW // len(function)
    text = f"class A:\n    x = 1\n\n\n{function * n_times}"
    at = text.index("return", len(text) // 2)
    assert around(text, at) == function.rstrip() + "\n"
    assert around(text, text.index("x = 1")) == "class A:\n    x = 1\n"
    assert around(text, len(text)) == function.rstrip() + "\n"


SELECTIONS = "def f(a):\n    b = g(a) \n\n    return b\n"


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ("g(a)", "g(a) \n"),
        ("g", "g"),
        ("b = g", "    b = g"),
        ("  b = g", "    b = g"),
        ("(a) \n", "(a) \n"),
        ("f(a):\n    b", "f(a):\n    b"),
        ("f(a):\n", "f(a):\n"),
        ("f(a):\n  ", "f(a):\n"),
        ("    b = g(a)", "    b = g(a) \n"),
        (":\n    b = g(a) \n", ":\n    b = g(a) \n"),
        (" \n\n    return", "\n    return"),
        ("\n    return b\n", "\n    return b\n"),
        ("    return b\n", "    return b\n"),
    ],
)
def test_a_selection_is_kept_exactly(selected: str, expected: str) -> None:
    assert SELECTIONS.count(selected) == 1
    document = snapshot(SELECTIONS)
    start = SELECTIONS.index(selected)
    region = find_region(document, start, start + len(selected))
    assert SELECTIONS[region.start : region.end] == expected
    # Its lines are those that it touches.
    assert document.starts[region.first] <= region.start < document.starts[region.first + 1]
    assert document.starts[region.last - 1] < region.end <= document.starts[region.last]


@given(st.text(" \ta\n\r\f", max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_a_region_differs_from_the_selection_by_blanks_alone(text: str, one: int, other: int) -> None:
    start, end = sorted(min(each, len(text)) for each in (one, other))
    document = snapshot(text, "")
    if start == end or is_blank(text[start:end]):
        return
    region = find_region(document, start, end)
    assert text[region.start : region.end].strip() == text[start:end].strip()
    line = document.position(region.start, "utf-32")["line"]
    assert region.first == line
    assert document.starts[region.last - 1] < region.end
    assert region.last == len(document.starts) or region.end <= document.starts[region.last]
    # Blanks at the edge of a line are never parted from it.
    assert not text[document.starts[region.first] : region.start].isspace()


@pytest.mark.parametrize(
    ("text", "start", "end"), [("", 0, 0), ("\n\n", 0, 0), ("\n\n", 0, 2), (CODE, 10, 12), ("a b", 1, 2)]
)
def test_blanks_are_nothing_to_rewrite(text: str, start: int, end: int) -> None:
    with pytest.raises(ConfigError, match="nothing to rewrite"):
        find_region(snapshot(text), start, end)
