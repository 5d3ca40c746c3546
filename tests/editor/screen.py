"""VS Code as a person sees it: keys and mouse in, text and drawings out."""

from collections.abc import Callable
from pathlib import Path

import pytest
from code_server import START_S, VSCode
from playwright.sync_api import Locator, Page
from workshop import wait_for


class Screen:
    """VS Code as a person sees it."""

    def __init__(self, page: Page, vscode: VSCode, file: Path) -> None:
        self.page = page
        page.goto(vscode.url(opened=file), timeout=START_S * 1000)
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
        """What decorations have put behind lines, line by line."""
        drawn: str = self.page.eval_on_selector_all(
            ".editor-group-container.active .view-lines .view-line",
            """lines => lines.map(line => [...line.querySelectorAll('span span')]
              .map(span => getComputedStyle(span, '::after').content)
              .map(content => content.startsWith('"') ? content.slice(1, -1) : '').join('')).join('\\n')""",
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
        self.answer("Stet: rewrite", instruction)

    def answer(self, title: str, instruction: str) -> None:
        """Type into the prompt with that title, and press Enter."""
        self.page.get_by_text(title).wait_for()
        self.page.keyboard.type(instruction)
        self.row(instruction).wait_for()
        self.page.keyboard.press("Enter")

    def lens(self, title: str) -> Locator:
        return self.page.locator(".codelens-decoration a", has_text=title).first
