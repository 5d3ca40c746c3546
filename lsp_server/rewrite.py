"""stet/prepare, stet/rewrite and stet/reject: from params to a job, from a job to an answer."""

import asyncio
import math
import os.path
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from lsp_server.documents import Snapshot
from lsp_server.engine_client import Request
from lsp_server.jobs import Cancelled, Job, Modified
from lsp_server.progress import Throttle
from lsp_server.prompts import AGAIN_TEMPERATURE, RECIPES, Prompt, build_prompt, task_text
from lsp_server.scopes import Region, find_region
from lsp_server.session import INVALID_PARAMS, Session, invalid, rpc_error
from speculation.errors import ConfigError, StetError


@dataclass(frozen=True)
class Params:
    """The params of stet/prepare and stet/rewrite, checked."""

    uri: str
    range: Mapping[str, Any]
    version: int | None
    instruction: str | None
    recipe: str | None
    diagnostics: Sequence[Mapping[str, Any]]
    job_id: str
    temperature: float
    top_p: float
    seed: int | None
    again: bool
    draft: bool
    work_done_token: str | int | None

    @classmethod
    def of(cls, given: object) -> "Params":
        """Read a JSON object. Raises a JSON-RPC error that names the field that is wrong."""
        params = _field({"params": given}, "params", Mapping, None)
        document = _field(params, "textDocument", Mapping, None)
        again = _field(params, "again", bool, False)
        return cls(
            uri=_field(document, "uri", str, None),
            range=_range(_field(params, "range", Mapping, None), "range"),
            version=_optional(document, "version", int),
            instruction=_optional(params, "instruction", str),
            recipe=_optional(params, "recipe", str),
            diagnostics=[_diagnostic(item) for item in _field(params, "diagnostics", list, [])],
            job_id=_field(params, "jobId", str, str(uuid.uuid4())),
            temperature=_field(params, "temperature", (int, float), AGAIN_TEMPERATURE if again else 0.0),
            top_p=_field(params, "topP", (int, float), 1.0),
            seed=_optional(params, "seed", int),
            again=again,
            draft=_field(params, "draft", bool, True),
            work_done_token=_optional(params, "workDoneToken", (str, int)),
        )


