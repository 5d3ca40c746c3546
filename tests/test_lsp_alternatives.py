"""Versions of one rewrite side by side: the same question again, a proposal refined, and how they end."""

# ruff: noqa: F401, F811 - pytest finds fixtures by the names of a module.

import asyncio
from typing import Any

import pytest
from lsp_editor import CODE, NEW_TWO, Editor, ed, engine, fails, folder, lines, until
from lsprotocol import types as t
from stub_engine import StubEngine

from lsp_server.prompts import AGAIN, ALTERNATIVE_TEMPERATURE, EARLIER

LONG = "".join(f"line_{n} = {n}\n" for n in range(40))
OTHER_TWO = "def two() -> object:\n    return 2\n"


def changed(text: str, *numbers: int, to: str = "seen") -> str:
    """What the model makes of the lines of these numbers."""
    for n in numbers:
        text = text.replace(f"= {n}\n", f"= {n}  # {to}\n")
    return text


def version(ed: Editor, uri: str, job: str, **more: Any) -> "asyncio.Future[Any]":
    """Another version of `job`'s lines; of the proposal "job", unless more says which."""
    base = {} if "refines" in more else {"alternativeTo": "job"}
    return ed.request("stet/rewrite", {"textDocument": {"uri": uri}, "jobId": job, **base, **more})


async def two(ed: Editor, engine: StubEngine) -> str:
    """A rewrite of `two` with a version beside it, named "other"."""
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6)
    engine.answer(OTHER_TWO)
    assert (await version(ed, uri, "other"))["status"] == "proposed"
    return uri


async def three_hunks(ed: Editor, engine: StubEngine) -> str:
    uri = ed.open(LONG)
    engine.answer(changed(LONG, 3, 20, 35))
    assert len((await ed.rewrite(uri, 0, 40))["hunks"]) == 3
    return uri


async def accept(ed: Editor, job: str, *hunks: int) -> Any:
    return await ed.request("stet/accept", {"jobId": job, **({"hunks": list(hunks)} if hunks else {})})


def stale(ed: Editor) -> list[tuple[str, str]]:
    """Which jobs went stale, and why."""
    return [(each["jobId"], each["message"]) for each in ed.progress if each["state"] == "stale"]


async def is_standing(ed: Editor, job: str) -> bool:
    """Whether a proposal could be accepted: an unknown hunk is refused in other words than an unknown job."""
    error = await asyncio.gather(accept(ed, job, 999), return_exceptions=True)
    return "has the hunks" in str(error)


def shown(asked: dict[str, Any]) -> str:
    """The code that the model was shown, as it is most likely to come back."""
    return str(asked["prediction"]["content"]).split("\n", 1)[1].removesuffix("```")


async def test_an_alternative_asks_the_same_once_more_by_a_higher_temperature(ed: Editor, engine: StubEngine) -> None:
    await two(ed, engine)
    first, second = engine.requests
    assert first["messages"] == second["messages"] and first["prediction"] == second["prediction"]
    assert (first["temperature"], second["temperature"]) == (0, ALTERNATIVE_TEMPERATURE)
    assert second.get("seed") is None
    assert stale(ed) == []
    assert await is_standing(ed, "job") and await is_standing(ed, "other")


@pytest.mark.parametrize("job", ["job", "other"])
async def test_to_accept_one_makes_the_others_stale(ed: Editor, engine: StubEngine, job: str) -> None:
    uri = await two(ed, engine)
    assert (await accept(ed, job))["applied"]
    assert ed.text(uri) == CODE[: CODE.index("def two")] + (NEW_TWO if job == "job" else OTHER_TWO)
    assert [name for name, _ in stale(ed)] == [{"job": "other", "other": "job"}[job]]
    assert ed.progress[-1]["droppedHunks"] == [] and "another version was accepted" in ed.progress[-1]["message"]
    await fails(accept(ed, "job"), -32602, "gone stale")
    await fails(accept(ed, "other"), -32602, "gone stale")


async def test_to_accept_one_hunk_keeps_the_rest_of_it_and_ends_a_version_that_is_written(
    ed: Editor, engine: StubEngine
) -> None:
    uri = await three_hunks(ed, engine)
    engine.hold_at = 30
    request = version(ed, uri, "other")
    await engine.holding.wait()
    assert len((await accept(ed, "job", 0))["remainingHunks"]) == 2
    await fails(request, -32802, "another version was accepted")
    await asyncio.wait_for(engine.closed_early.wait(), 20)
    assert (await accept(ed, "job"))["applied"]
    assert ed.text(uri) == changed(LONG, 3, 20, 35)


