"""A real VS Code for the tests: code-server (VS Code's workbench and extension host) in a headless Chromium.

.ci/install-vscode installs both. What is started here belongs to a Workshop, which kills all of it in the end.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, sync_playwright
from workshop import BIN, HERE, WAIT_S, program, wait_for

EXTENSION = HERE.parents[1] / "editors" / "vscode"
CODE_SERVER_VERSION = "4.100.3"
REMEDY = "run .ci/install-vscode (needs Node 20, npm and, for Chromium, apt)"
START_S = 90.0
TESTS_S = 900.0
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
QUIET = {
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "telemetry.telemetryLevel": "off",
    "extensions.autoUpdate": False,
    "extensions.autoCheckUpdates": False,
    "update.mode": "none",
    "git.enabled": False,
    "editor.minimap.enabled": False,
    "files.autoSave": "off",
    "files.hotExit": "off",
    "editor.accessibilitySupport": "off",
    "security.workspace.trust.startupPrompt": "never",
}
# The workbench of a built VS Code takes the extension under test and its tests from its page's configuration alone.
TEST_OPTIONS = """([authority, extension, tests]) => {
  const get = Element.prototype.getAttribute;
  Element.prototype.getAttribute = function (name) {
    const value = get.call(this, name);
    if (name !== 'data-settings' || this.id !== 'vscode-workbench-web-configuration') return value;
    const uri = (path) => ({ scheme: 'vscode-remote', authority, path });
    const options = { extensions: [uri(extension)], extensionTestsPath: uri(tests) };
    return JSON.stringify({ ...JSON.parse(value), developmentOptions: options });
  };
}"""


def code_server() -> tuple[str, Path]:
    """The node program, and code-server's entry."""
    cache = Path(os.environ.get("STET_EDITORS_DIR") or Path.home() / ".cache" / "stet" / "editors")
    entry = cache / f"code-server-{CODE_SERVER_VERSION}" / "node_modules/code-server/out/node/entry.js"
    node = shutil.which("node")
    if node is None or not entry.exists() or not shutil.which("chromium"):
        missing(f"the VS Code tests need node, chromium and {entry}: {REMEDY}")
    return str(node), entry


def missing(what: str) -> None:
    """Elsewhere a test may be left out; in CI all are run."""
    if os.environ.get("CI"):
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


def npm(*arguments: str) -> None:
    """Run one of the extension's scripts."""
    if not (EXTENSION / "node_modules").exists():
        missing(f"the VS Code tests need {EXTENSION / 'node_modules'}: run make vscode")
    done = subprocess.run(["npm", "run", "--silent", *arguments], cwd=EXTENSION, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass
class VSCode:
    """A running code-server, and the folder that is open in it."""

    authority: str
    folder: Path
    """That is open, or the first of them."""
    opened: dict[str, str]
    log: Path

    def url(self, *, opened: Path | None = None) -> str:
        """Of the workbench on the folder, with a file in front."""
        payload = [["openFile", f"vscode-remote://{self.authority}{opened}"]] if opened else []
        return f"http://{self.authority}/?" + urlencode({**self.opened, "payload": json.dumps(payload)})


@contextlib.contextmanager
def running(
    root: Path,
    settings: dict[str, Any],
    *,
    folders: Sequence[str] = ("folder",),
    vsix: Path | None = None,
    trusting: bool = True,
) -> Iterator[VSCode]:
    """A code-server with its data under root. folders: those of the workspace; trusting: every folder is trusted."""
    node, entry = code_server()
    data = root / "data"
    for name in folders:
        (root / name).mkdir(parents=True)
    opened = {"folder": str(root / folders[0])}
    if len(folders) > 1:
        workspace = root / "several.code-workspace"
        workspace.write_text(json.dumps({"folders": [{"path": name} for name in folders]}))
        opened = {"workspace": str(workspace)}
    for place in ("User", "Machine"):
        # Settings of machine scope are taken from the second of the two only, the others from the first.
        (data / place).mkdir(parents=True)
        (data / place / "settings.json").write_text(json.dumps(QUIET | settings))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        authority = f"127.0.0.1:{free.getsockname()[1]}"
    config = root / "config.yaml"
    config.write_text(f"bind-addr: {authority}\nauth: none\ncert: false\n")
    places = ["--config", str(config), "--user-data-dir", str(data), "--extensions-dir", str(root / "extensions")]
    command = [node, str(entry), *places]
    # Without the virtual environment's programs: stet.path alone says where the server is.
    paths = [path for path in os.environ["PATH"].split(os.pathsep) if Path(path) != BIN]
    environment = {**os.environ, "PATH": os.pathsep.join(paths)}
    environment.pop("VSCODE_IPC_HOOK_CLI", None)
    log = root / "code-server.log"
    with log.open("w") as output:
        to_log: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, "env": environment}
        if vsix:
            subprocess.run([*command, "--install-extension", str(vsix)], check=True, **to_log)
        options = ["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"]
        options += ["--disable-workspace-trust"] if trusting else []
        process = subprocess.Popen([*command, *options], start_new_session=True, **to_log)
    try:
        wait_for(lambda: answers(f"http://{authority}/healthz"), f"code-server ({log})", START_S)
        yield VSCode(authority, root / folders[0], opened, log)
    finally:
        # With its extension hosts, which it would keep for hours for a browser that comes back.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=WAIT_S):
        return True
    return False


@contextlib.contextmanager
def page_of(vscode: VSCode) -> Iterator[Page]:
    """A browser's page, not at any address yet. When something fails, what it shows then is kept beside the log."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.set_default_timeout(START_S * 1000)
            yield page
        except BaseException:
            page.screenshot(path=str(vscode.log.with_suffix(".png")))
            raise
        finally:
            browser.close()


def outcomes_of_tests(vscode: VSCode, artefacts: Path) -> dict[str, str | None]:
    """Run test/host in the extension host: name of each test -> what went wrong, or None."""
    outcomes = vscode.folder / ".outcomes.json"
    with page_of(vscode) as page:
        ended: list[Any] = []
        page.expose_function("codeAutomationExit", lambda code: ended.append(code))
        tests = EXTENSION / "dist" / "test" / "host.js"
        places = json.dumps([vscode.authority, str(EXTENSION), str(tests)])
        page.add_init_script(f"({TEST_OPTIONS})({places})")
        page.goto(vscode.url(), timeout=START_S * 1000)
        try:
            wait_for(lambda: page.wait_for_timeout(100) or ended or outcomes.exists(), "the tests in VS Code", TESTS_S)
        finally:
            page.screenshot(path=str(artefacts / "extension-host.png"))
    assert outcomes.exists(), f"the tests did not get to their end: {ended}\n{vscode.log.read_text()[-4000:]}"
    read: dict[str, str | None] = json.loads(outcomes.read_text())
    return read


def settings_for(engine_url: str) -> dict[str, Any]:
    """With this tree's server and an engine."""
    return {"stet.path": program("stet", "pip install -e ."), "stet.server.url": engine_url}
