"""The first run: missing weights, the choice of a model, its fetch in a terminal; and the health check.

The program `stet` is a stand-in here, which notes what it was asked to do: nothing is downloaded.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from workshop import Editor, PacedEngine, Workshop, program, wait_for

pytestmark = pytest.mark.editor

CODE = "def f(y):\n    return y\n"

FITS = {
    "recommended": "small",
    "presets": [
        {
            "preset": name,
            "model": f"Qwen/{name}",
            "device": "cpu",
            "fits": fits,
            "fetched": fetched,
            "download_bytes": size,
            "why": why,
            "with_dtype": dtype,
        }
        for name, fits, fetched, size, why, dtype in (
            ("tiny", True, True, 0, "fits with dtype int8: takes 1.5 GB, 12 GB are free", "int8"),
            ("small", True, False, 1_600_000_000, "fits: takes 4 GB, 12 GB are free", "auto"),
            ("large", False, False, 66_000_000_000, "does not fit: takes 70 GB, 12 GB are free", "auto"),
        )
    ],
}

STAND_IN = """\
#!{python}
import json, sys
with open({log!r}, "a") as log:
    print(*sys.argv[1:], file=log)
if sys.argv[1:] == ["models", "fit", "--json"]:
    print(json.dumps({fits!r}))
elif sys.argv[1:3] == ["models", "fetch"]:
    print("Qwen/" + sys.argv[3] + ": 1.6 GB from the hub")
    sys.exit(0 if input("Fetch? [y/N]: ") == "y" else 1)
else:
    sys.exit("no " + " ".join(sys.argv[1:]))
"""

SELECT = """
Lines = nil
vim.ui.select = function(items, opts, on_choice)
  Lines = vim.tbl_map(opts.format_item, items)
  Choose = function(n) on_choice(items[n]) end
end
"""


class StandIn:
    """The program that is set up with, and what it was called with."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "calls"
        self.path = folder / "stet"
        self.path.write_text(STAND_IN.format(python=sys.executable, log=str(self.log), fits=FITS))
        self.path.chmod(0o755)

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path)


USE = "vim.lsp.config('stet', { cmd = { ... , 'lsp' } })"


@pytest.fixture
def editor(shared_editor: Editor, stand_in: StandIn) -> Iterator[Editor]:
    editor = shared_editor.renew(CODE)
    editor.lua(USE, str(stand_in.path))
    editor.lua(SELECT)
    editor.lua(
        """
        Told = nil
        local client = vim.lsp.get_clients({ name = 'stet' })[1]
        local notify = client.notify
        client.notify = function(self, method, params)
          if method == 'workspace/didChangeConfiguration' then
            Told, ToldDtype = params.settings.stet.model, params.settings.stet.dtype
            return true
          end
          return notify(self, method, params)
        end
        """
    )
    yield editor
    editor.lua("vim.lsp.config('stet', { init_options = { dtype = 'auto' } })")
    editor.lua(USE, program("stet", "pip install -e ."))


def choose(editor: Editor, n: int) -> None:
    editor.type(":StetSetup<CR>")
    wait_for(lambda: editor.lua("return Lines ~= nil"), "the list")
    editor.lua("Lines = nil; Choose(...)", n)


def test_each_model_is_shown_with_what_it_takes(editor: Editor) -> None:
    editor.type(":StetSetup<CR>")
    wait_for(lambda: editor.lua("return Lines ~= nil"), "the list")
    assert editor.lua("return Lines") == [
        "tiny: Qwen/tiny, is here, fits with dtype int8: takes 1.5 GB, 12 GB are free",
        "small: Qwen/small, 1.6 GB to fetch, fits: takes 4 GB, 12 GB are free (recommended)",
        "large: Qwen/large, 66.0 GB to fetch, does not fit: takes 70 GB, 12 GB are free",
        "weights of my own, without a network",
    ]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_model_is_fetched_in_a_terminal_once_the_user_agrees(editor: Editor, stand_in: StandIn, answer: str) -> None:
    choose(editor, 2)
    editor.wait_for_preview("Qwen/small: 1.6 GB from the hub")
    editor.wait_for_preview("Fetch? [y/N]:")
    assert stand_in.calls() == ["models fit --json", "models fetch small"]
    assert editor.lua("return Told == nil")
    editor.type(f"{answer}<CR>")
    if answer == "y":
        editor.wait_for_message("using small. To keep it: vim.lsp.config('stet'")
        assert editor.lua("return Told") == "small"
    else:
        editor.wait_for_message("small was not fetched")
        assert editor.lua("return Told == nil")


