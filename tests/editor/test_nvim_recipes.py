"""Ready-made instructions, reported problems, code actions; and the history of what was asked."""

import pytest
from workshop import Editor, Workshop, wait_for

pytestmark = pytest.mark.editor

CODE = "def f(y):\n    return y\n"
PROJECT = '[recipes.rename]\ntitle = "Rename y"\ninstruction = "s/y/radius/"\n'
AFTER = "def f(radius):\n    return radius\n"


@pytest.fixture
def editor(shared_workshop: Workshop, shared_editor: Editor) -> Editor:
    (shared_workshop.folder / ".git").mkdir(exist_ok=True)
    (shared_workshop.folder / ".stet.toml").write_text(PROJECT)
    return shared_editor.renew(CODE)


def test_recipes_are_completed(editor: Editor) -> None:
    found = editor.lua("return vim.fn.getcompletion('Stet ', 'cmdline')")
    assert {"type-hints", "docstring", "simplify", "project.rename"} <= set(found)
    assert editor.lua("return vim.fn.getcompletion('Stet proj', 'cmdline')") == ["project.rename"]


def test_a_recipe_may_be_named_in_the_command(editor: Editor) -> None:
    editor.type(":Stet project.rename<CR>")
    editor.wait_for_preview("change 1/1")
    editor.type("dO")
    editor.wait_for_text(AFTER)


def test_one_word_that_is_no_recipe_is_an_instruction(editor: Editor) -> None:
    editor.type(":%Stet s/y/radius/<CR>")
    editor.wait_for_preview("change 1/1")
    assert editor.lua("return require('stet.rewrite').last") == {"instruction": "s/y/radius/"}


def test_a_recipe_is_picked_from_a_list(editor: Editor) -> None:
    editor.lua(
        """
        vim.ui.select = function(items, opts, on_choice)
          Titles = vim.tbl_map(opts.format_item, items)
          on_choice(vim.iter(items):find(function(item) return item.id == 'project.rename' end))
        end
        """
    )
    editor.type(":StetRecipe<CR>")
    editor.wait_for_preview("change 1/1")
    titles = editor.lua("return Titles")
    assert "Rename y (project)" in titles and "Simplify" in titles


def test_each_folder_has_the_recipes_of_its_own_project(editor: Editor, shared_workshop: Workshop) -> None:
    other = shared_workshop.folder / "other"
    (other / ".git").mkdir(parents=True, exist_ok=True)
    (other / ".stet.toml").write_text(PROJECT.replace("recipes.rename", "recipes.twist").replace("radius", "twisted"))
    (other / "b.py").write_text(CODE)
    editor.nvim.command(f"silent split {other / 'b.py'}")
    editor.wait_for_server()
    assert editor.lua("return vim.fn.getcompletion('Stet proj', 'cmdline')") == ["project.twist"]
    editor.type(":Stet project.twist<CR>")
    editor.wait_for_preview("change 1/1")
    editor.type("dO")
    editor.wait_for_text(AFTER.replace("radius", "twisted"))
    editor.type("<C-w>p")
    assert editor.text() == CODE
    assert editor.lua("return vim.fn.getcompletion('Stet proj', 'cmdline')") == ["project.rename"]


DIAGNOSE = """
vim.diagnostic.set(vim.api.nvim_create_namespace('linter'), 0, {
  { lnum = 0, col = 6, end_col = 7, message = 's/y/radius/', severity = 1, source = 'linter', code = 'E1' },
  { lnum = 0, col = 4, end_col = 5, message = 's/f/area/' },
  { lnum = 1, col = 4, message = 'far away' },
})
"""


def test_what_is_reported_at_the_cursor_is_fixed(editor: Editor) -> None:
    """Diagnostics of anybody; of several on a line the one at the cursor."""
    editor.lua(DIAGNOSE)
    editor.type("gg06l:StetFix<CR>")
    editor.wait_for_preview("change 1/1")
    editor.type("dO")
    editor.wait_for_text(AFTER)


def test_what_is_reported_in_a_range_is_fixed_together(editor: Editor) -> None:
    editor.lua(DIAGNOSE)
    editor.type(":%StetFix<CR>")
    editor.wait_for_preview("change 1/1")
    editor.type("dO")
    editor.wait_for_text(AFTER.replace("f(", "area("))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_diagnostic_goes_to_the_server_in_its_units(editor: Editor, encoding: str) -> None:
    editor.lua("vim.api.nvim_set_current_line('🙂 = y')")
    editor.lua(DIAGNOSE)
    editor.type("gg$")
    sent = editor.lua("return require('stet.fix').diagnostics(nil, ...)", encoding)
    by = {"utf-8": 0, "utf-16": 2}[encoding]
    place = {"start": {"line": 0, "character": 6 - by}, "end": {"line": 0, "character": 7 - by}}
    assert [(each["message"], each["range"]) for each in sent][:1] == [("s/y/radius/", place)]


def test_where_nothing_is_reported_it_says_so(editor: Editor) -> None:
    editor.type(":StetFix<CR>")
    editor.wait_for_message("nothing is reported here")


def test_code_actions_are_shown_first_like_any_rewrite(editor: Editor) -> None:
    editor.lua(
        """
        vim.lsp.buf.code_action({ apply = true, filter = function(action)
          return action.title == 'Stet: Rename y (project)'
        end })
        """
    )
    editor.wait_for_preview("change 1/1")
    assert editor.text() == CODE
    editor.type("dO")
    editor.wait_for_text(AFTER)
    editor.type("u")
    assert editor.text() == CODE


def test_earlier_instructions_are_in_the_history_of_the_prompt(editor: Editor) -> None:
    editor.type(":%Stet s/y/radius/ please<CR>")
    editor.wait_for_preview("change 1/1")
    editor.type("dP")
    editor.nvim.input(":%Stet<CR>")
    wait_for(lambda: "Stet:" in editor.screen(), "the prompt")
    editor.nvim.input("<Up>")
    wait_for(lambda: "s/y/radius/ please" in editor.screen().splitlines()[-1], "the earlier instruction")
    editor.type("<CR>")
    editor.wait_for_preview("change 1/1")


def test_a_repeated_fix_takes_what_is_reported_there(editor: Editor) -> None:
    editor.lua(DIAGNOSE)
    editor.type("gg06l:StetFix<CR>")
    editor.wait_for_preview("change 1/1")
    editor.type("dPgg04l:StetRepeat<CR>")
    editor.wait_for_preview("change 1/1")
    assert "def area(y)" in editor.screen()
