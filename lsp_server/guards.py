"""What stands between a model's answer and the user's code.

Takes the code out of the answer while it streams, and refuses answers that must not be applied. Knows no document.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from rapidfuzz.distance import LCSseq

from speculation.errors import StetError

FENCE_LINE = re.compile(r"(`{3,})([^`\r\n]*)$")
BARE_FENCE = re.compile(r"`{3,}\s*$")
PLACEHOLDER = re.compile(
    r"(?:\.\.\.|…).{0,30}\b(?:rest|existing|unchanged|remaining|same|previous|other|omitted)\b"
    r"|\b(?:rest|remainder) of (?:the )?(?:code|file|function|class|method|module|implementation)\b"
    r"|\b(?:existing|remaining|previous|other) (?:code|methods|functions|implementation)\b"
    r".{0,30}(?:\.\.\.|…|\bhere\b|unchanged|remains?)",
    re.IGNORECASE,
)
REPEATED_LINES = 6
"""So many lines of the surrounding file in a row, new in a part of it, mean that the model went beyond that part."""
MIN_ALIKE = 0.3
"""An answer without a fence counts as code if at least this share of its lines, or of the source's, is in both."""


class BadAnswer(StetError):
    """The model's answer can't be used; nothing is applied."""

    code = "bad_answer"


class Cleaner:
    r"""Takes the code out of a streamed answer, in whole lines ended by \n.

    `fence` is the fence that the model was asked to use, longer than any in the source. Chatter before and after the
    fenced block is dropped, and so are blank lines at both ends of the code. A fence that is part of the code stays:
    the block ends at the line that matches its opening fence; where the model took a shorter fence than it was told
    to, at the last such line.
    """

    def __init__(self, fence: str, source: Sequence[str]) -> None:
        self._fence = fence
        self._source = source
        self._pending = ""
        self._before: list[str] = []
        """Lines before any fence: chatter, or the code itself if no fence ever comes."""
        self._opening = ""
        self._state: Literal["before", "inside", "bare", "after"] = "before"
        self._depth = 0
        self._has_code = False
        self._held: list[str] = []
        """Lines that are code only if more follows: blank ones, fences, all from a fence on that may be the last."""
        self._held_fence = False

    def feed(self, text: str) -> list[str]:
        """The lines of code that this piece of the answer completes."""
        self._pending += text
        *lines, self._pending = self._pending.split("\n")
        return [code for line in lines for code in self._take(line.removesuffix("\r"))]

    def finish(self) -> list[str]:
        """The last lines. Raises BadAnswer if there is no code in the answer."""
        code = self._take(self._pending) if self._pending else []
        if self._state != "before":
            return code
        while self._before and not self._before[-1].strip():
            self._before.pop()
        if not self._before:
            raise BadAnswer("the model gave no answer; try again, or say the instruction in other words")
        if not alike(self._source, self._before):
            raise BadAnswer(
                "the model answered in prose instead of code; try again, or say the instruction in other words"
            )
        return [line + "\n" for line in self._before]

    def _take(self, line: str) -> list[str]:
        if self._state == "before":
            return self._open(line)
        if self._state == "after":
            return []
        if self._state == "inside" and self._is_closing(line):
            # A fence as long as asked for can't be in the code. A shorter one can: then the last of them ends the code.
            self._state = "after" if len(self._opening) >= len(self._fence) else "inside"
            if self._state == "after":
                return self._release_fences()
            return self._release(line) if self._held_fence else self._hold(line, is_fence=True)
        if self._held_fence or not line.strip() or BARE_FENCE.match(line):
            return self._hold(line) if self._has_code else []
        return [*self._release(), line + "\n"]

    def _hold(self, line: str, *, is_fence: bool = False) -> list[str]:
        self._held.append(line + "\n")
        self._held_fence = self._held_fence or is_fence
        return []

    def _release(self, *then_hold: str) -> list[str]:
        """What was held turned out to be code."""
        held, self._held = self._held, [line + "\n" for line in then_hold]
        self._has_code = True
        return held

    def _release_fences(self) -> list[str]:
        """The block is closed as it should be: fences held before that are code, blank lines after them are not."""
        while self._held and not self._held[-1].strip():
            self._held.pop()
        return self._release()

    def _open(self, line: str) -> list[str]:
        """Look for the start of the code: a fence, or the source's own first line without one."""
        first = next((text.strip() for text in self._source if text.strip()), "")
        if fence := FENCE_LINE.match(line):
            self._state, self._opening = "inside", fence[1]
        elif line.strip() == first and not any(before.strip() for before in self._before):
            self._state, self._has_code = "bare", True
            return [line + "\n"]
        elif line.strip() or self._before:
            self._before.append(line)
        return []

    def _is_closing(self, line: str) -> bool:
        """Whether a line may close the block. A fence with a name opens one inside the code; the next closes that."""
        fence = FENCE_LINE.match(line.rstrip())
        if fence is None or len(fence[1]) < len(self._opening):
            return False
        if fence[2].strip():
            self._depth += 1
            return False
        if self._depth:
            self._depth -= 1
            return False
        return True


def alike(source: Sequence[str], answer: Sequence[str]) -> bool:
    """Whether two texts share enough lines for one to be a rewrite of the other."""
    ours = [line.strip() for line in source if line.strip()]
    theirs = [line.strip() for line in answer if line.strip()]
    return LCSseq.similarity(ours, theirs) >= MIN_ALIKE * min(len(ours), len(theirs))


def check_answer(source: Sequence[str], answer: Sequence[str], finish_reason: str | None) -> None:
    """Raise BadAnswer for a complete answer that must not be applied."""
    if finish_reason == "length":
        raise BadAnswer(
            "the model didn't come to an end and was stopped; nothing was changed: select fewer lines and try again"
        )
    if not any(line.strip() for line in answer):
        raise BadAnswer("the model answered with no code at all; to delete lines, delete them")
    known = {line.strip() for line in source}
    for line in answer:
        if line.strip() not in known and PLACEHOLDER.search(line):
            raise BadAnswer(
                f"the model left code out (it wrote {line.strip()[:80]!r}); select fewer lines and try again"
            )


def check_bounds(source: Sequence[str], outside: Sequence[str], answer: Sequence[str]) -> None:
    """Raise BadAnswer for an answer that repeats the file around the source: applied, it would stand there twice."""
    known = set(_runs(source))
    if any(run not in known for run in set(_runs(outside)) & set(_runs(answer))):
        raise BadAnswer(
            "the model rewrote more than the selected lines; select all that it needs, or less, and try again"
        )


def _runs(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All runs of REPEATED_LINES lines, whatever their indentation and the blank lines between them."""
    filled = [line.strip() for line in lines if line.strip()]
    return (tuple(filled[at : at + REPEATED_LINES]) for at in range(len(filled) - REPEATED_LINES + 1))
