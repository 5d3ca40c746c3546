"""Errors a user can act on. Each message says what was wanted, what came and what to do.

StetError
├── ConfigError      a setting, an argument or a request field that can't be used
├── ModelError       no such model, damaged weights, a vocabulary that doesn't match
├── FetchError       weights could not be fetched: network, disk, digest
├── ContextTooLong   the prompt and its answer don't fit into the model's context
└── EngineError      the engine process can't be reached, started or trusted
    └── EngineStopping   it is leaving; ask again, and another one is started
"""

import re

NO_MEMORY = re.compile("out of memory|(can't|cannot) allocate memory|not enough memory|ALLOC_FAILED", re.IGNORECASE)


class StetError(Exception):
    """Base of every error that is shown to a user as one line."""

    code = "stet_error"


class ConfigError(StetError):
    """A setting, an argument or a request field that can't be used."""

    code = "invalid_request"


class ModelError(StetError):
    """No such model, damaged weights or a vocabulary that doesn't match."""

    code = "model_error"


class FetchError(StetError):
    """Weights could not be fetched: network, disk or digest."""

    code = "fetch_error"


class ContextTooLong(StetError):
    """The prompt and its answer don't fit into the model's context."""

    code = "context_length_exceeded"


class EngineError(StetError):
    """The engine process can't be reached, started or trusted."""

    code = "engine_error"


class EngineStopping(EngineError):
    """The engine is leaving: the same request, sent again, starts another one."""

    code = "engine_stopping"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, the GPU's or the machine's.

    By name and text, so that nobody needs torch for it; on a CPU and on a Mac its error has no type of its own.
    """
    is_known = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return is_known or NO_MEMORY.search(str(error)) is not None


def first_line(error: BaseException) -> str:
    """What an error of others says, as one line; its name where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
