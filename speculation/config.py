"""Where things are and what an engine is told: presets, folders, EngineConfig. Reads no environment by itself."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import platformdirs

from speculation.errors import ConfigError

IDLE_EXIT_S = 15 * 60.0


@dataclass(frozen=True, slots=True)
class Preset:
    """A target and its small LM, both by Hugging Face id."""

    name: str
    target: str
    small_lm: str | None
    purpose: str


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("tiny", "Qwen/Qwen2.5-Coder-0.5B-Instruct", None, "tests, very small machines"),
        Preset(
            "small", "Qwen/Qwen2.5-Coder-1.5B-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct", "laptops (CPU default)"
        ),
        Preset(
            "medium",
            "Qwen/Qwen2.5-Coder-7B-Instruct",
            "Qwen/Qwen2.5-Coder-0.5B-Instruct",
            "GPUs from 20 GB (GPU default); 12 GB in int8, 10 GB in int4",
        ),
        Preset(
            "large", "Qwen/Qwen2.5-Coder-32B-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct", "48-80 GB, or several GPUs"
        ),
    )
}


def models_dir() -> Path:
    """Where fetched and converted weights live."""
    return platformdirs.user_cache_path("stet") / "models"


def state_dir() -> Path:
    """Where the database (alpha, T(q)) and the logs live."""
    return platformdirs.user_state_path("stet")


def runtime_dir() -> Path:
    """Where the engine's socket, lock and token live; only its user may enter."""
    return platformdirs.user_runtime_path("stet")


Passes = Literal["dynamic", "static", "same"]


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything an Engine needs to know. model: a preset, a Hugging Face id or a local folder or GGUF file."""

    model: str = "auto"
    """"auto": "medium" on a GPU with room for it, else "small"."""
    small_lm: str = "auto"
    """"auto": the preset's own; "none": copy only; else like model."""
    device: str = "auto"
    small_device: str = "auto"
    """Of the small LM; "auto": that of the target."""
    dtype: str = "auto"
    """Of the target: "auto", "float32", "bfloat16", "float16", "int8" or "int4". The last two make another
    target of it, int8 with wider near-ties. A small LM on a CPU is int8 whatever it says."""
    models_dir: Path = field(default_factory=models_dir)
    database: Path | None = field(default_factory=lambda: state_dir() / "stet.db")
    """None keeps alpha and T(q) in memory only."""
    passes: Passes = "dynamic"
    """"dynamic": as long as a draft and a KV cache are. "static": padded to a few lengths over caches of fixed size,
    and captured as CUDA graphs on a GPU. "same": all of one length, so that greedy output doesn't depend on gamma even
    in its last bit."""
    kv_budget_bytes: int = 1 << 30
    gamma_max: int = 256

    @property
    def small_kv_budget_bytes(self) -> int:
        """KV cache of the small LM, besides the target's."""
        return self.kv_budget_bytes // 4

    def __post_init__(self) -> None:
        if not 0 <= self.gamma_max <= 4096:
            raise ConfigError(f"gamma_max must be from 0 to 4096, not {self.gamma_max}")
        if self.passes not in get_args(Passes):
            raise ConfigError(f"passes must be {', '.join(get_args(Passes))}, not {self.passes!r}")
