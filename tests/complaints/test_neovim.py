"""What only a real editor can show: undo, marks, windows, keys, other language servers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from workshop import Editor, PacedEngine, Workshop, paced_engine, wait_for, workshop_in

pytestmark = pytest.mark.editor

CODE = "import math\n\n\n" + "".join(f"def f{n}(x):\n    y = x + {n}\n    return y\n\n\n" for n in range(8))
SLOW = "slowly s/y/total/"
AFTER = re.sub(r"\by\b", "total", CODE)

OTHER_SERVER = """
Seen = { changes = 0, errors = {} }
vim.lsp.start({
  name = 'other',
  offset_encoding = 'utf-16',
  cmd = function()
    return {
      request = function(method, _, callback)
        local sync = { openClose = true, change = 2 }
        callback(nil, { capabilities = { positionEncoding = 'utf-16', textDocumentSync = sync } })
        return true, 1
      end,
      notify = function(method)
        if method == 'textDocument/didChange' then
          Seen.changes = Seen.changes + 1
        end
        return true
      end,
      is_closing = function() return false end,
      terminate = function() end,
    }
  end,
})
"""


@pytest.fixture
def engine() -> Iterator[PacedEngine]:
    with paced_engine() as engine:
        yield engine


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    with workshop_in(tmp_path) as workshop:
        yield workshop


@pytest.fixture
def nvim(workshop: Workshop, engine: PacedEngine) -> Editor:
    return workshop.open(CODE, {"server": {"url": engine.url}}, options={"auto_accept": True})


def start_slowly(nvim: Editor) -> None:
    """Begin a rewrite of the whole file, and wait until the first of it is in sight."""
    nvim.type(f":%Stet {SLOW}<CR>")
    nvim.wait_for_preview("total = x + 0")


def is_over(nvim: Editor) -> bool:
    return bool(nvim.lua("return require('stet').status()") == "" and nvim.marks() == 0)


def trouble(nvim: Editor) -> list[str]:
    """Messages that tell of anything but a rewrite that went well."""
    return [line for line in nvim.messages() if not re.match(r"stet: \d+ tokens", line)]


@pytest.mark.complaint(28, "avante-corp/avante.nvim#1776")
@pytest.mark.parametrize("keys", [":4,6Stet ", "4GVjj:Stet ", "5G:Stet ", "4GVjj<Esc>gg:'<lt>,'>Stet "])
def test_a_range_may_be_given_in_any_way(nvim: Editor, keys: str) -> None:
    nvim.type(f"{keys}s/y/total/<CR>")
    nvim.wait_for_text(CODE.replace("y = x + 0\n    return y", "total = x + 0\n    return total"))
    assert trouble(nvim) == []


@pytest.mark.complaint(32, "David-Kunz/gen.nvim#50")
def test_the_selection_is_replaced_though_the_prompt_ended_it(nvim: Editor) -> None:
    nvim.lua("vim.keymap.set('x', 'gs', '<Plug>(stet)')")
    nvim.nvim.input("4GVjjgs")
    wait_for(lambda: "Stet:" in nvim.screen(), "the prompt")
    nvim.type("s/y/total/<CR>")
    nvim.wait_for_text(CODE.replace("y = x + 0\n    return y", "total = x + 0\n    return total"))


@pytest.mark.complaint(35, "jim-at-jibba/nvim-redraft#5")
def test_the_rewrite_goes_to_its_own_buffer_and_leaves_no_marks(nvim: Editor) -> None:
    start_slowly(nvim)
    mine = nvim.nvim.current.buffer
    nvim.type(":enew<CR>iother text<Esc>")
    wait_for(lambda: mine[:] == AFTER.splitlines(), "the rewrite of the hidden buffer")
    assert nvim.text() == "other text\n"
    wait_for(lambda: nvim.marks() == 0, "the marks to go")


@pytest.mark.complaint(36, "Robitx/gp.nvim#20")
def test_one_may_move_and_open_windows_meanwhile(nvim: Editor) -> None:
    start_slowly(nvim)
    nvim.type("G<C-w>s<C-w>wggjj<C-w>v:tabnew<CR>:tabclose<CR>10G<C-w>q")
    nvim.wait_for_text(AFTER)
    assert trouble(nvim) == []


@pytest.mark.complaint(37, "Robitx/gp.nvim#74")
def test_undo_meanwhile_is_no_error(nvim: Editor) -> None:
    nvim.type(":10,12Stet slowly s/y/total/<CR>")
    nvim.wait_for_preview("total = x + 1")
    nvim.type("ggO# mine<Esc>u")
    text = CODE.replace("y = x + 1\n    return y", "total = x + 1\n    return total")
    nvim.wait_for_text(text)
    assert trouble(nvim) == []
    nvim.type("u")
    assert nvim.text() == CODE


@pytest.mark.complaint(38, "avante-corp/avante.nvim#1821")
def test_other_servers_see_one_change_not_the_stream(nvim: Editor) -> None:
    nvim.lua(OTHER_SERVER)
    wait_for(lambda: nvim.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 2, "the other server")
    tick = nvim.lua("return vim.b.changedtick")
    start_slowly(nvim)
    assert nvim.lua("return vim.b.changedtick") == tick
    assert nvim.lua("return Seen.changes") == 0
    nvim.wait_for_text(AFTER)
    wait_for(lambda: nvim.lua("return Seen.changes") > 0, "the other server to be told")
    assert nvim.lua("return Seen.changes") == 1
    assert trouble(nvim) == []


@pytest.mark.complaint(39, "microsoft/vscode#188832")
@pytest.mark.complaint(46, "microsoft/vscode#213563")
def test_cancel_keeps_what_was_typed_and_the_next_try_starts_from_it(nvim: Editor) -> None:
    nvim.type(":10,12Stet slowly s/y/wrong/<CR>")
    nvim.wait_for_preview("wrong = x + 1")
    nvim.type("ggO# mine<Esc>:StetCancel<CR>")
    assert nvim.text() == "# mine\n" + CODE
    nvim.type(":11,13Stet s/y/total/<CR>")
    changed = CODE.replace("y = x + 1\n    return y", "total = x + 1\n    return total")
    nvim.wait_for_text("# mine\n" + changed)


@pytest.mark.complaint(41, "gsuuon/model.nvim#18")
@pytest.mark.complaint(42, "microsoft/vscode#275061")
def test_one_undo_takes_all_of_it_back(nvim: Editor) -> None:
    """Eight hunks, which came in eighty pieces."""
    nvim.type(":%Stet s/y/total/<CR>")
    nvim.wait_for_text(AFTER)
    assert nvim.lua("return vim.fn.undotree().seq_cur") == 1
    nvim.type("u")
    assert nvim.text() == CODE


@pytest.mark.complaint(43, "cursor/cursor#1781")
@pytest.mark.complaint(47, "microsoft/vscode#260840")
def test_each_undo_takes_back_one_thing(nvim: Editor) -> None:
    """What was typed, a rewrite, another rewrite: three steps back, three forth."""
    texts = [CODE, "import os\n" + CODE]
    nvim.type("ggOimport os<Esc>")
    for first, n in ((5, 0), (10, 1)):
        old = f"y = x + {n}\n    return y"
        texts.append(texts[-1].replace(old, old.replace("y", "total")))
        nvim.type(f":{first},{first + 2}Stet s/y/total/<CR>")
        nvim.wait_for_text(texts[-1])
        wait_for(lambda: is_over(nvim), "the rewrite to be over")
    for text in reversed(texts[:-1]):
        nvim.type("u")
        assert nvim.text() == text
    for text in texts[1:]:
        nvim.type("<C-r>")
        assert nvim.text() == text


@pytest.mark.complaint(48, "cursor/cursor#2978")
def test_no_key_that_edits_means_accept_or_reject(nvim: Editor) -> None:
    """Those that do are there in normal mode as long as a proposal is, and do nothing else in Neovim."""
    nvim.lua("vim.g.stet = {}")

    def keys() -> set[str]:
        found = nvim.lua(
            """
            local found = {}
            for _, mode in ipairs({ 'n', 'i', 'x', 's', 'o', 'c', 't' }) do
              for _, list in ipairs({ vim.api.nvim_get_keymap(mode), vim.api.nvim_buf_get_keymap(0, mode) }) do
                for _, map in ipairs(list) do
                  if (map.desc or ''):find('Stet') and not vim.startswith(map.lhs, '<Plug>') then
                    table.insert(found, mode .. ' ' .. map.lhs)
                  end
                end
              end
            end
            return found
            """
        )
        return set(found)

    assert keys() == set()
    start_slowly(nvim)
    assert keys() == {"n <Esc>"}
    nvim.wait_for_preview("change 1/")
    assert keys() == {f"n {key}" for key in ("do", "dp", "dO", "dP", "]c", "[c")}
    nvim.type("dP")
    assert keys() == set()
    for key in ("do", "dp", "dO", "dP"):
        nvim.type(key)
    assert nvim.text() == CODE


@pytest.mark.complaint(50, "avante-corp/avante.nvim#626")
def test_nothing_is_saved_and_nothing_applied_unseen(nvim: Editor) -> None:
    nvim.lua("vim.g.stet = {}; vim.o.autowrite = true")
    start_slowly(nvim)
    wait_for(lambda: "change 1/" in nvim.screen(), "the proposal")
    assert nvim.text() == CODE and not nvim.nvim.current.buffer.options["modified"]
    nvim.type(":StetAccept<CR>")
    nvim.wait_for_text(AFTER)
    assert nvim.file.read_text() == CODE
    assert nvim.nvim.current.buffer.options["modified"]


@pytest.mark.complaint(71, "neovim/nvim-lspconfig#2184")
def test_a_server_that_counts_otherwise_is_no_trouble(nvim: Editor) -> None:
    nvim.lua(OTHER_SERVER)
    wait_for(lambda: nvim.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 2, "the other server")
    encodings = nvim.lua(
        "return vim.tbl_map(function(c) return c.offset_encoding end, vim.lsp.get_clients({ bufnr = 0 }))"
    )
    assert sorted(encodings) == ["utf-16", "utf-8"]
    nvim.type("5GA  # 🙂é<Esc>:4,6Stet s/y/total/<CR>")
    nvim.wait_for_text(CODE.replace("y = x + 0\n    return y", "total = x + 0  # 🙂é\n    return total"))
    assert trouble(nvim) == []
    assert "encoding" not in nvim.nvim.command_output("messages")
