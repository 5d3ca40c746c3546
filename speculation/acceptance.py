"""What is known of acceptance, of pass times and of past requests, kept in SQLite. Knows no model and no tokenizer.

Several processes may use the file at once: counts are added to what the others wrote. No text of the user and no path
is in it. A broken or locked database never breaks a rewrite: what can't be written waits in memory, the user is told
once.
"""

import json
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqlite_utils import Database, Migrations

from speculation.survival import ALL_FILE_TYPES, NO_COUNTS, Acceptance, Cell, Counts, merged
from speculation.types import SourceStats, Stats

logger = logging.getLogger(__name__)

MAX_CELLS = 20_000
"""Cells of acceptance kept, those used last; a file type of one target has about sixty."""
MAX_RUNS = 5_000
MAX_POINTS = 1_000
"""Points of T(q) kept; a machine has about nine for each model."""
N_WAITING_RUNS = 100
"""Runs kept in memory while the file can't be written."""
PATIENCE_S = 0.5
"""How long another process may hold the database before we go on without it."""

migrations = Migrations("stet")


@migrations()
def m001_initial(db: Database) -> None:
    """Create the tables of acceptance counts and pass times."""
    db.table("acceptance").create(
        {"target": str, "source": str, "file_type": str, "bucket": int, "tested": float, "accepted": float},
        pk=("target", "source", "file_type", "bucket"),
    )
    db.table("pass_time").create({"machine": str, "q": int, "seconds": float}, pk=("machine", "q"))


@migrations()
def m002_runs(db: Database) -> None:
    """Create the table of finished requests; note when a row was used last, so that the oldest can go."""
    for table in ("acceptance", "pass_time"):
        db.table(table).add_column("used", float, not_null_default=0)
    db.table("run").create(
        {
            "id": int,
            "at": float,
            "target": str,
            "file_type": str,
            "n_tokens": int,
            "n_passes": int,
            "decode_s": float,
            "plain_s": float,
            "sources": str,
        },
        pk="id",
    )


@dataclass(frozen=True, slots=True)
class Run:
    """A finished request, its drafts by source, and what plain decoding would have taken. Seconds."""

    at: float
    """Since 1970."""
    target: str
    file_type: str
    n_tokens: int
    n_passes: int
    decode_s: float
    plain_s: float
    """Tokens times T(1): an estimate."""
    sources: Mapping[str, SourceStats]


def public_name(ref: str) -> str:
    """A model's name for the database: its hub id; for a local path the last part and a digest, not the path."""
    path = Path(ref)
    if not path.exists():
        return ref
    path = path.resolve()
    return f"{path.name}-{blake2b(str(path).encode(), digest_size=4).hexdigest()}"


