"""A causal language model whose KV caches follow the prefix they are asked about; it owns them.

Nobody else crops, copies or repairs a cache: callers name a prefix, and the tokens that a cache holds already are not
fed again. Several caches are kept within a memory budget: the next request on the same file prefills only what is new.
"""

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from speculation.errors import ModelError
from speculation.models import packed

PREFILL_CHUNK = {"cpu": 128}
"""Positions of one prefill pass by device: on a CPU a chunk must end soon enough for a cancel."""
PREFILL_CHUNK_GPU = 1024
MIN_SHARED = 0.5
"""A cache that shares less of itself with the new prefix is left for its own file when the budget allows."""

CROPPABLE = {"full_attention", "sliding_attention", "chunked_attention"}
"""Layers whose state is keys and values by position; others keep a running state that can't be rolled back."""

MEASURED_Q = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SLOW_PASS_S = 0.5
STEEP = 3.0
MIN_MEASURED_Q = 16  # one hiccup of the machine must not end the measurement at once
N_MEASURED_PREFIX = 64

_clock = count()


@dataclass
class _Slot:
    cache: Any
    token_ids: list[int] = field(default_factory=list)
    used: int = field(default_factory=lambda: next(_clock))


class CachedLM:
    """Logits of a causal LM after any prefix, at the price of the tokens that are new. Raises ModelError."""

    has_encoder = False
    buckets: tuple[int, ...] = ()
    """How long passes are, when they are padded."""

    def __init__(self, model: PreTrainedModel, kv_budget_bytes: int) -> None:
        self.model = model
        self._device = model.device
        self._budget = kv_budget_bytes
        self._slots: list[_Slot] = []
        config = model.config.get_text_config()
        if others := set(getattr(config, "layer_types", None) or ()) - CROPPABLE:
            raise ModelError(
                f"A {config.model_type} model can't be used: its {', '.join(sorted(others))} layers can't take back a "
                "refused draft. Choose a model whose layers all are attention."
            )
        self.kv_bytes_per_token = kv_bytes_per_token(model.config, model.dtype.itemsize)
        self.n_vocab: int = config.vocab_size
        """Length of a row of logits: the tokenizer's vocabulary and its padding."""
        self.chunk = PREFILL_CHUNK.get(self._device.type, PREFILL_CHUNK_GPU)

    @property
    def device(self) -> torch.device:
        """Where logits come from."""
        return self._device

    @property
    def dtype(self) -> str:
        """Of the weights: torch's name, or the form in which they are packed."""
        return packed.form(self.model) or str(self.model.dtype).removeprefix("torch.")

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer, from the generation config and the model's own."""
        ids: set[int] = set()
        for config in (self.model.generation_config, self.model.config):
            eos = getattr(config, "eos_token_id", None)
            ids.update([eos] if isinstance(eos, int) else eos or ())
        return frozenset(ids)

    @property
    def prompt_end(self) -> tuple[int, ...]:
        """Tokens that must stand behind a prompt of plain text."""
        return ()

    def reading(self, prompt: Sequence[int]) -> "CachedLM":
        """Whom to ask about answers to this prompt."""
        return self

    def begin(self, prompt: Sequence[int]) -> list[int]:
        """The prefix with which answers to this prompt begin."""
        return list(prompt)

    def n_held(self, prefix: Sequence[int]) -> int:
        """How many tokens of prefix the best cache holds."""
        return max((_shared(slot.token_ids, prefix) for slot in self._slots), default=0)

    def prefill(self, prefix: Sequence[int]) -> Iterator[int]:
        """Feed prefix in chunks; yields the tokens held, first what was there already. Each chunk is one pass."""
        _, n_held = self._follow(prefix)
        yield n_held
        while n_held < len(prefix):
            slot, n_held = self._follow(prefix)  # since the yield another request may have had the caches
            if chunk := list(prefix[n_held : n_held + self.chunk]):
                self._forward(slot, chunk, n_logits=1)
                wait_for(self._device)  # else a GPU's progress is told ahead, and its time counts as the next pass's
            n_held += len(chunk)
            yield n_held

    @torch.inference_mode()
    def logits(self, prefix: Sequence[int], continuation: Sequence[int]) -> torch.Tensor:
        """Next-token logits after prefix and after each continuation token: [len(continuation) + 1, vocab], one pass.

        The tokens of prefix that no cache holds are fed in the same pass; prefix must not be empty.
        """
        # The last token of prefix is always fed: its logits are the first row.
        slot, n_held = self._follow(prefix, n_max=len(prefix) - 1)
        return self._forward(slot, [*prefix[n_held:], *continuation], n_logits=len(continuation) + 1)

    def forget(self) -> None:
        """Drop every cache, and give its memory back to the device."""
        self._slots = []
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    @torch.inference_mode()
    def _forward(self, slot: _Slot, token_ids: list[int], n_logits: int) -> torch.Tensor:
        self._make_room(self._budget // self.kv_bytes_per_token - len(token_ids), keep=slot)
        try:
            logits = self._pass(slot.cache, token_ids, n_logits)
        except BaseException:
            # A pass that broke off may have grown some layers and not others.
            self._slots.remove(slot)
            raise
        slot.token_ids += token_ids
        return logits  # [n_logits, vocab]

    def _new_cache(self) -> Any:
        # Without the config: layers with a sliding window get a whole cache too, which can be cropped.
        return DynamicCache()

    def _pass(self, cache: Any, token_ids: list[int], n_logits: int) -> torch.Tensor:
        """Feed tokens to the model behind what the cache holds; the last n_logits rows of logits."""
        ids = torch.tensor([token_ids], device=self._device)
        logits: torch.Tensor = self.model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=n_logits).logits[0]
        return logits

    def _follow(self, prefix: Sequence[int], n_max: int | None = None) -> tuple[_Slot, int]:
        """The slot that shares most with prefix, cropped to what it shares (n_max tokens at most)."""
        prefix = prefix if isinstance(prefix, list) else list(prefix)
        slot = max(self._slots, key=lambda s: (_shared(s.token_ids, prefix), s.used), default=None)
        n_shared = 0 if slot is None else min(_shared(slot.token_ids, prefix), len(prefix) if n_max is None else n_max)
        if slot is None or (n_shared < MIN_SHARED * len(slot.token_ids) and self._has_room(slot, prefix)):
            slot = self._branch(slot, n_shared)
        surplus = len(slot.token_ids) - n_shared
        if surplus:
            slot.cache.crop(-surplus)
            del slot.token_ids[n_shared:]
        slot.used = next(_clock)
        return slot, n_shared

    def _branch(self, slot: _Slot | None, n_shared: int) -> _Slot:
        """A new slot for another prefix; what it shares with the old one is copied, not fed again."""
        if slot is None or not n_shared:
            new = _Slot(self._new_cache())
        else:
            new = _Slot(copy.deepcopy(slot.cache), list(slot.token_ids))
        self._slots.append(new)
        return new

    def _has_room(self, best: _Slot, prefix: Sequence[int]) -> bool:
        """Make room for one more cache of this length beside the best one; False if it can't be."""
        return self._make_room(self._budget // self.kv_bytes_per_token - max(len(prefix), len(best.token_ids)), best)

    def _make_room(self, n_tokens: int, keep: _Slot) -> bool:
        """Hold n_tokens at most: the longest unused caches go, all but one; False if that is not enough."""
        n_reserved = sum(map(self._n_reserved, self._slots))
        for slot in sorted(self._slots, key=lambda s: s.used):
            if n_reserved > n_tokens and slot is not keep:
                self._slots.remove(slot)
                n_reserved -= self._n_reserved(slot)
        return n_reserved <= n_tokens

    def _n_reserved(self, slot: _Slot) -> int:
        """Tokens whose memory the slot takes."""
        return len(slot.token_ids)

    def pass_seconds(self) -> dict[int, float]:
        """Measure T(q): seconds of one pass over q positions behind a short prefix, the better of two tries.

        Stops where a pass is slow and costs several single ones: beyond that the time grows in proportion.
        """
        seconds: dict[int, float] = {}
        self._timed_pass(1)  # the first pass of a process warms up
        for q in MEASURED_Q:
            seconds[q] = self._timed_pass(q)
            # On a machine that is busy with something else one try must do; the first of a shape may be its capture.
            if seconds[q] < SLOW_PASS_S or self.buckets:
                seconds[q] = min(seconds[q], self._timed_pass(q))
            if q >= MIN_MEASURED_Q and seconds[q] > max(SLOW_PASS_S, STEEP * seconds[1]):
                break
        self.forget()
        return seconds

    def _timed_pass(self, q: int) -> float:
        prefix = [0] * N_MEASURED_PREFIX
        for _ in self.prefill(prefix[:-1]):
            pass
        started = time.perf_counter()
        self.logits(prefix, [0] * (q - 1))[-1].argmax().item()  # .item() waits for the device
        return time.perf_counter() - started


def wait_for(device: torch.device) -> None:
    """Until all that was asked of the device is done."""
    if device.type in ("cuda", "mps"):
        torch.accelerator.synchronize(device)


def kv_bytes_per_token(config: Any, n_bytes_a_number: int) -> int:
    """Keys and values of all layers for one token."""
    config = config.get_text_config()
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    n_kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    n_bytes: int = 2 * config.num_hidden_layers * n_kv_heads * head_dim * n_bytes_a_number
    return n_bytes


def _shared(held: list[int], prefix: Sequence[int]) -> int:
    """Length of the longest common prefix; list comparison in C first, then bisection."""
    low, high = 0, min(len(held), len(prefix))
    prefix = prefix if isinstance(prefix, list) else list(prefix)
    while low < high:
        middle = (low + high + 1) // 2
        if held[low:middle] == prefix[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
