"""What the Neovim plugin promises, in a real Neovim against the real language server.

The engine is a stand-in (paced_engine.py): it carries out `s/old/new/` on the source, one line a pass.
"""

import re
import time

import pytest
from workshop import Editor, PacedEngine, Workshop, wait_for

pytestmark = pytest.mark.editor

CODE = """\
import math


def area(x):
    # The area of a circle.
    y = x * x
    y = y * math.pi
    return y


def rest(x):
    return x
"""
SLOW = "slowly s/y/radius2/"


@pytest.fixture
def editor(workshop: Workshop, engine: PacedEngine) -> Editor:
    return workshop.open(CODE, {"server": {"url": engine.url}})


def renamed(text: str) -> str:
    return re.sub(r"\by\b", "radius2", text)


def start_slowly(editor: Editor, preview: str = "radius2 = x * x") -> None:
    """Start a rewrite that takes a second or two, and wait until the first of it is on the screen."""
    editor.type(f":4,8Stet {SLOW}<CR>")
    editor.wait_for_preview(preview)
    assert editor.text() == CODE


def wait_until_idle(engine: PacedEngine) -> None:
    wait_for(lambda: engine.counts()["n_active"] == 0, "the engine to be idle")


def test_a_rewrite_is_applied_and_one_undo_takes_it_back(editor: Editor) -> None:
    editor.type(":4,8Stet s/y/radius2/<CR>")
    editor.wait_for_text(renamed(CODE))
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    editor.type("u")
    assert editor.text() == CODE
    editor.type("<C-r>")
    assert editor.text() == renamed(CODE)


def test_without_a_range_the_block_at_the_cursor_is_rewritten(editor: Editor) -> None:
    editor.type("6G:Stet s/x/radius/<CR>")
    head, rest = CODE.split("def rest")
    editor.wait_for_text(re.sub(r"\bx\b", "radius", head) + "def rest" + rest)


def test_without_an_instruction_it_asks_and_warms_up_meanwhile(editor: Editor) -> None:
    editor.lua(
        """
        Asked = {}
        vim.api.nvim_create_autocmd('LspRequest', { callback = function(event)
          local request = event.data.request
          if vim.startswith(request.method, 'stet/') then
            table.insert(Asked, request.method .. ' ' .. request.type)
          end
        end })
        """
    )
    editor.nvim.input(":4,8Stet<CR>")
    wait_for(lambda: editor.nvim.api.get_mode()["mode"] == "c" and "Stet:" in editor.screen(), "the prompt")
    assert editor.lua("return Asked[1]") == "stet/prepare pending"
    editor.nvim.input("s/y/radius2/<CR>")
    editor.wait_for_text(renamed(CODE))


def test_escape_at_the_prompt_leaves_nothing_behind(editor: Editor, engine: PacedEngine) -> None:
    editor.nvim.input(":4,8Stet<CR>")
    wait_for(lambda: "Stet:" in editor.screen(), "the prompt")
    editor.type("<Esc>")
    assert editor.text() == CODE
    assert editor.marks() == 0
    assert editor.messages() == []
    assert engine.counts()["n_finished"] == 0


def test_the_stream_is_shown_outside_the_buffer(editor: Editor) -> None:
    start_slowly(editor)
    screen = editor.screen()
    assert "y = x * x" in screen, "the old line must stay in sight"
    assert "stet: " in screen, "the status must be in sight"
    assert editor.lua("return require('stet').status()") != ""
    editor.wait_for_text(renamed(CODE))
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    wait_for(lambda: editor.lua("return require('stet').status()") == "", "the status to go")


def test_what_comes_above_the_first_line_is_in_sight(workshop: Workshop, engine: PacedEngine) -> None:
    editor = workshop.open("a = 1\nb = 2\n", {"server": {"url": engine.url}})
    editor.type(":1,2Stet slowly s/a/first/<CR>")
    editor.wait_for_preview("first = 1")


