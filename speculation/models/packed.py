"""Weights packed for FBGEMM, torch's matrix kernels for x86: float16 and int8, for a target and a small LM on a CPU.

A pass over a few positions waits for memory: half or a quarter of the bytes is two to four times the speed.
Activations, norms and the KV cache stay float32. Knows modules; no folders, devices or settings.
"""

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

from speculation.errors import ModelError
from speculation.models.fused import FusedLayer, MakeLinear, joined, places

CPU = torch.device("cpu")
FLOAT16_MAX = 65504.0
INT7_MAX = 63
"""Weights take 7 bits: two products of an 8-bit activation and an 8-bit weight overflow the 16 bits in which a CPU
without VNNI adds them (vpmaddubsw), 2 * 255 * 63 doesn't."""
ACTIVATION_MAX, ACTIVATION_ZERO = 127, 128
"""Activations from -1 to 1 become 1 to 255."""
N_OUT, MAX_PIECES = 9216, 4
"""FBGEMM reads float16 weights anew for every six positions. So many outputs stay in a CPU's cache in between; in many
pieces, as the last layer would be, a pass over one position takes longer."""
TINY = 1e-12
"""The least scale: a row or a token of nothing but zeros stays zero."""


class Packed(nn.Module):
    """A linear layer whose weights aren't plain numbers: [..., n_in] to [..., n_out]."""

    form: str
    """What users call it."""
    itemsize: float
    """Bytes of a weight."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.n_weights = weight.numel()


class PackedFloat16(Packed):
    """A linear layer with float16 weights, float32 activations and sums: [..., n_in] to [..., n_out].

    Weights below 6e-8 become zero. Raises ModelError for weights that float16 can't hold.
    """

    form = "float16 packed"
    itemsize = 2

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__(weight, bias)
        largest = float(weight.abs().amax())
        if not largest <= FLOAT16_MAX:  # not so for a NaN either
            raise ModelError(f"its weights go up to {largest:.3g}, float16 ends at {FLOAT16_MAX:.0f}; use float32")
        n_pieces = ceil(len(weight) / N_OUT)
        n_out = ceil(len(weight) / n_pieces) if n_pieces <= MAX_PIECES else len(weight)
        pieces = weight.split(n_out)
        biases = [None] * len(pieces) if bias is None else bias.float().split(n_out)
        self._pieces = [
            torch.ops.quantized.linear_prepack_fp16(w.float(), b) for w, b in zip(pieces, biases, strict=True)
        ]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, *more = [torch.ops.quantized.linear_dynamic_fp16(x, piece) for piece in self._pieces]
        return torch.cat([first, *more], dim=-1) if more else first


class PackedInt8(Packed):
    """A linear layer with int8 weights per output channel and int8 activations per token: [..., n_in] to [..., n_out].

    Close, not exact: for a small LM, whose words the target checks, or for who wants an int8 model's own words. What
    comes out for a token doesn't depend on the others in the pass. Raises ModelError for weights that are no numbers.
    """

    form = "int8"
    itemsize = 1

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__(weight, bias)
        weight = weight.float()
        scales = weight.abs().amax(dim=1).clamp_min(TINY) / INT7_MAX  # [n_out]
        if not scales.isfinite().all():
            raise ModelError("some of its weights are no finite numbers")
        zeros = torch.zeros(len(scales), dtype=torch.long)
        with warnings.catch_warnings():
            # torch 2.13 announces the end of quantized tensors, but the operator takes its weights as one.
            warnings.filterwarnings("ignore", r"torch\.quantize_per_tensor", UserWarning)
            quantized = torch.quantize_per_channel(weight, scales, zeros, axis=0, dtype=torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(quantized, None)
        self._bias = None if bias is None else bias.float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # The operator has one scale for all of x. Tokens differ by orders of magnitude, so each gets the same range;
        # it is named, not found (as linear_dynamic does it): then a token's numbers don't change with its neighbours.
        scales = torch.linalg.vector_norm(x, torch.inf, dim=-1, keepdim=True).clamp_min_(TINY)  # [..., 1]
        y = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x / scales, 1 / ACTIVATION_MAX, ACTIVATION_ZERO, self._packed
        )
        return y.mul_(scales) if self._bias is None else torch.addcmul(self._bias, y, scales)


class SlimEmbedding(nn.Module):
    """An embedding whose table keeps the dtype of the file, with float32 output: [...] to [..., n_hidden]."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        # No parameter: a model's dtype is that of its parameters, and this one computes in float32.
        # A copy: the weights may be views of the mapped file, and one of them would keep all of it in memory.
        self._table = embedding.weight.detach().clone()

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        return functional.embedding(token_ids, self._table).float()


def is_supported() -> bool:
    """Whether this torch and this CPU have the kernels: on x86, not on ARM."""
    return torch.backends.quantized.engine in ("fbgemm", "x86")


def pack(model: Any, make: MakeLinear, make_head: MakeLinear | None = None, device: torch.device = CPU) -> None:
    """Replace the linear layers of a model on the CPU, and bring all of it to the device.

    make_head: of the layer that gives the logits, if it is another. A layer that is tied to the embedding gets a packed
    copy. On a CPU embeddings keep their dtype and the rest becomes float32. Raises ModelError.
    """
    is_cpu = device.type == "cpu"
    head = model.get_output_embeddings()
    replace: dict[type, Callable[..., nn.Module]] = {
        Qwen2DecoderLayer: lambda layer: FusedLayer(layer, make),
        nn.Linear: lambda linear: joined(make_head if make_head and linear is head else make, linear),
    }
    if is_cpu:
        replace[nn.Embedding] = SlimEmbedding

    def replace_one(place: tuple[nn.Module, str]) -> None:
        parent, name = place
        child = getattr(parent, name).to(device)
        setattr(parent, name, replace[type(child)](child))

    # FBGEMM packs in one thread, about 20 ns a weight, and lets others run meanwhile. A GPU has memory for one layer.
    with ThreadPoolExecutor(torch.get_num_threads() if is_cpu else 1) as pool:
        list(pool.map(replace_one, places(model, replace)))
    if is_cpu:
        model.float()
    model.to(device)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # of what it took to round the weights


def is_mostly(model: nn.Module) -> bool:
    """Whether most weights are packed: not so in a mixture of experts, whose experts are no linear layers."""
    modules = list(model.modules())
    n_plain = sum(
        weight.numel()
        for module in modules
        if not isinstance(module, nn.Embedding)
        for weight in module.parameters(recurse=False)
    )
    return n_plain < sum(module.n_weights for module in modules if isinstance(module, Packed))


def form(model: nn.Module) -> str | None:
    """How the weights are packed, or None where they aren't; of all layers but the last, if that is another."""
    return next((module.form for module in model.modules() if isinstance(module, Packed)), None)
