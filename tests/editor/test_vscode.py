"""What the VS Code extension promises, in a real VS Code against the real language server.

Most is tested in the extension host (editors/vscode/test/host.ts), which is started here; the rest by keys and mouse.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from workshop import PacedEngine, Workshop, wait_for, workshop_in

# An environment that is older than these tests must not keep the others from running.
pytest.importorskip("playwright", reason="the VS Code tests need playwright: run make install")

import code_server
from code_server import EXTENSION, VSCode
from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.editor

TESTS = re.findall(r"^test\('(.*?)', async", (EXTENSION / "test" / "host.ts").read_text("utf-8"), flags=re.M)
NAMES = re.compile(r"^  \['(.*?)', '", flags=re.M)
TESTS += [f"bytes outside the change stay: {name}" for name in NAMES.findall((EXTENSION / "test/host.ts").read_text())]
CODE = '''\
import math


class Circle:
    """A circle around the origin."""

    def __init__(self, r):
        self.r = r

    def area(self):
        return math.pi * self.r**2

    def contains(self, x, y):
        return x * x + y * y <= self.r**2

    def scaled(self, factor):
        return Circle(self.r * factor)
'''
RENAMED = re.sub(r"\br\b", "radius", CODE)
# A slow stream has these lines yet to go when the first change is drawn.
TAIL = "".join(f"number_{n} = {n}\n" for n in range(80))


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots are kept."""
    folder = Path(os.environ.get("STET_ARTEFACTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with workshop_in(tmp_path_factory.mktemp("vscode")) as workshop:
        yield workshop


@pytest.fixture(scope="module")
def paced() -> Iterator[PacedEngine]:
    engine = PacedEngine()
    try:
        yield engine
    finally:
        engine.kill()


@pytest.fixture(scope="module")
def outcomes(shop: Workshop, paced: PacedEngine, artefacts: Path) -> dict[str, str | None]:
    """Of all tests in the extension host."""
    code_server.code_server()
    code_server.npm("build")
    code_server.npm("build:test")
    with code_server.running(shop.folder / "host", code_server.settings_for(paced.url)) as vscode:
        return code_server.outcomes_of_tests(vscode, artefacts)


@pytest.fixture(scope="module")
def vsix(shop: Workshop) -> Path:
    """The packaged extension, as a user installs it."""
    code_server.code_server()
    code_server.npm("package")
    return EXTENSION / "stet.vsix"


@pytest.mark.parametrize("name", TESTS)
def test_in_the_extension_host(outcomes: dict[str, str | None], name: str) -> None:
    assert name in outcomes, f"VS Code ran no such test, but {sorted(outcomes)}"
    assert outcomes[name] is None, outcomes[name]


def test_every_test_of_the_extension_host_is_known_here(outcomes: dict[str, str | None]) -> None:
    assert sorted(outcomes) == sorted(TESTS)


def test_what_needs_no_editor() -> None:
    if not (EXTENSION / "node_modules").exists():
        code_server.missing("needs editors/vscode/node_modules: run make vscode")
    done = subprocess.run(["npm", "test", "--silent"], cwd=EXTENSION, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


class Screen:
    """VS Code as a person sees it."""

    def __init__(self, page: Page, vscode: VSCode, file: Path) -> None:
        self.page = page
        page.goto(vscode.url(opened=file))
        self.wait(lambda: self.text().startswith("import math"), "the file")

    def wait(self, probe: Callable[[], object], what: str) -> None:
        wait_for(lambda: self.page.wait_for_timeout(50) or probe(), what)

    def text(self) -> str:
        """Of the lines in sight, in the order of the screen."""
        lines = self.page.eval_on_selector_all(
            ".editor-group-container.active .view-lines .view-line",
            "lines => lines.map(line => [parseInt(line.style.top), line.textContent])",
        )
        return "\n".join(text for _, text in sorted(lines)).replace("\u00a0", " ")

    def drawn(self) -> str:
        """What decorations have put behind lines."""
        drawn: str = self.page.eval_on_selector_all(
            ".editor-group-container.active .view-lines .view-line span span",
            "spans => spans.map(span => getComputedStyle(span, '::after').content).join('\\n')",
        )
        return drawn.replace("\u00a0", " ")

    def row(self, text: str) -> Locator:
        return self.page.locator(".quick-input-list .monaco-list-row", has_text=text).first

    def command(self, title: str) -> None:
        """By the palette. Commands reach it late on a cold start."""
        for _ in range(20):
            self.page.keyboard.press("F1")
            self.page.locator(".quick-input-widget input").wait_for()
            self.page.keyboard.type(title)
            self.page.wait_for_timeout(500)
            if self.row(title).is_visible():
                self.page.keyboard.press("Enter")
                return
            self.page.keyboard.press("Escape")
        pytest.fail(f"no command {title!r} in the palette")

    def ask(self, instruction: str) -> None:
        """By keys, for all of the file. The prompt waits for the language server."""
        self.page.locator(".editor-group-container.active .view-lines").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.press("Control+Alt+r")
        self.page.get_by_text("Stet: rewrite").wait_for()
        self.page.keyboard.type(instruction)
        self.row(instruction).wait_for()
        self.page.keyboard.press("Enter")

    def lens(self, title: str) -> Locator:
        return self.page.locator(".codelens-decoration a", has_text=title).first


def test_a_user_rewrites_by_keys_and_mouse(shop: Workshop, paced: PacedEngine, vsix: Path, artefacts: Path) -> None:
    settings = code_server.settings_for(paced.url)
    with code_server.running(shop.folder / "user", settings, vsix=vsix) as vscode, code_server.page_of(vscode) as page:
        file = vscode.folder / "circle.py"
        file.write_text(CODE + TAIL)
        screen = Screen(page, vscode, file)
        page.locator(".statusbar-item", has_text="Stet").wait_for()
        screen.ask("slowly s/r/radius/")
        screen.wait(lambda: "self.radius = radius" in screen.drawn(), "the preview")
        page.screenshot(path=str(artefacts / "streaming.png"))
        page.keyboard.press("Escape")
        screen.wait(lambda: "radius" not in screen.drawn(), "the preview to go")
        screen.wait(lambda: paced.counts()["n_active"] == 0, "the engine to be idle")
        assert paced.counts()["n_hung_up"] >= 1
        screen.ask("s/r/radius/")
        screen.lens("Accept all").wait_for()
        page.keyboard.press("Control+Home")
        page.screenshot(path=str(artefacts / "proposal.png"), clip={"x": 350, "y": 35, "width": 1050, "height": 480})
        screen.lens("Accept all").click()
        screen.wait(lambda: screen.text().startswith(RENAMED), "the rewrite")
        page.keyboard.press("Control+s")
        wait_for(lambda: file.read_text() == RENAMED + TAIL, "the file to be saved")
        page.keyboard.press("Control+z")
        screen.wait(lambda: screen.text().startswith(CODE), "the undo")


def test_in_restricted_mode_no_server_starts_and_that_is_said(
    shop: Workshop, paced: PacedEngine, vsix: Path, artefacts: Path
) -> None:
    trace = shop.folder / "started"
    fake = shop.folder / "fake-stet"
    fake.write_text(f"#!/bin/sh\ntouch {trace}\n")
    fake.chmod(0o755)
    settings = code_server.settings_for(paced.url) | {"stet.path": str(fake)}
    with (
        code_server.running(shop.folder / "restricted", settings, vsix=vsix, trusting=False) as vscode,
        code_server.page_of(vscode) as page,
    ):
        file = vscode.folder / "circle.py"
        file.write_text(CODE)
        screen = Screen(page, vscode, file)
        screen.command("Stet: Rewrite File…")
        page.get_by_text("Stet is off in Restricted Mode").first.wait_for()
        page.screenshot(path=str(artefacts / "restricted.png"))
    assert not trace.exists()
