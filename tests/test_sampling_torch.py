"""Sampling is lossless: with drafts, the output has exactly the target's distribution. G-tests on small vocabularies.

The seeds are fixed, so a test gives the same answer every time; the bound says how unlikely a false alarm would be.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from scipy import stats

from speculation.decoding import Drafts, decode
from speculation.drafters.chain import NoDrafts
from speculation.gamma import CostCurve
from speculation.models.cached_lm import CachedLM
from speculation.models.small_lm import TorchSmallLM
from speculation.models.verify import Noise, TorchTarget, distribution, draw, verify_sampled
from speculation.types import Draft, Sampling

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

N_VOCAB = 8
N_SAMPLES = 2000
FALSE_ALARM = 1e-8
"""Per test; all together stay below one in a million."""
PROMPT = (3,)
PASS_S = {1: 0.001, 4: 0.002}
SAMPLINGS = [
    Sampling(1.0),
    Sampling(0.5),
    Sampling(1.7),
    Sampling(1.0, top_k=3),
    Sampling(1.0, top_p=0.7),
    Sampling(0.8, top_k=5, top_p=0.8),
    Sampling(0.9, repetition_penalty=2.5),
    Sampling(1.2, top_k=6, top_p=0.9, repetition_penalty=0.6),
]


class TableLM:
    """A CachedLM whose next-token logits depend on the last token alone: fast, and its distribution can be listed."""

    device = torch.device("cpu")

    def __init__(self, n_vocab: int, seed: int) -> None:
        self.n_vocab = n_vocab
        self.table = torch.randn(n_vocab, n_vocab, generator=torch.Generator().manual_seed(seed)) * 1.5

    def n_held(self, prefix: Sequence[int]) -> int:
        return len(prefix)

    def prefill(self, prefix: Sequence[int]) -> Iterator[int]:
        yield len(prefix)

    def logits(self, prefix: Sequence[int], continuation: Sequence[int]) -> Any:
        return self.table[[prefix[-1], *continuation]]


TARGET = TableLM(N_VOCAB, seed=1)


def adjusted(logits: Sequence[float], sampling: Sampling, text: Sequence[int] = ()) -> list[float]:
    """The reference: penalty, temperature, top-k, top-p and renormalisation in plain Python."""
    penalties = [sampling.repetition_penalty if token in text else 1.0 for token in range(len(logits))]
    penalised = [x / by if x > 0 else x * by for x, by in zip(logits, penalties, strict=True)]
    scaled = [x / sampling.temperature for x in penalised]
    p = [np.exp(x - max(scaled)) for x in scaled]
    ranked = sorted(range(len(p)), key=lambda i: -p[i])
    kept = ranked[: sampling.top_k or len(p)]
    total = sum(p[i] for i in kept)
    mass, nucleus = 0.0, []
    for i in kept:
        if mass >= sampling.top_p:
            break
        nucleus.append(i)
        mass += p[i] / total
    total = sum(p[i] for i in nucleus)
    return [float(p[i] / total) if i in nucleus else 0.0 for i in range(len(p))]


def exact(rows: Callable[[Sequence[int]], Sequence[float]], sampling: Sampling, n: int) -> dict[tuple[int, ...], float]:
    """Probability of each output of n tokens."""
    outputs: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(n):
        outputs = {
            (*output, token): p * p_token
            for output, p in outputs.items()
            for token, p_token in enumerate(adjusted(rows((*PROMPT, *output)), sampling, (*PROMPT, *output)))
            if p * p_token > 0
        }
    return outputs


def table_rows(text: Sequence[int]) -> list[float]:
    rows: list[float] = TARGET.table[text[-1]].tolist()
    return rows


def improbability(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """The p-value of a G-test; cells that expect fewer than eight are pooled. 0 for what can't happen at all."""
    if set(counts) - set(expected):
        return 0.0
    n = sum(counts.values())
    large = [cell for cell, p in expected.items() if n * p >= 8]
    observed = [counts[cell] for cell in large]
    wanted = [n * expected[cell] for cell in large]
    if n - sum(wanted) >= 1:
        observed.append(n - sum(observed))
        wanted.append(n - sum(wanted))
    if len(wanted) == 1:
        return float(observed[0] == n)
    scaled = np.array(wanted) * (sum(observed) / sum(wanted))
    return float(stats.power_divergence(observed, scaled, lambda_="log-likelihood").pvalue)


