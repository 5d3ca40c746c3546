"""The engine as a library, on a tiny random model: what goes in, what comes out, and that only the time changes."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_engine import CODE, MESSAGES, answer, config, decoded, stats_of

from speculation.acceptance import Store, public_name
from speculation.engine import Engine
from speculation.errors import ConfigError, ContextTooLong, ModelError
from speculation.gamma import CostCurve
from speculation.types import Chunk

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

END_ID = tiny.tokenizer().convert_tokens_to_ids(tiny.END)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny.save(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def engine(folder: str) -> Iterator[Engine]:
    with closing(Engine.open(config(folder))) as opened:
        yield opened


def test_the_text_is_what_the_tokens_decode_to_and_as_long_as_asked(engine: Engine) -> None:
    for n in (1, 2, 33):
        text, token_ids, last = answer(engine, n)
        assert len(token_ids) == n
        assert text == decoded(token_ids)
        assert last.finish_reason == "length"


def test_tokens_are_those_of_transformers_greedy_generate(engine: Engine) -> None:
    prompt: Any = tiny.tokenizer().apply_chat_template(
        MESSAGES, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    generated = engine.target.model.generate(**prompt, max_new_tokens=25, do_sample=False)
    assert answer(engine, 25, source=CODE)[1] == generated[0, prompt["input_ids"].shape[1] :].tolist()


def test_a_repetition_penalty_is_that_of_transformers(engine: Engine) -> None:
    prompt: Any = tiny.tokenizer().apply_chat_template(
        MESSAGES, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    generated = engine.target.model.generate(**prompt, max_new_tokens=25, do_sample=False, repetition_penalty=1.3)
    wanted = generated[0, prompt["input_ids"].shape[1] :].tolist()
    assert answer(engine, 25, source=CODE, repetition_penalty=1.3)[1] == wanted
    assert answer(engine, 25, source=CODE)[1] != wanted


sources = st.text(max_size=20) | st.sampled_from([CODE, CODE * 3, "<|im_end|>", "😀"]) | st.integers(0, 20).map(str)


@settings(
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(source=sources, n_right=st.integers(0, 20), file_type=st.sampled_from(["", "python"]))
def test_a_source_never_changes_the_output(engine: Engine, source: str, n_right: int, file_type: str) -> None:
    plain = answer(engine, draft=False)
    drafted = answer(engine, source=decoded(plain[1][:n_right]) + source, file_type=file_type)
    assert drafted[:2] == plain[:2]
    assert drafted[2].finish_reason == plain[2].finish_reason


def test_a_source_that_is_the_answer_is_copied_in_few_passes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    _, plain, _ = answer(engine, 40, draft=False)
    encode = engine._tokenizer.encode
    # What a random model writes is seldom what its text is encoded to.
    monkeypatch.setattr(engine._tokenizer, "encode", lambda text: plain if text == "the answer" else encode(text))
    monkeypatch.setattr(engine, "_cost", CostCurve({1: 1.0, 64: 1.1}))  # not what a busy machine measures
    _, drafted, last = answer(engine, 40, source="the answer", file_type="python")
    assert drafted == plain
    assert last.stats is not None
    assert last.stats.sources["copy"].n_accepted == last.stats.n_copied == 40 - last.stats.n_passes
    assert last.stats.n_passes < 15


def test_a_stop_token_ends_the_answer_and_is_counted_but_not_shown(folder: str) -> None:
    with closing(Engine.open(config(folder))) as engine:
        _, plain, _ = answer(engine, draft=False)
        at = next(i for i in range(3, 20) if plain[i] not in plain[:i])
        engine._stop_ids = frozenset({plain[at]})
        for source in ("", decoded(plain)):
            text, token_ids, last = answer(engine, source=source)
            assert token_ids == plain[: at + 1]
            assert last.finish_reason == "stop"
    assert text == decoded(plain[: at + 1])


def test_the_models_own_end_token_is_a_stop_token(engine: Engine) -> None:
    assert engine._stop_ids == {END_ID}


def test_a_stop_text_is_never_shown_and_the_text_before_it_is_whole(engine: Engine) -> None:
    whole, _, _ = answer(engine, draft=False)
    for start in range(0, len(whole) - 3, 3):
        stop = whole[start : start + 3]
        for source in ("", whole):
            text, _, last = answer(engine, source=source, stop=["not in it", stop])
            assert text == whole[: whole.index(stop)]
            assert last.finish_reason == "stop"
    text, _, last = answer(engine, stop=["not in it", whole[-1] + "x"])
    assert (text, last.finish_reason) == (whole, "length")


def test_a_plain_prompt_is_continued_without_a_chat(engine: Engine) -> None:
    _, token_ids, last = answer(engine, prompt=CODE)
    prompt = torch.tensor([tiny.tokenizer().encode(CODE)])
    generated = engine.target.model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20, do_sample=False
    )
    assert token_ids == generated[0, prompt.shape[1] :].tolist()
    assert last.stats is not None and last.stats.n_prompt == prompt.shape[1]


def test_a_seed_gives_the_same_sampled_answer_with_and_without_a_source(engine: Engine) -> None:
    options = {"temperature": 1.0, "top_p": 0.95, "top_k": 50, "seed": 7}
    plain = answer(engine, draft=False, **options)
    assert answer(engine, source=plain[0] + CODE, **options)[:2] == plain[:2]
    assert answer(engine, draft=False, **{**options, "seed": 8})[1] != plain[1]
    assert answer(engine, draft=False)[1] != plain[1]


def test_a_second_request_on_the_same_text_is_fed_only_what_is_new(folder: str) -> None:
    with closing(Engine.open(config(folder))) as engine:
        first = stats_of(engine)
        again = stats_of(engine)
        assert (first.n_cached, again.n_cached) == (0, first.n_prompt - 1)
        [*_, warm] = engine.prefill([{"role": "user", "content": CODE * 2}])
        assert warm.stats is not None and warm.stats.n_cached > len(CODE) / 4
        longer = stats_of(engine, messages=[{"role": "user", "content": CODE * 2}])
        assert longer.n_cached == longer.n_prompt - 1


def test_prefill_progress_ends_with_the_whole_prompt(engine: Engine) -> None:
    engine.target.forget()
    engine.target.chunk = 8
    try:
        chunks = list(engine.prefill(MESSAGES))
        held = [chunk.n_prefilled for chunk in engine.generate(MESSAGES, max_new_tokens=1) if not chunk.token_ids]
    finally:
        engine.target.chunk = 128
    assert [chunk.n_prefilled for chunk in chunks[:3]] == [0, 8, 16]
    stats = chunks[-1].stats
    assert stats is not None and chunks[-1].n_prefilled == stats.n_prompt
    assert held == [stats.n_prompt - 1]


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({}, ConfigError, "either messages or prompt"),
    ({"messages": MESSAGES, "prompt": "x"}, ConfigError, "either messages or prompt"),
    ({"messages": []}, ConfigError, "messages must"),
    ({"messages": [{"role": "user"}]}, ConfigError, "messages must"),
    ({"prompt": ""}, ConfigError, "empty"),
    ({"messages": MESSAGES, "temperature": -1.0}, ConfigError, "temperature"),
    ({"messages": MESSAGES, "temperature": float("nan")}, ConfigError, "temperature"),
    ({"messages": MESSAGES, "top_p": 0.0}, ConfigError, "top_p"),
    ({"messages": MESSAGES, "top_k": -1}, ConfigError, "top_k"),
    ({"messages": MESSAGES, "repetition_penalty": 0.0}, ConfigError, "repetition_penalty"),
    ({"messages": MESSAGES, "max_new_tokens": 0}, ConfigError, "max_new_tokens"),
    ({"prompt": "x " * tiny.N_CONTEXT}, ContextTooLong, "context is 512"),
    ({"prompt": "x", "source": "x " * tiny.N_CONTEXT}, ContextTooLong, "Select fewer lines"),
]


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_what_cannot_be_done_is_refused_at_the_call(
    engine: Engine, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Before the first pull, before any work, in one line."""
    engine.target.forget()
    with pytest.raises(error, match=words) as caught:
        engine.generate(**options)
    assert "\n" not in str(caught.value)
    assert engine.target.n_held([0]) == 0


