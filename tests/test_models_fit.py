"""Promises of `stet models fit`: estimates from shapes alone hold when weights are loaded, and so does the advice."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from speculation.cli import LAZY, LazyGroup
from speculation.config import PRESETS, models_dir
from speculation.models import store
from speculation.models.catalog import CATALOG, SHAPES

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")

import tiny  # noqa: E402 - these import torch, which these tests may lack

from speculation.models import fit, forms, loading, memory, packed  # noqa: E402
from speculation.models.cached_lm import CachedLM  # noqa: E402

CPU = torch.device("cpu")
GB = 1_000_000_000
STET = LazyGroup("stet", lazy=LAZY)


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """No models and no engine, save in tests of real ones."""
    if "model" not in request.keywords:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


WEIGHTS: dict[tuple[str, str], int] = {}


def counted_once(config: Any, form: str) -> int:
    """weights_bytes, which takes a second for all presets."""
    key = (config.to_json_string(), form)
    if key not in WEIGHTS:
        WEIGHTS[key] = memory.weights_bytes(config, form)
    return WEIGHTS[key]


def machine(monkeypatch: pytest.MonkeyPatch, free_gb: float, device: str = "cpu") -> None:
    monkeypatch.setattr(fit, "choose_device", lambda name: torch.device(device))
    monkeypatch.setattr(fit, "free_bytes", lambda place: int(free_gb * GB))
    monkeypatch.setattr(fit, "choose_dtype", lambda dtype, place: "bfloat16" if dtype == "auto" else dtype)
    monkeypatch.setattr(fit, "weights_bytes", counted_once)
    monkeypatch.setattr(fit, "choose_small_dtype", lambda dtype, place: "bfloat16")
    monkeypatch.setattr(fit, "has_kernels", lambda form, place: True)
    monkeypatch.setattr(fit, "computed_in", lambda form, place: forms.DTYPES.get(form, torch.bfloat16))


def fitted(*args: str) -> dict[str, Any]:
    result = CliRunner().invoke(STET, ["models", "fit", "--json", *args])
    assert result.exit_code == 0, result.output
    said: dict[str, Any] = json.loads(result.stdout)
    return said


def n_tensor_bytes(lm: CachedLM, n_context: int) -> tuple[int, int]:
    """Bytes of the weights that are loaded, and of the KV cache of so many tokens."""
    weights = sum(weight.nbytes for weight in lm.model.parameters())
    list(lm.prefill([i % 100 for i in range(n_context)]))
    layers = lm._slots[0].cache.layers
    return weights, sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)


@pytest.mark.parametrize(
    ("name", "n_weights"), [("Qwen2.5-Coder-7B", 7_615_616_512), ("Qwen2.5-Coder-32B", 32_763_876_352)]
)
def test_the_shapes_of_the_catalogue_have_as_many_weights_as_their_authors_say(name: str, n_weights: int) -> None:
    assert memory.weights_bytes(memory.config_of(SHAPES[f"Qwen/{name}-Instruct"]), "bfloat16") == 2 * n_weights


def test_every_model_of_a_preset_has_a_shape() -> None:
    wanted = {name for preset in PRESETS.values() for name in (preset.target, preset.small_lm) if name}
    assert wanted == set(SHAPES)


@pytest.mark.parametrize("config", [{}, {"tie_word_embeddings": True}, {"num_key_value_heads": 4}])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_estimate_is_what_a_tiny_model_takes_to_the_byte(dtype: str, config: dict[str, Any]) -> None:
    model = tiny.model(40, **config).to(forms.DTYPES[dtype])
    estimates = memory.weights_bytes(model.config, dtype), memory.kv_bytes(model.config, model.dtype, 30, 0)
    assert estimates == n_tensor_bytes(CachedLM(model, 1 << 20), 30)


KINDS = {"float16 packed": packed.PackedFloat16, "int8": packed.PackedInt8}


@pytest.mark.skipif(not packed.is_supported(), reason="this CPU has no kernels for packed weights")
@pytest.mark.parametrize(("form", "n_bytes_a_weight"), [("float16 packed", 2), ("int8", 1)])
def test_packed_weights_are_counted_as_they_are_packed(form: str, n_bytes_a_weight: int) -> None:
    model = tiny.model(40, tie_word_embeddings=True, dtype="bfloat16").bfloat16()
    linears = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    n_packed = sum(linear.weight.numel() for linear in linears)  # with the head, a copy of the embedding
    n_biases = sum(linear.bias.numel() for linear in linears if linear.bias is not None)
    n_embedded = model.model.embed_tokens.weight.numel()
    estimate = memory.weights_bytes(model.config, form)
    packed.pack(model, KINDS[form])
    n_norms = sum(weight.numel() for weight in model.parameters())
    assert estimate == n_bytes_a_weight * n_packed + 2 * n_embedded + 4 * (n_biases + n_norms)


def test_a_budget_is_filled_in_time_and_one_long_context_may_exceed_it() -> None:
    config = tiny.model().config
    short, long = (memory.kv_bytes(config, torch.float32, n, budget_bytes=100_000) for n in (10, 10_000))
    assert (short, long) == (100_000, 10_000 * CachedLM(tiny.model(), 0).kv_bytes_per_token)


@pytest.mark.parametrize(
    ("device", "free_gb", "recommended", "dtype"),
    [
        ("cpu", 1.0, None, None),
        ("cpu", 4.0, "tiny", "auto"),
        ("cpu", 5.2, "tiny", "auto"),
        ("cpu", 5.7, "small", "int8"),
        ("cpu", 8.0, "small", "auto"),
        ("cpu", 500.0, "small", "auto"),
        ("cuda", 1.0, None, None),
        ("cuda", 8.0, "small", "auto"),
        ("cuda", 10.0, "medium", "int4"),
        ("cuda", 14.0, "medium", "int8"),
        ("cuda", 24.0, "medium", "auto"),
        ("cuda", 60.0, "medium", "auto"),
        ("cuda", 80.0, "large", "auto"),
    ],
)
def test_the_largest_preset_that_fits_is_recommended_but_none_that_is_slow(
    monkeypatch: pytest.MonkeyPatch, device: str, free_gb: float, recommended: str | None, dtype: str | None
) -> None:
    """Up to the device's own preset rather in fewer bits than a smaller one, beyond it only as it is."""
    machine(monkeypatch, free_gb, device)
    said = fitted()
    assert said["recommended"] == recommended
    assert next((row["with_dtype"] for row in said["presets"] if row["preset"] == recommended), None) == dtype
    assert [row["preset"] for row in said["presets"]] == list(PRESETS)
    for row in said["presets"]:
        assert row["fits"] == (row["total_bytes"] <= row["free_bytes"] == free_gb * GB)
        assert row["why"].startswith("fits" if row["fits"] else "does not fit")
        assert row["total_bytes"] > row["weights_bytes"] + row["kv_bytes"]
    slow = [row["preset"] for row in said["presets"] if row["why"].endswith("slow without a GPU")]
    assert slow == (["medium", "large"] if (device, free_gb) == ("cpu", 500.0) else [])