def sample(lm: Any, make_drafts: Callable[[Sampling], Drafts], sampling: Sampling, n: int) -> tuple[int, ...]:
    steps = decode(TorchTarget(lm, sampling), make_drafts(sampling), PROMPT, max_new_tokens=n, stop_ids=())
    return tuple(token for step in steps for token in step.token_ids)


def check(
    make_drafts: Callable[[Sampling], Drafts],
    sampling: Sampling,
    n: int = 3,
    lm: Any = TARGET,
    rows: Callable[[Sequence[int]], Sequence[float]] = table_rows,
    n_samples: int = N_SAMPLES,
) -> None:
    """The first token, the first two and all n are distributed as the target says."""
    outputs = [sample(lm, make_drafts, replace(sampling, seed=seed), n) for seed in range(n_samples)]
    for m in range(1, n + 1):
        expected = exact(rows, sampling, m)
        assert sum(expected.values()) == pytest.approx(1.0)
        assert improbability(Counter(output[:m] for output in outputs), expected) > FALSE_ALARM, m


def point_masses(*drafts: tuple[int, ...]) -> Callable[[Sampling], Drafts]:
    return lambda sampling: tiny.Scripted([Draft(draft, "copy") for draft in drafts])


class SmallLMDrafts:
    """The small LM alone: n_drafted passes, each over a copy that it checks; then a copy that nobody has checked."""

    def __init__(
        self, lm: Any, sampling: Sampling, n_drafted: int, copied: tuple[int, ...], tail: tuple[int, ...]
    ) -> None:
        self._small = TorchSmallLM(lm, sampling, CostCurve(PASS_S), N_VOCAB)
        self._n_drafted, self._copied, self._tail = n_drafted, copied, tail

    def propose(self, prefix: Sequence[int], n_max: int) -> Draft:
        text, parts = list(prefix), []
        for _ in range(self._n_drafted):
            if (n_left := n_max - len(text) + len(prefix)) > 0:
                written = self._small.write(text, self._copied[: n_left - 1])
                parts.append(Draft(written.token_ids, "lm", 0, written.q))
                text += written.token_ids
        return Draft.mixed((*parts, Draft(self._tail[: n_max - len(text) + len(prefix)], "copy")))

    def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
        pass


def small_lm(
    lm: Any, n_drafted: int, copied: tuple[int, ...] = (), tail: tuple[int, ...] = ()
) -> Callable[[Sampling], Drafts]:
    return lambda sampling: SmallLMDrafts(lm, sampling, n_drafted, copied, tail)


def named(sampling: Sampling) -> str:
    return f"T={sampling.temperature},k={sampling.top_k},p={sampling.top_p},r={sampling.repetition_penalty}"


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=named)
def test_p_is_adjusted_by_temperature_top_k_and_top_p_in_this_order(sampling: Sampling) -> None:
    p = distribution(TARGET.table, sampling)
    for row, logits in zip(p.tolist(), TARGET.table.tolist(), strict=True):
        assert row == pytest.approx(adjusted(logits, sampling), abs=1e-6)


def test_p_survives_extreme_settings() -> None:
    logits = torch.tensor([[20.0, -30.0, 21.0, 5.0]])
    for sampling in (Sampling(1e-40), Sampling(1e-6), Sampling(1.0, top_p=1e-9), Sampling(1.0, top_k=1)):
        assert distribution(logits, sampling).tolist() == [[0.0, 0.0, 1.0, 0.0]]
    assert distribution(logits, Sampling(100.0, top_k=99))[0].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("n_vocab", [10_000, 300])
