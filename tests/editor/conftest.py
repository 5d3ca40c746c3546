"""The fixtures of the editor tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from workshop import PacedEngine, Workshop, paced_engine, workshop_in


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
