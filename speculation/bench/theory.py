"""The paper's check: tokens per pass and speed-up as two formulas predict them, beside those of a replay.

Leviathan et al. 2023 take one alpha for all drafted tokens and one T for all passes: (1 - alpha^(gamma + 1)) /
(1 - alpha) tokens a pass (equation 1), and that over gamma c + 1 as speed-up (theorem 3.8). The survival form takes
E = 1 + S_1 + ... + S_gamma and (T(gamma + 1) + c gamma) / T(1), with S from what was known before the pass.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Any

from speculation.acceptance import Store
from speculation.bench.replay import GAMMA_MAX, replayed
from speculation.bench.tasks import Task
from speculation.drafters.chain import DraftChain
from speculation.drafters.copiers import copiers
from speculation.drafters.shifted import Codec
from speculation.gamma import CostCurve
from speculation.survival import Acceptance
from speculation.types import Draft

ALL = "all"
EXPECTED_EDGES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Expected tokens of a pass at which a row of the calibration begins."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One target pass: what was expected of it and what came."""

    file_type: str
    source: str
    gamma: int
    n_tested: int
    n_accepted: int
    n_tokens: int
    n_expected: float
    """By the survival form, before the pass."""
    target_s: float
    draft_s: float


class Foreseen:
    """The drafts of a chain, and how many tokens the estimates expect of the last one."""

    def __init__(self, chain: DraftChain, acceptance: Acceptance) -> None:
        self._chain, self._acceptance = chain, acceptance
        self.n_expected = 1.0

    def propose(self, prefix: Sequence[int], n_max: int) -> Draft:
        """The chain's draft."""
        draft = self._chain.propose(prefix, n_max)
        alphas = self._acceptance.alphas(draft.source, draft.match_len, len(draft.token_ids))
        self.n_expected = 1.0 + sum(accumulate(alphas, mul))
        return draft

    def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
        """Let the chain learn."""
        self._chain.observe(draft, n_accepted, token_ids)


def replay_passes(
    tasks: Sequence[Task],
    tokenizer: Codec,
    cost: CostCurve,
    max_tokens: int,
    on_task: Callable[[int], None] = lambda n: None,
) -> list[Pass]:
    """Every pass of a replay as `stet bench replay` does it: store empty at the start, learning task by task."""

    def make_drafts(source: Sequence[int], prompt: Sequence[int], acceptance: Acceptance) -> Foreseen:
        chain = DraftChain(copiers(source, prompt, tokenizer), acceptance, cost.seconds, GAMMA_MAX)
        return Foreseen(chain, acceptance)

    passes: list[Pass] = []
    replays = replayed(tasks, tokenizer, make_drafts, Store(None), max_tokens)
    for n_done, (task, drafts, steps) in enumerate(replays, start=1):
        for step in steps:
            gamma = len(step.draft.token_ids)
            passes.append(
                Pass(
                    task.language,
                    step.draft.source,
                    gamma,
                    min(step.n_accepted + 1, gamma, len(step.token_ids)),
                    step.n_accepted,
                    len(step.token_ids),
                    drafts.n_expected,
                    cost.seconds(gamma + 1),
                    step.draft_s,
                )
            )
        on_task(n_done)
    return passes


def compare(passes: Sequence[Pass], plain_s: float) -> dict[str, Any]:
    """Measured and predicted figures per file type and draft source; then by what was expected. plain_s: T(1)."""
    file_types = sorted({p.file_type for p in passes}, key=lambda name: -sum(p.file_type == name for p in passes))
    rows = []
    for file_type in (ALL, *file_types):
        of_type = [p for p in passes if file_type in (ALL, p.file_type)]
        for source in (ALL, *sorted({p.source for p in of_type})):
            chosen = [p for p in of_type if source in (ALL, p.source)]
            rows.append({"file_type": file_type, "source": source, **_figures(chosen, plain_s)})
    return {"rows": rows, "calibration": _calibration([p for p in passes if p.gamma])}


def _figures(passes: Sequence[Pass], plain_s: float) -> dict[str, Any]:
    n = len(passes)
    n_tokens, n_drafted = sum(p.n_tokens for p in passes), sum(p.gamma for p in passes)
    alpha = _alpha(passes)
    # Seconds to draft one token, in passes.
    c = sum(p.draft_s for p in passes) / (n_drafted * plain_s) if n_drafted else 0.0
    iid = sum(iid_tokens(alpha, p.gamma) for p in passes)
    expected = sum(p.n_expected for p in passes)
    seconds = sum(p.target_s for p in passes)
    draft_s = c * n_drafted * plain_s
    figures = {
        "gamma": n_drafted / n,
        "alpha": alpha,
        "c": c,
        "tokens_per_pass": n_tokens / n,
        "tokens_per_pass_iid": iid / n,
        "tokens_per_pass_survival": expected / n,
        "speedup": n_tokens * plain_s / (seconds + draft_s),
        "speedup_iid": iid / sum(p.gamma * c + 1 for p in passes),
        "speedup_survival": expected * plain_s / (seconds + draft_s),
    }
    return {"passes": n, **{name: round(value, 4) for name, value in figures.items()}}


def _alpha(passes: Iterable[Pass]) -> float:
    tested, accepted = (sum(counts) for counts in zip(*((p.n_tested, p.n_accepted) for p in passes), strict=True))
    return accepted / tested if tested else 0.0


def iid_tokens(alpha: float, gamma: int) -> float:
    """Expected tokens of one pass over gamma draft tokens that are each accepted with probability alpha.

    Leviathan et al. 2023, equation 1.
    """
    return gamma + 1.0 if alpha == 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def _calibration(passes: Sequence[Pass]) -> list[dict[str, Any]]:
    """Passes with a draft by what the survival form expected of them: expected and measured means."""
    alphas = {source: _alpha(p for p in passes if p.source == source) for source in {p.source for p in passes}}
    rows = []
    for start, end in zip(EXPECTED_EDGES, (*EXPECTED_EDGES[1:], float("inf")), strict=True):
        there = [p for p in passes if start <= p.n_expected < end]
        if there:
            means = {
                "measured": sum(p.n_tokens for p in there) / len(there),
                "survival": sum(p.n_expected for p in there) / len(there),
                "iid": sum(iid_tokens(alphas[p.source], p.gamma) for p in there) / len(there),
            }
            rows.append({"from": start, "passes": len(there), **{k: round(v, 3) for k, v in means.items()}})
    return rows