def test_top_p_ranks_as_many_tokens_as_it_takes(n_vocab: int) -> None:
    """Rows that differ in how many of their tokens hold the mass, from one to nearly all."""
    sharpness = torch.tensor([[30.0], [3.0], [0.5], [0.01]])
    logits = torch.randn(4, n_vocab, generator=torch.Generator().manual_seed(7)) * sharpness
    for rows in (logits[:1], logits[:2], logits[:3], logits):
        p = distribution(rows, Sampling(1.0, top_p=0.97))
        for row, plain in zip(p, rows.double().softmax(dim=-1), strict=True):
            cut = plain[row > 0].min()
            assert 0.97 - 1e-4 <= plain[row > 0].sum() < 0.97 + cut + 1e-4
            assert plain[row == 0].max() <= cut
            assert row.sum() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("n_vocab", [1, 127, 128, 129, 1000])
def test_a_draw_gives_each_token_its_share_of_the_unit_interval(n_vocab: int) -> None:
    p = torch.rand(n_vocab, generator=torch.Generator().manual_seed(8))
    p[torch.rand(n_vocab, generator=torch.Generator().manual_seed(9)) < 0.5] = 0.0
    p[n_vocab // 2] = 0.5
    ends = (p / p.sum()).double().cumsum(dim=-1)
    shares = [0.0, 1.0 - 2.0**-53, *torch.linspace(0.001, 0.999, 500).tolist()]
    drawn = draw(p.expand(len(shares), -1), shares)
    assert all(p[token] > 0 for token in drawn)
    for token, share in zip(drawn[2:], shares[2:], strict=True):
        assert ends[token] - p[token] / p.sum() - 1e-6 <= share <= ends[token] + 1e-6
    assert drawn[:2] == [int(p.nonzero()[0]), int(p.nonzero()[-1])]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=named)
def test_plain_sampling_has_the_targets_distribution(sampling: Sampling) -> None:
    check(lambda _: NoDrafts(), sampling, n=2)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=named)
def test_copies_change_no_distribution(sampling: Sampling) -> None:
    likely = int(TARGET.table[PROMPT[0]].argmax())
    check(point_masses((likely, 2), (5,)), sampling)


@pytest.mark.parametrize("token", range(N_VOCAB))
def test_no_copied_token_is_favoured_or_put_at_a_disadvantage(token: int) -> None:
    check(point_masses((token, token)), Sampling(1.3), n=2, n_samples=1000)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=named)
def test_a_small_lm_with_its_own_q_changes_no_distribution(sampling: Sampling) -> None:
    check(small_lm(TableLM(N_VOCAB, seed=2), 2), sampling)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=named)
def test_mixed_drafts_of_checked_copies_words_and_unchecked_copies_change_no_distribution(sampling: Sampling) -> None:
    likely = int(TARGET.table[PROMPT[0]].argmax())
    check(small_lm(TableLM(N_VOCAB, seed=2), 1, copied=(likely,), tail=(2,)), sampling)
    check(small_lm(TARGET, 2, copied=(likely, 1)), sampling, n=4)


def test_a_small_lm_that_is_the_target_changes_no_distribution_and_is_always_kept() -> None:
    check(small_lm(TARGET, 2), Sampling(1.0))
    for seed in range(200):
        target = TorchTarget(TARGET, Sampling(1.0, seed=seed))  # type: ignore[arg-type]
        draft = small_lm(TARGET, 3)(Sampling(1.0, seed=seed)).propose(PROMPT, 3)
        assert target.verify(PROMPT, draft).n_accepted == 3


@pytest.mark.parametrize("n_vocab", [N_VOCAB - 2, N_VOCAB + 2])
def test_a_vocabulary_that_is_padded_differently_changes_no_distribution(n_vocab: int) -> None:
    check(small_lm(TableLM(n_vocab, seed=4), 2), Sampling(1.2))


def test_target_and_draft_do_not_share_their_random_numbers() -> None:
    """With one seed for both they once did, and what the small LM favours came out too often."""
    seeded = [Sampling(1.0, seed=seed) for seed in range(50)]
    drafted = [small_lm(TARGET, 3)(sampling).propose(PROMPT, 3).token_ids for sampling in seeded]
    written = [sample(TARGET, lambda _: NoDrafts(), sampling, 3) for sampling in seeded]
    assert sum(a == b for a, b in zip(drafted, written, strict=True)) < 25


