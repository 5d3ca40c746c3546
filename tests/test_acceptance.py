"""What is learned of acceptance: counted per position, leaning on its parents, kept in SQLite come what may."""

import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculation.acceptance import Store
from speculation.priors import BUCKET_EDGES, PRIORS
from speculation.survival import N_MEMORY, N_PARENT, N_REQUEST, Acceptance, bucket_of

NOBODY = 65534
FOUR_YES_ONE_NO = ("copy", 0, 4, 5)


@contextmanager
def opened(path: Path | None) -> Iterator[Store]:
    with closing(Store(path)) as store:
        yield store


def learn(store: Store, file_type: str, *drafts: tuple[str, int, int, int], target: str = "model") -> Acceptance:
    """A request that sees these drafts: source, match_len, accepted, tested."""
    acceptance = store.acceptance(target, file_type)
    for source, match_len, n_accepted, n_tested in drafts:
        acceptance.observe(source, match_len, n_accepted, n_tested)
    store.save_acceptance(target, acceptance)
    return acceptance


def alphas(store: Store, file_type: str, n: int = 5, target: str = "model") -> Sequence[float]:
    return store.acceptance(target, file_type).alphas("copy", 0, n)


def check_still_works(store: Store, words: str) -> None:
    """A request goes on, learns for itself, and the user is told in one line."""
    acceptance = learn(store, "python", *[("copy", 0, 0, 1)] * 50)
    assert acceptance.alphas("copy", 0, 1)[0] < 0.5
    store.save_pass_times("cpu", {1: 0.1})
    assert store.trouble is not None
    assert words in store.trouble
    assert "\n" not in store.trouble


def shrunk(tested: float, accepted: float, parent: float, weight: float) -> float:
    return (accepted + weight * parent) / (tested + weight)


def test_buckets_are_those_of_the_edges() -> None:
    assert [bucket_of(n) for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12)] == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7]
    assert bucket_of(192) == bucket_of(10_000) == len(BUCKET_EDGES) - 1


@pytest.mark.parametrize("source", PRIORS)
def test_the_priors_fit_the_buckets(source: str) -> None:
    assert len(PRIORS[source]) == len(BUCKET_EDGES)
    assert all(0 < alpha < 1 for alpha in PRIORS[source])


@given(st.sampled_from(sorted(PRIORS)), st.integers(0, 300), st.integers(0, 300))
def test_without_counts_alpha_is_the_prior_of_the_bucket_of_each_position(
    source: str, match_len: int, n_tokens: int
) -> None:
    wanted = [PRIORS[source][bucket_of(match_len + j)] for j in range(n_tokens)]
    assert Acceptance("python").alphas(source, match_len, n_tokens) == pytest.approx(wanted)


def test_counts_lean_on_the_parent_and_the_request_on_both() -> None:
    cells = {("copy", "", 0): (100.0, 60.0), ("copy", "python", 0): (30.0, 24.0)}
    parent = shrunk(100, 60, PRIORS["copy"][0], N_PARENT)
    python = shrunk(30, 24, parent, N_PARENT)
    assert Acceptance("python", cells).alphas("copy", 0, 1) == pytest.approx([python])
    assert Acceptance("cobol", cells).alphas("copy", 0, 1) == pytest.approx([parent])
    assert Acceptance("", cells).alphas("copy", 0, 1) == pytest.approx([parent])
    acceptance = Acceptance("python", cells)
    acceptance.observe("copy", 0, 0, 1)
    parent = shrunk(101, 60, PRIORS["copy"][0], N_PARENT)
    python = shrunk(31, 24, parent, N_PARENT)
    assert acceptance.alphas("copy", 0, 1) == pytest.approx([shrunk(1, 0, python, N_REQUEST)])


def test_each_position_is_counted_in_the_bucket_of_its_run() -> None:
    acceptance = Acceptance("")
    acceptance.observe("suffix", 2, n_accepted=3, n_tested=4)  # runs of 2, 3, 4 went on, that of 5 ended
    assert acceptance.touched() == {("suffix", "", 2): (1, 1), ("suffix", "", 3): (1, 1), ("suffix", "", 4): (2, 1)}
    assert acceptance.touched() == {}


def test_a_draft_that_was_not_tested_counts_nothing() -> None:
    acceptance = Acceptance("python")
    acceptance.observe("copy", 5, 0, 0)
    assert acceptance.touched() == {}


def test_old_counts_fade_and_new_habits_are_learned() -> None:
    acceptance = Acceptance("")
    acceptance.observe("copy", 500, 20_000, 20_000)
    bucket = bucket_of(500)
    assert acceptance.touched()["copy", "", bucket] == pytest.approx((N_MEMORY, N_MEMORY))
    for _ in range(int(2 * N_MEMORY)):
        acceptance.observe("copy", 500, 0, 1)
    tested, accepted = acceptance.touched()["copy", "", bucket]
    assert tested == pytest.approx(N_MEMORY)
    assert accepted < 0.15 * N_MEMORY


