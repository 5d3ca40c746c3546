"""How far a rewrite is, in figures and in words; and how often that is worth saying. Knows no editor."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lsp_server.engine_client import Event

BYTES_PER_TOKEN = 3.5
"""Of code, about; for estimates that are shown and nothing else."""
INTERVAL_S = 0.1


@dataclass
class Meter:
    """What one request has done so far."""

    prompt_bytes: int
    source_chars: int
    state: str = "starting"
    n_tokens: int = 0
    n_copied: int = 0
    n_prefilled: int = 0
    n_ahead: int = 0
    n_chars: int = 0
    stats: dict[str, Any] = field(default_factory=dict)
    """The engine's own figures, at the end."""
    started: float = field(default_factory=time.monotonic)
    first_written: float | None = None
    n_first: int = 0
    """Tokens of the first piece, which came with the first time mark and count for no time."""
    ended: float | None = None

    def take(self, event: Event) -> None:
        """Count an event of the engine."""
        if event.state == "end":
            self.stats, self.ended = event.stats, time.monotonic()
            return
        self.state, self.n_ahead = event.state, event.n_ahead
        self.n_prefilled = max(self.n_prefilled, event.n_prefilled)
        self.n_tokens += event.n_tokens
        self.n_copied += event.n_copied
        self.n_chars += len(event.text)
        if event.state == "writing" and self.first_written is None:
            self.first_written, self.n_first = time.monotonic(), event.n_tokens

    @property
    def copied_share(self) -> float | None:
        """Of the tokens so far, those that were copied."""
        return self.n_copied / self.n_tokens if self.n_tokens else None

    @property
    def n_prompt(self) -> int:
        """Tokens of the prompt: an estimate until the engine says it."""
        return int(self.stats.get("n_prompt") or max(self.n_prefilled, self.prompt_bytes / BYTES_PER_TOKEN))

    @property
    def tokens_per_second(self) -> float | None:
        """Over the writing so far; at the end as the engine measured it."""
        if decode_s := self.stats.get("decode_s"):
            return float(self.stats["n_tokens"] / decode_s)
        seconds = self._writing_s()
        return (self.n_tokens - self.n_first) / seconds if seconds and self.n_tokens > self.n_first else None

    @property
    def eta(self) -> float | None:
        """Seconds to the end if the new text is as long as the old one."""
        seconds = self._writing_s()
        if not seconds or not self.n_chars:
            return None
        return max(0, self.source_chars - self.n_chars) * seconds / self.n_chars

    @property
    def percentage(self) -> int:
        """For a progress bar."""
        if self.state == "writing":
            return min(99, 100 * self.n_chars // max(1, self.source_chars))
        return 0

    def _writing_s(self) -> float | None:
        return None if self.first_written is None else (self.ended or time.monotonic()) - self.first_written

    def message(self) -> str:
        """The state in words."""
        match self.state:
            case "starting":
                return "starting the engine"
            case "loading":
                return "loading the model"
            case "queued":
                return f"waiting, {self.n_ahead} before this"
            case "prefill":
                return f"reading {self.n_prefilled} of about {self.n_prompt} tokens"
            case _:
                speed = f", {self.tokens_per_second:.0f} tokens/s" if self.tokens_per_second else ""
                return f"{self.n_tokens} tokens{speed}, {self.copied_share or 0:.0%} copied"

    def fields(self) -> dict[str, Any]:
        """The figures of stet/progress."""
        return {
            "tokens": self.n_tokens,
            "copiedTokens": self.n_copied,
            "copiedShare": self.copied_share,
            "tokensPerSecond": self.tokens_per_second,
            "promptTokens": self.n_prompt,
            "prefilledTokens": self.n_prefilled,
            "ahead": self.n_ahead,
            "eta": self.eta,
        }

    def final(self) -> dict[str, Any]:
        """The figures of a result; those that the server didn't tell are None."""
        stats = self.stats
        tokens, copied = stats.get("n_tokens", self.n_tokens), stats.get("n_copied", self.n_copied)
        return {
            "tokens": tokens,
            "copiedTokens": copied,
            "copiedShare": copied / tokens if tokens else None,
            "passes": stats.get("n_passes"),
            "promptTokens": stats.get("n_prompt"),
            "cachedTokens": stats.get("n_cached"),
            "prefillSeconds": stats.get("prefill_s"),
            "decodeSeconds": stats.get("decode_s"),
            "tokensPerSecond": self.tokens_per_second,
            "totalSeconds": (self.ended or time.monotonic()) - self.started,
        }


class Throttle:
    """Reports at each change of state, and else not too often: what came in between is reported when it is time.

    A context: nothing is reported after its end.
    """

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        self._state = ""
        self._last = 0.0
        self._later: asyncio.TimerHandle | None = None

    def __enter__(self) -> "Throttle":
        return self

    def __exit__(self, *error: object) -> None:
        self._cancel()

    def feed(self, state: str) -> None:
        """There is something to report."""
        wait = self._last + INTERVAL_S - time.monotonic()
        if state != self._state or wait <= 0:
            self._state = state
            self._report_now()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(wait, self._report_now)

    def _report_now(self) -> None:
        self._cancel()
        self._last = time.monotonic()
        self._report()

    def _cancel(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
