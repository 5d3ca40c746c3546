"""Only code comes out of a model's answer, and all of it, whatever the model puts around it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provenance import check_written, copied

from lsp_server.cleaning import AnswerLines, Cleaner
from lsp_server.guards import BadAnswer
from lsp_server.traced import Traced

CODE = "def f(x):\n    return x\n"
MARKDOWN = "# Title\n```sh\nls\n```\nmore\n"
ECHOES = ("File: src/a.py", "Instruction: Add a test.")


def clean(answer: str, source: str = CODE, fence: str = "```", step: int = 0) -> str:
    """The code of an answer that comes in pieces of so many characters (0: in one); who wrote it stays known."""
    lines, cleaner = AnswerLines(), Cleaner(fence, source.splitlines(keepends=True), ECHOES)
    pieces = [answer[at : at + step] for at in range(0, len(answer), step)] if step else [answer]
    code = [line for piece in pieces for line in cleaner.feed(lines.feed(Traced.of(piece, copied(piece))))]
    code += [*cleaner.feed(lines.finish()), *cleaner.finish()]
    check_written(code, source.splitlines())
    return "".join(code)


FENCED = f"```python\n{CODE}```"
WRAPPED = {
    "fence": FENCED,
    "fence and line end": f"{FENCED}\n",
    "fence without a name": f"```\n{CODE}\n\n```\n",
    "blank lines inside": f"```python\n\n{CODE}\n```",
    "tildes": f"~~~python\n{CODE}~~~\n",
    "tildes and blank lines": f"~~~\n{CODE}\n\n~~~\n",
    "longer fence": f"`````\n{CODE}`````\n",
    "fence longer at the end": f"```\n{CODE}`````\n",
    "indented": "  ```python\n" + "".join(f"  {line}\n" for line in CODE.splitlines()) + "  ```\n",
    "words in the name": f"```python title=a.py (edited):\n{CODE}```",
    "code in the name": f"```{CODE}```",
    "code after the name": f"```python {CODE}```",
    "no end": f"```python\n{CODE}",
    "end in the last line": f"```python\n{CODE.rstrip()}```",
    "end in the last line, then chatter": f"```python\n{CODE.rstrip()}```\nI changed nothing.\n",
    "no beginning": f"{CODE}```",
    "no beginning, then chatter": f"{CODE}```\nExplanation: nothing changed.\n",
    "no fence": CODE,
    "no fence and no line end": CODE.rstrip("\n"),
    "no fence, a blank line first": f"\n{CODE}",
    "chatter": f"Sure! Here is the code:\n\n{FENCED}\n\nI changed nothing.\n",
    "explanation": f"{FENCED}\nExplanation: it does what it did.\n- nothing changed\n",
    "chatter without a fence": f"Here's the updated code:\n\n{CODE}\nExplanation: it does what it did.\n\nBye.\n",
    "two kinds of chatter without a fence": f"Certainly!\nBelow is the function.\n{CODE}\n\nLet me know if it works.",
    "an example of use": f"{FENCED}\n```python\nprint('an example of use')\n```\n",
    "an example with words": f"{FENCED}\n\nUse it so:\n\n```\nf(1)\n```\nBye\n",
    "thoughts": f"<think>hm\nwell</think>\n{FENCED}",
    "thoughts in a line": f"<thinking>hm</thinking>{FENCED}",
    "thoughts with code": f"<think>\nPerhaps\n```python\npass\n```\n</think>\n\n{FENCED}",
    "no thoughts": f"<think>\n\n</think>\n\n{FENCED}",
    "thoughts without an end": f"<think>\nhm\n{FENCED}",
    "thoughts without a beginning": f"hm, I think\nso\n</think>\n{FENCED}",
    "thoughts and no fence": f"<think>\nhm\n</think>\n{CODE}",
    "thoughts in the fence": f"```python\n<think>\nhm\n</think>\n{CODE}```",
    "file line": f"File: src/a.py\n{FENCED}",
    "file line in the fence": f"```python\nFile: src/a.py\n{CODE}```",
    "file line as a comment": f"```python\n# File: src/a.py\n\n{CODE}```",
    "path as a comment": f"```js\n// src/a.py\n{CODE}```",
    "path as a comment in C": f"```c\n/* src/a.py */\n{CODE}```",
    "instruction in the fence": f"```python\nInstruction: Add a test.\n{CODE}```",
    "instruction as a comment": f"```python\n# Add a test.\n{CODE}```",
    "file and instruction, no fence": f"File: src/a.py\nInstruction: Add a test.\n\n{CODE}",
    "byte order mark": f"\ufeff{FENCED}",
    "byte order mark in the fence": f"```python\n\ufeff{CODE}```",
    "other line ends": FENCED.replace("\n", "\r"),
    "doubled line ends": FENCED.replace("\n", "\r\r\n"),
}


@pytest.mark.parametrize("answer", WRAPPED.values(), ids=WRAPPED.keys())
@pytest.mark.parametrize("step", [0, 1, 7])
def test_the_code_alone_comes_out(answer: str, step: int) -> None:
    assert clean(answer, step=step) == CODE
    assert clean(answer.replace("\r", "").replace("\n", "\r\n"), step=step) == CODE or "\r" in answer


@pytest.mark.parametrize("source", [CODE, MARKDOWN, "```sh\nls\n```\n", "x = 1\n", "<think>\n", "Instruction: x\n"])
@pytest.mark.parametrize("name", ["fence", "no fence", "chatter", "explanation", "thoughts"])
def test_the_source_itself_comes_back(source: str, name: str) -> None:
    fence = "````" if "```" in source else "```"
    answer = WRAPPED[name].replace("```", fence).replace(CODE, source)
    assert clean(answer, source, fence) == source


@pytest.mark.parametrize(
    ("answer", "fence"),
    [
        (f"````markdown\n{MARKDOWN}````", "````"),
        (f"````markdown\n{MARKDOWN}````\nThat was it.", "````"),
        (f"```markdown\n{MARKDOWN}```\n", "````"),
        (f"```markdown\n{MARKDOWN}```\n\nThat was it.\n", "````"),
        (f"~~~markdown\n{MARKDOWN}~~~\n", "````"),
        (MARKDOWN, "````"),
        # The end of the block shorter than its beginning.
        (f"````markdown\n{MARKDOWN}```\n", "````"),
        (f"````markdown\n{MARKDOWN}```", "````"),
    ],
)
def test_fences_in_the_code_stay(answer: str, fence: str) -> None:
    assert clean(answer, MARKDOWN, fence) == MARKDOWN


BLOCK = "```sh\nls\n```\n"


@pytest.mark.parametrize(
    "answer",
    [
        BLOCK,
        BLOCK.rstrip(),
        f"Here is the block:\n{BLOCK}",
        f"````\n{BLOCK}````\n",
        f"```markdown\n{BLOCK}```\n",
        f"```sh\n{BLOCK}```\n",
        f"~~~\n{BLOCK}~~~\n",
    ],
)
@pytest.mark.parametrize("text", ["", "# Title\n\n"])
def test_code_that_is_a_fenced_block_keeps_its_fences(answer: str, text: str) -> None:
    assert clean(answer.replace(BLOCK.rstrip(), text + BLOCK.rstrip()), text + BLOCK, "````") == text + BLOCK


def test_code_that_ends_with_a_fence_keeps_it() -> None:
    source = "a\n```sh\nls\n```\n"
    for answer in (f"````\n{source}\n````\n", f"```\n{source}```\n", f"````\n{source}", source):
        assert clean(answer, source, "````") == source


def test_plain_fences_in_the_code_stay_after_a_fence_that_is_too_short() -> None:
    source = "a\n```\nb\n```\nc\n"
    assert clean(f"```\n{source}```\n", source, "````") == source


def test_new_fences_in_the_code_stay() -> None:
    new = "# Title\n\nUse it:\n\n```sh\nls\n```\n\nThe end.\n"
    assert clean(f"```markdown\n{new}```\n", "# Title\n\nThe end.\n") == new
    new = 'def f(x):\n    """Like so:\n\n    ```\n    f(1)\n    ```\n    """\n    return x\n'
    assert clean(f"```python\n{new}```\n") == new
    new = "/// Like so:\n/// ```\n/// f(1);\n/// ```\nfn f() {}\n"
    assert clean(f"```rust\n{new}```\n", "fn f() {}\n") == new


def test_underlined_titles_are_no_fences() -> None:
    source = "Title\n~~~~~\n\ntext\n"
    for answer in (source, f"```rst\n{source}```\n", f"Sure!\n{source}"):
        assert clean(answer, source) == source
    assert clean("New title\n~~~~~~~~~\n\ntext\n", source) == "New title\n~~~~~~~~~\n\ntext\n"


@pytest.mark.parametrize("answer", ["```python\n<think>\nx\n```", "<think>\nx\n"])
def test_tags_of_thoughts_in_the_source_are_code(answer: str) -> None:
    assert clean(answer, "<think>\ny\n") == "<think>\nx\n"


def test_a_tag_within_a_line_is_code() -> None:
    new = 'def f(x):\n    return x.split("</think>")\n'
    assert clean(f"```python\n{new}```") == new


@pytest.mark.parametrize("answer", [f"{FENCED}\nBut no.\n</think>\n{FENCED}", f"```\n{CODE}\n</think>\nNow\n```"])
def test_thoughts_that_were_taken_for_code_are_refused(answer: str) -> None:
    with pytest.raises(BadAnswer, match="mixed its thoughts"):
        clean(answer)


def test_lines_that_look_like_chatter_stay_in_a_text() -> None:
    text = "Here is the story.\n\nThe code was lost, and nobody knew.\n\nNote the date.\n"
    assert clean(text, "Here is a story.\n\nThe code was lost, and nobody knew.\n") == text
    source = "Explanation: see below.\nx\n"
    assert clean(source, source) == source


LINE = st.sampled_from(
    ["x = 1\n", "\n", "    y\n", "``\n", "```\n", "```py\n", "~~~\n", "text ```\n", "# File: b\n", "<b>\n", "Note: x\n"]
)
SOURCES = st.lists(LINE, min_size=1).map(lambda lines: "first\n" + "".join(lines) + "last\n")


@given(SOURCES, st.integers(0, 9))
def test_whatever_the_code_is_it_comes_back(source: str, step: int) -> None:
    assert clean(f"````\n{source}````\n", source, "````", step) == source


@given(
    st.lists(st.sampled_from(["x = 1\n", "\n", "    y()\n", "}\n", "# note\n", "\tz\n"]), max_size=12),
    st.sampled_from(
        ["", "Sure!\n", "Here is the code:\n\n", "<think>\nhm\n\n```\nno\n```\n</think>\n", "I will do it.\n"]
    ),
    st.sampled_from(
        [("```\n", "```"), ("```python\n", "```\n"), ("~~~py\n", "~~~\n"), ("````\n", "````\n"), ("  ```\n", "```")]
    ),
    st.sampled_from(["File: src/a.py\n", "# File: src/a.py\n\n", "// Add a test.\n", "\ufeff", "\n\n", ""]),
    st.sampled_from(["", "\n", "\n\nExplanation: it is so.\n", "\nDone.\n\n```python\nf()\n```\n"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_any_code_in_any_wrapping_comes_out_at_any_pace(
    lines: list[str], before: str, fences: tuple[str, str], echo: str, after: str, end: str, data: st.DataObject
) -> None:
    code = "first()\n" + "".join(lines) + "last()\n"
    answer = f"{before}{fences[0]}{echo}{code}{fences[1]}{after}"
    answer = answer.replace("\n", end)
    source = data.draw(st.sampled_from([code, "old()\n", "first()\nlast()\n"]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=8)))
    reader, cleaner = AnswerLines(), Cleaner("```", source.splitlines(keepends=True), ECHOES)
    pieces = [answer[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    out = [line for piece in pieces for line in cleaner.feed(reader.feed(Traced.of(piece, copied(piece))))]
    out += [*cleaner.feed(reader.finish()), *cleaner.finish()]
    assert "".join(out) == code
    check_written(out, [])


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ("", "no answer"),
        ("\n\n", "no answer"),
        ("Sure!\n", "prose"),
        ("I can't do that.\nPlease tell me more about it.\n", "prose"),
        ("<think>\nI wonder what this is about, really.", "prose"),
    ],
)
def test_an_answer_without_code_is_refused(answer: str, match: str) -> None:
    with pytest.raises(BadAnswer, match=match):
        clean(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "No changes are needed.\n",
        "No change needed: the function is fine.",
        "The code is already correct, so there's nothing to do.\n",
        "The function already has a docstring.\n",
        "This code doesn't need any changes.\n",
        "Nothing needs to be changed here.",
        "```\nNo changes needed.\n```\n",
        "```python\n# No changes are necessary\n\n```\n",
        "<think>\nhm\n</think>\nThe code remains unchanged.\n",
    ],
)
def test_no_change_needed_is_an_answer(answer: str) -> None:
    assert clean(answer) == CODE


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        (CODE, "def f(x: int) -> int:\n    return x\n"),
        ("x = 1\n", "x = 2\n"),
        ("timeout = 30  # seconds\n", "timeout_s = 60\n"),
    ],
)
def test_code_without_a_fence_and_with_another_first_line_is_code(source: str, answer: str) -> None:
    assert clean(answer, source) == answer
    assert clean(f"Here is the updated code:\n{answer}", source) == answer


def test_a_path_or_an_instruction_alone_may_be_the_code() -> None:
    for line in ("src/a.py\n", "Add a test.\n"):
        assert clean(f"```\n{line}b.py\n```\n", "b.py\n") == f"{line}b.py\n"


def test_one_line_in_backticks_is_code() -> None:
    assert clean("`x = 2`\n", "x = 1\n") == "x = 2\n"
    assert clean("`ls`\n", "`ls`\n") == "`ls`\n"


def test_new_code_before_a_fence_in_its_line_is_code() -> None:
    assert clean("```python\nx = 1\nyear = audio```\n", "x = 1\n") == "x = 1\nyear = audio\n"
