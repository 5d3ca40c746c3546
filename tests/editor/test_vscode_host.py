"""What the VS Code extension promises, tested in VS Code's own extension host against the real language server.

The tests are editors/vscode/test/host/*.ts; all of them run in one VS Code, which is started here.
"""

import re
import subprocess
from pathlib import Path

import pytest

# An environment that is older than these tests must not keep the others from running.
pytest.importorskip("playwright", reason="the VS Code tests need playwright: run make install")

import code_server
from code_server import EXTENSION
from workshop import PacedEngine, Workshop

pytestmark = pytest.mark.editor

SOURCES = sorted((EXTENSION / "test" / "host").glob("*.ts"))
TESTS = [name for file in SOURCES for name in re.findall(r"^\w+\(\s*'(.*?)',", file.read_text("utf-8"), flags=re.M)]


@pytest.fixture(scope="module")
def outcomes(vscode_shop: Workshop, paced: PacedEngine, artefacts: Path) -> dict[str, str | None]:
    """Of all tests in the extension host."""
    code_server.code_server()
    code_server.npm("build")
    code_server.npm("build:test")
    settings, folders = code_server.settings_for(paced.url), ["folder", "second"]
    with code_server.running(vscode_shop.folder / "host", settings, folders=folders) as vscode:
        return code_server.outcomes_of_tests(vscode, artefacts)


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
