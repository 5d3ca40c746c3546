"""What the editor tests work with: a real Neovim, the real language server, an engine, and folders of their own.

Whatever is started here is killed when the test is over, however it ends.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pynvim
import pytest

from speculation.serving import process, runtime

HERE = Path(__file__).parent
PLUGIN = HERE.parents[1] / "editors" / "nvim"
BIN = Path(sys.executable).parent
WAIT_S = 60.0


T = TypeVar("T")


def wait_for(probe: Callable[[], T], what: str, timeout_s: float = WAIT_S) -> T:
    """The first true value of probe."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if value := probe():
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")


def program(name: str, remedy: str) -> str:
    path = BIN / name
    if not path.exists():
        pytest.fail(f"the editor tests need {path}: {remedy}", pytrace=False)
    return str(path)


def kill_all_with(variable: str) -> None:
    """SIGKILL whatever has this NAME=VALUE in its environment: language servers and engines, half-started ones too."""
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)
        except (OSError, ProcessLookupError):
            continue


class PacedEngine:
    """The engine of paced_engine.py as its own process, so that it can be killed like a real engine."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, str(HERE / "paced_engine.py"), str(self.port)])
        wait_for(self._answers, "the paced engine")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def counts(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=WAIT_S) as answer:
            counts: dict[str, Any] = json.load(answer)
        return counts

    def _answers(self) -> bool:
        try:
            return bool(self.counts())
        except OSError:
            return False


class Editor:
    """Neovim as a person sees it: keys in; text, screen and messages out."""

    def __init__(self, nvim: pynvim.Nvim, process: "subprocess.Popen[bytes]", file: Path) -> None:
        self.nvim = nvim
        self.process = process
        self.file = file

    def lua(self, code: str, *args: Any) -> Any:
        self.check_not_blocked()
        return self.nvim.exec_lua(code, *args)

    def check_not_blocked(self) -> None:
        """Fail where the next call would hang: Neovim waits for a key, mostly because of an error of several lines."""
        if self.nvim.api.get_mode()["blocking"]:
            self.nvim.input("<CR>")
            pytest.fail(f"Neovim waited for a key: {self.nvim.command_output('messages')}")

    def type(self, keys: str) -> None:
        """Press keys, and wait until all of them have been worked off."""
        self.nvim.input(keys)
        wait_for(lambda: not self.nvim.api.get_mode()["blocking"], f"Neovim to take {keys!r} (does it wait for Enter?)")

    def renew(self, text: str | bytes, name: str = "sample.py", **options: Any) -> "Editor":
        """Go on with a new file in the same Neovim and the same server. options: the plugin's."""
        self.check_not_blocked()
        self.nvim.input("<C-\\><C-n>")
        self.nvim.command("silent! tabonly! | silent! only! | silent! %bwipeout!")
        self.file = self.file.with_name(name)
        self.file.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.lua("vim.g.stet = ...", options)
        self.nvim.command(f"silent edit {self.file} | messages clear")
        self.wait_for_server()
        return self

    def wait_for_server(self) -> None:
        wait_for(lambda: self.lua("return #vim.lsp.get_clients({ bufnr = 0, name = 'stet' }) > 0"), "the server")

    def text(self) -> str:
        return "\n".join(self.nvim.current.buffer[:]) + "\n"

    def screen(self) -> str:
        """What is drawn, as text."""
        return "\n".join(
            self.lua(
                """
                vim.cmd.redraw()
                local rows = {}
                for row = 1, vim.o.lines do
                  local cells = {}
                  for col = 1, vim.o.columns do cells[col] = vim.fn.screenstring(row, col) end
                  rows[row] = (table.concat(cells):gsub('%s+$', ''))
                end
                return rows
                """
            )
        )

    def marks(self) -> int:
        """How many extmarks of the plugin there are in all buffers."""
        count: int = self.lua(
            """
            local n = 0
            for name, ns in pairs(vim.api.nvim_get_namespaces()) do
              if vim.startswith(name, 'stet') then
                for _, buf in ipairs(vim.api.nvim_list_bufs()) do
                  n = n + #vim.api.nvim_buf_get_extmarks(buf, ns, 0, -1, {})
                end
              end
            end
            return n
            """
        )
        return count

    def messages(self) -> list[str]:
        """The plugin's lines in :messages, and whatever else looks like an error."""
        lines = self.nvim.command_output("messages").splitlines()
        return [line for line in lines if line.startswith("stet: ") or "Error" in line or line.startswith("E")]

    def wait_for_text(self, wanted: str, timeout_s: float = WAIT_S) -> None:
        try:
            wait_for(lambda: self.text() == wanted, "the text", timeout_s)
        except AssertionError:
            assert self.text() == wanted, self.messages()

    def wait_for_message(self, part: str, timeout_s: float = WAIT_S) -> str:
        def found() -> str | None:
            return next((line for line in self.messages() if part in line), None)

        try:
            return wait_for(found, "the message", timeout_s) or ""
        except AssertionError:
            pytest.fail(f"no message with {part!r} came, but {self.messages()}")

    def wait_for_preview(self, part: str, timeout_s: float = WAIT_S) -> None:
        try:
            wait_for(lambda: part in self.screen(), "the preview", timeout_s)
        except AssertionError:
            pytest.fail(f"{part!r} did not appear on the screen:\n{self.screen()}\n{self.messages()}")


