"""Which characters of a hunk the model wrote itself stays known, from the engine's stream to the document's form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provenance import Wrote, check_written, copied, is_vowel, says

from lsp_server.documents import Snapshot
from lsp_server.edits import Part
from lsp_server.engine_client import Event
from lsp_server.guards import BadAnswer
from lsp_server.prompts import build_prompt
from lsp_server.scopes import find_region
from lsp_server.traced import Traced, written_in
from lsp_server.writing import Writing

texts = st.text("ab \n\t\r", max_size=12)
wrote = st.sampled_from([is_vowel, str.isspace, lambda char: True, lambda char: False])


def traced(text: str, by: Wrote = is_vowel) -> str:
    return Traced.of(text, copied(text, by))


def spans(text: str) -> tuple[tuple[int, int], ...]:
    return text.written if isinstance(text, Traced) else ()


@given(texts, texts, wrote, st.slices(12), st.text(" \n\ta", max_size=3))
def test_a_text_that_is_cut_and_joined_knows_of_each_character(
    one: str, other: str, by: Wrote, part: slice, chars: str
) -> None:
    part = slice(part.start, part.stop)
    for result, expected in (
        (traced(one, by) + traced(other, by), one + other),
        (traced(one, by)[part], one[part]),
        (traced(one, by).rstrip(), one.rstrip()),
        (traced(one, by).lstrip(chars), one.lstrip(chars)),
        (traced(one, by).rstrip(chars), one.rstrip(chars)),
        (traced(one, by).removeprefix(chars), one.removeprefix(chars)),
        (traced(one, by).removesuffix(chars), one.removesuffix(chars)),
    ):
        assert result == expected
        assert spans(result) == spans(traced(expected, by))


def test_what_is_put_before_or_after_a_text_counts_as_copied() -> None:
    assert spans("aa" + traced("aba") + "aa") == ((2, 3), (4, 5))


@pytest.mark.parametrize("said", [[(3, 1)], [(0, 99)], [(5, 7), (0, 2)], [(-3, 2)], [(1, 1)]])
def test_spans_that_make_no_sense_lead_nowhere(said: list[tuple[int, int]]) -> None:
    for start, end in written_in(Traced.of("abcd", said)):
        assert 0 <= start < end <= 4


LINES = st.lists(
    st.sampled_from(["\n", "  \n", "}\n", "return value\n", "    x = compute(1)\n", "y = '😀漢'\n", "\tdef f():\n"]),
    min_size=1,
    max_size=8,
)


@given(
    LINES,
    LINES,
    st.sampled_from(["{}", "\n\n{}", "  {}", "\t{}", "before\n{}after\n", "\ufeff{}"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(
        [
            "```\n{}```\n",
            "Sure!\n\n````py\n{}````\n\nBye.\n",
            "<think>\nhm\n</think>\n```\n{}```",
            "~~~\n{}\n\n~~~\n",
            "{}",
        ]
    ),
    wrote,
    st.integers(1, 9),
)
def test_written_is_what_was_written_whatever_is_around_it(
    old: list[str], new: list[str], around: str, end: str, wrapping: str, by: Wrote, step: int
) -> None:
    selected = "".join(old).replace("\n", end)
    if not selected.strip():
        return
    text = around.format(selected)
    document = Snapshot("file:///a.py", 1, text)
    start = text.index(selected)
    prompt = build_prompt(document, find_region(document, start, start + len(selected)), "x", "a.py")
    writing = Writing(prompt)
    answer = wrapping.format("".join(new)).replace("\n", end)
    try:
        for at in range(0, len(answer), step):
            writing.take(says(answer[at : at + step], by))
        writing.take(Event("end", finish_reason="stop"))
    except BadAnswer:
        return
    for hunk in writing.hunks:
        check_written(hunk.new_lines, text.splitlines(), by)
        parts = writing.written(hunk)
        assert parts is not None
        assert all(part.end <= len(hunk.new_lines[part.line]) for part in parts)


def written(answer: str, wrote: Wrote, text: str = "    total = one(a)  # 😀\n") -> list[list[Part] | None]:
    document = Snapshot("file:///a.py", 1, text)
    writing = Writing(build_prompt(document, find_region(document, 0, len(text)), "x", "a.py"))
    writing.take(says(f"```\n{answer}```\n", wrote))
    writing.take(Event("end", finish_reason="stop"))
    return [writing.written(hunk) for hunk in writing.hunks]


def test_the_parts_are_those_to_look_at() -> None:
    answer = "total = two(b)  # 😀\nprint( 😀 )\n"
    assert written(answer, lambda char: False) == [[]]
    assert written(answer, lambda char: True) == [[Part(0, 4, 23), Part(1, 4, 14)]]
    assert written(answer, lambda char: char in "two") == [[Part(0, 4, 7), Part(0, 12, 15), Part(1, 8, 9)]]
    assert written(answer, str.isspace) == [[]]


def test_of_another_server_it_is_not_known() -> None:
    document = Snapshot("file:///a.py", 1, "a\n")
    writing = Writing(build_prompt(document, find_region(document, 0, 1), "x", "a.py"))
    writing.take(Event("writing", "```\nb\n```\n"))
    writing.take(Event("end", finish_reason="stop"))
    assert [writing.written(hunk) for hunk in writing.hunks] == [None]
