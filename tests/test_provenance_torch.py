"""The engine says of each character whether it was copied: as its last token was, whatever pieces the text comes in."""

from collections.abc import Iterator
from contextlib import closing

import pytest
import tiny
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_engine import CODE, config, decoded

from speculation.engine import Engine, _is_copied
from speculation.models.tokenizer import TextStream
from speculation.types import Chunk, Draft, Stats, Step

pytestmark = pytest.mark.torch

SOURCES = ("copy", "realign3", "suffix", "shifted", "checked", "lm")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with closing(Engine.open(config(tiny.save(tmp_path_factory.mktemp("target"))))) as opened:
        yield opened


tokens = st.sampled_from(tiny.tokenizer().encode("def 😀(a):\n  né")) | st.integers(0, 290)
parts = st.lists(st.tuples(st.sampled_from(SOURCES), st.lists(tokens, min_size=1, max_size=4)), max_size=4)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(st.tuples(parts, st.integers(0, 16), tokens), min_size=1, max_size=6), st.sampled_from(["", "a", "\nx"])
)
def test_a_character_is_copied_if_its_last_token_was(
    engine: Engine, passes: list[tuple[list[tuple[str, list[int]]], int, int]], stop: str
) -> None:
    steps, flags = [], []
    for drafted, n_accepted, next_token in passes:
        draft = Draft.mixed([Draft(tuple(token_ids), source) for source, token_ids in drafted])
        n_accepted = min(n_accepted, len(draft.token_ids))
        steps.append(Step(draft, n_accepted, (*draft.token_ids[:n_accepted], next_token), 0.1, 0.0))
        sources = [source for source, token_ids in drafted for _ in token_ids]
        flags += [source != "lm" for source in sources[:n_accepted]] + [False]
    token_ids = [token for step in steps for token in step.token_ids]

    stream, marks = TextStream(engine._tokenizer), ""
    for token, is_copied in zip(token_ids, flags, strict=True):
        marks += ("c" if is_copied else "w") * len(stream.push([token]))
    marks += ("c" if flags[-1] else "w") * len(stream.flush())

    chunks = list(engine._chunks(iter(steps), Stats(), len(token_ids), [stop]))
    assert "".join(map(said, chunks)) == marks[: len("".join(chunk.text for chunk in chunks))]
    assert sum(chunk.n_copied for chunk in chunks) == sum(flags[: sum(len(chunk.token_ids) for chunk in chunks)])
    if not stop:
        assert len(marks) == len(decoded(token_ids))


def said(chunk: Chunk) -> str:
    """A letter per character: c for copied, w for written."""
    assert all(start < end <= len(chunk.text) for start, end in chunk.copied)
    borders = [border for span in chunk.copied for border in span]
    assert borders == sorted(set(borders)), "spans are in order and apart"
    marks = ["w"] * len(chunk.text)
    for start, end in chunk.copied:
        marks[start:end] = "c" * (end - start)
    return "".join(marks)


def test_an_answer_of_plain_decoding_is_written(engine: Engine) -> None:
    assert not any(chunk.copied for chunk in engine.generate(prompt=CODE, max_new_tokens=20, draft=False))


COPY = Draft((1, 2, 3), "copy").cut(2)


@pytest.mark.parametrize(
    ("parts", "n_accepted", "next_token", "copied"),
    [
        ([COPY], 2, 3, [True, True, True]),
        ([COPY], 2, 9, [True, True, False]),
        ([COPY], 1, 3, [True, False]),
        ([COPY, Draft((3,), "lm")], 3, 9, [True, True, True, False]),
        ([COPY, Draft((8,), "lm")], 3, 3, [True, True, False, False]),
        ([COPY, Draft((8,), "lm")], 2, 3, [True, True, True]),
        ([Draft((5,), "lm"), COPY], 3, 3, [False, True, True, True]),
        ([], 0, 3, [False]),
    ],
)
def test_a_token_written_as_the_copy_before_it_goes_on_counts_as_copied(
    parts: list[Draft], n_accepted: int, next_token: int, copied: list[bool]
) -> None:
    draft = Draft.mixed(parts)
    step = Step(draft, n_accepted, (*draft.token_ids[:n_accepted], next_token), 0.1, 0.0)
    assert _is_copied(step) == copied
