"""The params of stet/prepare and stet/rewrite: read and checked, nothing more."""

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lsp_server.prompts import AGAIN_TEMPERATURE, ALTERNATIVE_TEMPERATURE
from lsp_server.session import invalid


@dataclass(frozen=True)
class Params:
    """The params of stet/prepare and stet/rewrite, checked."""

    uri: str
    range: Mapping[str, Any] | None
    """None where a standing proposal says it."""
    version: int | None
    instruction: str | None
    recipe: str | None
    diagnostics: Sequence[Mapping[str, Any]]
    job_id: str
    alternative_to: str | None
    """The standing proposal to the question that is asked once more."""
    refines: str | None
    """The standing proposal that is to be changed further."""
    temperature: float
    top_p: float
    seed: int | None
    again: bool
    draft: bool
    work_done_token: str | int | None

    @classmethod
    def of(cls, given: object) -> "Params":
        """Read a JSON object. Raises a JSON-RPC error that names the field that is wrong."""
        params = _field({"params": given}, "params", Mapping, None)
        document = _field(params, "textDocument", Mapping, None)
        again = _field(params, "again", bool, False)
        alternative_to, refines = (_optional(params, name, str) for name in ("alternativeTo", "refines"))
        if alternative_to is not None and refines is not None:
            invalid("give either alternativeTo or refines, not both")
        is_new = alternative_to is None and refines is None
        temperature = ALTERNATIVE_TEMPERATURE if alternative_to is not None else AGAIN_TEMPERATURE if again else 0.0
        return cls(
            uri=_field(document, "uri", str, None),
            range=_range(_field(params, "range", Mapping, None), "range") if is_new else None,
            version=_optional(document, "version", int),
            instruction=_optional(params, "instruction", str),
            recipe=_optional(params, "recipe", str),
            diagnostics=[_diagnostic(item) for item in _field(params, "diagnostics", list, [])],
            job_id=_field(params, "jobId", str, str(uuid.uuid4())),
            alternative_to=alternative_to,
            refines=refines,
            temperature=_field(params, "temperature", (int, float), temperature),
            top_p=_field(params, "topP", (int, float), 1.0),
            seed=_optional(params, "seed", int),
            again=again,
            draft=_field(params, "draft", bool, True),
            work_done_token=_optional(params, "workDoneToken", (str, int)),
        )


def _optional(params: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    return None if params.get(name) is None else _field(params, name, kind, None)


def _field(params: Mapping[str, Any], name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    value = params.get(name)
    if value is None and default is not None:
        return default
    # bool is an int in Python, but not in JSON.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = {
            Mapping: "an object",
            list: "a list",
            str: "a string",
            int: "a whole number",
            float: "a number",
            bool: "true or false",
        }
        invalid(f"{name} must be {' or '.join(names[each] for each in kinds)}, not {value!r:.80}")
    if isinstance(value, float) and not math.isfinite(value):
        invalid(f"{name} must be a number, not {value}")
    return value


def _range(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for side in ("start", "end"):
        position = _field(value, side, Mapping, None)
        for axis in ("line", "character"):
            if _field(position, axis, int, None) < 0:
                invalid(f"{name}.{side}.{axis} must not be negative")
    return value


def _diagnostic(value: object) -> Mapping[str, Any]:
    diagnostic: Mapping[str, Any] = _field({"diagnostic": value}, "diagnostic", Mapping, None)
    _range(_field(diagnostic, "range", Mapping, None), "diagnostic.range")
    _field(diagnostic, "message", str, None)
    return diagnostic
