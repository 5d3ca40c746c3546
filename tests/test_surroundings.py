"""What an answer repeats of the file around the code is taken off, or warned of; what only looks like it stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provenance import check_written, says

from lsp_server.documents import Snapshot
from lsp_server.edits import apply_hunks
from lsp_server.engine_client import Event
from lsp_server.guards import BadAnswer
from lsp_server.prompts import build_prompt
from lsp_server.scopes import lines_region
from lsp_server.writing import Writing

FILE = """\
import os


def one(path):
    try:
        return os.stat(path)
    except OSError as error:
        log(error)
        raise


def two(path):
    return os.listdir(path)


def three(path):
    os.remove(path)
    return True
"""
LINES = FILE.splitlines(keepends=True)
TWO = LINES[11:13]
NEW_TWO = ["def two(path: str) -> list[str]:\n", "    return os.listdir(path)\n"]


def written(answer: str, first: int, last: int, text: str = FILE) -> tuple[str, list[str]]:
    """What a model that answers with these lines makes of lines first:last of a file, and the codes of warnings."""
    snapshot = Snapshot("file:///a.py", 1, text, "python")
    prompt = build_prompt(snapshot, lines_region(snapshot, first, last), "x", "a.py")
    writing = Writing(prompt)
    seen: list[object] = []
    for line in [f"{prompt.fence}\n", *answer.splitlines(keepends=True), f"{prompt.fence}\n"]:
        writing.take(says(line))
        assert writing.hunks[: len(seen)] == seen, "a hunk that is final was changed"
        seen = [*writing.hunks]
    writing.take(Event("end", finish_reason="stop"))
    assert writing.hunks[: len(seen)] == seen
    check_written([line for hunk in writing.hunks for line in hunk.new_lines], snapshot.lines)
    new = apply_hunks(snapshot.lines[first:last], writing.hunks)
    return "".join([*snapshot.lines[:first], *new, *snapshot.lines[last:]]), [each.code for each in writing.warnings]


def check(answer: list[str], expected: list[str], first: int = 11, last: int = 13, file: list[str] = LINES) -> None:
    text, warnings = written("".join(answer), first, last, "".join(file))
    assert text == "".join([*file[:first], *expected, *file[last:]])
    assert warnings == []


@pytest.mark.parametrize("new", [TWO, NEW_TWO, ["# all of it new\n", "two = os.listdir\n"]])
@pytest.mark.parametrize("n_before", [0, 1, 2, 3, 5, 8, 11])
@pytest.mark.parametrize("n_after", [0, 3, 4, 5])
def test_the_lines_around_the_code_are_taken_off(new: list[str], n_before: int, n_after: int) -> None:
    check([*LINES[11 - n_before : 11], *new, *LINES[13 : 13 + n_after]], new)


@pytest.mark.parametrize("n_after", [0, 3, 4])
@pytest.mark.parametrize("mark", [["[...]\n"], ["\n", "\n", "[...]\n", "\n"], ["    [...]\n"]])
def test_a_repeated_mark_of_the_hole_is_taken_off_after_all_of_the_code(mark: list[str], n_after: int) -> None:
    check([*NEW_TWO, *mark, *LINES[13 : 13 + n_after]], NEW_TWO)


@pytest.mark.parametrize(
    "answer",
    [
        [LINES[11], "[...]\n"],
        [LINES[11], "    return os.scandir(path)\n", "[...]\n"],
        [*LINES[11:13], "[...]\n", "more\n"],
        ["[...]\n", *LINES[11:13]],
    ],
)
def test_a_mark_that_may_stand_for_code_is_refused(answer: list[str]) -> None:
    with pytest.raises(BadAnswer, match="left code out"):
        written("".join(answer), 11, 13)


def test_a_mark_is_refused_where_lines_are_missing_before_the_last() -> None:
    with pytest.raises(BadAnswer, match="left code out"):
        written("".join([*LINES[3:5], *LINES[6:9], "[...]\n"]), 3, 9)


def test_a_mark_of_the_users_own_stays() -> None:
    file = ["a\n", "b\n", "[...]\n", "c\n"]
    check(["a\n", "B\n", "[...]\n"], ["a\n", "B\n", "[...]\n"], 0, 3, file)


def test_indented_code_comes_back_from_between_its_surroundings() -> None:
    new = ["        return os.lstat(path)\n"]
    check([*LINES[:5], *new, *LINES[6:]], new, 5, 6)
    check([*LINES[3:5], *new, *LINES[6:9]], new, 5, 6)


@pytest.mark.parametrize(
    ("file", "first", "last", "answer"),
    [
        # The same lines as before the code, further down.
        (LINES, 11, 13, ["def two(path):\n", "    try:\n", "        return os.listdir(path)\n", *LINES[6:9]]),
        # The end of a block is the end of any block.
        (["switch (a) {\n", "case 1:\n", "}\n"], 1, 2, ["case 1:\n", "case 2: {\n", "x();\n", "}\n"]),
        (["<div>\n", "<p>\n", "</div>\n"], 1, 2, ["<p>\n", "<div>\n", "new\n", "</div>\n"]),
        (["if a\n", "  x\n", "end\n"], 1, 2, ["  x\n", "  if b\n", "    y\n", "  end\n"]),
        # Like lines all over.
        (["0, 0, 0\n"] * 9, 3, 6, ["0, 0, 0\n"] * 5),
        (["a, 0\n", "b, 0\n"] * 4, 2, 4, ["a, 0\n", "b, 0\n", "a, 0\n", "b, 1\n"]),
        # Twins: the end of the first is the end of the second.
        ([*LINES[3:9], *LINES[3:9]], 6, 12, [LINES[3].replace("path", "path: str"), *LINES[4:9]]),
        ([*LINES[3:9], *LINES[3:9]], 0, 6, [*LINES[3:9], "new\n"]),
    ],
)
def test_wanted_repetition_stays(file: list[str], first: int, last: int, answer: list[str]) -> None:
    check(answer, answer, first, last, file)


def test_lines_as_those_after_the_code_but_further_in_stay() -> None:
    new = ["if b:\n", "    x()\n", "    return None\n"]
    check(new, ["    " + line for line in new], 1, 2, ["if a:\n", "    x()\n", "    return None\n"])


def test_a_line_too_many_before_those_after_the_code_stays() -> None:
    file = ["a = 1\n", "b = 2\n", "b = 2\n", "c = 3\n"]
    check(["a = 1\n", "b = 2\n", "b = 2\n", "b = 2\n", "c = 3\n"], ["a = 1\n", "b = 2\n"], 0, 1, file)


def test_most_of_the_file_around_changed_is_warned_of() -> None:
    lines = [f"line {n}\n" for n in range(40)]
    _, warnings = written("".join([*lines[20:24], "new\n", *lines[25:30], "other\n"]), 20, 23, "".join(lines))
    assert warnings == ["repeats_surroundings"]
    _, warnings = written("".join(["new\n", *lines[:20], "changed\n", *lines[20:23]]), 20, 23, "".join(lines))
    assert warnings == ["repeats_surroundings"]


@given(
    st.lists(st.sampled_from(["a = 1\n", "\n", "    b()\n", "}\n", "c\n"]), max_size=8),
    st.integers(0, 20),
    st.integers(0, 20),
    st.data(),
)
def test_whatever_is_repeated_around_the_code_goes(
    body: list[str], n_before: int, n_after: int, data: st.DataObject
) -> None:
    before = [f"before_{n}\n" for n in range(data.draw(st.integers(0, 10)))]
    after = [f"after_{n}\n" for n in range(data.draw(st.integers(0, 10)))]
    code = ["first\n", *body, "last\n"]
    new = ["first\n", *data.draw(st.permutations(body)), "new\n", "last\n"]
    echo = [*before[max(0, len(before) - n_before) :], *new, *after[:n_after]]
    text, _ = written("".join(echo), len(before), len(before) + len(code), "".join([*before, *code, *after]))
    assert text == "".join([*before, *new, *after])
