"""Passes of a few fixed shapes over KV caches of fixed size: what a GPU can capture once and replay as CUDA graphs.

A pass over n tokens is padded to the next bucket. The padding stands behind the tokens, so none of them sees it, and it
is taken back as a refused draft is: by counting, nothing is moved. The same code runs eagerly on a CPU and is tested
there; the capture itself is CUDA's alone.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from speculation.errors import ModelError
from speculation.models.cached_lm import CachedLM

BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SAME_BUCKET = (32,)
"""One shape for every pass: what a token becomes doesn't depend on how many were drafted, bit for bit."""
MIN_CAPACITY = 1024


class StaticLM(CachedLM):
    """A CachedLM whose passes are as long as a bucket. Raises ModelError for layers with a window."""

    def __init__(self, model: PreTrainedModel, kv_budget_bytes: int, buckets: Sequence[int] = BUCKETS) -> None:
        super().__init__(model, kv_budget_bytes)
        self.buckets = tuple(buckets)
        self.chunk = min(self.chunk, self.buckets[-1])
        self._graphs: WeakKeyDictionary[FixedCache, dict[int, Graph]] = WeakKeyDictionary()
        if len({weight.device for weight in model.parameters()}) > 1:
            raise ModelError("static passes need a model on one device; leave passes at dynamic")
        if set(getattr(model.config.get_text_config(), "layer_types", None) or ()) - {"full_attention"}:
            raise ModelError("static passes can't be had with a model that has windows; leave passes at dynamic")

    def logits(self, prefix: Sequence[int], continuation: Sequence[int]) -> torch.Tensor:
        """As ever, but what is too long for a bucket is fed in several passes."""
        if len(prefix) - self.n_held(prefix) + len(continuation) > self.buckets[-1]:
            for _ in self.prefill(prefix[:-1]):
                pass
        return super().logits(prefix, continuation)

    def _new_cache(self) -> "FixedCache":
        return FixedCache(self.model.config.get_text_config().num_hidden_layers, self.device)

    def _n_reserved(self, slot: Any) -> int:
        return int(slot.cache.capacity)

    def _pass(self, cache: "FixedCache", token_ids: list[int], n_logits: int) -> torch.Tensor:
        n = len(token_ids)
        q = padded(n, self.buckets)
        if cache.n_held + q > cache.capacity:
            cache.grow(cache.n_held + q)
            self._graphs.pop(cache, None)
        ids = torch.tensor([token_ids + [0] * (q - n)], device=self.device)
        is_same = len(self.buckets) == 1
        is_prefill = n_logits < n and not is_same  # few rows of many are wanted
        is_captured = self.device.type == "cuda" and not is_prefill
        # The shape of a captured pass can't change, and that of one that is always the same must not.
        cache.n_seen = cache.capacity if is_captured or is_same else cache.n_held + q
        if not is_captured:
            logits = self._run(cache, ids, q - n + n_logits if is_prefill else q)
        else:
            graphs = self._graphs.setdefault(cache, {})
            if q not in graphs:
                graphs[q] = Graph(lambda ids: self._run(cache, ids, q), ids)
            logits = graphs[q](ids)
        cache.advance(n)
        return logits[len(logits) - q + n - n_logits : len(logits) - q + n]

    def _run(self, cache: "FixedCache", ids: torch.Tensor, n_rows: int) -> torch.Tensor:
        """One pass behind what the cache holds, which counts none of it: the last n_rows rows of logits."""
        # Nothing here waits for the device or depends on how much is held, so it can be captured.
        positions = torch.arange(ids.shape[1], device=self.device) + cache.length
        seen = torch.arange(cache.n_seen, device=self.device) <= positions[:, None]  # [q, n_seen]
        logits: torch.Tensor = self.model(
            input_ids=ids,
            attention_mask=seen[None, None],
            position_ids=positions[None],
            cache=cache,
            use_cache=True,
            logits_to_keep=n_rows,
        ).logits[0]
        return logits


class Graph:
    """A pass of one shape, captured on the GPU: one launch instead of hundreds."""

    def __init__(self, run: Callable[[torch.Tensor], torch.Tensor], ids: torch.Tensor) -> None:
        self._ids = ids.clone()
        # Libraries set themselves up in their first calls, which can't be captured.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                run(self._ids)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._logits = run(self._ids)

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        """The logits; they hold until the next call."""
        self._ids.copy_(ids)
        self._graph.replay()
        return self._logits


class FixedCache(Cache):
    """Keys and values at fixed addresses. A pass writes behind `length`; `advance` says how much of it counts."""

    def __init__(self, n_layers: int, device: torch.device) -> None:
        self.n_held = 0
        """As length; known without asking the device."""
        self.length = torch.zeros((), dtype=torch.long, device=device)
        self.capacity = 0
        self.n_seen = 0
        """How much of the room a pass looks at: at least what is held and what it brings."""
        super().__init__(layers=[FixedLayer(self) for _ in range(n_layers)])

    @torch.inference_mode()
    def advance(self, n: int) -> None:
        """Count n more tokens, fewer when negative."""
        self.n_held += n
        self.length.add_(n)

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last tokens; a negative number, as transformers has it."""
        self.advance(tokens_to_remove)

    @torch.inference_mode()
    def grow(self, n_tokens: int) -> None:
        """Make room for so many, in steps of two times. Addresses change."""
        self.capacity = max(MIN_CAPACITY, 1 << (n_tokens - 1).bit_length())
        for layer in self.layers:
            layer.grow()


class FixedLayer(CacheLayerMixin):
    """One layer of it: [1, heads, capacity, head_dim]."""

    is_compileable = True
    is_croppable = True
    is_sliding = False

    def __init__(self, cache: FixedCache) -> None:
        super().__init__()
        self._cache = cache

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Room as the cache has it; zeros, so that what nobody sees is a number."""
        self.keys, self.values = (self._room(states) for states in (key_states, value_states))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write behind the length; what is seen of the room comes back, and the mask says what of it counts."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        places = torch.arange(key_states.shape[-2], device=key_states.device) + self._cache.length
        self.keys.index_copy_(2, places, key_states)
        self.values.index_copy_(2, places, value_states)
        return self.keys[:, :, : self._cache.n_seen], self.values[:, :, : self._cache.n_seen]

    def grow(self) -> None:
        """Move to a larger room."""
        if self.keys is not None and self.values is not None:
            n = self._cache.n_held
            for name, old in (("keys", self.keys), ("values", self.values)):
                room = self._room(old)
                room[:, :, :n] = old[:, :, :n]
                setattr(self, name, room)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of what a mask covers."""
        return self._cache.n_seen, 0

    def get_seq_length(self) -> int:
        """Tokens held."""
        return self._cache.n_held

    def get_max_length(self) -> int:
        """Tokens that there is room for."""
        return self._cache.capacity

    def _room(self, like: torch.Tensor) -> torch.Tensor:
        batch, heads, _, width = like.shape
        return like.new_zeros((batch, heads, self._cache.capacity, width))


def padded(n: int, buckets: Sequence[int]) -> int:
    """How long a pass over n positions is: the next bucket, beyond the last a multiple of it."""
    if n > buckets[-1]:
        return -(-n // buckets[-1]) * buckets[-1]
    return buckets[bisect_left(buckets, n)]
