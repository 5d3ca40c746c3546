"""A prefix that was warmed before the request is warm for every model that the request will ask."""

from pathlib import Path

import pytest
import tiny
from tiny_engine import Steady

from speculation.config import EngineConfig
from speculation.engine import Engine

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("small_s", "can_pay"), [(0.1, True), (0.6, False)])
def test_prefill_reads_the_prompt_into_every_model_that_can_pay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_s: float, can_pay: bool
) -> None:
    target, small = tiny.save(tmp_path / "target", seed=0), tiny.save(tmp_path / "small", seed=1)
    engine = Engine.open(EngineConfig(model=target, small_lm=small, device="cpu", dtype="float32", database=None))
    monkeypatch.setattr(engine, "_cost", Steady({1: 1.0}))
    monkeypatch.setattr(engine, "_small_cost", Steady({1: small_s}))
    messages = [{"role": "user", "content": "def add(a, b):\n    return a + b\n" * 3}]
    *_, last = engine.prefill(messages)
    prompt = engine.encode(messages)
    assert last.n_prefilled == len(prompt)
    assert engine.small is not None
    assert engine.target.n_held(prompt) == len(prompt) - 1
    assert engine.small.n_held(prompt) == (len(prompt) - 1 if can_pay else 0)
    engine.close()