def test_a_preset_that_fits_in_fewer_bits_says_in_which(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 10.0, "cuda")
    said = CliRunner().invoke(STET, ["models", "fit"]).output
    assert "* medium   fits with dtype int4: takes" in said and "Recommended on cuda: medium with dtype int4" in said
    asked = fitted("--dtype", "bfloat16")
    assert (asked["recommended"], asked["presets"][2]["why"][:12]) == ("small", "does not fit")


@pytest.mark.parametrize(
    ("total_gb", "dtype", "preset"),
    [(8, "auto", "small"), (16, "auto", "small"), (16, "int8", "medium"), (24, "auto", "medium")],
)
def test_auto_is_a_model_that_the_gpu_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total_gb: int, dtype: str, preset: str
) -> None:
    machine(monkeypatch, 1.0, "cuda")  # however little of it is free just now
    monkeypatch.setattr(fit, "total_bytes", lambda place: total_gb * GB)
    assert fit.auto_preset(torch.device("cuda"), dtype, tmp_path) == preset
    assert fit.auto_preset(CPU, dtype, tmp_path) == "small"


def test_precision_and_context_count(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 24.0, "cuda")
    half, full, long = (
        fitted("--dtype", *args)["presets"][2]
        for args in (("bfloat16",), ("float32",), ("bfloat16", "--context", "200000"))
    )
    assert (half["dtype"], full["dtype"], long["context"]) == ("bfloat16", "float32", 200_000)
    assert half["fits"] and not full["fits"]
    assert long["kv_bytes"] > 10 * half["kv_bytes"] and long["weights_bytes"] == half["weights_bytes"]


