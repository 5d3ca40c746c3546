"""Three stages: what a mixed draft is made of, when the small LM is asked and when not, and that it saves passes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from speculation.bench.replay import RecordedTarget
from speculation.decoding import decode
from speculation.drafters.chain import DraftChain
from speculation.drafters.copy import CopyDrafter
from speculation.drafters.lm import SmallLMFailed, Stages, Written, pays_to_read
from speculation.drafters.suffix import SuffixDrafter
from speculation.priors import BUCKET_EDGES
from speculation.survival import Acceptance
from speculation.types import Draft

END = -1
SURE, UNSURE = 0.001, 4.5


@dataclass
class KnowingLM:
    """Writes one recorded answer behind the prompt; wrong tells at which places it errs, and it is unsure there."""

    n_prompt: int
    answer: Sequence[int]
    small_s: float = 0.07
    behind: int = 0
    wrong: Callable[[int], bool] = lambda place: False
    entropy: float = UNSURE
    fails_after: int = 1 << 30
    asked: list[tuple[int, ...]] = field(default_factory=list)

    def n_behind(self, prefix: Sequence[int]) -> int:
        return self.behind

    def pass_s(self, q: int) -> float:
        return self.small_s * (1 + q / 100)

    def is_end(self, token: int) -> bool:
        return token == END

    def write(self, prefix: Sequence[int], copied: Sequence[int]) -> Written:
        self.asked.append(tuple(copied))
        if len(self.asked) > self.fails_after:
            raise SmallLMFailed
        first = len(prefix) - self.n_prompt
        for n, token in enumerate((*copied, None)):
            place = min(first + n, len(self.answer) - 1)
            word = 1000 + place if self.wrong(place) else self.answer[place]
            if word != token:
                return Written((*copied[:n], word), (), self.entropy if self.wrong(place) else SURE)
        raise AssertionError("unreachable: None is no word")


def flat(q: int) -> float:
    return 1.0


SOURCE = list(range(100, 300))
# Every tenth token is replaced, and copying is right in between.
ANSWER = [500 + token if token % 10 == 5 else token for token in SOURCE] + [END]
PROMPT = [*SOURCE, 1, 2, 3]


def rewrite(small: KnowingLM | None, cost: Callable[[int], float] = flat) -> list[Draft]:
    """The drafts of a whole rewrite; its output is checked."""
    acceptance = Acceptance("")
    drafts = DraftChain((CopyDrafter(SOURCE), SuffixDrafter(PROMPT)), acceptance, cost, 256, small)
    # Room beyond the end: a drafter must not learn from its limit where the answer stops.
    target = RecordedTarget(len(PROMPT), [*ANSWER, *[END] * 300])
    steps = list(decode(target, drafts, PROMPT, max_new_tokens=len(ANSWER) + 300, stop_ids={END}))
    assert [token for step in steps for token in step.token_ids] == ANSWER
    return [step.draft for step in steps]


def knowing(**more: object) -> KnowingLM:
    return KnowingLM(len(PROMPT), ANSWER, **more)  # type: ignore[arg-type]


def test_a_small_lm_that_knows_the_answer_saves_most_target_passes() -> None:
    small = knowing()
    n_with, n_without = len(rewrite(small)), len(rewrite(None))
    assert n_with <= 4 < 20 <= n_without
    assert len(small.asked) < len(ANSWER) / 4, "it must check runs, not write word by word"


def test_a_mixed_draft_is_copied_runs_words_between_and_an_unchecked_end() -> None:
    drafts = [draft for draft in rewrite(knowing()) if draft.parts]
    for draft in drafts:
        assert draft.source == "mixed"
        assert draft.token_ids == tuple(token for part in draft.parts for token in part.token_ids)
        assert {part.source for part in draft.parts[:-1]} <= {"checked", "lm"}
        assert all(len(part.token_ids) == 1 for part in draft.parts if part.source == "lm")
    assert {part.source for draft in drafts for part in draft.parts} >= {"checked", "lm"}


@pytest.mark.parametrize("small_s", [1.1, 50.0])
def test_a_small_lm_that_costs_more_than_the_target_is_never_asked(small_s: float) -> None:
    small = knowing(small_s=small_s)
    assert len(rewrite(small)) == len(rewrite(None))
    assert small.asked == []


def test_a_small_lm_that_would_have_to_read_too_much_first_is_not_asked() -> None:
    small = knowing(behind=5_000)
    rewrite(small)
    assert small.asked == []


def test_a_small_lm_that_is_always_wrong_is_left_alone_after_a_while() -> None:
    small = knowing(wrong=lambda place: True, entropy=SURE)
    assert len(rewrite(small)) + 0.07 * len(small.asked) <= 2.5 * len(rewrite(None))


@pytest.mark.parametrize("n_good", [0, 1, 5])
def test_a_small_lm_that_fails_is_asked_no_more_and_copies_go_on(n_good: int) -> None:
    small = knowing(fails_after=n_good)
    assert len(rewrite(small)) <= len(rewrite(None))
    assert len(small.asked) == n_good + 1


def test_a_draft_ends_behind_a_word_that_the_small_lm_was_unsure_of() -> None:
    """Not before it: that would be to look at what was drawn. The rule sees the entropy alone."""
    n_words = {}
    for entropy in (SURE, UNSURE):
        small = KnowingLM(1, list(range(1000, 1100)), entropy=entropy, wrong=lambda place: place == 10)
        draft = Stages(small, Acceptance(""), flat).draft([0], [], 60)
        n_words[entropy] = len(draft.token_ids)
        assert {part.source for part in draft.parts} == {"lm"}
    assert n_words[UNSURE] == 11 < n_words[SURE]


WORDS = list(range(1000, 1100))


def test_what_must_be_read_first_is_paid_once() -> None:
    n_drafted = [
        len(Stages(KnowingLM(1, WORDS, behind=behind), Acceptance(""), flat).draft([0], [], 60).token_ids)
        for behind in (0, 1200)
    ]
    assert n_drafted[0] == n_drafted[1] > 20


def test_a_draft_ends_where_its_check_costs_more_than_it_saves() -> None:
    draft = Stages(KnowingLM(1, WORDS), Acceptance(""), lambda q: max(1.0, 2.0 * q - 32)).draft([0], [], 60)
    assert 10 < len(draft.token_ids) <= 17


def test_the_unchecked_end_is_no_longer_than_pays() -> None:
    n_ends = 0
    for draft in rewrite(knowing(), lambda q: 1.0 if q <= 32 else 50.0):
        *checked, end = draft.parts or (Draft(),)
        n_checked = sum(len(part.token_ids) for part in checked)
        if end.source not in ("lm", "checked", "none") and n_checked < 32:
            n_ends += 1
            assert n_checked + len(end.token_ids) < 32
    assert n_ends


def test_a_draft_is_shorter_where_checked_copies_were_refused() -> None:
    n_parts = []
    for n_refused in (0, 400):
        acceptance = Acceptance("")
        for match_len in BUCKET_EDGES:
            for _ in range(n_refused):
                acceptance.observe("checked", match_len, 0, 1)
        draft = Stages(knowing(), acceptance, flat).draft(PROMPT, [CopyDrafter(SOURCE)], 150)
        n_parts.append(sum(part.source == "checked" for part in draft.parts))
    assert n_parts[1] <= 1 < 3 <= n_parts[0]


def test_words_count_for_less_each_after_some_were_refused_in_this_request() -> None:
    stages = Stages(KnowingLM(1, WORDS), Acceptance(""), flat)
    refused = Draft((4,), "lm", BUCKET_EDGES[-1])
    for _ in range(8):
        stages.observe(refused, 0, (9,))
    assert 1 <= len(stages.draft([0], [], 60).token_ids) <= 4


def test_nothing_is_drafted_behind_the_end_and_never_more_than_there_is_room_for() -> None:
    for n_max in (0, 1, 3, 10):
        draft = Stages(KnowingLM(1, [5, 6, 7, END]), Acceptance(""), flat).draft([0], [CopyDrafter([5, 6, 7])], n_max)
        assert draft.token_ids == (5, 6, 7, END)[:n_max]


def test_what_comes_out_is_learned_by_source() -> None:
    acceptance = Acceptance("py")
    stages = Stages(knowing(), acceptance, flat)
    parts = (Draft((1, 2, 3), "checked", 8), Draft((4,), "lm", 2), Draft((5, 6), "copy", 9))
    stages.observe(Draft.mixed(parts), 3, (1, 2, 3, 9))
    fresh = {(source, bucket): counts for (source, kind, bucket), counts in acceptance.fresh().items() if kind == "py"}
    assert sum(counts[0] for (source, _), counts in fresh.items() if source == "checked") == 3
    assert [counts[:2] for (source, _), counts in fresh.items() if source == "lm"] == [(1.0, 0.0)]
    assert "copy" not in {source for source, _ in fresh}, "the chain scores copies, on every pass"


@pytest.mark.parametrize(
    ("n_accepted", "n_written", "wanted"),
    [
        (0, 1, [("copy", 0, 1)]),
        (2, 3, [("copy", 2, 2), ("lm", 0, 1)]),
        (3, 4, [("copy", 2, 2), ("lm", 1, 1), ("suffix", 0, 1)]),
        (5, 6, [("copy", 2, 2), ("lm", 1, 1), ("suffix", 2, 2)]),
        (2, 2, [("copy", 2, 2)]),  # a stop token was the last accepted one: nothing was rejected
    ],
)
def test_a_mixed_draft_is_judged_part_by_part(n_accepted: int, n_written: int, wanted: list[tuple]) -> None:
    parts = (Draft((1, 2), "copy"), Draft((3,), "lm"), Draft((4, 5), "suffix"))
    judged = Draft.mixed(parts).judged(n_accepted, n_written)
    assert [(part.source, kept, tested) for part, kept, tested in judged] == wanted


def test_a_draft_from_one_source_is_its_own_part() -> None:
    draft = Draft((1, 2), "copy")
    assert list(draft.judged(1, 2)) == [(draft, 1, 2)]
    assert list(Draft().judged(0, 1)) == []


def test_each_token_of_a_mixed_draft_keeps_its_own_q() -> None:
    q = tuple(object() for _ in range(2))
    draft = Draft.mixed((Draft((1, 2), "checked", 0, q), Draft((3,), "copy")))  # type: ignore[arg-type]
    assert draft.q == (*q, None)


@pytest.mark.parametrize(
    ("n_behind", "n_source", "small_s", "pays"),
    [
        (0, 0, 0.07, True),  # nothing to read
        (400, 300, 0.07, True),  # a GPU: a prompt is read in a few passes
        (400, 300, 5.0, False),
        (40_000, 10, 0.07, False),
    ],
)
def test_the_small_lm_reads_a_prompt_where_that_pays(n_behind: int, n_source: int, small_s: float, pays: bool) -> None:
    small = KnowingLM(0, ANSWER, small_s=small_s, behind=n_behind)
    assert pays_to_read(small, PROMPT, n_source, flat) is pays
