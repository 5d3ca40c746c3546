"""A rewrite that doesn't parse any more is known as such."""

import subprocess
import sys
import weakref

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents import Edit, Snapshot
from lsp_server.syntax import GRAMMARS, MAX_CHARS, WINDOW, breaks, parse

CODE = "def one():\n    return (1)\n\n\ndef two():\n    return 2\n"


def is_broken(text: str, old: str, new: str, language: str = "python") -> bool:
    """Whether putting new in place of old breaks a text."""
    start = text.index(old)
    return breaks(Snapshot("file:///a", 1, text, language), Edit(start, start + len(old), new))


@pytest.mark.parametrize(
    ("language", "old", "new"),
    [
        ("python", "return (1)", "return (1"),
        ("python", "return (1)", "return 1)"),
        ("python", "    return (1)", "return 1"),
        ("python", "    return (1)", "    a = 1\n      return a"),
        ("python", "    return (1)", "\ta = 1\n        return a"),
        ("javascript", "b();", "if (b) {"),
        ("javascriptreact", "b();", "return <b>;"),
        ("typescriptreact", "b();", "return <b>;"),
        ("json", "b", 'b": "'),
        ("go", "b()", "b("),
        ("rust", "b();", "let x ="),
        ("shellscript", "b", "if b; then"),
        ("cpp", "b();", "}"),
    ],
)
def test_what_parsed_and_does_not_any_more_is_broken(language: str, old: str, new: str) -> None:
    texts = {
        "python": CODE,
        "json": '{"a": "b"}\n',
        "go": "package a\n\nfunc a() {\n\tb()\n}\n",
        "rust": "fn a() {\n    b();\n}\n",
        "shellscript": "a() {\n  b\n}\n",
        "cpp": "int a() {\n  b();\n}\n",
    }
    text = texts.get(language, "function a() {\n  b();\n}\n")
    assert is_broken(text, old, new, language)
    assert not is_broken(text, old, old, language)


@pytest.mark.parametrize(
    "new", ["return 1", "return 1 if a else 2", "raise ValueError('😀')", "pass  # (", "a = '\\d'"]
)
def test_what_parses_is_not(new: str) -> None:
    assert not is_broken(CODE, "return (1)", new)


@pytest.mark.parametrize("language", ["", "plaintext", "no such language", "../python", "cobol", "perl"])
def test_without_a_grammar_nothing_is_known_to_be_broken(language: str) -> None:
    assert not is_broken(CODE, "return (1)", "return (1", language)


def test_in_a_text_that_was_broken_only_new_errors_count() -> None:
    broken = CODE.replace("return 2", "return (2")
    assert not is_broken(broken, "return (1)", "return 1")
    assert not is_broken(broken, "return (2", "return 2")
    assert not is_broken(broken, "return (2", "return [2")
    assert not is_broken(broken, "return (2", "return (2\n    return ((3")
    assert is_broken(broken, "return (1)", "return 1]]")


def test_a_large_file_is_parsed_around_the_edit() -> None:
    function = "def f():\n    return (1)\n\n\n"
    large = function * (2 * MAX_CHARS // len(function))
    middle = large.index("def", len(large) // 2)
    text = large[:middle] + "def g():\n    return (2)\n\n\n" + large[middle:]
    assert is_broken(text, "return (2)", "return (2")
    assert not is_broken(text, "return (2)", "return 2")
    assert parse("python", text, 0, len(text)) is None
    syntax = parse("python", text, middle, middle)
    assert syntax is not None
    assert syntax.root.end_byte < 2.1 * WINDOW
    assert not syntax.root.has_error


@given(st.text(), st.text(), st.integers(0, 20), st.integers(0, 20), st.sampled_from(["python", "html", "tsx"]))
def test_no_text_is_too_strange(text: str, new: str, one: int, other: int, language: str) -> None:
    start, end = sorted(min(each, len(text)) for each in (one, other))
    document = Snapshot("file:///a", 1, text, language)
    assert not breaks(document, Edit(start, end, text[start:end]))
    breaks(document, Edit(start, end, new))


@pytest.mark.parametrize("text", ["a", "(", '"', "f(a\n", "<a"])
def test_every_grammar_of_the_table_is_there_and_comes_to_an_end(text: str) -> None:
    for language in GRAMMARS:
        assert parse(language, text, 0, 1) is not None, language


def test_a_parse_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lsp_server.syntax.TIMEOUT_S", -1)
    assert parse("python", CODE * 500, 0, 1) is None
    assert not is_broken(CODE * 500, "return (1)", "return (1")


def test_grammars_are_loaded_when_they_are_needed_and_need_no_network() -> None:
    program = """
import socket, sys
from lsp_server import server
def no_network(*args): raise AssertionError("a grammar was fetched")
socket.socket.connect = socket.getaddrinfo = no_network
assert not any(name.startswith("tree_sitter") for name in sys.modules)
from lsp_server.documents import Edit, Snapshot
from lsp_server.syntax import breaks
assert breaks(Snapshot("file:///a", 1, "f(a)", "python"), Edit(0, 4, "f(a"))
assert any(name.startswith("tree_sitter") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_tree_that_nobody_needs_any_more_takes_no_memory() -> None:
    """1.7 MB a parse were kept by a circle through the tree, and the text by what the parser was handed."""
    text = "def f(a):\n    return a + 1\n" * 1500

    def size_after(n: int) -> int:
        for i in range(n):
            assert parse("python", f"{text}{i}\n", 0, 10) is not None
        return psutil.Process().memory_info().rss

    before = size_after(30)
    assert size_after(200) - before < 4_000_000


def test_a_tree_goes_with_the_last_who_holds_it() -> None:
    tree = weakref.ref(parse("python", CODE, 0, 10))
    assert tree() is None
