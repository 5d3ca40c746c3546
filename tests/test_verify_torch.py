"""`stet verify`: a speculative answer passes, a wrong token is found, and rounding is told from a mistake."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from click.testing import CliRunner

from lsp_server.cli import main
from speculation.config import EngineConfig
from speculation.models import rescore as module
from speculation.models.cached_lm import CachedLM
from speculation.models.rescore import NEAR_TIE_STEPS, Flip, rescore, step_at

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

CODE = "def add(a, b):\n    return a + b\n"
PROMPT = [1, 2, 3, 4, 5]


@pytest.fixture
def lm() -> CachedLM:
    return CachedLM(tiny.model(), 1 << 20)


def greedy(lm: CachedLM, n: int) -> list[int]:
    prefix = list(PROMPT)
    for _ in range(n):
        prefix.append(int(lm.logits(prefix, ())[0].argmax()))
    return prefix[len(PROMPT) :]


def test_the_targets_own_answer_has_no_flips_and_each_token_is_reported(lm: CachedLM) -> None:
    seen: list[int] = []
    assert rescore(lm, PROMPT, greedy(lm, 12), seen.append) == []
    assert seen == list(range(1, 13))


def test_each_token_is_scored_in_a_pass_of_its_own_from_a_fresh_cache(
    lm: CachedLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = greedy(lm, 6)
    fed: list[int] = []
    forward = lm._forward

    def count(slot: Any, token_ids: list[int], n_logits: int) -> torch.Tensor:
        fed.append(len(token_ids))
        return forward(slot, token_ids, n_logits)

    monkeypatch.setattr(lm, "_forward", count)
    rescore(lm, PROMPT, answer)
    assert fed == [len(PROMPT) - 1, *[1] * 6]


def test_a_wrong_token_is_found_where_it_stands_and_those_behind_it_are_judged_by_what_is_written(lm: CachedLM) -> None:
    answer = greedy(lm, 8)
    wrong = (answer[3] + 1) % 12
    prefix = [*PROMPT, *answer[:3]]
    logits = lm.logits(prefix, ())[0]
    behind = int(lm.logits([*prefix, wrong], ())[0].argmax())
    [flip] = rescore(lm, PROMPT, [*answer[:3], wrong, behind])
    assert (flip.position, flip.token, flip.choice) == (3, wrong, answer[3])
    assert flip.margin == pytest.approx(float(logits[answer[3]] - logits[wrong]))
    assert not flip.is_near_tie


class Fixed:
    """A CachedLM that always gives these logits."""

    def __init__(self, logits: Sequence[float], dtype: torch.dtype, form: str = "") -> None:
        self._logits = torch.tensor([logits], dtype=dtype)
        self.dtype = form

    def forget(self) -> None: ...

    def reading(self, prompt: Sequence[int]) -> Any:
        return self

    def begin(self, prompt: Sequence[int]) -> list[int]:
        return list(prompt)

    def prefill(self, prefix: Sequence[int]) -> Iterator[int]:
        yield len(prefix)

    def logits(self, prefix: Sequence[int], continuation: Sequence[int]) -> torch.Tensor:
        return self._logits


@pytest.mark.parametrize(
    ("logits", "dtype", "is_near_tie"),
    [
        ([20.0, 19.875], torch.bfloat16, True),  # one step of 0.125
        ([20.0, 20 - 0.125 * NEAR_TIE_STEPS[torch.bfloat16]], torch.bfloat16, True),
        ([20.0, 20 - 0.125 * (NEAR_TIE_STEPS[torch.bfloat16] + 1)], torch.bfloat16, False),
        ([20.0, 19.875], torch.float32, False),  # the same margin is a mistake where numbers are this fine
        ([20.0, 20 - 1e-4], torch.float32, True),
        ([20.0, 20 - 2e-4], torch.float32, False),
        ([-20.0, -20.125], torch.bfloat16, True),
    ],
)
def test_a_near_tie_is_a_margin_of_few_steps_of_the_dtype(
    logits: list[float], dtype: torch.dtype, is_near_tie: bool
) -> None:
    lm: Any = Fixed(logits, dtype)
    [flip] = rescore(lm, PROMPT, [1])
    assert flip.is_near_tie == is_near_tie


@pytest.mark.parametrize(("margin", "is_near_tie"), [(0.9, True), (1.1, False)])
def test_near_ties_of_int8_are_twice_as_wide_as_those_of_bfloat16(margin: float, is_near_tie: bool) -> None:
    lm: Any = Fixed([20.0, 20 - margin], torch.float32, "int8")
    assert rescore(lm, PROMPT, [1])[0].is_near_tie == is_near_tie


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("value", [0.75, 1.0, 3.0, 16.0, 31.0, -20.0])
def test_a_step_is_the_distance_to_the_next_number(dtype: torch.dtype, value: float) -> None:
    here = torch.tensor(abs(value), dtype=dtype)
    beyond = torch.nextafter(here, torch.tensor(torch.inf, dtype=dtype))
    assert step_at(value, dtype) == float(beyond) - float(here)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_text(CODE)
    return path


def verify(file: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    model = tiny.save(file.parent / "model", max_position_embeddings=2048)
    # The user's own database stays as it is.
    monkeypatch.setattr("lsp_server.verify.EngineConfig", lambda **options: EngineConfig(database=None, **options))
    return CliRunner().invoke(main, ["verify", str(file), "x", "--model", model, "--dtype", "float32", *arguments])


def test_a_rewrite_in_float32_is_exact(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = verify(file, monkeypatch, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["is_exact"], report["flips"], report["dtype"]) == (True, [], "float32")
    assert report["tokens"] >= report["passes"] > 0
    assert file.read_text() == CODE


def test_a_mistake_ends_with_status_1_and_is_shown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flips = [Flip(2, 40, 41, 0.125, 0.125, 4), Flip(5, 42, 43, 3.0, 0.125, 4)]
    monkeypatch.setattr(module, "rescore", lambda *_: flips[:1])
    tie = verify(file, monkeypatch)
    monkeypatch.setattr(module, "rescore", lambda *_: flips)
    mistake = verify(file, monkeypatch)
    assert (tie.exit_code, mistake.exit_code) == (0, 1)
    assert "1 near-ties, 0 wrong" in tie.stdout
    assert "1 near-ties, 1 wrong" in mistake.stdout
    rows = [line.split() for line in mistake.stdout.splitlines()]
    assert [row[-2] for row in rows if len(row) > 3 and row[-2] in ("yes", "NO")] == ["yes", "NO"]


def test_bad_input_is_one_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = verify(file, monkeypatch, "--lines", "7:9")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "--lines 7:9 is out of range" in result.stderr
