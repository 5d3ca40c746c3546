"""Passes of a few fixed shapes over one KV cache of fixed size: what a GPU can capture once and replay as CUDA graphs.

A pass over n tokens is padded to the next bucket. The padding stands behind the tokens, so none of them sees it, and it
is taken back as a refused draft is: by counting, nothing is moved. The same code runs eagerly on a CPU and is tested
there; the capture itself is CUDA's alone.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from speculation.errors import ModelError
from speculation.models.cached_lm import CachedLM

BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SAME_BUCKET = (32,)
"""One shape for every pass: what a token becomes doesn't depend on how many were drafted, bit for bit."""
MIN_CAPACITY, MIN_CAPTURED = 1024, 4096
"""Room at first. When it grows all is captured anew, so where that is done it holds most files from the start."""
MIN_SEEN = 1024
"""How much of the room a captured pass looks at, at least; from there on in steps of two times. GPUs walk through all
of it in a few blocks, so that to look at 4,096 places for a text of 500 tokens may cost as much as the weights."""


class StaticLM(CachedLM):
    """A CachedLM whose passes are as long as a bucket. Raises ModelError for layers with a window.

    All passes run in one room of fixed size, which holds the prefix that was asked about last. Another one's keys and
    values are copied in when it is asked about: that takes less than one pass, a capture takes several.
    """

    def __init__(self, model: PreTrainedModel, kv_budget_bytes: int, buckets: Sequence[int] = BUCKETS) -> None:
        super().__init__(model, kv_budget_bytes)
        self.buckets = tuple(buckets)
        self._is_same = len(self.buckets) == 1
        if self._is_same:
            self.chunk = self.buckets[0]
        if len({weight.device for weight in model.parameters()}) > 1:
            raise ModelError("static passes need a model on one device; leave passes at dynamic")
        text_config = model.config.get_text_config()
        kinds = getattr(text_config, "layer_types", None)
        if set(kinds) - {"full_attention"} if kinds else getattr(text_config, "sliding_window", None):
            raise ModelError("static passes can't be had with a model that has windows; leave passes at dynamic")
        rope = getattr(text_config, "rope_parameters", None) or {}
        if rope.get("rope_type") in ("dynamic", "longrope"):  # by the length of the text, and padding would count
            raise ModelError(
                "static passes can't be had with positions (RoPE) scaled by length; leave passes at dynamic"
            )
        self._vacate()

    @property
    def captures(self) -> bool:
        """Whether a shape is captured when it comes the first time."""
        return self.device.type == "cuda"

    def logits(self, prefix: Sequence[int], continuation: Sequence[int]) -> torch.Tensor:
        """As ever, but what is too long for a bucket is fed in several passes; they hold until the next pass."""
        if len(prefix) - self.n_held(prefix) + len(continuation) > self.buckets[-1]:
            for _ in self.prefill(prefix[:-1]):
                pass
        return super().logits(prefix, continuation)

    def warm_up(self, n_prefix: int = 1) -> None:
        """Make room behind so many tokens for the longest pass, and run every length: the first time takes longer."""
        for q in reversed(self.buckets):
            self.logits([0] * n_prefix, [0] * (q - 1))

    def forget(self) -> None:
        """Drop every cache, the room and its graphs."""
        self._vacate()
        super().forget()

    def _vacate(self) -> None:
        self._room = FixedCache(self.model.config.get_text_config().num_hidden_layers, self.device)
        self._tenant: Stored | None = None
        """Whose keys and values are in the room."""
        self._graphs: dict[tuple[int, int], Graph] = {}
        """By how long a pass is, and how much of the room it looks at."""
        self._rows: torch.Tensor | None = None
        """Where captured passes leave their logits: each in rows of its own would take memory many times."""

    def _new_cache(self) -> "Stored":
        return Stored()

    def _n_reserved(self, slot: Any) -> int:
        return 0 if slot.cache is self._tenant else len(slot.token_ids)

    def _make_room(self, n_tokens: int, keep: Any) -> bool:
        return super()._make_room(n_tokens - self._room.capacity, keep)

    def _branch(self, slot: Any, n_shared: int) -> Any:
        self._leave()
        return super()._branch(slot, n_shared)

    def _leave(self) -> None:
        """Put what is in the room beside it, if anybody will ask for it."""
        if any(slot.cache is self._tenant for slot in self._slots):
            assert self._tenant is not None
            self._tenant.states = [
                (layer.keys[:, :, : self._tenant.n_held].clone(), layer.values[:, :, : self._tenant.n_held].clone())
                for layer in self._room.layers
                if layer.keys is not None and layer.values is not None
            ]
        self._tenant = None

    def _enter(self, cache: "Stored", n_more: int) -> None:
        """Bring a prefix into the room, with room for so many tokens more."""
        if self._tenant is not cache:
            self._leave()
        if is_too_small := cache.n_held + n_more > self._room.capacity:
            n_more, n_min = (max(n_more, self.buckets[-1]), MIN_CAPTURED) if self.captures else (n_more, MIN_CAPACITY)
            self._room.grow(max(cache.n_held + n_more, n_min))
            self._graphs.clear()
        for layer, states in zip(self._room.layers, cache.states, strict=False):
            layer.fill(*(state[:, :, : cache.n_held] for state in states))
        cache.states, self._tenant = [], cache
        self._room.hold(cache.n_held)
        if is_too_small and self.captures:
            self._capture_all()

    def _pass(self, cache: "Stored", token_ids: list[int], n_logits: int) -> torch.Tensor:
        n = len(token_ids)
        # Few rows of many are wanted. A capture is worth more than the rows that it computes in vain.
        is_prefill = n_logits < n and not self._is_same and (not self.captures or n > self.buckets[-1])
        q = n if is_prefill else padded(n, self.buckets)
        self._enter(cache, q)
        ids = torch.tensor([token_ids + [0] * (q - n)], device=self.device)
        n_seen = self._room.capacity if self._is_same else cache.n_held + q  # what is always the same has one shape
        if self.captures and not is_prefill:
            logits = self._captured(q, n_seen)(ids)
        else:
            logits = self._run(ids, n_logits if is_prefill else q, n_seen)
        cache.n_held += n
        return logits[len(logits) - q + n - n_logits : len(logits) - q + n]

    def _capture_all(self) -> None:
        """At once: later, each would come in the middle of a rewrite. They write behind what is held, as padding is."""
        n_seen = self._room.capacity if self._is_same else MIN_SEEN
        while n_seen <= self._room.capacity:
            for q in self.buckets:
                self._captured(q, n_seen)
            n_seen *= 2

    def _captured(self, q: int, n_seen: int) -> "Graph":
        """The pass over q tokens that looks at n_seen places or some more."""
        n_seen = max(MIN_SEEN, 1 << (n_seen - 1).bit_length())
        if (q, n_seen) not in self._graphs:
            other = next(iter(self._graphs.values()), None)
            ids = torch.zeros((1, q), dtype=torch.long, device=self.device)
            self._graphs[q, n_seen] = Graph(lambda ids: self._left(self._run(ids, q, n_seen)), ids, other)
        return self._graphs[q, n_seen]

    def _left(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits where all captured passes leave them."""
        if self._rows is None or len(self._rows) < len(logits):
            self._rows = logits.new_empty((max(len(logits), self.buckets[-1]), logits.shape[-1]))
        return self._rows[: len(logits)].copy_(logits)

    def _run(self, ids: torch.Tensor, n_rows: int, n_seen: int) -> torch.Tensor:
        """One pass behind what the room holds, which counts none of it: the last n_rows rows of logits."""
        # Nothing here waits for the device or depends on how much is held, so it can be captured.
        room = self._room
        room.n_seen = n_seen
        room.places = torch.arange(ids.shape[1], device=self.device) + room.length
        unseen = torch.arange(room.n_seen, device=self.device) > room.places[:, None]  # [q, n_seen]
        # As numbers to be added: a mask of truth values would be made into these in each layer.
        mask = torch.zeros(unseen.shape, dtype=self.model.dtype, device=self.device).masked_fill_(unseen, -torch.inf)
        logits: torch.Tensor = self.model(
            input_ids=ids,
            attention_mask=mask[None, None],
            position_ids=room.places[None],
            cache=room,
            use_cache=True,
            logits_to_keep=n_rows,
        ).logits[0]
        return logits


class Graph:
    """A pass of one shape, captured on the GPU: one launch instead of hundreds."""

    def __init__(self, run: Callable[[torch.Tensor], torch.Tensor], ids: torch.Tensor, other: "Graph | None") -> None:
        """other: one of the same model, whose memory it may use, for no two of them run at once."""
        self._ids = ids
        # A stream for each model, on its own GPU: torch keeps a workspace of cuBLAS for each stream, and takes it away
        # with any graph that was captured there (pytorch issue 193402).
        self._stream: torch.cuda.Stream = torch.cuda.Stream(ids.device) if other is None else other._stream
        pool = None if other is None else other._graph.pool()
        with torch.cuda.device(ids.device):
            # Libraries set themselves up in their first calls, which can't be captured.
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                for _ in range(2):
                    run(self._ids)
            torch.cuda.current_stream().wait_stream(self._stream)
            self._graph: torch.cuda.CUDAGraph = torch.cuda.CUDAGraph()
            # Other threads answer requests meanwhile: what they ask of the driver doesn't concern the capture.
            with torch.cuda.graph(self._graph, pool, self._stream, capture_error_mode="thread_local"):
                self._logits = run(self._ids)

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        """The logits; they hold until the next call of this or another one that shares its memory."""
        self._ids.copy_(ids)
        self._graph.replay()
        return self._logits


@dataclass(eq=False)
class Stored:
    """What is held of one prefix."""

    n_held: int = 0
    states: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    """Keys and values by layer, [1, heads, n_held or more, head_dim], while another prefix is in the room."""

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last tokens; a negative number, as transformers has it."""
        self.n_held += tokens_to_remove


class FixedCache(Cache):
    """The room: keys and values at fixed addresses. A pass writes behind `length`."""

    places: torch.Tensor
    """Where the pass under way writes: [q]."""

    def __init__(self, n_layers: int, device: torch.device) -> None:
        self.n_held = 0
        """As length; known without asking the device."""
        self.length = torch.zeros((), dtype=torch.long, device=device)
        self.capacity = 0
        self.n_seen = 0
        """How much of the room a pass looks at: at least what is held and what it brings."""
        super().__init__(layers=[FixedLayer(self) for _ in range(n_layers)])

    @torch.inference_mode()
    def hold(self, n_tokens: int) -> None:
        """Say how many tokens count."""
        self.n_held = n_tokens
        self.length.fill_(n_tokens)

    @torch.inference_mode()
    def grow(self, n_tokens: int) -> None:
        """Make room for so many, in steps of two times. Addresses change."""
        self.capacity = 1 << (n_tokens - 1).bit_length()
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
        self.keys, self.values = (self._space(states) for states in (key_states, value_states))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write behind the length; what is seen of the room comes back, and the mask says what of it counts."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        self.keys.index_copy_(2, self._cache.places, key_states)
        self.values.index_copy_(2, self._cache.places, value_states)
        return self.keys[:, :, : self._cache.n_seen], self.values[:, :, : self._cache.n_seen]

    @torch.inference_mode()
    def fill(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put a prefix's keys and values in, from the first place on."""
        assert self.keys is not None and self.values is not None
        self.keys[:, :, : keys.shape[2]] = keys
        self.values[:, :, : values.shape[2]] = values

    def grow(self) -> None:
        """Move to a larger room."""
        if self.keys is not None and self.values is not None:
            for name, old in (("keys", self.keys), ("values", self.values)):
                space = self._space(old)
                space[:, :, : old.shape[2]] = old
                setattr(self, name, space)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of what a mask covers."""
        return self._cache.n_seen, 0

    def get_seq_length(self) -> int:
        """Tokens held."""
        return self._cache.n_held

    def get_max_length(self) -> int:
        """Tokens that there is room for."""
        return self._cache.capacity

    def _space(self, like: torch.Tensor) -> torch.Tensor:
        batch, heads, _, width = like.shape
        return like.new_zeros((batch, heads, self._cache.capacity, width))


def padded(n: int, buckets: Sequence[int]) -> int:
    """How long a pass over n positions is: the next bucket, beyond the last a multiple of it."""
    if n > buckets[-1]:
        return -(-n // buckets[-1]) * buckets[-1]
    return buckets[bisect_left(buckets, n)]
