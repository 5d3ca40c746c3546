"""Which device a setting stands for, and in which form weights are there. Knows no model and no folder."""

import torch

from speculation.errors import ConfigError
from speculation.models import packed

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
PACKED = {pack_linear.form: pack_linear for pack_linear in (packed.PackedFloat16, packed.PackedInt8)}


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
