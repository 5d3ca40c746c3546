"""Passes of fixed shape: the same logits and tokens as with growing caches; of one shape, the same to the last bit."""

from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import tiny
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_decoding_torch import N_NEW, N_VOCAB, Oracle, bets, check, lm, lossless, prompts
from test_seq2seq_torch import t5
from tiny_engine import CODE, answer, config
from transformers import MistralConfig, MistralForCausalLM

from speculation.config import EngineConfig
from speculation.decoding import decode
from speculation.engine import Engine
from speculation.errors import ConfigError, ModelError
from speculation.gamma import CostCurve, best_bet
from speculation.models import fused, packed, static
from speculation.models.cached_lm import CachedLM
from speculation.models.seq2seq import following
from speculation.models.static import BUCKETS, StaticLM, padded
from speculation.models.verify import TorchTarget
from speculation.types import Draft, Sampling

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

BUDGET = 1 << 20
WIDER = {"hidden_size": 64, "intermediate_size": 128, "initializer_range": 0.2}


@pytest.fixture(autouse=True)
def small_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rooms that are soon too small, so that they grow."""
    monkeypatch.setattr(static, "MIN_CAPACITY", 8)
    monkeypatch.setattr(static, "MIN_CAPTURED", 8)
    monkeypatch.setattr(static, "MIN_SEEN", 8)


def test_a_pass_is_as_long_as_the_next_bucket() -> None:
    assert [padded(n, BUCKETS) for n in (1, 2, 3, 5, 9, 255, 256, 257, 600)] == [1, 2, 4, 8, 16, 256, 256, 512, 768]
    assert [padded(n, (32,)) for n in (1, 32, 33)] == [32, 32, 64]


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([BUCKETS, (4, 16), (5,)]),
    st.lists(st.tuples(prompts, st.lists(st.integers(0, N_VOCAB - 1), max_size=20)), min_size=1, max_size=5),
    st.booleans(),
)
def test_logits_are_those_of_a_growing_cache_whatever_was_asked_before(
    buckets: Sequence[int], asked: list[tuple[tuple[int, ...], list[int]]], together: bool
) -> None:
    fixed, growing = StaticLM(lm().model, BUDGET, buckets), CachedLM(lm().model, BUDGET)
    text: list[int] = []
    for prompt, continuation in asked:
        text = [*text, *prompt] if together else list(prompt)
        wanted, got = (model.logits(text, continuation) for model in (growing, fixed))
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
        assert fixed.n_held(text) == len(text)


@settings(lossless, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(prompts, bets, st.sampled_from([BUCKETS, (4, 16), (5,)]))
def test_drafts_change_nothing(
    prompt: tuple[int, ...], bets: list[tuple[int, tuple[int, ...]]], buckets: tuple[int, ...]
) -> None:
    check(prompt, Oracle(prompt, bets), target=StaticLM(lm().model, BUDGET, buckets))


@pytest.mark.skipif(not packed.is_supported(), reason="this CPU has no kernels for packed weights")
@pytest.mark.parametrize("form", [packed.PackedFloat16, packed.PackedInt8])
def test_packed_layers_take_fixed_shapes_too(form: Any) -> None:
    model = tiny.model(N_VOCAB).bfloat16()
    packed.pack(model, form)
    fixed, growing = StaticLM(model, BUDGET), CachedLM(model, BUDGET)
    for text, continuation in (([1, 2, 3], [4, 5]), ([1, 2, 3, 4, 9], []), ([7], [7] * 12)):
        got, wanted = (each.logits(text, continuation) for each in (fixed, growing))
        torch.testing.assert_close(got, wanted, rtol=1e-2, atol=1e-2)


class Seen(StaticLM):
    """Notes the logits at each position of the text that was kept in the end."""

    rows: dict[int, torch.Tensor]

    def logits(self, prefix: Sequence[int], continuation: Sequence[int]) -> torch.Tensor:
        logits = super().logits(prefix, continuation)
        self.rows |= {len(prefix) + i: row.clone() for i, row in enumerate(logits)}
        return logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_with_one_shape_not_a_bit_of_greedy_decoding_depends_on_gamma(dtype: torch.dtype) -> None:
    model = tiny.model(N_VOCAB, **WIDER).to(dtype)
    prompt = (3, 1, 4, 1, 5)
    n_new, runs = 3 * N_NEW, []
    right: tuple[int, ...] = ()
    for gamma in (0, 1, 3, 4, 7, 14):
        target = Seen(model, BUDGET, (16,))
        target.rows = {}
        drafts: Any = tiny.Scripted([])
        if gamma:  # the tokens that plain decoding wrote, and a wrong one behind them
            starts = range(0, n_new - gamma, gamma + 1)
            wrong = [(right[at + gamma] + 1) % N_VOCAB for at in starts]
            bets = zip(starts, wrong, strict=True)
            drafts = tiny.Scripted([Draft((*right[at : at + gamma], token), "copy") for at, token in bets])
        steps = decode(TorchTarget(target, Sampling()), drafts, prompt, max_new_tokens=n_new, stop_ids=())
        written = tuple(token for step in steps for token in step.token_ids)
        right = right or written
        assert written == right
        runs.append(target.rows)
    for rows in runs[1:]:
        assert all(torch.equal(rows[at], runs[0][at]) for at in runs[0])


@pytest.mark.parametrize(("buckets", "are_equal"), [(BUCKETS, False), ((32,), True)])
def test_with_several_shapes_bits_do_differ(buckets: tuple[int, ...], are_equal: bool) -> None:
    """So the test above can fail: on this model the kernels for one position and for many round differently."""
    model = tiny.model(N_VOCAB, **WIDER)
    text = [(i * i + 3 * i) % N_VOCAB for i in range(30)]
    together = StaticLM(model, BUDGET, buckets).logits(text[:1], text[1:])
    singly = StaticLM(model, BUDGET, buckets)
    rows = torch.cat([singly.logits(text[: i + 1], ()) for i in range(len(text))])
    assert torch.equal(together, rows) == are_equal


def test_gamma_comes_to_lie_on_the_edges_of_buckets() -> None:
    points = {q: 1.0 + q / 40 for q in BUCKETS}
    stairs = CostCurve(points, BUCKETS)
    assert stairs.seconds(3) == stairs.seconds(4) < stairs.seconds(5) == stairs.seconds(8)
    assert stairs.seconds(300) > stairs.seconds(256) == points[256]
    gammas = {best_bet([alpha] * 300, stairs.seconds).gamma for alpha in (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)}
    assert len(gammas) > 3
    assert {gamma + 1 for gamma in gammas} <= set(BUCKETS)
    assert not {best_bet([a] * 300, CostCurve(points).seconds).gamma + 1 for a in (0.5, 0.7, 0.8)} <= set(BUCKETS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny.save(tmp_path_factory.mktemp("target"))


@pytest.mark.parametrize("passes", ["static", "same"])
def test_an_engine_writes_the_same_with_passes_of_any_shape(folder: str, passes: Any) -> None:
    with closing(Engine.open(config(folder))) as engine:
        _, wanted, _ = answer(engine, 60, source=CODE)
    with closing(Engine.open(config(folder, folder, passes=passes))) as engine:
        assert isinstance(engine.target, StaticLM) and isinstance(engine.small, StaticLM)
        assert answer(engine, 60, source=CODE)[1] == answer(engine, 60, draft=False)[1] == wanted
        assert answer(engine, 60, source=engine.decode(wanted))[1] == wanted


class Uncaptured:
    """Takes the place of Graph where there is no CUDA: runs the pass each time."""

    lengths: ClassVar[list[int]] = []
    """Of all passes so far."""

    def __init__(self, run: Any, ids: torch.Tensor, other: Any) -> None:
        self._run = run
        run(ids)

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        self.lengths.append(ids.shape[1])
        return self._run(ids)


def test_each_model_is_captured_on_a_stream_and_in_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """By CUDA's calls alone: what they do can't be had without a GPU."""
    streams: list[Any] = []
    captures: list[Any] = []

    def stream(device: torch.device) -> Any:
        streams.append(SimpleNamespace(device=device, wait_stream=lambda other: None))
        return streams[-1]

    def capture(graph: Any, pool: Any, stream: Any, capture_error_mode: str) -> Any:
        captures.append((pool, stream))
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "Stream", stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(pool=lambda: "memory", replay=lambda: None))
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(wait_stream=lambda other: None))
    for context in ("stream", "device"):
        monkeypatch.setattr(torch.cuda, context, lambda of: nullcontext())
    monkeypatch.setattr(StaticLM, "captures", True)
    for model in (StaticLM(lm().model, BUDGET, (1, 4)), StaticLM(lm().model, BUDGET, (1, 4))):
        model.logits([1], ())
    assert [(pool, streams.index(stream)) for pool, stream in captures] == [
        *((None, 0), ("memory", 0)),
        *((None, 1), ("memory", 1)),
    ]
    assert all(stream.device == lm().device for stream in streams)


@pytest.mark.parametrize("is_fused", [True, False])
def test_a_captured_pass_neither_waits_for_the_device_nor_leaves_it(
    monkeypatch: pytest.MonkeyPatch, is_fused: bool
) -> None:
    """On the device "meta" there are no numbers to wait for, and what mixes devices fails, as in a capture."""
    monkeypatch.setattr(static, "Graph", Uncaptured)
    monkeypatch.setattr(StaticLM, "captures", True)
    model = tiny.model(N_VOCAB).bfloat16()
    if is_fused:
        fused.fuse(model)
    model.to("meta")
    fixed = StaticLM(model, BUDGET, (4, 8, 32))
    for text in ([1, 2, 3], [4] * 20, [1, 2, 3, 4]):
        logits = fixed.logits(text, [5, 6])
        assert logits.shape == (3, N_VOCAB) and logits.is_meta
    assert set(fixed._graphs) == {(q, n_seen) for q in (4, 8, 32) for n_seen in (8, 16, 32)}
    with pytest.raises(NotImplementedError, match="no data"):
        logits.argmax(-1).tolist()


def test_what_would_be_captured_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "Graph", Uncaptured)
    monkeypatch.setattr(StaticLM, "captures", True)
    fixed, growing = StaticLM(lm().model, BUDGET, (2, 4, 16)), CachedLM(lm().model, BUDGET)
    asked: list[tuple[list[int], list[int]]] = [
        ([1, 2, 3], [4, 5]),
        ([1, 2, 3, 4, 9], []),
        ([7], [7] * 12),
        ([1, 2], [3]),
    ]
    for n_room, texts in ((16, asked), (32, [([*range(N_VOCAB)] * 2, [1]), *asked])):
        for text, continuation in texts:
            got, wanted = (each.logits(text[:20], continuation) for each in (fixed, growing))
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
        assert fixed._room.capacity == n_room
        levels = [n_seen for n_seen in (8, 16, 32) if n_seen <= n_room]
        assert set(fixed._graphs) == {(q, n_seen) for q in (2, 4, 16) for n_seen in levels}
    with torch.inference_mode():  # all leave their logits in one place
        assert len({graph(torch.zeros((1, 2), dtype=torch.long)).data_ptr() for graph in fixed._graphs.values()}) == 1


def test_a_few_tokens_behind_are_caught_up_with_in_a_captured_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a small LM is after each draft that was accepted as a whole. Many are read as a prompt is."""
    monkeypatch.setattr(static, "Graph", Uncaptured)
    monkeypatch.setattr(StaticLM, "captures", True)
    fixed, growing = StaticLM(lm().model, BUDGET, (1, 4)), CachedLM(lm().model, BUDGET)
    text: list[int] = []
    Uncaptured.lengths.clear()
    for n_more in (20, 3, 2):
        text += [(len(text) + i) % N_VOCAB for i in range(n_more)]
        torch.testing.assert_close(fixed.logits(text, ()), growing.logits(text, ()), rtol=1e-4, atol=1e-4)
    assert Uncaptured.lengths == [1, 4, 4]


