"""`stet bench run` on tiny random models in float32, where every method must write the same tokens."""

from pathlib import Path

import pytest

from speculation.bench.replay import load_cost
from speculation.bench.run import check_skip, run
from speculation.bench.tasks import Task
from speculation.config import EngineConfig
from speculation.engine import Engine
from speculation.errors import ConfigError
from tests import tiny

pytestmark = pytest.mark.torch

TASKS = [
    Task(f"t{i}", "python", "x", f"def f{i}():\n    return {i}\n", f"def g{i}():\n    return {i}\n") for i in range(5)
]
METHODS = ["greedy", "prompt lookup", "prompt lookup n=3/32", "assisted", "stet, copies only", "stet"]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    target = tiny.save(tmp_path / "target", max_position_embeddings=2048)
    small = tiny.save(tmp_path / "small", seed=1, max_position_embeddings=2048)
    return Engine.open(EngineConfig(model=target, small_lm=small, database=None))


def test_all_methods_are_run_and_write_the_same(engine: Engine) -> None:
    seen: list[int] = []
    report = run(engine, TASKS, limit=2, max_tokens=500, on_task=lambda i, n, records: seen.append(i))
    assert seen == [1, 2]
    assert report["tasks"] == 2
    assert list(report["methods"]) == METHODS
    for name, figures in report["methods"].items():
        assert figures["identical"] == 2, name
        assert figures["decode_tokens_per_s"] > 0 and figures["cold_tokens_per_s"] > 0
    assert report["differences"] == []
    greedy, assisted, stet = (report["methods"][name] for name in ("greedy", "assisted", "stet"))
    assert greedy["tokens_per_pass"] == greedy["decode_ratio_to_greedy"] == 1.0
    assert assisted["small_lm_passes"] > 0
    assert stet["warm_tokens_per_s"] > 0
    assert "warm_tokens_per_s" not in greedy


def test_methods_can_be_skipped_but_not_greedy(engine: Engine) -> None:
    report = run(engine, TASKS, limit=1, max_tokens=500, skip=["assisted", "prompt lookup"])
    assert list(report["methods"]) == ["greedy", "prompt lookup n=3/32", "stet, copies only", "stet"]
    assert set(report["by_file_type"]["python"]) == set(report["methods"])
    check_skip([*report["methods"], "assisted", "prompt lookup"][1:])
    for name in ("greedy", "no such method"):
        with pytest.raises(ConfigError, match=f"can't skip {name}; .*; stet"):
            check_skip([name])


def test_prices_of_another_machine_choose_the_drafts(engine: Engine) -> None:
    """Where a pass of the small LM is free it is asked; where it costs as much as one of the target it isn't."""
    flat = load_cost("flat")
    small_passes = []
    for c in (0.0, 1.0):
        engine.pretend(flat, c)
        report = run(engine, TASKS, limit=2, max_tokens=500, skip=["assisted"])
        assert report["methods"]["stet"]["identical"] == 2
        small_passes.append(report["methods"]["stet"]["small_lm_passes"])
    assert small_passes[0] > small_passes[1] == 0


def test_long_tasks_are_left_out(engine: Engine) -> None:
    long = Task("long", "python", "x", "x = 1\n" * 100, "x = 2\n" * 100)
    assert run(engine, [long, TASKS[0]], limit=5, max_tokens=100)["tasks"] == 1
