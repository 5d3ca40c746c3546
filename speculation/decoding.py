"""The loop: draft, verify, keep, again. Works on token ids; knows no tokenizer and no torch."""

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from speculation.types import Draft, Step, Target


class Drafts(Protocol):
    """Where drafts come from; speculation.drafters.chain has the real one and the plain one."""

    def propose(self, prefix: Sequence[int], n_max: int) -> Draft:
        """At most n_max tokens; may be empty."""
        ...

    def observe(self, draft: Draft, n_accepted: int, token_ids: Sequence[int]) -> None:
        """Learn from a pass."""
        ...


def decode(
    target: Target, drafts: Drafts, prompt: Sequence[int], *, max_new_tokens: int, stop_ids: Collection[int]
) -> Iterator[Step]:
    """Yield the target's own continuation of prompt, several tokens a step. To cancel, stop iterating.

    Ends behind the first stop token (which is part of the last step) or after max_new_tokens tokens.
    """
    prefix = list(prompt)
    n_left = max_new_tokens
    while n_left > 0:
        started = time.perf_counter()
        draft = drafts.propose(prefix, n_left - 1)
        drafted = time.perf_counter()
        verdict = target.verify(prefix, draft)
        verified = time.perf_counter()
        token_ids = _until_stop((*draft.token_ids[: verdict.n_accepted], verdict.next_token), stop_ids)
        n_accepted = min(verdict.n_accepted, len(token_ids))
        drafts.observe(draft, n_accepted, token_ids)
        prefix += token_ids
        n_left -= len(token_ids)
        yield Step(draft, n_accepted, token_ids, target_s=verified - drafted, draft_s=drafted - started)
        if token_ids[-1] in stop_ids:
            return


def _until_stop(token_ids: tuple[int, ...], stop_ids: Collection[int]) -> tuple[int, ...]:
    for i, token in enumerate(token_ids, start=1):
        if token in stop_ids:
            return token_ids[:i]
    return token_ids
