"""The one thread that owns the Engine, and the queue in front of it.

Knows jobs, order and cancelling; knows no HTTP. Torch works in the thread; everything a job says is handed to the event
loop that made the job.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Literal, Protocol, cast

from speculation.errors import EngineError, StetError, is_out_of_memory
from speculation.types import Chunk, EngineInfo

logger = logging.getLogger(__name__)

Status = Literal["loading", "ok", "failed", "stopping"]

NO_ROOM = (
    "out of memory; rewrite fewer lines, choose a smaller model (--model) or KV cache (--kv-budget), "
    "or close other programs that use the GPU"
)
NO_ROOM_TO_LOAD = "out of memory; choose a smaller model (--model) or close other programs that use the GPU"


class EngineLike(Protocol):
    """The part of speculation.engine.Engine that is served."""

    @property
    def info(self) -> EngineInfo: ...
    @property
    def trouble(self) -> str | None: ...

    def generate(
        self,
        messages: Sequence[Mapping[str, str]] | None = None,
        *,
        source: str = "",
        file_type: str = "",
        draft: bool = True,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
        repetition_penalty: float = 1.0,
        max_new_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[Chunk]: ...

    def prefill(self, messages: Sequence[Mapping[str, str]]) -> Iterator[Chunk]: ...

    def close(self) -> None: ...


OpenEngine = Callable[[], EngineLike]
Work = Callable[[EngineLike], Iterator[Chunk]]


class Job:
    """One request: made, awaited and cancelled on the event loop, worked on in the worker's thread."""

    def __init__(self, worker: "Worker", work: Work, label: str) -> None:
        self.work = work
        self.label = label
        self.is_cancelled = False
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Chunk | StetError | None] = asyncio.Queue()

    async def next_chunk(self, timeout_s: float) -> Chunk | None:
        """The next chunk, or None after the last. Raises TimeoutError when none is there yet, StetError on failure."""
        async with asyncio.timeout(timeout_s):
            event = await self._events.get()
        if isinstance(event, StetError):
            raise event
        return event

    def cancel(self) -> None:
        """Nobody wants the answer any more: leave the queue, or stop after the chunk being made."""
        self.is_cancelled = True
        self._worker.drop(self)
        self._events.put_nowait(None)

    def post(self, event: Chunk | StetError | None) -> None:
        """Called in the worker's thread: hand an event to whoever awaits it."""
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody awaits anything
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    @property
    def waits_for(self) -> str:
        """What this job waits for, as a stream's comment says it."""
        if self._worker.status == "loading":
            return "loading"
        n_ahead = self._worker.n_ahead(self)
        return "working" if n_ahead is None else f"queued {n_ahead}"


class Worker:
    """Opens the engine and runs jobs, first come first served."""

    def __init__(self, open_engine: OpenEngine, asked_model: str) -> None:
        self.asked_model = asked_model
        self.status: Status = "loading"
        self.error: StetError | None = None
        self.info: EngineInfo | None = None
        self.trouble: str | None = None
        self._open_engine = open_engine
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._active: Job | None = None
        self._idle_since = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Begin to load the weights."""
        self._thread.start()

    def submit(self, work: Work, label: str) -> Job:
        """Queue work; the answer comes through the job. Called on the event loop."""
        job = Job(self, work, label)
        with self._changed:
            if self.error is None:
                self._waiting.append(job)
                self._changed.notify()
        if self.error is not None:
            job.post(self.error)
        return job

    def drop(self, job: Job) -> None:
        """Take a job out of the queue, if it still waits there."""
        with self._changed, contextlib.suppress(ValueError):
            self._waiting.remove(job)
            self._idle_since = time.monotonic()

    def stop(self, error: StetError, status: Status = "stopping") -> None:
        """Fail all jobs and take no more; the running one ends after its current chunk."""
        with self._changed:
            if self.error is not None:
                return
            self.status, self.error = status, error
            jobs = [*self._waiting, *([self._active] if self._active else [])]
            self._waiting.clear()
            self._changed.notify()
        for job in jobs:
            job.is_cancelled = True
            job.post(error)

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to close the engine; it may be in the middle of a long pass or a load."""
        self._thread.join(timeout_s)

    @property
    def model(self) -> str:
        """The served model; until it is loaded, the name by which it was asked for."""
        return self.info.model if self.info else self.asked_model

    @property
    def n_active(self) -> int:
        """1 while a request is worked on."""
        return int(self._active is not None)

    @property
    def n_waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @property
    def idle_s(self) -> float:
        """For how long there has been nothing to do; 0 while there is, and while the weights load."""
        with self._changed:
            is_idle = self.status == "ok" and not self._active and not self._waiting
            return time.monotonic() - self._idle_since if is_idle else 0.0

    def n_ahead(self, job: Job) -> int | None:
        """How many requests come before this one; None once it is not waiting."""
        with self._changed, contextlib.suppress(ValueError):
            return self._waiting.index(job) + self.n_active
        return None

    def _run(self) -> None:
        try:
            engine = self._open_engine()
        except Exception as error:
            if not isinstance(error, StetError):
                logger.exception("the engine could not be opened")
            self.stop(EngineError(f"the model can't be loaded: {_one_line(error, NO_ROOM_TO_LOAD)}"), "failed")
            return
        with self._changed:
            self.info, self.trouble = engine.info, engine.trouble
            self._idle_since = time.monotonic()
            if self.error is None:
                self.status = "ok"
        logger.info("serving %s on %s in %s", engine.info.model, engine.info.device, engine.info.dtype)
        while (job := self._take()) is not None:
            self._serve(engine, job)
            with self._changed:
                self._active, self.trouble = None, engine.trouble
                self._idle_since = time.monotonic()
        engine.close()

    def _take(self) -> Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.error is not None)
            if self.error is not None:
                return None
            self._active = self._waiting.popleft()
            return self._active

    def _serve(self, engine: EngineLike, job: Job) -> None:
        """Whatever goes wrong in one request ends that request only."""
        started = time.monotonic()
        n_tokens = n_passes = n_copied = 0
        outcome = "done"
        try:
            # Engine promises an iterator that can be closed.
            with contextlib.closing(cast("Generator[Chunk, None, None]", job.work(engine))) as chunks:
                for chunk in chunks:
                    if job.is_cancelled:
                        outcome = "cancelled"
                        break
                    n_tokens += len(chunk.token_ids)
                    n_passes += bool(chunk.token_ids)
                    n_copied += chunk.n_copied
                    job.post(chunk)
            job.post(None)
        except StetError as error:
            outcome = error.code
            job.post(error)
        except Exception as error:
            outcome = "failed"
            logger.exception("a request failed")
            job.post(EngineError(_one_line(error)))
        seconds = time.monotonic() - started
        counts = (n_tokens, n_copied, n_passes, seconds)
        logger.info("%s %s: %d tokens, %d copied, %d passes, %.2f s", job.label, outcome, *counts)


def _one_line(error: Exception, no_room: str = NO_ROOM) -> str:
    """An exception as one line that says what to do where that is known."""
    if isinstance(error, StetError):
        return str(error)
    if is_out_of_memory(error):
        return no_room
    name = type(error).__name__
    first = next(iter(str(error).splitlines()), "")
    return f"{name}: {first[:200]}" if first else name
