"""Real models on real edits: transformers' greedy, prompt lookup and assisted decoding beside Stet, in one process.

Stet runs twice where there is a small LM: with it, and with copies only.

Per task the methods run one after another on the same prompt and weights, so that a slower minute of the machine hits
all of them. Three times are told apart: decoding alone; from Enter with a cold prefix (everything is prefilled first);
from Enter with a warm one (`prepare` has put all but the instruction into the KV cache: Stet's alone).
"""

import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from speculation.bench.tasks import Task, spread
from speculation.engine import Engine
from speculation.errors import ConfigError
from speculation.models.baselines import BASELINES, Baselines, margin
from speculation.types import SourceStats, Stats

STET = "stet"
COPIES = "stet, copies only"


@dataclass
class Record:
    """One method on one task. Seconds."""

    token_ids: tuple[int, ...]
    decode_s: float
    cold_s: float
    warm_s: float | None
    n_passes: int
    n_small_passes: int
    sources: Mapping[str, SourceStats] = field(default_factory=dict)


def run(
    engine: Engine,
    tasks: Sequence[Task],
    *,
    limit: int,
    max_tokens: int,
    skip: Collection[str] = (),
    on_task: Callable[[int, int, Mapping[str, Record]], None] = lambda i, n, records: None,
) -> dict[str, Any]:
    """Run every method but those to skip on at most limit tasks, spread evenly over those of at most max_tokens tokens.

    Raises ConfigError when there is no such task.
    """
    tasks = spread([t for t in tasks if _n_tokens(engine, t) <= max_tokens], limit)
    if not tasks:
        raise ConfigError(f"there is no task of at most {max_tokens} tokens")
    baselines = Baselines(engine.target, engine.small)
    ours = {COPIES: False, STET: True} if engine.small else {STET: True}
    methods = [name for name in (*baselines.names, *ours) if name not in skip]
    rows: list[dict[str, Record]] = []
    differences: list[dict[str, Any]] = []
    for i, task in enumerate(tasks, start=1):
        prompt = engine.encode(task.messages(task.instruction))
        n_max = len(engine.encode_text(task.source)) * 3 // 2 + 256
        records: dict[str, Record] = {}
        for name in methods:
            if name in ours:
                records[name] = _run_stet(engine, task, n_max, small_lm=ours[name])
                continue
            done = baselines.run(name, prompt, n_max)
            records[name] = Record(
                done.token_ids, done.decode_s, done.total_s, None, done.n_passes, done.n_small_passes
            )
        differences += _differences(engine, task, prompt, records)
        rows.append(records)
        on_task(i, len(tasks), records)
    return {
        "model": engine.info.model,
        "small_lm": engine.info.small_lm,
        "device": engine.info.device,
        "dtype": engine.info.dtype,
        "tasks": len(rows),
        "methods": {name: _summary(rows, name) for name in methods},
        "by_file_type": _by_file_type(tasks, rows),
        "alpha": _alpha([row[STET] for row in rows]) if STET in methods else {},
        "differences": differences,
    }


def check_skip(names: Collection[str]) -> None:
    """Raise ConfigError for a method that doesn't exist, and for greedy, which always runs."""
    known = [*BASELINES, COPIES, STET]
    known.remove("greedy")
    if unknown := set(names) - set(known):
        raise ConfigError(f"can't skip {', '.join(sorted(unknown))}; there are {'; '.join(known)}")


def _run_stet(engine: Engine, task: Task, n_max: int, *, small_lm: bool) -> Record:
    for lm in (engine.target, engine.small):
        if lm:
            lm.forget()
    started = time.perf_counter()
    for _ in engine.prefill(task.messages(""), small_lm=small_lm):
        pass
    prepared_s = time.perf_counter() - started
    token_ids: list[int] = []
    stats = Stats()
    messages = task.messages(task.instruction)
    for chunk in engine.generate(
        messages, source=task.source, file_type=task.language, max_new_tokens=n_max, small_lm=small_lm
    ):
        token_ids += chunk.token_ids
        stats = chunk.stats or stats
    warm_s = stats.prefill_s + stats.decode_s
    return Record(
        tuple(token_ids),
        stats.decode_s,
        prepared_s + warm_s,
        warm_s,
        stats.n_passes,
        stats.n_small_passes,
        stats.sources,
    )


