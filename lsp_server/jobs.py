"""A rewrite from the first event to the last hunk, and what the user's edits do to it meanwhile.

`Job` ties one `Writing` to a passage of an open document, `Jobs` knows all jobs. Nobody here speaks to an editor.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from lsp_server.documents import Edit, Snapshot, split_lines
from lsp_server.edits import Hunk, Part, StreamDiff, changed_words
from lsp_server.engine_client import EngineClient, Event, Request
from lsp_server.prompts import Prompt, Wish
from lsp_server.rebase import Passage
from lsp_server.scopes import Region
from lsp_server.writing import Writing
from speculation.errors import StetError

EDITED = "you edited the lines that it changes"
UNCLEAR = "the text changed while it was being applied: look whether it was"
BUSY = "the rewrite is still being written or applied; wait for it"
MAX_ALTERNATIVES = 3
"""So many proposals for the same lines stand side by side."""


class Cancelled(StetError):
    """The user stopped the rewrite."""

    code = "cancelled"


class Modified(StetError):
    """The user edited all that was to be changed, or the document is another version than was meant."""

    code = "content_modified"


class Superseded(StetError):
    """A newer rewrite of the same lines took over."""

    code = "superseded"


@dataclass
class Expected:
    """An edit of ours on its way to the editor. Only the document's changes prove that it was applied."""

    hunks: list[Hunk]
    text: str
    """The document as it is. All of it is compared: between like lines an editor may report a change elsewhere."""
    wanted: str
    """The document as the edit makes it."""
    passage_wanted: str
    is_applied: bool = False
    is_unclear: bool = False
    """Another change came, and the edit may be in it."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at each change of the document."""

    def take(self, edits: Sequence[Edit]) -> None:
        """The document changed. What the user types after our edit may come along with it."""
        for edit in edits:
            if not self.is_applied:
                self.text = edit.apply(self.text)
                self.is_applied = self.text == self.wanted
        self.news.set()


