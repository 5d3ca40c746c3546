"""stet/accept: hunks become exactly one versioned edit, and the document's next change proves that it was applied."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from lsp_server.edits import Hunk
from lsp_server.jobs import BUSY, Expected, Job
from lsp_server.session import REQUEST_FAILED, Session, invalid, rpc_error
from speculation.errors import ConfigError

CONFIRM_S = 5.0
"""How long the didChange may take to follow the applyEdit; editors gather changes for some 0.2 to 0.5 s."""
REFUSED_S = 1.0
"""How long the change may take that made the editor refuse the edit."""
LINGER_S = 0.3
"""How long to wait for the rest when an edit may come in parts."""
TRIES = 5
UNSEEN = "the editor said it applied the edit, but the text hasn't changed; accept again"
OTHERWISE = "the editor said it applied the edit, but the text has changed otherwise; accept again"

Apply = Callable[[lsp.ApplyWorkspaceEditParams], Awaitable[lsp.ApplyWorkspaceEditResult]]


async def accept(session: Session, apply: Apply, job_id: str, ids: Sequence[int] | None) -> dict[str, Any]:
    """Answer stet/accept. Raises a JSON-RPC error."""
    job = session.jobs.get(job_id)
    if job is None:
        invalid(f"there is no rewrite {job_id!r} to accept: it was accepted, rejected or has gone stale")
    if not job.is_proposed or any(other.expected for other in session.jobs.alternatives(job)):
        raise rpc_error(ConfigError(BUSY), REQUEST_FAILED)
    open_ids = [hunk.id for hunk in job.hunks]
    wanted = set(open_ids if ids is None else ids)
    if not wanted or not wanted <= {*open_ids, *job.dropped}:
        invalid(f"the rewrite has the hunks {open_ids}, not {list(ids or [])}")
    try:
        accepted, message = await _apply_retrying(session, apply, job, wanted)
    except asyncio.CancelledError:
        session.jobs.review(job)
        raise
    is_alive = session.jobs.get(job_id) is job
    if is_alive and accepted and not job.hunks:
        session.jobs.remove(job)
    elif is_alive:
        session.jobs.review(job)
    return {
        "applied": bool(accepted),
        "acceptedHunks": [hunk.id for hunk in accepted],
        "remainingHunks": session.hunks_json(job, job.hunks) if session.jobs.get(job_id) is job else [],
        "droppedHunks": session.dropped_json(job),
        "message": message,
    }


async def _apply_retrying(session: Session, apply: Apply, job: Job, wanted: set[int]) -> tuple[list[Hunk], str]:
    """Have the editor apply those of the hunks that still can be; which it has, and a message.

    A key that was pressed between our edit and its arrival makes the editor refuse it: then again for the new text.
    """
    message = ""
    for _ in range(TRIES):
        hunks = [hunk for hunk in job.hunks if hunk.id in wanted]
        if not hunks:
            return [], next((job.dropped[id] for id in wanted if id in job.dropped), message)
        version = job.snapshot.version
        refusal = await _apply(session, apply, job, hunks)
        if refusal is None:
            return hunks, "applied"
        message = refusal
        if job.snapshot.version == version or session.jobs.get(job.id) is not job:
            break
    return [], message


async def _apply(session: Session, apply: Apply, job: Job, hunks: list[Hunk]) -> str | None:
    """Have the editor apply hunks; None when it has, else why it hasn't."""
    edit = lsp.TextDocumentEdit(
        lsp.OptionalVersionedTextDocumentIdentifier(uri=job.snapshot.uri, version=job.snapshot.version),
        [_text_edit(hunk) for hunk in session.hunks_json(job, hunks)],
    )
    expected = job.expect(hunks)
    is_said = False
    refusal = UNSEEN
    try:
        answer = await apply(lsp.ApplyWorkspaceEditParams(lsp.WorkspaceEdit(document_changes=[edit])))
        is_said = answer.applied
        if not is_said:
            refusal = answer.failure_reason or "the editor refused the edit"
        await _change(expected, CONFIRM_S if is_said else REFUSED_S)
        if is_said and expected.news.is_set() and not expected.is_applied:
            refusal = OTHERWISE
            # Perhaps it comes in parts. Then the next change: the editor is least likely to be ahead of us just then.
            await asyncio.sleep(LINGER_S)
            if not expected.is_applied:
                expected.news.clear()
                await _change(expected, LINGER_S)
    except asyncio.CancelledError:
        is_said = expected.is_unclear = True
        raise
    except JsonRpcException as error:
        refusal = f"the editor can't apply edits: {error.message}"
    finally:
        is_applied = job.settle(is_said=is_said)
    return None if is_applied else refusal


async def _change(expected: Expected, seconds: float) -> None:
    """Wait for the document to change, or so long."""
    with suppress(TimeoutError):
        await asyncio.wait_for(expected.news.wait(), seconds)


def _text_edit(hunk: dict[str, Any]) -> lsp.TextEdit:
    start, end = (lsp.Position(**hunk["range"][side]) for side in ("start", "end"))
    return lsp.TextEdit(lsp.Range(start, end), hunk["newText"])
