"""A Qwen2 layer in fewer operations than transformers' own: on a CPU and on a GPU alike each costs its launch.

Knows modules; no folders, devices or settings.
"""

from collections.abc import Callable, Container, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import Cache
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RMSNorm, rotate_half

MakeLinear = Callable[[torch.Tensor, torch.Tensor | None], nn.Module]
"""From weight [n_out, n_in] and bias [n_out]."""


def fuse(model: nn.Module) -> None:
    """Replace the Qwen2 layers of a model in place, whatever its device and dtype; other models stay as they are."""
    for parent, name in list(places(model, {Qwen2DecoderLayer})):
        setattr(parent, name, FusedLayer(getattr(parent, name), plain_linear))


def places(parent: nn.Module, kinds: Container[type]) -> Iterator[tuple[nn.Module, str]]:
    """Parents and names of the outermost modules of these kinds; no modules, for a replaced one must not live on."""
    for name in [name for name, _ in parent.named_children()]:
        if type(getattr(parent, name)) in kinds:
            yield parent, name
        else:
            yield from places(getattr(parent, name), kinds)


def plain_linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    """A linear layer of these weights."""
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    linear.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        linear.bias = nn.Parameter(bias, requires_grad=False)
    return linear


class FusedLayer(nn.Module):
    """A Qwen2 decoder layer in fewer operations: one linear layer for q, k and v, one for gate and up, fused norms.

    Keys and values are shared by heads where transformers copies them for each head, all of the context in every pass
    over several positions. Takes the place of Qwen2DecoderLayer, masks and KV cache included.
    """

    def __init__(self, layer: Qwen2DecoderLayer, make: MakeLinear) -> None:
        super().__init__()
        attention, mlp = layer.self_attn, layer.mlp
        self.input_layernorm, self.post_attention_layernorm = layer.input_layernorm, layer.post_attention_layernorm
        self._layer_idx, self._head_dim = attention.layer_idx, attention.head_dim
        self._n_kv_heads = attention.k_proj.out_features // attention.head_dim
        self._qkv = joined(make, attention.q_proj, attention.k_proj, attention.v_proj)
        self._o = joined(make, attention.o_proj)
        self._gate_up = joined(make, mlp.gate_proj, mlp.up_proj)
        self._down = joined(make, mlp.down_proj)
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
        attended = attend(q, k, v, attention_mask)
        hidden_states = hidden_states + self._o(attended.transpose(1, 2).reshape(batch, n, -1))
        gate, up = self._gate_up(_normed(hidden_states, self.post_attention_layernorm)).chunk(2, dim=-1)
        return hidden_states + self._down(self._act(gate) * up)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Attention of q [batch, heads, n, head_dim] over fewer heads of k and v; without a mask each sees those before it.

    mask: [batch, 1, n, n_seen].
    """
    if mask is None:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1, enable_gqa=True)
    # CUDA's kernels that take a mask have no shared heads: those that share one become rows of one.
    batch, n_heads, n, width = q.shape
    n_groups = n_heads // k.shape[1]
    rows = q.reshape(batch, -1, n_groups * n, width)
    attended = functional.scaled_dot_product_attention(rows, k, v, mask.repeat(1, 1, n_groups, 1))
    return attended.reshape(batch, n_heads, n, width)


def joined(make: MakeLinear, *linears: nn.Linear) -> nn.Module:
    """Layers with the same input as one, their outputs one after another."""
    weights: list[torch.Tensor] = [linear.weight for linear in linears]
    biases: list[torch.Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    if len(linears) == 1:
        return make(weights[0], linears[0].bias)
    return make(torch.cat(weights), torch.cat(biases) if biases else None)


def _normed(x: torch.Tensor, norm: Qwen2RMSNorm) -> torch.Tensor:
    return functional.rms_norm(x, norm.weight.shape, norm.weight, norm.variance_epsilon)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding; x: [batch, heads, q, head_dim], cos and sin: [batch, q, head_dim]."""
    return torch.addcmul(x * cos[:, None], rotate_half(x), sin[:, None])
