"""Takes the code out of a model's answer while it streams: fences, thoughts and chatter go. Knows no document."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from lsp_server.documents import BOM
from lsp_server.guards import BadAnswer

LINE_END = re.compile(r"\r*\n|\r")
FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t]*([^`]*)$")
GLUED_FENCE = re.compile(r"(\s*(?:[^\s#/*;\-'\"`].*?)?[^`\s#/*])(`{3,})\s*")
"""The last line of code and the closing fence in one. (In a comment, as in Rust's, a fence is the comment's own.)"""
IN_BACKTICKS = re.compile(r"(`{1,3})(?!`)(.+?)(?<!`)\1")
THOUGHTS_BEGIN = re.compile(r"\s*<(?:think|thinking|thoughts?|reasoning)>", re.IGNORECASE)
THOUGHTS_END = re.compile(r"</(?:think|thinking|thoughts?|reasoning)>", re.IGNORECASE)
THOUGHTS_TAG = re.compile(r"\s*</?(?:think|thinking|thoughts?|reasoning)>", re.IGNORECASE)
NAME = re.compile(r"[\w+#.-]*")
COMMENT_LEAD = re.compile(r"(?:#+|//+|/\*+|--+|;+|%+|<!--)\s*|\s*(?:\*/|-->)$")
CHATTER_BEFORE = re.compile(
    r"\W*(?:sure|certainly|of course|absolutely|okay|ok|great|here(?:['\u2019]s| is| are)|below is|this is the"
    r"|i(?:['\u2019]ve| have)|the (?:updated|modified|edited|revised|rewritten|refactored|complete"
    r"|corrected|fixed|new|final)"
    r"|(?:updated|modified|edited|rewritten|complete|corrected|final|new)"
    r" (?:code|version|function|file|text))\b.*[:.!]\W*",
    re.IGNORECASE,
)
CHATTER_AFTER = re.compile(
    r"\W*(?:explanations?|notes?|(?:key )?changes?(?: made)?|summary|what changed|in this (?:version|code)|let me know"
    r"|please note|i (?:made|added|changed|removed|used|have)|i['\u2019]ve|(?:i )?hope this|if you"
    r"|(?:this|the) (?:updated |modified |edited |new )?(?:code|version|function|implementation|change))\b.*",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"[A-Z](?:[\w',()-]+ ){3,}[\w'()-]+[.!?]")
NO_CHANGE = re.compile(
    r"\bno (?:other |further )?(?:changes?|edits?|modifications?)(?: (?:is|are|was|were))?"
    r" (?:needed|necessary|required|made)\b|\bnothing (?:to change|needs? to (?:be )?change)"
    r"|\b(?:does(?:n['\u2019]t| not)|do(?:n['\u2019]t| not)) (?:need|require)"
    r" (?:any )?(?:changes?|edits?|modifications?)"
    r"|\b(?:code|function|file|method|class|part|instruction)\b.{0,40}\balready\b|\bremains? (?:unchanged|the same)\b"
    r"|\b(?:fine|correct|good) as (?:it )?is\b|\balready (?:has|have|correct|does|fulfil)"
    r"|keine änderung|aucun changement|无需(?:更改|修改)",
    re.IGNORECASE,
)
MIN_ALIKE = 0.3
"""An answer without a fence counts as code if at least this share of its lines, or of the source's, is in both."""
MIN_RATIO = 50
"""The same for its characters, of 100: where a few lines are all that there is."""


class AnswerLines:
    r"""Splits a stream of text into lines, which come without their ends: \n, \r\n or \r."""

    def __init__(self) -> None:
        self.pending = ""
        """The line that is being written."""
        self._return = ""
        """Carriage returns at the end of a piece: whether a line feed follows isn't known yet."""

    def feed(self, text: str) -> list[str]:
        """The lines that this piece completes."""
        text = self._return + text
        body = text.rstrip("\r")
        self._return = text[len(body) :]
        lines, at = [], 0
        for end in LINE_END.finditer(body):
            lines.append(self.pending + body[at : end.start()])
            self.pending, at = "", end.end()
        self.pending += body[at:]
        return lines

    def finish(self) -> list[str]:
        """The last line, if there is one without an end."""
        return [self.pending] if self.pending else []


