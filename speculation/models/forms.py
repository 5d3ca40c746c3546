"""Which device a setting stands for, and in which form weights are there. Knows no model and no folder."""

import logging
import shutil
from functools import cache
from typing import NamedTuple

import torch

from speculation.errors import ConfigError, ModelError, first_line, is_out_of_memory
from speculation.models import packed
from speculation.models.packed import Packed, PackedFloat16, PackedInt8
from speculation.models.quantized import Int4, Int8

logger = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
QUANTIZED = (Int8.form, Int4.form)
"""Nearly other models, so nobody gets them who doesn't ask."""


class Packing(NamedTuple):
    """What linear layers become."""

    layer: type[Packed]
    head: type[Packed]
    """The last, which gives the logits."""


def choose_device(device: str) -> torch.device:
    """The device that a setting stands for. "auto" is CUDA if it works, else the CPU. Raises ConfigError."""
    if device == "auto":
        # Not Apple's mps: nobody has checked yet that speculative decoding is exact there. It can be asked for.
        return torch.device("cuda" if _has_good_gpu() else "cpu")
    try:
        chosen = torch.device(device)
        _compute(chosen)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"device {device!r} can't be used (wanted auto, cpu, cuda, cuda:N or mps): {first_line(error)}"
        ) from None
    return chosen


def choose_dtype(dtype: str, device: torch.device) -> str:
    """The form of the weights that a setting stands for on this device. Raises ConfigError.

    "auto" is bfloat16 where the device has instructions for it; else, on a CPU, float16, and float32 where that can't
    be packed. On a CPU float16 is packed: plain float16 would be computed slowly.
    """
    if dtype not in ("auto", *DTYPES, *QUANTIZED):
        raise ConfigError(f"dtype must be auto, {', '.join(DTYPES)}, int8 or int4, not {dtype!r}")
    if dtype in QUANTIZED:
        if not has_kernels(dtype, device):
            raise ConfigError(f"dtype {dtype} needs kernels that torch doesn't have for {device}; leave dtype at auto")
        return dtype
    if dtype == "auto" and _is_good_at_bfloat16(device):
        return "bfloat16"
    if dtype in ("auto", "float16") and _can_pack(device):
        return PackedFloat16.form
    return "float32" if dtype == "auto" else dtype


def choose_small_dtype(dtype: str, device: torch.device) -> str:
    """The form of a small LM's weights: int8 on a CPU that can and beside a quantized target, else as choose_dtype.

    Raises ConfigError.
    """
    if _can_pack(device) or (dtype in QUANTIZED and has_kernels("int8", device)):
        return "int8"
    return choose_dtype("auto" if dtype in QUANTIZED else dtype, device)


def has_kernels(form: str, device: torch.device) -> bool:
    """Whether torch can compute with int8 or int4 weights on this device, and not too slowly.

    A GPU is tried, for no table is complete. Of CPUs only x86 has kernels for int8, which logits are in both.
    """
    if device.type != "cuda":
        return device.type == "cpu" and packed.is_supported()
    kinds = packing(form, device)
    assert kinds is not None
    return _works(kinds, computed_in(form, device), device)


def packing(form: str, device: torch.device) -> Packing | None:
    """What linear layers become in this form; None where they stay as they are."""
    int8: type[Packed] = PackedInt8 if _can_pack(device) else Int8
    return {
        PackedFloat16.form: Packing(PackedFloat16, PackedFloat16),
        "int8": Packing(int8, int8),
        "int4": Packing(Int4, int8),  # logits suffer most from coarse weights
    }.get(form)


def place_of(form: str, device: torch.device) -> torch.device:
    """Where weights of this form are: packed ones on one GPU, others on all of them when none is named."""
    if device.type == "cuda" and device.index is None and packing(form, device):
        return torch.device("cuda", 0)
    return device


def computed_in(form: str, device: torch.device) -> torch.dtype:
    """The dtype of activations and KV caches where weights have this form."""
    if form in DTYPES:
        return DTYPES[form]
    if device.type == "cpu":
        return torch.float32
    return torch.bfloat16 if _is_good_at_bfloat16(device) else torch.float16


def is_torch_without_cuda() -> bool:
    """Whether NVIDIA's driver is here, and a torch that can't use it: pip gives that one on Windows."""
    return torch.version.cuda is None and shutil.which("nvidia-smi") is not None


@cache
def _has_good_gpu() -> bool:
    """Whether a GPU is there that computes: torch comes without kernels for older ones, and says so only when asked."""
    if not torch.cuda.is_available():
        return False
    try:
        _compute(torch.device("cuda"))
    except RuntimeError as error:
        if not is_out_of_memory(error):  # a full one is said when the weights are loaded
            logger.warning("the GPU can't be used, the CPU is taken instead: %s", first_line(error))
            return False
    return True


def _compute(device: torch.device) -> None:
    torch.ones(1, device=device).add_(1).tolist()


@cache
def _works(kinds: Packing, dtype: torch.dtype, device: torch.device) -> bool:
    try:
        weight = torch.ones(64, 128, dtype=dtype, device=device)
        return all(bool((kind(weight, None)(weight[:1]) == 128).all()) for kind in kinds)
    except RuntimeError as error:  # an operator that is missing is one as well
        if is_out_of_memory(error):
            raise ModelError("there is no memory left on the GPU; close other programs that use it") from None
        return False


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
