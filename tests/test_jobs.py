"""Jobs follow the documents they are in, and end when nothing is left of them."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provenance import check_written, says

from lsp_server.documents import Documents
from lsp_server.edits import Hunk, apply_hunks
from lsp_server.engine_client import Event
from lsp_server.guards import BadAnswer
from lsp_server.jobs import Job, Jobs, Modified
from lsp_server.prompts import build_prompt
from lsp_server.scopes import lines_region

TEXT = "above 0\nabove 1\ninside 2\ninside 3\nbelow 4\nbelow 5"


class Told:
    """Jobs, and whom they told what."""

    def __init__(self) -> None:
        self.stale: list[tuple[str, str]] = []
        self.edited: list[str] = []
        self.jobs = Jobs(
            lambda job, reason: self.stale.append((job.id, reason)), lambda job: self.edited.append(job.id)
        )


def documents_with(text: str = TEXT) -> Documents:
    documents = Documents()
    documents.open("u", 1, text, "python")
    return documents


def job_on(documents: Documents, first: int = 2, last: int = 4, name: str = "job", n_hunks: int = 0) -> Job:
    """A job; with hunks it is a proposal to write NEW instead of each of so many lines."""
    snapshot = documents.get("u")
    region = lines_region(snapshot, first, last)
    job = Job.of(name, snapshot, region, build_prompt(snapshot, region, "x", "a.py"))
    job.hunks = [Hunk(n, n, n + 1, ("NEW\n",)) for n in range(n_hunks)]
    job.is_proposed = n_hunks > 0
    return job


def edit(told: Told, documents: Documents, old: str, new: str) -> None:
    snapshot = documents.get("u")
    start = snapshot.text.index(old)
    changes = [{"range": snapshot.range(start, start + len(old), "utf-16"), "text": new}]
    told.jobs.changed(documents.change("u", snapshot.version + 1, changes), documents.get("u"))


def test_a_new_job_takes_the_place_of_those_it_overlaps() -> None:
    documents, told = documents_with(), Told()
    for name, first, last in (("a", 0, 2), ("b", 2, 4), ("c", 4, 6)):
        told.jobs.add(job_on(documents, first, last, name, n_hunks=1))
    told.jobs.add(job_on(documents, 1, 3, "d"))
    assert [name for name, _ in told.stale] == ["a", "b"]
    assert "newer rewrite" in told.stale[0][1]
    assert [name for name in "abcd" if told.jobs.get(name)] == ["c", "d"]


def test_overlap_is_judged_by_where_the_jobs_are_now() -> None:
    documents, told = documents_with(), Told()
    told.jobs.add(job_on(documents, 0, 2, "a", n_hunks=2))
    edit(told, documents, "above 0", "top\n\nabove 0")
    told.jobs.add(job_on(documents, 4, 5, "b"))
    assert told.jobs.get("a")
    told.jobs.add(job_on(documents, 3, 4, "c"))
    assert [name for name, _ in told.stale] == ["a"]


def test_a_proposal_is_told_of_edits_inside_and_goes_stale_with_its_last_hunk() -> None:
    documents, told = documents_with(), Told()
    job = job_on(documents, n_hunks=2)
    told.jobs.add(job)
    edit(told, documents, "above", "")
    assert told.edited == []
    edit(told, documents, "inside 2", "typed 2")
    assert (told.edited, job.dropped, [hunk.id for hunk in job.hunks]) == (
        ["job"],
        {0: "you edited the lines that it changes"},
        [1],
    )
    edit(told, documents, "inside 3", "typed 3")
    assert told.jobs.get("job") is None
    assert [name for name, _ in told.stale] == ["job"]


def test_hunks_on_their_way_to_the_editor_are_not_dropped_for_arriving() -> None:
    documents, told = documents_with(), Told()
    job = job_on(documents, n_hunks=2)
    told.jobs.add(job)
    expected = job.expect(list(job.hunks))
    edit(told, documents, "inside 3\n", "NEW\n")
    assert not expected.is_applied and job.dropped == {}
    edit(told, documents, "inside 2\n", "NEW\n")
    assert expected.is_applied and job.settle(is_said=True)
    assert (job.hunks, job.dropped, told.stale) == ([], {}, [])


@pytest.mark.parametrize(("is_said", "n_left"), [(True, 1), (False, 2)])
def test_a_hunk_that_may_have_arrived_is_dropped(is_said: bool, n_left: int) -> None:
    """An insertion between two lines has no lines of its own whose change would show it."""
    documents, told = documents_with(), Told()
    job = job_on(documents, n_hunks=1)
    job.hunks.append(Hunk(1, 2, 2, ("last\n",)))
    told.jobs.add(job)
    job.expect(job.hunks[1:])
    edit(told, documents, "below 4", "last\nbelow")
    assert not job.settle(is_said=is_said)
    assert len(job.hunks) == n_left


def test_stopping_a_job_that_does_not_run_does_nothing() -> None:
    job = job_on(documents_with())
    job.stop(Modified("x"))
    assert not job.is_proposed


LINES = st.lists(
    st.sampled_from(["\n", "}\n", "return value\n", "x = compute(1)\n", "y = '😀漢'\n", "\tdef function():\n"]),
    min_size=1,
    max_size=20,
)


def pieces(text: str, sizes: list[int]) -> Iterator[str]:
    at = 0
    for size in sizes:
        yield text[at : at + size]
        at += size
    yield text[at:]


def streamed(documents: Documents, last: int, answer: list[str]) -> Job:
    """A job whose answer came in these pieces. What was final must be so to the end."""
    job = job_on(documents, 0, last)
    seen: list[Hunk] = []
    for piece in answer:
        job.take(says(piece))
        assert job.hunks[: len(seen)] == seen
        assert job.writing.n_final <= len(job.writing.new_lines)
        seen = list(job.hunks)
    job.take(Event("end", finish_reason="stop"))
    assert job.hunks[: len(seen)] == seen
    assert job.writing.n_final == len(job.writing.new_lines)
    check_written([line for hunk in job.hunks for line in hunk.new_lines], documents.get("u").text.splitlines())
    return job


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@given(old=LINES, new=LINES, sizes=st.lists(st.integers(1, 12), max_size=40))
def test_hunks_are_the_same_however_the_answer_is_cut(
    newline: str, old: list[str], new: list[str], sizes: list[int]
) -> None:
    source = "".join(old).replace("\n", newline)
    answer = "```python\n" + "".join(new) + "```\n"
    documents = documents_with(source)
    if not source.strip():
        return
    try:
        at_once = streamed(documents, len(old), [answer])
    except BadAnswer:
        with pytest.raises(BadAnswer):
            streamed(documents, len(old), list(pieces(answer, sizes)))
        return
    job = streamed(documents, len(old), list(pieces(answer, sizes)))
    assert job.hunks == at_once.hunks == job.writing.hunks
    assert job.text_with(job.hunks) == "".join(apply_hunks(job.lines, job.hunks))
