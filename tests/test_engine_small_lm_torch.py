"""The engine with a small LM, on tiny random models: it is asked where it pays, and only the time changes."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_engine import CODE, MESSAGES, Steady, answer, config, decoded, stats_of

from speculation.acceptance import Store
from speculation.engine import Engine
from speculation.errors import ConfigError, ModelError
from speculation.models.loading import load_small_lm

pytestmark = pytest.mark.torch
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny.save(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module", params=[{"seed": 0}, {"seed": 1, "n_padding": 9}], ids=["its own", "another"])
def small_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """The target itself, which drafts well; and another model with the same vocabulary, padded more."""
    return tiny.save(tmp_path_factory.mktemp("small"), **request.param)


@pytest.fixture(scope="module")
def engine(folder: str, small_folder: str) -> Iterator[Engine]:
    """A small LM that costs next to nothing, so that it is really asked."""
    with closing(Engine.open(config(folder, small_folder))) as opened:
        opened._cost = Steady({1: 1.0, 64: 1.1})
        opened._small_cost = Steady({1: 1e-3, 64: 2e-3})
        list(opened.prefill(MESSAGES))
        yield opened


@settings(
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    source=st.text(max_size=20) | st.sampled_from([CODE, CODE * 3, "<|im_end|>", "😀"]),
    n_right=st.integers(0, 20),
    sampling=st.sampled_from([{}, {"repetition_penalty": 1.3}]),
)
def test_what_the_small_lm_drafts_never_changes_the_output(
    engine: Engine, source: str, n_right: int, sampling: dict[str, Any]
) -> None:
    engine._store = Store(None)  # or it learns that a random model is never right
    plain = answer(engine, draft=False, **sampling)
    drafted = answer(engine, source=decoded(plain[1][:n_right]) + source, **sampling)
    assert drafted[:2] == plain[:2]
    assert drafted[2].finish_reason == plain[2].finish_reason
    assert drafted[2].stats is not None and drafted[2].stats.n_small_passes > 0


def test_plain_decoding_drafts_nothing_and_takes_a_pass_a_token(engine: Engine) -> None:
    stats = stats_of(engine, draft=False, source=CODE)
    assert (stats.n_passes, stats.sources, stats.n_copied) == (stats.n_tokens, {}, 0)


@pytest.mark.parametrize(("small_s", "is_asked"), [(0.05, True), (5.0, False)])
def test_the_small_lm_is_asked_where_it_pays_and_counted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, small_s: float, is_asked: bool
) -> None:
    engine._store = Store(None)
    monkeypatch.setattr(engine, "_small_cost", Steady({1: small_s, 64: 1.1 * small_s}))
    stats = stats_of(engine)
    assert (stats.n_small_passes > 0) is is_asked
    assert ("lm" in stats.sources) is is_asked


def test_an_iterator_that_is_dropped_leaves_the_next_request_right(engine: Engine) -> None:
    """While the target reads, while the small LM reads, and between two passes."""
    plain = answer(engine, draft=False)[:2]
    assert engine.small is not None
    for n_pulled in range(10):
        engine.target.chunk = engine.small.chunk = 16
        engine.small.forget()
        chunks = engine.generate(MESSAGES, source=CODE, max_new_tokens=20)
        for _ in range(n_pulled):
            next(chunks, None)
        del chunks
        assert answer(engine)[:2] == plain


@pytest.mark.parametrize("n_good", range(4))
@pytest.mark.parametrize("error", [RuntimeError("out of memory, say"), MemoryError()])
def test_a_small_lm_that_fails_is_left_out_of_the_rest_of_the_request(
    engine: Engine, n_good: int, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    plain = answer(engine, draft=False)[:2]
    assert engine.small is not None
    engine.small.forget()
    engine._store = Store(None)
    n_passes = 0

    def explode(*args: Any) -> None:
        nonlocal n_passes
        n_passes += 1
        if n_passes > n_good:
            raise error

    hook = engine.small.model.model.layers[1].register_forward_pre_hook(explode)
    try:
        assert answer(engine, source=CODE)[:2] == plain
    finally:
        hook.remove()
    assert "goes on without it" in caplog.text
    assert n_good < n_passes <= n_good + 2, "once while it reads the prompt, once in a draft"
    assert stats_of(engine, source=CODE).n_small_passes > 0, "the next request asks it again"


def test_a_small_lm_with_another_vocabulary_is_refused_with_the_reason(folder: str, tmp_path: Path) -> None:
    stranger = tiny.save(tmp_path / "stranger")
    path = tmp_path / "stranger" / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"<|endoftext|>"', '"<|eot|>"'), encoding="utf-8")
    with pytest.raises(ModelError, match="vocabulary is another one"):
        Engine.open(config(folder, stranger))


@pytest.mark.parametrize(("small_device", "wanted"), [("auto", "cpu"), ("cpu:0", "cpu:0")])
def test_the_small_lm_may_have_a_device_of_its_own(
    folder: str, monkeypatch: pytest.MonkeyPatch, small_device: str, wanted: str
) -> None:
    asked = []

    def spied(folder: Path, device: str, dtype: str) -> Any:
        asked.append(device)
        return load_small_lm(folder, "cpu", dtype)

    monkeypatch.setattr("speculation.engine.load_small_lm", spied)
    with closing(Engine.open(replace(config(folder, folder), small_device=small_device))):
        assert asked == [wanted]


def test_a_device_that_is_none_is_said_before_the_target_is_loaded(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speculation.engine.load_model", lambda *_: pytest.fail("loaded"))
    with pytest.raises(ConfigError, match="device 'bogus' can't be used"):
        Engine.open(replace(config(folder, folder), small_device="bogus"))


def test_info_says_what_is_loaded(engine: Engine, folder: str, small_folder: str) -> None:
    info = engine.info
    assert (info.model, info.small_lm, info.device, info.dtype) == (folder, small_folder, "cpu", "float32")
    assert info.context_len == tiny.N_CONTEXT
