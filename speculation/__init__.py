"""Lossless speculative decoding for code edits: an engine as a library, and a small inference server.

Engine is imported on first use: the language server reads this package's config without paying for torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from speculation.config import EngineConfig
    from speculation.engine import Engine
    from speculation.types import Chunk

__all__ = ["Chunk", "Engine", "EngineConfig"]

_HOMES = {"Chunk": "types", "Engine": "engine", "EngineConfig": "config"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
