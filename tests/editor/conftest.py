"""The fixtures of the editor tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from workshop import Editor, PacedEngine, Workshop, paced_engine, workshop_in


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    with workshop_in(tmp_path) as workshop:
        yield workshop


@pytest.fixture(scope="module")
def shared_workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """One for all tests of a file, so that they share an engine: it takes a while to load."""
    with workshop_in(tmp_path_factory.mktemp("workshop")) as workshop:
        yield workshop


@pytest.fixture
def engine() -> Iterator[PacedEngine]:
    with paced_engine() as engine:
        yield engine


@pytest.fixture(scope="session")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots are kept."""
    folder = Path(os.environ.get("STET_ARTEFACTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def vscode_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with workshop_in(tmp_path_factory.mktemp("vscode")) as workshop:
        yield workshop


@pytest.fixture(scope="module")
def paced() -> Iterator[PacedEngine]:
    with paced_engine() as engine:
        yield engine


@pytest.fixture(scope="session")
def vsix() -> Path:
    """The packaged VS Code extension, as a user installs it."""
    import code_server

    code_server.code_server()
    code_server.npm("package")
    return code_server.EXTENSION / "stet.vsix"


@pytest.fixture(scope="module")
def shared_editor(shared_workshop: Workshop, paced: PacedEngine) -> Editor:
    """A Neovim for all tests of a file, each of which renews it: it and the server take a while to start."""
    return shared_workshop.open("", {"server": {"url": paced.url}})