def test_a_model_that_is_here_is_used_at_once(editor: Editor, stand_in: StandIn) -> None:
    choose(editor, 1)
    editor.wait_for_message("using tiny")
    assert editor.lua("return { Told, ToldDtype }") == ["tiny", "int8"]
    assert stand_in.calls() == ["models fit --json"]


def test_weights_of_one_s_own_need_no_network(editor: Editor, stand_in: StandIn, tmp_path: Path) -> None:
    (tmp_path / "mine.gguf").touch()
    for path, message in ((tmp_path / "mine.gguf", "using"), (tmp_path / "not there", "there is no")):
        editor.lua("vim.ui.input = function(_, on_confirm) on_confirm(...) end".replace("...", json.dumps(str(path))))
        choose(editor, 4)
        editor.wait_for_message(f"{message} {path}")
    assert editor.lua("return Told") == str(tmp_path / "mine.gguf")
    assert set(stand_in.calls()) == {"models fit --json"}


def test_a_program_that_is_missing_or_old_is_said_in_one_line(editor: Editor, stand_in: StandIn) -> None:
    stand_in.path.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('Error: no such command fit')\n")
    editor.type(":StetSetup<CR>")
    editor.wait_for_message("stet models fit gave no answer: Error: no such command fit")
    editor.lua(USE, "/nowhere/stet")
    editor.type(":StetSetup<CR>")
    editor.wait_for_message("/nowhere/stet is not an executable on $PATH: install it first")


def test_missing_weights_are_told_with_what_to_do(workshop: Workshop, tmp_path: Path) -> None:
    """The real server and engine, and an empty folder for weights."""
    workshop.models_cache = str(tmp_path / "nothing")
    editor = workshop.open(CODE, {"model": "tiny"})
    editor.type(":%Stet rename y to radius<CR>")
    message = editor.wait_for_message("is not fetched; run: stet models fetch", timeout_s=120)
    assert message.endswith("(or :StetSetup)")
    assert (editor.text(), editor.marks()) == (CODE, 0)


def test_checkhealth_looks_at_everything(workshop: Workshop) -> None:
    editor = workshop.open(CODE, {"model": "tiny"})
    editor.type(":checkhealth stet<CR>")
    wait_for(lambda: "answered in" in editor.text(), "the report", 300)
    report = editor.text()
    assert "ERROR" not in report, report
    for part in (
        "Neovim 0.1",
        program("stet", ""),
        "the engine is not running",
        "model",
        "tiny on ",
        "the database has",
    ):
        assert part in report, report


def test_checkhealth_says_what_is_missing(editor: Editor) -> None:
    editor.lua(USE, "/nowhere/stet")
    editor.type(":checkhealth stet<CR>")
    wait_for(lambda: "ADVICE" in editor.text(), "the report")
    assert "ERROR /nowhere/stet is not an executable on $PATH" in editor.text()
    assert "pipx install stet-lsp" in editor.text()


def test_checkhealth_asks_the_server_that_rewrites_go_to(editor: Editor, paced: PacedEngine) -> None:
    editor.lua(USE, "/nowhere/stet")
    nobody = "http://127.0.0.1:9/v1"
    for url, said in ((nobody, "ERROR {} (server.url) can't be reached"), (paced.url, "OK rewrites go to {}")):
        editor.lua("vim.lsp.config('stet', { init_options = { server = { url = ... } } })", url)
        editor.type(":checkhealth stet<CR>")
        wait_for(lambda: "answered in" in editor.text(), "the report")
        assert said.format(url) in editor.text()
        assert "engine" not in editor.text()
        editor.type(":bwipeout<CR>")
