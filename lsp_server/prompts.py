"""What the model is asked: rules and code first, the instruction last.

So the prompt of `stet/prepare` and the prompt of the rewrite that follows are the same text up to the instruction, and
the engine's cache holds that part when the user presses Enter.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lsp_server.documents import BOM, Snapshot, is_blank
from lsp_server.form import Form
from lsp_server.recipes import RECIPES, Recipe
from lsp_server.scopes import Region
from speculation.errors import ConfigError

CONTEXT_CHARS = 6000
"""How much of the file around the region is shown. More helps little, and costs a CPU seconds to read."""
NEAR_LINES = 400
"""So many lines before and after the region are looked at for what the model repeats: more than it is shown, mostly."""

HOLE = "[...]"
"""Stands in the file for the code to edit. Small models that see it there as well give back the whole file."""

AGAIN = "The last answer left the code as it was. The instruction does ask for a change: make it."
"""Put after the instruction for another try, when an answer changed nothing."""
AGAIN_TEMPERATURE = 0.3
"""Of that try: first choices alone would often come out the same again."""

EARLIER = "Done before, and to be kept: "
"""Put after the words of a refinement, with the instructions that the code shown has come from."""
ALTERNATIVE_TEMPERATURE = 0.8
"""Of another version to the same instruction: it is to differ."""

SYSTEM = (
    "You edit source code. You are given code and an instruction. Carry out the instruction and reply with the "
    "complete edited code in one fenced code block and nothing else. Change only what the instruction asks for: every "
    "other line stays exactly as it is, comments and blank lines included."
)


class Wish(NamedTuple):
    """What is asked of the model."""

    instruction: str = ""
    """In words for the user: an instruction as it was given, or a recipe's title."""
    task: str = ""
    """In words for the model."""
    recipe: str | None = None
    earlier: tuple[str, ...] = ()
    """The instructions before, whose work the model is shown."""


FENCE_NAMES = {
    "typescriptreact": "tsx",
    "javascriptreact": "jsx",
    "shellscript": "bash",
    "plaintext": "",
    "": "",
}
"""Editors' language ids that differ from the names that models know from Markdown."""


@dataclass(frozen=True)
class Prompt:
    """One question to the model, and what its answer is likely to be."""

    messages: list[dict[str, str]]
    prediction: str
    fence: str
    form: Form
    shown: list[str]
    """The lines of code that the model is shown: the region's own, or those proposed for it."""
    task: str
    """The instruction in words."""
    echoes: frozenset[str]
    """Lines of the prompt that a model may repeat before the code."""
    before: list[str]
    after: list[str]
    """The lines of the document around the region."""
    snapshot: Snapshot
    region: Region
    file_type: str
    max_tokens: int


def build_prompt(
    snapshot: Snapshot, region: Region, task: str, path: str, rules: str = "", proposed: str | None = None
) -> Prompt:
    """The prompt for a region; an empty task gives the part that is known before the instruction is.

    rules: what the project says about its code (lsp_server.project).
    proposed: a text that the model is shown, and changes, instead of the region's own.
    """
    text = snapshot.text
    form = Form.of(text[region.start : region.end], text[: region.start], text[region.end :])
    shown = form.source if proposed is None else form.shown(proposed)
    source = "".join(shown)
    fence = fence_for(text + (proposed or ""))
    name = FENCE_NAMES.get(snapshot.language_id, snapshot.language_id)
    parts = [f"File: {path}"]
    context = _context(snapshot, region, form)
    if context:
        parts.append(f"The rest of the file, for reference only:\n{fence}{name}\n{context}{fence}")
    title = f"The code to edit, which stands at {HOLE}" if context else "The code to edit"
    parts.append(f"{title}:\n{fence}{name}\n{source}{fence}")
    system = f"{SYSTEM}\n\nRules of the project that the code belongs to:\n{rules}" if rules else SYSTEM
    parts.append(f"Instruction: {task}\n\nReply with {_wanted(form, shown, context)}, in one {fence}{name} block.")
    return Prompt(
        messages=[{"role": "system", "content": system}, {"role": "user", "content": "\n\n".join(parts)}],
        prediction=f"{fence}{name}\n{source}{fence}",
        fence=fence,
        form=form,
        shown=shown,
        task=task,
        echoes=frozenset([f"File: {path}", *(f"Instruction: {line}" for line in task.splitlines()[:1])]),
        before=snapshot.lines[max(0, region.first - NEAR_LINES) : region.first],
        after=snapshot.lines[region.last : region.last + NEAR_LINES],
        snapshot=snapshot,
        region=region,
        file_type=snapshot.language_id or "plaintext",
        # Twice the source at three bytes a token, and room for short sources: what is longer has run away.
        max_tokens=2 * math.ceil(len(source.encode("utf-8", "surrogatepass")) / 3) + 512,
    )


