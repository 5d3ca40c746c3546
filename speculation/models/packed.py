"""Weights packed for FBGEMM, torch's matrix kernels for x86: float16 and int8, for a target and a small LM on a CPU.

A pass over a few positions waits for memory: half or a quarter of the bytes is two to four times the speed.
Activations, norms and the KV cache stay float32. Knows modules; no folders, devices or settings.
"""

import warnings
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import Cache
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RMSNorm, rotate_half

from speculation.errors import ModelError

FLOAT16_MAX = 65504.0
INT7_MAX = 63
"""Weights take 7 bits: two products of an 8-bit activation and an 8-bit weight overflow the 16 bits in which a CPU
without VNNI adds them (vpmaddubsw), 2 * 255 * 63 doesn't."""
ACTIVATION_MAX, ACTIVATION_ZERO = 127, 128
"""Activations from -1 to 1 become 1 to 255."""
TINY = 1e-12
"""The least scale: a row or a token of nothing but zeros stays zero."""


PackLinear = Callable[[torch.Tensor, torch.Tensor | None], nn.Module]
"""From weight [n_out, n_in] and bias [n_out]."""


class PackedFloat16(nn.Module):
    """A linear layer with float16 weights, float32 activations and sums: [..., n_in] to [..., n_out].

    Weights below 6e-8 become zero. Raises ModelError for weights that float16 can't hold.
    """

    form = "float16 packed"
    itemsize = 2

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        largest = float(weight.abs().amax())
        if not largest <= FLOAT16_MAX:  # not so for a NaN either
            raise ModelError(f"its weights go up to {largest:.3g}, float16 ends at {FLOAT16_MAX:.0f}; use float32")
        bias = None if bias is None else bias.float()
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.quantized.linear_dynamic_fp16(x, self._packed)


class PackedInt8(nn.Module):
    """A linear layer with int8 weights per output channel and int8 activations per token: [..., n_in] to [..., n_out].

    Close, not exact: for a small LM, whose words the target checks, or for who wants an int8 model's own words. What
    comes out for a token doesn't depend on the others in the pass. Raises ModelError for weights that are no numbers.
    """

    form = "int8"
    itemsize = 1

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
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


class FusedLayer(nn.Module):
    """A Qwen2 decoder layer in fewer operations: one linear layer for q, k and v, one for gate and up, fused norms.

    Keys and values are shared by heads where transformers copies them for each head, all of the context in every pass
    over several positions. Takes the place of Qwen2DecoderLayer, masks and KV cache included.
    """

    def __init__(self, layer: Qwen2DecoderLayer, pack_linear: PackLinear) -> None:
        super().__init__()
        attention, mlp = layer.self_attn, layer.mlp
        self.input_layernorm, self.post_attention_layernorm = layer.input_layernorm, layer.post_attention_layernorm
        self._layer_idx, self._head_dim = attention.layer_idx, attention.head_dim
        self._n_kv_heads = attention.k_proj.out_features // attention.head_dim
        self._qkv = _joined(pack_linear, attention.q_proj, attention.k_proj, attention.v_proj)
        self._o = _joined(pack_linear, attention.o_proj)
        self._gate_up = _joined(pack_linear, mlp.gate_proj, mlp.up_proj)
        self._down = _joined(pack_linear, mlp.down_proj)
        self._act = mlp.act_fn

    def forward(
        self,
        hidden_states: torch.Tensor,  # [batch, q, n_hidden]
        *,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],  # cos, sin: [batch, q, head_dim]
        attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        **_: Any,
    ) -> torch.Tensor:
        batch, n, _n_hidden = hidden_states.shape
        heads = self._qkv(_normed(hidden_states, self.input_layernorm)).view(batch, n, -1, self._head_dim)
        qk, v = heads.transpose(1, 2).tensor_split([-self._n_kv_heads], dim=1)  # [batch, heads, q, head_dim]
        q, k = _rotated(qk, *position_embeddings).tensor_split([-self._n_kv_heads], dim=1)
        if cache is not None:
            k, v = cache.update(k, v, self._layer_idx)
        is_causal = attention_mask is None and n > 1
        attended = functional.scaled_dot_product_attention(
            q, k, v, attention_mask, is_causal=is_causal, enable_gqa=True
        )
        hidden_states = hidden_states + self._o(attended.transpose(1, 2).reshape(batch, n, -1))
        gate, up = self._gate_up(_normed(hidden_states, self.post_attention_layernorm)).chunk(2, dim=-1)
        return hidden_states + self._down(self._act(gate) * up)


def is_supported() -> bool:
    """Whether this torch and this CPU have the kernels: on x86, not on ARM."""
    return torch.backends.quantized.engine in ("fbgemm", "x86")


def pack(model: nn.Module, pack_linear: PackLinear) -> None:
    """Replace the linear layers and embeddings of a model on the CPU; the rest becomes float32.

    As many at once as there are threads. A layer that is tied to the embedding gets a packed copy. Raises ModelError.
    """
    replace: dict[type, Callable[..., nn.Module]] = {
        Qwen2DecoderLayer: lambda layer: FusedLayer(layer, pack_linear),
        nn.Linear: lambda linear: _joined(pack_linear, linear),
        nn.Embedding: SlimEmbedding,
    }

    def replace_one(place: tuple[nn.Module, str]) -> None:
        parent, name = place
        child = getattr(parent, name)
        setattr(parent, name, replace[type(child)](child))

    # FBGEMM packs in one thread, about 20 ns a weight, and lets others run meanwhile.
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(replace_one, _places(model, replace)))
    model.float()


def _places(parent: nn.Module, kinds: Container[type]) -> Iterator[tuple[nn.Module, str]]:
    """Parents and names of the outermost modules of these kinds; no modules, for a replaced one must not live on."""
    for name in [name for name, _ in parent.named_children()]:
        if type(getattr(parent, name)) in kinds:
            yield parent, name
        else:
            yield from _places(getattr(parent, name), kinds)


def form(model: nn.Module) -> str | None:
    """How the weights are packed, or None where they aren't."""
    return next((m.form for m in model.modules() if isinstance(m, PackedFloat16 | PackedInt8)), None)


def _joined(pack_linear: PackLinear, *linears: nn.Linear) -> nn.Module:
    """Layers with the same input as one, their outputs one after another."""
    weights: list[torch.Tensor] = [linear.weight for linear in linears]
    biases: list[torch.Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    return pack_linear(torch.cat(weights), torch.cat(biases) if biases else None)


def _normed(x: torch.Tensor, norm: Qwen2RMSNorm) -> torch.Tensor:
    return functional.rms_norm(x, norm.weight.shape, norm.weight, norm.variance_epsilon)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding; x: [batch, heads, q, head_dim], cos and sin: [batch, q, head_dim]."""
    return torch.addcmul(x * cos[:, None], rotate_half(x), sin[:, None])
