"""Which text is meant: characters, lines, function, file; and that nothing else changes, in any kind of file."""

import re

import pytest
from workshop import Editor, wait_for

pytestmark = pytest.mark.editor

CODE = """\
import math


def area(x):
    y = x * y + y
    y = y * math.pi
    return y


def rest(y):
    return y
"""


@pytest.fixture
def editor(shared_editor: Editor) -> Editor:
    return shared_editor.renew(CODE, auto_accept=True)


def renamed(text: str) -> str:
    return re.sub(r"\by\b", "radius", text)


@pytest.mark.parametrize(
    ("select", "first", "last"),
    [
        ("5GV:Stet ", 5, 5),
        ("6GVk:Stet ", 5, 6),
        ("5G<C-v>jl:Stet ", 5, 6),
        ("5GVj<Esc>gg:'<lt>,'>Stet ", 5, 6),
        ("5G:Stet ", 4, 7),
        (":%Stet ", 1, 11),
        (":.,$Stet ", 1, 11),
    ],
)
def test_a_rewrite_is_of_these_lines(editor: Editor, select: str, first: int, last: int) -> None:
    editor.type(f"{select}s/y/radius/<CR>")
    lines = CODE.splitlines(keepends=True)
    editor.wait_for_text("".join(renamed(line) if first <= n <= last else line for n, line in enumerate(lines, 1)))


@pytest.mark.parametrize(
    ("select", "wanted"),
    [
        ("5G0fxvt+", "    y = x * radius + y"),
        ("5G0fxvf*w", "    y = x * radius + y"),
        ("5G0f+vB", "    y = x * radius + y"),
        ("5G0f+v$", "    y = x * y + radius"),
        ("5G^v", "    radius = x * y + y"),
    ],
)
def test_a_selection_of_characters_is_meant_to_the_character(editor: Editor, select: str, wanted: str) -> None:
    """By the command and by the map; what stands before and after it on its lines stays."""
    after = CODE.replace("    y = x * y + y", wanted)
    editor.type(f"{select}:Stet s/y/radius/<CR>")
    editor.wait_for_text(after)
    editor.type("u")
    assert editor.text() == CODE
    editor.lua("vim.keymap.set('x', 'gs', '<Plug>(stet)')")
    editor.nvim.input(f"{select}gs")
    wait_for(lambda: "Stet:" in editor.screen(), "the prompt")
    editor.type("s/y/radius/<CR>")
    editor.wait_for_text(after)
    assert editor.nvim.api.get_mode()["mode"] == "n"


def test_characters_over_several_lines(editor: Editor) -> None:
    editor.type("5G$vjf*:Stet s/y/radius/<CR>")
    editor.wait_for_text(CODE.replace("* y + y\n    y = y *", "* y + radius\n    radius = radius *"))


def test_lines_that_were_typed_are_not_the_selection_that_was(editor: Editor) -> None:
    """`:5Stet` after characters of line 5 were selected."""
    editor.type("5G^v<Esc>:5,5Stet s/y/radius/<CR>")
    editor.wait_for_text(CODE.replace("    y = x * y + y", "    radius = x * radius + radius"))


def test_a_map_of_a_command_takes_the_selection(editor: Editor) -> None:
    editor.lua("vim.keymap.set('x', 'gs', ':Stet s/y/radius/<CR>')")
    editor.lua("vim.keymap.set('x', 'gS', '<Cmd>Stet s/y/radius/<CR>')")
    for key in ("gs", "gS"):
        editor.type(f"5G^v{key}")
        editor.wait_for_text(CODE.replace("    y = x", "    radius = x"))
        editor.type("<Esc>u")
        assert editor.text() == CODE


def test_a_selection_ends_before_the_cursor_if_the_user_says_so(editor: Editor) -> None:
    editor.type(":set selection=exclusive<CR>5G0fxvf+:Stet s/[+]/-/<CR>")
    editor.wait_for_message("nothing to change")
    editor.type(":set selection=inclusive<CR>")
    assert editor.text() == CODE


CRLF = "a = 1\r\n\r\nb = {0}\r\nc = {0}\r\n"
TABS = "if a:\n\tx = 1\n\tif {0}:\n\t\treturn {0}\t# {0}\n"
EMOJI = 's = "🙂🙂"\n\nt = "👩\u200d🚀e\u0301" + {0} + "🙂"\nq = {0}\n'
NO_FINAL_NEWLINE = "a\n\n{0}\n{0}"


@pytest.mark.parametrize("template", [CRLF, TABS, EMOJI, NO_FINAL_NEWLINE])
@pytest.mark.parametrize("keys", [":3,4Stet s/a/z/<CR>dO", "3G0vGg_:Stet s/a/z/<CR>dO"], ids=["lines", "characters"])
def test_bytes_outside_the_change_stay(shared_editor: Editor, template: str, keys: str) -> None:
    before, after = template.format("a"), template.format("z")
    editor = shared_editor.renew(before)
    ask, accept = keys[:-2], keys[-2:]
    editor.type(ask)
    editor.wait_for_preview("change 1/")
    editor.type(accept)
    wait_for(lambda: "z" in editor.text() and editor.marks() == 0, "the rewrite")
    editor.type(":set nofixeol | write<CR>")
    assert editor.file.read_bytes() == after.encode()
    editor.type("u:write<CR>")
    assert editor.file.read_bytes() == before.encode()


def test_the_preview_of_characters_shows_whole_lines(shared_editor: Editor) -> None:
    """A part of a line is shown with what stands before and after it, and only the part is marked."""
    editor = shared_editor.renew('s = "🙂é" + a * a + "🙂"\n')
    editor.type("0faviw:Stet s/a/long_name/<CR>")
    editor.wait_for_preview("change 1/1")
    assert 's = "🙂é" + long_name * a + "🙂"' in editor.screen()
    editor.type("do")
    editor.wait_for_text('s = "🙂é" + long_name * a + "🙂"\n')


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_places_are_sent_in_the_server_s_units(editor: Editor, encoding: str) -> None:
    editor.lua("vim.api.nvim_set_current_line('🙂é x')")
    editor.type("$")
    here = {"line": 0, "character": {"utf-8": 7, "utf-16": 4, "utf-32": 3}[encoding]}
    assert editor.lua("return require('stet.range').cursor(...)", encoding) == {"start": here, "end": here}
    editor.type("0v")
    start = {"line": 0, "character": 0}
    smiley = {"line": 0, "character": {"utf-8": 4, "utf-16": 2, "utf-32": 1}[encoding]}
    assert editor.lua("return require('stet.range').selection(...)", encoding) == {"start": start, "end": smiley}
