"""Weights in 8 and 4 bits by torch's own kernels: near the real ones, in less memory, and exact for what they are."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from tiny_engine import CODE, answer, decoded
from torch import nn
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM, T5Config, T5ForConditionalGeneration

from speculation.config import EngineConfig, models_dir
from speculation.engine import Engine
from speculation.errors import ConfigError, ModelError
from speculation.models import forms, loading, memory, packed
from speculation.models.cached_lm import CachedLM
from speculation.models.quantized import GROUP, Int4, Int8

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
N_VOCAB = 64
TEXT = [(i * i + 3 * i) % N_VOCAB for i in range(60)]
SHAPE = {"hidden_size": 128, "intermediate_size": 256}
"""Of a model that 4-bit kernels take."""


def linear(n_in: int = 128, n_out: int = 64, bias: bool = True) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(n_in, n_out, bias).requires_grad_(False)


def some(*shape: int) -> torch.Tensor:
    return torch.sin(torch.arange(float(torch.Size(shape).numel()))).view(shape)


def quantized_model(layer: Any, head: Any, **config: Any) -> Any:
    model = tiny.model(N_VOCAB, **SHAPE, **config).bfloat16()
    packed.pack(model, layer, head, CPU)
    return model


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 128), (1, 1, 128), (2, 5, 128), (1, 40, 128)])
@pytest.mark.parametrize(("form", "tolerance"), [(Int8, 0.02), (Int4, 0.15)])
def test_a_quantized_layer_computes_nearly_the_same(form: Any, tolerance: float, shape: Any, bias: bool) -> None:
    layer, x = linear(bias=bias), some(*shape)
    wanted, got = layer(x), form(layer.weight, layer.bias)(x)
    assert (got.shape, got.dtype) == (wanted.shape, x.dtype)
    assert float(((got - wanted).abs().amax(-1) / wanted.abs().amax(-1)).max()) < tolerance


@pytest.mark.parametrize("form", [Int8, Int4])
def test_weights_that_stand_on_the_grid_are_kept_exactly(form: Any) -> None:
    """Each row and each group of 32 with a range of its own, from -8 (-127) to 7 (127) steps."""
    layer = linear(bias=False)
    n_low, n_high = (-127, 127) if form is Int8 else (-8, 7)
    steps = torch.arange(64 * 128).view(64, 128) % (n_high - n_low + 1) + n_low
    steps[:, ::GROUP], steps[:, 1::GROUP] = n_low, n_high
    scales = 2.0 ** -(torch.arange(64) % 5)[:, None]
    if form is Int4:
        scales = scales * 2.0 ** -(torch.arange(128) // GROUP)
    layer.weight.copy_(steps * scales)
    x = some(3, 128) if form is Int4 else torch.eye(128)[:3] * 127  # activations that int8 keeps as well
    step = 2**-8 if form is Int4 else 1e-5  # of bfloat16
    torch.testing.assert_close(form(layer.weight, None)(x), layer(x), rtol=step, atol=8 * step)


@pytest.mark.parametrize("form", [Int8, Int4])
def test_a_row_of_zeros_and_a_token_of_zeros_stay_zero(form: Any) -> None:
    layer = linear(bias=False)
    layer.weight[5] = 0
    y = form(layer.weight, None)(torch.stack([torch.zeros(128), some(128)]))
    assert not y[0].any() and abs(float(y[1, 5])) < 1e-6 and y.isfinite().all()


def test_a_token_of_small_numbers_keeps_its_precision_beside_one_of_large_numbers() -> None:
    layer, x = linear(bias=False), some(2, 128) * torch.tensor([[1e-3], [1e3]])
    error = (Int8(layer.weight, None)(x) - layer(x)).abs().amax(-1) / layer(x).abs().amax(-1)
    assert float(error.max()) < 0.02


def test_int8_gives_a_token_the_same_whatever_its_neighbours_are() -> None:
    layer = linear(n_in=96, n_out=80)
    x = some(40, 96) * torch.logspace(-2, 2, 40)[:, None]
    module = Int8(layer.weight, layer.bias)
    together = module(x)
    assert all(torch.equal(module(x[i : i + 1]), together[i : i + 1]) for i in range(len(x)))


@pytest.mark.parametrize("n_tokens", [1, 16, 17, 32, 33, 100])
def test_int8_products_have_shapes_that_a_gpu_takes(monkeypatch: pytest.MonkeyPatch, n_tokens: int) -> None:
    """cuBLASLt: more than 16 rows, and outputs by the eight; a vocabulary may have any length."""
    shapes = []

    def spied(a: torch.Tensor, b: torch.Tensor, multiply: Callable[..., torch.Tensor] = torch._int_mm) -> torch.Tensor:
        shapes.append((*a.shape, *b.shape))
        return multiply(a, b)

    monkeypatch.setattr(torch, "_int_mm", spied)
    layer, x = linear(n_out=43), some(n_tokens, 128)
    module = Int8(layer.weight, layer.bias)
    here = module(x)
    module._is_cpu = False
    assert torch.equal(module(x), here)
    [_, (n_rows, _, _, n_out)] = shapes
    assert n_rows >= max(17, n_tokens) and n_rows % 8 == 0 and n_out == 48


def test_a_vocabulary_of_many_rows_is_rounded_piece_by_piece() -> None:
    layer = linear(n_in=8, n_out=20_001, bias=False)
    torch.testing.assert_close(Int8(layer.weight, None)(some(1, 8)), layer(some(1, 8)), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("form", [Int8, Int4])
def test_weights_that_are_no_numbers_are_refused(form: Any, bad: float) -> None:
    layer = linear()
    layer.weight[3, 4] = bad
    with pytest.raises(ModelError, match=rf"no finite numbers, so that it can't be had in {form.form}"):
        form(layer.weight, None)


@pytest.mark.parametrize(("n_in", "n_out"), [(96, 64), (128, 40)])
def test_shapes_that_no_kernel_takes_in_4_bits_are_refused(n_in: int, n_out: int) -> None:
    layer = linear(n_in, n_out)
    with pytest.raises(ModelError, match=rf"int4 .* by the 128 .* by the 32, not {n_in} to {n_out}; use another dtype"):
        Int4(layer.weight, layer.bias)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("form", [Int8, Int4])
def test_a_quantized_model_is_the_one_with_rounded_weights(form: Any, tied: bool) -> None:
    """Activations are rounded besides, so that the choices of a random model differ now and then."""
    plain = tiny.model(N_VOCAB, **SHAPE, tie_word_embeddings=tied).bfloat16().float()
    plain.lm_head.weight = nn.Parameter(plain.lm_head.weight.clone(), requires_grad=False)  # that of the table stays
    for module in plain.modules():
        if isinstance(module, nn.Linear):
            module.weight.copy_(form(module.weight, None)(torch.eye(module.in_features)).T)
    model = quantized_model(form, form, tie_word_embeddings=tied)
    with torch.inference_mode():
        wanted, got = (m(torch.tensor([TEXT])).logits[0] for m in (plain, model))
    assert float((wanted.argmax(-1) == got.argmax(-1)).float().mean()) >= 0.8
    assert (type(model.lm_head), CachedLM(model, 1 << 20).dtype) == (form, form.form)


@pytest.mark.parametrize(("layer", "head"), [(Int8, Int8), (Int4, Int8), (Int4, Int4)])
def test_quantized_weights_are_counted_as_they_are(layer: Any, head: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny.model(N_VOCAB, **SHAPE, dtype="bfloat16").config
    monkeypatch.setattr(memory, "packing", lambda form, device: forms.Packing(layer, head))
    model = quantized_model(layer, head)
    held = [m._weight.nbytes if isinstance(m, Int8) else m._packed.nbytes + m._grid.nbytes for m in layers(model)]
    estimate, rest = memory.weights_bytes(config, layer.form), 2 * N_VOCAB * 128
    assert sum(held) + rest == pytest.approx(estimate, rel=0.03)  # but for biases and norms


def layers(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, packed.Packed)]


@pytest.mark.parametrize(
    ("form", "device", "layer", "head", "dtype"),
    [
        ("int8", CUDA, Int8, Int8, torch.bfloat16),
        ("int4", CUDA, Int4, Int8, torch.bfloat16),
        ("int4", CPU, Int4, packed.PackedInt8 if packed.is_supported() else Int8, torch.float32),
    ],
)
def test_a_gpu_has_torchs_kernels_and_a_cpu_its_own_where_it_has_any(
    monkeypatch: pytest.MonkeyPatch, form: str, device: torch.device, layer: Any, head: Any, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert forms.packing(form, device) == (layer, head)
    assert forms.computed_in(form, device) == dtype


def test_an_older_gpu_computes_in_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert forms.computed_in("int8", CUDA) == torch.float16


@pytest.mark.parametrize("missing", [Int8, Int4])
def test_a_form_without_kernels_is_refused(monkeypatch: pytest.MonkeyPatch, missing: Any) -> None:
    def fails(*_: object) -> torch.Tensor:
        raise NotImplementedError("not implemented for this device")

    works = forms._works.__wrapped__
    kinds = [forms.Packing(form, Int8) for form in (Int8, Int4)]
    assert all(works(kind, torch.float32, CPU) for kind in kinds)
    monkeypatch.setattr(missing, "forward", fails)
    assert [works(kind, torch.float32, CPU) for kind in kinds] == [missing is Int4, False]
    monkeypatch.setattr(packed, "is_supported", lambda: False)
    for dtype in ("int8", "int4"):
        with pytest.raises(ConfigError, match=f"{dtype} needs kernels that torch doesn't have for cpu; leave dtype at"):
            forms.choose_dtype(dtype, CPU)


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_beside_a_quantized_target_the_small_lm_is_int8(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    monkeypatch.setattr(forms, "has_kernels", lambda form, device: True)
    assert forms.choose_small_dtype(dtype, CUDA) == "int8"
    assert forms.choose_small_dtype("auto", CUDA) == "bfloat16"
    monkeypatch.setattr(forms, "has_kernels", lambda form, device: form == "int4")
    assert forms.choose_small_dtype(dtype, CUDA) == "bfloat16"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tiny.save(tmp_path_factory.mktemp("target"), n_padding=-len(tiny.tokenizer()) % 32, **SHAPE))


@pytest.mark.parametrize("passes", ["dynamic", "static"])
def test_an_engine_with_4_bit_weights_writes_what_plain_decoding_writes(folder: Path, passes: Any) -> None:
    ref = str(folder)
    config = EngineConfig(model=ref, small_lm=ref, device="cpu", database=None, dtype="int4", passes=passes)
    with closing(Engine.open(config)) as engine:
        assert engine.info.dtype == "int4"
        _, plain, _ = answer(engine, 60, prompt=CODE, draft=False)
        _, drafted, last = answer(engine, 60, prompt=CODE, source=decoded(plain))
        assert drafted == plain
        assert last.stats is not None and last.stats.n_passes < 60


@pytest.mark.parametrize("kind", ["seq2seq", "mixture of experts"])
def test_a_model_whose_weights_stay_as_they_are_is_refused(tmp_path: Path, kind: str) -> None:
    model: Any
    if kind == "seq2seq":
        sizes = {"vocab_size": 64, "d_model": 128, "d_ff": 128, "d_kv": 32, "num_layers": 1, "num_heads": 4}
        model = T5ForConditionalGeneration(T5Config(**sizes))
    else:
        sizes = {"vocab_size": 64, "hidden_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "head_dim": 32}
        experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "num_key_value_heads": 2}
        model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes, **experts))
    model.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="can't be had in int4: most of its weights are in layers that have no such"):
        loading.load_model(tmp_path, "cpu", "int4")
    loading.load_model(tmp_path, "cpu", "auto")


def test_a_gpus_weights_are_packed_before_they_are_brought_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that has no room for the weights as they are: only one layer of them is ever there."""
    seen = []
    monkeypatch.setattr(packed, "pack", lambda model, *args: seen.append((model.device, model.dtype, *args)))
    monkeypatch.setattr(loading, "choose_device", lambda device: CUDA)
    monkeypatch.setattr(loading, "free_bytes", lambda device: 0)
    monkeypatch.setattr(forms, "has_kernels", lambda form, device: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    monkeypatch.setattr(packed, "is_mostly", lambda model: True)
    loading.load_model(folder, "cuda", "int4")
    assert seen == [(CPU, torch.bfloat16, Int4, Int8, CUDA)]


@pytest.mark.model
@pytest.mark.skipif(not packed.is_supported(), reason="int4 on a CPU needs an x86 one")
def test_the_real_model_makes_much_the_same_choices_in_4_bits() -> None:
    folder = loading.resolve("tiny", models_dir())
    text = (Path(__file__).parent.parent / "docs/demo/inventory.py").read_text()
    token_ids = torch.tensor([loading.load_tokenizer(folder).encode(text)])
    choices = []
    for dtype in ("float32", "int4"):
        with torch.inference_mode():
            logits = loading.load_model(folder, "cpu", dtype)(token_ids, use_cache=False).logits
        choices.append(logits[0].argmax(-1))
    assert float((choices[0] == choices[1]).float().mean()) > 0.8
