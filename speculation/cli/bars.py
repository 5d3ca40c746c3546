"""Progress bars on stderr, for commands that let a person wait.

Knows rich and no work. Import it where the waiting begins: a command that answers at once has no use for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text


class Figures(ProgressColumn):
    """Bytes, rate and time left; where nobody can tell how much there is, the time so far."""

    known = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    unknown = (TimeElapsedColumn(),)

    def render(self, task: Task) -> Text:
        return Text("  ").join(column.render(task) for column in (self.known if task.total else self.unknown))


@contextmanager
def byte_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Draw a bar for each thing reported to what this yields: what it is, bytes done, of how many (0: unknown)."""
    tasks: dict[str, TaskID] = {}
    with Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=20), Figures(), console=Console(stderr=True)
    ) as bars:

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total or None)
            bars.update(tasks[what], completed=done)

        yield progress
