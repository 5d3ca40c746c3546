"""A proposal change by change: go there, accept, reject, undo; the keys for it, and what is drawn in between."""

import re

import pytest
from workshop import Editor, wait_for

pytestmark = pytest.mark.editor

PART = "def f{n}(y):\n    # Number {n},\n    # and more.\n    return y\n\n\n"
CODE = "".join(PART.format(n=n) for n in range(3))
"""Six changes for a rewrite of y, apart from each other."""


@pytest.fixture
def editor(shared_editor: Editor) -> Editor:
    return shared_editor.renew(CODE)


def renamed(text: str) -> str:
    return re.sub(r"\by\b", "radius", text)


def with_changes(text: str, *numbers: int) -> str:
    """The text with these of its lines rewritten."""
    lines = text.splitlines(keepends=True)
    return "".join(renamed(line) if n in numbers else line for n, line in enumerate(lines, 1))


def propose(editor: Editor, command: str = "%Stet s/y/radius/") -> None:
    editor.type(f":{command}<CR>")
    editor.wait_for_preview("change ")


def row(editor: Editor) -> int:
    return int(editor.lua("return vim.fn.line('.')"))


def wait_until_over(editor: Editor) -> None:
    wait_for(lambda: editor.marks() == 0, "the preview to go")


def test_what_is_done_is_shown_and_nothing_applied(editor: Editor) -> None:
    propose(editor)
    assert editor.text() == CODE
    assert "change 1/6: do accept · dp reject · dO dP all · ]c [c move" in editor.screen()
    editor.type("dO")
    editor.wait_for_text(renamed(CODE))
    wait_until_over(editor)
    editor.type("u")
    assert editor.text() == CODE


def test_one_goes_from_change_to_change_and_round_the_end(editor: Editor) -> None:
    propose(editor)
    seen = []
    for key in ["]c"] * 6 + ["[c"] * 2:
        editor.type(key)
        seen.append(row(editor))
    assert seen == [4, 7, 10, 13, 16, 1, 16, 13]
    editor.type("dP")
    assert (editor.text(), editor.marks()) == (CODE, 0)
    editor.type(":StetNext<CR>")
    editor.wait_for_message("no change to go to")


def test_changes_are_accepted_and_rejected_one_by_one(editor: Editor) -> None:
    """The cursor goes on to the next change, and the hint shows which one is meant."""
    propose(editor)
    editor.type("do")
    editor.wait_for_text(with_changes(CODE, 1))
    assert row(editor) == 4
    editor.type("dp")
    wait_for(lambda: "change 1/4:" in editor.screen(), "the rest")
    assert row(editor) == 7
    editor.type("Gdo")
    editor.wait_for_text(with_changes(CODE, 1, 16))
    editor.type("dO")
    editor.wait_for_text(with_changes(CODE, 1, 7, 10, 13, 16))
    wait_until_over(editor)
    for text in (with_changes(CODE, 1, 16), with_changes(CODE, 1), CODE):
        editor.type("u")
        assert editor.text() == text


def test_accepts_may_be_pressed_faster_than_they_are_done(editor: Editor) -> None:
    propose(editor)
    editor.type("dodododododo")
    editor.wait_for_text(renamed(CODE))
    wait_until_over(editor)
    assert editor.messages() == []
    for n in (13, 10, 7, 4, 1):
        editor.type("u")
        assert editor.text() == with_changes(CODE, *range(1, n + 1))
    editor.type("u")
    assert editor.text() == CODE


def virtual_lines(editor: Editor) -> dict[int, str]:
    """What is drawn as new, by the line of the buffer (from 1) that it is drawn below."""
    shown = editor.lua(
        """
        local shown = {}
        local ns = vim.api.nvim_get_namespaces().stet
        for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, ns, 0, -1, { details = true })) do
          for _, line in ipairs(mark[4].virt_lines or {}) do
            local text = vim.iter(line):map(function(chunk) return chunk[1] end):join('')
            table.insert(shown, { mark[2] + (mark[4].virt_lines_above and 0 or 1), text })
          end
        end
        return shown
        """
    )
    return {line: text for line, text in shown}


