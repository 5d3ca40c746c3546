"""Hunks are exact, minimal and line-aligned, and those that are final while the text streams stay as they are."""

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.edits import Hunk, Part, StreamDiff, UnifiedDiff, apply_hunks, changed_words

LINE = st.sampled_from(["\n", "}\n", "return value\n", "x = compute(1)\n", "y = compute(2)\n", "def function():\n"])
LINES = st.lists(LINE, max_size=25)


def diff(old: list[str], new: list[str]) -> list[Hunk]:
    stream = StreamDiff(old)
    stream.feed(new)
    return stream.finish()


@given(LINES, LINES)
def test_applied_hunks_give_the_new_lines(old: list[str], new: list[str]) -> None:
    assert apply_hunks(old, diff(old, new)) == new


@pytest.mark.parametrize(
    ("old", "new", "removed", "added"),
    [
        (["x = one\n"], ["x = two\n"], ["one"], ["two"]),
        (["x = one\n"], ["x = one + two\n"], [], [" + two"]),
        (["f(a, b)\r\n"], ["f(a)\r\n"], [", b"], []),
        (["f(a)\n", "g(b)\n"], ["f(c)\n", "g(d)\n"], ["a", "b"], ["c", "d"]),
        (["return value\n"], ["# more\n", "return values\n"], ["value"], ["values"]),
        (["return value\n"], ["something else\n"], [], []),
        ([], ["new\n"], [], []),
        (["s = '😀' + x\n"], ["s = '😀' + y\n"], ["x"], ["y"]),
        (["long = 1\n"] * 60, ["long = 2\n"] * 60, [], []),
    ],
)
def test_words_that_differ_within_lines(old: list[str], new: list[str], removed: list[str], added: list[str]) -> None:
    parts, others = changed_words(old, new)
    assert [old[part.line][part.start : part.end] for part in parts] == removed
    assert [new[part.line][part.start : part.end] for part in others] == added


@given(LINES, LINES)
def test_what_differs_is_all_that_differs(old: list[str], new: list[str]) -> None:
    """Without it, a line and what became of it are the same."""

    def without(lines: list[str], parts: list[Part]) -> list[str]:
        for part in reversed(parts):
            line = lines[part.line]
            lines = [*lines[: part.line], line[: part.start] + line[part.end :], *lines[part.line + 1 :]]
        return lines

    removed, added = changed_words(old, new)
    assert removed == sorted(removed) and added == sorted(added)
    touched = sorted({part.line for part in removed + added})
    if len(old) == len(new):
        ours, theirs = without(old, removed), without(new, added)
        assert all(ours[n] == theirs[n] for n in touched)


@given(LINES, LINES)
def test_hunks_are_in_order_apart_and_change_something(old: list[str], new: list[str]) -> None:
    hunks = diff(old, new)
    assert [hunk.id for hunk in hunks] == list(range(len(hunks)))
    for one, other in pairwise(hunks):
        assert one.last < other.first
    for hunk in hunks:
        assert tuple(old[hunk.first : hunk.last]) != hunk.new_lines


@given(LINES, LINES)
def test_a_final_hunk_never_moves(old: list[str], new: list[str]) -> None:
    stream = StreamDiff(old)
    seen: list[Hunk] = []
    for line in new:
        stream.feed([line])
        assert stream.hunks[: len(seen)] == seen
        assert all(hunk.last <= stream.line for hunk in stream.hunks)
        seen = list(stream.hunks)
    assert stream.finish()[: len(seen)] == seen


def numbered(first: int, last: int) -> list[str]:
    return [f"line number {n}\n" for n in range(first, last)]


@pytest.mark.parametrize(
    ("new", "hunks"),
    [
        (numbered(0, 10), []),
        ([*numbered(0, 4), "changed\n", *numbered(5, 10)], [Hunk(0, 4, 5, ("changed\n",))]),
        ([*numbered(0, 4), *numbered(6, 10)], [Hunk(0, 4, 6, ())]),
        (["new\n", *numbered(0, 10), "end\n"], [Hunk(0, 0, 0, ("new\n",)), Hunk(1, 10, 10, ("end\n",))]),
        ([], [Hunk(0, 0, 10, ())]),
    ],
)
def test_a_change_is_one_small_hunk(new: list[str], hunks: list[Hunk]) -> None:
    assert diff(numbered(0, 10), new) == hunks


def test_a_change_is_final_long_before_the_end() -> None:
    stream = StreamDiff(numbered(0, 100))
    stream.feed([*numbered(0, 10), "changed\n", *numbered(11, 15)])
    assert stream.hunks == [Hunk(0, 10, 11, ("changed\n",))]
    assert stream.line == 15


@given(LINES, LINES, st.booleans())
def test_the_unified_diff_of_a_stream_is_that_of_the_whole(old: list[str], new: list[str], at_once: bool) -> None:
    stream, writer = StreamDiff(old), UnifiedDiff("a.py", old)
    streamed: list[str] = []
    for line in [] if at_once else new:
        known = len(stream.hunks)
        stream.feed([line])
        streamed += writer.feed(stream.hunks[known:], stream.line)
    known = len(stream.hunks)
    if at_once:
        stream.feed(new)
    streamed += [*writer.feed(stream.finish()[known:], len(old)), *writer.finish()]
    assert unapply("".join(streamed), old) == new


def unapply(diff: str, old: list[str]) -> list[str]:
    """Apply a unified diff by reading it, so that its line numbers are checked too."""
    new: list[str] = []
    at = 0
    for line in diff.splitlines(keepends=True):
        if line.startswith("@@"):
            start, count = (int(n) for n in line.split()[1][1:].split(","))
            begin = start - (count > 0)
            new += old[at:begin]
            at = begin
            to, to_count = (int(n) for n in line.split()[2][1:].split(","))
            assert to - (to_count > 0) == len(new)
        elif line[0] in " -" and not line.startswith("---"):
            assert old[at] == line[1:]
            at += 1
            new += [line[1:]] if line[0] == " " else []
        elif line[0] == "+" and not line.startswith("+++"):
            new.append(line[1:])
    return [*new, *old[at:]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb\nc", "a\nb\nC"),
        ("a\nb\nc", "a\nb\nc\n"),
        ("a\r\nb\r\n", "a\r\nB\r\n"),
        ("a\n" * 3 + "b\n" + "c\n" * 20 + "d\n", "A\n" + "a\n" * 3 + "b\n" + "c\n" * 20 + "D\n"),
    ],
)
def test_git_applies_the_unified_diff(tmp_path: Path, old: str, new: str) -> None:
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    writer = UnifiedDiff("a.txt", old_lines)
    text = "".join([*writer.feed(diff(old_lines, new_lines), 0), *writer.finish()])
    (tmp_path / "a.txt").write_bytes(old.encode())
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=text.encode(), check=True)
    assert (tmp_path / "a.txt").read_bytes() == new.encode()
