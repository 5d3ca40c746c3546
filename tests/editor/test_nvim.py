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
def editor(shared_editor: Editor) -> Editor:
    return shared_editor.renew(CODE, auto_accept=True)


@pytest.fixture
def own_editor(workshop: Workshop, engine: PacedEngine) -> Editor:
    """For tests that end servers and engines."""
    return workshop.open(CODE, {"server": {"url": engine.url}}, options={"auto_accept": True})


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


def test_escape_at_the_prompt_leaves_nothing_behind(editor: Editor, paced: PacedEngine) -> None:
    before = paced.counts()
    editor.nvim.input(":4,8Stet<CR>")
    wait_for(lambda: "Stet:" in editor.screen(), "the prompt")
    editor.type("<Esc>")
    assert editor.text() == CODE
    assert editor.marks() == 0
    assert editor.messages() == []
    assert {**paced.counts(), "n_prefills": 0} == {**before, "n_prefills": 0}, "nothing is written"


def test_the_stream_is_shown_outside_the_buffer(editor: Editor) -> None:
    start_slowly(editor)
    screen = editor.screen()
    assert "y = x * x" in screen, "the old line must stay in sight"
    assert "stet: " in screen, "the status must be in sight"
    assert editor.lua("return require('stet').status()") != ""
    editor.wait_for_text(renamed(CODE))
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    wait_for(lambda: editor.lua("return require('stet').status()") == "", "the status to go")


def test_what_comes_above_the_first_line_is_in_sight(editor: Editor) -> None:
    editor.renew("a = 1\nb = 2\n")
    editor.type(":1,2Stet slowly s/a/first/<CR>")
    editor.wait_for_preview("first = 1")


@pytest.mark.parametrize("command", ["StetCancel", "StetReject"])
def test_cancel_leaves_the_buffer_alone_and_the_engine_idle(editor: Editor, paced: PacedEngine, command: str) -> None:
    wait_until_idle(paced)
    before = paced.counts()
    start_slowly(editor)
    editor.type(f":{command}<CR>")
    passes = paced.counts()["n_passes"]
    wait_until_idle(paced)
    counts = paced.counts()
    assert counts["n_passes"] - passes <= 1
    assert (counts["n_finished"], counts["n_hung_up"]) == (before["n_finished"], before["n_hung_up"] + 1)
    assert editor.text() == CODE
    assert editor.marks() == 0
    assert [line for line in editor.messages() if "cancelled" not in line] == []


def test_closing_the_buffer_cancels(editor: Editor, paced: PacedEngine) -> None:
    wait_until_idle(paced)
    before = paced.counts()
    start_slowly(editor)
    editor.type(":bwipeout<CR>")
    wait_until_idle(paced)
    assert paced.counts()["n_hung_up"] == before["n_hung_up"] + 1
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


def test_an_edit_of_all_that_would_change_ends_the_rewrite_and_stays(editor: Editor, paced: PacedEngine) -> None:
    start_slowly(editor)
    editor.type("7Gx")
    edited = editor.text()
    assert edited != CODE
    wait_until_idle(paced)
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    wait_for(lambda: editor.messages(), "a message")
    assert len(editor.messages()) == 1
    assert editor.text() == edited


def test_a_killed_engine_is_said_in_one_line_and_the_next_rewrite_works(
    own_editor: Editor, engine: PacedEngine
) -> None:
    start_slowly(own_editor)
    engine.kill()
    wait_for(lambda: own_editor.messages(), "an error message")
    wait_for(lambda: own_editor.marks() == 0, "the preview to go")
    assert own_editor.text() == CODE
    assert len(own_editor.messages()) == 1
    engine.start()
    own_editor.type(":4,8Stet s/y/radius2/<CR>")
    own_editor.wait_for_text(renamed(CODE))


def test_a_dead_language_server_leaves_the_buffer_as_it_was(own_editor: Editor) -> None:
    start_slowly(own_editor)
    own_editor.lua("vim.lsp.get_clients({ name = 'stet' })[1].rpc.terminate()")
    wait_for(lambda: own_editor.marks() == 0, "the preview to go")
    assert own_editor.text() == CODE
    own_editor.type(":4,8Stet s/y/radius2/<CR>")
    own_editor.wait_for_message("no language server in this buffer")


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
    wait_for(lambda: sum("no rewrite to try again" in line for line in editor.messages()) == 2, "the second refusal")


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


def test_project_files_in_the_prompt_are_said_at_the_end(workshop: Workshop, engine: PacedEngine) -> None:
    (workshop.folder / ".git").mkdir()
    (workshop.folder / "AGENTS.md").write_text("Be brief.")
    editor = workshop.open(CODE, {"server": {"url": engine.url}}, options={"auto_accept": True})
    editor.type(":4,8Stet s/y/radius2/<CR>")
    editor.wait_for_message("copied, with AGENTS.md")


def test_two_servers_in_one_buffer_do_no_harm(own_editor: Editor) -> None:
    own_editor.lua("vim.lsp.start(vim.lsp.config.stet, { reuse_client = function() return false end })")
    ready = "return #vim.lsp.get_clients({ bufnr = 0, name = 'stet' }) == 2"
    wait_for(lambda: own_editor.lua(ready), "the second server")
    own_editor.type(":4,8Stet s/y/radius2/<CR>")
    own_editor.wait_for_text(renamed(CODE))
    own_editor.type("u")
    assert own_editor.text() == CODE
    own_editor.lua("vim.lsp.get_clients({ bufnr = 0, name = 'stet' })[1]:stop(true)")
    wait_for(lambda: own_editor.lua(ready.replace("== 2", "== 1")), "the first server to stop")
    own_editor.type(":4,8Stet s/y/radius2/<CR>")
    own_editor.wait_for_text(renamed(CODE))
