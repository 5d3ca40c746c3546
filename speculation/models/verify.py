"""Exact verification of a draft by the target, greedy or sampled. Knows token ids and logits, no tokenizer.

p is the target's distribution after repetition penalty, temperature, top-k and top-p; q the draft's. A token x is kept
with probability min(1, p(x) / q(x)); at the first rejection the next token is drawn from norm(max(0, p - q)); when all
are kept, a bonus token from p (Leviathan et al. 2023, algorithm 1). A copied token has q = 1 on itself, so it is kept
with probability p(x) and replaced from p without x: that is a draw from p, compared with x afterwards.

The random numbers belong to positions of the text, not to passes: with a seed the output is the same however long the
copies are that come in between (their length follows measured times).
"""

import hashlib
import secrets
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch

from speculation.models.cached_lm import CachedLM
from speculation.types import Draft, Sampling, Verdict

N_RANKED = (256, 4096)
"""How many of the likeliest tokens are ranked for top-p, as long as that is enough: to sort 33 rows of a vocabulary of
152,000 takes a CPU a second."""
BLOCK = 128
"""Tokens whose probabilities are summed at once in a draw."""
BELOW_ONE = 1.0 - 2.0**-53


class TorchTarget:
    """A Target over a CachedLM for one request."""

    def __init__(self, lm: CachedLM, sampling: Sampling) -> None:
        self._lm = lm
        self._sampling = sampling
        self._noise = Noise(sampling.seed, "target")

    def prefill(self, prefix: Sequence[int]) -> Iterator[int]:
        """Feed all of prefix but its last token; yields the number of tokens held after each chunk."""
        return self._lm.prefill(prefix[:-1])

    def verify(self, prefix: Sequence[int], draft: Draft) -> Verdict:
        """One pass over the last token of prefix and the draft."""
        logits = self._lm.logits(prefix, draft.token_ids)  # [gamma + 1, vocab]
        logits = penalized(logits, self._sampling, prefix, draft.token_ids)
        if self._sampling.temperature == 0:
            return verify_greedy(logits, draft)
        return verify_sampled(distribution(logits, self._sampling), draft, self._noise, len(prefix))


class Noise:
    """The random numbers of one request. A seed gives the same ones again.

    Target and draft must not share them (use tells them apart): the rule above holds only if the coin that decides on
    a drafted token is independent of the draw that chose it.
    """

    def __init__(self, seed: int | None, use: str) -> None:
        self._key = f"{use} {secrets.randbits(64) if seed is None else seed}"

    def at(self, position: int) -> tuple[float, float]:
        """Two independent numbers in [0, 1) that belong to a position of the text: for a draw, and for a coin."""
        digest = hashlib.blake2b(f"{self._key} {position}".encode(), digest_size=16).digest()
        draw, coin = (int.from_bytes(half) >> 11 for half in (digest[:8], digest[8:]))
        return draw * 2.0**-53, coin * 2.0**-53


def penalized(
    logits: torch.Tensor, sampling: Sampling, prefix: Sequence[int], continuation: Sequence[int] = ()
) -> torch.Tensor:
    """The logits [n, vocab] in float32, those of tokens that occurred before divided by the penalty.

    Row i follows prefix and the first i tokens of continuation. As in transformers the prompt counts, how often a token
    occurred doesn't, and a negative logit is multiplied instead (after Keskar et al. 2019, section 4.1).
    """
    logits = logits.float()
    if sampling.repetition_penalty == 1:
        return logits
    n_vocab = logits.shape[-1]
    result = logits.clone()
    seen = torch.tensor([token for token in set(prefix) if token < n_vocab], device=logits.device)
    result[:, seen] = _made_less_likely(logits[:, seen], sampling.repetition_penalty)
    for i, token in enumerate(continuation, start=1):
        if token < n_vocab:
            result[i:, token] = _made_less_likely(logits[i:, token], sampling.repetition_penalty)
    return result


def _made_less_likely(logits: torch.Tensor, penalty: float) -> torch.Tensor:
    return torch.where(logits < 0, logits * penalty, logits / penalty)


