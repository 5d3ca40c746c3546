"""Encoder-decoder targets: drafts change neither what a T5 writes greedily nor the distribution of what it samples."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sampling_torch import PROMPT, check, point_masses, small_lm
from tiny_engine import CODE, Steady, answer, config
from transformers import RepetitionPenaltyLogitsProcessor, T5Config, T5ForConditionalGeneration

from speculation.bench.run import run
from speculation.bench.tasks import Task
from speculation.decoding import decode
from speculation.engine import Engine
from speculation.errors import ModelError
from speculation.models.cached_lm import CachedLM
from speculation.models.seq2seq import Seq2SeqLM, following
from speculation.models.verify import TorchTarget
from speculation.types import Draft, Sampling

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

N_VOCAB = 12
N_NEW = 16
BUDGET = 1 << 20
tokens = st.lists(st.integers(0, N_VOCAB - 1), max_size=8).map(tuple)


def t5(vocab_size: int = N_VOCAB, seed: int = 0, **more: Any) -> Any:
    """A random T5 whose answers depend on all that its encoder read."""
    settings = {
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 4,
        "initializer_factor": 2.0,
        "eos_token_id": None,
        "decoder_start_token_id": PROMPT[0],
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = T5ForConditionalGeneration(T5Config(vocab_size=vocab_size, **{**settings, **more}))
    return model.to(torch.float32).eval().requires_grad_(False)


@cache
def lm(seed: int = 0) -> CachedLM:
    return following(t5(seed=seed), BUDGET)


def full_logits(model: Any, prompt: Sequence[int], written: Sequence[int]) -> torch.Tensor:
    """The reference: encoder and decoder from scratch, no cache."""
    with torch.inference_mode():
        logits: torch.Tensor = model(
            input_ids=torch.tensor([list(prompt)]), decoder_input_ids=torch.tensor([list(written)]), use_cache=False
        ).logits[0]
    return logits


@cache
def plain(prompt: tuple[int, ...], penalty: float = 1.0) -> list[int]:
    penalised = RepetitionPenaltyLogitsProcessor(penalty)
    text = list(PROMPT)
    for _ in range(N_NEW):
        logits = full_logits(lm().model, prompt, text)[-1:]
        text.append(int(penalised(torch.tensor([text]), logits).argmax()))
    return text[1:]


def written(prompt: tuple[int, ...], drafts: Sequence[tuple[int, ...]], penalty: float = 1.0) -> list[int]:
    target = TorchTarget(lm().reading(prompt), Sampling(repetition_penalty=penalty))
    scripted = tiny.Scripted([Draft(draft, "copy") for draft in drafts])
    steps = decode(target, scripted, lm().begin(prompt), max_new_tokens=N_NEW, stop_ids=())
    return [token for step in steps for token in step.token_ids]


@settings(derandomize=True, max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=12).map(tuple),
    st.lists(st.tuples(st.integers(0, 6), tokens), max_size=N_NEW),
    st.sampled_from([1.0, 1.4]),
)
def test_drafts_change_nothing(
    prompt: tuple[int, ...], bets: list[tuple[int, tuple[int, ...]]], penalty: float
) -> None:
    """Each draft is right for a while, as far as the drafts before it were exactly used up; then it is anything."""
    right = plain(prompt, penalty)
    drafts, at = [], 0
    for n_right, tail in bets:
        drafts.append((*right[at : at + n_right], *tail))
        at += n_right + 1
    assert written(prompt, drafts, penalty) == right


def test_tokens_are_those_of_transformers_greedy_generate() -> None:
    answers = set()
    for prompt in [(3, 1, 4), (0,), (7, 7, 7, 7), tuple(range(N_VOCAB))]:
        for penalty in (1.0, 1.3):
            generated = lm().model.generate(
                torch.tensor([prompt]),
                max_new_tokens=N_NEW,
                do_sample=False,
                repetition_penalty=penalty,
                pad_token_id=0,
            )
            right = generated[0, 1:].tolist()
            assert written(prompt, [tuple(right[:5]), (1, 2), tuple(right[7:9])], penalty) == right
            answers.add(tuple(right))
    assert len(answers) > 4  # they depend on the prompt


def test_right_drafts_save_passes_and_the_cache_follows_any_prefix() -> None:
    decoder = lm().reading((5, 6, 7))
    assert len(list(decoder.prefill([*PROMPT, 1, 2, 3]))) > 1
    for text, continuation in [([1, 2], [3, 4]), ([1, 2, 3], []), ([1, 4], [4]), ([9, 9, 9, 9], [1]), ([], [1, 2])]:
        wanted = full_logits(lm().model, (5, 6, 7), [*PROMPT, *text, *continuation])[len(text) :]
        torch.testing.assert_close(decoder.logits([*PROMPT, *text], continuation), wanted, rtol=1e-4, atol=1e-4)


def test_prompts_that_are_answered_in_turn_do_not_mix() -> None:
    prompts = [(1, 2, 3), (4, 5, 6, 7)]
    running = [
        decode(
            TorchTarget(lm().reading(p), Sampling()),
            tiny.Scripted([Draft(tuple(plain(p)[:2]), "copy")]),
            lm().begin(p),
            max_new_tokens=N_NEW,
            stop_ids=(),
        )
        for p in prompts
    ]
    outputs: list[list[int]] = [[], []]
    for _ in range(N_NEW):
        for output, turn in zip(outputs, running, strict=True):
            step = next(turn, None)
            output += step.token_ids if step else ()
    assert outputs == [plain(p) for p in prompts]


@pytest.mark.parametrize("drafts", [point_masses((1, 2), (5,)), "small"], ids=["copies", "small T5"])
def test_drafts_change_no_distribution(drafts: Any) -> None:
    prompt = (2, 6, 1)
    model = t5(8, seed=5, num_layers=1)
    if drafts == "small":
        drafts = small_lm(following(t5(8, seed=6, num_layers=1), BUDGET).reading(prompt), 2)

    def rows(text: Sequence[int]) -> list[float]:
        logits: list[float] = full_logits(model, prompt, text)[-1].tolist()
        return logits

    check(drafts, Sampling(1.0), n=2, lm=following(model, BUDGET).reading(prompt), rows=rows, n_samples=200)


def save(folder: Path, seed: int = 0) -> str:
    end = tiny.tokenizer().convert_tokens_to_ids(tiny.END)
    built = t5(len(tiny.tokenizer()) + 5, seed, eos_token_id=end, pad_token_id=0, decoder_start_token_id=0)
    built.save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return save(tmp_path_factory.mktemp("t5")), save(tmp_path_factory.mktemp("small"), seed=1)


@pytest.mark.parametrize("dtype", ["float32", "auto"])
def test_an_engine_with_a_t5_writes_the_same_with_drafts_and_without(pair: tuple[str, str], dtype: str) -> None:
    with closing(Engine.open(replace(config(*pair), dtype=dtype))) as engine:
        assert isinstance(engine.target, Seq2SeqLM)
        engine._small_cost = Steady({1: 1e-9, 64: 2e-9})
        _, plainly, _ = answer(engine, 24, prompt=CODE, draft=False)
        text, drafted, last = answer(engine, 24, prompt=CODE, source=CODE)
        assert drafted == plainly
        assert last.stats is not None and last.stats.n_small_passes > 0
        assert answer(engine, 24, messages=[{"role": "user", "content": CODE}], source=text)[1] == plainly
        assert list(engine.prefill(prompt=CODE))[-1].finish_reason == "stop"


def test_the_bench_measures_a_t5_beside_transformers(pair: tuple[str, str]) -> None:
    tasks = [Task("t", "python", "x", CODE, CODE)]
    with closing(Engine.open(config(*pair))) as engine:
        skip = ["prompt lookup", "prompt lookup n=3/32", "stet, copies only"]
        report = run(engine, tasks, limit=1, max_tokens=500, skip=skip)
    assert list(report["methods"]) == ["greedy", "assisted", "stet"]
    assert {figures["identical"] for figures in report["methods"].values()} == {1}


def test_a_small_lm_of_another_architecture_is_refused(pair: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="can't draft for this target: its architecture is another one"):
        Engine.open(config(pair[0], tiny.save(tmp_path)))
