"""The KV caches follow the prefix: logits are those of a full pass without a cache, whatever was asked before."""

from collections.abc import Sequence
from typing import Any

import pytest
import tiny
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speculation.decoding import decode
from speculation.drafters.chain import NoDrafts
from speculation.errors import ModelError
from speculation.models import cached_lm
from speculation.models.cached_lm import CachedLM
from speculation.models.verify import TorchTarget
from speculation.types import Sampling

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

N_VOCAB = 12
MODEL = tiny.model(N_VOCAB)
PER_TOKEN = 2 * 2 * 2 * 8 * 4  # K and V, layers, heads, head size, bytes
ROOMY = 10_000 * PER_TOKEN
unhurried = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


class Counted(CachedLM):
    """Notes how many tokens each pass was fed, and breaks off when told to."""

    def __init__(self, budget: int = ROOMY, model: Any = MODEL) -> None:
        super().__init__(model, budget)
        self.fed: list[int] = []
        self.breaks = False

    def _forward(self, slot: Any, token_ids: list[int], n_logits: int) -> Any:
        self.fed.append(len(token_ids))
        return super()._forward(slot, token_ids, n_logits)


def fresh(text: Sequence[int], n: int, model: Any = MODEL) -> Any:
    with torch.inference_mode():
        return model(torch.tensor([list(text)]), use_cache=False).logits[0, -n:]


def check(lm: CachedLM, prefix: Sequence[int], continuation: Sequence[int] = ()) -> None:
    n = len(continuation) + 1
    torch.testing.assert_close(
        lm.logits(prefix, continuation), fresh([*prefix, *continuation], n, lm.model), rtol=1e-4, atol=1e-4
    )


def held(lm: CachedLM) -> int:
    return sum(slot.cache.get_seq_length() for slot in lm._slots)


def run_prefill(lm: CachedLM, prefix: Sequence[int]) -> list[int]:
    return list(lm.prefill(prefix))


BASES = [[(seed * 7 + i * i * (seed + 1)) % N_VOCAB for i in range(40)] for seed in range(3)]
# A text is a cut of one of three files with an edit at its end: they share much, a little or nothing.
texts = st.builds(
    lambda base, n, tail: BASES[base][:n] + tail,
    st.integers(0, 2),
    st.integers(1, 40),
    st.lists(st.integers(0, N_VOCAB - 1), max_size=6),
)
asks = st.lists(
    st.tuples(
        st.sampled_from(["prefill", "verify", "begin"]), texts, st.lists(st.integers(0, N_VOCAB - 1), max_size=8)
    ),
    min_size=1,
    max_size=12,
)


@unhurried
@given(asks, st.sampled_from([0, 30, 60, 90, 10_000]), st.sampled_from([1, 3, 128]))
def test_any_sequence_of_requests_gives_the_logits_of_a_full_pass(
    asks: list[tuple[str, list[int], list[int]]], n_budget: int, chunk: int
) -> None:
    lm = CachedLM(MODEL, n_budget * PER_TOKEN)
    lm.chunk = chunk
    begun = []  # prefills that were left off after a chunk
    for kind, text, continuation in asks:
        if kind == "verify":
            check(lm, text, continuation)
        elif kind == "prefill":
            assert run_prefill(lm, text)[-1] == len(text)
            assert lm.n_held(text) == len(text)
        else:
            begun.append(lm.prefill(text))
            next(begun[-1])
        for prefill in begun:
            next(prefill, None)
        longest = max(len(slot.token_ids) for slot in lm._slots)
        assert held(lm) <= max(n_budget, longest)
        for slot in lm._slots:
            assert slot.cache.get_seq_length() == len(slot.token_ids)


def test_a_cell_of_the_budget_is_what_a_token_really_takes() -> None:
    lm = CachedLM(MODEL, ROOMY)
    run_prefill(lm, BASES[0])
    layers = lm._slots[0].cache.layers
    assert sum(layer.keys.nbytes + layer.values.nbytes for layer in layers) == len(BASES[0]) * lm.kv_bytes_per_token


