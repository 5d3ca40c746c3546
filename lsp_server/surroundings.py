"""What an answer repeats of the file around the code. Models that are shown the file like to give more of it back.

Only exactly the lines right before or right after the code are taken off. What is like them stays, and is warned of.
"""

import re
from collections.abc import Iterable, Sequence

from rapidfuzz.distance import LCSseq

from lsp_server.edits import Hunk
from lsp_server.guards import AnswerWarning

CLOSER = re.compile(r"</[\w:.-]+>|(?:end\w*|done|esac|pass|return|break|continue)\b;?")
"""A line that ends a block says nothing: new code ends with one, too."""
MIN_PROOF = 3
"""So many letters and digits in lines that the code itself hasn't got prove that it is the file around."""
LONG_RUN = 3
"""So many lines in a row prove it whatever their indentation."""
MIN_REPEATED = 4
"""So many lines are worth a warning, if they are most of what was written there."""


class RepeatedHead:
    """Holds the lines of an answer back while they are those before the code; drops them when the code is reached."""

    def __init__(self, before: Sequence[str], source: Sequence[str]) -> None:
        self._before = filled(before)
        self._known = set(filled(source))
        self._starts = list(range(len(self._before)))
        """Where in the lines before the code the answer may have begun."""
        self._held: list[str] = []
        self._n_filled = 0
        self._cut = 0
        """How many of the held lines end right where the code begins."""
        self._is_over = False

    def feed(self, lines: Iterable[str]) -> list[str]:
        """The lines that are not held any more."""
        code: list[str] = []
        for line in lines:
            if self._is_over:
                code.append(line)
            else:
                code += self._take(line)
        return code

    def finish(self) -> list[str]:
        """The rest."""
        return [] if self._is_over else self._end()

    def _take(self, line: str) -> list[str]:
        self._held.append(line)
        if not line.strip():
            return []
        at = self._n_filled
        self._starts = [start for start in self._starts if self._before[start + at : start + at + 1] == [line.strip()]]
        if not self._starts:
            return self._end()
        self._n_filled += 1
        if self._starts[-1] + self._n_filled == len(self._before):
            self._cut = len(self._held)
        return []

    def _end(self) -> list[str]:
        self._is_over = True
        head = self._held[: self._cut]
        if not _is_proof(head, self._known):
            return self._held
        rest = self._held[self._cut :]
        return rest[next((n for n, line in enumerate(rest) if line.strip()), 0) :]


class RepeatedTail:
    """Holds lines of an answer back while they are those after the code; drops them when nothing else comes."""

    def __init__(self, after: Sequence[str], source: Sequence[str], indent: str) -> None:
        self._after = [line.rstrip() for line in after if line.strip()]
        self._texts = filled(after)
        self._known = set(filled(source))
        self._indent = indent
        self._held: list[str] = []
        self._n_filled = 0

    def feed(self, lines: Iterable[str]) -> list[str]:
        """The lines that can't be those after the code."""
        code: list[str] = []
        for line in lines:
            self._held.append(line)
            self._n_filled += bool(line.strip())
            if not line.strip() or self._texts[self._n_filled - 1 : self._n_filled] == [line.strip()]:
                continue
            while (run := filled(self._held)) != self._texts[: len(run)]:
                code.append(self._held.pop(0))
            self._n_filled = len(run)
        return code

    def finish(self) -> list[str]:
        """The rest."""
        run = filled(self._held)
        # Of a short run the indentation must be right as well: an inner block may end as the outer one goes on.
        is_exact = all(
            not line.strip() or (self._indent + line).rstrip() in self._after[: len(run)] for line in self._held
        )
        if (is_exact or len(run) >= LONG_RUN) and _is_proof(self._held, self._known):
            return []
        return self._held


def filled(lines: Iterable[str]) -> list[str]:
    """The lines that are not blank, without indentation."""
    return [line.strip() for line in lines if line.strip()]


def _is_proof(lines: Iterable[str], known: set[str]) -> bool:
    """Whether lines can't have come about by chance."""
    telling = (line for line in filled(lines) if line not in known and not CLOSER.fullmatch(line))
    return sum(map(str.isalnum, "".join(telling))) >= MIN_PROOF


def repeated(
    source: Sequence[str], hunks: Sequence[Hunk], before: Sequence[str], after: Sequence[str]
) -> list[AnswerWarning]:
    """What an answer has at its ends that is mostly in the file there already: applied, it would stand there twice.

    `hunks` are all hunks on source.
    """
    known = set(filled(source))
    warnings = []
    for is_there, new_lines, there, where in (
        (bool(hunks) and hunks[0].first == 0, hunks[:1], filled(before), "before"),
        (bool(hunks) and hunks[-1].last == len(source), hunks[-1:], filled(after), "after"),
    ):
        new = [line for hunk in new_lines for line in filled(hunk.new_lines) if line not in known]
        there = there[-2 * len(new) :] if where == "before" else there[: 2 * len(new)]
        n_repeated = LCSseq.similarity(new, there) if is_there else 0
        if n_repeated >= MIN_REPEATED and 2 * n_repeated > len(new):
            message = f"the model repeats {n_repeated} lines that stand {where} the selected ones already"
            warnings.append(AnswerWarning("repeats_surroundings", message))
    return warnings
