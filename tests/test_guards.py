"""Only code comes out of a model's answer, whole; and an answer that would do harm is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.guards import BadAnswer, Cleaner, check_answer, check_bounds

CODE = "def f(x):\n    return x\n"
MARKDOWN = "# Title\n```sh\nls\n```\nmore\n"


def clean(answer: str, source: str = CODE, fence: str = "```", step: int = 0) -> str:
    cleaner = Cleaner(fence, source.splitlines(keepends=True))
    pieces = [answer[at : at + step] for at in range(0, len(answer), step)] if step else [answer]
    return "".join(line for piece in pieces for line in cleaner.feed(piece)) + "".join(cleaner.finish())


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{CODE}```",
        f"```python\n{CODE}```\n",
        f"```\n{CODE}\n\n```\n",
        f"```python\n\n{CODE}```",
        f"Sure! Here is the code:\n\n```python\n{CODE}```\n\nI changed nothing.\n",
        f"<think>hm\nwell</think>\n```python\n{CODE}```",
        f"```python\n{CODE}```".replace("\n", "\r\n"),
        CODE,
        CODE.rstrip("\n"),
        f"\n{CODE}",
        f"```python\n{CODE}",
        f"```python\n{CODE}```\n```python\nprint('an example of use')\n```\n",
    ],
)
@pytest.mark.parametrize("step", [0, 1, 7])
def test_the_code_alone_comes_out(answer: str, step: int) -> None:
    assert clean(answer, step=step) == CODE


@pytest.mark.parametrize(
    ("answer", "fence"),
    [
        (f"````markdown\n{MARKDOWN}````", "````"),
        (f"````markdown\n{MARKDOWN}````\nThat was it.", "````"),
        (f"```markdown\n{MARKDOWN}```\n", "````"),
        (f"```markdown\n{MARKDOWN}```\n\nThat was it.\n", "````"),
        (MARKDOWN, "````"),
        # The end of the block shorter than its beginning.
        (f"````markdown\n{MARKDOWN}```\n", "````"),
        (f"````markdown\n{MARKDOWN}```", "````"),
    ],
)
def test_fences_in_the_code_stay(answer: str, fence: str) -> None:
    assert clean(answer, MARKDOWN, fence) == MARKDOWN


def test_code_that_ends_with_a_fence_keeps_it() -> None:
    source = "a\n```sh\nls\n```\n"
    assert clean(f"````\n{source}\n````\n", source, "````") == source


def test_plain_fences_in_the_code_stay_after_a_fence_that_is_too_short() -> None:
    source = "a\n```\nb\n```\nc\n"
    assert clean(f"```\n{source}```\n", source, "````") == source


@given(
    st.lists(
        st.sampled_from(["x = 1\n", "\n", "    y\n", "``\n", "```\n", "```py\n", "~~~\n", "text ```\n"]), min_size=1
    )
)
def test_whatever_the_code_is_it_comes_back(lines: list[str]) -> None:
    source = "first\n" + "".join(lines) + "last\n"
    assert clean(f"````\n{source}````\n", source, "````") == source


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ("", "no answer"),
        ("\n\n", "no answer"),
        ("I can't do that.\nPlease tell me more about it.\n", "prose"),
    ],
)
def test_an_answer_without_code_is_refused(answer: str, match: str) -> None:
    with pytest.raises(BadAnswer, match=match):
        clean(answer)


def test_code_without_a_fence_and_with_another_first_line_is_code() -> None:
    assert clean("def f(x: int) -> int:\n    return x\n") == "def f(x: int) -> int:\n    return x\n"


@pytest.mark.parametrize(
    ("answer", "reason", "match"),
    [
        (["a\n"], "length", "didn't come to an end"),
        ([], "stop", "no code"),
        (["\n"], "stop", "no code"),
        (["def f():\n", "    # ... rest of the code\n"], "stop", "left code out"),
        (["def f():\n", "    // existing code here\n"], "stop", "left code out"),
        (["# ... (remaining methods unchanged)\n"], "stop", "left code out"),
    ],
)
def test_an_answer_that_would_lose_code_is_refused(answer: list[str], reason: str, match: str) -> None:
    with pytest.raises(BadAnswer, match=match):
        check_answer(["def f():\n", "    pass\n"], answer, reason)


@pytest.mark.parametrize(
    "line", ["# ... rest of the code\n", "print('the rest of it')\n", "x = ...\n", "def f(*args): ...\n"]
)
def test_the_users_own_words_are_no_placeholder(line: str) -> None:
    check_answer(["# ... rest of the code\n"], [line], "stop")


FILE = [f"line {n}\n" for n in range(20)]


@pytest.mark.parametrize(
    "answer",
    [
        FILE,
        ["changed\n", *FILE[12:20]],
        ["    " + line for line in FILE[:10]],
    ],
)
def test_an_answer_that_repeats_the_file_around_is_refused(answer: list[str]) -> None:
    with pytest.raises(BadAnswer, match="more than the selected lines"):
        check_bounds(FILE[8:12], [*FILE[:8], *FILE[12:]], answer)


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        (FILE[8:12], FILE[8:12]),
        (FILE[8:12], [*FILE[7:12], "new\n"]),
        (FILE[8:12], [*FILE[8:12], *FILE[:5]]),
        (FILE[:8], [*FILE[:8], "new\n"]),
    ],
)
def test_lines_in_common_with_the_file_around_are_fine(source: list[str], answer: list[str]) -> None:
    check_bounds(source, [*FILE[:8], *FILE[12:]], answer)