@dataclass
class Job:
    """A rewrite of a passage. Its hunks refer to the lines that stood there at first."""

    id: str
    passage: Passage
    lines: list[str]
    writing: Writing
    wish: Wish = field(default_factory=Wish)
    group: object = field(default_factory=object)
    """Alternatives, which are rewrites of the same lines side by side, have it in common."""
    shown: list[Hunk] = field(default_factory=list)
    """What the model was shown instead of the lines: these applied."""
    hunks: list[Hunk] = field(default_factory=list)
    """In order: those that are final, and neither accepted nor rejected nor dropped."""
    dropped: dict[int, str] = field(default_factory=dict)
    """The hunks that can't be applied any more by their ids, and why."""
    is_proposed: bool = False
    context: list[dict[str, Any]] = field(default_factory=list)
    """What project files have put into the prompt, as the protocol says it."""
    expected: Expected | None = None
    fixed_json: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What the client is told of each hunk whatever becomes of the document: it is told again and again."""
    _n_taken: int = 0
    _words: dict[int, tuple[list[Part], list[Part]]] = field(default_factory=dict)
    _task: "asyncio.Task[object] | None" = None
    _stopped_by: StetError | None = None

    @classmethod
    def of(cls, id: str, snapshot: Snapshot, region: Region, prompt: Prompt, text: str | None = None) -> "Job":
        """A job that has not begun. text: what the model is shown instead of the region's own."""
        lines = list(prompt.form.lines)
        job = cls(id, Passage(snapshot, region.start, region.end), lines, Writing(prompt))
        if text is not None:
            diff = StreamDiff(lines)
            diff.feed(split_lines(text))
            job.shown = diff.finish()
        return job

    def __post_init__(self) -> None:
        self.starts = list(accumulate(map(len, self.lines), initial=0))
        """Where each line began in the passage."""

    @property
    def snapshot(self) -> Snapshot:
        """The document as it is."""
        return self.passage.snapshot

    async def run(self, client: EngineClient, request: Request, report: Callable[["Job"], None]) -> None:
        """Write to the end. Raises what `stop` was given, or what went wrong."""
        self._task = asyncio.current_task()
        try:
            async with aclosing(client.complete(request)) as events:
                async for event in events:
                    self.take(event)
                    report(self)
            await asyncio.to_thread(self.writing.check_syntax)
        except asyncio.CancelledError:
            if self._stopped_by is None or self._task is None:
                raise
            self._task.uncancel()
            raise self._stopped_by from None
        finally:
            self._task = None
        if self.dropped and not self.hunks:
            raise Modified("you edited all the lines that it would change; rewrite them again")
        if self.writing.hunks and not self.hunks:
            raise Cancelled("the rewrite was rejected")
        self.is_proposed = bool(self.hunks) and not self.writing.is_unchanged

    def take(self, event: Event) -> None:
        """The next event of the engine. A hunk is looked at once it is final: what was undone by then costs nothing."""
        self.writing.take(event)
        fresh = self.writing.hunks[self._n_taken :]
        self._n_taken += len(fresh)
        self.hunks += fresh
        self._drop_edited(fresh)

    def stop(self, reason: StetError) -> None:
        """End a running job for a reason; nothing if it isn't running."""
        if self._task is not None and self._stopped_by is None:
            self._stopped_by = reason
            self._task.cancel()

    def place(self, hunk: Hunk) -> tuple[int, int] | None:
        """The offsets of a hunk in the document as it is; None if its lines were edited."""
        first, last = self.starts[hunk.first], self.starts[hunk.last]
        at = self.passage.place(first, last)
        return None if at is None else (at, at + last - first)

    def words(self, hunk: Hunk) -> tuple[list[Part], list[Part]]:
        """What differs within its lines: parts of the old ones, and of the new ones."""
        if hunk.id not in self._words:
            self._words[hunk.id] = changed_words(self.lines[hunk.first : hunk.last], hunk.new_lines)
        return self._words[hunk.id]

    def written(self, hunk: Hunk) -> list[Part] | None:
        """The parts of its new lines that the model wrote itself; None if the engine doesn't say.

        Of a refinement all that is not the document's: what the model copied there, it wrote before.
        """
        written = self.writing.written(hunk)
        if written is None or not self.shown:
            return written
        within = self.words(hunk)[1]
        known = {*self.lines, *(hunk.new_lines[part.line] for part in within)}
        whole = [
            Part(number, len(line) - len(line.lstrip()), len(line.rstrip()))
            for number, line in enumerate(hunk.new_lines)
            if line not in known and line.strip()
        ]
        told = {part.line for part in (*within, *whole)}
        return sorted([*within, *whole, *(part for part in written if part.line not in told)])

    def text_with(self, hunks: Sequence[Hunk]) -> str:
        """The passage as it is, with these hunks applied."""
        begin = self.passage.start
        text = self.snapshot.slice(begin, self.passage.end)
        for hunk in reversed(hunks):
            place = self.place(hunk)
            assert place is not None, "hunks without a place are dropped"
            text = Edit(place[0] - begin, place[1] - begin, "".join(hunk.new_lines)).apply(text)
        return text

    def follow(self, edits: Sequence[Edit], snapshot: Snapshot) -> bool:
        """The document changed; whether it did in the passage."""
        is_touched = self.passage.follow(edits, snapshot)
        if self.expected:
            begin, wanted = self.passage.start, self.expected.passage_wanted
            self.expected.is_unclear |= is_touched or snapshot.slice(begin, begin + len(wanted)) == wanted
            self.expected.take(edits)
            if self.expected.is_applied:
                self.forget(self.expected.hunks)
        if is_touched:
            self._drop_edited(self.hunks)
        return is_touched

    def expect(self, hunks: list[Hunk]) -> Expected:
        """Say that these hunks are about to be applied to the document as it is."""
        text, passage_wanted = self.snapshot.text, self.text_with(hunks)
        wanted = text[: self.passage.start] + passage_wanted + text[self.passage.end :]
        self.expected = Expected(hunks, text, wanted, passage_wanted)
        return self.expected

    def settle(self, *, is_said: bool) -> bool:
        """Expect no longer; whether the edit was applied. is_said: the editor says so."""
        assert self.expected is not None
        expected, self.expected = self.expected, None
        if is_said and expected.is_unclear and not expected.is_applied:
            # To apply it again could put the same lines there twice.
            self._drop(expected.hunks, UNCLEAR)
        self._drop_edited(self.hunks)
        return expected.is_applied

    def forget(self, hunks: Collection[Hunk]) -> None:
        """Take out hunks that were accepted or rejected."""
        self.hunks = [hunk for hunk in self.hunks if hunk not in hunks]

    def _drop(self, hunks: Collection[Hunk], reason: str) -> None:
        self.forget(hunks)
        self.dropped |= {hunk.id: reason for hunk in hunks}

    def _drop_edited(self, hunks: Collection[Hunk]) -> None:
        on_their_way = self.expected.hunks if self.expected else ()
        self._drop([hunk for hunk in hunks if hunk not in on_their_way and self.place(hunk) is None], EDITED)


