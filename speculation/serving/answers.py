"""Chunks as OpenAI's JSON: stream events, the whole answer, and errors.

Knows the wire format (docs/engine-api.md) and nothing of HTTP connections, queues or engines.
"""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from speculation.errors import StetError
from speculation.types import Chunk, Stats

Json = Mapping[str, Any]

DONE = "data: [DONE]\n\n"
STATUS = {"invalid_request": 400, "context_length_exceeded": 400, "model_error": 404, "engine_stopping": 503}
"""HTTP status by the code of a StetError; 500 for all others."""


@dataclass(slots=True)
class Answer:
    """One answer while it comes in."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))
    text: list[str] = field(default_factory=list)
    stats: Stats = field(default_factory=Stats)
    finish_reason: str = "stop"

    def add(self, chunk: Chunk) -> None:
        """Take in the next chunk."""
        self.text.append(chunk.text)
        self.stats = chunk.stats or self.stats
        self.finish_reason = chunk.finish_reason or self.finish_reason

    def whole(self) -> Json:
        """The answer of a request without stream."""
        message = {"role": "assistant", "content": "".join(self.text)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason}
        return self._body("chat.completion", [choice]) | {"usage": self.usage(), "stet": {"stats": asdict(self.stats)}}

    def first_event(self) -> str:
        """The stream's opening, as OpenAI's server sends it: the role alone."""
        return self._event({"role": "assistant", "content": ""})

    def event(self, chunk: Chunk) -> str:
        """One chunk as an event; an empty delta where it has no text (prefill, or half a character)."""
        delta = {"content": chunk.text} if chunk.text else {}
        counts = {"n_tokens": len(chunk.token_ids), "n_copied": chunk.n_copied, "n_prefilled": chunk.n_prefilled}
        return self._event(delta, stet={**counts, "copied": chunk.copied})

    def last_event(self) -> str:
        """Why it ended and what it cost."""
        return self._event({}, finish_reason=self.finish_reason, stet={"stats": asdict(self.stats)})

    def usage_event(self) -> str:
        """What stream_options.include_usage asks for: no choices, only the usage."""
        return sse(self._body("chat.completion.chunk", []) | {"usage": self.usage()})

    def usage(self) -> Json:
        """Token counts. Rejected are copied tokens that were drafted and did not become output."""
        copies = [source for name, source in self.stats.sources.items() if name != "lm"]
        n_rejected = sum(source.n_drafted - source.n_accepted for source in copies)
        return {
            "prompt_tokens": self.stats.n_prompt,
            "completion_tokens": self.stats.n_tokens,
            "total_tokens": self.stats.n_prompt + self.stats.n_tokens,
            "prompt_tokens_details": {"cached_tokens": self.stats.n_cached},
            "completion_tokens_details": {
                "accepted_prediction_tokens": self.stats.n_copied,
                "rejected_prediction_tokens": n_rejected,
            },
        }

    def _event(self, delta: Json, finish_reason: str | None = None, stet: Json | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return sse(self._body("chat.completion.chunk", [choice]) | ({"stet": stet} if stet else {}))

    def _body(self, kind: str, choices: list[Json]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}


def sse(value: Json) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def comment(text: str) -> str:
    """A line that every SSE client skips; sending it shows whether somebody still listens."""
    return f": {text}\n\n"


def error_body(error: StetError) -> Json:
    """A StetError in OpenAI's shape."""
    return error_json(status_of(error), str(error), error.code, getattr(error, "param", None))


def status_of(error: StetError) -> int:
    """The HTTP status of an error that comes before the answer has begun."""
    return STATUS.get(error.code, 500)


def error_json(status: int, message: str, code: str, param: str | None = None) -> Json:
    """Any error in OpenAI's shape."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "code": code, "param": param}}
