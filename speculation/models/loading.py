"""From a reference (preset, Hugging Face id, folder, GGUF) to a loaded model and tokenizer. Touches no network.

Knows devices and dtypes. Does not know decoding, caches or prompts. Never pickle, never code that comes with a model.
"""

import hashlib
import logging
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tokenizers import normalizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from speculation.errors import ConfigError, ModelError, is_out_of_memory
from speculation.models import packed, store
from speculation.models.convert import convert, quiet

log = logging.getLogger(__name__)

NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9]+")
N_RELATIVE = 1 << 15
"""The context of a model that knows distances only, as T5 does: there is no limit but this one."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
PACKED = {pack_linear.form: pack_linear for pack_linear in (packed.PackedFloat16, packed.PackedInt8)}


def resolve(ref: str, models_dir: Path) -> Path:
    """The folder that load_model and load_tokenizer take. Raises ModelError for what is unknown or not fetched.

    "auto" is "medium" with a GPU and "small" without. A .gguf file is converted once, which takes a minute.
    """
    if ref == "auto":
        ref = "medium" if torch.cuda.is_available() else "small"
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
    return _load(folder, place, choose_dtype(dtype, place))


def load_small_lm(folder: Path, device: str = "auto", dtype: str = "auto") -> Any:
    """Like load_model, but int8 on a CPU that can: what a small LM writes is checked, so it need not be exact."""
    place = choose_device(device)
    return _load(folder, place, choose_small_dtype(dtype, place))


def _load(folder: Path, device: torch.device, form: str) -> Any:
    with quiet(), _clear_errors(folder):
        config: Any = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        kind: Any = AutoModelForCausalLM
        if config.is_encoder_decoder:
            kind = AutoModelForSeq2SeqLM
            form = "float32" if form in PACKED else form  # T5's layers look into the weights of others
        model: Any = kind.from_pretrained(
            folder,
            dtype=DTYPES.get(form, "auto"),  # what is packed afterwards is read as it is
            device_map=_device_map(folder, device),
            attn_implementation="sdpa",
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
        )
        model.eval().requires_grad_(False)
        if form in PACKED:
            packed.pack(model, PACKED[form])
    return model


def context_length(model: Any) -> int:
    """How many tokens the model can attend to, prompt and answer together."""
    return int(getattr(model.config.get_text_config(), "max_position_embeddings", N_RELATIVE))


def machine_name(device: torch.device) -> str:
    """What pass times depend on besides the model: the GPU's name, or the CPU's and how many threads compute."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {platform.processor()} {torch.get_num_threads()} threads".replace("  ", " ")


def choose_device(device: str) -> torch.device:
    """The device that a setting stands for. "auto" is CUDA if it works, else the CPU. Raises ConfigError."""
    if device == "auto":
        # Not Apple's mps: nobody has checked yet that speculative decoding is exact there. It can be asked for.
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"device {device!r} can't be used (wanted auto, cpu, cuda, cuda:N or mps): {reason}"
        ) from None
    return chosen


def choose_dtype(dtype: str, device: torch.device) -> str:
    """The form of the weights that a setting stands for on this device. Raises ConfigError.

    "auto" is bfloat16 where the device has instructions for it; else, on a CPU, float16, and float32 where that can't
    be packed. On a CPU float16 is packed: plain float16 would be computed slowly. int8 is another model, nearly.
    """
    if dtype not in ("auto", packed.PackedInt8.form, *DTYPES):
        raise ConfigError(f"dtype must be auto, {', '.join(DTYPES)} or int8, not {dtype!r}")
    if dtype == packed.PackedInt8.form:
        if not _can_pack(device):
            raise ConfigError(f"dtype int8 needs an x86 CPU, not {device}; leave dtype at auto")
        return dtype
    if dtype == "auto" and _is_good_at_bfloat16(device):
        return "bfloat16"
    if dtype in ("auto", "float16") and _can_pack(device):
        return packed.PackedFloat16.form
    return "float32" if dtype == "auto" else dtype


def choose_small_dtype(dtype: str, device: torch.device) -> str:
    """The form of a small LM's weights: int8 on a CPU that can, else as choose_dtype. Raises ConfigError."""
    return choose_dtype(packed.PackedInt8.form if _can_pack(device) else dtype, device)


def _can_pack(device: torch.device) -> bool:
    return device.type == "cpu" and packed.is_supported()


def _is_good_at_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "cpu":
        # A CPU without bfloat16 instructions emulates them, several times slower than float32.
        capabilities = torch.cpu.get_capabilities()
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return device.type == "mps"


def _device_map(folder: Path, device: torch.device) -> Any:
    """One device; or all GPUs, layer after layer, when "cuda" was asked for and the weights don't fit on one."""
    if device.type == "cuda" and device.index is None and torch.cuda.device_count() > 1:
        n_bytes = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        if n_bytes > 0.9 * torch.cuda.mem_get_info(device)[0]:
            return "auto"
    return {"": device}


@contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise ModelError(
                f"{folder.name} doesn't fit into the free memory; choose a smaller model or close other programs that "
                "use the GPU"
            ) from None
        # Damaged weights and configs fail in too many ways to list: OSError, ValueError, SafetensorError, KeyError ...
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(f"{folder} can't be loaded: {reason}") from error
