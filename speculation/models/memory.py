"""What a model takes in memory, worked out from its config before anything is loaded; and how much is free.

Knows shapes, forms of weights and devices. Does not know presets nor where weights lie.
"""

from typing import Any

import psutil
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from speculation.models.cached_lm import kv_bytes_per_token
from speculation.models.forms import DTYPES, packing
from speculation.models.packed import CPU

PROCESS_BYTES = {"cpu": 600_000_000, "cuda": 700_000_000}
"""Python with torch and transformers in it; on a GPU CUDA's context and its kernels."""
N_LOGITS = 257
"""Rows of logits of the longest pass: gamma_max and one."""
BYTES_A_LOGIT = 8
"""As they come and once more in float32, with what else a pass writes down in between."""
N_WORKING_CUDA = 2
"""There the captured graphs keep a working set of their own beside that of passes that aren't captured."""


def config_of(shape: dict[str, Any]) -> Any:
    """The config of a model that isn't there, from what is known of its shape (see catalog)."""
    return AutoConfig.for_model(**shape)


def weights_bytes(config: Any, form: str) -> int:
    """Bytes of all weights in this form ("bfloat16", "int8", ...).

    The model is built without its numbers, so that any architecture counts right. Packed forms are counted as a CPU
    has them; on a GPU norms and biases take half.
    """
    with torch.device("meta"):
        kind: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        model: Any = kind.from_config(config)
    kinds = packing(form, CPU)
    if not kinds:
        return sum(weight.numel() for weight in model.parameters()) * DTYPES[form].itemsize
    # As packed.pack does it: linear layers in the form, tied ones too; embeddings as in the file; the rest float32.
    head = model.get_output_embeddings()
    total = 0.0
    for module in model.modules():
        own = sum(weight.numel() for weight in module.parameters(recurse=False))
        if isinstance(module, nn.Linear):
            kind = kinds.head if module is head else kinds.layer
            n_weights = module.weight.numel()
            total += n_weights * kind.itemsize + (own - n_weights) * 4
        else:
            total += own * (config.dtype.itemsize if isinstance(module, nn.Embedding) else 4)
    return int(total)


def kv_bytes(config: Any, dtype: torch.dtype, n_context: int, budget_bytes: int) -> int:
    """Bytes of KV caches: in time they fill their budget; a single context that needs more gets it."""
    return max(budget_bytes, n_context * kv_bytes_per_token(config, dtype.itemsize))


def other_bytes(config: Any, device: torch.device) -> int:
    """What the process and the target's passes take besides weights and KV caches."""
    working = N_LOGITS * config.get_text_config().vocab_size * BYTES_A_LOGIT
    if device.type == "cuda":
        return PROCESS_BYTES["cuda"] + N_WORKING_CUDA * working
    return PROCESS_BYTES["cpu"] + working


def free_bytes(device: torch.device) -> int:
    """Memory that a program which starts now can have: on the GPU (all of them when none is named), else in RAM."""
    if device.type != "cuda":
        return int(psutil.virtual_memory().available)
    indices = range(torch.cuda.device_count()) if device.index is None else (device.index,)
    return sum(torch.cuda.mem_get_info(index)[0] for index in indices)


def total_bytes(device: torch.device) -> int:
    """Memory of the GPU, or of all of them when none is named, whoever uses it now."""
    indices = range(torch.cuda.device_count()) if device.index is None else (device.index,)
    return sum(torch.cuda.get_device_properties(index).total_memory for index in indices)


def held_gpu_bytes() -> int:
    """GPU memory that this process holds, on all GPUs."""
    return sum(torch.cuda.memory_reserved(index) for index in range(torch.cuda.device_count()))


def process_bytes(pid: int) -> int:
    """RAM that would be free if this process ended; 0 for one that may not be asked."""
    try:
        process = psutil.Process(pid)
        # macOS tells nobody what a process has for itself; on Linux the other counts mapped files as well.
        return int(process.memory_info().rss if psutil.MACOS else process.memory_full_info().uss)
    except psutil.Error:
        return 0