class Workshop:
    """Opens editors whose language server, engine and state are all of this test alone; the models are the user's."""

    def __init__(self, folder: Path, runtime: Path, models_cache: str) -> None:
        self.folder = folder
        self.runtime = runtime
        self.models_cache = models_cache
        self.editors: list[Editor] = []
        self.n_opened = 0

    def open(
        self,
        text: str | bytes,
        settings: dict[str, Any],
        name: str = "sample.py",
        options: dict[str, Any] | None = None,
    ) -> Editor:
        """An editor on a file with that text, its server ready. settings: the server's; options: the plugin's."""
        return self.open_with(self._init_lua(settings, options or {}), text, name)

    def open_with(self, init_lua: str, text: str | bytes, name: str = "sample.py") -> Editor:
        """The same with a configuration of one's own."""
        file = self.folder / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        init = self.folder / "init.lua"
        init.write_text(init_lua)
        self.n_opened += 1
        listen = self.runtime / f"nvim{self.n_opened}"
        arguments = ["--headless", "--listen", str(listen), "--clean", "-u", str(init), str(file)]
        neovim = subprocess.Popen([program("nvim", "pip install -e '.[dev]'"), *arguments])
        wait_for(listen.exists, "Neovim")
        nvim = pynvim.attach("socket", path=str(listen))
        editor = Editor(nvim, neovim, file)
        self.editors.append(editor)
        nvim.ui_attach(100, 40, rgb=True)
        if not nvim.call("has", "nvim-0.11"):
            version = editor.lua("return tostring(vim.version())")
            pytest.fail(f"the editor tests need Neovim 0.11 or newer, not {version}")
        editor.wait_for_server()
        return editor

    def engine(self) -> process.Health:
        """What the real engine that this test's server has started says of itself."""
        endpoint = runtime.read_endpoint(self.runtime)
        health = process.health(endpoint) if endpoint else None
        assert health is not None, "no engine is running"
        return health

    def engine_log(self) -> str:
        """What the engine that runs now has logged."""
        return (self.folder / "state" / "stet" / "engine.log").read_text()

    def close_all(self) -> None:
        while self.editors:
            self.close(self.editors[-1])
        kill_all_with(f"STET_RUNTIME_DIR={self.runtime}")

    def close(self, editor: Editor) -> None:
        self.editors.remove(editor)
        editor.process.kill()
        editor.process.wait()
        # pynvim closes its socket properly only when it meets the end of the stream.
        with contextlib.suppress(OSError, EOFError):
            editor.nvim.command("")
        editor.nvim.close()

    def _init_lua(self, settings: dict[str, Any], options: dict[str, Any]) -> str:
        server = {
            "cmd": [program("stet", "pip install -e ."), "lsp"],
            "cmd_env": {"XDG_CACHE_HOME": self.models_cache},
            "init_options": settings,
        }
        return "\n".join(
            (
                f"vim.opt.rtp:prepend({json.dumps(str(PLUGIN))})",
                "vim.opt.swapfile = false",
                f"vim.g.stet = vim.json.decode({json.dumps(json.dumps(options))})",
                f"vim.lsp.config('stet', vim.json.decode({json.dumps(json.dumps(server))}))",
                "vim.lsp.enable('stet')",
            )
        )


@contextlib.contextmanager
def paced_engine() -> Iterator[PacedEngine]:
    """An engine that is killed at the end."""
    engine = PacedEngine()
    try:
        yield engine
    finally:
        engine.kill()


@contextlib.contextmanager
def workshop_in(folder: Path) -> Iterator[Workshop]:
    models_cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    # A short name, for a Unix socket's path must be under 108 characters.
    with tempfile.TemporaryDirectory(prefix="stet-") as runtime, pytest.MonkeyPatch.context() as environment:
        environment.setenv("STET_RUNTIME_DIR", runtime)
        environment.setenv("NVIM_LOG_FILE", str(folder / "nvim.log"))
        for name in ("STATE", "DATA", "CONFIG", "CACHE"):
            environment.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
        workshop = Workshop(folder, Path(runtime), models_cache)
        try:
            yield workshop
        finally:
            workshop.close_all()
