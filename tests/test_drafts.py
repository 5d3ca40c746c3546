"""The chain of drafts: the best bet wins, every source learns on every pass, and gamma follows both ways."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from speculation.drafters.chain import DraftChain, FixedDrafts, NoDrafts
from speculation.drafters.copy import CopyDrafter
from speculation.drafters.lm import Written
from speculation.drafters.suffix import SuffixDrafter
from speculation.survival import Acceptance
from speculation.types import Draft


class Says:
    """A source of copies that always says the same."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.seen: list[int] = []

    def propose(self, n_max: int) -> Draft:
        return Draft(self.draft.token_ids[:n_max], self.draft.source, self.draft.match_len)

    def observe(self, token_ids: Sequence[int]) -> None:
        self.seen += token_ids

    def fork(self) -> "Says":
        return Says(self.draft)


class FakeLM:
    """A small LM with a fixed price that keeps every copy, and writes sevens."""

    def __init__(self, pass_s: float) -> None:
        self._pass_s = pass_s

    def n_behind(self, prefix: Sequence[int]) -> int:
        return 0

    def pass_s(self, q: int) -> float:
        return self._pass_s

    def is_end(self, token: int) -> bool:
        return False

    def write(self, prefix: Sequence[int], copied: Sequence[int]) -> Written:
        return Written((*copied, 7), (), 0.001)


COPY = Draft(tuple(range(100)), "copy", 64)
GUESS = Draft(tuple(range(50, 150)), "suffix", 1)


def cheap(q: int) -> float:
    return 1.0 + q / 100


def dear(q: int) -> float:
    return float(q)


def chain(*drafts: Draft, small: FakeLM | None = None, cost=cheap, gamma_max: int = 64) -> DraftChain:  # type: ignore[no-untyped-def]
    return DraftChain([Says(draft) for draft in drafts], Acceptance("python"), cost, gamma_max, small)


def check(drafts: DraftChain, source: str, n_max: int = 1000) -> Draft:
    draft = drafts.propose([1, 2, 3], n_max)
    assert draft.source == source
    return draft


@pytest.mark.parametrize("order", [(COPY, GUESS), (GUESS, COPY)])
def test_the_surer_source_wins_in_whatever_order_they_are_asked(order: tuple[Draft, Draft]) -> None:
    check(chain(*order), "copy")


def test_where_drafts_agree_they_are_told_apart_by_what_follows() -> None:
    """Of two that begin alike the surer beginning says nothing; the one that ends sooner has nothing to say."""
    copy = Draft((*range(10), 77, *range(50)), "copy", 1)  # where they part its run is 11 tokens long
    suffix = Draft((*range(10), 88, *range(50)), "suffix", 60)
    check(chain(copy, suffix), "suffix")
    check(chain(replace(copy, match_len=30), replace(suffix, match_len=1)), "copy")
    check(chain(Draft(suffix.token_ids[:10], "suffix", 60), copy), "copy")
    check(chain(replace(copy, source="realign4", match_len=0), replace(suffix, match_len=1)), "realign4")


def test_what_lies_behind_a_doubtful_start_does_not_make_it_surer() -> None:
    """A place found after a departure promises a long copy, if it is the right one: seven times in eight it isn't."""
    place, guess = Draft(tuple(range(100)), "realign0", 0), Draft((50, 51), "suffix", 1)
    check(chain(place, guess), "suffix")


def test_a_draft_is_never_longer_than_gamma_max_or_the_room() -> None:
    assert len(check(chain(COPY, gamma_max=10), "copy").token_ids) == 10
    assert check(chain(COPY), "copy", n_max=3).token_ids == (0, 1, 2)
    for small in (None, FakeLM(0.001)):
        assert chain(COPY, small=small).propose([1], 0) == Draft()
        assert chain(COPY, small=small, gamma_max=0).propose([1], 100) == Draft()


def test_nothing_to_copy_is_plain_decoding() -> None:
    assert chain().propose([1], 10) == Draft()
    assert chain(Draft((), "copy", 5)).propose([1], 10) == Draft()


def test_the_small_lm_steps_in_where_it_pays() -> None:
    draft = check(chain(GUESS, small=FakeLM(0.01)), "mixed")
    assert draft.parts[-1].source == "lm"
    check(chain(COPY, small=FakeLM(5.0)), "copy")
    check(chain(small=FakeLM(5.0)), "none")


