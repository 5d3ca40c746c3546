"""What is shown beside the text: figures, provenance, Neovim's own diff; and Esc, which stops what runs."""

import re

import pytest
from workshop import Editor, wait_for

pytestmark = pytest.mark.editor

CODE = "".join(f"def f{n}(y):\n    # Number {n}.\n    return y\n\n\n" for n in range(3))


@pytest.fixture
def editor(shared_editor: Editor) -> Editor:
    return shared_editor.renew(CODE)


def renamed(text: str) -> str:
    return re.sub(r"\by\b", "radius", text)


def propose(editor: Editor) -> None:
    editor.type(":%Stet s/y/radius/<CR>")
    editor.wait_for_preview("change ")


def test_a_status_line_is_told_all_figures(editor: Editor) -> None:
    editor.lua(
        """
        Infos = {}
        vim.api.nvim_create_autocmd('User', { pattern = 'StetChanged', callback = function()
          table.insert(Infos, require('stet').info() or false)
        end })
        """
    )
    editor.type(":%Stet slowly s/y/radius/<CR>")
    wait_for(
        lambda: re.search(r"\d+ tokens, .*copied, \d+ s left", editor.lua("return require('stet').status()")), "ETA"
    )
    editor.wait_for_preview("change 1/6")
    editor.type("dP")
    infos = editor.lua("return Infos")
    writing = [info for info in infos if info and info["state"] == "writing"]
    assert all(info["tokens"] > 0 and info["copied_share"] == 0.75 for info in writing)
    assert any(info.get("tokens_per_second", 0) > 0 and info.get("eta", 0) > 0 for info in writing)
    proposed = next(info for info in infos if info and info["state"] == "proposed")
    assert (proposed["n_changes"], proposed.get("eta")) == (6, None)
    assert infos[-1] is False
    assert editor.lua("return require('stet').status()") == ""


def test_escape_stops_what_runs_and_never_a_proposal(editor: Editor) -> None:
    editor.type(":%Stet slowly s/y/radius/<CR>")
    editor.wait_for_preview("(<Esc> cancels)")
    editor.type("Gotyped<Esc>")
    assert editor.marks() > 0, "Escape that leaves the insert mode must not cancel"
    editor.type("<Esc>")
    assert editor.marks() == 0
    editor.wait_for_message("cancelled")
    assert editor.text() == CODE + "typed\n"
    propose(editor)
    editor.type("<Esc><Esc>")
    assert "change 6/6" in editor.screen()


def chunks(editor: Editor) -> list[tuple[str, str]]:
    """What is drawn as new, with its highlight groups."""
    found = editor.lua(
        """
        local found = {}
        local ns = vim.api.nvim_get_namespaces().stet
        for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, ns, 0, -1, { details = true })) do
          for _, line in ipairs(mark[4].virt_lines or {}) do
            vim.list_extend(found, line)
          end
        end
        return found
        """
    )
    return [(text, group) for text, group in found if text]


def test_what_the_model_wrote_can_be_told_from_what_was_copied(editor: Editor) -> None:
    propose(editor)
    differs = chunks(editor)
    assert ("radius", "StetWord") in differs and ("def f0(", "StetAdd") in differs
    editor.type(":StetProvenance<CR>")
    told = chunks(editor)
    assert {group for _, group in told} == {"StetWritten", "StetCopied"}
    assert "".join(text for text, _ in told) == "".join(text for text, _ in differs)
    editor.type(":StetProvenance<CR>")
    assert chunks(editor) == differs


def windows(editor: Editor) -> list[tuple[str, bool]]:
    """Of the current tab: text and whether it is in diff mode."""
    shown = editor.lua(
        """
        return vim.tbl_map(function(window)
          local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
          return { table.concat(lines, '\\n') .. '\\n', vim.wo[window].diff }
        end, vim.api.nvim_tabpage_list_wins(0))
        """
    )
    return [(text, diff) for text, diff in shown]


def layout(editor: Editor) -> tuple[int, int, int]:
    """Tabs, windows, buffers."""
    counts = editor.lua("return { #vim.api.nvim_list_tabpages(), #vim.api.nvim_list_wins(), #vim.fn.getbufinfo() }")
    return tuple(counts)


def test_the_diff_is_neovim_s_own_and_follows_the_review(editor: Editor) -> None:
    before = layout(editor)
    propose(editor)
    editor.type(":StetDiff<CR>")
    assert windows(editor) == [(CODE, True), (renamed(CODE), True)]
    editor.type("gg:StetAcceptHunk<CR>")
    accepted = CODE.replace("def f0(y)", "def f0(radius)")
    editor.wait_for_text(accepted)
    wait_for(lambda: windows(editor) == [(accepted, True), (renamed(CODE), True)], "the diff of the rest")
    editor.type("dO")
    editor.wait_for_text(renamed(CODE))
    wait_for(lambda: layout(editor) == before, "the diff to close")
    assert editor.lua("return vim.wo.diff") is False