def test_it_says_what_is_there_and_what_a_download_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 8.0)
    tiny_id, small_id = PRESETS["tiny"].target, PRESETS["small"].target
    sizes = {row["preset"]: (row["fetched"], row["download_bytes"]) for row in fitted()["presets"]}
    both = CATALOG[tiny_id].n_bytes + CATALOG[small_id].n_bytes
    assert sizes["tiny"] == (False, CATALOG[tiny_id].n_bytes) and sizes["small"] == (False, both)
    assert 15.2 * GB < sizes["medium"][1] - CATALOG[tiny_id].n_bytes < 15.3 * GB
    built = store.staging_of(tiny_id, models_dir())
    tiny.save(built)
    store.finish(built, store.folder_of(tiny_id, models_dir()), {})
    there = fitted()["presets"]
    assert there[0]["fetched"] and there[0]["download_bytes"] == 0
    assert there[0]["weights_bytes"] < 1_000_000  # its own config counts, not the catalogue's
    assert there[1]["download_bytes"] == CATALOG[small_id].n_bytes


def test_what_the_running_engine_holds_counts_as_free(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 8.0)
    monkeypatch.setattr("speculation.serving.process.find", lambda: SimpleNamespace(pid=12345))
    monkeypatch.setattr(memory, "process_bytes", lambda pid: 3 * GB if pid == 12345 else 0)
    assert fitted()["presets"][0]["free_bytes"] == 11 * GB
    machine(monkeypatch, 8.0, "cuda")
    monkeypatch.setattr(forms, "choose_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr("speculation.serving.process.health", lambda endpoint: SimpleNamespace(gpu_bytes=12 * GB))
    assert fitted()["presets"][0]["free_bytes"] == 20 * GB  # RAM is no GPU memory
    assert fitted()["presets"][2]["with_dtype"] == "auto"


def test_packed_weights_have_the_memory_of_one_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 0.0, "cuda")
    for name in ("free_bytes", "total_bytes"):
        monkeypatch.setattr(fit, name, lambda place: (8 if place.index is not None else 16) * GB)
    said = fitted()
    assert (said["recommended"], said["presets"][2]["fits"], said["presets"][2]["with_dtype"]) == (
        "small",
        False,
        "auto",
    )
    assert fit.auto_preset(torch.device("cuda"), "int8", tmp_path) == "small"


def test_a_damaged_config_is_taken_for_the_catalogues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 8.0)
    whole = fitted()["presets"][0]["weights_bytes"]
    tiny_id = PRESETS["tiny"].target
    built = store.staging_of(tiny_id, models_dir())
    tiny.save(built)
    folder = store.folder_of(tiny_id, models_dir())
    store.finish(built, folder, {})
    (folder / "config.json").write_text("{")
    assert fitted()["presets"][0]["weights_bytes"] == whole


def test_a_table_for_people_marks_the_recommended_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 8.0)
    said = CliRunner().invoke(STET, ["models", "fit"]).output
    assert "* small    fits: takes" in said and "Recommended on cpu: small" in said
    machine(monkeypatch, 1.0)
    assert "Recommended on cpu: none; free some memory" in CliRunner().invoke(STET, ["models", "fit"]).output


@pytest.mark.parametrize("args", [["--device", "gpu"], ["--dtype", "int3"]])
def test_a_device_or_dtype_that_cannot_be_used_is_one_line(args: list[str]) -> None:
    result = CliRunner().invoke(STET, ["models", "fit", *args])
    assert result.exit_code == 1 and result.output.startswith("stet: error: ") and result.output.count("\n") == 1


def test_free_memory_and_that_of_a_process_are_plausible() -> None:
    assert 10_000_000 < memory.process_bytes(os.getpid()) < 1000 * GB
    assert 10_000_000 < memory.free_bytes(CPU) < 100_000 * GB
    assert memory.process_bytes(2**22 + 1) == 0


@pytest.mark.model
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_estimate_is_within_a_tenth_of_what_loading_the_real_model_takes(dtype: str) -> None:
    n_context = 512
    known = memory.config_of(SHAPES[PRESETS["tiny"].target])  # as if it were not there
    model = loading.load_model(loading.resolve("tiny", models_dir()), "cpu", dtype)
    weights, kv = n_tensor_bytes(CachedLM(model, 1 << 30), n_context)
    assert memory.weights_bytes(known, dtype) == pytest.approx(weights, rel=0.1)
    assert memory.kv_bytes(known, model.dtype, n_context, budget_bytes=0) == pytest.approx(kv, rel=0.1)