def test_where_no_bet_pays_gamma_is_zero_and_comes_back() -> None:
    """Nothing is bet, yet every source is scored: good copies bring the bets back."""
    drafts = chain(COPY, cost=lambda q: 1.0 + q / 4)
    for _ in range(60):
        draft = drafts.propose([1], 1000)
        drafts.observe(draft, 0, [99])
    assert drafts.propose([1], 1000) == Draft()
    n_passes = 0
    while not drafts.propose([1], 1000).token_ids:
        drafts.observe(Draft(), 0, [0])  # the copy would have been right
        n_passes += 1
        assert n_passes < 200
    assert n_passes > 0


def test_where_every_position_costs_a_pass_nothing_is_bet() -> None:
    assert chain(GUESS, cost=dear).propose([1], 1000) == Draft()


def counts(drafts: DraftChain) -> dict[str, tuple[float, float]]:
    """Tested and accepted by source, over all buckets of the file type."""
    total: dict[str, tuple[float, float]] = {}
    for (source, file_type, _), (tested, accepted) in drafts._acceptance.fresh().items():
        if file_type == "python":
            old = total.get(source, (0.0, 0.0))
            total[source] = (old[0] + tested, old[1] + accepted)
    return total


@pytest.mark.parametrize(
    ("written", "copy", "suffix"),
    [
        ([0, 1, 2, 99], (4, 3), (1, 0)),  # three right, then one wrong
        ([0, 1, 2], (3, 3), (1, 0)),  # cut off by a stop token: nothing after it was tested
        ([50, 51], (1, 0), (2, 2)),  # what was not used is scored as well
        ([99], (1, 0), (1, 0)),
    ],
)
def test_every_source_is_scored_on_what_came_out(
    written: list[int], copy: tuple[int, int], suffix: tuple[int, int]
) -> None:
    drafts = chain(COPY, GUESS)
    draft = drafts.propose([1], 1000)
    drafts.observe(draft, len(written) - 1, written)
    assert counts(drafts) == {"copy": copy, "suffix": suffix}


def test_a_draft_all_of_which_was_kept_has_no_refused_token() -> None:
    drafts = chain(Draft((1, 2), "copy", 0))
    drafts.observe(drafts.propose([0], 10), 2, [1, 2, 3])
    assert counts(drafts) == {"copy": (2, 2)}


def test_copiers_see_every_token_once() -> None:
    copier = Says(COPY)
    drafts = DraftChain([copier], Acceptance(""), cheap, 8)
    for written in ([1], [2, 3], [4]):
        drafts.observe(drafts.propose([0], 10), 0, written)
    assert copier.seen == [1, 2, 3, 4]


def test_a_real_rewrite_takes_few_passes() -> None:
    """A hundred tokens, one substituted: three bets, not a hundred passes."""
    source = list(range(100))
    after = [*source[:40], 777, *source[41:]]
    drafts = DraftChain((CopyDrafter(source), SuffixDrafter(source)), Acceptance("python"), lambda q: 1.0, 256)
    done, n_passes = 0, 0
    while done < len(after):
        draft = drafts.propose([*source, *after[:done]], len(after) - done - 1)
        kept = 0
        while kept < len(draft.token_ids) and draft.token_ids[kept] == after[done + kept]:
            kept += 1
        drafts.observe(draft, kept, after[done : done + kept + 1])
        done += kept + 1
        n_passes += 1
    assert n_passes <= 4


def test_plain_and_fixed_drafts() -> None:
    assert NoDrafts().propose([1], 10) == Draft()
    assert len(FixedDrafts(Says(COPY)).propose([1], 5).token_ids) == 5
    assert len(FixedDrafts(Says(COPY)).propose([1], 2).token_ids) == 2


def test_a_draft_that_was_cut_tells_what_its_source_has_next() -> None:
    cut = check(chain(COPY), "copy", 10)
    assert cut.goes_on == COPY.token_ids[len(cut.token_ids)]
    assert check(chain(Draft((1, 2), "copy", 64)), "copy").goes_on is None
    mixed = chain(COPY, small=FakeLM(0.01)).propose([1, 2, 3], 10)
    copies = [part for part in mixed.parts if part.source != "lm"]
    assert copies and all(part.goes_on == COPY.token_ids[len(part.token_ids)] for part in copies)
