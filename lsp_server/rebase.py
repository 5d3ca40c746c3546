"""What has become of a passage of a document since its rewrite began. Knows documents and edits, no rewrite.

Hunks refer to the passage as it was. The passage as it is differs from that in some spans (the user's edits, and the
hunks that were accepted); between them it is the same text, and only there can a hunk be placed.
"""

from collections.abc import Iterable
from typing import NamedTuple

from lsp_server.documents import Edit, Snapshot, common_prefix, is_blank

NEAR = 1000
"""How many characters an edit is moved at most to make it one of whole lines."""


class Span(NamedTuple):
    """Where text[start:end] of the passage was, n_now other characters stand."""

    start: int
    end: int
    n_now: int

    @property
    def growth(self) -> int:
        """How many characters more there are."""
        return self.n_now - (self.end - self.start)


class Passage:
    """The text start:end of a document, and what its changes have made of it."""

    def __init__(self, snapshot: Snapshot, start: int, end: int) -> None:
        self.snapshot = snapshot
        """The document as it is."""
        self.text = snapshot.slice(start, end)
        """The passage as it was."""
        self.start = start
        """Where it begins in the document as it is."""
        self.spans: list[Span] = []
        """In order, and apart or side by side."""
        self._begins_line = snapshot.is_line_start(start)
        self._ends_line = snapshot.is_line_start(end) or end == snapshot.n_chars

    @property
    def end(self) -> int:
        """Where it ends in the document as it is."""
        return self.start + len(self.text) + sum(span.growth for span in self.spans)

    @property
    def is_gone(self) -> bool:
        """Whether nothing but blanks is left of the old text."""
        starts = [0, *(span.end for span in self.spans)]
        ends = [*(span.start for span in self.spans), len(self.text)]
        return all(is_blank(self.text[start:end]) for start, end in zip(starts, ends, strict=True))

    def follow(self, edits: Iterable[Edit], snapshot: Snapshot) -> bool:
        """Take in edits, after which snapshot stands; whether any of them was in the passage or at its border."""
        before = self.spans
        is_touched = False
        for edit in edits:
            is_touched |= self._compose(edit)
        self.snapshot = snapshot
        if is_touched:
            self._tidy({id(span) for span in before})
        return is_touched

    def place(self, start: int, end: int) -> int | None:
        """Where the whole lines text[start:end] stand in the document as it is; None if somebody edited them.

        An empty one is a place between two lines. Whole lines that were put right before it leave it as it is.
        """
        if not self.spans and start > 0 and end < len(self.text):
            return self.start + start  # as nearly always: this is asked for each hunk each time the hunks are told
        if any(span.start < end and start < span.end for span in self.spans):
            return None
        at = self.start + start + sum(span.growth for span in self.spans if span.end <= start)
        places = [at]
        if start == end:
            # What was typed here may have made the line that follows longer: then before it.
            places += [at - span.n_now for span in self.spans if span.start == span.end == start]
        return next((at for at in places if self._is_between_lines(at, start, end)), None)

    def now(self, offset: int) -> int:
        """Where an offset of the passage as it was is in the document; in what was edited, the end of that."""
        at = self.start + offset
        for span in self.spans:
            if span.end <= offset:
                at += span.growth
            elif span.start < offset:
                at += span.start - offset + span.n_now
        return at

    def _is_between_lines(self, at: int, start: int, end: int) -> bool:
        """Whether text[start:end], put at an offset of the document, neither begins nor ends within a line.

        A passage may itself begin or end within one: there it can. Between CR and LF there is no position at all.
        """
        stop = at + end - start
        if any(self.snapshot.slice(max(0, border - 1), border + 1) == "\r\n" for border in (at, stop)):
            return False
        if (start > 0 or self._begins_line) and not self.snapshot.is_line_start(at):
            return False
        if start == end:
            return True
        if end < len(self.text) or self.text[-1:] in ("\n", "\r"):
            return self.snapshot.is_line_start(stop)
        return not self._ends_line or self.snapshot.slice(stop, stop + 1) in ("", "\n", "\r")

    def _compose(self, edit: Edit) -> bool:
        """Let an edit and the spans that it touches become one; False if it is outside."""
        start, end = edit.start - self.start, edit.end - self.start
        if end < 0:
            self.start += len(edit.new_text) - (end - start)
        if end < 0 or edit.start > self.end:
            return False
        before: list[Span] = []
        touched: list[Span] = []
        after: list[Span] = []
        at = shift = 0
        for span in self.spans:
            at = span.start + shift
            shift += span.growth
            (before if at + span.n_now < start else touched if at <= end else after).append(span)
        shift = sum(span.growth for span in before)
        low, n_now = max(0, start) - shift, len(edit.new_text)
        if touched:
            n_now += max(0, start - (touched[0].start + shift))
            low = min(low, touched[0].start)
            shift += sum(span.growth for span in touched)
            n_now += max(0, touched[-1].end + shift - end)
        high = max(end - shift, *(span.end for span in touched[-1:]), 0)
        self.spans = [*before, Span(low, min(high, len(self.text)), n_now), *after]
        # What was put across the border counts as the passage's: an undo will show what of it was outside.
        self.start += min(0, start)
        return True

    def _tidy(self, known: set[int]) -> None:
        """Make the spans that aren't known as small as can be; additions at the border are outside."""
        tidied: list[Span] = []
        at = self.start
        for index, span in enumerate(self.spans):
            lower = tidied[-1].end if tidied else 0
            upper = self.spans[index + 1].start if index + 1 < len(self.spans) else len(self.text)
            tidy = span if id(span) in known else self._smallest(span, at + span.start, lower, upper)
            at += span.growth
            if tidy.start < tidy.end or (0 < tidy.start < len(self.text) and tidy.n_now):
                tidied.append(tidy)
            elif tidy.start == 0:
                self.start += tidy.n_now
        self.spans = tidied

    def _smallest(self, span: Span, at: int, lower: int, upper: int) -> Span:
        """The least change that does the same; of whole lines, if lines were added or taken away.

        Its text stands at an offset of the document; it may move between lower and upper. So Enter at the
        end of a line is no change of that line, and what was undone is no change at all.
        """
        old, new = self.text[span.start : span.end], self.snapshot.slice(at, at + span.n_now)
        head = common_prefix(old, new)
        tail = common_prefix(old[head:][::-1], new[head:][::-1])
        piece = old[head : len(old) - tail] or new[head : len(new) - tail]
        span = Span(span.start + head, span.end - tail, span.n_now - head - tail)
        if (span.start < span.end) == (span.n_now > 0):
            return span  # Both, or nothing at all.
        before = self.text[max(lower, span.start - NEAR) : span.start]
        after = self.text[span.end : min(upper, span.end + NEAR)]
        left = common_prefix((before + piece)[::-1], before[::-1])
        right = common_prefix(piece + after, after)
        whole = before + piece + after

        def is_whole_lines(by: int) -> bool:
            stop = len(before) + by + len(piece)
            return _is_line_start(self.text, span.start + by) and _is_line_start(whole, stop)

        moved = min(filter(is_whole_lines, range(-left, right + 1)), key=abs, default=0)
        return Span(span.start + moved, span.end + moved, span.n_now)


def _is_line_start(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n" or (text[at - 1] == "\r" and text[at : at + 1] != "\n")
