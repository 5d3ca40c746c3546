"""What the user sets in the editor, section "stet". No file is read: no repository can point Stet at another server."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from speculation.config import IDLE_EXIT_S


@dataclass(frozen=True)
class Settings:
    """Defaults suit a machine of one's own."""

    model: str = "auto"
    """A preset, a Hugging Face id or a local path; for a server by URL, the model's name there."""
    small_lm: str = "auto"
    dtype: str = "auto"
    """Of the target's weights."""
    idle_exit_minutes: float = IDLE_EXIT_S / 60
    server_url: str | None = None
    """An OpenAI-compatible server to use instead of the local engine."""
    server_token: str | None = None
    code_actions: bool = True
    project_files: bool = True
    """Whether .stet.toml and AGENTS.md of the workspace are put into prompts."""


DTYPES = ("auto", "float32", "bfloat16", "float16", "int8", "int4")
KEYS: dict[str, tuple[str, type | tuple[type, ...], str]] = {
    "model": ("model", str, "a text"),
    "smallLm": ("small_lm", str, "a text"),
    "dtype": ("dtype", str, f"{', '.join(DTYPES[:-1])} or {DTYPES[-1]}"),
    "idleExitMinutes": ("idle_exit_minutes", (int, float), "a number of minutes, or 0 for never"),
    "server.url": ("server_url", str, "a URL that begins with http:// or https://"),
    "server.token": ("server_token", str, "a text"),
    "codeActions": ("code_actions", bool, "true or false"),
    "projectFiles": ("project_files", bool, "true or false"),
}
"""Name in the editor -> (field, type, what is wanted)."""


def read_settings(given: object) -> tuple[Settings, list[str]]:
    """The settings in a JSON object, and a line for each value that can't be used (its default is taken)."""
    if given is None:
        return Settings(), []
    if not isinstance(given, Mapping):
        return Settings(), [f"the settings of stet must be an object, not {given!r}"]
    values: dict[str, Any] = {}
    problems = []
    for name, value in _flat(given).items():
        field, kind, wanted = KEYS.get(name, ("", object, ""))
        if not field:
            problems.append(f"there is no setting stet.{name}; there are {', '.join(KEYS)}")
        elif value is not None and not _is_usable(name, value, kind):
            problems.append(f"stet.{name} must be {wanted}, not {value!r}; the default is used")
        elif value is not None:
            values[field] = value.rstrip("/") if field == "server_url" else value
    return Settings(**values), problems


def _flat(given: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as dotted names: editors send either form."""
    flat = {}
    for name, value in given.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _is_usable(name: str, value: Any, kind: type | tuple[type, ...]) -> bool:
    # bool is an int in Python, but not in JSON.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return False
    match value:
        case bool():
            return True
        case int() | float():
            return 0 <= value < inf
        case _ if name == "dtype":
            return value in DTYPES
        case _:
            return value != "" and (name != "server.url" or str(value).startswith(("http://", "https://")))
