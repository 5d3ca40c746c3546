"""Longest suffix match over prompt and output by a suffix automaton. Works on token ids; knows no tokenizer.

Blumer et al. 1985; used for drafting by SAM-Decoding (Hu et al. 2024) and SuffixDecoding (Oliaro et al. 2024).
"""

from collections.abc import Iterable

from speculation.types import Draft

N_LINKS_REFRESHED = 16
"""How many suffix links a new token walks to say "seen here last"; a cap keeps a token O(1) in repetitive text."""


class SuffixAutomaton:
    """All substrings of the text so far. After each token, the longest suffix that occurred before is one link away.

    Example, text a b c a b: the longest suffix seen before is "a b" (match_len 2), last seen ending at index 1, so
    text[2:] = c a b is what followed it.
    """

    def __init__(self) -> None:
        self.text: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link: list[int] = [-1]
        self._len: list[int] = [0]
        self._end: list[int] = [-1]  # index in text where the state's longest string was last seen to end, before now
        self._last = 0
        self._match = (0, 0)

    @property
    def match(self) -> tuple[int, int]:
        """(match_len, start): the longest suffix that occurred before, and the index that followed it."""
        return self._match

    @property
    def state(self) -> int:
        """The state of match, for follow."""
        return max(0, self._link[self._last])

    def follow(self, state: int, match_len: int, token: int) -> tuple[int, int, int]:
        """(state, match_len, start) after one more token that is not appended: the longest match in the text as it is.

        Walks from the longest match to ever shorter ones until one of them goes on with the token.
        """
        while token not in self._next[state]:
            if state == 0:
                return 0, 0, 0
            state = self._link[state]
            match_len = self._len[state]
        state = self._next[state][token]
        return state, match_len + 1, self._end[state] + 1

    def extend(self, token_ids: Iterable[int]) -> None:
        """Append tokens to the text."""
        for token in token_ids:
            self._append(token)

    def _append(self, token: int) -> None:
        nxt, link, length, end = self._next, self._link, self._len, self._end
        position = len(self.text)
        self.text.append(token)
        state = self._add_state({}, length[self._last] + 1, position)
        node = self._last
        while node != -1 and token not in nxt[node]:
            nxt[node][token] = state
            node = link[node]
        if node == -1:
            link[state] = 0
        else:
            target = nxt[node][token]
            if length[target] == length[node] + 1:
                link[state] = target
            else:
                clone = self._add_state(dict(nxt[target]), length[node] + 1, end[target])
                link[clone] = link[target]
                while node != -1 and nxt[node].get(token) == target:
                    nxt[node][token] = clone
                    node = link[node]
                link[target] = link[state] = clone
        self._last = state
        repeated = link[state]
        self._match = (length[repeated], end[repeated] + 1)
        self._refresh(repeated, position)

    def _add_state(self, transitions: dict[int, int], length: int, end: int) -> int:
        self._next.append(transitions)
        self._link.append(-1)
        self._len.append(length)
        self._end.append(end)
        return len(self._len) - 1

    def _refresh(self, state: int, position: int) -> None:
        for _ in range(N_LINKS_REFRESHED):
            if state <= 0:
                return
            self._end[state] = position
            state = self._link[state]


class SuffixDrafter:
    """Drafts what followed the last earlier occurrence of the longest repeated suffix."""

    source = "suffix"

    def __init__(self, prompt: Iterable[int]) -> None:
        self._automaton = SuffixAutomaton()
        self._automaton.extend(prompt)

    def fork(self) -> "SuffixFork":
        """A drafter for a supposed continuation; good until this one observes more."""
        return SuffixFork(self._automaton)

    def observe(self, token_ids: Iterable[int]) -> None:
        """Append what came out of the target."""
        self._automaton.extend(token_ids)

    def propose(self, n_max: int) -> Draft:
        """At most n_max tokens; empty when no suffix occurred before. O(n_max)."""
        match_len, start = self._automaton.match
        if match_len == 0:
            return Draft()
        return Draft(tuple(self._automaton.text[start : start + n_max]), self.source, match_len)


class SuffixFork:
    """Drafts for a supposed continuation of the text: walks the automaton and leaves it alone."""

    def __init__(self, automaton: SuffixAutomaton) -> None:
        self._automaton = automaton
        self._supposed: list[int] = []
        self._state = automaton.state
        self._match_len, self._start = automaton.match

    def observe(self, token_ids: Iterable[int]) -> None:
        """Suppose that these come next. O(1) a token on average."""
        for token in token_ids:
            self._supposed.append(token)
            self._state, self._match_len, self._start = self._automaton.follow(self._state, self._match_len, token)

    def propose(self, n_max: int) -> Draft:
        """At most n_max tokens behind the longest match in the text as it was at the fork. O(n_max)."""
        if self._match_len == 0:
            return Draft()
        text = self._automaton.text
        known = text[self._start : self._start + n_max]
        return Draft((*known, *self._supposed[: n_max - len(known)]), SuffixDrafter.source, self._match_len)
