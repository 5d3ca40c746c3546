"""Packed weights: float16 decodes like float32 with rounded weights, int8 nearly, and both in less memory."""

import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from tiny_engine import CODE, Steady, answer
from torch import nn

from speculation.config import EngineConfig, models_dir
from speculation.engine import Engine
from speculation.errors import ModelError
from speculation.models import loading, packed
from speculation.models.baselines import BASELINES, Baselines
from speculation.models.cached_lm import CachedLM

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not packed.is_supported(), reason="this CPU has no kernels for packed weights"),
]
torch.set_num_threads(1)

FORMS = (packed.PackedFloat16, packed.PackedInt8)
N_VOCAB = 64
TEXT = [(i * i + 3 * i) % N_VOCAB for i in range(60)]


def linear(n_in: int = 40, n_out: int = 24, bias: bool = True) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(n_in, n_out, bias).requires_grad_(False)


def packed_model(form: Any, **config: Any) -> Any:
    model = tiny.model(N_VOCAB, **config).bfloat16()
    packed.pack(model, form)
    return model


def check(form: Any, x: torch.Tensor, layer: nn.Linear, tolerance: float) -> None:
    """Each token's error is small beside that token's output."""
    wanted, got = layer(x), form(layer.weight, layer.bias)(x)
    assert got.shape == wanted.shape
    error = (got - wanted).abs().amax(-1) / wanted.abs().amax(-1)
    assert float(error.max()) < tolerance


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 40), (1, 1, 40), (2, 5, 40)])
@pytest.mark.parametrize(("form", "tolerance"), [(packed.PackedFloat16, 1e-3), (packed.PackedInt8, 0.03)])
def test_a_packed_layer_computes_nearly_the_same(form: Any, tolerance: float, shape: Any, bias: bool) -> None:
    check(form, torch.sin(torch.arange(float(torch.Size(shape).numel()))).view(shape), linear(bias=bias), tolerance)


def test_float16_rounds_the_weights_and_nothing_else() -> None:
    layer, x = linear(), torch.randn(3, 40)
    rounded = linear()
    rounded.weight.copy_(layer.weight.half().float())
    torch.testing.assert_close(packed.PackedFloat16(layer.weight, layer.bias)(x), rounded(x), rtol=1e-6, atol=1e-6)
    assert not torch.equal(rounded.weight, layer.weight)