class Cleaner:
    r"""Takes the code out of an answer, in lines ended by \n.

    `fence` is the fence that the model was asked to use, longer than any in the source; `echoes` are lines of the
    prompt that a model may repeat before the code. Chatter around the fenced block is dropped, and so are blank lines
    at both ends of the code. A fence that is part of the code stays: the block ends at the line that matches its
    opening fence; where the model took another fence than it was told to, at the last such line.
    """

    def __init__(self, fence: str, source: Sequence[str], echoes: Collection[str] = ()) -> None:
        self._fence = fence
        self._source = source
        self._echoes = echoes
        self._commented_echoes = {*echoes, *(echo.partition(": ")[2] for echo in echoes)}
        self._known = {line.strip() for line in source if line.strip()}
        self._first = next((line.strip() for line in source if line.strip()), "")
        self._last = next((line.strip() for line in reversed(source) if line.strip()), "")
        self._has_fences = any(FENCE.match(line.rstrip()) for line in source)
        self._is_prose = any(SENTENCE.fullmatch(line.strip()) for line in source)
        self._may_think = not any(THOUGHTS_BEGIN.search(line) or THOUGHTS_END.search(line) for line in source)
        self._thoughts: list[str] | None = None
        """The lines since a tag that began thoughts."""
        self._state: Literal["before", "inside", "bare", "after"] = "before"
        self._before: list[str] = []
        """Lines before any fence: chatter, or the code itself if no fence ever comes."""
        self._own_fence: str | None = None
        """A fence that is the first line of the source: the code's own, or one around it."""
        self._opening = self._indent = self._margin = ""
        """The fence that opened the block, the blanks before it, and those to take off each line."""
        self._depth = 0
        self._has_code = False
        self._held: list[str] = []
        """Lines that are code only if more follows: blank ones, fences, and all from a line on that may be the end."""
        self._end: int | None = None
        """Which of the held lines ends the code if it ends there."""
        self._is_ended = False
        """Whether only another such line, or in bare code a line of the source, shows that it went on."""

    def feed(self, lines: Iterable[str]) -> list[str]:
        """The lines of code that these lines of the answer settle."""
        return [code + "\n" for line in lines for code in self._take(line)]

    def finish(self) -> list[str]:
        """The last lines. Raises BadAnswer if there is no code in the answer; "no change needed" gives the source."""
        thoughts, self._thoughts, self._may_think = self._thoughts or [], None, False
        # A tag that is never closed: the answer is what follows it.
        code = [code for line in thoughts for code in self._take(line)]
        if self._own_fence is not None:
            code += self._take("")
        if self._state == "before":
            code += self._unfenced()
        held = self._held_code()
        if not self._has_code and held and all(NO_CHANGE.search(line) for line in held):
            return list(self._source)
        return [line + "\n" for line in code + held]

    def _take(self, line: str) -> list[str]:
        if not self._has_code and not self._source[0].startswith(BOM):
            line = line.removeprefix(BOM)
        if self._may_think and not self._has_code and self._state != "after":
            rest = self._without_thoughts(line)
            if rest is None:
                return []
            line = rest
        elif self._may_think and (THOUGHTS_END.search(line) if self._state == "after" else THOUGHTS_TAG.match(line)):
            raise BadAnswer("the model mixed its thoughts with the code; nothing was changed: try again")
        if self._state == "before":
            return self._open(line)
        if self._state == "inside":
            return self._inside(line)
        return self._bare(line) if self._state == "bare" else []

    def _without_thoughts(self, line: str) -> str | None:
        """A line before the code, without thoughts; None if nothing is left of it."""
        begin = THOUGHTS_BEGIN.match(line)
        if begin and self._thoughts is None:
            self._thoughts, line = [], line[begin.end() :]
        # Some models are sent the opening tag, and write the closing one only.
        end = THOUGHTS_END.search(line) if self._thoughts is not None or self._state == "before" else None
        if end:
            self._thoughts, self._before = None, []
            return line[end.end() :].lstrip() or None
        if self._thoughts is None:
            return line
        self._thoughts.append(line)
        return None

    def _open(self, line: str) -> list[str]:
        """Look for the start of the code: a fence, or the source's own first line without one."""
        text = line.strip()
        fence = FENCE.match(line.rstrip())
        is_begin = all(map(self._is_chatter, self._before))
        if self._own_fence is not None:
            own, self._own_fence = self._own_fence, None
            if text != self._first:
                self._state = "bare"
                return [*self._code(own), *self._take(line)]
            return [*self._start(own), *self._take(line)]
        if text == self._first and fence and is_begin:
            self._own_fence = line
        elif fence and (is_begin or (text not in self._known and (fence[2][0] == "`" or fence[3]))):
            return self._start(line)
        elif text == self._first and is_begin:
            self._state = "bare"
            return self._take(line)
        elif text or self._before:
            self._before.append(line)
        return []

    def _start(self, line: str) -> list[str]:
        fence = FENCE.match(line.rstrip())
        assert fence is not None
        self._state, self._indent, self._opening = "inside", fence[1], fence[2]
        self._margin = fence[1]
        # Code can stand where the name of the language does.
        is_in_name = self._first in (fence[3], fence[3].partition(" ")[2].strip()) and not NAME.fullmatch(self._first)
        return self._code(self._first) if is_in_name else []

    def _inside(self, line: str) -> list[str]:
        if not self._has_code and line.strip() and not line.startswith(self._indent):
            self._margin = ""
        # A backtick fence as long as asked for can't be in the code. Of others the last one ends it.
        is_sure = self._opening[0] == "`" and len(self._opening) >= len(self._fence)
        glued = GLUED_FENCE.fullmatch(line)
        if is_sure and glued and len(glued[2]) >= len(self._opening) and "```" not in glued[1]:
            self._state = "after"
            return self._code(line[: glued.end(1)].removeprefix(self._margin))
        if not self._is_closing(line):
            return self._code(line.removeprefix(self._margin))
        if is_sure:
            self._state = "after"
            self._end = len(self._held)
            return []
        code = self._release() if self._is_ended else []
        self._end, self._is_ended = len(self._held), True
        self._held.append(line)
        return code

    def _bare(self, line: str) -> list[str]:
        """A line of an answer that has no opening fence."""
        fence = FENCE.match(line.rstrip())
        if fence and fence[2][0] == "`" and not fence[1] + fence[3] and not self._has_fences:
            self._state = "after"
            return []
        if self._is_ended and line.strip() in self._known and any(map(str.isalnum, line)):
            return [*self._release(), line]
        if not self._is_prose and self._held and not self._is_ended and CHATTER_AFTER.fullmatch(line.strip()):
            self._end, self._is_ended = len(self._held), True
        return self._code(line)

    def _code(self, line: str) -> list[str]:
        """A line that is code, if it needn't be held."""
        is_first = not self._has_code and not self._held
        if is_first and (not line.strip() or self._is_echo(line)):
            return []
        fence = FENCE.match(line.rstrip())
        if fence and not fence[3] and not self._is_ended:
            self._end = len(self._held)
        elif line.strip() and not self._is_ended and not (is_first and self._says_no_change(line)):
            return [*self._release(), line]
        self._held.append(line)
        return []

    def _release(self) -> list[str]:
        """What was held turned out to be code."""
        held, self._held = self._held, []
        self._end, self._is_ended, self._has_code = None, False, True
        return held

    def _held_code(self) -> list[str]:
        """What of the held lines is code if nothing more comes."""
        end = len(self._held) if self._end is None else self._end
        fences = [line for line in self._held if FENCE.match(line)]
        is_own = not self._is_ended and FENCE.match(self._last) and len(fences) == 1
        kept = self._held[: end + 1 if is_own else end]
        while kept and not kept[-1].strip():
            kept.pop()
        return kept

    def _unfenced(self) -> list[str]:
        """The code of an answer without a fence: that it is code shows at its end only."""
        lines = [*self._before]
        if not lines:
            raise BadAnswer("the model gave no answer; try again, or say the instruction in other words")
        while lines and self._is_chatter(lines[0]):
            lines.pop(0)
        inline = IN_BACKTICKS.fullmatch(lines[0].strip()) if len(lines) == 1 else None
        if inline and lines[0].strip() not in self._known:
            lines = [lines[0].lstrip()[inline.start(2) : inline.end(2)]]
        if alike(self._source, lines):
            self._state = "bare"
            return [code for line in lines for code in self._take(line)]
        if any(map(NO_CHANGE.search, self._before)):
            return [line.removesuffix("\n") for line in self._source]
        raise BadAnswer("the model answered in prose instead of code; try again, or say the instruction in other words")

    def _is_chatter(self, line: str) -> bool:
        """Whether a line before the code is none. In a text such a line may be the text itself."""
        text = line.strip()
        if not text or self._is_echo(line):
            return True
        is_said = text not in self._known and CHATTER_BEFORE.fullmatch(text)
        return bool(is_said) and (text.endswith(":") or not self._is_prose)

    def _is_echo(self, line: str) -> bool:
        """Whether a line repeats one of the prompt, perhaps as a comment."""
        text = line.strip()
        bare = COMMENT_LEAD.sub("", text)
        is_echo = text in self._echoes or (bare != text and bare in self._commented_echoes)
        return is_echo and text not in self._known

    def _says_no_change(self, line: str) -> bool:
        return line.strip() not in self._known and bool(NO_CHANGE.search(line))

    def _is_closing(self, line: str) -> bool:
        """Whether a line may close the block. A fence with a name opens one inside the code; the next closes that."""
        fence = FENCE.match(line.rstrip())
        if fence is None or fence[2][0] != self._opening[0] or len(fence[2]) < len(self._opening):
            return False
        if len(fence[1]) > len(self._indent):
            return False
        if fence[3]:
            self._depth += 1
            return False
        if self._depth:
            self._depth -= 1
            return False
        return True


def alike(source: Sequence[str], answer: Sequence[str]) -> bool:
    """Whether two texts share enough for one to be a rewrite of the other."""
    ours = [line.strip() for line in source if line.strip()]
    theirs = [line.strip() for line in answer if line.strip()]
    if LCSseq.similarity(ours, theirs) >= max(1, MIN_ALIKE * min(len(ours), len(theirs))):
        return True
    return fuzz.ratio("\n".join(ours), "\n".join(theirs)) >= MIN_RATIO