def _optional(params: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    return None if params.get(name) is None else _field(params, name, kind, None)


def _field(params: Mapping[str, Any], name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    value = params.get(name)
    if value is None and default is not None:
        return default
    # bool is an int in Python, but not in JSON.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = {
            Mapping: "an object",
            list: "a list",
            str: "a string",
            int: "a whole number",
            float: "a number",
            bool: "true or false",
        }
        invalid(f"{name} must be {' or '.join(names[each] for each in kinds)}, not {value!r:.80}")
    if isinstance(value, float) and not math.isfinite(value):
        invalid(f"{name} must be a number, not {value}")
    return value


def _range(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for side in ("start", "end"):
        position = _field(value, side, Mapping, None)
        for axis in ("line", "character"):
            if _field(position, axis, int, None) < 0:
                invalid(f"{name}.{side}.{axis} must not be negative")
    return value


def _diagnostic(value: object) -> Mapping[str, Any]:
    diagnostic: Mapping[str, Any] = _field({"diagnostic": value}, "diagnostic", Mapping, None)
    _range(_field(diagnostic, "range", Mapping, None), "diagnostic.range")
    _field(diagnostic, "message", str, None)
    return diagnostic


def path_of(uri: str) -> str:
    """A file's path as the model is shown it: its last two parts, for the rest says nothing about code."""
    try:
        path = urlsplit(uri).path
    except ValueError:  # no URI
        path = ""
    return "/".join(unquote(path).replace(os.path.sep, "/").split("/")[-2:]).lstrip("/") or "untitled"


def _locate(session: Session, params: Params) -> tuple[Snapshot, Region]:
    """The document and the lines that are meant."""
    snapshot = session.documents.get(params.uri)
    if params.version is not None and params.version != snapshot.version:
        raise Modified(
            f"the rewrite is for version {params.version} of the document, but it is at {snapshot.version}; try again"
        )
    start, end = params.range["start"], params.range["end"]
    if start["line"] >= len(snapshot.starts):
        raise ConfigError(
            f"the range begins in line {start['line'] + 1}, but the document has {len(snapshot.starts)} lines"
        )
    if (end["line"], end["character"]) < (start["line"], start["character"]):
        raise ConfigError("the range ends before it begins")
    return snapshot, find_region(
        snapshot, snapshot.offset(start, session.encoding), snapshot.offset(end, session.encoding)
    )


def _request(prompt: Prompt, params: Params, *, prefill_only: bool = False) -> Request:
    return Request(
        messages=prompt.messages,
        prediction=prompt.prediction,
        file_type=prompt.file_type,
        max_tokens=prompt.max_tokens,
        temperature=params.temperature,
        top_p=params.top_p,
        seed=params.seed,
        draft=params.draft,
        prefill_only=prefill_only,
    )


async def prepare(session: Session, given: object) -> dict[str, Any]:
    """Answer stet/prepare."""
    params = Params.of(given)
    session.stop_preparing()
    try:
        snapshot, region = _locate(session, params)
        rules = session.project(params.uri).instructions
        prompt = build_prompt(snapshot, region, "", path_of(params.uri), rules)
    except StetError as error:
        return {"state": "unavailable", "message": str(error)}
    task = asyncio.create_task(_warm(session, _request(prompt, params, prefill_only=True)))
    session.preparing = task
    try:
        return await task
    except asyncio.CancelledError:
        if session.preparing is task:
            # The client's own cancel: pass it on.
            raise
        return {"state": "superseded", "message": "a later request took over"}
    finally:
        if session.preparing is task:
            session.preparing = None


async def _warm(session: Session, request: Request) -> dict[str, Any]:
    try:
        async with aclosing(session.client().complete(request)) as events:
            async for _ in events:
                pass
    except StetError as error:
        return {"state": "unavailable", "message": str(error)}
    return {"state": "warm", "message": "the code is in the model's cache"}


def start_job(session: Session, params: Params) -> tuple[Job, Request]:
    """A job for a rewrite, known to the session, and what to ask the engine. Raises a JSON-RPC error."""
    try:
        if params.instruction is not None and params.recipe is not None:
            raise ConfigError("give either an instruction or a recipe, not both")
        snapshot, region = _locate(session, params)
        project = session.project(params.uri)
        recipes = {**RECIPES, **project.recipes}
        task = task_text(params.instruction, params.recipe, params.diagnostics, snapshot, recipes, again=params.again)
    except ConfigError as error:
        raise rpc_error(error, INVALID_PARAMS) from None
    except StetError as error:
        raise rpc_error(error) from None
    prompt = build_prompt(snapshot, region, task, path_of(params.uri), project.instructions)
    session.stop_preparing()
    session.tell_once(*project.problems)
    job = Job.of(params.job_id, snapshot, region, prompt)
    job.context = [used.json() for used in project.used(params.recipe)]
    session.jobs.add(job)
    return job, _request(prompt, params)


async def run_job(session: Session, job: Job, request: Request, report: Callable[[Job], None]) -> dict[str, Any]:
    """Write, tell the client how it goes, and return the answer to stet/rewrite. Raises a JSON-RPC error."""
    throttle = Throttle()

    def report_when_due(job: Job) -> None:
        if throttle.is_due(job.writing.meter.state):
            session.say_progress(job, job.writing.meter.state, job.writing.message())
            report(job)

    client = session.client()
    try:
        await job.run(client, request, report_when_due)
    except BaseException as error:
        session.jobs.remove(job)
        is_cancelled = isinstance(error, asyncio.CancelledError | Cancelled)
        state, message = ("cancelled", "cancelled") if is_cancelled else ("failed", str(error))
        session.say_progress(job, state, message)
        if isinstance(error, StetError):
            raise rpc_error(error) from None
        raise
    finally:
        if client.trouble:
            session.tell_once(client.trouble)
    if not job.is_proposed:
        session.jobs.remove(job)
    session.say_progress(job, "done", job.writing.message())
    return _result(session, job)


def _result(session: Session, job: Job) -> dict[str, Any]:
    passage, snapshot = job.passage, job.snapshot
    return {
        "jobId": job.id,
        "status": "proposed" if job.is_proposed else "unchanged",
        "uri": snapshot.uri,
        "version": snapshot.version,
        "range": snapshot.range(passage.start, passage.end, session.encoding),
        "hunks": session.hunks_json(job, job.hunks),
        "droppedHunks": session.dropped_json(job),
        "newText": job.text_with(job.hunks),
        "warnings": [warning._asdict() for warning in job.writing.warnings],
        "stats": job.writing.meter.final(),
        "context": job.context,
    }


def reject(session: Session, job_id: str, ids: Collection[int] | None = None) -> None:
    """Answer stet/reject: forget some hunks, or the whole job."""
    job = session.jobs.get(job_id)
    if job is None:
        return
    job.forget([hunk for hunk in job.hunks if ids is None or hunk.id in ids])
    if ids is None or (job.is_proposed and not job.hunks):
        session.jobs.remove(job)
        job.stop(Cancelled("the rewrite was rejected"))