def _wanted(form: Form, shown: Sequence[str], context: str) -> str:
    """What to reply with. Small models that aren't told where a part begins and ends give back the whole file."""
    if not context:
        return "the edited code only"
    lines = [line.strip() for line in shown if line.strip()]
    if len(lines) == 1:
        return f"this {'part of the ' * bool(form.head or form.tail)}line only, edited"
    # A bracket alone says nothing of where the end is: the model would stop at the first one.
    tail = next(n for n in range(len(lines) - 1, -1, -1) if n == 0 or sum(map(str.isalnum, lines[n])) > 3)
    return f"this part only, edited, from `{lines[0][:100]}` to `{' '.join(lines[tail:])[-100:]}`"


def task_text(
    instruction: str | None,
    recipe: str | None,
    diagnostics: Sequence[Mapping[str, Any]],
    snapshot: Snapshot,
    recipes: Mapping[str, Recipe] = RECIPES,
    *,
    earlier: Sequence[str] = (),
    again: bool = False,
) -> str:
    """The instruction in words: the user's own or a recipe's, with the problems that the editor reported.

    earlier: what was asked before, for code that is the answer to it. again: after an answer that changed nothing.
    """
    if recipe is not None and recipe not in recipes:
        raise ConfigError(f"there is no recipe {recipe!r:.80}; there are {', '.join(recipes)}")
    if recipe == "fix-diagnostic" and not diagnostics:
        raise ConfigError(
            "fix-diagnostic needs at least one diagnostic of the editor; put the cursor on a marked place"
        )
    words = recipes[recipe].words(snapshot.language_id) if recipe else (instruction or "").strip()
    if not words:
        raise ConfigError("the instruction is empty; say what to change")
    problems = [_problem(diagnostic, snapshot) for diagnostic in diagnostics]
    return "\n".join(
        [
            words,
            *(["Reported problems:", *problems] if problems else []),
            *([EARLIER + "; ".join(" ".join(each.split()) for each in earlier)] if earlier else []),
            *([AGAIN] if again else []),
        ]
    )


def _problem(diagnostic: Mapping[str, Any], snapshot: Snapshot) -> str:
    """A diagnostic in one line. The line is quoted, for models count lines badly."""
    number = diagnostic["range"]["start"]["line"]
    line = snapshot.lines[number].strip() if number < len(snapshot.lines) else ""
    message = " ".join(str(diagnostic["message"]).split())
    return f"- at `{line}`: {message}"


def fence_for(text: str) -> str:
    """A fence that is longer than any run of backticks in text."""
    if "```" not in text:  # Found out in no time, however long the text is.
        return "```"
    return "`" * (1 + max(map(len, re.findall(r"`{3,}", text))))


def _context(snapshot: Snapshot, region: Region, form: Form) -> str:
    """The file around the region, as much as there is room for; empty if there is nothing to see."""
    lines = snapshot.lines
    first, last = region.first, region.last
    room = CONTEXT_CHARS
    while room > 0 and (first > 0 or last < len(lines)):
        # Two lines before for each one after: what a region uses stands mostly above it.
        for _ in range(2):
            if first > 0:
                first -= 1
                room -= len(lines[first])
        if last < len(lines):
            last += 1
            room -= len(lines[last - 1])
    before = _with_newlines(lines[first : region.first]) + form.head
    after = form.tail + "\n" + _with_newlines(lines[region.last : last])
    return "" if is_blank(before + after) else f"{before}{HOLE}{after}".removeprefix(BOM)


def _with_newlines(lines: Sequence[str]) -> str:
    return "".join(line.rstrip("\r\n") + "\n" for line in lines)
