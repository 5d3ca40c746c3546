"""The request of POST /v1/chat/completions: parsed from bytes into a ChatRequest, or refused with one clear line.

Knows the wire format (docs/engine-api.md) and nothing of HTTP, queues or engines.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from speculation.errors import ConfigError
from speculation.types import Sampling

ROLES = ("system", "user", "assistant")
MAX_STOPS = 4


class RequestError(ConfigError):
    """A request that can't be used; param is the field to blame, where it is one."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What is asked of the engine, and in which form the answer is wanted."""

    messages: tuple[Mapping[str, str], ...]
    model: str = ""
    is_streamed: bool = False
    has_usage: bool = False
    """Whether a stream ends with a usage event."""
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    source: str = ""
    """The prediction: text that is likely to reappear."""
    file_type: str = ""
    is_drafted: bool = True
    is_prefill: bool = False


def parse(body: bytes) -> ChatRequest:
    """Check every field that counts. Raises RequestError; unknown fields are ignored, as clients expect."""
    fields = _Fields(_json_object(body))
    _refuse_unsupported(fields.of)
    options = fields.group("stream_options")
    stet = fields.group("stet")
    max_tokens = fields.whole("max_completion_tokens", None, 1)
    return ChatRequest(
        messages=_messages(fields.of.get("messages")),
        model=fields.text("model"),
        is_streamed=fields.truth("stream", False),
        has_usage=options.truth("include_usage", False),
        sampling=_sampling(fields, stet),
        max_tokens=fields.whole("max_tokens", None, 1) if max_tokens is None else max_tokens,
        stop=_stop(fields.of.get("stop")),
        source=_source(fields.of.get("prediction")),
        file_type=stet.text("file_type"),
        is_drafted=stet.truth("draft", True),
        is_prefill=stet.truth("prefill_only", False),
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """A JSON object and where it stands in the request; a field that is null counts as absent."""

    of: Mapping[str, Any]
    prefix: str = ""

    def group(self, name: str) -> "_Fields":
        value = self.of.get(name)
        if value is not None and not isinstance(value, dict):
            _refuse(self.prefix + name, "an object", value)
        return _Fields(value or {}, f"{self.prefix}{name}.")

    def text(self, name: str) -> str:
        value = self.of.get(name)
        return "" if value is None else _text(value, self.prefix + name)

    def truth(self, name: str, default: bool) -> bool:
        value = self.of.get(name)
        if value is not None and not isinstance(value, bool):
            _refuse(self.prefix + name, "true or false", value)
        return default if value is None else value

    def whole(self, name: str, default: int | None, least: int) -> int | None:
        value = self.of.get(name)
        if value is None:
            return default
        # bool is an int to Python; 2**63 is where the engine's integers end.
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            _refuse(self.prefix + name, f"a whole number from {least} up" if least >= 0 else "a 64-bit number", value)
        return value

    def number(self, name: str, default: float) -> float:
        value = self.of.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e9:
            _refuse(self.prefix + name, "a number", value)
        return float(value)


def _json_object(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise RequestError("the request body is JSON nested too deeply") from error
    except ValueError as error:  # malformed JSON, bad UTF-8, or a number of thousands of digits
        raise RequestError(f"the request body must be a JSON object, but it is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise RequestError(f"the request body must be a JSON object, not {_shown(value)}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _refuse_unsupported(fields: Mapping[str, Any]) -> None:
    if fields.get("n") not in (None, 1):
        _refuse("n", "1 (one answer a request)", fields["n"])
    for name in ("tools", "functions", "logprobs"):
        if fields.get(name):
            raise RequestError(f"{name} is not supported; leave it out", name)


def _messages(value: Any) -> tuple[Mapping[str, str], ...]:
    if not isinstance(value, list) or not value:
        _refuse("messages", "a list with at least one message", value)
    return tuple(_message(message, f"messages[{i}]") for i, message in enumerate(value))


def _message(value: Any, where: str) -> Mapping[str, str]:
    if not isinstance(value, dict):
        _refuse(where, "an object with role and content", value)
    if value.get("role") not in ROLES:
        _refuse(f"{where}.role", "one of " + ", ".join(ROLES), value.get("role"))
    return {"role": value["role"], "content": _content(value.get("content"), f"{where}.content")}


def _content(value: Any, where: str) -> str:
    """Text, or the standard's list of text parts."""
    if not isinstance(value, list):
        return _text(value, where)
    for part in value:
        if not isinstance(part, dict) or part.get("type") != "text":
            _refuse(where, 'text, or parts of type "text"', part)
    return "".join(_text(part.get("text"), f"{where}[{i}].text") for i, part in enumerate(value))


def _source(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, dict) or value.get("type") != "content":
        _refuse("prediction", '{"type": "content", "content": TEXT}', value)
    return _content(value.get("content"), "prediction.content")


def _stop(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    stops = value if isinstance(value, list) else [value]
    if len(stops) > MAX_STOPS or not all(isinstance(stop, str) and stop for stop in stops):
        _refuse("stop", f"a text or a list of up to {MAX_STOPS} texts, none empty", value)
    return tuple(_text(stop, "stop") for stop in stops)


def _sampling(fields: _Fields, stet: _Fields) -> Sampling:
    values = {
        "temperature": fields.number("temperature", 0.0),
        "top_p": fields.number("top_p", 1.0),
        "top_k": cast(int, stet.whole("top_k", 0, 0)),
        "seed": fields.whole("seed", None, -(2**63)),
        "repetition_penalty": fields.number("repetition_penalty", 1.0),
    }
    try:
        return Sampling(**values)  # type: ignore[arg-type]
    except ConfigError as error:
        # "temperature must be ...": Sampling names the field first.
        raise RequestError(str(error), str(error).split(" ", 1)[0]) from error


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        _refuse(where, "a text", value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"{where} must be valid Unicode; half a surrogate pair is at {error.start}", where
        ) from error
    return value


def _refuse(where: str, wanted: str, found: Any) -> NoReturn:
    raise RequestError(f"{where} must be {wanted}, not {_shown(found)}", where)


def _shown(value: Any) -> str:
    """A value in an error line. Long ones are named by their kind, so that no source text comes back in a message."""
    if isinstance(value, dict | list):
        return {"dict": "an object", "list": "a list"}[type(value).__name__] if value else repr(value)
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
