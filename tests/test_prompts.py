"""The model is shown the right lines, and asked for the right thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import CODE, JS, snapshot

from lsp_server.prompts import CONTEXT_CHARS, build_prompt, task_text
from lsp_server.recipes import RECIPES
from lsp_server.rewrite import path_of
from lsp_server.scopes import find_region, lines_region
from speculation.errors import ConfigError


def user_text(text: str, first: int, last: int, task: str = "Do it.", language: str = "python") -> str:
    document = snapshot(text, language)
    return build_prompt(document, lines_region(document, first, last), task, "a.py").messages[1]["content"]


def test_a_part_of_a_file_is_shown_after_the_rest_of_it() -> None:
    rest = CODE.replace("    def two(self):\n        return 2\n", "[...]\n")
    assert user_text(CODE, 7, 9) == (
        "File: a.py\n\n"
        f"The rest of the file, for reference only:\n```python\n{rest}```\n\n"
        "The code to edit, which stands at [...]:\n```python\ndef two(self):\n    return 2\n```\n\n"
        "Instruction: Do it.\n\n"
        "Reply with this part only, edited, from `def two(self):` to `return 2`, in one ```python block."
    )


def test_a_part_of_a_line_is_shown_where_it_stands() -> None:
    document = snapshot("import os\n\ntotal = f(a,\n    b) + c\n")
    start, end = document.text.index("f("), document.text.index(" + c")
    prompt = build_prompt(document, find_region(document, start, end), "Do it.", "a.py")
    text = prompt.messages[1]["content"]
    assert "```python\nimport os\n\ntotal = [...] + c\n```" in text
    assert "which stands at [...]:\n```python\nf(a,\n    b)\n```" in text
    region = find_region(document, start, start + 1)
    assert "Reply with this part of the line only" in build_prompt(document, region, "x", "a.py").messages[1]["content"]


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
