"""Replay: pretend that the target writes `after`, count its passes, weigh them with T(q). Needs a tokenizer, no model.

The loop, the drafters and the choice of gamma are the engine's own; only the target is a recording. What is known of
acceptance is learned online, task by task, from an empty store or from one that an earlier replay left.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Protocol, TypeVar

from speculation.bench.tasks import Task
from speculation.decoding import Drafts, decode
from speculation.drafters.chain import DraftChain, FixedDrafts, NoDrafts
from speculation.drafters.copiers import copiers
from speculation.drafters.lookup import PromptLookupDrafter
from speculation.drafters.shifted import Codec
from speculation.errors import ConfigError
from speculation.gamma import CostCurve
from speculation.survival import Acceptance
from speculation.types import Draft, Step, Verdict

COSTS = {
    # Qwen2.5-Coder-1.5B in bfloat16 on 2 cores with AVX512-BF16, seconds.
    "cpu": {1: 0.175, 2: 0.172, 4: 0.174, 8: 0.197, 16: 0.252, 32: 0.385, 64: 0.72},
    # A large GPU: every pass up to 128 positions costs one unit, beyond that it grows in proportion.
    "flat": {1: 1.0, 128: 1.0, 256: 2.0},
}
GAMMA_MAX = 256
DraftsT = TypeVar("DraftsT", bound=Drafts)
STOP = -1
"""A token that no tokenizer has: the end of the recording."""


class RecordedTarget:
    """A Target that always writes one recorded continuation."""

    def __init__(self, n_prompt: int, recording: Sequence[int]) -> None:
        self._n_prompt, self._recording = n_prompt, recording

    def prefill(self, prefix: Sequence[int]) -> Iterator[int]:
        """Nothing to feed."""
        yield len(prefix)

    def verify(self, prefix: Sequence[int], draft: Draft) -> Verdict:
        """Keep what the recording holds."""
        written = self._recording[len(prefix) - self._n_prompt :]
        n_accepted = 0
        while n_accepted < len(draft.token_ids) and written[n_accepted] == draft.token_ids[n_accepted]:
            n_accepted += 1
        return Verdict(n_accepted, written[n_accepted])


@dataclass
class Tally:
    """Counts over tasks. Seconds are modelled by T(q), except draft_s, which is measured."""

    tasks: int = 0
    tokens: int = 0
    passes: int = 0
    drafted: int = 0
    seconds: float = 0.0
    plain_seconds: float = 0.0
    draft_s: float = 0.0
    task_speedups: list[float] = field(default_factory=list)
    by_language: dict[str, "Tally"] = field(default_factory=dict)

    def add(self, task: "Tally") -> None:
        """Take in one task."""
        self.tasks += task.tasks
        self.tokens += task.tokens
        self.passes += task.passes
        self.drafted += task.drafted
        self.seconds += task.seconds
        self.plain_seconds += task.plain_seconds
        self.draft_s += task.draft_s
        self.task_speedups.append(task.plain_seconds / task.seconds)

    def report(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        figures: dict[str, Any] = {
            "tasks": self.tasks,
            "tokens": self.tokens,
            "passes": self.passes,
            "tokens_per_pass": round(self.tokens / max(1, self.passes), 3),
            "speedup": round(self.plain_seconds / self.seconds, 3) if self.seconds else 1.0,
            "slowest_tenth": round(quantile(self.task_speedups, 0.1), 3),
            "slowest": round(quantile(self.task_speedups, 0.0), 3),
            "drafted_per_token": round(self.drafted / max(1, self.tokens), 3),
            "draft_ms_per_pass": round(1000 * self.draft_s / max(1, self.passes), 3),
        }
        if self.by_language:
            figures["by_language"] = {name: tally.report() for name, tally in sorted(self.by_language.items())}
        return figures


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values, rounded down, falls below; 1 where there is none."""
    return sorted(values)[int(share * len(values))] if values else 1.0


class Learned(Protocol):
    """What replay needs of a Store."""

    def acceptance(self, target: str, file_type: str) -> Acceptance:
        """What is known before a task."""
        ...

    def save_acceptance(self, target: str, acceptance: Acceptance) -> None:
        """Take in what the task added."""
        ...


