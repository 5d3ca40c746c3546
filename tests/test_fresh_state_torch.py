"""Every request starts from nothing: the text of one never appears in the drafts of another."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import tiny
import torch

from speculation.config import EngineConfig
from speculation.engine import Engine
from speculation.gamma import CostCurve
from speculation.models.verify import TorchTarget
from speculation.types import Draft, Verdict

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

CODE = "def add(a, b):\n    return a + b\n"


def test_nothing_of_one_request_is_ever_drafted_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = EngineConfig(model=tiny.save(tmp_path), small_lm="none", device="cpu", dtype="float32", database=None)
    engine = Engine.open(config)
    drafted: set[int] = set()
    verify = TorchTarget.verify

    def spy(self: TorchTarget, prefix: Sequence[int], draft: Draft) -> Verdict:
        drafted.update(draft.token_ids)
        return verify(self, prefix, draft)

    monkeypatch.setattr(TorchTarget, "verify", spy)
    free = CostCurve({1: 1.0, 64: 1.0})  # so that every proposal is drafted
    monkeypatch.setattr(free, "observe", lambda q, seconds: None)
    monkeypatch.setattr(engine, "_cost", free)

    def drafts_of(content: str, source: str) -> tuple[set[int], set[int]]:
        """What was drafted, and all that the request itself gave and wrote."""
        drafted.clear()
        messages = [{"role": "user", "content": content}]
        chunks = list(engine.generate(messages, source=source, max_new_tokens=40))
        written = {token for chunk in chunks for token in chunk.token_ids}
        return set(drafted), {*engine.encode(messages), *engine.encode_text(source), *written}

    for content in (CODE, "KEY = 'ZQXJ'"):
        theirs, known_to_them = drafts_of(content, "ZQXJ~^%$ZQXJ~^%$" * 3)
        ours, known_to_us = drafts_of(CODE, "for name in names:\n" * 3)
        assert theirs & (known_to_them - known_to_us)  # there was something to leak
        assert ours and ours <= known_to_us
    engine.close()