def test_a_second_request_on_the_same_prefix_is_fed_only_what_is_new() -> None:
    lm = Counted()
    run_prefill(lm, BASES[0])
    lm.fed.clear()
    assert run_prefill(lm, [*BASES[0][:30], 1, 2, 3]) == [30, 33]
    check(lm, [*BASES[0][:30], 1, 2, 3, 4], [5, 6])
    assert lm.fed == [3, 3]


def test_a_verified_draft_is_not_fed_again() -> None:
    lm = Counted()
    check(lm, BASES[0][:10], BASES[0][10:20])
    lm.fed.clear()
    check(lm, BASES[0][:18], [])  # the last token of the prefix is always fed, nothing else
    assert lm.fed == [1]


def test_two_files_keep_their_caches_side_by_side() -> None:
    lm = Counted()
    for text in (BASES[0], BASES[1], BASES[0], BASES[1]):
        run_prefill(lm, text)
    assert lm.fed == [len(BASES[0]), len(BASES[1])]


def test_without_room_the_longest_unused_cache_makes_way() -> None:
    lm = Counted(90 * PER_TOKEN)
    for text in (BASES[0], BASES[1], BASES[2]):  # 40 tokens each
        run_prefill(lm, text)
    assert [lm.n_held(text) == len(text) for text in BASES] == [False, True, True]


def test_a_cache_that_grows_makes_others_go() -> None:
    """Caches that fitted when they were made must not outgrow the budget together."""
    lm = Counted(100 * PER_TOKEN)
    run_prefill(lm, BASES[0])
    run_prefill(lm, BASES[1])
    run_prefill(lm, BASES[1] + BASES[0] + BASES[1])
    assert held(lm) == 120  # one request is always served
    assert len(lm._slots) == 1


def test_a_branch_is_copied_rather_than_fed_and_leaves_its_origin_alone() -> None:
    lm = Counted()
    run_prefill(lm, BASES[0])
    branch = [*BASES[0][:10], 11, 11, 11]
    lm.fed.clear()
    assert run_prefill(lm, branch) == [10, 13]
    check(lm, BASES[0])
    check(lm, branch)
    assert lm.fed == [3, 1, 1]


def test_a_pass_that_breaks_off_leaves_a_usable_state() -> None:
    """Between two layers the first cache has grown and the second has not."""
    lm = Counted()
    run_prefill(lm, BASES[0])
    run_prefill(lm, BASES[1])

    def explode(*args: Any) -> None:
        raise MemoryError("in mid-pass")

    hook = MODEL.model.layers[1].register_forward_pre_hook(explode)
    try:
        with pytest.raises(MemoryError):
            lm.logits(BASES[0], [1, 2])
        with pytest.raises(MemoryError):
            run_prefill(lm, [*BASES[0], 1, 2])
    finally:
        hook.remove()
    for text in BASES:
        check(lm, text, [3])
    assert lm.n_held(BASES[1]) == len(BASES[1])


def test_a_prefill_survives_that_every_cache_is_dropped_meanwhile() -> None:
    lm = Counted()
    lm.chunk = 10
    prefill = lm.prefill(BASES[0])
    assert [next(prefill), next(prefill)] == [0, 10]
    lm.forget()  # to make room, say
    assert list(prefill)[-1] == len(BASES[0])
    assert lm.n_held(BASES[0]) == len(BASES[0])
    check(lm, BASES[0])


def test_a_prefill_is_done_when_another_request_did_it_meanwhile() -> None:
    lm = Counted()
    lm.chunk = 10
    prefill = lm.prefill(BASES[0])
    next(prefill)
    run_prefill(lm, BASES[0])
    lm.fed.clear()
    assert list(prefill) == [len(BASES[0])]
    assert lm.fed == []