def test_what_is_learned_is_there_after_a_restart_per_file_type_and_target(tmp_path: Path) -> None:
    path = tmp_path / "new" / "stet.db"
    with opened(path) as store:
        learn(store, "python", *[("copy", 0, 0, 1)] * 200)
        store.save_pass_times("cpu", {1: 0.5, 8: 0.75})
    with opened(path) as store:
        assert store.trouble is None
        [python], [other], [prior] = alphas(store, "python", 1), alphas(store, "go", 1), [PRIORS["copy"][0]]
        assert python < other < prior  # its own counts, its parent's, none
        assert alphas(store, "python", 1, target="another") == pytest.approx([prior])
        assert store.pass_times("cpu") == {1: 0.5, 8: 0.75}
        assert store.pass_times("gpu") == {}


def test_saving_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with opened(path) as store:
        acceptance = learn(store, "python", FOUR_YES_ONE_NO)
        before = alphas(store, "python")
        store.save_acceptance("model", acceptance)
        assert alphas(store, "python") == before


def test_without_a_file_it_learns_until_it_is_closed() -> None:
    with opened(None) as store:
        learn(store, "python", *[("copy", 0, 0, 1)] * 100)
        assert alphas(store, "python", 1)[0] < 0.3
        assert store.trouble is None


@pytest.mark.parametrize(
    "content", [b"no database" * 100, b"SQLite format 3\x00" + b"\xff" * 4096], ids=["text", "torn"]
)
def test_a_damaged_file_is_set_aside_and_the_user_told_once(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "stet.db"
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING), opened(path) as store:
        assert store.trouble is not None and "damaged" in store.trouble and "stet.broken" in store.trouble
        learn(store, "python", *[("copy", 0, 0, 1)] * 100)
    assert len(caplog.records) == 1
    assert (tmp_path / "stet.broken").read_bytes() == content
    with opened(path) as store:
        assert store.trouble is None
        assert alphas(store, "python", 1)[0] < 0.3


def test_a_database_damaged_behind_its_first_page_is_set_aside_too(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with opened(path) as store:
        learn(store, "python", *[("copy", n, 0, 1) for n in range(200)])
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with opened(path) as store:
        check_still_works(store, "set aside")
    with opened(path) as store:
        assert store.trouble is None


def test_a_foreign_database_does_not_break_a_request(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table acceptance (something text)")
    with opened(path) as store:
        check_still_works(store, "stet.db")


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_database_locked_by_another_process_costs_seconds_at_most(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "stet.db"
    with opened(path) as store:
        learn(store, "python", FOUR_YES_ONE_NO)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"pragma journal_mode={journal}")
        other.execute("pragma locking_mode=exclusive")
        other.execute("begin exclusive")
        started = time.monotonic()
        with opened(path) as store:
            check_still_works(store, "locked")
            assert "delete" not in (store.trouble or "")
        assert time.monotonic() - started < 20
        other.execute("rollback")
    with opened(path) as store:
        assert store.trouble is None
        assert learn(store, "python", FOUR_YES_ONE_NO).alphas("copy", 0, 1)


def test_a_database_that_gets_locked_in_between_is_used_again_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with opened(path) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            check_still_works(store, "locked")
            other.execute("rollback")
        learn(store, "go", *[("copy", 0, 0, 1)] * 100)
    with opened(path) as store:
        assert alphas(store, "go", 1)[0] < 0.3


@pytest.mark.parametrize("is_folder", [False, True], ids=["a file in the way", "a folder in its place"])
def test_where_no_database_can_be_made_rewrites_work(tmp_path: Path, is_folder: bool) -> None:
    if is_folder:
        path = tmp_path / "stet.db"
        path.mkdir()
    else:
        (tmp_path / "taken").write_text("")
        path = tmp_path / "taken" / "stet.db"
    with opened(path) as store:
        check_still_works(store, "can't be used")


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder in which nothing can be written, though root runs the tests: root takes another user's rights."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            if is_root:
                os.seteuid(0)
            folder.chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX file rights")
@pytest.mark.parametrize("is_new", [False, True], ids=["old file", "no file"])
def test_in_a_read_only_folder_rewrites_work(read_only: Path, is_new: bool) -> None:
    path = read_only / "stet.db"
    if not is_new:
        with opened(path) as store:
            learn(store, "python", FOUR_YES_ONE_NO)
        path.chmod(0o400)
    read_only.chmod(0o500)
    with pytest.raises(PermissionError):
        (read_only / "probe").touch()
    with opened(path) as store:
        check_still_works(store, "stet.db")


def test_two_engines_may_learn_at_once(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with opened(path) as one, opened(path) as two:
        for _ in range(20):
            learn(one, "python", *[("copy", 0, 0, 1)] * 10)
            learn(two, "go", *[("copy", 0, 1, 1)] * 10)
        assert (one.trouble, two.trouble) == (None, None)
        [python], [go] = alphas(one, "python", 1), alphas(one, "go", 1)
        assert python < 0.3
        assert go > python


def test_a_closed_store_forgets_in_silence() -> None:
    store = Store(None)
    store.close()
    store.close()
    learn(store, "python", FOUR_YES_ONE_NO)
    assert store.pass_times("cpu") == {}
    assert store.trouble is None