def distribution(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The adjusted p [n, vocab] of logits [n, vocab]: temperature, then top-k, then top-p, then renormalised.

    top-p keeps the smallest set of likeliest tokens whose mass reaches top_p (Holtzman et al. 2020); at least one.
    """
    # Relative to the maximum, and not colder than that: a temperature near 0 must not overflow.
    scaled = logits.float()
    scaled = (scaled - scaled.amax(dim=-1, keepdim=True)) / max(sampling.temperature, 1e-6)
    if 0 < sampling.top_k < scaled.shape[-1]:
        kth = scaled.topk(sampling.top_k, dim=-1).values[..., -1:]
        scaled = scaled.masked_fill(scaled < kth, -torch.inf)
    p = scaled.softmax(dim=-1)
    if sampling.top_p < 1:
        ranked, order = _ranked(p, sampling.top_p)
        ranked = ranked.masked_fill(ranked.cumsum(dim=-1) - ranked >= sampling.top_p, 0.0)
        p = torch.zeros_like(p).scatter(-1, order, ranked)
        p = p / p.sum(dim=-1, keepdim=True)
    return p


def _ranked(p: torch.Tensor, mass: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest tokens of each row in order, p and ids, as many as hold that mass."""
    for n in N_RANKED:
        if n < p.shape[-1]:
            ranked, order = p.topk(n, dim=-1)
            if bool((ranked.sum(dim=-1) >= mass).all()):
                return ranked, order
    return p.sort(dim=-1, descending=True)


def draw(p: torch.Tensor, shares: Sequence[float]) -> list[int]:
    """One token from each row of p [n, vocab], given a random number in [0, 1) for each row.

    The ids share out [0, 1) in their order, each as much as its p: the token is the one on whose share the number
    falls. First among blocks of ids, then within one, so that few sums are needed and those in float64.
    """
    blocks = torch.nn.functional.pad(p, (0, -p.shape[-1] % BLOCK)).unflatten(-1, (-1, BLOCK))
    chosen = [_fallen_on(sums, share) for sums, share in zip(blocks.sum(dim=-1).tolist(), shares, strict=True)]
    rows: list[list[float]] = blocks[range(len(p)), [block for block, _ in chosen]].tolist()
    return [block * BLOCK + _fallen_on(row, share)[0] for row, (block, share) in zip(rows, chosen, strict=True)]


def _fallen_on(p: Sequence[float], share: float) -> tuple[int, float]:
    """The index in p on which this share of its sum falls, never one without mass, and how far into it."""
    ends = list(accumulate(p))
    at = share * ends[-1]
    index = bisect_right(ends, at)
    return index, min(BELOW_ONE, max(0.0, 1.0 - (ends[index] - at) / p[index]))


def verify_greedy(logits: torch.Tensor, draft: Draft) -> Verdict:
    """The draft as long as it is the first choice of each row of logits [gamma + 1, vocab], and the next choice."""
    choices: list[int] = logits.argmax(dim=-1).tolist()  # the one wait for the device
    n_accepted = 0
    while n_accepted < len(draft.token_ids) and choices[n_accepted] == draft.token_ids[n_accepted]:
        n_accepted += 1
    return Verdict(n_accepted, choices[n_accepted])


def verify_sampled(p: torch.Tensor, draft: Draft, noise: Noise, position: int) -> Verdict:
    """The rule above over p [gamma + 1, vocab]; position: where in the text the first drafted token would stand."""
    shares, coins = zip(*(noise.at(position + i) for i in range(len(p))), strict=True)
    drawn = draw(p, shares)
    ratios = _ratios(p, draft)
    for i, token in enumerate(draft.token_ids):
        if i not in ratios:
            if drawn[i] != token:
                return Verdict(i, drawn[i])
        elif coins[i] >= ratios[i]:
            q = draft.q[i]
            assert isinstance(q, torch.Tensor)
            q, rest = q.to(p.device), p[i].clone()
            n_common = min(len(rest), len(q))  # models of one family pad the same vocabulary differently
            rest[:n_common] = (rest[:n_common] - q[:n_common]).clamp_min(0.0)
            # Where p and q agree but for rounding nothing is left: then p itself is the answer.
            return Verdict(i, draw(rest[None], shares[i : i + 1])[0] if rest.sum() > 0 else drawn[i])
    return Verdict(len(draft.token_ids), drawn[-1])


def _ratios(p: torch.Tensor, draft: Draft) -> dict[int, float]:
    """p(x) / q(x) of the drafted tokens that are no copies, by their index; one wait for the device."""
    q = {i: q for i, q in enumerate(draft.q) if isinstance(q, torch.Tensor)}
    if not q:
        return {}
    token_ids = [draft.token_ids[i] for i in q]
    # A small LM may be on another device.
    q_x = torch.stack([row[token] for row, token in zip(q.values(), token_ids, strict=True)]).to(p.device)
    ratios: list[float] = (p[list(q), token_ids] / q_x).tolist()
    return dict(zip(q, ratios, strict=True))
