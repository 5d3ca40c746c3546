"""Encoder-decoder targets (T5): the prompt goes through the encoder once, drafts and prefixes are the decoder's.

The rest of the engine sees a CachedLM whose prefix begins with the decoder's start token instead of the prompt.
"""

from collections.abc import Sequence

import torch
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from speculation.config import Passes
from speculation.errors import ModelError
from speculation.models.cached_lm import N_MEASURED_PREFIX, CachedLM
from speculation.models.static import BUCKETS, SAME_BUCKET, StaticLM


def following(model: PreTrainedModel, kv_budget_bytes: int, passes: Passes = "dynamic") -> CachedLM:
    """The class that suits the model and the wish. Raises ModelError."""
    if model.config.is_encoder_decoder:
        if passes != "dynamic":
            raise ModelError(f"{passes} passes can't be had with an encoder-decoder model; leave passes at dynamic")
        return Seq2SeqLM(model, kv_budget_bytes)
    if passes == "dynamic":
        return CachedLM(model, kv_budget_bytes)
    return StaticLM(model, kv_budget_bytes, BUCKETS if passes == "static" else SAME_BUCKET)


class Seq2SeqLM(CachedLM):
    """Logits of a decoder after any prefix. What is asked is the one that `reading` gives: it has read a prompt."""

    has_encoder = True

    def __init__(self, model: PreTrainedModel, kv_budget_bytes: int, encoded: BaseModelOutput | None = None) -> None:
        super().__init__(model, kv_budget_bytes)
        self._kv_budget_bytes = kv_budget_bytes
        self._encoded = encoded

    @property
    def prompt_end(self) -> tuple[int, ...]:
        """T5's encoder expects the end token behind a text."""
        eos = self.model.config.eos_token_id
        return () if eos is None else (eos,)

    @torch.inference_mode()
    def reading(self, prompt: Sequence[int]) -> CachedLM:
        """A decoder for this prompt alone, with KV caches of its own.

        The encoder sees the prompt in both directions, so what it made of another prompt is of no use here.
        """
        ids = torch.tensor([list(prompt)], device=self.device)
        encoded = self.model.get_encoder()(input_ids=ids, return_dict=True)
        return Seq2SeqLM(self.model, self._kv_budget_bytes, encoded)

    def begin(self, prompt: Sequence[int]) -> list[int]:
        """The decoder's start token."""
        return [self.model.config.decoder_start_token_id]

    def pass_seconds(self) -> dict[int, float]:
        """T(q) of the decoder, behind a short prompt."""
        if self._encoded is None:
            return self.reading([0] * N_MEASURED_PREFIX).pass_seconds()
        return super().pass_seconds()

    def _new_cache(self) -> EncoderDecoderCache:
        return EncoderDecoderCache(DynamicCache(), DynamicCache())

    def _pass(self, cache: EncoderDecoderCache, token_ids: list[int], n_logits: int) -> torch.Tensor:
        assert self._encoded is not None, "nothing was read"
        output = self.model(
            encoder_outputs=self._encoded,
            decoder_input_ids=torch.tensor([token_ids], device=self.device),
            cache=cache,
            use_cache=True,
        )
        return output.logits[0, -n_logits:]
