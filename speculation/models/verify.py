"""Exact verification of a draft by the target, greedy or sampled. Knows token ids and logits, no tokenizer.

p is the target's distribution after temperature, top-k and top-p; q the draft's. A token x is kept with probability
min(1, p(x) / q(x)); at the first rejection the next token is drawn from norm(max(0, p - q)); when all are kept, a bonus
token from p (Leviathan et al. 2023, algorithm 1). A copied token has q = 1 on itself, so it is kept with probability
p(x) and replaced from p without x.
"""

from collections.abc import Iterator, Sequence

import torch

from speculation.models.cached_lm import CachedLM
from speculation.types import Draft, Sampling, Verdict


class TorchTarget:
    """A Target over a CachedLM for one request."""

    def __init__(self, lm: CachedLM, sampling: Sampling) -> None:
        self._lm = lm
        self._sampling = sampling
        self._generator = seeded(sampling, lm.device)

    def prefill(self, prefix: Sequence[int]) -> Iterator[int]:
        """Feed all of prefix but its last token; yields the number of tokens held after each chunk."""
        return self._lm.prefill(prefix[:-1])

    def verify(self, prefix: Sequence[int], draft: Draft) -> Verdict:
        """One pass over the last token of prefix and the draft."""
        logits = self._lm.logits(prefix, draft.token_ids)  # [gamma + 1, vocab]
        if self._sampling.temperature == 0:
            return _verify_greedy(logits, draft)
        return _verify_sampled(distribution(logits, self._sampling), draft, self._generator)


def seeded(sampling: Sampling, device: torch.device) -> torch.Generator:
    """A generator of the request's own: two requests never share one, a seed gives the same draws again."""
    generator = torch.Generator(device)
    if sampling.seed is None:
        generator.seed()
    else:
        generator.manual_seed(sampling.seed % (1 << 63))
    return generator


def distribution(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The adjusted p [n, vocab] of logits [n, vocab]: temperature, then top-k, then top-p, then renormalised.

    top-p keeps the smallest set of likeliest tokens whose mass reaches top_p (Holtzman et al. 2020); at least one.
    """
    scaled = logits.float() / sampling.temperature
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


def _verify_sampled(p: torch.Tensor, draft: Draft, generator: torch.Generator) -> Verdict:
    for i, token in enumerate(draft.token_ids):
        q = draft.q[i] if draft.q else None
        assert q is None or isinstance(q, torch.Tensor)
        q_token = 1.0 if q is None else float(q[token])
        if float(torch.rand((), generator=generator, device=p.device)) * q_token < float(p[i, token]):
            continue
        rest = p[i].clone()
        if q is None:
            rest[token] = 0.0
        else:
            n_common = min(len(rest), len(q))  # models of one family pad the same vocabulary differently
            rest[:n_common] = (rest[:n_common] - q[:n_common]).clamp_min(0.0)
        # Where p and q agree but for rounding nothing is left: then p itself is the answer.
        return Verdict(i, draw(rest if rest.sum() > 0 else p[i], generator))
    return Verdict(len(draft.token_ids), draw(p[-1], generator))
