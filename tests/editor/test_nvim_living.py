"""Editing in the lines that are being rewritten, in a real Neovim against the real language server."""

import re

import pytest
from workshop import Editor, wait_for

pytestmark = pytest.mark.editor

BODY = "".join(f"    # Number {{n}}, {word}.\n" for word in ("first", "second", "third"))
APART = "".join(f"def f{n}(y):\n{BODY.format(n=n)}    return y\n\n\n" for n in range(3))


def renamed(text: str) -> str:
    return re.sub(r"\by\b", "radius2", text)


def start_apart(shared_editor: Editor, **options: bool) -> Editor:
    """A slow rewrite of three functions, in a buffer of nothing else; the first of its hunks is on the screen."""
    editor = shared_editor.renew(APART, **options)
    editor.type(":%Stet slowly s/y/radius2/<CR>")
    editor.wait_for_preview("def f0(radius2)")
    return editor


def test_typing_inside_the_range_but_outside_its_changes_costs_nothing(shared_editor: Editor) -> None:
    editor = start_apart(shared_editor, auto_accept=True)
    editor.type("10GAtyped<Esc>Go# end<Esc>ggO# top<Esc>")
    typed = editor.text()
    assert "second.typed" in typed and typed.startswith("# top\n") and typed.endswith("# end\n")
    editor.wait_for_text(renamed(typed))
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    assert [line for line in editor.messages() if "dropped" in line] == []
    editor.type("u")
    assert editor.text() == typed


def test_a_change_whose_line_is_edited_is_dropped_and_said_once(shared_editor: Editor) -> None:
    editor = start_apart(shared_editor)
    editor.wait_for_preview("def f2(radius2)")
    editor.type("5GA + 1<Esc>")
    editor.wait_for_message("a change was dropped: you edited the lines")
    wait_for(lambda: "/5: do" in editor.screen(), "the proposal")
    shown = editor.screen()
    assert (shown.count("(radius2)"), shown.count("return radius2")) == (3, 2)
    typed = editor.text()
    editor.type(":StetAccept<CR>")
    editor.wait_for_text(renamed(typed).replace("return radius2 + 1", "return y + 1"))
    assert len([line for line in editor.messages() if "dropped" in line]) == 1


def test_the_words_that_differ_stand_out(shared_editor: Editor) -> None:
    editor = shared_editor.renew(APART)
    editor.type(":5,5Stet s/y/radius2/<CR>")
    editor.wait_for_preview("change 1/1")
    marked = editor.lua(
        """
        local words = {}
        local marks = vim.api.nvim_buf_get_extmarks(0, vim.api.nvim_get_namespaces().stet, 0, -1, { details = true })
        for _, mark in ipairs(marks) do
          if mark[4].hl_group == 'StetWord' then
            table.insert(words, vim.api.nvim_buf_get_text(0, mark[2], mark[3], mark[4].end_row, mark[4].end_col, {})[1])
          end
          for _, line in ipairs(mark[4].virt_lines or {}) do
            vim.list_extend(words, vim.iter(line):filter(function(chunk) return chunk[2] == 'StetWord' end)
              :map(function(chunk) return chunk[1] end):totable())
          end
        end
        table.sort(words)
        return words
        """
    )
    assert marked == ["radius2", "y"]