def test_two_requests_taking_turns_both_come_out_right() -> None:
    lm = CachedLM(MODEL, ROOMY)
    prompts = [tuple(BASES[0]), (*BASES[0][:35], 1, 2), tuple(BASES[1])]
    target = TorchTarget(lm, Sampling())

    def request(prompt: tuple[int, ...]) -> Any:
        yield from target.prefill(prompt)
        for step in decode(target, NoDrafts(), prompt, max_new_tokens=12, stop_ids=()):
            yield step.token_ids

    alone = [[x for x in request(prompt) if isinstance(x, tuple)] for prompt in prompts]
    lm.forget()
    lm.chunk = 7
    running = [request(prompt) for prompt in prompts]
    outputs: list[list[tuple[int, ...]]] = [[] for _ in prompts]
    for _ in range(40):
        for output, turn in zip(outputs, running, strict=True):
            x = next(turn, None)
            if isinstance(x, tuple):
                output.append(x)
    assert outputs == alone


def test_an_abandoned_request_leaves_the_next_one_right() -> None:
    lm = CachedLM(MODEL, ROOMY)
    lm.chunk = 8
    for n_pulled in range(1, 6):
        prefill = lm.prefill(BASES[0])
        for _ in range(n_pulled):
            next(prefill, None)
        prefill.close()
        check(lm, BASES[0][: 9 * n_pulled - 4], [1, 2, 3])


def test_pass_times_are_positive_and_leave_no_cache_behind() -> None:
    lm = CachedLM(MODEL, ROOMY)
    seconds = lm.pass_seconds()
    assert {1, 2, 4, 8} <= set(seconds)
    assert all(s > 0 for s in seconds.values())
    assert held(lm) == 0


@pytest.mark.parametrize(
    ("base_s", "token_s", "longest"),
    [(0.0, 0.1, 16), (0.0, 0.01, 64), (0.6, 0.01, 128), (0.02, 0.0001, 256)],
)
def test_pass_times_are_measured_until_a_pass_is_both_slow_and_steep(
    monkeypatch: pytest.MonkeyPatch, base_s: float, token_s: float, longest: int
) -> None:
    lm = CachedLM(MODEL, ROOMY)
    monkeypatch.setattr(lm, "_timed_pass", lambda q: base_s + q * token_s)
    assert max(lm.pass_seconds()) == longest


def test_a_model_with_a_sliding_window_is_exact_too() -> None:
    """Beyond its window transformers' own cache for it can't be cropped."""
    model = tiny.model(N_VOCAB, use_sliding_window=True, sliding_window=8, max_window_layers=1, num_hidden_layers=2)
    assert "sliding_attention" in model.config.layer_types
    lm = CachedLM(model, ROOMY)
    for text in (BASES[0], BASES[0][:25], BASES[1], BASES[0][:25] + BASES[1]):
        check(lm, text, BASES[2][:9])
        check(lm, [*text, *BASES[2][:3]], [1, 2])


def test_a_model_that_cannot_take_back_a_draft_is_refused() -> None:
    model = tiny.model(N_VOCAB)
    model.config.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(ModelError, match="linear_attention layers can't take back"):
        CachedLM(model, ROOMY)


def test_stop_ids_are_those_of_both_configs() -> None:
    model = tiny.model(N_VOCAB, eos_token_id=3)
    assert CachedLM(model, ROOMY).stop_ids == {3}
    model.generation_config.eos_token_id = [4, 5]
    assert CachedLM(model, ROOMY).stop_ids == {3, 4, 5}


def test_a_chunk_is_told_when_the_device_has_done_it(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(cached_lm, "wait_for", waited.append)
    lm = CachedLM(tiny.model(N_VOCAB), 1 << 20)
    lm.chunk = 2
    for n_held in lm.prefill([1, 2, 3, 4, 5]):
        assert len(waited) == -(-n_held // 2)
    assert waited == [lm.device] * 3
