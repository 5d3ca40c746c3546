"""Promises of speculation.models.loading and convert: whole weights load, anything else is one clear line."""

import json
from pathlib import Path

import pytest
from toy_models import toy_gguf

from speculation.config import models_dir
from speculation.errors import ConfigError, ModelError, is_out_of_memory
from speculation.models import store

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from speculation.models import forms, loading, packed  # noqa: E402 - it imports torch, which these tests may lack
from speculation.models.convert import ODD_TEXT, convert  # noqa: E402

ODD = [
    ODD_TEXT,
    "def f():\n\treturn 1  \n",
    "a\r\nb\rc\n",
    "e\u0301 \u00e9 \ufb01 \u212b",
    " leading, trailing ",
    "don 't , n't . x ! ?",
    "\U0001f9d1\u200d\U0001f4bb\U0001f600\ufe0f",
    "\x00\x0b\x0c\u2028\ufeff",
    "      \t  \n\n\n   ",
]


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    """The folder that a toy GGUF was converted to."""
    folder = tmp_path_factory.mktemp("toy")
    return convert(toy_gguf(folder / "toy.gguf"), folder / "converted")


def check_text_unchanged(tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_a_converted_gguf_loads_ready_for_inference(toy):
    model = loading.load_model(toy, device="cpu", dtype="float32")
    assert not model.training and not any(weight.requires_grad for weight in model.parameters())
    assert model.dtype == torch.float32
    assert loading.context_length(model) == 128
    assert model(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 260)


def test_attention_by_cudnn_is_off_once_a_model_is_loaded(toy):
    torch.backends.cuda.enable_cudnn_sdp(True)
    loading.load_model(toy, device="cpu", dtype="float32")
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_conversion_names_both_end_tokens_and_the_real_context(toy):
    assert json.loads((toy / "generation_config.json").read_text())["eos_token_id"] == [259, 257]
    assert loading.load_tokenizer(toy).model_max_length == 128
    assert not list(toy.glob("*.bin"))


@pytest.mark.parametrize("text", ODD)
def test_text_comes_back_from_the_tokenizer_as_it_was(toy, text):
    check_text_unchanged(loading.load_tokenizer(toy), text)


def test_a_tokenizer_that_composes_characters_is_kept_from_it(toy, tmp_path):
    for file in toy.iterdir():
        (tmp_path / file.name).symlink_to(file)
    settings = json.loads((toy / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer.json").write_text(json.dumps(settings | {"normalizer": {"type": "NFC"}}))
    check_text_unchanged(loading.load_tokenizer(tmp_path), "e\u0301")


def test_a_wrong_special_token_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"wanted the token <\|im_end\|> to be 151645, got \[259\]"):
        convert(toy_gguf(tmp_path / "toy.gguf"), tmp_path / "out", special_ids=(("<|im_end|>", 151645),))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_a_part_of_a_gguf_is_refused_in_one_line(tmp_path, share):
    whole = toy_gguf(tmp_path / "whole.gguf").read_bytes()
    part = tmp_path / "part.gguf"
    part.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModelError, match="part.gguf can't be read; it is damaged, cut short") as refused:
        loading.resolve(str(part), tmp_path / "models")
    assert "\n" not in str(refused.value)
    assert store.ready_folders(tmp_path / "models") == []


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04 something else"])
def test_what_is_no_gguf_is_refused(tmp_path, content):
    (tmp_path / "no.gguf").write_bytes(content)
    with pytest.raises(ModelError, match="no.gguf is no GGUF file"):
        loading.resolve(str(tmp_path / "no.gguf"), tmp_path / "models")


def test_a_local_gguf_is_converted_once_for_its_content(tmp_path):
    gguf = toy_gguf(tmp_path / "My Model.Q8.gguf")
    folder = loading.resolve(str(gguf), tmp_path / "models")
    made = (folder / "model.safetensors").stat().st_mtime_ns
    assert loading.resolve(str(gguf), tmp_path / "models") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == made
    assert loading.resolve(store.model_id_of(folder), tmp_path / "models") == folder
    loading.load_tokenizer(folder)


def test_a_tiny_random_qwen_from_a_local_folder_loads(tmp_path):
    config = transformers.Qwen2Config(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=77,
    )  # fmt: skip
    saved = transformers.Qwen2ForCausalLM(config)
    saved.save_pretrained(tmp_path)
    loaded = loading.load_model(loading.resolve(str(tmp_path), tmp_path / "models"), "cpu", "float32")
    assert loading.context_length(loaded) == 77
    assert torch.equal(loaded.lm_head.weight, saved.lm_head.weight)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", b"\x10\x00\x00\x00\x00\x00\x00\x00half"),
        ("config.json", b"{"),
        ("config.json", b'{"model_type": "no-such-model"}'),
        ("config.json", b'{"model_type": "evil", "auto_map": {"AutoModelForCausalLM": "evil.Evil"}}'),
    ],
)
def test_damaged_or_foreign_folders_are_refused_in_one_line(toy, tmp_path, file, content):
    for part in toy.iterdir():
        (tmp_path / part.name).symlink_to(part)
    (tmp_path / file).unlink()
    (tmp_path / file).write_bytes(content)
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')")
    with pytest.raises(ModelError, match="can't be loaded") as refused:
        loading.load_model(tmp_path, "cpu", "float32")
    assert "\n" not in str(refused.value)


