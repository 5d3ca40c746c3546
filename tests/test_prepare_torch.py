"""A prefix that was warmed before the request is warm for every model that the request will ask."""

from pathlib import Path

import pytest
import tiny

from speculation.config import EngineConfig
from speculation.engine import Engine

pytestmark = pytest.mark.torch


def test_prefill_reads_the_prompt_into_both_models(tmp_path: Path) -> None:
    target, small = tiny.save(tmp_path / "target", seed=0), tiny.save(tmp_path / "small", seed=1)
    engine = Engine.open(EngineConfig(model=target, small_lm=small, device="cpu", dtype="float32", database=None))
    messages = [{"role": "user", "content": "def add(a, b):\n    return a + b\n" * 3}]
    *_, last = engine.prefill(messages)
    prompt = engine.encode(messages)
    assert last.n_prefilled == len(prompt)
    assert engine.small is not None
    assert engine.target.n_held(prompt) == engine.small.n_held(prompt) == len(prompt) - 1
    engine.close()
