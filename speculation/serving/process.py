"""Finding, starting and stopping the one engine process of this user. Imports neither torch nor starlette.

    endpoint = process.find() or process.start(EngineConfig(model="small"))

Every function here blocks on sockets and locks: call them from a thread where an event loop must not wait.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from filelock import Timeout

from speculation.config import IDLE_EXIT_S, PRESETS, EngineConfig
from speculation.errors import EngineError
from speculation.serving import runtime
from speculation.serving.runtime import Endpoint

PROGRAM = (sys.executable, "-P", "-X", "utf8", "-m", "speculation.serving")
"""-P: the folder an editor happens to stand in must not be on the engine's import path. utf8: so that its log is."""

ANSWER_S = 30.0
"""How long /health may take. It is answered at once, save while an import or a load holds the interpreter."""

POLL_S = 0.05
ERROR = "stet: error: "
"""How the last line begins of a process that gives up."""
LEAVING_S = 10.0
"""How long to wait for an engine that could not load its weights to be gone."""


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of GET /health."""

    status: str
    """"loading", "ok", "failed" (to load) or "stopping"."""
    error: str | None
    model: str
    """While the weights load: what was asked for."""
    names: list[str]
    """Every name under which the model is served."""
    small_lm: str | None
    device: str
    dtype: str
    context_len: int | None
    gpu_bytes: int
    """GPU memory that it held once it was open."""
    pid: int
    version: str
    uptime_s: float
    n_active: int
    n_waiting: int
    trouble: str | None
    """What the user should know although the engine works, e.g. a database that was set aside."""
    idle_exit_s: float


def find() -> Endpoint | None:
    """The running engine, if there is one that answers. Raises EngineError for one that hangs."""
    endpoint = runtime.read_endpoint(runtime.runtime_dir())
    return endpoint if endpoint and health(endpoint) else None


def health(endpoint: Endpoint) -> Health | None:
    """What the engine says of itself; None when nobody listens there (any more) or it is about to leave."""
    try:
        answer = json.loads(_request(endpoint, "GET", "/health", ANSWER_S))
        # A newer engine may say more than this version knows.
        said = Health(**{field.name: answer[field.name] for field in fields(Health)})
    except TimeoutError as error:
        raise EngineError(f"the engine (pid {endpoint.pid}) does not answer; stop it with: stet engine stop") from error
    except (OSError, http.client.HTTPException):
        return None
    except (ValueError, LookupError, TypeError) as error:
        raise EngineError(
            f"what listens as pid {endpoint.pid} is no engine of this version; stop it with: stet engine stop"
        ) from error
    return None if said.status == "stopping" else said


def start(
    config: EngineConfig,
    *,
    idle_exit_s: float = IDLE_EXIT_S,
    tcp_port: int | None = None,
    program: Sequence[str] = PROGRAM,
    timeout_s: float = 60.0,
) -> Endpoint:
    """Find the engine or start it, and return when it answers; the weights may still be loading.

    However many ask at once, one process is started. Raises EngineError when another model than config.model is
    running ("auto" takes whatever runs), or when the process does not come up.
    """
    folder = runtime.runtime_dir()
    try:
        with runtime.start_lock(folder).acquire(timeout=timeout_s):
            endpoint = _find_working()
            if endpoint is None:
                arguments = _arguments(config, idle_exit_s, tcp_port)
                return _spawn([*program, *arguments], time.monotonic() + timeout_s)
    except Timeout as error:
        raise EngineError(f"the engine is being started by somebody else for more than {timeout_s:.0f} s") from error
    _require_model(endpoint, config.model)
    return endpoint


def _find_working() -> Endpoint | None:
    """The engine that runs. One that could not load its weights is on its way out: wait until it is gone."""
    folder = runtime.runtime_dir()
    deadline = time.monotonic() + LEAVING_S
    # Asked once a turn: an engine may leave between two questions.
    while (endpoint := runtime.read_endpoint(folder)) and (said := health(endpoint)):
        if said.status != "failed" or time.monotonic() > deadline:
            return endpoint
        time.sleep(POLL_S)
    return None


def wait_until_loaded(endpoint: Endpoint) -> Health:
    """Block until the weights are loaded. Raises EngineError when they can't be."""
    while (said := health(endpoint)) and said.status == "loading":
        time.sleep(4 * POLL_S)
    if said is None:
        raise EngineError(f"the engine died while it loaded: {_last_words()}")
    if said.status == "failed":
        raise EngineError(said.error)
    return said


def stop(grace_s: float = 3.0) -> bool:
    """Ask the engine to leave, then insist; False when none was running. Raises EngineError if it stays."""
    folder = runtime.runtime_dir()
    with contextlib.suppress(Timeout), runtime.engine_lock(folder).acquire(timeout=0):
        runtime.clear(folder)  # what an engine that was killed left behind: somebody else may listen there by now
        return False
    endpoint = runtime.read_endpoint(folder)
    if endpoint is None:
        raise EngineError(f"an engine holds {folder / 'engine.lock'} but does not say its pid; try again in a moment")
    for insist in (_ask_to_leave, _terminate, _kill):
        insist(endpoint)
        if _is_gone_within(folder, endpoint.pid, grace_s):
            return True
    raise EngineError(f"the engine (pid {endpoint.pid}) can't be stopped")