async def test_of_four_versions_the_oldest_goes_once_the_fourth_is_written(ed: Editor, engine: StubEngine) -> None:
    uri = await two(ed, engine)
    engine.answer(NEW_TWO.replace("int", "float"))
    await version(ed, uri, "third", alternativeTo="other")
    engine.answer(NEW_TWO.replace("int", "complex"))
    engine.hold_at = 2
    request = version(ed, uri, "fourth")
    await engine.holding.wait()
    assert await is_standing(ed, "job")
    engine.gate.set()
    assert (await request)["status"] == "proposed"
    ((name, reason),) = stale(ed)
    assert (name, "newer version" in reason) == ("job", True)
    assert [await is_standing(ed, job) for job in ("other", "third", "fourth")] == [True] * 3


@pytest.mark.parametrize("end", ["fails", "is cancelled", "changes nothing", "is the same as another"])
async def test_a_version_that_comes_to_nothing_leaves_the_others(ed: Editor, engine: StubEngine, end: str) -> None:
    uri = await two(ed, engine)
    engine.answer(NEW_TWO.replace("int", "float"))
    await version(ed, uri, "third")
    engine.answer({"changes nothing": CODE[CODE.index("def two") :], "is the same as another": NEW_TWO}.get(end, "x\n"))
    engine.die_at = 2 if end == "fails" else None
    engine.hold_at = 2 if end == "is cancelled" else None
    request = version(ed, uri, "fourth")
    if end == "is cancelled":
        await engine.holding.wait()
        await ed.request("stet/reject", {"jobId": "fourth"})
    if end in ("fails", "is cancelled"):
        await fails(request, -32803 if end == "fails" else -32800)
    else:
        result = await request
        assert (result["status"], result["hunks"]) == ("unchanged", [])
        assert ed.progress[-1]["hunks"] == []
    assert stale(ed) == []
    assert [await is_standing(ed, job) for job in ("job", "other", "third", "fourth")] == [True] * 3 + [False]


async def test_to_reject_one_leaves_the_others(ed: Editor, engine: StubEngine) -> None:
    uri = await two(ed, engine)
    await ed.request("stet/reject", {"jobId": "job"})
    engine.answer(NEW_TWO)
    assert (await version(ed, uri, "third", alternativeTo="other"))["status"] == "proposed"
    assert (await accept(ed, "other"))["applied"]
    assert [name for name, _ in stale(ed)] == ["third"]


async def test_an_unrelated_rewrite_takes_the_place_of_all(ed: Editor, engine: StubEngine) -> None:
    uri = await two(ed, engine)
    await ed.rewrite(uri, 4, 6, jobId="new")
    assert [(name, "newer rewrite" in reason) for name, reason in stale(ed)] == [("job", True), ("other", True)]
    assert await is_standing(ed, "new")


async def test_what_the_user_edits_meanwhile_counts_for_each(ed: Editor, engine: StubEngine) -> None:
    uri = await three_hunks(ed, engine)
    engine.answer(changed(LONG, 7, 20, to="other"))
    await version(ed, uri, "other")
    ed.type(uri, 0, 0, "top\n")
    ed.type(uri, 21, 0, "typed ")
    answer = await accept(ed, "other")
    assert ([hunk["id"] for hunk in answer["droppedHunks"]], answer["acceptedHunks"]) == ([1], [0])
    assert ed.text(uri) == "top\n" + changed(LONG, 7, to="other").replace("line_20", "typed line_20")


async def test_a_closed_document_ends_all(ed: Editor, engine: StubEngine) -> None:
    uri = await two(ed, engine)
    ed.client.text_document_did_close(t.DidCloseTextDocumentParams(t.TextDocumentIdentifier(uri)))
    await until(lambda: len(stale(ed)) == 2)


# Refine


async def test_a_refinement_changes_the_proposal_and_its_hunks_are_for_the_document(
    ed: Editor, engine: StubEngine
) -> None:
    uri = await three_hunks(ed, engine)
    engine.answer(changed(LONG, 3, 7, 35))
    result = await version(ed, uri, "more", refines="job", instruction="now also the seventh")
    assert shown(engine.requests[1]) == changed(LONG, 3, 20, 35)
    assert engine.requests[1]["temperature"] == 0
    assert result["newText"] == changed(LONG, 3, 7, 35)
    assert [hunk["range"]["start"]["line"] for hunk in result["hunks"]] == [3, 7, 35]
    assert [hunk["oldText"] for hunk in result["hunks"]] == ["line_3 = 3\n", "line_7 = 7\n", "line_35 = 35\n"]
    assert await is_standing(ed, "job")
    assert (await accept(ed, "more"))["applied"]
    assert ed.text(uri) == changed(LONG, 3, 7, 35)
    assert [name for name, _ in stale(ed)] == ["job"]


