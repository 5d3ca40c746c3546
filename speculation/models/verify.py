"""Exact verification of a draft by the target, greedy or sampled. Knows token ids and logits, no tokenizer.

p is the target's distribution after temperature, top-k and top-p; q the draft's. A token x is kept with probability
min(1, p(x) / q(x)); at the first rejection the next token is drawn from norm(max(0, p - q)); when all are kept, a bonus
token from p (Leviathan et al. 2023, algorithm 1). A copied token has q = 1 on itself, so it is kept with probability
p(x) and replaced from p without x: that is a draw from p, compared with x afterwards.

The random numbers belong to positions of the text, not to passes: with a seed the output is the same however long the
copies are that come in between (their length follows measured times).
"""

import hashlib
import secrets
from collections.abc import Iterator, Sequence

import torch

from speculation.models.cached_lm import CachedLM
from speculation.types import Draft, Sampling, Verdict


class TorchTarget:
    """A Target over a CachedLM for one request."""

    def __init__(self, lm: CachedLM, sampling: Sampling) -> None:
        self._lm = lm
        self._sampling = sampling
        self._noise = Noise(sampling.seed, lm.device, "target")

    def prefill(self, prefix: Sequence[int]) -> Iterator[int]:
        """Feed all of prefix but its last token; yields the number of tokens held after each chunk."""
        return self._lm.prefill(prefix[:-1])

    def verify(self, prefix: Sequence[int], draft: Draft) -> Verdict:
        """One pass over the last token of prefix and the draft."""
        logits = self._lm.logits(prefix, draft.token_ids)  # [gamma + 1, vocab]
        if self._sampling.temperature == 0:
            return _verify_greedy(logits, draft)
        return _verify_sampled(distribution(logits, self._sampling), draft, self._noise, len(prefix))


class Noise:
    """The random numbers of one request. A seed gives the same ones again.

    Target and draft must not share them (use tells them apart): the rule above holds only if the coin that decides on
    a drafted token is independent of the draw that chose it.
    """

    def __init__(self, seed: int | None, device: torch.device, use: str) -> None:
        self._key = f"{use} {secrets.randbits(64) if seed is None else seed}"
        self._generator = torch.Generator(device)

    def at(self, position: int) -> torch.Generator:
        """A generator for one position of the text; valid until the next call."""
        digest = hashlib.blake2b(f"{self._key} {position}".encode(), digest_size=8).digest()
        return self._generator.manual_seed(int.from_bytes(digest) >> 1)


def distribution(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The adjusted p [n, vocab] of logits [n, vocab]: temperature, then top-k, then top-p, then renormalised.

    top-p keeps the smallest set of likeliest tokens whose mass reaches top_p (Holtzman et al. 2020); at least one.
    """
    # Relative to the maximum, and not colder than that: a temperature near 0 must not overflow.
    scaled = (logits.float() - logits.max(dim=-1, keepdim=True).values) / max(sampling.temperature, 1e-6)
    if 0 < sampling.top_k < scaled.shape[-1]:
        kth = scaled.topk(sampling.top_k, dim=-1).values[..., -1:]
        scaled = scaled.masked_fill(scaled < kth, -torch.inf)
    p = scaled.softmax(dim=-1)
    if sampling.top_p < 1:
        ranked, order = p.sort(dim=-1, descending=True)
        outside = ranked.cumsum(dim=-1) - ranked >= sampling.top_p
        p = p.masked_fill(outside.gather(-1, order.argsort(dim=-1)), 0.0)
        p = p / p.sum(dim=-1, keepdim=True)
    return p


def draw(p: torch.Tensor, generator: torch.Generator) -> int:
    """One token from p [vocab]."""
    return int(torch.multinomial(p, 1, generator=generator))


def _verify_greedy(logits: torch.Tensor, draft: Draft) -> Verdict:
    choices: list[int] = logits.argmax(dim=-1).tolist()  # the one wait for the device
    n_accepted = 0
    while n_accepted < len(draft.token_ids) and choices[n_accepted] == draft.token_ids[n_accepted]:
        n_accepted += 1
    return Verdict(n_accepted, choices[n_accepted])


def _verify_sampled(p: torch.Tensor, draft: Draft, noise: Noise, position: int) -> Verdict:
    for i, token in enumerate(draft.token_ids):
        generator = noise.at(position + i)
        q = draft.q[i] if draft.q else None
        if q is None:
            drawn = draw(p[i], generator)
            if drawn != token:
                return Verdict(i, drawn)
            continue
        assert isinstance(q, torch.Tensor)
        if float(torch.rand((), generator=generator, device=p.device)) * float(q[token]) < float(p[i, token]):
            continue
        rest = p[i].clone()
        n_common = min(len(rest), len(q))  # models of one family pad the same vocabulary differently
        rest[:n_common] = (rest[:n_common] - q[:n_common]).clamp_min(0.0)
        # Where p and q agree but for rounding nothing is left: then p itself is the answer.
        return Verdict(i, draw(rest if rest.sum() > 0 else p[i], generator))
    n_drafted = len(draft.token_ids)
    return Verdict(n_drafted, draw(p[-1], noise.at(position + n_drafted)))
