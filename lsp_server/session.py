"""What one editor's connection holds together, and the errors that go over it. Handles nothing itself."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from lsp_server.documents import Documents, Encoding, units
from lsp_server.edits import Hunk, Part
from lsp_server.engine_client import EngineClient
from lsp_server.jobs import Job, Jobs
from lsp_server.project import Project, path_of_uri, read_project
from lsp_server.recipe_files import read_user_recipes
from lsp_server.recipes import RECIPES, Recipe
from lsp_server.settings import Settings
from speculation.errors import ConfigError, StetError

PROGRESS = "stet/progress"
INVALID_PARAMS, REQUEST_FAILED = -32602, -32803
CODES = {"cancelled": -32800, "content_modified": -32801, "superseded": -32802}
"""StetError.code -> JSON-RPC code; every other error is RequestFailed."""


def rpc_error(error: StetError, code: int | None = None) -> JsonRpcException:
    """An error as the client gets it."""
    return JsonRpcException(str(error), code or CODES.get(error.code, REQUEST_FAILED), {"code": error.code})


def invalid(message: str) -> NoReturn:
    """Refuse a request for its params."""
    raise rpc_error(ConfigError(message), INVALID_PARAMS)


@dataclass
class Session:
    """One editor: its documents, jobs and settings, and a way to notify it."""

    notify: Callable[[str, Any], None]
    documents: Documents = field(default_factory=Documents)
    settings: Settings = field(default_factory=Settings)
    preparing: "asyncio.Task[Any] | None" = None
    """The one warm-up under way."""
    folders: list[str] = field(default_factory=list)
    """URIs of the workspace folders."""

    def __post_init__(self) -> None:
        self.jobs = Jobs(self._say_stale, self._say_edited)
        self._told: set[str] = set()

    @property
    def encoding(self) -> Encoding:
        """Of positions, as agreed on with the client."""
        return self.documents.encoding

    def client(self) -> EngineClient:
        """A client for the engine of the settings."""
        return EngineClient(self.settings)

    def project(self, uri: str) -> Project:
        """What the workspace says about rewrites of a document."""
        file = path_of_uri(uri)
        if file is None or not self.settings.project_files:
            return Project()
        return read_project(file, [path for path in map(path_of_uri, self.folders) if path])

    def recipes(self, project: Project) -> dict[str, Recipe]:
        """All recipes there are, by id; what is wrong with those from files is told once."""
        user = read_user_recipes()
        self.tell_once(*user.problems, *project.problems)
        return {**RECIPES, **user.recipes, **project.recipes}

    def language_of(self, uri: str) -> str:
        """The editor's name for a document's language; empty for one that isn't open."""
        try:
            return self.documents.get(uri).language_id
        except ConfigError:
            return ""

    def distrust(self, uri: str | None) -> None:
        """Forget a document: it was closed, or changed in a way that could not be read. None: all of them."""
        self.jobs.closed(uri)
        if uri is None:
            encoding, self.documents = self.encoding, Documents()
            self.documents.encoding = encoding
        else:
            self.documents.close(uri)

    def tell_once(self, *lines: str) -> None:
        """Show the user lines that must not come again with every rewrite."""
        for line in lines:
            if line not in self._told:
                self._told.add(line)
                shown = lsp.ShowMessageParams(lsp.MessageType.Warning, f"Stet: {line}")
                self.notify(lsp.WINDOW_SHOW_MESSAGE, shown)

    def stop_preparing(self) -> None:
        """Make way for a request: what is prefilled already stays in the engine's cache."""
        task, self.preparing = self.preparing, None
        if task is not None:
            task.cancel()

    def stop(self) -> None:
        """End all work."""
        self.stop_preparing()
        self.jobs.stop_all()

    def hunks_json(self, job: Job, hunks: list[Hunk]) -> list[dict[str, Any]]:
        """Hunks as the protocol has them, placed in the document as it is now."""
        return [self._hunk_json(job, hunk, *place) for hunk in hunks if (place := job.place(hunk))]

    def _hunk_json(self, job: Job, hunk: Hunk, start: int, end: int) -> dict[str, Any]:
        if hunk.id not in job.fixed_json:
            job.fixed_json[hunk.id] = self._fixed_json(job, hunk)
        span = job.snapshot.range(start, end, self.encoding)
        removed = [_moved(part, span["start"]) for part in job.fixed_json[hunk.id]["removed"]]
        return job.fixed_json[hunk.id] | {"range": span, "removed": removed}

    def _fixed_json(self, job: Job, hunk: Hunk) -> dict[str, Any]:
        """What of a hunk stays the same while the document changes around it."""
        old_lines, (removed, added), written = job.lines[hunk.first : hunk.last], job.words(hunk), job.written(hunk)
        return {
            "id": hunk.id,
            "oldText": "".join(old_lines),
            "newText": "".join(hunk.new_lines),
            "removed": self._parts_json(old_lines, removed),
            "added": self._parts_json(hunk.new_lines, added),
            "written": None if written is None else self._parts_json(hunk.new_lines, written),
        }

    def _parts_json(self, lines: Sequence[str], parts: list[Part]) -> list[dict[str, int]]:
        """Parts of a hunk's lines in the client's units."""
        return [
            {"line": part.line}
            | {
                side: units(lines[part.line][:character], self.encoding)
                for side, character in (("start", part.start), ("end", part.end))
            }
            for part in parts
        ]

    def dropped_json(self, job: Job) -> list[dict[str, Any]]:
        """The hunks that can't be applied any more, as the protocol has them."""
        return [{"id": id, "reason": reason} for id, reason in job.dropped.items()]

    def say_progress(self, job: Job, state: str, message: str) -> None:
        """Send stet/progress."""
        passage, snapshot = job.passage, job.snapshot
        fields = {
            "jobId": job.id,
            "uri": snapshot.uri,
            "version": snapshot.version,
            "state": state,
            "instruction": job.wish.instruction,
            "range": snapshot.range(passage.start, passage.end, self.encoding),
            "hunks": self.hunks_json(job, job.hunks),
            "droppedHunks": self.dropped_json(job),
            "line": snapshot.position(passage.now(job.starts[job.writing.line]), self.encoding)["line"],
            "text": "".join(job.writing.new_lines),
            "finalLines": job.writing.n_final,
            "warnings": [warning._asdict() for warning in job.writing.warnings],
            "message": message,
            "context": job.context,
        }
        self.notify(PROGRESS, fields | job.writing.meter.fields())

    def _say_edited(self, job: Job) -> None:
        state = "done" if job.is_proposed else job.writing.meter.state
        self.say_progress(job, state, job.writing.message())

    def _say_stale(self, job: Job, reason: str) -> None:
        # Without ranges: the lines they were about are not there any more.
        fields = {"jobId": job.id, "uri": job.snapshot.uri, "state": "stale", "hunks": [], "message": reason}
        self.notify(PROGRESS, fields | {"droppedHunks": self.dropped_json(job)})


def _moved(part: Mapping[str, int], start: Mapping[str, int]) -> dict[str, Any]:
    """The range of a part of lines that begin at a position: only the first one can begin within a line."""
    before = 0 if part["line"] else start["character"]
    return {side: {"line": start["line"] + part["line"], "character": before + part[side]} for side in ("start", "end")}
