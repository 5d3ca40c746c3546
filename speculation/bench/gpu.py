"""What a card can do, without weights: memory bandwidth, T(q), plain decoding against the roof, recorded edits.

Every pass is a real one, only the choice of the token is a recording's (speculation.models.driven). So all times are
those of a model of this shape that writes these edits. Passes of fixed shape, on a GPU captured as graphs, stand beside
passes over growing caches, which launch each operation, and beside transformers' own ways to decode.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from speculation.bench.tasks import Task, spread
from speculation.decoding import Drafts, decode
from speculation.drafters.chain import DraftChain, NoDrafts
from speculation.drafters.copiers import copiers
from speculation.errors import ConfigError
from speculation.gamma import CostCurve
from speculation.models.baselines import Baselines
from speculation.models.cached_lm import wait_for
from speculation.models.driven import (
    DrivenLM,
    DrivenStaticLM,
    Recorded,
    bytes_read,
    copy_bandwidth,
    peak_bytes,
)
from speculation.models.loading import machine_name
from speculation.models.small_lm import TorchSmallLM
from speculation.models.tokenizer import Tokenizer
from speculation.models.verify import TorchTarget
from speculation.survival import Acceptance
from speculation.types import Sampling

N_PLAIN = 64
"""Tokens that plain decoding writes of each recording."""
ONE_CACHE = 1
"""A budget of bytes for KV caches that has room for no second one: the first, with its graphs, is used again."""
AGREED = 83
"""The small LM writes another token once in so many: the 0.5B's first choice was the 1.5B's 98.8 % of the time."""
RATIO_Q = 64
"""T(64) / T(1) says whether a long draft is free."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A task as token ids: what is read, what may be copied, what is written."""

    prompt: list[int]
    source: list[int]
    written: list[int]


@dataclass
class Row:
    """One way to decode, summed over the recordings. Seconds after prefill."""

    tokens: int = 0
    passes: int = 0
    small_lm_passes: int = 0
    seconds: float = 0.0
    between_s: float = 0.0
    """Of them not in target passes; 0 where nobody looked."""
    wrong: int = 0
    """Recordings that came out otherwise: none, unless something is broken."""

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds

    def figures(self, greedy: "Row") -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "tokens_per_s": round(self.speed, 2),
            "to_greedy": round(self.speed / greedy.speed, 3),
            "tokens_per_pass": round(self.tokens / self.passes, 2),
            "passes": self.passes,
            "small_lm_passes": self.small_lm_passes,
            "between_ms": round(1000 * self.between_s / self.passes, 3),
            "wrong": self.wrong,
        }


