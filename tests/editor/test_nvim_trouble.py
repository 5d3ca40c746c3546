"""What can't be done is said in one line, before a rewrite is paid for; settings of a wrong type cost nothing."""

from typing import Any

import pytest
from workshop import Editor, wait_for

pytestmark = pytest.mark.editor

CODE = "".join(f"def f{n}(y):\n    return y\n\n\n" for n in range(3))


@pytest.fixture
def editor(shared_editor: Editor) -> Editor:
    return shared_editor.renew(CODE)


def propose(editor: Editor, lines: str = "%") -> None:
    editor.type(f":{lines}Stet s/y/radius/<CR>")
    editor.wait_for_preview("def f0(radius)")


def test_a_buffer_without_a_name_is_refused_before_a_rewrite(editor: Editor) -> None:
    editor.nvim.command("enew | setfiletype python")
    editor.nvim.current.buffer[:] = ["y = 1"]
    editor.wait_for_server()
    editor.type(":Stet s/y/radius/<CR>")
    editor.wait_for_message("give the buffer a name first (:file NAME)")
    assert editor.marks() == 0


def test_a_buffer_that_can_not_be_changed_is_refused_before_a_rewrite(editor: Editor) -> None:
    editor.nvim.command("setlocal nomodifiable")
    editor.type(":%Stet s/y/radius/<CR>")
    editor.wait_for_message("this buffer can't be changed: 'modifiable' is off")
    editor.nvim.command("setlocal modifiable")
    assert (editor.text(), editor.marks()) == (CODE, 0)


def test_a_proposal_outlives_a_buffer_that_can_not_be_changed(editor: Editor) -> None:
    propose(editor)
    editor.nvim.command("setlocal nomodifiable")
    editor.type("dO")
    editor.wait_for_message("'modifiable' is off in this buffer")
    editor.nvim.command("setlocal modifiable")
    editor.type("dO")
    editor.wait_for_text(CODE.replace("y", "radius"))
    assert len(editor.messages()) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (5, "vim.g.stet must be a table, not 5"),
        ({"keys": True}, "vim.g.stet.keys must be a table or false, not true"),
        ({"keys": {"accept": 6}}, "vim.g.stet.keys.accept must be a string or false, not 6"),
        ({"auto_accept": "no"}, 'vim.g.stet.auto_accept must be true or false, not "no"'),
    ],
)
def test_a_setting_of_a_wrong_type_is_said_once_and_its_default_taken(editor: Editor, options: Any, said: str) -> None:
    editor.lua("vim.g.stet = ...", options)
    propose(editor)
    editor.wait_for_message(f"{said}: the default is taken")
    wait_for(lambda: "do accept" in editor.screen(), "the hint with the usual keys")
    assert editor.text() == CODE
    assert len(editor.messages()) == 1


def test_a_long_message_of_the_server_does_not_wait_for_a_key(editor: Editor) -> None:
    editor.type("Go")
    editor.lua(
        """
        local client = vim.lsp.get_clients({ bufnr = 0, name = 'stet' })[1]
        local params = { type = 2, message = 'Stet: ' .. ('far too long '):rep(30) .. 'end' }
        client.handlers['window/showMessage'](nil, params, { client_id = client.id })
        """
    )
    editor.type("typed on")
    assert editor.text() == CODE + "typed on\n"
    assert editor.wait_for_message("far too long end").startswith("stet: far too long")


def test_a_buffer_that_is_read_anew_loses_its_proposal_and_that_is_said(editor: Editor) -> None:
    propose(editor)
    editor.type(":edit!<CR>")
    editor.wait_for_message("the buffer was read anew, which ends its rewrite")
    assert (editor.text(), editor.marks()) == (CODE, 0)


def test_again_means_the_proposal_at_the_cursor_before_what_changed_nothing(editor: Editor) -> None:
    propose(editor, "1,2")
    editor.type(":9,10Stet s/nothing/q/<CR>")
    editor.wait_for_message("nothing to change")
    editor.type("gg:StetAgain<CR>")
    # The engine writes the same again: that there is no other version is said of a proposal only.
    editor.wait_for_message("no other version: it came out unchanged")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("user.nope", "there is no recipe user.nope here (:StetRecipe lists them)"),
        ("project.nope", "there is no recipe project.nope here (:StetRecipe lists them)"),
        ("fix-diagnostic", "use :StetFix"),
    ],
)
def test_a_recipe_that_is_not_there_is_no_instruction(editor: Editor, words: str, said: str) -> None:
    editor.type(f":%Stet {words}<CR>")
    editor.wait_for_message(said)
    assert editor.marks() == 0


def test_while_one_is_written_again_and_refine_say_so(editor: Editor) -> None:
    editor.type(":%Stet slowly s/y/radius/<CR>")
    editor.wait_for_preview("tokens")
    for command in ("StetAgain", "StetRefine more of it"):
        editor.nvim.command("messages clear")
        editor.type(f":{command}<CR>")
        editor.wait_for_message("still being written")
    editor.type(":StetCancel<CR>")
    editor.wait_for_message("cancelled")