class Store:
    """The SQLite file behind Acceptance, pass times and runs. path None: in memory, gone with the process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._db: Database | None = None
        self._counts: dict[tuple[str, Cell], Counts] = {}  # what is not in the file yet, by target and cell
        self._pass_times: dict[str, dict[int, float]] = {}
        self._runs: deque[Run] = deque(maxlen=N_WAITING_RUNS)
        self.trouble: str | None = None
        """One line for the user when the database could not be used as it was; None when all is well."""
        self._flush()

    def acceptance(self, target: str, file_type: str) -> Acceptance:
        """What is known of a target, for a request on this file type."""
        levels = (ALL_FILE_TYPES, file_type)
        rows = self._rows("acceptance", "target = ? and file_type in (?, ?)", target, *levels)
        cells = {_cell(row): (row["tested"], row["accepted"]) for row in rows}
        for (name, cell), counts in self._counts.items():
            if name == target and cell[1] in levels:
                cells[cell] = merged(cells.get(cell, NO_COUNTS), counts)
        return Acceptance(file_type, cells)

    def save_acceptance(self, target: str, acceptance: Acceptance) -> None:
        """Add what was counted since the last save."""
        for cell, counts in acceptance.fresh().items():
            self._counts[target, cell] = merged(self._counts.get((target, cell), NO_COUNTS), counts)
        self._flush()

    def pass_times(self, machine: str) -> dict[int, float]:
        """T(q) in seconds by q, as measured on this machine (device, model, dtype); empty when never measured."""
        rows = self._rows("pass_time", "machine = ?", machine)
        return {row["q"]: row["seconds"] for row in rows} | self._pass_times.get(machine, {})

    def save_pass_times(self, machine: str, seconds: Mapping[int, float]) -> None:
        """Write T(q)."""
        self._pass_times.setdefault(machine, {}).update(seconds)
        self._flush()

    def note_run(self, target: str, file_type: str, stats: Stats, plain_s: float) -> None:
        """Keep a finished request for the next save; plain_s: what plain decoding would have taken."""
        run = Run(
            time.time(), target, file_type, stats.n_tokens, stats.n_passes, stats.decode_s, plain_s, stats.sources
        )
        self._runs.append(run)

    def runs(self) -> list[Run]:
        """The requests in the file, oldest first."""
        rows = sorted(self._rows("run", "1"), key=lambda row: row.pop("id"))
        for row in rows:
            row["sources"] = {name: SourceStats(**counts) for name, counts in json.loads(row["sources"]).items()}
        return [Run(**row) for row in rows]

    def cells(self) -> dict[tuple[str, Cell], Counts]:
        """All counts in the file, by target and cell."""
        return {(row["target"], _cell(row)): (row["tested"], row["accepted"]) for row in self._rows("acceptance", "1")}

    def machines(self) -> list[str]:
        """The machines (device, model, dtype) whose T(q) is known."""
        return sorted({row["machine"] for row in self._rows("pass_time", "1")})

    def close(self) -> None:
        """Write what waits and close the file; the store keeps nothing on disk from here on."""
        self._flush()
        self._path = None
        self._disconnect()

    def _rows(self, table: str, where: str, *values: str) -> list[dict[str, Any]]:
        if self._db is None:
            return []
        try:
            return list(self._db.table(table).rows_where(where, values))
        except sqlite3.Error as error:
            self._fail(error)
            return []

    def _flush(self) -> None:
        """Open the file if it isn't, and write what waits. What can't be written is tried again the next time."""
        if self._path is None:
            return
        try:
            if self._db is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._db = _connect(self._path)
            if self._counts or self._pass_times or self._runs:
                self._write(self._db)
        except (OSError, sqlite3.Error) as error:
            self._fail(error)

    def _write(self, db: Database) -> None:
        now = time.time()
        with _transaction(db):
            for target in {target for target, _ in self._counts}:
                old = {_cell(row): row for row in db.table("acceptance").rows_where("target = ?", [target])}
                rows = []
                for (name, cell), counts in self._counts.items():
                    if name == target:
                        row = old.get(cell, {"tested": 0.0, "accepted": 0.0})
                        rows.append(_row(target, cell, merged((row["tested"], row["accepted"]), counts), now))
                db.table("acceptance").upsert_all(rows)
            db.table("pass_time").upsert_all(
                {"machine": machine, "q": q, "seconds": s, "used": now}
                for machine, seconds in self._pass_times.items()
                for q, s in seconds.items()
            )
            db.table("run").insert_all(asdict(run) for run in self._runs)  # sources becomes JSON
            for table, age, n_max in (
                ("acceptance", "used", MAX_CELLS),
                ("pass_time", "used", MAX_POINTS),
                ("run", "id", MAX_RUNS),
            ):
                oldest = f"select rowid from {table} order by {age} desc limit -1 offset ?"
                db.execute(f"delete from {table} where rowid in ({oldest})", [n_max])
        self._counts, self._pass_times = {}, {}
        self._runs.clear()

    def _fail(self, error: Exception) -> None:
        """Go on without the file for now. A damaged one is set aside: the next flush makes a new one."""
        self._disconnect()
        path = self._path
        assert path is not None
        if _is_damage(error):
            aside = path.with_suffix(".broken")
            try:
                path.replace(aside)  # SQLite drops the journals that stay behind
            except OSError as stuck:
                error = stuck
            else:
                self._tell(
                    f"The database {path} was damaged ({error}) and set aside as {aside.name}; learning starts anew."
                )
                return
        # Locked, read-only, full, not to be opened: not the file's fault.
        self._tell(
            f"The database {path} can't be used ({error}). Rewrites work; what is learned is kept in memory, and saved "
            "once that is possible."
        )

    def _tell(self, message: str) -> None:
        if self.trouble is None:
            self.trouble = message
            logger.warning("%s", message)

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def damage(path: Path) -> str | None:
    """What is wrong in a database file, which is only looked at; None where nothing is, or it can't be looked at."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=PATIENCE_S, uri=True)) as db:
            [said] = db.execute("pragma quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return str(error) if _is_damage(error) else None
    return None if said == "ok" else said


def _is_damage(error: Exception) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def _connect(path: Path) -> Database:
    """Open or make the database. Raises sqlite3.OperationalError, and DatabaseError for a damaged one."""
    connection = sqlite3.connect(path, timeout=PATIENCE_S, check_same_thread=False)
    try:
        db = Database(connection, execute_plugins=False)
        with suppress(sqlite3.OperationalError):  # another process that opens it at this moment does the same
            db.enable_wal()
        db.execute("pragma synchronous = normal")  # a power cut may cost the last counts, never the file
        if migrations.pending(db):
            with _transaction(db):
                migrations.apply(db)
    except BaseException:
        connection.close()
        raise
    return db


@contextmanager
def _transaction(db: Database) -> Iterator[None]:
    """Nobody else writes between what is read in it and what is written."""
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:
        db.rollback()
        raise


def _cell(row: Mapping[str, Any]) -> Cell:
    return row["source"], row["file_type"], row["bucket"]


def _row(target: str, cell: Cell, counts: Counts, now: float) -> dict[str, Any]:
    source, file_type, bucket = cell
    tested, accepted = counts
    return {
        "target": target,
        "source": source,
        "file_type": file_type,
        "bucket": bucket,
        "tested": tested,
        "accepted": accepted,
        "used": now,
    }