def _differences(engine: Engine, task: Task, prompt: list[int], records: Mapping[str, Record]) -> list[dict[str, Any]]:
    """Where a method's tokens first differ from greedy's, and by what margin the model preferred greedy's token."""
    greedy = records["greedy"].token_ids
    found = []
    for name, record in records.items():
        if record.token_ids == greedy:
            continue
        pairs = enumerate(zip(greedy, record.token_ids, strict=False))
        at = next((i for i, (ours, theirs) in pairs if ours != theirs), None)
        difference: dict[str, Any] = {"task": task.id, "method": name, "at": at, "margin": None}
        if at is not None:
            gap = margin(engine.target, prompt, greedy[:at], greedy[at], record.token_ids[at])
            difference["margin"] = round(gap, 4)
        found.append(difference)
    return found


def _summary(rows: Sequence[Mapping[str, Record]], name: str) -> dict[str, Any]:
    """Medians over tasks; ratios are taken task by task, so that the machine's mood cancels."""

    def median(of: Callable[[Mapping[str, Record]], float]) -> float:
        return round(statistics.median(of(row) for row in rows), 3)

    def speed(record: Record, seconds: float) -> float:
        return len(record.token_ids) / seconds

    summary = {
        "decode_tokens_per_s": median(lambda row: speed(row[name], row[name].decode_s)),
        "cold_tokens_per_s": median(lambda row: speed(row[name], row[name].cold_s)),
        **{f"decode_ratio_to_{other}": median(partial(_ratio, name=name, other=other)) for other in rows[0]},
        "cold_ratio_to_greedy": median(
            lambda row: speed(row[name], row[name].cold_s) / speed(row["greedy"], row["greedy"].cold_s)
        ),
        "tokens_per_pass": round(
            sum(len(row[name].token_ids) for row in rows) / sum(row[name].n_passes for row in rows), 3
        ),
        "passes": sum(row[name].n_passes for row in rows),
        "small_lm_passes": sum(row[name].n_small_passes for row in rows),
        "identical": sum(row[name].token_ids == row["greedy"].token_ids for row in rows),
    }
    if all(row[name].warm_s for row in rows):
        summary["warm_tokens_per_s"] = median(lambda row: speed(row[name], row[name].warm_s or 0.0))
    return summary


def _by_file_type(tasks: Sequence[Task], rows: Sequence[Mapping[str, Record]]) -> dict[str, dict[str, float]]:
    """Decoding tokens/s by file type and method: all tokens of a file type by all seconds."""
    speeds: dict[str, dict[str, float]] = {}
    for language in sorted({task.language for task in tasks}):
        own = [row for task, row in zip(tasks, rows, strict=True) if task.language == language]
        speeds[language] = {
            name: round(sum(len(row[name].token_ids) for row in own) / sum(row[name].decode_s for row in own), 2)
            for name in own[0]
        }
    return speeds


def _ratio(row: Mapping[str, Record], *, name: str, other: str) -> float:
    """How much faster one method decodes a task than another."""
    return _per_token(row[other]) / _per_token(row[name])


def _per_token(record: Record) -> float:
    return record.decode_s / len(record.token_ids)


def _alpha(records: Sequence[Record]) -> dict[str, float]:
    """Accepted / tested by draft source."""
    accepted: dict[str, int] = {}
    tested: dict[str, int] = {}
    for record in records:
        for source, stats in record.sources.items():
            accepted[source] = accepted.get(source, 0) + stats.n_accepted
            tested[source] = tested.get(source, 0) + stats.n_tested
    return {source: round(accepted[source] / tested[source], 4) for source in sorted(tested) if tested[source]}


def _n_tokens(engine: Engine, task: Task) -> int:
    return max(len(engine.encode_text(task.before)), len(engine.encode_text(task.after)))