async def test_a_refinement_is_told_what_was_asked_before(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    first = await ed.rewrite(uri, 4, 6, recipe="type-hints")
    engine.answer(OTHER_TWO)
    second = await version(ed, uri, "b", refines="job", instruction=" as\nobject ")
    engine.answer(OTHER_TWO.replace("two", "three"))
    third = await version(ed, uri, "c", refines="b", instruction="rename it")
    words = engine.requests[2]["messages"][1]["content"]
    assert f"Instruction: rename it\n{EARLIER}Add type hints; as object\n" in words
    assert [result["instruction"] for result in (first, second, third)] == ["Add type hints", "as\nobject", "rename it"]
    assert {each["instruction"] for each in ed.progress if each["jobId"] == "c"} == {"rename it"}


async def test_a_refinement_after_a_part_was_accepted_shows_what_remains_on_the_text_as_it_is(
    ed: Editor, engine: StubEngine
) -> None:
    uri = await three_hunks(ed, engine)
    await accept(ed, "job", 0)
    await ed.request("stet/reject", {"jobId": "job", "hunks": [1]})
    ed.type(uri, 10, 0, "typed\n")
    now = changed(LONG, 3).replace("line_10", "typed\nline_10")
    engine.answer(changed(now, 30, 35))
    result = await version(ed, uri, "more", refines="job", instruction="and 30")
    assert shown(engine.requests[1]) == changed(now, 35)
    assert [hunk["range"]["start"]["line"] for hunk in result["hunks"]] == [31, 36]
    await accept(ed, "more")
    assert ed.text(uri) == changed(now, 30, 35)


@pytest.mark.parametrize("answer", [NEW_TWO, CODE[CODE.index("def two") :]], ids=["as proposed", "as in the document"])
async def test_a_refinement_that_changes_nothing_says_so(ed: Editor, engine: StubEngine, answer: str) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6)
    engine.answer(answer)
    result = await version(ed, uri, "more", refines="job", instruction="faster")
    assert (result["status"], result["hunks"]) == ("unchanged", [])
    engine.answer(OTHER_TWO)
    await version(ed, uri, "again", refines="job", instruction="faster", again=True)
    assert f"faster\n{EARLIER}do it\n{AGAIN}" in engine.requests[-1]["messages"][1]["content"]
    assert await is_standing(ed, "job")


async def test_an_alternative_to_a_refinement_is_shown_what_that_was_shown(ed: Editor, engine: StubEngine) -> None:
    uri = await three_hunks(ed, engine)
    engine.answer(changed(LONG, 3, 20, 30, 35))
    await version(ed, uri, "more", refines="job", instruction="and 30")
    await ed.request("stet/reject", {"jobId": "job"})
    ed.type(uri, 20, 0, "typed ")
    now = LONG.replace("line_20", "typed line_20")
    engine.answer(changed(now, 3, 31, 35))
    result = await version(ed, uri, "third", alternativeTo="more")
    assert shown(engine.requests[2]) == changed(now, 3, 35)
    assert result["instruction"] == "and 30"
    assert result["newText"] == changed(now, 3, 31, 35)


