"""The engine process from start to end: lock, sockets, the web server, leaving when idle.

Knows uvicorn and the runtime folder; knows no routes and no model.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from filelock import FileLock, Timeout
from starlette.types import ASGIApp

from speculation.errors import EngineError, EngineStopping
from speculation.serving import process, runtime
from speculation.serving.app import build_app, require_token
from speculation.serving.runtime import Endpoint
from speculation.serving.worker import OpenEngine, Worker

logger = logging.getLogger(__name__)

TICK_S = 0.1
FAILED_GRACE_S = 2.0
"""How long an engine that could not load its model stays, so that whoever started it hears why."""
LOCK_WAIT_S = 10.0
"""How long to wait for an engine that is leaving."""


def serve(open_engine: OpenEngine, *, model: str, idle_exit_s: float = 0.0, tcp_port: int | None = None) -> None:
    """Be the engine process until asked to leave, idle for idle_exit_s (0: never), or unable to load the model.

    Raises EngineError when another engine runs, when a socket can't be had, or when the model can't be loaded.
    """
    folder = runtime.runtime_dir()
    with _only_engine(folder), _listening(folder, tcp_port) as (endpoint, sockets):
        worker = Worker(open_engine, model)
        asyncio.run(_serve(worker, endpoint, sockets, folder, idle_exit_s))
        if worker.status == "failed" and worker.error:
            raise worker.error


async def _serve(
    worker: Worker, endpoint: Endpoint, sockets: list[socket.socket], folder: Path, idle_exit_s: float
) -> None:
    def leave() -> None:
        # The signs first: who looks now finds no engine and starts a new one, which waits for our lock.
        runtime.clear(folder)
        worker.stop(EngineStopping("the engine is stopping"))
        server.should_exit = True

    app = build_app(worker, idle_exit_s=idle_exit_s, shut_down=leave)
    if endpoint.token is not None:
        app = require_token(app, endpoint.token, endpoint.socket)
    server = _Server(app, leave)
    watcher = asyncio.create_task(_leave_in_time(worker, idle_exit_s, leave))
    worker.start()
    with _signals(server):
        await server.serve(sockets)
    watcher.cancel()
    worker.join(timeout_s=1.0)


class _Server(uvicorn.Server):
    """uvicorn, which runs `leave` before it waits for the open streams to end."""

    def __init__(self, app: ASGIApp, leave: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=1,
                # Longer than clients keep idle connections, so that none is closed as a request goes out on it.
                timeout_keep_alive=60,
            )
        )
        self._leave = leave

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._leave()
        await super().shutdown(sockets)


async def _leave_in_time(worker: Worker, idle_exit_s: float, leave: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        if worker.status == "failed":
            await asyncio.sleep(FAILED_GRACE_S)
            return leave()
        if 0 < idle_exit_s < worker.idle_s:
            logger.info("idle for %.0f s: leaving", idle_exit_s)
            return leave()


@contextlib.contextmanager
def _signals(server: uvicorn.Server) -> Iterator[None]:
    """Let a signal end the server: uvicorn raises a signal it again at its end, and we have to tidy up yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: setattr(server, "should_exit", True)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _only_engine(folder: Path) -> Iterator[None]:
    """Hold the engine lock, or raise EngineError that says who holds it."""
    lock = _acquire(folder)
    try:
        yield
    finally:
        lock.release()


def _acquire(folder: Path) -> FileLock:
    lock = runtime.engine_lock(folder)
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            lock.acquire(timeout=TICK_S)
            return lock
        except Timeout:
            # The holder may be on its way out; one that answers stays.
            endpoint = runtime.read_endpoint(folder)
            running = process.health(endpoint) if endpoint else None
        if running:
            who = f"pid {running.pid}, model {running.model}"
        elif time.monotonic() > deadline:
            who = f"pid {endpoint.pid}, not answering" if endpoint else "not answering"
        else:
            continue
        raise EngineError(f"engine already running ({who}); stop it with: stet engine stop")


@contextlib.contextmanager
def _listening(folder: Path, tcp_port: int | None) -> Iterator[tuple[Endpoint, list[socket.socket]]]:
    """Open the sockets and tell the runtime folder; take both away at the end. The engine lock must be held."""
    with contextlib.ExitStack() as stack:
        runtime.clear(folder)  # what an engine that was killed left behind
        stack.callback(runtime.clear, folder)
        has_unix = hasattr(socket, "AF_UNIX")
        sockets = [stack.enter_context(_unix_socket(runtime.socket_path(folder)))] if has_unix else []
        if tcp_port is None and has_unix:
            endpoint = Endpoint(os.getpid(), str(runtime.socket_path(folder)))
        else:
            tcp = stack.enter_context(_tcp_socket(tcp_port or 0))
            endpoint = Endpoint(
                os.getpid(),
                str(runtime.socket_path(folder)) if has_unix else None,
                port=tcp.getsockname()[1],
                token=runtime.new_token(folder),
            )
            sockets.append(tcp)
        runtime.write_endpoint(folder, endpoint)
        yield endpoint, sockets


def _unix_socket(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode is that of the first moment: a chmod after bind would leave a gap.
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise EngineError(f"no socket can be made at {path}: {error}; set {runtime.RUNTIME_DIR_VARIABLE}") from error
    finally:
        os.umask(before)
    listener.listen()
    return listener


def _tcp_socket(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise EngineError(f"port {port} on 127.0.0.1 can't be used: {error.strerror}; choose another, or 0") from error
    listener.listen()
    return listener
