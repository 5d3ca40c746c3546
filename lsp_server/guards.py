"""What stands between a model's code and the user's: what is never applied, what is warned of. Knows no document."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from lsp_server.edits import Hunk
from lsp_server.placeholders import is_placeholder
from speculation.errors import StetError

LOST_LINES = 3
"""So many lines left off at one end of the code are no small tidying up any more."""
LOST_SHARE = 0.05
"""The same, as a share of the code."""
REMOVES = re.compile(
    r"(?<!not )(?<!n't )(?<!never )(?<!without )(?:"
    r"\b(?:remov|delet|drop(?:s|ped|ping)?\b|get rid|strip(?:s|ped|ping)?\b|cut\b|trim|shorten|reduc|condens|minif"
    r"|collaps|merg|extract|mov(?:e|ing)\b|unused|dead code|summar|entfern|lösch|kürz|streich|supprim|enlev|retir"
    r"|raccourc|elimin|borr|quita|suprim|acort|apag|exclu"
    r"|удал|убер|убра|сократ)"  # noqa: RUF001
    r"|删|移除|去掉|精简|削除|取り除|消し|삭제|제거|지우)",
    re.IGNORECASE,
)
"""Words of an instruction that wants lines to go."""


class BadAnswer(StetError):
    """The model's answer can't be used; nothing is applied."""

    code = "bad_answer"


class AnswerWarning(NamedTuple):
    """A reason to look at a rewrite before it is accepted."""

    code: str
    message: str


def check_complete(finish_reason: str | None) -> None:
    """Raise BadAnswer if the model was stopped at the limit of its tokens."""
    if finish_reason == "length":
        raise BadAnswer(
            "the model didn't come to an end and was stopped; nothing was changed: select fewer lines and try again"
        )


def check_line(line: str, file: Sequence[str], task: str) -> None:
    """Raise BadAnswer for a line that stands for code, unless the file or the instruction has the same words."""
    text = line.strip()
    if is_placeholder(line) and text not in task and all(text != known.strip() for known in file):
        raise BadAnswer(f"the model left code out (it wrote {text[:80]!r}); select fewer lines and try again")


def check_filled(answer: Sequence[str]) -> None:
    """Raise BadAnswer for a complete answer without code."""
    if not any(line.strip() for line in answer):
        raise BadAnswer("the model answered with no code at all; to delete lines, delete them")


def lost_code(source: Sequence[str], hunks: Sequence[Hunk], task: str) -> list[AnswerWarning]:
    """What an answer leaves off, unless the instruction speaks of removing: a model that stops early isn't told apart.

    `hunks` are all hunks on source.
    """
    if not hunks or REMOVES.search(task):
        return []
    n_source = _n_filled(source)
    least = max(LOST_LINES, LOST_SHARE * n_source)
    warnings = []
    for hunk, is_at_end, code, which in (
        (hunks[0], hunks[0].first == 0, "lost_head", "first"),
        (hunks[-1], hunks[-1].last == len(source), "lost_tail", "last"),
    ):
        n_old = _n_filled(source[hunk.first : hunk.last])
        if is_at_end and n_old >= least and not _n_filled(hunk.new_lines):
            warnings.append(AnswerWarning(code, f"the model left off the {which} {n_old} lines of the code"))
    n_lost = sum(_n_filled(source[hunk.first : hunk.last]) - _n_filled(hunk.new_lines) for hunk in hunks)
    if not warnings and n_lost >= LOST_LINES and n_lost > n_source / 2:
        message = f"of {n_source} lines of code the model left {n_source - n_lost}"
        warnings.append(AnswerWarning("large_deletion", message))
    return warnings


def loses_lines(source: Sequence[str], hunks: Sequence[Hunk], answer: Sequence[str]) -> bool:
    """Whether an answer ends otherwise than source, or has fewer lines anywhere. `hunks` are all hunks on source."""
    ends = [next((line for line in reversed(lines) if line.strip()), "") for lines in (source, answer)]
    return ends[0] != ends[1] or any(
        _n_filled(source[hunk.first : hunk.last]) > _n_filled(hunk.new_lines) for hunk in hunks
    )


def _n_filled(lines: Sequence[str]) -> int:
    return sum(bool(line.strip()) for line in lines)