@pytest.mark.parametrize(("n_out", "n_pieces"), [(24, 1), (12, 2), (10, 3), (6, 4), (5, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_pieces_compute_the_same_as_the_whole(
    n_out: int, n_pieces: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x = linear(bias=bias), torch.randn(7, 40)
    whole = packed.PackedFloat16(layer.weight, layer.bias)(x)
    monkeypatch.setattr(packed, "N_OUT", n_out)
    in_pieces = packed.PackedFloat16(layer.weight, layer.bias)
    assert len(in_pieces._pieces) == n_pieces
    torch.testing.assert_close(in_pieces(x), whole, rtol=1e-6, atol=1e-6)


def test_a_token_of_small_numbers_keeps_its_precision_beside_one_of_large_numbers() -> None:
    x = torch.sin(torch.arange(80.0)).view(2, 40) * torch.tensor([[1e-3], [1e3]])
    check(packed.PackedInt8, x, linear(bias=False), 0.03)


def test_a_token_of_zeros_gives_the_bias() -> None:
    layer = linear()
    assert torch.equal(packed.PackedInt8(layer.weight, layer.bias)(torch.zeros(2, 40)), layer.bias.expand(2, -1))


def test_int8_gives_a_token_the_same_whatever_its_neighbours_are() -> None:
    """With a range found anew in each pass an int8 target would write other words with drafts than without."""
    layer = linear(n_in=96, n_out=80)
    x = torch.sin(torch.arange(40.0 * 96)).view(40, 96).abs() * torch.logspace(-2, 2, 40)[:, None]
    x[7] *= -1
    module = packed.PackedInt8(layer.weight, layer.bias)
    together = module(x)
    assert all(torch.equal(module(x[i : i + 1]), together[i : i + 1]) for i in range(len(x)))


def test_the_largest_products_do_not_overflow() -> None:
    """With weights of 8 bits, CPUs without VNNI add such pairs in 16 bits and get a quarter less."""
    layer = linear(bias=False)
    layer.weight.fill_(1.0)
    check(packed.PackedInt8, torch.ones(1, 40), layer, 0.01)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("form", "agreement"), [(packed.PackedFloat16, 1.0), (packed.PackedInt8, 0.8)])
def test_a_packed_model_makes_the_same_choices(form: Any, agreement: float, tied: bool) -> None:
    plain = tiny.model(N_VOCAB, tie_word_embeddings=tied).bfloat16().float()
    model = packed_model(form, tie_word_embeddings=tied)
    with torch.inference_mode():
        wanted, got = (m(torch.tensor([TEXT])).logits[0] for m in (plain, model))
    assert got.dtype == torch.float32
    assert float((wanted.argmax(-1) == got.argmax(-1)).float().mean()) >= agreement
    assert type(model.lm_head) is form


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_weights_are_freed_as_soon_as_they_are_packed(form: Any, tied: bool) -> None:
    model = tiny.model(N_VOCAB, tie_word_embeddings=tied).bfloat16()
    weights = [weakref.ref(weight) for name, weight in model.named_parameters() if "proj.weight" in name]
    n_alive: list[int] = []

    def counting(weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
        n_alive.append(sum(weight() is not None for weight in weights))
        return form(weight, bias)

    packed.pack(model, counting)
    assert n_alive == [14] * 4 + [7] * 4 + [0]  # two layers of seven, then the head
    assert model.model.embed_tokens._table.dtype == torch.bfloat16
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


@pytest.mark.parametrize(("form", "name"), [(packed.PackedFloat16, "float16 packed"), (packed.PackedInt8, "int8")])
def test_the_cache_of_a_packed_model_knows_its_form_and_its_size(form: Any, name: str) -> None:
    lm = CachedLM(packed_model(form), 1 << 20)
    assert lm.dtype == name
    list(lm.prefill(TEXT))
    layers = lm._slots[0].cache.layers
    assert sum(layer.keys.nbytes + layer.values.nbytes for layer in layers) == len(TEXT) * lm.kv_bytes_per_token
    assert CachedLM(tiny.model(), 1 << 20).dtype == "float32"


@pytest.mark.parametrize("name", BASELINES)
def test_transformers_own_decoding_works_on_packed_models(name: str) -> None:
    target = CachedLM(packed_model(packed.PackedFloat16, eos_token_id=0), 1 << 20)
    small = CachedLM(packed_model(packed.PackedInt8, eos_token_id=0), 1 << 20)
    baselines = Baselines(target, small)
    assert baselines.run(name, TEXT, 30).token_ids == baselines.run("greedy", TEXT, 30).token_ids


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tiny.save(tmp_path_factory.mktemp("target"), tie_word_embeddings=True))


def config(folder: Path, **more: Any) -> EngineConfig:
    return EngineConfig(model=str(folder), small_lm=str(folder), device="cpu", database=None, **more)


@pytest.mark.parametrize(("dtype", "form"), [("float16", "float16 packed"), ("int8", "int8")])
def test_an_engine_with_packed_weights_writes_what_plain_decoding_writes(folder: Path, dtype: str, form: str) -> None:
    with closing(Engine.open(config(folder, dtype=dtype))) as engine:
        assert engine.info.dtype == form
        assert engine.small is not None and engine.small.dtype == "int8"
        engine._small_cost = Steady({1: 1e-9, 64: 2e-9})  # as if it cost nothing, so that it is really asked
        _, plain, _ = answer(engine, 60, prompt=CODE, draft=False)
        _, drafted, last = answer(engine, 60, prompt=CODE, source=CODE)
        assert drafted == plain
        assert last.stats is not None and last.stats.n_small_passes > 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "auto"])
def test_a_small_lm_on_a_cpu_is_int8_whatever_the_target_is(folder: Path, dtype: str) -> None:
    assert packed.form(loading.load_small_lm(folder, "cpu", dtype)) == "int8"


@pytest.mark.parametrize(("dtype", "wanted"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_without_the_kernels_a_small_lm_is_loaded_like_its_target(
    folder: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, wanted: torch.dtype
) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "qnnpack")
    for model in (loading.load_small_lm(folder, "cpu", dtype), loading.load_model(folder, "cpu", dtype)):
        assert packed.form(model) is None
        assert model.dtype == wanted


@pytest.mark.parametrize("weight", [1e5, float("nan")])
def test_weights_that_do_not_fit_are_refused_with_the_reason(tmp_path: Path, weight: float) -> None:
    model = tiny.model(len(tiny.tokenizer()))
    model.model.layers[1].mlp.up_proj.weight[3, 4] = weight
    model.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"can't be loaded: .*(1e\+05|nan), float16 ends at 65504; use float32"):
        loading.load_model(tmp_path, "cpu", "float16")
    loading.load_model(tmp_path, "cpu", "float32")


@pytest.mark.model
def test_the_real_small_lm_makes_the_same_choices_in_int8() -> None:
    folder = loading.resolve("tiny", models_dir())
    text = (Path(__file__).parent.parent / "docs/demo/inventory.py").read_text()
    token_ids = torch.tensor([loading.load_tokenizer(folder).encode(text)])
    with torch.inference_mode():
        plain, int8 = (
            load(folder, "cpu", "float32")(token_ids, use_cache=False).logits[0].argmax(-1)
            for load in (loading.load_model, loading.load_small_lm)
        )
    assert len(plain) > 200
    assert float((plain == int8).float().mean()) > 0.93
