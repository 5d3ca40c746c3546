"""The VS Code extension as a user has it: the packaged .vsix in a real VS Code, worked by keys and mouse."""

import re
from pathlib import Path

import pytest

# An environment that is older than these tests must not keep the others from running.
pytest.importorskip("playwright", reason="the VS Code tests need playwright: run make install")

import code_server
from screen import Screen
from workshop import PacedEngine, Workshop, wait_for

pytestmark = pytest.mark.editor

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
REFINED = re.sub(r"\br\b", "radius", CODE).replace("factor", "ratio")
# A slow stream has these lines yet to go when the first change is drawn.
TAIL = "".join(f"number_{n} = {n}\n" for n in range(80))


def test_a_user_rewrites_by_keys_and_mouse(
    vscode_shop: Workshop, paced: PacedEngine, vsix: Path, artefacts: Path
) -> None:
    settings = code_server.settings_for(paced.url)
    with (
        code_server.running(vscode_shop.folder / "user", settings, vsix=vsix) as vscode,
        code_server.page_of(vscode) as page,
    ):
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
        page.keyboard.press("Control+Alt+a")
        screen.answer("Stet: now also", "s/factor/ratio/")
        screen.lens("2/2").wait_for()
        screen.wait(lambda: "self.radius * ratio" in screen.drawn(), "the refined version")
        page.keyboard.press("Alt+[")
        screen.lens("1/2").wait_for()
        screen.wait(lambda: "ratio" not in screen.drawn(), "the first version")
        page.keyboard.press("Alt+]")
        screen.lens("2/2").wait_for()
        page.screenshot(path=str(artefacts / "versions.png"))
        screen.lens("Accept all").click()
        screen.wait(lambda: screen.text().startswith(REFINED), "the rewrite")
        page.keyboard.press("Control+Alt+r")
        screen.row("s/factor/ratio/").wait_for()
        page.screenshot(path=str(artefacts / "history.png"))
        page.keyboard.press("Escape")
        page.keyboard.press("Control+s")
        wait_for(lambda: file.read_text() == REFINED + TAIL, "the file to be saved")
        assert [path.name for path in vscode.folder.iterdir()] == [file.name], "instructions are kept elsewhere"
        page.keyboard.press("Control+z")
        screen.wait(lambda: screen.text().startswith(CODE), "the undo")
        screen.command("Stet: Get Started")
        page.get_by_text("If something is amiss").first.wait_for()
        page.screenshot(path=str(artefacts / "guide.png"))


def test_in_restricted_mode_no_server_starts_and_that_is_said(
    vscode_shop: Workshop, paced: PacedEngine, vsix: Path, artefacts: Path
) -> None:
    trace = vscode_shop.folder / "started"
    fake = vscode_shop.folder / "fake-stet"
    fake.write_text(f"#!/bin/sh\ntouch {trace}\n")
    fake.chmod(0o755)
    settings = code_server.settings_for(paced.url) | {"stet.path": str(fake)}
    with (
        code_server.running(vscode_shop.folder / "restricted", settings, vsix=vsix, trusting=False) as vscode,
        code_server.page_of(vscode) as page,
    ):
        file = vscode.folder / "circle.py"
        file.write_text(CODE)
        screen = Screen(page, vscode, file)
        screen.command("Stet: Rewrite File…")
        page.get_by_text("Stet is off in Restricted Mode").first.wait_for()
        page.screenshot(path=str(artefacts / "restricted.png"))
    assert not trace.exists()
