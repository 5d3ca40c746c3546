"""What is learned is kept in SQLite come what may: restarts, other processes, damage, locks, no room, no rights."""

import logging
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlite_utils import Database

from speculation import acceptance as module
from speculation.acceptance import Store, migrations, public_name
from speculation.priors import BUCKET_EDGES, PRIORS
from speculation.survival import ALL_FILE_TYPES, Acceptance
from speculation.types import SourceStats, Stats

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


LEARN = """
import sys, time
from pathlib import Path
from speculation.acceptance import Store
from speculation.types import Stats
store = Store(Path(sys.argv[1]))
for _ in range(30):
    acceptance = store.acceptance("model", "python")
    acceptance.observe("copy", 0, 0, 1)
    store.note_run("model", "python", Stats(n_tokens=1), 1.0)
    store.save_acceptance("model", acceptance)
    time.sleep(0.002)
store.close()
assert store.trouble is None, store.trouble
"""


def test_processes_that_learn_at_once_make_the_file_together_and_lose_no_count(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    processes = [subprocess.Popen([sys.executable, "-c", LEARN, str(path)], stderr=subprocess.PIPE) for _ in range(4)]
    said = [process.communicate(timeout=120)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, said
    with opened(path) as store:
        assert store.cells()["model", ("copy", "python", 0)] == (120, 0)
        assert store.cells()["model", ("copy", ALL_FILE_TYPES, 0)] == (120, 0)
        assert len(store.runs()) == 120


def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with opened(path) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            store.note_run("model", "python", Stats(n_tokens=7), 1.0)
            learn(store, "python", FOUR_YES_ONE_NO)
            learn(store, "python", FOUR_YES_ONE_NO)
            store.save_pass_times("cpu", {1: 0.1})
            assert store.cells() == {}
            assert alphas(store, "python") != alphas(store, "go")  # known in memory all the same
            assert store.pass_times("cpu") == {1: 0.1}
            other.execute("rollback")
        learn(store, "python", ("copy", 0, 0, 1))
    with opened(path) as store:
        assert store.cells()["model", ("copy", "python", 0)] == (3, 2)
        assert store.pass_times("cpu") == {1: 0.1}
        assert [run.n_tokens for run in store.runs()] == [7]


def test_a_full_disk_costs_no_rewrite_and_what_was_learned_is_saved_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with opened(path) as store:
        db = store._db
        assert db is not None
        db.execute("pragma max_page_count = 1")  # no more than it has
        for n in range(60):
            learn(store, f"type{n}", *[("copy", match_len, 0, 1) for match_len in BUCKET_EDGES])
        assert store.trouble is not None and "full" in store.trouble
        assert store._db is not db
    with opened(path) as store:
        assert store.trouble is None
        assert store.cells()["model", ("copy", ALL_FILE_TYPES, 0)] == (60, 0)


def test_a_request_is_held_up_by_a_lock_for_a_moment_only(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with opened(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        started = time.monotonic()
        learn(store, "python", FOUR_YES_ONE_NO)
        assert time.monotonic() - started < 1


def test_a_file_damaged_while_in_use_is_set_aside_and_learning_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with opened(path) as store:
        learn(store, "python", FOUR_YES_ONE_NO)
        with closing(sqlite3.connect(path)) as other:
            other.execute("pragma wal_checkpoint(truncate)")
        path.write_bytes(b"\xff" * path.stat().st_size)
        learn(store, "python", *[("copy", 0, 0, 1)] * 100)
        assert store.trouble is not None and "set aside as stet.broken" in store.trouble
        learn(store, "python", ("copy", 0, 0, 1))
    with opened(path) as store:
        assert store.cells()["model", ("copy", "python", 0)] == (101, 0)


def test_a_journal_left_by_a_damaged_file_does_not_damage_the_next(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with opened(path) as store:
        learn(store, "python", *[("copy", n, 0, 1) for n in range(200)])
        journal = path.with_name("stet.db-wal").read_bytes()
        assert journal
    path.write_bytes(b"no database" * 1000)
    path.with_name("stet.db-wal").write_bytes(journal)
    with opened(path) as store:
        learn(store, "go", ("copy", 0, 0, 1))
        learn(store, "go", ("copy", 0, 0, 1))
    with opened(path) as store:
        assert store.trouble is None
        assert store.cells()["model", ("copy", "go", 0)] == (2, 0)


def test_a_database_of_an_older_version_keeps_its_counts(tmp_path: Path) -> None:
    path = tmp_path / "stet.db"
    with closing(Database(path)) as db:
        migrations.apply(db, stop_before="m002_runs")
        row = {"target": "model", "source": "copy", "file_type": "", "bucket": 0, "tested": 9.0, "accepted": 4.0}
        db.table("acceptance").insert(row)
        db.table("pass_time").insert({"machine": "cpu", "q": 1, "seconds": 0.5})
    with opened(path) as store:
        assert store.cells() == {("model", ("copy", "", 0)): (9, 4)}
        assert store.pass_times("cpu") == {1: 0.5}
        learn(store, "", ("copy", 0, 0, 1))
        assert store.cells() == {("model", ("copy", "", 0)): (10, 4)}


def test_the_file_is_bounded_and_what_was_used_last_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_CELLS", "MAX_RUNS", "MAX_POINTS"):
        monkeypatch.setattr(module, name, 4)
    monkeypatch.setattr(module, "time", Clock())
    with opened(tmp_path / "stet.db") as store:
        learn(store, "go", ("copy", 0, 0, 1))
        for n in range(6):
            store.note_run("model", "go", Stats(n_tokens=n), 1.0)
            learn(store, "", ("copy", 0, 0, 1), target=f"model{n}")
            learn(store, "go", ("copy", 0, 0, 1))
            store.save_pass_times(f"cpu{n}", {1: 0.1, 2: 0.2})
        assert {target for target, _ in store.cells()} == {"model", "model4", "model5"}
        assert store.cells()["model", ("copy", "go", 0)] == (7, 0)
        assert store.machines() == ["cpu4", "cpu5"]
        assert [run.n_tokens for run in store.runs()] == [2, 3, 4, 5]


class Clock:
    """A clock on which time passes."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        self.now += 1
        return self.now


def test_runs_come_back_as_they_were(tmp_path: Path) -> None:
    sources = {"copy": SourceStats(2, 30, 25, 24), "lm": SourceStats(1, 4, 4, 4)}
    with opened(tmp_path / "stet.db") as store:
        store.note_run("model", "python", Stats(n_tokens=31, n_passes=3, decode_s=1.5, sources=sources), 4.5)
        learn(store, "python")
        [run] = store.runs()
    assert (run.target, run.file_type, run.n_tokens, run.n_passes) == ("model", "python", 31, 3)
    assert (run.decode_s, run.plain_s, run.sources) == (1.5, 4.5, sources)
    assert abs(run.at - time.time()) < 60


def test_a_local_path_never_becomes_a_name(tmp_path: Path) -> None:
    assert public_name("Qwen/Qwen2.5-Coder-0.5B-Instruct") == "Qwen/Qwen2.5-Coder-0.5B-Instruct"
    folders = [tmp_path / "secret" / "model", tmp_path / "other" / "model"]
    for folder in folders:
        folder.mkdir(parents=True)
    names = [public_name(str(folder)) for folder in folders]
    assert len(set(names)) == 2
    assert all(name.startswith("model-") and "/" not in name and "secret" not in name for name in names)


def test_a_closed_store_forgets_in_silence() -> None:
    store = Store(None)
    store.close()
    store.close()
    learn(store, "python", FOUR_YES_ONE_NO)
    assert store.pass_times("cpu") == {}
    assert store.trouble is None