def test_an_engine_that_captures_has_all_shapes_before_the_first_rewrite(
    monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setattr(static, "Graph", Uncaptured)
    with closing(Engine.open(config(folder, folder, passes="static"))) as engine:
        assert isinstance(engine.target, StaticLM) and not engine.target._graphs
        _, wanted, _ = answer(engine, 60, source=CODE)
    monkeypatch.setattr(StaticLM, "captures", True)
    with closing(Engine.open(config(folder, folder, passes="static"))) as engine:
        for lm in (engine.target, engine.small):
            assert isinstance(lm, StaticLM)
            assert set(lm._graphs) >= {(q, n_seen) for q in BUCKETS for n_seen in (8, 64, lm._room.capacity)}
        assert answer(engine, 60, source=CODE)[1] == wanted


def test_what_has_no_fixed_shape_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="a model that has windows; leave passes at dynamic"):
        StaticLM(tiny.model(use_sliding_window=True, sliding_window=8, max_window_layers=1), BUDGET)
    mistral = MistralConfig(
        vocab_size=N_VOCAB, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1
    )
    with pytest.raises(ModelError, match="a model that has windows"):
        StaticLM(MistralForCausalLM(mistral), BUDGET)  # by its default window, without a list of layer types
    for kind in ("dynamic", "longrope"):
        model = tiny.model(N_VOCAB)
        model.config.rope_parameters = {"rope_type": kind}
        with pytest.raises(ModelError, match=r"positions \(RoPE\) scaled by length; leave passes at dynamic"):
            StaticLM(model, BUDGET)
    with pytest.raises(ModelError, match="same passes can't be had with an encoder-decoder model"):
        following(t5(), BUDGET, "same")
    with pytest.raises(ConfigError, match="passes must be dynamic, static, same, not 'fast'"):
        EngineConfig(passes="fast")  # type: ignore[arg-type]


