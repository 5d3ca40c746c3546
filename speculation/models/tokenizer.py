"""Between text and token ids: chat prompts, plain text, and text that streams out of token ids.

Text of the user is never read as control tokens: "<|im_end|>" in a source file is encoded as the characters it
consists of, so nothing in a buffer can end a message or start another one.
"""

import re
import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from speculation.errors import ConfigError, ModelError
from speculation.models.loading import load_tokenizer

HALF_CHARACTER = "\ufffd"
N_CONTEXT = 4
"""Tokens decoded along with new ones, for tokenizers whose text depends on the token before."""


class Tokenizer:
    """One model's tokenizer. Raises ModelError for a folder without a fast tokenizer or without a chat template."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer: Any = load_tokenizer(folder)
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ModelError(f"{folder.name} has no tokenizer.json; Stet needs a model with a fast tokenizer")
        backend.encode_special_tokens = True  # control tokens are placed by encode_chat alone, by id
        self._backend: Any = backend
        self._control = {str(token): token_id for token_id, token in backend.get_added_tokens_decoder().items()}
        # "Ċ" is how byte-level vocabularies write a line feed.
        self.line_ends = frozenset(
            i for text, i in self.vocabulary.items() if "Ċ" in text or "\n" in text or text == "<0x0A>"
        )
        """The tokens that hold a line feed."""

    @property
    def vocabulary(self) -> dict[str, int]:
        """Token text to id; two models can share drafts when these are equal."""
        vocabulary: dict[str, int] = self._backend.get_vocab(with_added_tokens=True)
        return vocabulary

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text; no control tokens are added or recognised."""
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids, without control tokens."""
        text: str = self._backend.decode(list(token_ids), skip_special_tokens=True)
        return text

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The model's own chat prompt with the assistant's turn opened.

        Equal to apply_chat_template for ordinary text (templates that trim the content get it untrimmed).
        """
        if not messages or not all(isinstance(m.get(key), str) for m in messages for key in ("role", "content")):
            raise ConfigError("messages must be one or more, each with role and content as text")
        # Contents are put in after rendering, so that control tokens are only those that the template wrote.
        marks = {f"\ue000{secrets.token_hex(8)}\ue001": message["content"] for message in messages}
        marked = [{"role": m["role"], "content": mark} for m, mark in zip(messages, marks, strict=True)]
        rendered: str = self._render(marked)
        control = "|".join(re.escape(token) for token in sorted(self._control, key=len, reverse=True))
        token_ids: list[int] = []
        for piece in re.split(f"({control})", rendered) if control else [rendered]:
            if piece in self._control:
                token_ids.append(self._control[piece])
            elif piece:
                filled = re.sub("\ue000[0-9a-f]{16}\ue001", lambda mark: marks.get(mark[0], mark[0]), piece)
                token_ids += self.encode(filled)
        return token_ids

    def _render(self, messages: list[dict[str, str]]) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # a template is a program of the model's: it fails as it likes
            raise ModelError(f"The model's chat template can't be used for these messages: {error}") from error
        return text


class TextStream:
    """Text as its tokens come; a character that is split over tokens waits for its last one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._context: list[int] = []
        self._pending: list[int] = []
        self._n_out = 0
        """Characters of the pending tokens that came out already."""

    def push(self, token_ids: Sequence[int]) -> str:
        """The text that these tokens complete."""
        self._pending += token_ids
        text = self._text()
        whole = text.rstrip(HALF_CHARACTER)
        new = whole[self._n_out :]
        self._n_out = len(whole)
        if whole == text:
            self._context = (self._context + self._pending)[-N_CONTEXT:]
            self._pending, self._n_out = [], 0
        return new

    def flush(self) -> str:
        """What is left at the end; a character that was never completed comes as U+FFFD."""
        text = self._text()[self._n_out :]
        self._pending, self._n_out = [], 0
        return text

    def _text(self) -> str:
        before = self._tokenizer.decode(self._context)
        return self._tokenizer.decode(self._context + self._pending)[len(before) :]


class Origins:
    """Which characters were copied, for a text that comes in runs of tokens and goes out in other pieces."""

    def __init__(self) -> None:
        self._runs: deque[tuple[int, bool]] = deque()

    def add(self, n_chars: int, is_copied: bool) -> None:
        """So many more characters came in."""
        self._runs.append((n_chars, is_copied))

    def take(self, n_chars: int) -> tuple[tuple[int, int], ...]:
        """The spans that were copied of the next characters."""
        spans: list[tuple[int, int]] = []
        at = 0
        while at < n_chars:
            n_run, is_copied = self._runs.popleft()
            end = min(n_chars, at + n_run)
            if n_run > end - at:
                self._runs.appendleft((n_run - (end - at), is_copied))
            if is_copied and end > at:
                start = spans.pop()[0] if spans and spans[-1][1] == at else at
                spans.append((start, end))
            at = end
        return tuple(spans)


class StopTexts:
    """Ends a text stream before the first stop text; holds back what may be the beginning of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.is_stopped = False

    def push(self, text: str) -> str:
        """The text that is certain to stand before any stop text."""
        self._held += text
        # The one that is complete first, so that the output does not depend on how the text is cut into chunks.
        ends = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if ends:
            self.is_stopped = True
            text, self._held = self._held[: min(ends)[1]], ""
            return text
        n_held = max((self._n_begun(stop) for stop in self._stops), default=0)
        split = len(self._held) - n_held
        text, self._held = self._held[:split], self._held[split:]
        return text

    def flush(self) -> str:
        """What was held back, once nothing more comes."""
        text, self._held = self._held, ""
        return text

    def _n_begun(self, stop: str) -> int:
        return next((n for n in range(len(stop) - 1, 0, -1) if self._held.endswith(stop[:n])), 0)
