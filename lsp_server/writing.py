"""One answer of the model turned into hunks, while it streams. The command line uses it alone; knows no document."""

from collections.abc import Sequence

from lsp_server.edits import Hunk, StreamDiff
from lsp_server.engine_client import Event
from lsp_server.form import Reindent
from lsp_server.guards import Cleaner, check_answer, check_bounds
from lsp_server.progress import Meter
from lsp_server.prompts import Prompt


class Writing:
    """One answer of the model: cleaned, put into the document's form, compared with the region's lines."""

    def __init__(self, prompt: Prompt) -> None:
        self.form = prompt.form
        self._outside = prompt.outside
        source = self.form.source
        self.meter = Meter(
            prompt_bytes=sum(len(message["content"].encode("utf-8", "surrogatepass")) for message in prompt.messages),
            source_chars=sum(map(len, source)),
        )
        self.new_lines: list[str] = []
        """The new lines so far, in the document's form."""
        self.hunks: list[Hunk] = []
        """Final hunks on form.lines."""
        self._answer: list[str] = []
        self._cleaner = Cleaner(prompt.fence, source)
        self._diff = StreamDiff(source)
        self._reindent = Reindent(self.form)

    @property
    def line(self) -> int:
        """The line of the region that writing has reached: all before it is final."""
        return self.form.first + self._diff.line

    def take(self, event: Event) -> None:
        """The next event of the engine. Raises BadAnswer at the end if the answer can't be used."""
        self.meter.take(event)
        self._add(self._cleaner.feed(event.text))
        if event.state == "end":
            if event.finish_reason != "length":
                self._add(self._cleaner.finish())
            check_answer(self.form.source, self._answer, event.finish_reason)
            check_bounds(self.form.source, self._outside, self._answer)
            self._diff.finish()
        self.hunks += [self.form.restore_hunk(hunk) for hunk in self._diff.hunks[len(self.hunks) :]]

    def _add(self, lines: Sequence[str]) -> None:
        lines = [self._reindent.line(line) for line in lines]
        self._answer += lines
        new = [self.form.restore(line) for line in lines]
        if not self.new_lines:
            new[:1] = map(self.form.with_lead, new[:1])
        self.new_lines += new
        self._diff.feed(lines)
