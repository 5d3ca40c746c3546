"""Neovim without the plugin: nothing but vim.lsp, as a plain LSP client. Code actions, one edit, one undo step."""

import json
from collections.abc import Iterator

import pytest
from workshop import Editor, PacedEngine, Workshop, program, wait_for

pytestmark = pytest.mark.editor

CODE = "def f(y):\n    return y\n"
AFTER = "def f(radius):\n    return radius\n"
CHOOSE = """
vim.lsp.buf.code_action({ apply = true, filter = function(action)
  return action.title == 'Stet: Rename y (project)'
end })
"""


@pytest.fixture
def editor(workshop: Workshop, engine: PacedEngine) -> Iterator[Editor]:
    (workshop.folder / ".git").mkdir()
    recipe = '[recipes.rename]\ntitle = "Rename y"\ninstruction = "s/y/radius/"\n'
    (workshop.folder / ".stet.toml").write_text(recipe)
    server = {
        "cmd": [program("stet", "pip install -e ."), "lsp"],
        "filetypes": ["python"],
        "root_markers": [".git"],
        "init_options": {"server": {"url": engine.url}},
    }
    yield workshop.open_with(
        f"vim.lsp.config('stet', vim.json.decode({json.dumps(json.dumps(server))}))\nvim.lsp.enable('stet')", CODE
    )


def test_a_code_action_is_one_edit_and_one_undo_step(editor: Editor) -> None:
    assert editor.lua("return vim.fn.exists(':Stet')") == 0, "the plugin must not be there"
    editor.lua(CHOOSE)
    editor.wait_for_text(AFTER)
    editor.type("u")
    assert editor.text() == CODE
    editor.lua(CHOOSE)
    editor.wait_for_text(AFTER)


def test_actions_are_offered_for_what_is_reported(editor: Editor) -> None:
    titles = """
    local client = vim.lsp.get_clients({ name = 'stet' })[1]
    local params = vim.lsp.util.make_range_params(0, client.offset_encoding)
    local range = params.range
    params.context = { triggerKind = 1, diagnostics = { { range = range, message = 'y is too short' } } }
    local answer = client:request_sync('textDocument/codeAction', params, 5000, vim.api.nvim_get_current_buf())
    return vim.tbl_map(function(action) return action.title end, answer.result)
    """
    assert {"Stet: Fix: y is too short", "Stet: Rename y (project)", "Stet: Simplify"} <= set(editor.lua(titles))


def test_progress_is_reported_as_by_any_server(editor: Editor) -> None:
    editor.lua(
        """
        Kinds = {}
        vim.api.nvim_create_autocmd('LspProgress', { callback = function(event)
          table.insert(Kinds, event.data.params.value.kind)
        end })
        """
    )
    editor.lua(CHOOSE)
    editor.wait_for_text(AFTER)
    wait_for(lambda: "end" in editor.lua("return Kinds"), "the end of the progress")
    assert editor.lua("return Kinds")[0] == "begin"
