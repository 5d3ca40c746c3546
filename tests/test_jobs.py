"""A job follows the user's edits around it, and gives up at the first one inside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents import Documents, Edit
from lsp_server.jobs import Job, Jobs, Modified
from lsp_server.prompts import build_prompt
from lsp_server.scopes import lines_region

TEXT = "above 0\nabove 1\ninside 2\ninside 3\nbelow 4\nbelow 5"
INSIDE = "inside 2\ninside 3\n"


def job_on(documents: Documents, first: int = 2, last: int = 4, name: str = "job") -> Job:
    snapshot = documents.get("u")
    region = lines_region(snapshot, first, last)
    return Job.of(name, snapshot, region, build_prompt(snapshot, region, "x", "a.py"))


def documents_with(text: str = TEXT) -> Documents:
    documents = Documents()
    documents.open("u", 1, text, "python")
    return documents


def edited(documents: Documents, start: int, end: int, text: str) -> list[Edit]:
    snapshot = documents.get("u")
    return documents.change("u", 2, [{"range": snapshot.range(start, end, "utf-16"), "text": text}])


LINES = st.lists(st.sampled_from(["new\n", "\n", "inside 2\n", "x = '😀'\n"]), max_size=3).map("".join)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3), LINES), max_size=6))
def test_whole_lines_edited_outside_never_stop_it(edits: list[tuple[bool, int, int, str]]) -> None:
    documents = documents_with()
    job = job_on(documents)
    for is_above, one, other, text in edits:
        snapshot = documents.get("u")
        low, high = (0, snapshot.text.index(INSIDE)) if is_above else (job.end, len(snapshot.text))
        places = [at for at in [*snapshot.starts, len(snapshot.text)] if low <= at <= high]
        start, end = sorted(places[min(each, len(places) - 1)] for each in (one, other))
        assert job.follow(edited(documents, start, end, text), documents.get("u"))
        assert documents.get("u").text[job.start : job.end] == INSIDE


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)), st.sampled_from(["", "z", "z\n", "\n", "inside 2\n"]))
def test_it_follows_only_where_its_lines_still_stand(one: int, other: int, text: str) -> None:
    documents = documents_with()
    job = job_on(documents)
    start, end = sorted((one, other))
    stands = job.follow(edited(documents, start, end, text), documents.get("u"))
    after = documents.get("u")
    if stands:
        assert after.text[job.start : job.end] == INSIDE
        assert job.start in after.starts and job.end in after.starts
    else:
        assert start <= TEXT.index("below") and end >= TEXT.index("inside")


@pytest.mark.parametrize(
    ("start", "end", "text", "stands"),
    [
        (16, 16, "typed\n", True),
        (16, 16, "typed", False),
        (34, 34, "typed", True),
        (34, 34, "typed\n", True),
        (33, 33, "typed", False),
        (15, 16, "", False),
        (33, 34, "", False),
        (20, 20, "", True),
        (0, len(TEXT), TEXT, True),
    ],
)
def test_an_edit_at_the_border(start: int, end: int, text: str, stands: bool) -> None:
    documents = documents_with()
    job = job_on(documents)
    assert (TEXT[16:34], job.start, job.end) == (INSIDE, 16, 34)
    assert job.follow(edited(documents, start, end, text), documents.get("u")) is stands


def test_typing_on_after_the_last_line_of_the_file_is_inside() -> None:
    documents = documents_with()
    job = job_on(documents, 4, 6)
    assert not job.follow(edited(documents, len(TEXT), len(TEXT), "typed"), documents.get("u"))


def test_a_new_job_takes_the_place_of_those_it_overlaps() -> None:
    stale: list[str] = []
    jobs = Jobs(lambda job, reason: stale.append(job.id))
    documents = documents_with()
    for name, first, last in (("a", 0, 2), ("b", 2, 4), ("c", 4, 6)):
        job = job_on(documents, first, last, name)
        job.is_proposed = True
        jobs.add(job)
    jobs.add(job_on(documents, 1, 3, "d"))
    assert stale == ["a", "b"]
    assert [name for name in "abcd" if jobs.get(name)] == ["c", "d"]


def test_stopping_a_job_that_does_not_run_does_nothing() -> None:
    job = job_on(documents_with())
    job.stop(Modified("x"))
    assert not job.is_proposed
