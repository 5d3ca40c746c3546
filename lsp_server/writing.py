"""One answer of the model turned into hunks, while it streams. The command line uses it alone; knows no document."""

import re
from collections.abc import Sequence

from lsp_server.cleaning import AnswerLines, Cleaner
from lsp_server.documents import Edit
from lsp_server.edits import Hunk, Part, StreamDiff, apply_hunks
from lsp_server.engine_client import Event
from lsp_server.form import Reindent
from lsp_server.guards import AnswerWarning, check_complete, check_filled, check_line, loses_lines, lost_code
from lsp_server.progress import Meter
from lsp_server.prompts import HOLE, Prompt
from lsp_server.runaway import Runaway
from lsp_server.surroundings import RepeatedHead, RepeatedTail, repeated
from lsp_server.syntax import breaks
from lsp_server.traced import Traced, written_in

ABOUT_BLANKS = re.compile(r"white ?space|trailing|\bblanks?\b|\bspaces?\b|\bbreaks?\b", re.IGNORECASE)
"""Words of an instruction that may want blanks at the ends of lines to change."""

BLANKS = " \t\n"


class Writing:
    """One answer of the model: cleaned, put into the document's form, compared with the region's lines."""

    def __init__(self, prompt: Prompt) -> None:
        self.form = prompt.form
        self._prompt = prompt
        source = self.form.source
        self.meter = Meter(
            prompt_bytes=sum(len(message["content"].encode("utf-8", "surrogatepass")) for message in prompt.messages),
            source_chars=sum(map(len, prompt.shown)),
        )
        self.new_lines: list[str] = []
        """The new lines so far, in the document's form."""
        self.hunks: list[Hunk] = []
        """Final hunks on form.lines."""
        self.warnings: list[AnswerWarning] = []
        """What the user should know before accepting; complete when the answer is."""
        self._answer: list[str] = []
        self._is_traced = True
        """Whether the engine says which characters were copied."""
        self._lines = AnswerLines()
        self._file = [*prompt.before, *self.form.lines, *prompt.after]
        self._runaway = Runaway(self._file, source)
        self._cleaner = Cleaner(prompt.fence, source, prompt.echoes)
        self._head = RepeatedHead(prompt.before, source)
        self._tail = RepeatedTail(prompt.after, source, self.form.indent)
        # Models drop blanks at the ends of lines, or add some: a line that is the same but for them was left alone.
        self._left_alone = {} if ABOUT_BLANKS.search(prompt.task) else {line.rstrip(BLANKS): line for line in source}
        self._source = set(source)
        self._ending: list[str] = []
        """Blank lines, and marks of the prompt for a hole, that nothing has come after yet."""
        is_own = HOLE in prompt.task or any(line.strip() == HOLE for line in self._file)
        self._may_end = {""} if is_own else {"", HOLE}
        self._diff = StreamDiff(source)
        self._reindent = Reindent(self.form)

    @property
    def line(self) -> int:
        """The line of the region that writing has reached: all before it is final."""
        return self.form.first + self._diff.line

    @property
    def n_final(self) -> int:
        """How many of new_lines are final."""
        return self._diff.n_settled

    @property
    def is_unchanged(self) -> bool:
        """Whether all of the answer is what the model was shown."""
        return self._answer == self._prompt.shown

    def written(self, hunk: Hunk) -> list[Part] | None:
        """The parts of a hunk's new lines that the model wrote itself; None if the engine doesn't say."""
        if not self._is_traced:
            return None
        return [Part(number, *span) for number, line in enumerate(hunk.new_lines) for span in written_in(line)]

    def message(self) -> str:
        """The state in words; once all is written, the warnings first."""
        return "; ".join([*(f"warning: {warning.message}" for warning in self.warnings), self.meter.message()])

    def take(self, event: Event) -> None:
        """The next event of the engine. Raises BadAnswer if the answer can't be used."""
        self.meter.take(event)
        if event.text:
            self._is_traced &= event.copied is not None
        lines = self._lines.feed(Traced.of(event.text, event.copied or ()))
        self._runaway.check(lines, self._lines.pending)
        self._add(self._head.feed(self._cleaner.feed(lines)))
        if event.state == "end":
            self._finish(event.finish_reason)
        self.hunks += [self.form.restore_hunk(hunk) for hunk in self._diff.hunks[len(self.hunks) :]]

    def check_syntax(self) -> None:
        """Once all is written: warn if the document parses as it was, and not with all hunks. Not for an event loop."""
        region, new = self._prompt.region, "".join(apply_hunks(self.form.lines, self.hunks))
        if self.hunks and breaks(self._prompt.snapshot, Edit(region.start, region.end, new)):
            message = "the result doesn't parse any more; look at it before you accept"
            self.warnings.append(AnswerWarning("does_not_parse", message))

    def _finish(self, finish_reason: str | None) -> None:
        check_complete(finish_reason)
        code = [*self._cleaner.feed(self._lines.finish()), *self._cleaner.finish()]
        self._add([*self._head.feed(code), *self._head.finish()])
        self._hold(self._tail.finish())
        is_hole = any(line.strip() for line in self._ending)
        if not is_hole:
            self._compare(self._ending)
        check_filled(self._answer)
        source, hunks, prompt = self.form.source, self._diff.finish(), self._prompt
        if is_hole and loses_lines(source, hunks, self._answer):
            check_line(HOLE, self._file, prompt.task)
        self.warnings += [
            *lost_code(source, hunks, prompt.task),
            *repeated(source, hunks, prompt.before, prompt.after),
        ]

    def _add(self, lines: Sequence[str]) -> None:
        self._hold(self._tail.feed(self._reindent.line(line) for line in lines))

    def _hold(self, lines: Sequence[str]) -> None:
        """Compare lines, save for an ending: after all of the code, a model may repeat the mark that stood for it."""
        lines = [*self._ending, *lines]
        n = len(lines)
        while n and lines[n - 1].strip() in self._may_end:
            n -= 1
        self._ending = lines[n:]
        self._compare(lines[:n])

    def _compare(self, lines: Sequence[str]) -> None:
        lines = [line if line in self._source else self._left_alone.get(line.rstrip(BLANKS), line) for line in lines]
        for line in lines:
            if line not in self._source:
                check_line(line, self._file, self._prompt.task)
        self._answer += lines
        new = [self.form.restore(line) for line in lines]
        if not self.new_lines:
            new[:1] = map(self.form.with_lead, new[:1])
        self.new_lines += new
        self._diff.feed(lines)
