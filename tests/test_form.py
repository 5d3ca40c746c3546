"""The model is shown the lines of a region in a plain form, and what it writes goes back byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provenance import check_written, says

from lsp_server.documents import Snapshot, is_blank
from lsp_server.edits import apply_hunks
from lsp_server.engine_client import Event
from lsp_server.form import Form
from lsp_server.prompts import build_prompt
from lsp_server.scopes import find_region
from lsp_server.writing import Writing
from speculation.errors import ConfigError


def rewritten(text: str, new: str, selected: str | None = None) -> str:
    """What becomes of a text when the model answers with `new` to what is selected, which is all if nothing else is."""
    document = Snapshot("file:///a.py", 1, text)
    start = text.index(selected) if selected else 0
    region = find_region(document, start, start + len(selected or text))
    prompt = build_prompt(document, region, "x", "a.py")
    writing = Writing(prompt)
    writing.take(says(f"{prompt.fence}\n{new}{prompt.fence}\n"))
    writing.take(Event("end", finish_reason="stop"))
    check_written([line for hunk in writing.hunks for line in hunk.new_lines], text.splitlines())
    after = "".join(apply_hunks(writing.form.lines, writing.hunks))
    return text[: region.start] + after + text[region.end :]


def form_of(text: str, selected: str) -> Form:
    before, after = text.split(selected)
    return Form.of(selected, before, after)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("    a\n      b\n", "a\n  b\n"),
        ("\ta\n\t\tb\n", "a\n\tb\n"),
        ("\ta\n    b\n", "\ta\n    b\n"),
        ("\t    a\n\t  b\n", "  a\nb\n"),
        ("    a\n\n    b", "a\n\nb\n"),
        ("    a\n  \n    b", "a\n\nb\n"),
        ('    def f():\n        """A\n  b\n        """\n', '  def f():\n      """A\nb\n      """\n'),
        ("\n\n  a\n\n", "a\n"),
        ("a\r\nb\rc\n", "a\nb\nc\n"),
        ("\ufeffa\nb\n", "a\nb\n"),
        ("\ufeff  a\n  b\n", "a\nb\n"),
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
        ("\ufeff  a\n  b\n  c\n", "b\nc\n", "\ufeff  b\n  c\n"),
        ("a\f\nb\u2028c\n", "a\f\nb\u2028d\n", "a\f\nb\u2028d\n"),
    ],
)
def test_what_the_model_writes_goes_back_in_the_documents_form(text: str, new: str, expected: str) -> None:
    assert rewritten(text, new) == expected


CALL = "if a:\n    result = f(a,\n             b) + 1\n"
DICT = "    x = {\n        'a': 1,\n    }  # end\n"


@pytest.mark.parametrize(
    ("text", "selected", "source", "new", "expected"),
    [
        # One line, and more lines put in its place: they are as deep as the line is.
        ("    x = f(a)  # b\n", "f(a)", "f(a)\n", "g(a)\n", "    x = g(a)  # b\n"),
        ("    x = f(a)  # b\n", "f(a)", "f(a)\n", "f(\n    a\n)\n", "    x = f(\n        a\n    )  # b\n"),
        ("\tx = f(a)\r\n\r\n", "f(a)", "f(a)\n", "f(\n\ta,\n)\n", "\tx = f(\r\n\t\ta,\r\n\t)\r\n\r\n"),
        # Several lines: only the first one is shown as it is.
        (
            DICT,
            DICT[8:-7],
            "{\n    'a': 1,\n}\n",
            "{\n    'b': 1,\n    'c': 2,\n}\n",
            DICT.replace("a': 1", "b': 1,\n        'c': 2"),
        ),
        (CALL, "f(a,\n             b)", "f(a,\n         b)\n", "f(a, b)\n", CALL.replace(",\n            ", ",")),
        (CALL, "a,\n             b", "a,\n         b\n", "b\n", CALL.replace("a,\n             b", "b")),
        (CALL, "a,\n             b", "a,\n         b\n", "a\n", CALL.replace("a,\n             b", "a")),
        (CALL, "b) + 1", "b) + 1\n", "b)\n", CALL.replace(" + 1", "")),
        ("x = a(\n    b)\n", "a(\n    b)", "a(\n    b)\n", "c()\na(\n    b)\n", "x = c()\na(\n    b)\n"),
        ("  x = (a +\n    b)\n", "(a +\n    b", "(a +\n  b\n", "(a +\n  b +\n  c\n", "  x = (a +\n    b +\n    c)\n"),
        # Blanks at the ends of a selection are not the model's.
        ("x = a + b\n", " a ", "a\n", "c\n", "x = c + b\n"),
        ("x = a + b\n", "a + b\n", "a + b\n", "c\n", "x = c\n"),
        ("x = (a +\n  b + c)\n", "(a +\n  b ", "(a +\n  b\n", "(a +\n  b +\n  d\n", "x = (a +\n  b +\n  d + c)\n"),
        ("x = (a +\n  b + c)\n", "a +\n  b ", "a +\n  b\n", "a\n", "x = (a + c)\n"),
        # A selection that begins at the end of a line, and one that ends in the next line's indentation.
        ("a\n  b\n  c\n", "\n  b\n", "b\n", "B\n", "a\n  B\n  c\n"),
        ("a\n  b\n  c\n", "  b\n  ", "b\n", "B\n", "a\n  B\n  c\n"),
        ("\ufeffx = a\n", "a", "a\n", "b\n", "\ufeffx = b\n"),
        ("\ufeffx = a\n", "\ufeffx", "x\n", "y\n", "\ufeffy = a\n"),
    ],
)
def test_of_a_line_that_is_selected_in_part_the_rest_stays(
    text: str, selected: str, source: str, new: str, expected: str
) -> None:
    document = Snapshot("file:///a", 1, text)
    region = find_region(document, text.index(selected), text.index(selected) + len(selected))
    form = Form.of(text[region.start : region.end], text[: region.start], text[region.end :])
    assert "".join(form.source) == source
    assert rewritten(text, source, selected) == text
    assert rewritten(text, new, selected) == expected


@pytest.mark.parametrize(
    ("text", "selected", "new", "expected"),
    [
        ("    total = f(a)\n", "f(a)", "total = g(a)\n", "    total = g(a)\n"),
        ("    total = f(a)\n", "f(a)", "    total = g(a)\n", "    total = g(a)\n"),
        ("    total = f(a);  // sum\n", "f(a)", "total = g(a);  // sum\n", "    total = g(a);  // sum\n"),
        ("    total = f(a);  // sum\n", "f(a)", "total = g(a)\n", "    total = total = g(a);  // sum\n"),
        ("f(a)\n", "a", "f(b)\n", "f(b)\n"),
        ("total = {\n  a\n}\n", "{\n  a\n}\n", "total = {\n  b\n}\n", "total = {\n  b\n}\n"),
        ("aa = aa\n", "aa\n", "aa + 1\n", "aa = aa + 1\n"),
        ("x(a)\n", "(a)\n", "x(a)(b)\n", "xx(a)(b)\n"),
    ],
)
def test_a_line_given_back_whole_for_a_part_does_not_stand_there_twice(
    text: str, selected: str, new: str, expected: str
) -> None:
    assert rewritten(text, new, selected) == expected


METHOD = "class A:\n{0}def f(self):\n{0}{0}return 1\n\n{0}x = 1\n"


SPACES = ("  ", "    ")


@pytest.mark.parametrize(
    ("unit", "theirs"), [(one, other) for one in (*SPACES, "\t") for other in (*SPACES, "\t") if "\t" in (one, other)]
)
@pytest.mark.parametrize("depth", [0, 1])
def test_an_answer_with_other_indentation_gets_the_documents(unit: str, theirs: str, depth: int) -> None:
    """Tabs for spaces and spaces for tabs, and the indentation that the file has rather than what was shown."""
    text = METHOD.format(unit)
    selected = text[text.index(unit) : text.index("\n\n") + 1]
    new = [
        theirs * depth,
        "def f(self) -> int:\n",
        theirs * (depth + 1),
        "if self:\n",
        theirs * (depth + 2),
        "return 1\n",
    ]
    after = rewritten(text, "".join(new), selected)
    assert (
        after
        == f"class A:\n{unit}def f(self) -> int:\n{unit}{unit}if self:\n{unit}{unit}{unit}return 1\n\n{unit}x = 1\n"
    )


@pytest.mark.parametrize(
    ("text", "new", "expected"),
    [
        # What aligns a comment is no indentation, and mixed indentation is left as it was written.
        (
            "\tf() {\n\t\t/*\n\t\t * a\n\t\t */\n\t}\n",
            "f() {\n    /*\n     * b\n     */\n}\n",
            "\tf() {\n\t\t/*\n\t\t * b\n\t\t */\n\t}\n",
        ),
        ("f:\n\ta\n  b\n", "f:\n\ta\n  b\n    c\n\td\n", "f:\n\ta\n  b\n    c\n\td\n"),
        # Blanks that are no indentation of the model's: it writes tabs.
        ("\ta\n\tb\n", "a\n\tf(`\n  b\n`)\nb\n", "\ta\n\t\tf(`\n\t  b\n\t`)\n\tb\n"),
        # A line alone: its own indentation and the file's tell.
        ("\ta\n", "a\n    b\n", "\ta\n\t\tb\n"),
        ("a\n", "a\n\tb\n", "a\n\tb\n"),
        ("    a\n", "a\n\tb\n", "    a\n        b\n"),
        # In a string every blank counts, but it stands there as it was.
        ("\tf('''\n  a\n''')\n", "\tf('''\n  a\n''')\n", "\tf('''\n  a\n''')\n"),
    ],
)
def test_tabs_and_spaces(text: str, new: str, expected: str) -> None:
    assert rewritten(text, new) == expected


TEXT = st.lists(st.sampled_from(["  ", "\t", "a", "}", "\n", "\r\n", "\r", "\f", "\u2028", "é", "\ufeff"]), max_size=25)
PLACES = st.tuples(st.integers(0, 25), st.integers(0, 25))


@given(TEXT.map("".join).filter(lambda text: not is_blank(text)))
def test_an_unchanged_answer_changes_nothing(text: str) -> None:
    form = Form.of(text)
    assert rewritten(text, "".join(form.source)) == text
    shown = [line.rstrip("\r\n") for line in form.lines[form.first : form.last]]
    restored = [form.restore(line).rstrip("\r\n") for line in form.source]
    restored[:1] = map(form.with_lead, restored[:1])
    assert [line for line in restored if line.strip()] == [line for line in shown if line.strip()]


@given(
    TEXT.map("".join),
    PLACES,
    st.lists(st.sampled_from(["a\n", "}\n", "  b\n", "\tc\n", "\n"]), max_size=6),
    st.booleans(),
)
def test_nothing_but_the_selection_changes(text: str, places: tuple[int, int], new: list[str], is_same: bool) -> None:
    start, end = sorted(min(each, len(text)) for each in places)
    if start == end:
        return
    document = Snapshot("file:///a", 1, text)
    try:
        region = find_region(document, start, end)
    except ConfigError:
        return
    selected = text[region.start : region.end]
    prompt = build_prompt(document, region, "x", "a")
    writing = Writing(prompt)
    answer = prompt.form.source if is_same else ["first\n", *new, "last\n"]
    writing.take(Event("writing", "".join([prompt.fence, "\n", *answer, prompt.fence, "\n"])))
    writing.take(Event("end", finish_reason="stop"))
    result = "".join(apply_hunks(writing.form.lines, writing.hunks))
    if is_same:
        assert result == selected and not writing.hunks
        return
    # Where the region began and ended inside a line it still does, and where it was whole lines, it still is.
    assert result.endswith(("\n", "\r")) == selected.endswith(("\n", "\r"))
    assert writing.form.head or result.startswith("\ufeff") >= selected.startswith("\ufeff")
    form = writing.form
    assert not (form.head and result[:1].isspace() and not selected[:1].isspace())


DEPTHS = st.lists(st.integers(0, 4), min_size=1, max_size=8)


@given(DEPTHS, st.sampled_from([2, 4, 8]), st.integers(0, 2))
def test_spaces_written_for_tabs_are_no_change(depths: list[int], width: int, outer: int) -> None:
    lines = ["\t" * depth + f"line {n}\n" for n, depth in enumerate([0, *depths])]
    text = "".join("\t" * outer + line for line in lines)
    assert rewritten(text, "".join(lines).replace("\t", " " * width)) == text


@given(DEPTHS, st.sampled_from([2, 4]), st.integers(0, 2))
def test_tabs_written_for_spaces_are_no_change(depths: list[int], width: int, outer: int) -> None:
    # No line is more than one step deeper than the one before it.
    for n, depth in enumerate(depths := [0, *depths]):
        depths[n] = min(depth, depths[n - 1] + 1) if n else 0
    unit = " " * width
    lines = [unit * depth + f"line {n}\n" for n, depth in enumerate(depths)]
    text = "".join(unit * outer + line for line in lines)
    assert rewritten(text, "".join(lines).replace(unit, "\t")) == text
