"""Tiny random models in float32 and a byte-level tokenizer, made on the spot: real code paths without a download."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from speculation.types import Draft

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
END = "<|im_end|>"
CHAT_TEMPLATE = (
    "{%- if messages[0].role != 'system' %}<|im_start|>system\nBe brief.<|im_end|>\n{% endif %}"
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CORPUS = ["def add(a, b):\n    return a + b\n", "for name in names:\n    print(name)\n", "class Box:\n    pass\n"]
N_CONTEXT = 512
# transformers gives every Qwen2 folder Qwen's own way of cutting text into words.
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@cache
def tokenizer() -> Any:
    """Bytes, a few merges, three control tokens and a chat template: about 300 tokens."""
    bpe = Tokenizer(BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False))
    bpe.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, pad_token=CONTROL[0], chat_template=CHAT_TEMPLATE
    )


def model(vocab_size: int = 12, seed: int = 0, **config: Any) -> Qwen2ForCausalLM:
    """A random Qwen2 with weights large enough that its answers depend on all of the prompt."""
    settings = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": N_CONTEXT,
        "initializer_range": 0.4,
        "bos_token_id": None,
        "eos_token_id": None,
        "tie_word_embeddings": False,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        built = Qwen2ForCausalLM(Qwen2Config(vocab_size=vocab_size, **{**settings, **config}))
    return built.to(torch.float32).eval().requires_grad_(False)


def save(folder: Path, seed: int = 0, n_padding: int = 5, **config: Any) -> str:
    """A model folder that an engine opens: random weights, the tokenizer, and some rows of padded vocabulary."""
    ends = {"eos_token_id": tokenizer().convert_tokens_to_ids(END)}
    built = model(len(tokenizer()) + n_padding, seed, **{**ends, **config})
    built.generation_config.eos_token_id = ends["eos_token_id"]
    built.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


class Scripted:
    """Drafts as a list says, one a pass; then none. Cut to the room that the loop gives."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self._drafts: Iterator[Draft] = iter(drafts)
        self.seen: list[tuple[Draft, int, tuple[int, ...]]] = []

    def propose(self, prefix: Sequence[int], n_max: int) -> Draft:
        draft = next(self._drafts, Draft())
        return Draft(draft.token_ids[:n_max], draft.source, draft.match_len, draft.q[:n_max])

    def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
        self.seen.append((draft, n_accepted, tuple(token_ids)))
