"""The model is shown the right lines in the right form, and what it writes goes back byte for byte."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents import Snapshot, is_blank, split_lines
from lsp_server.edits import apply_hunks
from lsp_server.engine_client import Event
from lsp_server.form import Form
from lsp_server.prompts import CONTEXT_CHARS, RECIPES, build_prompt, task_text
from lsp_server.rewrite import path_of
from lsp_server.scopes import Region, find_region, lines_region
from lsp_server.writing import Writing
from speculation.errors import ConfigError

CODE = "import os\n\n\nclass A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n"


def snapshot(text: str = CODE, language: str = "python") -> Snapshot:
    return Snapshot("file:///a.py", 1, text, language)


def user_text(text: str, first: int, last: int, task: str = "Do it.", language: str = "python") -> str:
    document = snapshot(text, language)
    return build_prompt(document, lines_region(document, first, last), task, "a.py").messages[1]["content"]


def rewritten(text: str, new: str) -> str:
    """What becomes of a text when the model answers with `new`."""
    document = snapshot(text)
    prompt = build_prompt(document, lines_region(document, 0, len(document.lines)), "x", "a.py")
    writing = Writing(prompt)
    writing.take(Event("writing", f"{prompt.fence}\n{new}{prompt.fence}\n"))
    writing.take(Event("end", finish_reason="stop"))
    return "".join(apply_hunks(writing.form.lines, writing.hunks))


def test_a_part_of_a_file_is_shown_after_the_rest_of_it() -> None:
    rest = CODE.replace("    def two(self):\n        return 2\n", "[...]\n")
    assert user_text(CODE, 7, 9) == (
        "File: a.py\n\n"
        f"The rest of the file, for reference only:\n```python\n{rest}```\n\n"
        "The code to edit, which stands at [...]:\n```python\ndef two(self):\n    return 2\n```\n\n"
        "Instruction: Do it.\n\n"
        "Reply with this part only, edited, from `def two(self):` to `return 2`, in one ```python block."
    )


def test_the_reply_that_is_wanted_is_described() -> None:
    assert "Reply with this line only, edited, in one" in user_text(CODE, 5, 6)
    assert "Reply with the edited code only, in one" in user_text(CODE, 0, 9)
    assert "from `function f() {` to `} else { h(); } }`, in one" in user_text(JS, 2, 9)
    assert "from `}` to `} }`, in one" in user_text("}\n}\nx\n", 0, 2)


def test_a_whole_file_is_shown_once() -> None:
    text = user_text(CODE, 0, 9)
    assert text.count("class A:") == 1
    assert "for reference" not in text


def test_of_a_large_file_the_lines_around_are_shown() -> None:
    text = "".join(f"line_{n} = {n}\n" for n in range(3000))
    shown = user_text(text, 1500, 1501)
    assert "line_1499 = 1499\n[...]\nline_1501 = 1501\n" in shown
    assert len(shown) < CONTEXT_CHARS + 1000
    assert "line_0 " not in shown and "line_2999 " not in shown


@given(st.text(max_size=40), st.text(max_size=40))
def test_only_what_follows_the_instruction_differs_between_two_tasks(one: str, other: str) -> None:
    head = user_text(CODE, 4, 6, "").split("Instruction: ")[0]
    assert user_text(CODE, 4, 6, one).startswith(head)
    assert user_text(CODE, 4, 6, other).startswith(head)


@pytest.mark.parametrize(
    ("text", "fence"), [("a\n", "```"), ("a ``` b\n", "````"), ("`````\n", "``````"), ("x = '``'\n", "```")]
)
def test_the_fence_is_longer_than_any_in_the_file(text: str, fence: str) -> None:
    document = snapshot(text + "end\n", "markdown")
    prompt = build_prompt(document, lines_region(document, 1, 2), "x", "a.md")
    assert prompt.fence == fence
    assert prompt.prediction == f"{fence}markdown\nend\n{fence}"


@pytest.mark.parametrize(("language", "name"), [("typescriptreact", "tsx"), ("", ""), ("plaintext", ""), ("go", "go")])
def test_the_fence_has_the_name_that_models_know(language: str, name: str) -> None:
    assert f"```{name}\n" in user_text("x\n", 0, 1, language=language)


def test_a_long_source_may_be_answered_at_twice_its_length() -> None:
    document = snapshot("x" * 30_000 + "\n")
    assert build_prompt(document, lines_region(document, 0, 1), "x", "a").max_tokens > 20_000


PROBLEM = {"range": {"start": {"line": 8, "character": 0}}, "message": "wrong\n  type"}


def test_a_diagnostic_is_quoted_with_its_line() -> None:
    words = task_text(None, "fix-diagnostic", [PROBLEM], snapshot())
    assert words == f"{RECIPES['fix-diagnostic'].instruction}\nReported problems:\n- at `return 2`: wrong type"


@pytest.mark.parametrize(
    ("instruction", "recipe", "match"),
    [
        ("", None, "empty"),
        (None, None, "empty"),
        (None, "cook", "no recipe 'cook'"),
        (None, "fix-diagnostic", "at least one"),
    ],
)
def test_a_task_that_says_nothing_is_refused(instruction: str | None, recipe: str | None, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        task_text(instruction, recipe, [], snapshot())


@pytest.mark.parametrize(
    ("uri", "path"),
    [("file:///home/me/project/src/a%20b.py", "src/a b.py"), ("untitled:Untitled-1", "Untitled-1"), ("", "untitled")],
)
def test_the_model_is_shown_the_end_of_the_path(uri: str, path: str) -> None:
    assert path_of(uri) == path


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("    a\n      b\n", "a\n  b\n"),
        ("\ta\n\t\tb\n", "a\n\tb\n"),
        ("\ta\n    b\n", "\ta\n    b\n"),
        ("    a\n\n    b", "a\n\nb\n"),
        ("\n\n  a\n\n", "a\n"),
        ("a\r\nb\rc\n", "a\nb\nc\n"),
        ("\ufeffa\nb\n", "a\nb\n"),
    ],
)
def test_the_model_sees_plain_lines(text: str, source: str) -> None:
    assert "".join(Form.of(text).source) == source


@pytest.mark.parametrize(
    ("text", "new", "expected"),
    [
        ("    a\n    b\n", "a\nB\n  c\n", "    a\n    B\n      c\n"),
        ("\ta\n\tb\n", "a\n\nB\n", "\ta\n\n\tB\n"),
        ("a\r\nb\r\n", "a\nB\n", "a\r\nB\r\n"),
        ("a\r\nb\nc\r\n", "a\nb\nC\n", "a\r\nb\nC\r\n"),
        ("a\nb", "a\nB\n", "a\nB"),
        ("a\nb", "a\n", "a"),
        ("a\nb", "a\nb\nc\n", "a\nb\nc"),
        ("a", "b\n", "b"),
        ("\na  \n   \nb\n\n\n", "a  \n\nB\n", "\na  \n   \nB\n\n\n"),
        ("\ufeffa\nb\n", "A\nb\n", "\ufeffA\nb\n"),
        ("\ufeffa\nb\n", "new\na\nb\n", "\ufeffnew\na\nb\n"),
        ("\ufeffa\nb\n", "b\n", "\ufeffb\n"),
        ("a\f\nb\u2028c\n", "a\f\nb\u2028d\n", "a\f\nb\u2028d\n"),
    ],
)
def test_what_the_model_writes_goes_back_in_the_documents_form(text: str, new: str, expected: str) -> None:
    assert rewritten(text, new) == expected


TEXT = st.lists(st.sampled_from(["  ", "\t", "a", "}", "\n", "\r\n", "\r", "\f", "\u2028", "é", "\ufeff"]), max_size=25)


@given(TEXT.map("".join).filter(lambda text: not is_blank(text)))
def test_an_unchanged_answer_changes_nothing(text: str) -> None:
    assert rewritten(text, "".join(Form.of(text).source)) == text


@given(
    TEXT.map("".join).filter(lambda text: not is_blank(text)),
    st.lists(st.sampled_from(["a\n", "}\n", "  b\n", "\n"]), max_size=8),
)
def test_the_final_newline_and_the_bom_stay_whatever_is_written(text: str, new: list[str]) -> None:
    new.append("last\n")
    after = rewritten(text, "".join(new))
    assert after.endswith(("\n", "\r")) == text.endswith(("\n", "\r"))
    assert after.startswith("\ufeff") >= text.startswith("\ufeff")


JS = """\
const a = 1;