def test_the_answer_ends_where_the_context_does(engine: Engine) -> None:
    prompt = "x " * 250
    n_prompt = len(tiny.tokenizer().encode(prompt))
    *_, last = engine.generate(prompt=prompt)
    assert last.finish_reason == "length"
    assert last.stats is not None and last.stats.n_tokens == tiny.N_CONTEXT - n_prompt


def test_an_unknown_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere"):
        Engine.open(config(str(tmp_path / "nowhere")))


def learned(path: Path, model: str) -> int:
    with closing(Store(path)) as store:
        return len(store.acceptance(public_name(model), "python")._cells)


def test_closing_the_iterator_cancels_and_keeps_what_was_learned(folder: str, tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with closing(Engine.open(config(folder, database=path))) as engine:
        plain = answer(engine, draft=False)
        assert learned(path, folder) == 0
        chunks = engine.generate(MESSAGES, source=plain[0], file_type="python", max_new_tokens=20)
        while not next(chunks).token_ids:
            pass
        chunks.close()  # type: ignore[attr-defined]
        assert learned(path, folder) > 0
        assert answer(engine)[:2] == plain[:2]


def test_a_finished_request_is_noted_with_what_its_drafts_did(folder: str, tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with closing(Engine.open(config(folder, database=path))) as engine:
        plain = answer(engine, draft=False)
        stats = stats_of(engine, source=plain[0], file_type="python")
        stats_of(engine, temperature=1.0)
        next(engine.generate(MESSAGES))  # given up
    with closing(Store(path)) as store:
        greedy, sampled = store.runs()
        assert (greedy.target, sampled.target) == (public_name(folder), f"{public_name(folder)} sampled")
        assert (greedy.file_type, greedy.n_tokens, greedy.n_passes) == ("python", stats.n_tokens, stats.n_passes)
        assert (greedy.sources, greedy.decode_s) == (stats.sources, stats.decode_s)
        assert 0.2 < greedy.plain_s / (stats.n_tokens * store.pass_times(store.machines()[0])[1]) < 5
    assert folder.encode() not in path.read_bytes()
    assert CODE.splitlines()[0].encode() not in path.read_bytes()


def test_an_iterator_that_is_dropped_leaves_the_next_request_right(engine: Engine) -> None:
    plain = answer(engine, draft=False)[:2]
    for n_pulled in range(4):
        chunks = engine.generate(MESSAGES, source=CODE, max_new_tokens=20)
        for _ in range(n_pulled):
            next(chunks)
        del chunks
        assert answer(engine)[:2] == plain


def test_two_requests_taking_turns_are_not_mixed_up(engine: Engine) -> None:
    others = [{"role": "user", "content": CODE + "print"}]
    alone = [answer(engine, messages=messages)[1] for messages in (MESSAGES, others)]
    running = [engine.generate(messages, source=CODE, max_new_tokens=20) for messages in (MESSAGES, others)]
    outputs: list[list[int]] = [[], []]
    for _ in range(60):
        for output, chunks in zip(outputs, running, strict=True):
            output += next(chunks, Chunk()).token_ids
    assert outputs == alone


def test_a_pass_that_fails_fails_the_request_and_not_the_engine(engine: Engine) -> None:
    plain = answer(engine, draft=False)[:2]
    chunks = engine.generate(MESSAGES, max_new_tokens=20)
    next(chunks)

    def explode(*args: Any) -> None:
        raise RuntimeError("out of memory, say")

    hook = engine.target.model.model.layers[1].register_forward_pre_hook(explode)
    with pytest.raises(RuntimeError, match="say"):
        list(chunks)
    hook.remove()
    assert answer(engine)[:2] == plain


def test_pass_times_are_measured_once_and_kept(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "stet.db"
    Engine.open(config(folder, database=path)).close()

    def never(self: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr("speculation.models.cached_lm.CachedLM.pass_seconds", never)
    with closing(Engine.open(config(folder, database=path))) as engine:
        assert engine.trouble is None
        assert answer(engine, 3)[1]


def test_pass_times_that_cannot_be_used_are_measured_again(folder: str, tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    Engine.open(config(folder, database=path)).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("delete from pass_time where q = 1")
    with closing(Engine.open(config(folder, database=path))) as engine:
        assert answer(engine, 3)[1]


def test_a_broken_database_breaks_no_rewrite(folder: str, tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    path.write_text("this is no database")
    with closing(Engine.open(config(folder, database=path))) as engine:
        assert engine.trouble is not None and "set aside" in engine.trouble
        assert len(answer(engine, 3)[1]) == 3


def test_gamma_max_zero_is_plain_decoding(folder: str) -> None:
    with closing(Engine.open(config(folder, gamma_max=0))) as engine:
        assert stats_of(engine, source=CODE).n_passes == 20


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
@pytest.mark.parametrize("is_warm_up", [False, True])
def test_out_of_memory_frees_the_caches_and_the_next_request_is_served(
    engine: Engine, error: Exception, is_warm_up: bool
) -> None:
    plain = answer(engine, draft=False)[:2]
    assert engine.target._slots

    def explode(*args: Any) -> None:
        raise error

    hook = engine.target.model.model.layers[1].register_forward_pre_hook(explode)
    other = [{"role": "user", "content": "other"}]
    with pytest.raises(type(error)):
        list(engine.prefill(other) if is_warm_up else engine.generate(other, max_new_tokens=20))
    hook.remove()
    assert not engine.target._slots
    assert answer(engine)[:2] == plain
