"""Where a running engine is found: the folder that only its user may enter, and what lies in it.

Knows no HTTP and starts nothing. On Windows, which has no Unix sockets in Python, an endpoint is loopback TCP alone.
"""

import json
import os
import secrets
import stat
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from speculation import config
from speculation.errors import EngineError

RUNTIME_DIR_VARIABLE = "STET_RUNTIME_DIR"
"""Overrides the runtime folder: for tests, and for a second engine beside the first."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How an engine process is reached. With a socket, TCP is an extra for other clients."""

    pid: int
    socket: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    token: str | None = None

    @property
    def base_url(self) -> str:
        """For an HTTP client whose transport goes to the socket, or to TCP where there is none."""
        return "http://stet" if self.socket else f"http://{self.host}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """The bearer token, which is wanted over TCP only."""
        return {} if self.socket else {"Authorization": f"Bearer {self.token}"}


def runtime_dir() -> Path:
    """The runtime folder, made if need be. Raises EngineError where others could enter it."""
    folder = _choose_runtime_dir()
    try:
        for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        info = folder.lstat()
    except OSError as error:
        raise EngineError(f"the runtime folder {folder} can't be made: {error.strerror or error}") from error
    if os.name == "posix":
        _require_private(folder, info)
    return folder


def _choose_runtime_dir() -> Path:
    override = os.environ.get(RUNTIME_DIR_VARIABLE)
    if override:
        return Path(override).absolute()
    try:
        with warnings.catch_warnings():
            # platformdirs warns when XDG_RUNTIME_DIR is unset. Its fallback is checked here like any other folder.
            warnings.simplefilter("ignore", UserWarning)
            return config.runtime_dir()
    except PermissionError as error:
        raise EngineError(f"no safe runtime folder: {error}") from error


def _require_private(folder: Path, info: os.stat_result) -> None:
    if not stat.S_ISDIR(info.st_mode):
        raise EngineError(f"the runtime folder {folder} is not a folder; remove it or set {RUNTIME_DIR_VARIABLE}")
    if info.st_uid != os.geteuid():
        raise EngineError(
            f"the runtime folder {folder} belongs to user {info.st_uid}, not to you ({os.geteuid()}); "
            f"set {RUNTIME_DIR_VARIABLE} to a folder of your own"
        )
    if info.st_mode & 0o077:
        raise EngineError(
            f"the runtime folder {folder} is open to others (mode {stat.S_IMODE(info.st_mode):04o}); "
            f"close it with: chmod 700 {folder}"
        )


def socket_path(folder: Path) -> Path:
    """The engine's Unix socket."""
    return folder / "engine.sock"


def token_path(folder: Path) -> Path:
    """The bearer token of the TCP listener."""
    return folder / "token"


def log_path() -> Path:
    """Where an engine that was started in the background logs."""
    return config.state_dir() / "engine.log"


def engine_lock(folder: Path) -> FileLock:
    """Held by the engine process as long as it lives: the truth about whether one is running."""
    return FileLock(folder / "engine.lock")


def start_lock(folder: Path) -> FileLock:
    """Held by whoever looks for an engine in order to start one."""
    return FileLock(folder / "start.lock")


def is_running(folder: Path) -> bool:
    """Whether an engine process lives, answering or not."""
    try:
        with engine_lock(folder).acquire(timeout=0):
            return False
    except Timeout:
        return True


def new_token(folder: Path) -> str:
    """Write a fresh bearer token that only its user can read."""
    token = secrets.token_urlsafe(32)
    _write_private(token_path(folder), token)
    return token


def write_endpoint(folder: Path, endpoint: Endpoint) -> None:
    """Say where this process listens; the token stays in its own file."""
    public = {name: value for name, value in asdict(endpoint).items() if name != "token"}
    _write_private(folder / "engine.json", json.dumps(public))


def read_endpoint(folder: Path) -> Endpoint | None:
    """Where the last engine listened; it may be gone."""
    try:
        fields = json.loads((folder / "engine.json").read_text("utf-8"))
        token = None if fields["port"] is None else token_path(folder).read_text("utf-8")
        return Endpoint(**fields, token=token)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def clear(folder: Path) -> None:
    """Take down the signs: whoever looks from now on finds no engine."""
    for path in (socket_path(folder), folder / "engine.json", token_path(folder)):
        path.unlink(missing_ok=True)


def _write_private(path: Path, text: str) -> None:
    """Atomically, so that a reader sees the old text or the new one."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
