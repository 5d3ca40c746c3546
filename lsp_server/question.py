"""What a rewrite asks: about which lines, in which words. About a standing proposal it can be asked once more."""

from collections.abc import Mapping
from typing import NamedTuple

from lsp_server.documents import Snapshot, is_blank
from lsp_server.jobs import BUSY, Job, Modified
from lsp_server.params import Params
from lsp_server.prompts import AGAIN, Wish, task_text
from lsp_server.recipes import Recipe
from lsp_server.scopes import Region, find_region
from lsp_server.session import Session
from speculation.errors import ConfigError


class Place(NamedTuple):
    """The lines that are meant."""

    snapshot: Snapshot
    region: Region
    text: str | None = None
    """What the model is shown instead of the region's own text."""
    base: Job | None = None
    """The proposal that the question is about."""


def find_place(session: Session, params: Params) -> Place:
    """The document and the lines that are meant. Raises ConfigError, or Modified if it is at another version."""
    snapshot = session.documents.get(params.uri)
    if params.version is not None and params.version != snapshot.version:
        raise Modified(
            f"the rewrite is for version {params.version} of the document, but it is at {snapshot.version}; try again"
        )
    if params.range is None:
        return _place_of(_base(session, params), is_shown=params.refines is not None)
    start, end = params.range["start"], params.range["end"]
    if start["line"] >= len(snapshot.starts):
        raise ConfigError(
            f"the range begins in line {start['line'] + 1}, but the document has {len(snapshot.starts)} lines"
        )
    if (end["line"], end["character"]) < (start["line"], start["character"]):
        raise ConfigError("the range ends before it begins")
    offsets = (snapshot.offset(position, session.encoding) for position in (start, end))
    return Place(snapshot, find_region(snapshot, *offsets))


def find_wish(params: Params, base: Job | None, recipes: Mapping[str, Recipe], snapshot: Snapshot) -> Wish:
    """What is asked, in words. Raises ConfigError."""
    instruction, recipe = params.instruction, params.recipe
    if params.alternative_to is not None and base is not None:
        if instruction is not None or recipe is not None:
            raise ConfigError("alternativeTo asks the same once more: leave out instruction and recipe")
        return base.wish._replace(task=f"{base.wish.task}\n{AGAIN}") if params.again else base.wish
    if instruction is not None and recipe is not None:
        raise ConfigError("give either an instruction or a recipe, not both")
    earlier = (*base.wish.earlier, base.wish.instruction) if base else ()
    task = task_text(instruction, recipe, params.diagnostics, snapshot, recipes, earlier=earlier, again=params.again)
    return Wish(recipes[recipe].title if recipe else (instruction or "").strip(), task, recipe, earlier)


def _base(session: Session, params: Params) -> Job:
    """The standing proposal that params name."""
    name = params.alternative_to or params.refines or ""
    job = session.jobs.get(name)
    if job is None:
        raise ConfigError(
            f"there is no proposal {name!r:.80} to go on from: it was accepted, rejected or has gone stale; "
            "ask for a new rewrite"
        )
    if not job.is_proposed or job.expected:
        raise ConfigError(BUSY)
    if job.snapshot.uri != params.uri:
        raise ConfigError(f"the proposal {name!r:.80} is one for {job.snapshot.uri}; name that document")
    if any(other.id == params.job_id for other in session.jobs.alternatives(job)):
        raise ConfigError(f"jobId {params.job_id!r:.80} names another version of it; give this one a name of its own")
    return job


def _place_of(base: Job, *, is_shown: bool) -> Place:
    """The lines of a proposal as they are now. is_shown: the model is shown the proposal, else what it was shown."""
    snapshot, passage = base.snapshot, base.passage
    if is_blank(snapshot.slice(passage.start, passage.end)):
        raise ConfigError("nothing is left of the lines that were to be rewritten; ask for a new rewrite")
    region = find_region(snapshot, passage.start, passage.end)
    hunks = base.hunks if is_shown else [hunk for hunk in base.shown if base.place(hunk)]
    if not hunks:
        return Place(snapshot, region, None, base)
    # An edit at the border may have made blanks there belong to the lines.
    before = snapshot.slice(min(region.start, passage.start), passage.start)
    after = snapshot.slice(passage.end, max(region.end, passage.end))
    text = before + base.text_with(hunks) + after
    if is_blank(text):
        raise ConfigError("the proposal leaves no code to go on from; ask for a new rewrite")
    return Place(snapshot, region, text, base)
