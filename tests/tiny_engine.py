"""An engine on tiny random models: how the tests open it and ask it, and what each of its answers must hold to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tiny

from speculation.config import EngineConfig
from speculation.engine import Engine
from speculation.gamma import CostCurve
from speculation.types import Chunk, Stats

CODE = "def add(a, b):\n    return a + b\n"
MESSAGES = [{"role": "user", "content": CODE}]


class Steady(CostCurve):
    """Pass times that no pass of a busy machine moves."""

    def observe(self, q: int, seconds: float) -> None:
        pass


def config(model: str, small_lm: str = "none", database: Path | None = None, **more: Any) -> EngineConfig:
    return EngineConfig(model=model, small_lm=small_lm, device="cpu", dtype="float32", database=database, **more)


def answer(engine: Engine, n: int = 20, messages: Any = MESSAGES, **options: Any) -> tuple[str, list[int], Chunk]:
    """Text, token ids and the last chunk; what every answer promises is checked on the way."""
    chunks = list(engine.generate(None if "prompt" in options else messages, max_new_tokens=n, **options))
    token_ids = [token for chunk in chunks for token in chunk.token_ids]
    last = chunks[-1]
    assert [chunk.finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert [chunk.stats for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    stats = last.stats
    assert stats is not None
    assert stats.n_tokens == len(token_ids) <= n
    assert stats.n_copied == sum(chunk.n_copied for chunk in chunks)
    assert stats.n_passes == sum(bool(chunk.token_ids) for chunk in chunks)
    for source in stats.sources.values():
        assert 0 <= source.n_accepted <= source.n_tested <= source.n_drafted
    accepted = {name: source.n_accepted for name, source in stats.sources.items()}
    assert stats.n_copied == sum(n for name, n in accepted.items() if name != "lm")
    assert (
        stats.n_tokens <= stats.n_passes + sum(accepted.values()) <= stats.n_tokens + 1
    )  # a stop token may be drafted
    return "".join(chunk.text for chunk in chunks), token_ids, last


def stats_of(engine: Engine, **options: Any) -> Stats:
    stats = answer(engine, **options)[2].stats
    assert stats is not None
    return stats


def decoded(token_ids: Sequence[int]) -> str:
    text: str = tiny.tokenizer().decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text
