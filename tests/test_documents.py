"""Documents follow the editor's text by LSP's rules, whatever the text and the encoding."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents import Documents, Encoding, Snapshot, split_lines
from speculation.errors import ConfigError

ENCODINGS: list[Encoding] = ["utf-8", "utf-16", "utf-32"]
CHARS = st.sampled_from("ab \t\n\r\f\v\x1c\x85\u2028é漢😀\u0301\ufeff")
TEXT = st.lists(CHARS, max_size=30).map("".join)


def reference_offset(text: str, line: int, character: int, encoding: Encoding) -> int:
    """By the letter of the specification: walk to the line, then encode growing prefixes of it."""
    offset = 0
    for _ in range(line):
        while offset < len(text) and text[offset] not in "\r\n":
            offset += 1
        if offset == len(text):
            return offset
        offset += 2 if text[offset : offset + 2] == "\r\n" else 1
    end = offset
    while end < len(text) and text[end] not in "\r\n":
        end += 1
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    codec = encoding if encoding == "utf-8" else f"{encoding}-le"
    while offset < end and len(text[:end][offset:][:1].encode(codec)) // width <= character:
        character -= len(text[offset].encode(codec)) // width
        offset += 1
    return offset


@given(TEXT)
def test_lines_joined_are_the_text(text: str) -> None:
    assert "".join(split_lines(text)) == text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\r\nb\rc\n", ["a\r\n", "b\r", "c\n"]),
        ("a\fb\x85c\u2028d\x0be\x1cf\n", ["a\fb\x85c\u2028d\x0be\x1cf\n"]),
        ("\n\r", ["\n", "\r"]),
    ],
)
def test_only_the_three_line_ends_of_lsp_end_a_line(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


@given(TEXT, st.integers(0, 40), st.integers(0, 40), st.sampled_from(ENCODINGS))
def test_an_offset_is_what_the_specification_says(text: str, line: int, character: int, encoding: Encoding) -> None:
    offset = Snapshot("u", 1, text).offset({"line": line, "character": character}, encoding)
    assert offset == reference_offset(text, line, character, encoding)


@given(TEXT, st.integers(0, 30), st.sampled_from(ENCODINGS))
def test_an_offset_survives_the_way_to_a_position_and_back(text: str, offset: int, encoding: Encoding) -> None:
    offset = min(offset, len(text))
    if text[offset - 1 : offset + 1] == "\r\n":
        offset += 1  # Between \r and \n there is no position.
    snapshot = Snapshot("u", 1, text)
    assert snapshot.offset(snapshot.position(offset, encoding), encoding) == offset


POSITION = st.fixed_dictionaries({"line": st.integers(0, 12), "character": st.integers(0, 12)})
CHANGE = st.fixed_dictionaries({"text": TEXT}, optional={"range": st.tuples(POSITION, POSITION)})


@given(TEXT, st.lists(CHANGE, max_size=6), st.sampled_from(ENCODINGS))
def test_changes_give_the_text_that_the_editor_has(
    text: str, changes: list[dict[str, Any]], encoding: Encoding
) -> None:
    documents = Documents()
    documents.encoding = encoding
    documents.open("u", 1, text, "python")
    expected, sent = text, []
    for change in changes:
        if "range" not in change:
            expected = change["text"]
            sent.append(change)
            continue
        start, end = sorted(change["range"], key=lambda position: (position["line"], position["character"]))
        a, b = (reference_offset(expected, each["line"], each["character"], encoding) for each in (start, end))
        expected = expected[:a] + change["text"] + expected[b:]
        sent.append({"range": {"start": start, "end": end}, "text": change["text"]})
    edits = documents.change("u", 2, sent)
    assert documents.get("u") == Snapshot("u", 2, expected, "python")
    for edit in edits:
        text = edit.apply(text)
    assert text == expected


def test_a_whole_document_is_taken_as_the_edit_it_stands_for() -> None:
    documents = Documents()
    documents.open("u", 1, "one\ntwo\nthree\n", "")
    assert documents.change("u", 2, [{"text": "one\n2\nthree\n"}]) == [(4, 7, "2")]


def test_a_snapshot_stays_as_it_was() -> None:
    documents = Documents()
    documents.open("u", 1, "old", "")
    before = documents.get("u")
    documents.change("u", 2, [{"text": "new"}])
    assert (before.text, before.version) == ("old", 1)


def test_a_document_that_is_not_open_is_named() -> None:
    documents = Documents()
    documents.open("file:///a", 1, "", "")
    documents.close("file:///a")
    with pytest.raises(ConfigError, match="file:///a is not open"):
        documents.get("file:///a")


def test_a_lone_surrogate_does_not_stop_the_sync() -> None:
    snapshot = Snapshot("u", 1, "\ud800x")
    assert [snapshot.offset({"line": 0, "character": 1}, encoding) for encoding in ENCODINGS] == [0, 1, 1]
