"""Documents follow the editor's text by LSP's rules, whatever the text and the encoding."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lsp_server import documents as module
from lsp_server.documents import Documents, Edit, Encoding, Snapshot, Text, common_prefix, edits_between, split_lines
from speculation.errors import ConfigError

ENCODINGS: list[Encoding] = ["utf-8", "utf-16", "utf-32"]
TEXT = st.text("ab \t\n\r\f\v\x1c\x85\u2028é漢😀\u0301\ufeff\ud83d\ude00", max_size=24)


def reference_lines(text: str) -> list[str]:
    """By the letter of the specification: a line ends after \\r\\n, \\n or \\r."""
    marked = text.replace("\r\n", "\0").replace("\r", "\1").replace("\n", "\2")
    for mark, end in (("\0", "\r\n"), ("\1", "\r"), ("\2", "\n")):
        marked = marked.replace(mark, f"{end}\3")
    return [line for line in marked.split("\3") if line]


def reference_starts(text: str) -> list[int]:
    lines = reference_lines(text)
    starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
    return starts if not text or text[-1] in "\r\n" else starts[:-1]


def reference_offset(text: str, line: int, character: int, encoding: Encoding) -> int:
    """Walk to the line, then one character at a time as long as it fits."""
    starts = reference_starts(text)
    if line >= len(starts):
        return len(text)
    offset = starts[line]
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    codec = encoding if encoding == "utf-8" else f"{encoding}-le"
    while offset < len(text) and text[offset] not in "\r\n":
        character -= len(text[offset].encode(codec, "surrogatepass")) // width
        if character < 0:
            break
        offset += 1
    return offset


def check(snapshot: Snapshot, text: str) -> None:
    """The snapshot is of this text, in every way that it can be asked."""
    assert snapshot.text == text
    assert snapshot.lines == split_lines(text) == reference_lines(text)
    assert snapshot.starts == reference_starts(text)
    assert snapshot.n_chars == len(text)
    for offset in range(len(text) + 1):
        assert snapshot.is_line_start(offset) == (offset in snapshot.starts)
        assert snapshot.slice(0, offset) + snapshot.slice(offset, len(text)) == text


@pytest.fixture(scope="class", params=[1, 3], ids="blocks of {}".format)
def blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Short texts too are in many blocks, as long ones are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_LINES", request.param)
        yield


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


@pytest.mark.usefixtures("blocks")
class TestAnyText:
    """In blocks of any size."""

    @given(text=TEXT)
    def test_lines_starts_and_slices_are_those_of_the_text(self, text: str) -> None:
        check(Snapshot("u", 1, text), text)

    @given(text=TEXT, line=st.integers(0, 40), character=st.integers(0, 40), encoding=st.sampled_from(ENCODINGS))
    def test_an_offset_is_what_the_specification_says(
        self, text: str, line: int, character: int, encoding: Encoding
    ) -> None:
        offset = Snapshot("u", 1, text).offset({"line": line, "character": character}, encoding)
        assert offset == reference_offset(text, line, character, encoding)

    @given(text=TEXT, offset=st.integers(0, 30), encoding=st.sampled_from(ENCODINGS))
    def test_an_offset_survives_the_way_to_a_position_and_back(
        self, text: str, offset: int, encoding: Encoding
    ) -> None:
        offset = min(offset, len(text))
        if text[offset - 1 : offset + 1] == "\r\n":
            offset += 1  # Between \r and \n there is no position.
        snapshot = Snapshot("u", 1, text)
        assert snapshot.offset(snapshot.position(offset, encoding), encoding) == offset


POSITION = st.fixed_dictionaries({"line": st.integers(0, 12), "character": st.integers(0, 12)})
CHANGE = st.fixed_dictionaries({"text": TEXT}, optional={"range": st.tuples(POSITION, POSITION)})


@pytest.mark.usefixtures("blocks")
class TestAnyChange:
    """In blocks of any size."""

    @given(text=TEXT, messages=st.lists(st.lists(CHANGE, max_size=3), max_size=4), encoding=st.sampled_from(ENCODINGS))
    def test_changes_give_the_text_that_the_editor_has(
        self, text: str, messages: list[list[dict[str, Any]]], encoding: Encoding
    ) -> None:
        documents = Documents()
        documents.encoding = encoding
        documents.open("u", 1, text, "python")
        taken = [(documents.get("u"), text)]
        for version, changes in enumerate(messages, 2):
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
            for edit in documents.change("u", version, sent):
                text = edit.apply(text)
            assert text == expected
            snapshot = documents.get("u")
            assert (snapshot.uri, snapshot.version, snapshot.language_id) == ("u", version, "python")
            taken.append((snapshot, text))
        for snapshot, text in taken:
            check(snapshot, text)

    @pytest.mark.parametrize(
        ("old", "start", "end", "new", "lines"),
        [
            ("a\r\nb", 2, 2, "x", ["a\r", "x\n", "b"]),
            ("a\rx\nb", 2, 3, "", ["a\r\n", "b"]),
            ("a\rb", 2, 2, "\n", ["a\r\n", "b"]),
            ("a\nb", 1, 1, "\r", ["a\r\n", "b"]),
            ("a\n\rb\n", 1, 3, "\r\n", ["a\r\n", "b\n"]),
            ("a\r\nb", 1, 2, "", ["a\n", "b"]),
            ("a\r\nb", 2, 3, "", ["a\r", "b"]),
            ("a\n", 2, 2, "b", ["a\n", "b"]),
            ("a\nb", 1, 2, "", ["ab"]),
            ("a\nb\n", 0, 4, "", []),
        ],
    )
    def test_line_ends_that_meet_or_part(self, old: str, start: int, end: int, new: str, lines: list[str]) -> None:
        text = Text.of(old).replace(start, end, new)
        assert text.lines == lines
        check(Snapshot("u", 1, text), "".join(lines))


def test_a_keystroke_in_a_long_text_makes_one_block_anew() -> None:
    text = Text.of("".join(f"line {n}\n" for n in range(50_000)))
    edited = text.replace(300_000, 300_000, "x")
    known = {id(block) for block in text.blocks}
    assert len(text.blocks) > 300
    assert [len(block.starts) <= 256 for block in edited.blocks if id(block) not in known] == [True]


def test_blocks_stay_of_a_size_however_much_is_typed() -> None:
    text = Text.of("")
    for n in range(2_000):
        text = text.replace(n % 7, n % 7, "a\n")
    assert max(len(block.starts) for block in text.blocks) <= 256
    assert len(text.blocks) < 100


@given(TEXT, TEXT)
def test_the_common_prefix_is_the_longest(one: str, other: str) -> None:
    n = common_prefix(one, other)
    assert one[:n] == other[:n]
    assert n == min(len(one), len(other)) or one[n] != other[n]


LINES = st.lists(st.sampled_from(["", "a", "ab", "b", "\f", "😀"]), max_size=12)
LINED = st.builds(lambda lines, end: end.join(lines), LINES, st.sampled_from(["\n", "\r\n", "\r"]))


@given(TEXT | LINED, TEXT | LINED, st.integers(0, 3))
@example("\r", "\n", 0)
def test_the_edits_between_two_texts_lead_from_one_to_the_other(old: str, new: str, at: int) -> None:
    text, before = "x" * at + old, at + len(old)
    for edit in edits_between(old, new, at):
        assert at <= edit.start <= edit.end <= before
        assert edit.start < edit.end or edit.new_text
        before = edit.start
        text = edit.apply(text)
    assert text == "x" * at + new


ABOVE = LINES.map(lambda lines: "".join(f"above {line}\n" for line in lines))
BELOW = LINES.map(lambda lines: "".join(f"below {line}\n" for line in lines))


@given(ABOVE, ABOVE, BELOW, BELOW)
def test_lines_that_stand_in_both_are_not_touched(above: str, new_above: str, below: str, new_below: str) -> None:
    kept = "the lines\n  of a rewrite\n"
    start = len(above)
    end = start + len(kept)
    for edit in edits_between(above + kept + below, new_above + kept + new_below):
        assert edit.end <= start or edit.start >= end


@pytest.mark.parametrize(
    ("old", "new", "edits"),
    [
        ("one\ntwo\nthree\n", "one\n2\nthree\n", [(4, 7, "2")]),
        ("a\nb\nc\n", "A\nb\nC\n", [(4, 5, "C"), (0, 1, "A")]),
        ("a\nb\n", "b\n", [(0, 2, "")]),
        ("x = 1\nx = 2\n", "x = 1\nx = 3\nx = 2\n", [(6, 6, "x = 3\n")]),
        ("same\n", "same\n", []),
        ("", "new\n", [(0, 0, "new\n")]),
    ],
)
def test_a_whole_document_is_taken_as_the_edits_it_stands_for(old: str, new: str, edits: list[Edit]) -> None:
    documents = Documents()
    documents.open("u", 1, old, "")
    assert documents.change("u", 2, [{"text": new}]) == edits
    assert documents.get("u").text == new


def test_what_is_too_large_to_compare_is_one_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COMPARED", 3)
    assert edits_between("head\na\nb\ntail\n", "head\nA\nb\nB\ntail\n") == [(5, 8, "A\nb\nB")]


def test_a_document_that_is_not_open_is_named() -> None:
    documents = Documents()
    documents.open("file:///a", 1, "", "")
    documents.close("file:///a")
    with pytest.raises(ConfigError, match="file:///a is not open"):
        documents.get("file:///a")
    with pytest.raises(ConfigError, match="file:///a is not open"):
        documents.change("file:///a", 2, [])


def test_a_lone_surrogate_does_not_stop_the_sync() -> None:
    snapshot = Snapshot("u", 1, "\ud800x")
    assert [snapshot.offset({"line": 0, "character": 1}, encoding) for encoding in ENCODINGS] == [0, 1, 1]