def test_the_preview_stays_right_through_accepts_typing_and_undo(editor: Editor) -> None:
    propose(editor)
    heads = {1: "def f0(radius):", 7: "def f1(radius):", 13: "def f2(radius):"}
    tails = {4: "    return radius", 10: "    return radius", 16: "    return radius"}
    assert virtual_lines(editor) == heads | tails
    editor.type("7Gdo")
    editor.wait_for_text(with_changes(CODE, 7))
    del heads[7]
    assert virtual_lines(editor) == heads | tails
    editor.type("2GOtyped<CR>typed<Esc>")

    def moved(by: int = 2) -> dict[int, str]:
        return {line + (by if line > 1 else 0): text for line, text in (heads | tails).items()}

    wait_for(lambda: virtual_lines(editor) == moved(), "the preview to have moved")
    editor.type("u")
    wait_for(lambda: virtual_lines(editor) == moved(0), "the preview to move back")
    editor.type("u")
    assert editor.text() == CODE
    wait_for(lambda: virtual_lines(editor) == moved(0), "the preview of what is left")
    editor.type("ggO<Esc>")
    assert editor.text() == "\n" + CODE
    wait_for(lambda: set(virtual_lines(editor)) == {2, 5, 11, 14, 17}, "the preview one line on")
    editor.type("dO")
    editor.wait_for_text("\n" + with_changes(CODE, 1, 4, 10, 13, 16))


def test_a_change_whose_line_is_edited_goes_from_the_review(editor: Editor) -> None:
    propose(editor)
    editor.type("4GA + 1<Esc>")
    wait_for(lambda: "/5:" in editor.screen(), "five changes")
    editor.wait_for_message("a change was dropped: you edited the lines")
    editor.type("ggdo")
    typed = CODE.replace("return y", "return y + 1", 1)
    editor.wait_for_text(with_changes(typed, 1))
    assert row(editor) == 7


def buffer_keys(editor: Editor) -> dict[str, str]:
    maps = editor.lua(
        "return vim.tbl_map(function(m) return { m.lhs, m.rhs or '' } end, vim.api.nvim_buf_get_keymap(0, 'n'))"
    )
    return {lhs: rhs for lhs, rhs in maps if "stet" in rhs or "mine" in rhs}


def test_keys_are_there_as_long_as_a_proposal_is(editor: Editor) -> None:
    """They are those of diff mode: where there is nothing to review they do no more than complain."""
    assert buffer_keys(editor) == {}
    editor.type(":%Stet slowly s/y/radius/<CR>")
    editor.wait_for_preview("radius")
    assert set(buffer_keys(editor)) == {"<Esc>"}
    editor.wait_for_preview("change 1/6")
    assert set(buffer_keys(editor)) == {"do", "dp", "dO", "dP", "]c", "[c"}
    editor.type("dP")
    assert buffer_keys(editor) == {}
    editor.type("ggdodpdOdP")
    assert editor.text() == CODE


def test_a_map_of_the_user_s_own_stays(editor: Editor) -> None:
    editor.lua("vim.keymap.set('n', ']c', ':mine<CR>', { buffer = true })")
    propose(editor)
    assert buffer_keys(editor)["]c"] == ":mine<CR>"
    assert "[c move" in editor.screen() and "]c" not in editor.screen()
    editor.type("dP")
    assert buffer_keys(editor) == {"]c": ":mine<CR>"}


def test_keys_can_be_chosen_or_left_out(editor: Editor) -> None:
    editor.lua("vim.g.stet = { keys = { accept = 'ga', reject = false } }")
    propose(editor)
    assert "change 1/6: ga accept · dO dP all" in editor.screen()
    editor.type("dP")
    editor.lua("vim.g.stet = { keys = false }")
    propose(editor)
    assert "change 1/6: :StetAccept or :StetReject" in editor.screen()
    assert buffer_keys(editor) == {}
    editor.type(":StetAcceptHunk<CR>")
    editor.wait_for_text(with_changes(CODE, 1))
    editor.type(":StetRejectHunk<CR>:StetPrevious<CR>")
    assert row(editor) == 16
    editor.type(":StetReject<CR>")
    assert (editor.text(), editor.marks()) == (with_changes(CODE, 1), 0)


def test_without_a_proposal_commands_say_so(editor: Editor) -> None:
    for command, wanted in {"StetAcceptHunk": "accept", "StetRejectHunk": "reject"}.items():
        editor.type(f":{command}<CR>")
        editor.wait_for_message(f"no change to {wanted} in this buffer")