def _ask_to_leave(endpoint: Endpoint) -> None:
    # It may hang, or just have left; what comes next settles it.
    with contextlib.suppress(OSError, http.client.HTTPException):
        _request(endpoint, "POST", "/v1/stet/shutdown", timeout_s=1.0)


def _terminate(endpoint: Endpoint) -> None:
    _signal(endpoint.pid, signal.SIGTERM)


def _kill(endpoint: Endpoint) -> None:
    _signal(endpoint.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # it is gone, which Windows has several words for
        os.kill(pid, number)


def _is_gone_within(folder: Path, pid: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while is_there := runtime.is_running(folder):
        # Somebody may have started another one at once.
        if (now := runtime.read_endpoint(folder)) and now.pid != pid:
            return True
        if time.monotonic() > until:
            break
        time.sleep(POLL_S)
    return not is_there


class _Connection(http.client.HTTPConnection):
    """A connection to the engine's Unix socket where it has one.

    Not httpx: version 0.28 leaks its socket, with a warning, when a Unix socket refuses.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        super().__init__(endpoint.host, endpoint.port, timeout=timeout_s)
        self._path = endpoint.socket

    def connect(self) -> None:
        """Open the socket."""
        if self._path is None:
            super().connect()
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)


def _request(endpoint: Endpoint, method: str, path: str, timeout_s: float) -> bytes:
    """The body of the answer. Raises OSError (TimeoutError among them) or HTTPException."""
    with contextlib.closing(_Connection(endpoint, timeout_s)) as connection:
        connection.request(method, path, headers=endpoint.headers)
        return connection.getresponse().read()


def _require_model(endpoint: Endpoint, wanted: str) -> None:
    running = health(endpoint)
    if running and wanted != "auto" and absolute(wanted) not in running.names:
        raise EngineError(
            f"the engine is already running with {running.model} (pid {running.pid}), not {wanted}; "
            "stop it with: stet engine stop"
        )


def _arguments(config: EngineConfig, idle_exit_s: float, tcp_port: int | None) -> list[str]:
    options: dict[str, object] = {
        "--model": absolute(config.model),
        "--small-lm": absolute(config.small_lm),
        "--device": config.device,
        "--small-device": config.small_device,
        "--dtype": config.dtype,
        "--models-dir": config.models_dir.absolute(),
        "--database": config.database.absolute() if config.database else "none",
        "--passes": config.passes,
        "--kv-budget": config.kv_budget_bytes,
        "--gamma-max": config.gamma_max,
        "--idle-exit": idle_exit_s / 60,
    }
    if tcp_port is not None:
        options["--tcp"] = tcp_port
    return [f"{name}={value}" for name, value in options.items()]


def absolute(model: str) -> str:
    """A model's path as seen from anywhere, for the engine stands in another folder; other names stay as they are."""
    if model in ("auto", "none", *PRESETS):
        return model
    path = Path(model).expanduser()
    return str(path.resolve()) if path.exists() else model


def _spawn(command: list[str], deadline: float) -> Endpoint:
    log = runtime.log_path()
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError, PermissionError):  # on Windows an engine that is leaving holds it
            log.replace(log.with_suffix(".log.1"))
        log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise EngineError(f"the engine's log {log} can't be written: {error.strerror or error}") from error
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log_fd,
            stderr=log_fd,
            cwd=log.parent,
            start_new_session=True,
            # Windows has no sessions: there it would end with the console of whoever asked first.
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    finally:
        os.close(log_fd)
    # Reaps the child if it ends before we do, so that it does not stay as a zombie of an editor's server.
    threading.Thread(target=child.wait, daemon=True).start()
    while time.monotonic() < deadline:
        is_dead = child.poll() is not None
        # Asked after poll: a child may also have left because somebody else's engine came first.
        endpoint = find()
        if endpoint is not None:
            return endpoint
        if is_dead:
            raise EngineError(f"the engine did not start: {_last_words()}")
        time.sleep(POLL_S)
    raise EngineError(f"the engine (pid {child.pid}) does not answer; its log is {log}")


def last_error() -> str | None:
    """Why the last engine gave up; None if it didn't."""
    last = _last_line()
    return last.removeprefix(ERROR) if last.startswith(ERROR) else None


def _last_words() -> str:
    return f"{_last_line().removeprefix(ERROR) or 'it said nothing'} (log: {runtime.log_path()})"


def _last_line() -> str:
    """Of the log, where a process that gives up says why."""
    try:
        lines = runtime.log_path().read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