function f() {
  if (a) {
    g();
  } else {
    h();
  }
}

// About k.
function k() {
  return 1;
}
"""


def check_block(text: str, line: int, expected: str) -> None:
    document = snapshot(text)
    at = document.starts[line]
    region = find_region(document, at, at)
    assert text[region.start : region.end] == expected
    assert "".join(split_lines(text)[region.first : region.last]) == expected


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
def test_a_cursor_in_python_means_the_function_or_class(line: int, expected: str) -> None:
    check_block(CODE, line, expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (0, "const a = 1;\n"),
        (4, JS[JS.index("function f") : JS.index("\n// About")]),
        (8, JS[JS.index("function f") : JS.index("\n// About")]),
        (12, JS[JS.index("// About") :]),
    ],
)
def test_a_cursor_in_braces_means_the_function_with_its_comment(line: int, expected: str) -> None:
    check_block(JS, line, expected)


def test_decorators_belong_to_the_function() -> None:
    check_block("@cache\n@other\ndef f():\n    return 1\n", 3, "@cache\n@other\ndef f():\n    return 1\n")


@pytest.mark.parametrize(
    ("start", "end", "lines"),
    [((4, 8), (4, 9), (4, 5)), ((4, 0), (5, 0), (4, 5)), ((4, 0), (5, 1), (4, 6)), ((4, 3), (99, 0), (4, 9))],
)
def test_a_selection_means_the_lines_it_touches(
    start: tuple[int, int], end: tuple[int, int], lines: tuple[int, int]
) -> None:
    document = snapshot()
    offsets: list[Any] = [document.offset({"line": at[0], "character": at[1]}, "utf-16") for at in (start, end)]
    region: Region = find_region(document, *offsets)
    assert (region.first, region.last) == lines


@pytest.mark.parametrize(("text", "start", "end"), [("", 0, 0), ("\n\n", 0, 0), ("\n\n", 0, 2), (CODE, 10, 12)])
def test_blank_lines_are_nothing_to_rewrite(text: str, start: int, end: int) -> None:
    with pytest.raises(ConfigError, match="nothing to rewrite"):
        find_region(snapshot(text), start, end)


@given(TEXT.map("".join), st.integers(0, 30), st.integers(0, 30))
def test_a_region_is_whole_lines_within_the_text(text: str, one: int, other: int) -> None:
    start, end = sorted(min(each, len(text)) for each in (one, other))
    document = snapshot(text)
    try:
        region = find_region(document, start, end)
    except ConfigError:
        return
    assert text[region.start : region.end] == "".join(document.lines[region.first : region.last])