@pytest.mark.parametrize(
    "keys", [":StetDiff<CR>", "<C-w>lq", ":quit<CR>", "<C-w>l:close<CR>:StetDiff<CR>:StetDiff<CR>"]
)
def test_the_diff_closes_without_a_trace(editor: Editor, keys: str) -> None:
    before = layout(editor)
    propose(editor)
    editor.type(":StetDiff<CR>")
    assert layout(editor) == (before[0] + 1, before[1] + 2, before[2] + 1)
    editor.type(keys)
    wait_for(lambda: layout(editor) == before, "the diff to close")
    assert editor.lua("return { vim.wo.diff, vim.wo.scrollbind, vim.wo.foldmethod }") == [False, False, "manual"]
    assert "change 1/6" in editor.screen(), "the proposal stands"


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (":StetAccept<CR>", renamed(CODE)),
        ("dO", renamed(CODE)),
        ("dP", CODE),
        ("8Gdo", CODE.replace("1.\n    return y", "1.\n    return radius")),
        ("dp]cdo", CODE.replace("def f1(y)", "def f1(radius)")),
    ],
)
def test_what_is_said_in_the_proposed_text_is_meant_for_the_buffer(editor: Editor, keys: str, text: str) -> None:
    propose(editor)
    editor.type(":StetDiff<CR><C-w>l")
    editor.type(keys)
    wait_for(lambda: windows(editor)[0][0] == text, "the buffer to change")
    assert editor.messages() == []


def test_the_hint_in_a_diff_ends_between_its_parts(editor: Editor) -> None:
    propose(editor)
    editor.type(":StetDiff<CR>")
    assert re.search("change 1/6: do accept · dp reject +│", editor.screen())


def test_a_closed_fold_at_the_cursor_opens_for_a_rewrite(editor: Editor) -> None:
    editor.type(":1,4fold<CR>gg:Stet s/y/radius/<CR>")
    editor.wait_for_preview("change 1/2")
    assert "def f0(radius)" in editor.screen()


def test_a_proposal_out_of_sight_is_told_of(editor: Editor) -> None:
    editor.renew(CODE + "\n" * 50 + CODE)
    editor.type(":66,$Stet s/y/radius/<CR>")
    editor.wait_for_message("done: the first of 6 changes is in line 66 (]c)")


def test_without_a_proposal_there_is_no_diff(editor: Editor) -> None:
    editor.type(":StetDiff<CR>")
    editor.wait_for_message("no proposal to compare with")


def test_in_the_diff_nothing_is_drawn_that_shifts_a_side(editor: Editor) -> None:
    propose(editor)
    drawn = chunks(editor)
    assert drawn
    editor.type(":StetDiff<CR>")
    assert chunks(editor) == []
    editor.type(":StetDiff<CR>")
    assert chunks(editor) == drawn


def with_changes(editor: Editor) -> int:
    """How many rewrites have changes to show."""
    count: int = editor.lua(
        """
        local n = 0
        for _, group in ipairs(require('stet.jobs').groups()) do
          for _, job in ipairs(group.jobs) do n = n + math.min(#job.hunks, 1) end
        end
        return n
        """
    )
    return count


@pytest.mark.parametrize("asked", [":StetRefine slowly s/radius/other/<CR>", ":11,13Stet s/y/other/<CR>"])
def test_nor_is_anything_of_what_is_asked_meanwhile(editor: Editor, asked: str) -> None:
    editor.type(":1,3Stet s/y/radius/<CR>")
    editor.wait_for_preview("change ")
    editor.type(":StetDiff<CR>" + asked)
    wait_for(lambda: with_changes(editor) == 2, "a change of the second rewrite")
    assert chunks(editor) == []
    editor.type(":StetDiff<CR>")
    assert chunks(editor) != []


def test_the_diff_goes_with_its_buffer(editor: Editor) -> None:
    propose(editor)
    editor.type(":StetDiff<CR>")
    editor.type(":bwipeout!<CR>")
    wait_for(lambda: windows(editor) == [("\n", False)], "the diff to close")
    assert editor.messages() == []


def test_the_hint_is_whole_in_a_narrow_window(editor: Editor) -> None:
    propose(editor)
    keys = ["do accept", "dp reject", "dO dP all", "]c [c move"]
    editor.type(":vnew<CR>:vertical resize 75<CR><C-w>p")
    assert editor.lua("return vim.fn.winwidth(0)") < 30
    wait_for(lambda: all(key in editor.screen() for key in keys), "all keys in the hint")
    editor.type(":only<CR>")
    wait_for(lambda: " · ".join(keys) in editor.screen(), "the hint in one line again")