async def test_an_indented_part_is_shown_as_the_model_knows_it(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open("class A:\r\n\tdef one(self):\r\n\t\treturn 1\r\n")
    engine.answer("def one(self) -> int:\n\treturn 1\n")
    await ed.rewrite(uri, 1, 3)
    engine.answer('def one(self) -> int:\n\t"""```"""\n\treturn 1\n')
    await version(ed, uri, "b", refines="job", instruction="document it")
    assert shown(engine.requests[1]) == "def one(self) -> int:\n\treturn 1\n"
    engine.answer('def uno(self) -> int:\n\t"""```"""\n\treturn 1\n', "````")
    result = await version(ed, uri, "c", refines="b", instruction="in Spanish")
    assert engine.requests[2]["prediction"]["content"].startswith("````python\n")
    assert result["newText"] == '\tdef uno(self) -> int:\r\n\t\t"""```"""\r\n\t\treturn 1\r\n'


async def test_what_a_refinement_copies_from_the_proposal_is_the_model_s_all_the_same(
    ed: Editor, engine: StubEngine
) -> None:
    uri = ed.open(CODE)
    engine.answer("def two() -> int:\n    # Why.\n    return 2\n")
    await ed.rewrite(uri, 4, 6)
    engine.answer("def two() -> int:\n    # Why.\n    return 3\n")
    result = await version(ed, uri, "more", refines="job", instruction="3")
    written = [hunk["written"] for hunk in result["hunks"]]
    assert written == [
        [{"line": 0, "start": 9, "end": 16}, {"line": 1, "start": 4, "end": 10}, {"line": 2, "start": 11, "end": 12}]
    ]


async def test_prepare_reads_the_proposal_before_the_words_are_known(ed: Editor, engine: StubEngine) -> None:
    uri = await two(ed, engine)
    params = {"textDocument": {"uri": uri}, "refines": "other"}
    assert (await ed.request("stet/prepare", params))["state"] == "warm"
    engine.answer(NEW_TWO)
    await version(ed, uri, "more", refines="other", instruction="int")
    warm, asked = (request["messages"][1]["content"].split("Instruction: ")[0] for request in engine.requests[2:])
    assert warm == asked and "-> object" in warm
    answer = await ed.request("stet/prepare", {**params, "refines": "nobody"})
    assert answer["state"] == "unavailable"


# What is refused

REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"alternativeTo": "nobody"}, -32602, "no proposal 'nobody' .*ask for a new rewrite"),
    ({"alternativeTo": ""}, -32602, "no proposal ''"),
    ({"alternativeTo": "job", "refines": "job"}, -32602, "either alternativeTo or refines"),
    ({"alternativeTo": "job", "instruction": "x"}, -32602, "leave out instruction"),
    ({"alternativeTo": "job", "recipe": "simplify"}, -32602, "leave out instruction and recipe"),
    ({"alternativeTo": "job", "jobId": "job"}, -32602, "a name of its own"),
    ({"alternativeTo": 5}, -32602, "alternativeTo must be a string"),
    ({"alternativeTo": "job", "textDocument": {"uri": "file:///demo/b.py"}}, -32602, "one for file:///demo/a.py"),
    ({"alternativeTo": "job", "textDocument": {"uri": "file:///demo/a.py", "version": 7}}, -32801, "version 7"),
    ({"refines": "nobody", "instruction": "x"}, -32602, "no proposal 'nobody'"),
    ({"refines": "job"}, -32602, "the instruction is empty"),
    ({"refines": "job", "instruction": "x", "recipe": "simplify"}, -32602, "not both"),
    ({"refines": "job", "recipe": "cook"}, -32602, "no recipe 'cook'"),
]


async def test_what_cannot_be_asked_is_one_clear_error(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    ed.open(CODE, uri="file:///demo/b.py")
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6)
    for params, code, match in REFUSED:
        await fails(ed.request("stet/rewrite", {"textDocument": {"uri": uri}, "jobId": "new", **params}), code, match)
    assert len(engine.requests) == 1 and await is_standing(ed, "job")


async def test_a_rewrite_that_is_being_written_is_no_proposal_yet(ed: Editor, engine: StubEngine) -> None:
    uri = ed.open(CODE)
    engine.answer(NEW_TWO)
    engine.hold_at = 2
    request = ed.rewrite(uri, 4, 6)
    await engine.holding.wait()
    await fails(version(ed, uri, "other"), -32602, "still being written")
    engine.gate.set()
    assert (await request)["status"] == "proposed"


async def test_of_two_versions_one_is_applied_at_a_time(ed: Editor, engine: StubEngine) -> None:
    uri = await two(ed, engine)
    ed.skips_edits = True
    request = ed.request("stet/accept", {"jobId": "job"}, "a1")
    await until(lambda: ed.edits)
    await fails(accept(ed, "other"), -32803, "still being written or applied")
    await fails(version(ed, uri, "third"), -32602, "still being written or applied")
    ed.client.cancel_request(t.CancelParams(id="a1"))
    await fails(request, -32800)


async def test_the_command_of_plain_clients_takes_them_too(ed: Editor, engine: StubEngine) -> None:
    uri = await two(ed, engine)
    engine.answer(NEW_TWO.replace("two", "three"))
    argument = {"textDocument": {"uri": uri}, "refines": "job", "instruction": "rename it"}
    answer = await ed.request("workspace/executeCommand", {"command": "stet.rewrite", "arguments": [argument]})
    assert answer == {"status": "proposed", "applied": True}
    assert "def three() -> int" in ed.text(uri)
    assert sorted(name for name, _ in stale(ed)) == ["job", "other"]
