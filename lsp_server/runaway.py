"""Does a model only repeat itself? Told while it writes, from the lines of its answer and those of the file."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby

from lsp_server.guards import BadAnswer

LINES = 32
"""So many lines that repeat those before them are no table any more, if the file has nothing like it."""
TIMES = 3
"""So often a block must come, however long it is."""
PLACES = 32
"""How many earlier places of the same line are looked at."""
CHARS = 2000
"""Within a line that doesn't end: so many characters that repeat those before them."""
PERIOD = 200
"""How long a piece may be that is repeated within a line."""
CHECK_EVERY = 250
ROOM = 4000
"""How many characters a line may get beyond all that the file gives reason for."""


class Runaway:
    """Watches an answer for a block of lines, or a piece of a line, that comes again and again.

    The more often the file has it, the more often it may come: tables and minified lines are copied in peace.
    """

    def __init__(self, file: Sequence[str], source: Sequence[str]) -> None:
        self._file = file
        self._longest = sum(map(len, source)) + 2 * max(map(len, file), default=0) + ROOM
        self._lines: list[str] = []
        self._places: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=PLACES))
        self._repeats: dict[int, int] = {}
        """For a distance: how many lines up to the last one are the same as the line so far before each."""
        self._n_checked = 0

    @cached_property
    def _counts(self) -> Counter[str]:
        """How often the file has a line."""
        return Counter(line.strip() for line in self._file)

    @cached_property
    def _runs(self) -> Counter[str]:
        """How often the file has a line in a row."""
        runs: Counter[str] = Counter()
        for line, run in groupby(line.strip() for line in self._file):
            runs[line] = max(runs[line], sum(1 for _ in run))
        return runs

    def check(self, lines: Iterable[str], pending: str) -> None:
        """The next lines of the answer, and the one that is being written. Raises BadAnswer."""
        for line in lines:
            self._n_checked = 0
            self._take(line.strip())
        if len(pending) >= self._n_checked + CHECK_EVERY:
            self._n_checked = len(pending)
            self._check_line(pending)

    def _take(self, line: str) -> None:
        at = len(self._lines)
        self._repeats = {at - place: self._repeats.get(at - place, 0) + 1 for place in self._places[line]}
        self._lines.append(line)
        self._places[line].append(at)
        for period, n_repeats in self._repeats.items():
            n_lines = n_repeats + period
            least = max(LINES, TIMES * period)
            if n_lines >= least and n_lines >= least + 2 * self._n_in_file(self._lines[-period:]):
                block = [text for text in self._lines[-period:] if text] or ["blank lines"]
                raise _ran_away(f"it wrote {block[0][:60]!r} and so on again and again")

    def _n_in_file(self, block: list[str]) -> int:
        """How many lines of the file are such blocks; of a single line: how many in a row."""
        distinct = set(block)
        if len(distinct) == 1:
            return self._runs[block[0]]
        return len(block) * min(self._counts[line] for line in distinct if line)

    def _check_line(self, line: str) -> None:
        end = line[-CHARS:]
        is_loop = len(end) == CHARS and any(end[period:] == end[:-period] for period in range(1, PERIOD + 1))
        if (is_loop and end not in "".join(self._file)) or len(line) > self._longest:
            raise _ran_away("it wrote a line without an end")


def _ran_away(how: str) -> BadAnswer:
    return BadAnswer(
        f"the model repeated itself and was stopped: {how}; nothing was changed: say the instruction in other words, "
        "or select fewer lines"
    )