@pytest.mark.parametrize("command", ["StetCancel", "StetReject"])
def test_cancel_leaves_the_buffer_alone_and_the_engine_idle(editor: Editor, engine: PacedEngine, command: str) -> None:
    start_slowly(editor)
    editor.type(f":{command}<CR>")
    passes = engine.counts()["n_passes"]
    wait_until_idle(engine)
    counts = engine.counts()
    assert counts["n_passes"] - passes <= 1
    assert (counts["n_finished"], counts["n_hung_up"]) == (0, 1)
    assert editor.text() == CODE
    assert editor.marks() == 0
    assert [line for line in editor.messages() if "cancelled" not in line] == []


def test_closing_the_buffer_cancels(editor: Editor, engine: PacedEngine) -> None:
    start_slowly(editor)
    editor.type(":bwipeout<CR>")
    wait_until_idle(engine)
    assert engine.counts()["n_hung_up"] == 1
    assert editor.marks() == 0
    assert editor.messages() == []
    assert editor.file.read_text() == CODE


def test_typing_elsewhere_goes_on_undisturbed(editor: Editor) -> None:
    """Lines added above move the range; the insert mode is never left; each undo takes back one thing."""
    start_slowly(editor)
    editor.type("ggO")
    for key in "# first":
        editor.type("<Space>" if key == " " else key)
        time.sleep(0.05)
    typed = "# first\n" + CODE
    editor.wait_for_text("# first\n" + renamed(CODE))
    assert editor.nvim.api.get_mode()["mode"] == "i"
    editor.type("!<Esc>")
    assert editor.text() == "# first!\n" + renamed(CODE)
    editor.type("u")
    assert editor.text() == "# first\n" + renamed(CODE)
    editor.type("u")
    assert editor.text() == typed
    editor.type("u")
    assert editor.text() == CODE


def test_an_edit_of_all_that_would_change_ends_the_rewrite_and_stays(editor: Editor, engine: PacedEngine) -> None:
    start_slowly(editor)
    editor.type("7Gx")
    edited = editor.text()
    assert edited != CODE
    wait_until_idle(engine)
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    wait_for(lambda: editor.messages(), "a message")
    assert len(editor.messages()) == 1
    assert editor.text() == edited


def test_a_killed_engine_is_said_in_one_line_and_the_next_rewrite_works(editor: Editor, engine: PacedEngine) -> None:
    start_slowly(editor)
    engine.kill()
    wait_for(lambda: editor.messages(), "an error message")
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    assert editor.text() == CODE
    assert len(editor.messages()) == 1
    engine.start()
    editor.type(":4,8Stet s/y/radius2/<CR>")
    editor.wait_for_text(renamed(CODE))


def test_a_dead_language_server_leaves_the_buffer_as_it_was(editor: Editor) -> None:
    start_slowly(editor)
    editor.lua("vim.lsp.get_clients({ name = 'stet' })[1].rpc.terminate()")
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    assert editor.text() == CODE
    editor.type(":4,8Stet s/y/radius2/<CR>")
    editor.wait_for_message("no language server in this buffer")


CRLF = "a = 1\r\n\r\nb = {0}\r\nc = {0}\r\n"
TABS = "if a:\n\tx = 1\n\tif {0}:\n\t\treturn {0}\t# {0}\n"
EMOJI = 's = "🙂🙂"\n\nt = "👩\u200d🚀e\u0301" + {0} + "🙂"\nq = {0}\n'
NO_FINAL_NEWLINE = "a\n\n{0}\n{0}"


@pytest.mark.parametrize("template", [CRLF, TABS, EMOJI, NO_FINAL_NEWLINE])
def test_bytes_outside_the_change_stay(workshop: Workshop, engine: PacedEngine, template: str) -> None:
    before, after = template.format("a"), template.format("z")
    editor = workshop.open(before, {"server": {"url": engine.url}})
    editor.type(":3,4Stet s/a/z/<CR>")
    wait_for(lambda: "z" in editor.text() and editor.marks() == 0, "the rewrite")
    editor.type(":set nofixeol | write<CR>")
    assert editor.file.read_bytes() == after.encode()
    editor.type("u:write<CR>")
    assert editor.file.read_bytes() == before.encode()