class Bench:
    """The models of one measurement."""

    def __init__(self, target: Any, small: Any, tokenizer: Tokenizer) -> None:
        """Target and small LM: transformers' models; there need be no small LM."""
        self._tokenizer = tokenizer
        self._fixed = DrivenStaticLM(target, ONE_CACHE)
        self._growing = DrivenLM(target, ONE_CACHE)
        self._small = DrivenStaticLM(small, ONE_CACHE) if small else None
        self._baselines = Baselines(self._growing, self._small)
        self._costs: dict[str, CostCurve] = {}

    def run(
        self,
        tasks: Sequence[Task],
        *,
        limit: int,
        max_tokens: int,
        on_step: Callable[[str], None] = lambda what: None,
    ) -> dict[str, Any]:
        """Everything, on at most limit tasks of at most max_tokens tokens. Raises ConfigError where there is none."""
        recordings = self._recordings(tasks, limit, max_tokens)
        self._check_vocabulary(recordings)
        device = self._fixed.device
        on_step("copying memory")
        bandwidth = copy_bandwidth(device)
        lms = {"fixed shapes": self._fixed, "growing caches": self._growing, "small LM": self._small}
        times: dict[str, dict[int, float]] = {}
        for name, lm in lms.items():
            if lm:
                on_step(f"timing passes, {name}")
                times[name] = lm.pass_seconds()
                self._costs[name] = CostCurve(times[name], lm.buckets)
        n_longest = max(len(recording.prompt) + len(recording.written) for recording in recordings)
        for lm in (self._fixed, self._small):
            if lm:
                lm.warm_up(n_longest)
        rows: dict[str, Row] = {}
        for i, recording in enumerate(recordings, start=1):
            on_step(f"edit {i} of {len(recordings)}, {len(recording.written)} tokens")
            self._run(recording, rows)
        fixed, n_bytes = times["fixed shapes"], bytes_read(self._fixed)
        roof = bandwidth / n_bytes
        return {
            "device": machine_name(device),
            "dtype": self._fixed.dtype,
            "tasks": len(recordings),
            "bandwidth_gb_s": round(bandwidth / 1e9, 1),
            "gb_read_a_pass": round(n_bytes / 1e9, 3),
            "roof_tokens_per_s": round(roof, 1),
            "plain_to_roof": round(rows["plain, fixed shapes"].speed / roof, 3),
            f"t{RATIO_Q}_to_t1": round(self._costs["fixed shapes"].seconds(RATIO_Q) / fixed[1], 3),
            "fixed_to_growing": {
                name: round(rows[f"{name}, fixed shapes"].speed / rows[f"{name}, growing caches"].speed, 3)
                for name in ("plain", "copies")
            },
            "pass_ms": {name: {q: round(1000 * t, 3) for q, t in curve.items()} for name, curve in times.items()},
            "methods": {name: row.figures(rows["greedy"]) for name, row in rows.items()},
            "peak_bytes": peak_bytes(device),
        }

    def _check_vocabulary(self, recordings: Sequence[Recording]) -> None:
        """Raise ConfigError where a model has no row for a token, or for the next, which the small LM writes."""
        n_needed = 2 + max(max(recording.prompt + recording.written) for recording in recordings)
        n_vocab = min(lm.n_vocab for lm in (self._fixed, self._small) if lm)
        if n_needed > n_vocab:
            raise ConfigError(f"a model has {n_vocab} tokens, its tokenizer more; name the model's own by --tokenizer")

    def _recordings(self, tasks: Sequence[Task], limit: int, max_tokens: int) -> list[Recording]:
        encode = self._tokenizer.encode
        short = [
            Recording(encode(f"{task.before}\n{task.instruction}\n"), source, written)
            for task in tasks
            if max(len(source := encode(task.before)), len(written := encode(task.after))) <= max_tokens and written
        ]
        if not short:
            raise ConfigError(f"there is no task of at most {max_tokens} tokens")
        return spread(short, limit)

    def _run(self, recording: Recording, rows: dict[str, Row]) -> None:
        """Each way to decode, one after another."""
        n_prompt, written = len(recording.prompt), recording.written
        for lm in (self._fixed, self._growing):
            lm.drive(n_prompt, written)
        if self._small:
            self._small.drive(n_prompt, [token + (i % AGREED == AGREED - 1) for i, token in enumerate(written)])
        for name in self._baselines.names:
            run = self._baselines.run(name, recording.prompt, len(written), Recorded(n_prompt, written))
            row = rows.setdefault(name, Row())
            row.tokens += len(run.token_ids)
            row.passes += run.n_passes
            row.small_lm_passes += run.n_small_passes
            row.seconds += run.decode_s
            row.wrong += list(run.token_ids) != written
        plain = Recording(recording.prompt, [], written[:N_PLAIN])
        for lm, shapes in ((self._fixed, "fixed shapes"), (self._growing, "growing caches")):
            self._decode(lm, NoDrafts(), plain, rows.setdefault(f"plain, {shapes}", Row()))
            self._decode(lm, self._drafts(recording, shapes), recording, rows.setdefault(f"copies, {shapes}", Row()))
        if self._small:
            small = TorchSmallLM(self._small, Sampling(), self._costs["small LM"], self._fixed.n_vocab)
            for _ in small.prefill(recording.prompt):
                pass
            row = rows.setdefault("three stages, fixed shapes", Row())
            self._decode(self._fixed, self._drafts(recording, "fixed shapes", small), recording, row)
            row.small_lm_passes += small.n_passes

    def _drafts(self, recording: Recording, shapes: str, small: TorchSmallLM | None = None) -> Drafts:
        """As an engine that knows the prices and nothing of acceptance."""
        copying = copiers(recording.source, recording.prompt, self._tokenizer)
        gamma_max = self._fixed.buckets[-1] - 1
        return DraftChain(copying, Acceptance(""), self._costs[shapes].seconds, gamma_max, small)

    def _decode(self, lm: DrivenLM, drafts: Drafts, recording: Recording, row: Row) -> None:
        target = TorchTarget(lm, Sampling())
        written: list[int] = []
        for _ in target.prefill(recording.prompt):
            pass
        wait_for(lm.device)
        started = time.perf_counter()
        target_s = 0.0
        n_max = len(recording.written)
        for step in decode(target, drafts, recording.prompt, max_new_tokens=n_max, stop_ids=()):
            written += step.token_ids
            target_s += step.target_s
            row.passes += 1
        seconds = time.perf_counter() - started
        row.tokens += len(written)
        row.seconds += seconds
        row.between_s += seconds - target_s
        row.wrong += written != recording.written
