"""stet/accept: hunks become exactly one versioned edit, and the document's next change proves that it was applied."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from lsp_server.jobs import Job, Modified
from lsp_server.session import REQUEST_FAILED, Session, invalid, rpc_error
from speculation.errors import ConfigError

CONFIRM_S = 5.0
"""How long the didChange may take to follow the applyEdit; editors gather changes for some 0.2 to 0.5 s."""

Apply = Callable[[lsp.ApplyWorkspaceEditParams], Awaitable[lsp.ApplyWorkspaceEditResult]]


async def accept(session: Session, apply: Apply, job_id: str, ids: Sequence[int] | None) -> dict[str, Any]:
    """Answer stet/accept. Raises a JSON-RPC error."""
    job = session.jobs.get(job_id)
    if job is None:
        invalid(f"there is no rewrite {job_id!r} to accept: it was accepted, rejected or has gone stale")
    if not job.is_proposed or job.expected is not None:
        raise rpc_error(ConfigError("the rewrite is still being written or applied; wait for it"), REQUEST_FAILED)
    hunks = job.hunks if ids is None else [hunk for hunk in job.hunks if hunk.id in ids]
    if not hunks or len(hunks) < len(set(ids or [])):
        invalid(f"the rewrite has the hunks {[hunk.id for hunk in job.hunks]}, not {list(ids or [])}")
    refusal = await _apply(session, apply, job, list(hunks))
    if refusal is None and not job.hunks:
        session.jobs.remove(job)
    return {
        "applied": refusal is None,
        "acceptedHunks": [hunk.id for hunk in hunks] if refusal is None else [],
        "remainingHunks": session.hunks_json(job, job.hunks) if session.jobs.get(job_id) is job else [],
        "message": refusal or "applied",
    }


async def _apply(session: Session, apply: Apply, job: Job, hunks: list[Any]) -> str | None:
    """Have the editor apply hunks; None when it has, else why it hasn't."""
    snapshot = session.documents.get(job.uri)
    edit = lsp.TextDocumentEdit(
        lsp.OptionalVersionedTextDocumentIdentifier(uri=job.uri, version=snapshot.version),
        [_text_edit(hunk) for hunk in session.hunks_json(job, hunks)],
    )
    expected = job.expect(hunks, snapshot)
    try:
        answer = await apply(lsp.ApplyWorkspaceEditParams(lsp.WorkspaceEdit(document_changes=[edit])))
        if not answer.applied:
            return answer.failure_reason or "the editor refused the edit"
        await asyncio.wait_for(expected.arrived, CONFIRM_S)
    except JsonRpcException as error:
        return f"the editor can't apply edits: {error.message}"
    except TimeoutError:
        return "the editor said it applied the edit, but the text hasn't changed; perhaps you were typing: accept again"
    finally:
        job.expected = None
        if not job.stands(session.documents.get(job.uri)):
            session.jobs.drop(
                job, Modified("the lines were edited while the rewrite was being applied; rewrite them again")
            )
    return None


def _text_edit(hunk: dict[str, Any]) -> lsp.TextEdit:
    start, end = (lsp.Position(**hunk["range"][side]) for side in ("start", "end"))
    return lsp.TextEdit(lsp.Range(start, end), hunk["newText"])
