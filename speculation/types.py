"""The words of the trade as plain values: what the loop, the drafters and the models hand each other.

Knows no tokenizer, no torch and no file. p is the target's distribution, q the draft's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from speculation.errors import ConfigError

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target's distribution p is adjusted before a token is taken; temperature 0 is greedy.

    Applied in the order repetition_penalty, temperature, top_k, top_p; the penalty counts under greedy decoding too.
    Raises ConfigError for a value out of range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps the whole vocabulary."""
    seed: int | None = None
    """None draws a fresh seed."""
    repetition_penalty: float = 1.0
    """Above 1, tokens that occurred in prompt or output become less likely; 1 is off."""

    def __post_init__(self) -> None:
        for name, ok, wanted in (
            ("temperature", 0 <= self.temperature <= 100, "a number from 0 to 100"),
            ("top_p", 0 < self.top_p <= 1, "a number above 0 and up to 1"),
            ("top_k", self.top_k >= 0, "0 (off) or a positive whole number"),
            ("repetition_penalty", 0 < self.repetition_penalty <= 100, "a number above 0 and up to 100"),
        ):
            if not ok:
                raise ConfigError(f"{name} must be {wanted}, not {getattr(self, name)}")


class Distribution(Protocol):
    """A draft's q over the vocabulary at one position; a tensor of shape [vocab] in speculation.models."""

    @property
    def shape(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that somebody bets the target will write next. An empty draft is plain decoding."""

    token_ids: tuple[int, ...] = ()
    source: str = "none"
    """Who made it: "copy" (the cursor follows the source), "realign0" to "realign6" (after a departure, by how sure the
    place is), "shifted" (lines indented anew), "suffix", "lm" (a word of the small LM), "checked" (a copy that the
    small LM would have written too), "mixed" (see parts) or "none"."""
    match_len: int = 0
    """How many output tokens just before the draft agree with the place it was taken from."""
    q: tuple[Distribution | None, ...] = ()
    """Per token its distribution; None, or an empty tuple, is a point mass on the token itself."""
    parts: tuple["Draft", ...] = ()
    """What a mixed draft was put together from, in order; empty for a draft from one source."""
    goes_on: int | None = field(default=None, compare=False)
    """The token that its source has next, where the draft was cut."""

    def cut(self, n: int) -> "Draft":
        """Its first n tokens, of a draft that has no q."""
        return replace(self, token_ids=self.token_ids[:n], goes_on=next(iter(self.token_ids[n:]), None))

    @classmethod
    def mixed(cls, parts: Sequence["Draft"]) -> "Draft":
        """One draft out of several, each beginning where the one before ends."""
        q = [q for part in parts for q in part.q or (None,) * len(part.token_ids)]
        token_ids = tuple(token for part in parts for token in part.token_ids)
        return cls(token_ids, "mixed", 0, tuple(q), tuple(parts))

    def judged(self, n_accepted: int, n_written: int) -> Iterator[tuple["Draft", int, int]]:
        """Per part that was tested: the part, how many of its tokens were accepted, and how many tested.

        n_written: tokens that came out of the pass. The first rejected token is tested, those behind it are not; when
        a stop token among the accepted ones ended the answer, no token was rejected.
        """
        n_tested = min(n_accepted + 1, n_written)
        for part in self.parts or (self,):
            n = len(part.token_ids)
            if n_tested <= 0 or not n:
                return
            yield part, min(n, n_accepted), min(n, n_tested)
            n_accepted, n_tested = max(0, n_accepted - n), n_tested - n


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the target says of a draft: how many tokens it keeps, and the one it writes itself after them."""

    n_accepted: int
    next_token: int


@dataclass(frozen=True, slots=True)
class Step:
    """One target pass: the draft, how much of it was kept, and the tokens that came out (kept + 1)."""

    draft: Draft
    n_accepted: int
    token_ids: tuple[int, ...]
    target_s: float
    draft_s: float


class Target(Protocol):
    """The model whose output counts. Its KV cache follows the prefix it is asked about; nobody else repairs it."""

    def prefill(self, prefix: Sequence[int]) -> Iterator[int]:
        """Feed all of prefix but its last token, in chunks; yields the number of tokens held after each chunk."""
        ...

    def verify(self, prefix: Sequence[int], draft: Draft) -> Verdict:
        """One forward pass over the last token of prefix and the draft: exact speculative sampling.

        Leviathan et al. 2023, algorithm 1: keep x with probability min(1, p(x)/q(x)); at the first rejection
        sample from norm(max(0, p - q)); when all are kept, a bonus token from p.
        """
        ...


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine has loaded."""

    model: str
    small_lm: str | None
    device: str
    dtype: str
    context_len: int
    gpu_bytes: int = 0
    """GPU memory that it held once it was open."""


@dataclass(frozen=True, slots=True)
class SourceStats:
    """Counts of one draft source within a request."""

    n_drafts: int = 0
    n_drafted: int = 0
    n_tested: int = 0
    """Accepted tokens plus the first rejected one: what acceptance must be divided by."""
    n_accepted: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """What one request cost. Times in seconds."""

    n_prompt: int = 0
    n_cached: int = 0
    """Prompt tokens that the KV cache already held."""
    n_tokens: int = 0
    """Completion tokens, the stop token included."""
    n_passes: int = 0
    """Target passes after prefill."""
    n_copied: int = 0
    """Completion tokens that were copied (every source but "lm") and accepted."""
    n_small_passes: int = 0
    """Passes of the small LM after prefill."""
    prefill_s: float = 0.0
    decode_s: float = 0.0
    target_s: float = 0.0
    draft_s: float = 0.0
    sources: dict[str, SourceStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a target pass (or a prefill chunk) added to the answer."""

    text: str = ""
    """Whole characters only; a character split over tokens comes with its last token."""
    token_ids: tuple[int, ...] = ()
    n_copied: int = 0
    """How many of token_ids were copied rather than written by a model."""
    copied: tuple[tuple[int, int], ...] = ()
    """Where in text the characters of copied tokens are, in order and apart. A character is its last token's."""
    n_prefilled: int = 0
    """Prompt tokens held so far; with an empty text this is prefill progress."""
    finish_reason: FinishReason | None = None
    stats: Stats | None = None
    """Only on the last chunk."""