@pytest.mark.parametrize("sampling", SAMPLINGS[::2], ids=named)
def test_q_and_point_masses_mix_in_one_draft(sampling: Sampling) -> None:
    q = torch.tensor([0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05])

    class Mixed:
        def __init__(self, sampling: Sampling) -> None:
            self._generator = torch.Generator().manual_seed(10_000_019 + (sampling.seed or 0))

        def propose(self, prefix: Sequence[int], n_max: int) -> Draft:
            first, second = torch.multinomial(q, 2, replacement=True, generator=self._generator).tolist()
            copied = int(TARGET.table[first].argmax())
            return Draft((first, copied, second)[:n_max], "lm", 0, (q, None, q)[:n_max])

        def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
            pass

    check(Mixed, sampling)


class Elsewhere(torch.Tensor):
    """On another device, as far as one can tell: nothing is computed with it and a tensor of here."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [tensor for arg in args for tensor in (arg if isinstance(arg, list | tuple) else [arg])]
        if any(type(tensor) is torch.Tensor for tensor in tensors):
            raise RuntimeError("Expected all tensors to be on the same device")
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result.as_subclass(torch.Tensor) if func is torch.Tensor.to else result


@pytest.mark.parametrize("coin", range(8))
def test_a_small_lm_on_another_device_is_judged_alike(coin: int) -> None:
    p, q = (torch.rand(3, 8, generator=torch.Generator().manual_seed(seed)).softmax(-1) for seed in (1, 2))
    noise = Noise(coin, "target")
    verdicts = []
    for rows in (q, q.as_subclass(Elsewhere)):
        verdicts.append(verify_sampled(p, Draft((3, 5), "lm", 0, tuple(rows[:2])), noise, 0))
    assert verdicts[0] == verdicts[1]


def test_a_real_model_with_its_kv_cache_samples_exactly() -> None:
    lm = CachedLM(tiny.model(N_VOCAB, seed=5, num_hidden_layers=1, initializer_range=0.2), 1 << 20)
    small = CachedLM(tiny.model(N_VOCAB, seed=6, num_hidden_layers=1, initializer_range=0.2), 1 << 20)

    def rows(text: Sequence[int]) -> list[float]:
        with torch.inference_mode():
            logits: list[float] = lm.model(torch.tensor([text]), use_cache=False).logits[0, -1].tolist()
        return logits

    check(small_lm(small, 2), Sampling(1.0), n=2, lm=lm, rows=rows, n_samples=500)


@pytest.mark.parametrize("drafts", [point_masses((1, 2), (5,)), small_lm(TableLM(N_VOCAB, 2), 3)], ids=["copy", "lm"])
def test_a_seed_gives_the_same_output_again_and_another_seed_another(
    drafts: Callable[[Sampling], Drafts],
) -> None:
    for seed in (0, -1, 1 << 70):
        once, again = (sample(TARGET, drafts, Sampling(1.0, seed=seed), 12) for _ in range(2))
        assert once == again
    assert len({sample(TARGET, drafts, Sampling(1.0, seed=seed), 12) for seed in range(20)}) == 20


def test_without_a_seed_each_request_draws_anew() -> None:
    assert len({sample(TARGET, lambda _: NoDrafts(), Sampling(1.0), 20) for _ in range(10)}) == 10


def test_with_a_seed_copies_change_no_token_at_all() -> None:
    """Gamma follows measured times: were the draws to depend on it, a seed would give nothing again."""
    for seed in range(50):
        sampling = Sampling(1.0, seed=seed)
        plain = sample(TARGET, lambda _: NoDrafts(), sampling, 12)
        right_then_wrong = point_masses(plain[:4], (plain[5], plain[6], (plain[7] + 1) % N_VOCAB), plain[8:])
        assert sample(TARGET, right_then_wrong, sampling, 12) == plain
        assert sample(TARGET, point_masses((1, 2), (), (0, 0, 0)), sampling, 12) == plain