def test_too_little_memory_is_said_with_what_was_needed(toy, monkeypatch):
    def run_out(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    whole = loading.load_model(toy, "cpu", "float32")
    n_bytes = store.human_size(sum(weight.numel() * 4 for weight in whole.parameters()))
    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", run_out)
    with pytest.raises(ModelError, match=f"its weights take {n_bytes} in float32, .* GB were free. Choose a smaller"):
        loading.load_model(toy, "cpu", "float32")


@pytest.mark.parametrize(("device", "dtype"), [("gpu", "auto"), ("cuda:99", "auto"), ("cpu", "int3")])
def test_a_device_or_dtype_that_cannot_be_used_is_said(device, dtype):
    with pytest.raises(ConfigError, match=f"device '{device}' can't be used|dtype must be .* not '{dtype}'"):
        forms.choose_dtype(dtype, forms.choose_device(device))


@pytest.mark.parametrize(
    ("capabilities", "packs", "auto", "float16"),
    [
        ({"avx512_bf16": True}, True, "bfloat16", "float16 packed"),
        ({"amx_bf16": True}, False, "bfloat16", "float16"),
        ({}, True, "float16 packed", "float16 packed"),
        ({}, False, "float32", "float16"),
    ],
)
def test_a_cpu_computes_in_what_it_has_instructions_for(monkeypatch, capabilities, packs, auto, float16):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(packed, "is_supported", lambda: packs)
    cpu = torch.device("cpu")
    assert forms.choose_dtype("auto", cpu) == auto
    assert forms.choose_dtype("float16", cpu) == float16
    assert forms.choose_dtype("float32", cpu) == "float32"


OLD_GPU = "CUDA error: no kernel image is available for execution on the device\nCompile with TORCH_USE_CUDA_DSA"
FULL_GPU = "CUDA out of memory. Tried to allocate 2.00 MiB."


@pytest.mark.parametrize(("trouble", "taken", "warns"), [(OLD_GPU, "cpu", True), (FULL_GPU, "cuda", False)])
def test_a_gpu_that_computes_nothing_is_passed_over_unless_it_is_named(monkeypatch, caplog, trouble, taken, warns):
    def compute(device):
        raise RuntimeError(trouble)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(forms, "_compute", compute)
    forms._has_good_gpu.cache_clear()
    try:
        assert str(forms.choose_device("auto")) == taken
    finally:
        forms._has_good_gpu.cache_clear()
    assert ("the CPU is taken instead: CUDA error: no kernel image" in caplog.text) == warns
    with pytest.raises(ConfigError, match="device 'cuda' can't be used .*CUDA") as refused:
        forms.choose_device("cuda")
    assert "\n" not in str(refused.value)


def test_layers_that_no_gpu_had_room_for_are_not_left_in_ram(toy, monkeypatch):
    """As when accelerate finds that they don't fit: it would go on, at seconds a token."""
    gpus = torch.device("cuda")
    monkeypatch.setattr(loading, "choose_device", lambda device: gpus)
    monkeypatch.setattr(loading, "choose_dtype", lambda dtype, device: "float32")
    monkeypatch.setattr(loading, "free_bytes", lambda device: 3_000_000)
    monkeypatch.setattr(loading, "_device_map", lambda folder, device: {"": "cpu"})
    with pytest.raises(ModelError, match="doesn't fit into the free memory: its weights take .* 3.0 MB were free"):
        loading.load_model(toy)


def test_cublas_without_memory_is_known_for_what_it_is():
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    assert not is_out_of_memory(RuntimeError(OLD_GPU))


def test_nothing_is_packed_off_the_cpu():
    assert forms.choose_dtype("float16", torch.device("cuda")) == "float16"


@pytest.mark.model
@pytest.mark.parametrize("text", ODD)
def test_the_real_tokenizer_gives_text_back_as_it_was(text):
    check_text_unchanged(loading.load_tokenizer(loading.resolve("tiny", models_dir())), text)


@pytest.mark.model
def test_the_real_tokenizer_has_qwens_special_tokens_and_chat_form():
    folder = loading.resolve("tiny", models_dir())
    tokenizer = loading.load_tokenizer(folder)
    specials = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
    assert {token: tokenizer.convert_tokens_to_ids(token) for token in specials} == specials
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [151645, 151643]
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    wanted = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"
    assert prompt == wanted
    # As Qwen's own tokenizer cuts it: one token a digit, a space with the word after it.
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("x = 10")) == ["x", "\u0120=", "\u0120", "1", "0"]
