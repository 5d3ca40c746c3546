"""Prompt lookup as transformers does it, the rule to beat. Used by the benchmarks; works on token ids.

transformers' PromptLookupCandidateGenerator: for n from n_gram down to 1, the leftmost earlier occurrence of the last
n tokens of prompt + output; the n_copied tokens that followed it (Saxena 2023).
"""

from collections.abc import Iterable

from speculation.types import Draft


class PromptLookupDrafter:
    """Leftmost match of the last n tokens, n from n_gram down to 1, n_copied tokens long whatever the cost."""

    def __init__(self, prompt: Iterable[int], n_gram: int, n_copied: int) -> None:
        self._n_gram, self._n_copied = n_gram, n_copied
        self._text: list[int] = []
        self._first_end: dict[tuple[int, ...], int] = {}
        self.observe(prompt)

    def observe(self, token_ids: Iterable[int]) -> None:
        """Append what came out of the target."""
        for token in token_ids:
            self._text.append(token)
            end = len(self._text)
            for n in range(1, min(self._n_gram, end) + 1):
                self._first_end.setdefault(tuple(self._text[end - n :]), end)

    def propose(self, n_max: int) -> Draft:
        """Up to n_copied tokens; empty when not even the last token occurred before."""
        for n in range(min(self._n_gram, len(self._text)), 0, -1):
            start = self._first_end[tuple(self._text[-n:])]
            if start < len(self._text):
                return Draft(tuple(self._text[start : start + min(self._n_copied, n_max)]), "suffix", n)
        return Draft()