def replay(
    tasks: Sequence[Task],
    tokenizer: Codec,
    *,
    cost: CostCurve,
    learned: Learned,
    drafter: str = "stet",
    max_tokens: int = 2500,
    on_task: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Replay tasks whose before and after have at most max_tokens tokens. Raises ConfigError for an unknown drafter."""
    total = Tally()
    for task, _, steps in replayed(tasks, tokenizer, _drafter(drafter, cost, tokenizer), learned, max_tokens):
        one = Tally(tasks=1)
        for step in steps:
            one.tokens += len(step.token_ids)
            one.passes += 1
            one.drafted += len(step.draft.token_ids)
            one.seconds += cost.seconds(len(step.draft.token_ids) + 1)
            one.draft_s += step.draft_s
        one.plain_seconds = cost.seconds(1) * one.tokens
        for tally in (total, total.by_language.setdefault(task.language, Tally())):
            tally.add(one)
        on_task(total)
    return total


def replayed(
    tasks: Sequence[Task],
    tokenizer: Codec,
    make_drafts: Callable[[Sequence[int], Sequence[int], Acceptance], DraftsT],
    learned: Learned,
    max_tokens: int,
) -> Iterator[tuple[Task, DraftsT, Iterator[Step]]]:
    """Each task whose before and after have at most max_tokens tokens, its drafts, and its passes, to be pulled all.

    What a task taught is learned when the next one is asked for.
    """
    for task in tasks:
        source, recording = tokenizer.encode(task.before), [*tokenizer.encode(task.after), STOP]
        if max(len(source), len(recording) - 1) > max_tokens:
            continue
        prompt = tokenizer.encode(f"{task.before}\n{task.instruction}")
        acceptance = learned.acceptance("replay", task.language)
        drafts = make_drafts(source, prompt, acceptance)
        target = RecordedTarget(len(prompt), recording)
        # Room beyond the end: a drafter must not learn from its limit where the recording stops.
        n_room = len(recording) + GAMMA_MAX
        yield task, drafts, decode(target, drafts, prompt, max_new_tokens=n_room, stop_ids={STOP})
        learned.save_acceptance("replay", acceptance)


def load_cost(name: str) -> CostCurve:
    """A named cost model, or a JSON file of seconds by q. Raises ConfigError."""
    if name in COSTS:
        return CostCurve(COSTS[name])
    wanted = f'{", ".join(COSTS)} or a JSON file like {{"1": 0.17, "8": 0.2}} (seconds of a pass by its positions)'
    try:
        points = json.loads(Path(name).read_text("utf-8"))
        curve = {int(q): float(seconds) for q, seconds in dict(points).items()}
        if not all(q > 0 and 0 < seconds < inf for q, seconds in curve.items()):
            raise ValueError("positions and seconds must be above 0")
        return CostCurve(curve)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"cost must be {wanted}; {name}: {error}") from None


MakeDrafts = Callable[[Sequence[int], Sequence[int], Acceptance], Drafts]


def _drafter(name: str, cost: CostCurve, tokenizer: Codec) -> MakeDrafts:
    """By name: how to make the drafts of one task from (source, prompt, acceptance)."""
    match name.split(":"):
        case ["none"]:
            return lambda source, prompt, acceptance: NoDrafts()
        case ["stet"]:
            return lambda source, prompt, acceptance: DraftChain(
                copiers(source, prompt, tokenizer), acceptance, cost.seconds, GAMMA_MAX
            )
        case ["prompt-lookup", n, k] if n.isdecimal() and k.isdecimal() and int(n) > 0:
            return lambda source, prompt, acceptance: FixedDrafts(PromptLookupDrafter(prompt, int(n), int(k)))
    raise ConfigError(f"drafter must be none, stet or prompt-lookup:N:K (as in prompt-lookup:2:12), not {name!r}")


def by_file_type(report: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The rows of a report by language, the most tokens first."""
    return sorted(report["by_language"].items(), key=lambda row: -row[1]["tokens"])
