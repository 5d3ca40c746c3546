"""Edit tasks for the benchmarks: JSON lines with before, after and instruction. Knows no model."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from speculation.errors import ConfigError

T = TypeVar("T")
SURROGATE = re.compile("[\ud800-\udfff]")
SYSTEM = (
    "You rewrite code. Reply with the whole rewritten file in one fenced code block and nothing else. "
    "Keep everything that the instruction does not ask to change exactly as it is."
)


@dataclass(frozen=True, slots=True)
class Task:
    """One edit: the file before and after it, and what was asked for."""

    id: str
    language: str
    instruction: str
    before: str
    after: str

    @property
    def source(self) -> str:
        """The file as the answer would begin to write it: in its fence."""
        return f"```{self.language.lower()}\n{self.before.rstrip(chr(10))}\n```"

    def messages(self, instruction: str) -> list[dict[str, str]]:
        """The chat prompt: rules and code first, the instruction last, so that the prefix can be warm before it."""
        return [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"The file:\n\n{self.source}\n\nInstruction: {instruction}"},
        ]


def load(paths: Iterable[Path]) -> list[Task]:
    """All tasks of the files, in order. Raises ConfigError where a file isn't one of tasks, or none is there."""
    paths = list(paths)
    tasks = [task for path in paths for task in _load_file(path)]
    if not tasks:
        raise ConfigError(f"there is no task in {', '.join(map(str, paths))}")
    return tasks


def spread(items: Sequence[T], limit: int) -> list[T]:
    """At most limit of them, evenly."""
    if len(items) <= limit:
        return list(items)
    return [items[i * len(items) // limit] for i in range(limit)]


def _load_file(path: Path) -> list[Task]:
    try:
        lines = path.read_text("utf-8").split("\n")  # splitlines would cut at U+2028, which JSON may hold as it is
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: wanted a file of JSON lines with edit tasks: {error}") from None
    return [_task(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line.strip()]


def _task(line: str, place: str) -> Task:
    wanted = "an object with before, after and instruction as text"
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{place}: wanted {wanted}, this is not JSON: {error}") from None
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{place}: wanted {wanted}, not {type(fields).__name__}")
    for name in ("before", "after", "instruction"):
        if not isinstance(fields.get(name), str):
            raise ConfigError(f"{place}: wanted {wanted}; {name} is missing or not text")
        if SURROGATE.search(fields[name]):
            raise ConfigError(f"{place}: {name} has half a surrogate pair, which is no text")
    return Task(
        id=str(fields.get("id", place)),
        language=str(fields.get("language", "")),
        instruction=fields["instruction"],
        before=fields["before"],
        after=fields["after"],
    )
