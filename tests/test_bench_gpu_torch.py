"""`stet bench gpu` on the CPU with tiny models: a recording decides what is written, whatever the weights say."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from speculation.bench.gpu import AGREED, Bench
from speculation.bench.tasks import Task
from speculation.cli.bench import bench as command
from speculation.errors import ConfigError, ModelError
from speculation.models import packed, static
from speculation.models.cached_lm import CachedLM
from speculation.models.driven import DrivenLM, DrivenStaticLM, bytes_read, copy_bandwidth, load_for_times
from speculation.models.tokenizer import Tokenizer
from tests import tiny

pytestmark = pytest.mark.torch

CODE = "".join(f"def f{i}(a):\n    return a + {i}\n" for i in range(8))
TASK = Task("rename", "python", "call f3 three", CODE, CODE.replace("f3", "three"))
OURS = ["plain, fixed shapes", "copies, fixed shapes", "plain, growing caches", "copies, growing caches"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(tiny.save(tmp_path / "target", max_position_embeddings=2048))


@pytest.fixture(autouse=True)
def short_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "MIN_CAPACITY", 64)


def kit(folder: Path, *, small: bool = False) -> Bench:
    models = [load_for_times(f"random:{folder}", folder, "cpu", "float32") for _ in range(2)]
    return Bench(models[0], models[1] if small else None, Tokenizer(folder))


def test_every_way_to_decode_writes_the_recording(folder: Path) -> None:
    steps: list[str] = []
    report = kit(folder, small=True).run([TASK, TASK], limit=2, max_tokens=500, on_step=steps.append)
    methods = report["methods"]
    greedy = ["greedy", "prompt lookup", "prompt lookup n=3/32", "assisted"]
    assert list(methods) == [*greedy, *OURS, "three stages, fixed shapes"]
    assert {figures["wrong"] for figures in methods.values()} == {0}
    n_tokens = 2 * len(Tokenizer(folder).encode(TASK.after))
    assert n_tokens // 2 > AGREED, "the small LM is wrong at least once"
    assert methods["greedy"]["passes"] == n_tokens
    assert methods["plain, fixed shapes"]["tokens_per_pass"] == 1
    for shapes in ("fixed shapes", "growing caches"):
        assert methods[f"copies, {shapes}"]["passes"] < n_tokens / 2
    assert methods["assisted"]["small_lm_passes"] > 0
    assert all(name in report["pass_ms"] for name in ("fixed shapes", "growing caches", "small LM"))
    assert report["plain_to_roof"] > 0 and report["t64_to_t1"] > 0
    assert steps[-1].startswith("edit 2 of 2")


def test_without_a_small_lm_its_rows_are_left_out(folder: Path) -> None:
    report = kit(folder).run([TASK], limit=1, max_tokens=500)
    assert list(report["methods"]) == ["greedy", "prompt lookup", "prompt lookup n=3/32", *OURS]
    assert "small LM" not in report["pass_ms"]


def test_edits_that_are_all_too_long_are_said(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no task of at most 5 tokens"):
        kit(folder).run([TASK], limit=1, max_tokens=5)


def test_a_model_with_fewer_tokens_than_its_tokenizer_is_refused(folder: Path, tmp_path: Path) -> None:
    few = tmp_path / "config.json"
    few.write_text(json.dumps(json.loads((folder / "config.json").read_text()) | {"vocab_size": 20}))
    model = load_for_times(f"random:{tmp_path}", folder, "cpu", "float32")
    with pytest.raises(ConfigError, match="has 20 tokens, its tokenizer more"):
        Bench(model, None, Tokenizer(folder)).run([TASK], limit=1, max_tokens=500)


@pytest.mark.parametrize("kind", [DrivenLM, DrivenStaticLM])
def test_a_recording_is_the_first_choice_of_each_row(folder: Path, kind: type[DrivenLM]) -> None:
    model = load_for_times(f"random:{folder}", folder, "cpu", "float32")
    lm, free = kind(model, 1), CachedLM(model, 1)
    prompt, recording = [5, 6, 7], [9, 8, 7, 6]
    lm.drive(len(prompt), recording)
    logits = lm.logits([*prompt, 9], [8, 1])
    assert logits.argmax(dim=-1).tolist() == [8, 7, 6]
    own = free.logits([*prompt, 9], [8, 1]).clone()
    own[range(3), [8, 7, 6]] = logits[range(3), [8, 7, 6]]
    torch.testing.assert_close(logits, own)  # a real pass: all other logits are the model's
    assert lm.logits([*prompt, *recording], [1]).shape == own[:2].shape  # behind the end nothing is forced


def n_bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize("tied", [True, False])
def test_a_pass_reads_all_weights_but_the_embedding_table(tmp_path: Path, tied: bool) -> None:
    folder = tiny.save(tmp_path / "model", tie_word_embeddings=tied)
    model = load_for_times(folder, tmp_path, "cpu", "float32")
    weights = {weight.data_ptr(): weight for weight in model.parameters()}
    table = model.get_input_embeddings().weight
    if not tied:
        del weights[table.data_ptr()]
    assert bytes_read(CachedLM(model, 1)) == n_bytes(list(weights.values()))


@pytest.mark.skipif(not packed.is_supported(), reason="int8 weights need an x86 CPU")
def test_int8_weights_are_counted_as_they_are_read(tmp_path: Path) -> None:
    folder = tiny.save(tmp_path / "model", tie_word_embeddings=True)
    whole = load_for_times(folder, tmp_path, "cpu", "float32")
    linear = n_bytes([m.weight for m in whole.modules() if isinstance(m, torch.nn.Linear)])
    rest = n_bytes(list(whole.parameters())) - linear  # the table is tied: it counts as the last layer
    assert bytes_read(CachedLM(load_for_times(folder, tmp_path, "cpu", "int8"), 1)) == linear // 4 + rest


@pytest.mark.skipif(not packed.is_supported(), reason="packed weights need an x86 CPU")
def test_a_config_need_not_say_the_type_of_the_weights(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if "dtype" not in k}))
    assert bytes_read(CachedLM(load_for_times(f"random:{folder}", folder, "cpu", "float16"), 1)) > 0


def test_memory_is_copied_at_a_likely_speed() -> None:
    assert 1e8 < copy_bandwidth(torch.device("cpu")) < 1e13


@pytest.mark.parametrize("name", ["9B", "no/such/folder", ""])
def test_an_unknown_shape_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match=r"wanted one of 0.5B, 1.5B, 7B, 32B or a folder with a config.json"):
        load_for_times(f"random:{name}", tmp_path, "cpu", "auto")


def invoke(*args: object) -> Any:
    return CliRunner().invoke(command, ["gpu", *map(str, args)], catch_exceptions=False)


def test_from_the_command_line(folder: Path, tmp_path: Path) -> None:
    files = tmp_path / "edits.jsonl"
    fields = {"language": "python", "instruction": "x", "before": TASK.before, "after": TASK.after}
    files.write_text(json.dumps(fields))
    options = [files, "--model", f"random:{folder}", "--tokenizer", folder, "--device", "cpu", "--dtype", "float32"]
    told = invoke(*options, "--max-tokens", 500, "--json")
    assert told.exit_code == 0, told.output
    report = json.loads(told.stdout)
    assert (report["tasks"], report["dtype"], report["small_lm"], report["peak_bytes"]) == (1, "float32", None, None)
    shown = invoke(*options, "--max-tokens", 500).stdout
    assert "roof" in shown and "copies, fixed shapes" in shown
