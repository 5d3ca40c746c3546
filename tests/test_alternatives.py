"""Any story of rewrites, their alternatives and refinements, accepts, rejects and typing: no text is ever lost.

The model is asked by the server's own functions; what it answers, and the editor, are made up here.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types as lsp

from lsp_server.accept import accept
from lsp_server.documents import split_lines
from lsp_server.engine_client import Event, Request
from lsp_server.jobs import MAX_ALTERNATIVES, Job
from lsp_server.params import Params
from lsp_server.rewrite import reject, run_job, start_job
from lsp_server.session import Session

HEAD, TAIL = "above = 1\n\n", "\nbelow = 1\n"
ACTIONS = [
    "alternative",
    "refine",
    "refine",
    "accept",
    "accept all",
    "reject",
    "reject hunks",
    "type",
    "type",
    "rewrite",
]


class Model:
    """An engine that edits a few of the lines that it is shown."""

    trouble = None

    def __init__(self, story: "Story") -> None:
        self.story = story
        self.shown = ""
        self.answer = ""

    async def complete(self, request: Request) -> AsyncIterator[Event]:
        fence, *shown, _ = request.prediction.splitlines(keepends=True)
        self.shown = "".join(shown)
        self.answer = self.story.edited(shown)
        yield Event("writing", f"{fence}{self.answer}```\n", n_tokens=1)
        yield Event("end", finish_reason="stop")


class Story:
    """A server, an editor with one document, and choices that come from a list of numbers."""

    def __init__(self, numbers: list[int], newline: str) -> None:
        self.numbers = iter(numbers)
        self.newline = newline
        self.n_lines = 0
        self.said: list[dict[str, Any]] = []
        self.session = Session(notify=lambda _, params: self.said.append(params))
        self.model = Model(self)
        self.session.client = lambda: self.model  # type: ignore[assignment,method-assign,return-value]
        body = "".join(self.line() for _ in range(2 + self.number(6)))
        self.session.documents.open("u", 1, (HEAD + body + TAIL).replace("\n", newline), "python")
        self.n_jobs = 0
        self.asked: dict[str, tuple[str, str]] = {}
        """The document when a job was asked for, and what the model was shown."""

    def number(self, n: int) -> int:
        return next(self.numbers, 0) % n

    def line(self) -> str:
        """A line that there was never before."""
        self.n_lines += 1
        return f"value_{self.n_lines} = {self.n_lines}\n"

    def edited(self, lines: list[str]) -> str:
        """These lines with some changed, deleted and put in; never none."""
        new = []
        for line in lines:
            new += {"keep": [line], "delete": [], "change": [self.line()], "insert": [line, self.line()]}[
                ["keep", "keep", "keep", "delete", "change", "insert"][self.number(6)]
            ]
        return "".join(new) if "".join(new).strip() else self.line()

    @property
    def text(self) -> str:
        return self.session.documents.get("u").text

    def change(self, *changes: dict[str, Any]) -> None:
        documents = self.session.documents
        edits = documents.change("u", documents.get("u").version + 1, changes)
        self.session.jobs.changed(edits, documents.get("u"))

    def standing(self) -> list[Job]:
        return [job for n in range(self.n_jobs) if (job := self.session.jobs.get(f"job {n}"))]

    async def ask(self, **params: Any) -> None:
        """stet/rewrite; what it proposes is what the model wrote, on the document as it is."""
        self.n_jobs += 1
        given = {"textDocument": {"uri": "u"}, "jobId": f"job {self.n_jobs - 1}", **params}
        before, text = self.standing(), self.text
        base = self.session.jobs.get(params.get("alternativeTo") or params.get("refines") or "")
        proposed = base.text_with(base.hunks) if base else ""
        job, request = start_job(self.session, Params.of(given))
        start, end = job.passage.start, job.passage.end
        shown = job.text_with(job.shown)
        result = await run_job(self.session, job, request, lambda job: None)
        assert self.text == text
        self.asked[job.id] = text, self.model.shown
        if "refines" in params:
            assert self.model.shown.strip("\n") == proposed.replace("\r\n", "\n").strip("\n")
        elif base and self.asked[base.id][0] == text:
            assert self.model.shown == self.asked[base.id][1]
        written = self.model.answer.strip("\n").replace("\n", self.newline)
        if result["status"] == "proposed":
            assert result["newText"].strip("\r\n") == written
            assert job.text_with(job.hunks) == result["newText"]
            assert self.session.jobs.get(job.id) is job
        else:
            known = [other.text_with(other.hunks) for other in before if other.group is job.group]
            assert written in [known.strip("\r\n") for known in [shown, text[start:end], *known]]
        if "range" not in params:
            kept = [other for other in before if other.group is job.group][-MAX_ALTERNATIVES + 1 :]
            assert set(map(id, kept)) <= set(map(id, self.standing()))

    async def accept(self, job: Job, ids: list[int]) -> None:
        hunks = [hunk for hunk in job.hunks if hunk.id in ids]
        start, end = job.passage.start, job.passage.end
        wanted = self.text[:start] + job.text_with(hunks) + self.text[end:]
        others = [other for other in self.session.jobs.alternatives(job) if other is not job]
        answer = await accept(self.session, self.apply, job.id, ids)
        assert answer["applied"] and answer["acceptedHunks"] == [hunk.id for hunk in hunks]
        assert self.text == wanted
        assert not set(map(id, others)) & set(map(id, self.standing()))
        why = {said["jobId"]: said["message"] for said in self.said if said["state"] == "stale"}
        assert {why[other.id] for other in others} <= {"another version was accepted"}

    async def apply(self, params: lsp.ApplyWorkspaceEditParams) -> lsp.ApplyWorkspaceEditResult:
        (document,) = params.edit.document_changes or []
        assert isinstance(document, lsp.TextDocumentEdit)
        changes = []
        for edit in reversed(document.edits):
            assert isinstance(edit, lsp.TextEdit)
            start, end = ({"line": at.line, "character": at.character} for at in (edit.range.start, edit.range.end))
            changes.append({"range": {"start": start, "end": end}, "text": edit.new_text})
        self.change(*changes)
        return lsp.ApplyWorkspaceEditResult(True)

    def type(self) -> None:
        """Change, delete or put in a line anywhere."""
        lines = split_lines(self.text)
        at = self.number(len(lines))
        start, end = {"line": at, "character": 0}, {"line": at + self.number(2), "character": 0}
        new = self.line().replace("\n", self.newline) * self.number(2)
        self.change({"range": {"start": start, "end": end}, "text": new})

    async def act(self, action: str) -> None:
        standing = self.standing()
        if action == "type":
            self.type()
        elif action == "rewrite" or not standing:
            n_lines = len(split_lines(self.text))
            first = self.number(n_lines)
            span = {"start": {"line": first, "character": 0}, "end": {"line": n_lines, "character": 0}}
            if "".join(split_lines(self.text)[first:]).strip():
                await self.ask(range=span, instruction="edit it")
        else:
            job = standing[self.number(len(standing))]
            some = [hunk.id for hunk in job.hunks if self.number(2)] or [job.hunks[0].id]
            match action:
                case "alternative":
                    await self.ask(alternativeTo=job.id)
                case "refine" if job.text_with(job.hunks).strip():
                    await self.ask(refines=job.id, instruction="edit more")
                case "accept":
                    await self.accept(job, some)
                case "accept all":
                    await self.accept(job, [hunk.id for hunk in job.hunks])
                case "reject":
                    reject(self.session, job.id)
                case "reject hunks":
                    reject(self.session, job.id, some)
        self.check()

    def check(self) -> None:
        """Each hunk of what stands has its place, and there is never more of it than is allowed."""
        standing = self.standing()
        for job in standing:
            assert job.is_proposed and job.hunks and all(job.place(hunk) for hunk in job.hunks)
        for job in standing:
            assert len(self.session.jobs.alternatives(job)) <= MAX_ALTERNATIVES


@settings(max_examples=max(100, settings.default.max_examples // 4))
@given(numbers=st.binary(min_size=200, max_size=200), newline=st.sampled_from(["\n", "\r\n"]))
def test_any_story_leaves_the_text_as_the_user_said(numbers: bytes, newline: str) -> None:
    story = Story(list(numbers), newline)

    async def tell() -> None:
        await story.act("rewrite")
        for _ in range(12):
            await story.act(ACTIONS[story.number(len(ACTIONS))])

    asyncio.run(tell())
