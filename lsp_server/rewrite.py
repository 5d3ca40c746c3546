"""stet/prepare, stet/rewrite and stet/reject: from params to a job, from a job to an answer."""

import asyncio
import os.path
from collections.abc import Callable, Collection
from contextlib import aclosing
from typing import Any
from urllib.parse import unquote, urlsplit

from lsp_server.engine_client import Request
from lsp_server.jobs import Cancelled, Job
from lsp_server.params import Params
from lsp_server.progress import Throttle
from lsp_server.prompts import Prompt, build_prompt
from lsp_server.question import find_place, find_wish
from lsp_server.session import INVALID_PARAMS, Session, rpc_error
from speculation.errors import ConfigError, StetError


def path_of(uri: str) -> str:
    """A file's path as the model is shown it: its last two parts, for the rest says nothing about code."""
    try:
        path = urlsplit(uri).path
    except ValueError:  # no URI
        path = ""
    return "/".join(unquote(path).replace(os.path.sep, "/").split("/")[-2:]).lstrip("/") or "untitled"


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
        place = find_place(session, params)
        rules = session.project(params.uri).instructions
        prompt = build_prompt(place.snapshot, place.region, "", path_of(params.uri), rules, place.text)
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
        place = find_place(session, params)
        project = session.project(params.uri)
        wish = find_wish(params, place.base, session.recipes(project), place.snapshot)
    except ConfigError as error:
        raise rpc_error(error, INVALID_PARAMS) from None
    except StetError as error:
        raise rpc_error(error) from None
    prompt = build_prompt(
        place.snapshot, place.region, wish.task, path_of(params.uri), project.instructions, place.text
    )
    session.stop_preparing()
    job = Job.of(params.job_id, place.snapshot, place.region, prompt, place.text)
    job.wish = wish
    if place.base:
        job.group = place.base.group
    job.context = [used.json() for used in project.used(wish.recipe)]
    session.jobs.add(job)
    return job, _request(prompt, params)


async def run_job(session: Session, job: Job, request: Request, report: Callable[[Job], None]) -> dict[str, Any]:
    """Write, tell the client how it goes, and return the answer to stet/rewrite. Raises a JSON-RPC error."""

    def say() -> None:
        session.say_progress(job, job.writing.meter.state, job.writing.message())
        report(job)

    client = session.client()
    try:
        with Throttle(say) as throttle:
            await job.run(client, request, lambda job: throttle.feed(job.writing.meter.state))
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
    session.jobs.written(job)
    session.say_progress(job, "done", job.writing.message())
    return _result(session, job)


def _result(session: Session, job: Job) -> dict[str, Any]:
    passage, snapshot = job.passage, job.snapshot
    return {
        "jobId": job.id,
        "status": "proposed" if job.is_proposed else "unchanged",
        "instruction": job.wish.instruction,
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