class Jobs:
    """The jobs that run or wait for accept or reject."""

    def __init__(self, on_stale: Callable[[Job, str], None], on_edited: Callable[[Job], None]) -> None:
        self._jobs: dict[str, Job] = {}
        self._on_stale = on_stale
        self._on_edited = on_edited

    def add(self, job: Job) -> None:
        """Take in a job; older ones that overlap it end, with all alternatives to them, unless it is one itself."""
        here = job.passage
        overlapped = {
            other.group
            for other in self._in(job.snapshot.uri)
            if other.passage.start < here.end and here.start < other.passage.end
        } - {job.group}
        for other in list(self._jobs.values()):
            if other.id == job.id or other.group in overlapped:
                self.drop(other, Superseded("a newer rewrite of the same lines took this one's place"))
        self._jobs[job.id] = job

    def alternatives(self, job: Job) -> list[Job]:
        """A job and those that live side by side with it for the same lines, the oldest first."""
        return [other for other in self._jobs.values() if other.group is job.group]

    def written(self, job: Job) -> None:
        """A job came to its end: it takes its place among the alternatives, or is over if it says nothing new."""
        others = [other for other in self._others(job) if other.is_proposed and not other.expected]
        text = job.text_with(job.hunks)
        if any(other.text_with(other.hunks) == text for other in others):
            job.is_proposed = False
        if not job.is_proposed:
            job.hunks = []
            self.remove(job)
            return
        for other in others[: len(others) + 1 - MAX_ALTERNATIVES]:
            self.drop(other, Superseded(f"a newer version took this one's place: {MAX_ALTERNATIVES} are kept"))

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
        if job.expected:
            job.expected.news.set()
        if job.is_proposed:
            self._on_stale(job, str(reason))

    def review(self, job: Job) -> None:
        """End a job if the user's edits left nothing of it."""
        if job.passage.is_gone:
            self.drop(job, Modified("the lines that were to be rewritten are gone"))
        elif job.is_proposed and not job.hunks:
            self.drop(job, Modified("you edited all the lines that it would change; rewrite them again"))

    def changed(self, edits: Sequence[Edit], snapshot: Snapshot) -> None:
        """The user (or an accepted rewrite) edited a document."""
        # What is being applied comes first: for its alternatives that is no edit of the user's.
        for job in sorted(self._in(snapshot.uri), key=lambda job: job.expected is None):
            if self.get(job.id) is not job:
                continue
            n_dropped = len(job.dropped)
            is_touched = job.follow(edits, snapshot)
            if job.expected and job.expected.is_applied:
                for other in self._others(job):
                    self.drop(other, Superseded("another version was accepted"))
            if job.expected or not is_touched:
                continue  # While hunks are on their way, who sent them looks after the job.
            self.review(job)
            if self.get(job.id) is job and (job.is_proposed or len(job.dropped) > n_dropped):
                self._on_edited(job)

    def closed(self, uri: str | None) -> None:
        """A document was closed; None: all are taken for closed."""
        for job in [job for job in self._jobs.values() if uri in (None, job.snapshot.uri)]:
            self.drop(job, Modified("the document was closed"))

    def stop_all(self) -> None:
        """The server leaves."""
        for job in list(self._jobs.values()):
            self.remove(job)
            job.stop(Cancelled("the language server is leaving"))

    def _others(self, job: Job) -> list[Job]:
        return [other for other in self.alternatives(job) if other is not job]

    def _in(self, uri: str) -> list[Job]:
        return [job for job in self._jobs.values() if job.snapshot.uri == uri]
