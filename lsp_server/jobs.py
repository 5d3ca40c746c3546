"""A rewrite from the first event to the last hunk, and what the user's typing does to it meanwhile.

`Job` ties one `Writing` to a place in an open document, `Jobs` knows all jobs. Nobody here speaks to an editor.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from lsp_server.documents import Edit, Snapshot
from lsp_server.edits import Hunk, apply_hunks
from lsp_server.engine_client import EngineClient, Request
from lsp_server.prompts import Prompt
from lsp_server.scopes import Region
from lsp_server.writing import Writing
from speculation.errors import StetError


class Cancelled(StetError):
    """The user stopped the rewrite."""

    code = "cancelled"


class Modified(StetError):
    """The user edited the lines that are being rewritten, or the document is another version than was meant."""

    code = "content_modified"


class Superseded(StetError):
    """A newer rewrite of the same lines took over."""

    code = "superseded"


@dataclass
class Expected:
    """What an accepted edit will make of the document."""

    hunks: list[Hunk]
    region_text: str
    text: str
    arrived: "asyncio.Future[None]"


@dataclass
class Job:
    """A rewrite of the text start:end of an open document; the offsets follow the user's edits."""

    id: str
    uri: str
    start: int
    end: int
    lines: list[str]
    """The lines that stand there, and that the hunks refer to."""
    writing: Writing
    hunks: list[Hunk] = field(default_factory=list)
    is_proposed: bool = False
    context: list[dict[str, Any]] = field(default_factory=list)
    """What project files have put into the prompt, as the protocol says it."""
    expected: "Expected | None" = None
    """An edit of ours is on its way to the editor: what changes inside may be just that."""
    _task: "asyncio.Task[object] | None" = None
    _stopped_by: StetError | None = None

    @classmethod
    def of(cls, id: str, snapshot: Snapshot, region: Region, prompt: Prompt) -> "Job":
        """A job that has not begun."""
        return cls(id, snapshot.uri, region.start, region.end, list(prompt.form.lines), Writing(prompt))

    async def run(self, client: EngineClient, request: Request, report: Callable[["Job"], None]) -> None:
        """Write to the end. Raises what `stop` was given, or what went wrong."""
        self._task = asyncio.current_task()
        try:
            async with aclosing(client.complete(request)) as events:
                async for event in events:
                    self.writing.take(event)
                    self.hunks = self.writing.hunks
                    report(self)
        except asyncio.CancelledError:
            if self._stopped_by is None or self._task is None:
                raise
            self._task.uncancel()
            raise self._stopped_by from None
        finally:
            self._task = None
        self.is_proposed = bool(self.hunks)

    def stop(self, reason: StetError) -> None:
        """End a running job for a reason; nothing if it isn't running."""
        if self._task is not None and self._stopped_by is None:
            self._stopped_by = reason
            self._task.cancel()

    def offset(self, line: int) -> int:
        """Where a line of the region begins in the document."""
        return self.start + sum(map(len, self.lines[:line]))

    def follow(self, edits: Iterable[Edit], snapshot: Snapshot) -> bool:
        """Move along with the user's edits, after which snapshot stands; False if they touched the region itself."""
        for edit in edits:
            grown = len(edit.new_text) - (edit.end - edit.start)
            if edit.end <= self.start and edit.start < self.start:
                self.start += grown
                self.end += grown
            elif edit.start == edit.end == self.start:
                # Typed right before the region: above it if that is whole lines, else the check below says no.
                self.start += grown
                self.end += grown
            elif edit.start < self.end:
                self.end += grown
        return self.stands(snapshot)

    def stands(self, snapshot: Snapshot) -> bool:
        """Whether the region is still what it was: whole lines, if it was that, and the same text."""
        form = self.writing.form
        begins = form.head or self.start in snapshot.starts
        ends = form.tail or self.end in snapshot.starts or self.end == len(snapshot.text)
        return bool(begins and ends) and snapshot.text[self.start : self.end] == "".join(self.lines)

    def chosen(self, ids: Sequence[int] | None) -> list[Hunk]:
        """The hunks with these ids (None: all)."""
        return [hunk for hunk in self.hunks if ids is None or hunk.id in ids]

    def expect(self, hunks: list[Hunk], snapshot: Snapshot) -> Expected:
        """Say that these hunks are about to be applied to snapshot."""
        new = "".join(apply_hunks(self.lines, hunks))
        text = snapshot.text[: self.start] + new + snapshot.text[self.end :]
        self.expected = Expected(hunks, new, text, asyncio.get_running_loop().create_future())
        return self.expected

    def confirm(self, snapshot: Snapshot) -> bool:
        """Whether snapshot is what was expected; then the hunks that remain refer to the lines as they are now."""
        expected = self.expected
        if expected is None:
            return False
        # The whole text is compared too: between like lines an editor may report the change a few lines off.
        if snapshot.text != expected.text and snapshot.text[self.start : self.end] != expected.region_text:
            return False
        taken = {hunk.id for hunk in expected.hunks}
        rest, shift = [], 0
        for hunk in self.hunks:
            if hunk.id in taken:
                shift += len(hunk.new_lines) - (hunk.last - hunk.first)
            else:
                rest.append(hunk._replace(first=hunk.first + shift, last=hunk.last + shift))
        self.hunks, self.lines = rest, apply_hunks(self.lines, expected.hunks)
        self.end = self.start + len(expected.region_text)
        self.expected = None
        expected.arrived.set_result(None)
        return True


class Jobs:
    """The jobs that run or wait for accept or reject."""

    def __init__(self, on_stale: Callable[[Job, str], None]) -> None:
        self._jobs: dict[str, Job] = {}
        self._on_stale = on_stale

    def add(self, job: Job) -> None:
        """Take in a job; older ones that overlap it end."""
        for other in [other for other in self._jobs.values() if other.uri == job.uri]:
            if other.id == job.id or (other.start < job.end and job.start < other.end):
                self.drop(other, Superseded("a newer rewrite of the same lines took this one's place"))
        self._jobs[job.id] = job

    def get(self, id: str) -> Job | None:
        """The job of that name."""
        return self._jobs.get(id)

    def remove(self, job: Job) -> None:
        """Forget a job that is over."""
        if self._jobs.get(job.id) is job:
            del self._jobs[job.id]

    def drop(self, job: Job, reason: StetError) -> None:
        """End a job that the user didn't end: a running one fails, a proposal goes stale."""
        self.remove(job)
        job.stop(reason)
        if job.is_proposed:
            self._on_stale(job, str(reason))

    def changed(self, edits: Sequence[Edit], snapshot: Snapshot) -> None:
        """The user (or an accepted rewrite) edited a document."""
        for job in [job for job in self._jobs.values() if job.uri == snapshot.uri]:
            stands = job.follow(edits, snapshot)
            if not job.confirm(snapshot) and not stands and job.expected is None:
                self.drop(job, Modified("you edited the lines that are being rewritten; rewrite them again"))

    def closed(self, uri: str | None) -> None:
        """A document was closed; None: all are taken for closed."""
        for job in [job for job in self._jobs.values() if uri in (None, job.uri)]:
            self.drop(job, Modified("the document was closed"))

    def stop_all(self) -> None:
        """The server leaves."""
        for job in list(self._jobs.values()):
            self.remove(job)
            job.stop(Cancelled("the language server is leaving"))
