"""From a reference (preset, Hugging Face id, folder, GGUF) to a loaded model and tokenizer. Touches no network.

Does not know decoding, caches or prompts. Never pickle, never code that comes with a model.
"""

import hashlib
import logging
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import normalizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from speculation.errors import ModelError, first_line, is_out_of_memory
from speculation.models import fused, packed, store
from speculation.models.convert import convert, quiet
from speculation.models.forms import (
    QUANTIZED,
    Packing,
    choose_device,
    choose_dtype,
    choose_small_dtype,
    computed_in,
    packing,
    place_of,
)
from speculation.models.memory import free_bytes, weights_bytes
from speculation.models.packed import CPU

log = logging.getLogger(__name__)

NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9]+")
N_RELATIVE = 1 << 15
"""The context of a model that knows distances only, as T5 does: there is no limit but this one."""


def resolve(ref: str, models_dir: Path) -> Path:
    """The folder that load_model and load_tokenizer take. Raises ModelError for what is unknown or not fetched.

    A .gguf file is converted once, which takes a minute.
    """
    path = store.find(ref, models_dir)
    return path if path.is_dir() else _converted(path, models_dir)


def _converted(gguf: Path, models_dir: Path) -> Path:
    with _clear_errors(gguf), gguf.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    # By content, not by place: a file that was replaced is another model.
    model_id = f"local/{NOT_IN_AN_ID.sub('-', gguf.stem)}-{sha256[:12]}"
    folder = store.folder_of(model_id, models_dir)
    with store.locked(model_id, models_dir):
        if not store.is_ready(folder):
            # Dequantized to bfloat16 a 4-bit file grows to at most four times its size.
            store.check_room(models_dir, 4 * gguf.stat().st_size, f"the conversion of {gguf}")
            log.info("converting %s, once; this takes about a minute", gguf)
            built = convert(gguf, store.staging_of(model_id, models_dir))
            store.finish(built, folder, {"model": str(gguf), "sha256": sha256, "dtype": "bfloat16"})
    return folder


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer, made to give text back exactly as it was. Raises ModelError."""
    with _clear_errors(folder):
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    tokenizer.clean_up_tokenization_spaces = False
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend and isinstance(backend.normalizer, normalizers.NFC):
        # Qwen's own tokenizer.json composes characters, its GGUF doesn't: a rewrite must not touch what it copies.
        backend.normalizer = None
    return tokenizer


def load_model(folder: Path, device: str = "auto", dtype: str = "auto") -> Any:
    """The folder's language model in eval mode, without gradients. Raises ModelError, ConfigError."""
    place = choose_device(device)
    model = _load(folder, place, choose_dtype(dtype, place))
    if dtype in QUANTIZED and not packed.is_mostly(model):
        raise ModelError(
            f"{folder.name} can't be had in {dtype}: most of its weights are in layers that have no such form; "
            "use another dtype"
        )
    return model


def load_small_lm(folder: Path, device: str = "auto", dtype: str = "auto") -> Any:
    """Like load_model, but int8 where choose_small_dtype has it: what a small LM writes is checked, not exact."""
    place = choose_device(device)
    return _load(folder, place, choose_small_dtype(dtype, place))


def _load(folder: Path, device: torch.device, form: str) -> Any:
    config = read_config(folder)
    kind: Any = AutoModelForCausalLM
    if config.is_encoder_decoder:
        kind = AutoModelForSeq2SeqLM
        form = str(computed_in(form, device)).removeprefix("torch.")  # T5's layers look into the weights of others
    kinds = packing(form, device)
    with quiet(), _clear_errors(folder, _Need(config, form, free_bytes(place_of(form, device)))):
        model: Any = kind.from_pretrained(
            folder,
            dtype=_dtype_before(kinds, form, device) or "auto",
            device_map={"": CPU} if kinds else _device_map(folder, device),  # a GPU may have no room for what is packed
            attn_implementation="sdpa",
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
        )
        if not kinds and device.type == "cuda" and any(not weight.is_cuda for weight in model.parameters()):
            raise MemoryError  # of all GPUs: the other layers went to RAM or to a disk, where a token takes seconds
        return _finished(model, kinds, device)


def build_random(config: Any, device: str = "auto", dtype: str = "auto") -> Any:
    """A causal LM with random weights, as load_model would give it: for its times. Raises ModelError, ConfigError."""
    place = choose_device(device)
    form = choose_dtype(dtype, place)
    kinds = packing(form, place)
    with (
        quiet(),
        _clear_errors(Path("a random model"), _Need(config, form, free_bytes(place))),
        CPU if kinds else place,
    ):
        model = AutoModelForCausalLM.from_config(
            config,
            dtype=_dtype_before(kinds, form, place) or config.dtype,
            attn_implementation="sdpa",
            trust_remote_code=False,
        )
        return _finished(model, kinds, place)


def read_config(folder: Path) -> Any:
    """The folder's config. Raises ModelError."""
    with _clear_errors(folder):
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _dtype_before(kinds: Packing | None, form: str, device: torch.device) -> torch.dtype | None:
    """Of the weights as they are read; None: as in the file, for those that a CPU packs."""
    return None if kinds and device.type == "cpu" else computed_in(form, device)


def _finished(model: Any, kinds: Packing | None, device: torch.device) -> Any:
    # torch prefers cuDNN's attention on the largest GPUs; it makes a plan for each new length, 30 ms a pass, and has
    # written wrong text there (pytorch issue 193893).
    torch.backends.cuda.enable_cudnn_sdp(False)
    model.eval().requires_grad_(False)
    if kinds:
        packed.pack(model, kinds.layer, kinds.head, device)
    # Over several devices hooks of layers move what these take; on mps older torchs have no heads that share keys.
    elif len({weight.device for weight in model.parameters()}) == 1 and model.device.type != "mps":
        fused.fuse(model)
    return model


def context_length(model: Any) -> int:
    """How many tokens the model can attend to, prompt and answer together."""
    return int(getattr(model.config.get_text_config(), "max_position_embeddings", N_RELATIVE))


def machine_name(device: torch.device) -> str:
    """What pass times depend on besides the model: the GPU's name, or the CPU's and how many threads compute."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {platform.processor()} {torch.get_num_threads()} threads".replace("  ", " ")


def _device_map(folder: Path, device: torch.device) -> Any:
    """One device; or all GPUs, layer after layer, when "cuda" was asked for and the weights don't fit on one."""
    if device.type == "cuda" and device.index is None and torch.cuda.device_count() > 1:
        n_bytes = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        if n_bytes > 0.9 * torch.cuda.mem_get_info(device)[0]:
            return "auto"
    return {"": device}


class _Need(NamedTuple):
    """What is to be loaded, and how many bytes were free before."""

    config: Any
    form: str
    n_free: int

    def __str__(self) -> str:
        n_bytes = store.human_size(weights_bytes(self.config, self.form))
        return f": its weights take {n_bytes} in {self.form}, {store.human_size(self.n_free)} were free"


@contextmanager
def _clear_errors(folder: Path, need: _Need | None = None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise ModelError(
                f"{folder.name} doesn't fit into the free memory{need or ''}. Choose a smaller model "
                "(`stet models fit` says what fits), or close other programs that use the GPU"
            ) from None
        # Damaged weights and configs fail in too many ways to list: OSError, ValueError, SafetensorError, KeyError ...
        raise ModelError(f"{folder} can't be loaded: {first_line(error)}") from error
