"""Several rewrites in one buffer, side by side: each command means the one at the cursor."""

import re

import pytest
from workshop import Editor, wait_for

pytestmark = pytest.mark.editor

FUNCTION = "def f{n}(y):\n    # Number {n}.\n    return y\n\n\n"
CODE = "".join(FUNCTION.format(n=n) for n in range(6))


@pytest.fixture
def editor(shared_editor: Editor) -> Editor:
    return shared_editor.renew(CODE)


def rewritten(text: str, n: int, new: str) -> str:
    """The text with y of one function renamed."""
    pattern = rf"def f{n}\(.*?(?=def|\Z)"
    return re.sub(pattern, lambda match: re.sub(r"\by\b", new, match[0]), text, flags=re.S)


def start(editor: Editor, n: int, how: str = "") -> None:
    editor.type(f":{5 * n + 1},{5 * n + 3}Stet {how}s/y/r{n}/<CR>")


def test_rewrites_live_side_by_side_and_the_cursor_chooses(editor: Editor) -> None:
    for n in (0, 2, 4):
        start(editor, n, "slowly ")
    wait_for(lambda: editor.lua("return #require('stet.jobs').shown(vim.api.nvim_get_current_buf())") == 3, "three")
    proposed = "return vim.iter(require('stet.jobs').shown(vim.api.nvim_get_current_buf()))"
    wait_for(lambda: editor.lua(proposed + ":all(require('stet.jobs').is_proposed)"), "three proposals")
    screen = editor.screen()
    assert all(f"def f{n}(r{n}):" in screen for n in (0, 2, 4))
    assert editor.text() == CODE
    editor.type("12GdO")
    editor.wait_for_text(rewritten(CODE, 2, "r2"))
    editor.type("GdP")
    assert "def f4(r4)" not in editor.screen() and "def f0(r0)" in editor.screen()
    editor.type("gg:StetAccept<CR>")
    after = rewritten(rewritten(CODE, 2, "r2"), 0, "r0")
    editor.wait_for_text(after)
    wait_for(lambda: editor.marks() == 0, "the previews to go")
    editor.type("u")
    assert editor.text() == rewritten(CODE, 2, "r2")


def test_one_may_be_cancelled_while_another_goes_on(editor: Editor) -> None:
    """The second is a long one, which would take half a minute."""
    long = "".join(f"# y {n}\n" for n in range(120))
    editor.renew(CODE + long)
    start(editor, 0, "slowly ")
    editor.type(":31,$Stet slowly s/y/late/<CR>")
    editor.wait_for_preview("def f0(r0):")
    editor.type("G<Esc>")
    editor.wait_for_message("cancelled")
    editor.type("gg")
    editor.wait_for_preview("change 1/2")
    editor.type("dO")
    editor.wait_for_text(rewritten(CODE, 0, "r0") + long)
    wait_for(lambda: editor.marks() == 0, "the previews to go")


def test_typing_moves_all_of_them(editor: Editor) -> None:
    for n in (1, 3):
        start(editor, n)
        editor.wait_for_preview(f"def f{n}(r{n}):")
    editor.type("ggOtyped<CR><Esc>18GOtyped too<Esc>")
    typed = editor.text()
    editor.type("gg]c]cdO")
    editor.wait_for_text(rewritten(typed, 1, "r1"))
    editor.type("dO")
    editor.wait_for_text(rewritten(rewritten(typed, 1, "r1"), 3, "r3"))


def test_a_rewrite_of_the_same_lines_takes_the_place_of_the_older_one(editor: Editor) -> None:
    start(editor, 1)
    editor.wait_for_preview("def f1(r1):")
    editor.type(":6,8Stet s/y/newer/<CR>")
    editor.wait_for_preview("def f1(newer):")
    assert "def f1(r1):" not in editor.screen()
    assert editor.wait_for_message("took this one's place")
    editor.type("dO")
    editor.wait_for_text(rewritten(CODE, 1, "newer"))


def test_a_command_from_another_buffer_says_that_there_is_nothing(editor: Editor) -> None:
    start(editor, 0)
    editor.wait_for_preview("change 1/2")
    editor.type(":enew<CR>:StetAccept<CR>")
    editor.wait_for_message("no rewrite to accept in this buffer")
    assert editor.text() == "\n"