def test_the_room_counts_as_large_as_it_is() -> None:
    model = tiny.model(N_VOCAB)
    fixed = StaticLM(model, 45 * CachedLM(model, 0).kv_bytes_per_token)
    for first in range(6):  # texts that share nothing: a room of 16 tokens, and 9 tokens for each other one
        fixed.logits([first] * 9, ())
    assert fixed._room.capacity == 16
    assert [slot.token_ids[0] for slot in fixed._slots] == [3, 4, 5]


def test_a_prefix_comes_back_into_the_room_as_it_left_it() -> None:
    fixed, growing = StaticLM(lm().model, BUDGET), CachedLM(lm().model, BUDGET)
    texts = [[(first + i) % N_VOCAB for i in range(12)] for first in range(3)]
    for text in texts:
        fixed.logits(text, ())
    for text in [*texts, texts[0][:5], texts[2]]:
        n_fed = len(text) + 2 - min(fixed.n_held(text), len(text) - 1)
        torch.testing.assert_close(fixed.logits(text, [1, 2]), growing.logits(text, [1, 2]), rtol=1e-4, atol=1e-4)
        assert n_fed <= 3


def test_the_room_stays_where_it_is_while_it_is_large_enough() -> None:
    """What was captured over it stays true."""
    fixed = StaticLM(lm().model, BUDGET)
    fixed.logits([1] * 20, ())
    addresses = [layer.keys.data_ptr() for layer in fixed._room.layers if layer.keys is not None]
    for text in ([2] * 9, [1] * 20, [3], [1] * 10):
        fixed.logits(text, [4])
    assert addresses == [layer.keys.data_ptr() for layer in fixed._room.layers if layer.keys is not None] != []
    fixed.forget()
    assert fixed._room.capacity == 0