def test_without_auto_accept_the_user_decides(editor: Editor) -> None:
    editor.lua("vim.g.stet = { auto_accept = false }")
    editor.type(":4,8Stet s/y/radius2/<CR>")
    editor.wait_for_preview("radius2 = x * x")
    editor.type(":StetReject<CR>")
    assert (editor.text(), editor.marks()) == (CODE, 0)
    editor.type(":4,8Stet s/y/radius2/<CR>")
    editor.wait_for_preview("radius2 = x * x")
    editor.type("ggO# above<Esc>:StetAccept<CR>")
    editor.wait_for_text("# above\n" + renamed(CODE))


def test_with_a_warning_the_user_decides(editor: Editor) -> None:
    editor.type(":4,8Stet s/y = x[^~]*return y//<CR>")
    editor.wait_for_message("the model left off the last 3 lines")
    assert editor.text() == CODE
    assert editor.marks() > 0
    editor.type(":StetAccept<CR>")
    editor.wait_for_text(CODE[: CODE.index("    y = x")] + CODE[CODE.index("\n\ndef rest") :])


def test_a_key_between_accept_and_edit_costs_nothing(editor: Editor) -> None:
    """The edit is for a version that is gone by then: refused, asked for again, applied."""
    editor.lua(
        """
        local edit = require('stet.edit')
        local apply = edit.apply
        edit.apply = function(...)
          edit.apply = apply
          vim.api.nvim_buf_set_lines(0, 0, 0, false, { '# pressed' })
          return apply(...)
        end
        """
    )
    editor.type(":4,8Stet s/y/radius2/<CR>")
    editor.wait_for_text("# pressed\n" + renamed(CODE))


def test_a_rewrite_that_changes_nothing_says_so(editor: Editor) -> None:
    editor.type(":4,8Stet s/nowhere/found/<CR>")
    editor.wait_for_message("nothing to change")
    assert (editor.text(), editor.marks()) == (CODE, 0)


def test_again_repeats_a_rewrite_that_changed_nothing(editor: Editor) -> None:
    editor.type(":StetAgain<CR>")
    editor.wait_for_message("no rewrite to try again")
    editor.type(":4,8Stet firmly s/y/radius2/<CR>")
    editor.wait_for_message("nothing to change (:StetAgain")
    editor.type("gg:StetAgain<CR>")
    editor.wait_for_text(renamed(CODE))
    editor.type("u:StetAgain<CR>")
    wait_for(lambda: editor.messages()[-1] == "stet: no rewrite to try again in this buffer", "the second refusal")


def test_again_does_not_follow_edits(editor: Editor) -> None:
    editor.type(":4,8Stet firmly s/y/radius2/<CR>")
    editor.wait_for_message("nothing to change (:StetAgain")
    editor.type("ggO# above<Esc>:StetAgain<CR>")
    editor.wait_for_message("the buffer has changed since")
    assert editor.text() == "# above\n" + CODE


def test_commands_without_a_rewrite_say_so(editor: Editor) -> None:
    for command in ("StetAccept", "StetReject", "StetCancel"):
        editor.type(f":{command}<CR>")
        editor.wait_for_message(f"no rewrite to {command.removeprefix('Stet').lower()}")


def test_a_buffer_without_a_server_says_so(editor: Editor) -> None:
    editor.type(":enew<CR>:Stet do something<CR>")
    editor.wait_for_message("no language server in this buffer")


def test_a_long_error_does_not_wait_for_a_key(editor: Editor) -> None:
    editor.type("Go")
    editor.lua(
        """
        vim.lsp.get_clients({ name = 'stet' })[1].request = function(_, _, _, handler)
          handler({ message = ('far too long '):rep(30) .. 'end' })
          return true, 1
        end
        vim.cmd('Stet anything')
        """
    )
    editor.type("typed on")
    assert editor.text() == CODE + "typed on\n"
    editor.wait_for_message("far too long end")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_the_cursor_is_sent_in_the_server_s_units(editor: Editor, encoding: str) -> None:
    editor.lua("vim.api.nvim_set_current_line('🙂é x')")
    editor.type("$")
    here = {"line": 0, "character": {"utf-8": 7, "utf-16": 4, "utf-32": 3}[encoding]}
    assert editor.lua("return require('stet.range').cursor(...)", encoding) == {"start": here, "end": here}


@pytest.mark.parametrize("select", ["8GVk", "7Gfyvjh"])
def test_a_selection_means_its_lines(editor: Editor, select: str) -> None:
    editor.type(f"{select}:Stet s/y/radius2/<CR>")
    head, tail = CODE.split("    y = y * math.pi")
    editor.wait_for_text(head + renamed("    y = y * math.pi" + tail))


def test_the_plug_map_asks_for_a_selection_s_rewrite(editor: Editor) -> None:
    editor.lua("vim.keymap.set({ 'n', 'x' }, 'gs', '<Plug>(stet)')")
    editor.type("7GVjgss/y/radius2/<CR>")
    head, tail = CODE.split("    y = y * math.pi")
    editor.wait_for_text(head + renamed("    y = y * math.pi" + tail))
    assert editor.nvim.api.get_mode()["mode"] == "n"


def test_a_stale_edit_is_refused_not_skipped_in_silence(editor: Editor) -> None:
    answer = editor.lua(
        """
        local buf = vim.api.nvim_get_current_buf()
        local version = vim.lsp.util.buf_versions[buf]
        vim.api.nvim_buf_set_lines(buf, 0, 1, false, { 'typed' })
        local start = { line = 1, character = 0 }
        local edit = { range = { start = start, ['end'] = start }, newText = 'stale' }
        local document = { uri = vim.uri_from_bufnr(buf), version = version }
        local client = vim.lsp.get_clients({ name = 'stet' })[1]
        local params = { edit = { documentChanges = { { textDocument = document, edits = { edit } } } } }
        return client.handlers['workspace/applyEdit'](nil, params, { client_id = client.id })
        """
    )
    assert answer["applied"] is False
    assert "stale" not in editor.text()


def test_checkhealth_finds_nothing_broken(editor: Editor) -> None:
    editor.type(":checkhealth stet<CR>")
    wait_for(lambda: "answered in" in editor.text(), "the report")
    report = editor.text()
    assert "ERROR" not in report, report
    assert "Neovim 0.1" in report


def test_project_files_in_the_prompt_are_said_at_the_end(workshop: Workshop, engine: PacedEngine) -> None:
    (workshop.folder / ".git").mkdir()
    (workshop.folder / "AGENTS.md").write_text("Be brief.")
    editor = workshop.open(CODE, {"server": {"url": engine.url}})
    editor.type(":4,8Stet s/y/radius2/<CR>")
    editor.wait_for_message("copied, with AGENTS.md")


def test_two_servers_in_one_buffer_do_no_harm(editor: Editor) -> None:
    editor.lua("vim.lsp.start(vim.lsp.config.stet, { reuse_client = function() return false end })")
    ready = "return #vim.lsp.get_clients({ bufnr = 0, name = 'stet' }) == 2"
    wait_for(lambda: editor.lua(ready), "the second server")
    editor.type(":4,8Stet s/y/radius2/<CR>")
    editor.wait_for_text(renamed(CODE))
    editor.type("u")
    assert editor.text() == CODE
    editor.lua("vim.lsp.get_clients({ bufnr = 0, name = 'stet' })[1]:stop(true)")
    wait_for(lambda: editor.lua(ready.replace("== 2", "== 1")), "the first server to stop")
    editor.type(":4,8Stet s/y/radius2/<CR>")
    editor.wait_for_text(renamed(CODE))
