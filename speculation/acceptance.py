"""What is known of acceptance and of pass times, kept in SQLite. Knows no model and no tokenizer.

Acceptance is counted per position: of the drafted tokens that were tested (all before the first rejection, and it),
how many were accepted, per (target, draft source, file type, match-length bucket). accepted / drafted would be biased:
tokens behind a rejection were never tested. A cell with little data leans on its parent (all file types), that one on
the shipped priors; within a request a quick local estimate leans on the cell.

A broken or locked database never breaks a rewrite: it is set aside, the counts go on in memory, the user is told once.
"""

import logging
import sqlite3
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlite_utils import Database, Migrations

from speculation.priors import BUCKET_EDGES, PRIORS

logger = logging.getLogger(__name__)

N_PARENT = 20.0
"""Weight of a parent's estimate, in tested tokens."""
N_REQUEST = 8.0
"""Weight of the long-term estimate against this request's own counts, in tested tokens."""
N_MEMORY = 4000.0
"""A cell never weighs more than so many tested tokens: older counts fade as new ones come."""
ALL_FILE_TYPES = ""

Cell = tuple[str, str, int]  # source, file type, bucket
migrations = Migrations("stet")


@migrations()
def m001_initial(db: Database) -> None:
    """Create the tables of acceptance counts and pass times."""
    db.table("acceptance").create(
        {"target": str, "source": str, "file_type": str, "bucket": int, "tested": float, "accepted": float},
        pk=("target", "source", "file_type", "bucket"),
    )
    db.table("pass_time").create({"machine": str, "q": int, "seconds": float}, pk=("machine", "q"))


def bucket_of(match_len: int) -> int:
    """The match-length bucket: 0, 1, 2, 3, 4-5, 6-7, 8-11 and so on."""
    return bisect_right(BUCKET_EDGES, match_len) - 1


class Acceptance:
    """Counts and estimates of alpha for one request: a target's cells, as a Store has them, and the request's own."""

    def __init__(self, file_type: str, cells: Mapping[Cell, tuple[float, float]] | None = None) -> None:
        self._cells: dict[Cell, tuple[float, float]] = dict(cells or {})
        self._levels = tuple(dict.fromkeys((ALL_FILE_TYPES, file_type)))
        self._request: dict[tuple[str, int], tuple[float, float]] = {}
        self._touched: set[Cell] = set()

    def alphas(self, source: str, match_len: int, n_tokens: int) -> list[float]:
        """Per drafted token the probability that it is accepted, given that those before it were."""
        alphas: list[float] = []
        while len(alphas) < n_tokens:
            bucket = bucket_of(match_len + len(alphas))
            ends = BUCKET_EDGES[bucket + 1] - match_len if bucket + 1 < len(BUCKET_EDGES) else n_tokens
            alphas += [self._alpha(source, bucket)] * (min(ends, n_tokens) - len(alphas))
        return alphas

    def _alpha(self, source: str, bucket: int) -> float:
        estimate = PRIORS[source][bucket]
        for file_type in self._levels:
            estimate = _shrink(self._cells.get((source, file_type, bucket)), estimate, N_PARENT)
        return _shrink(self._request.get((source, bucket)), estimate, N_REQUEST)

    def observe(self, source: str, match_len: int, n_accepted: int, n_tested: int) -> None:
        """Count one draft: n_tested is n_accepted, plus one when a token was rejected."""
        for j in range(n_tested):
            bucket = bucket_of(match_len + j)
            accepted = float(j < n_accepted)
            for file_type in self._levels:
                cell = (source, file_type, bucket)
                self._cells[cell] = _add(self._cells.get(cell), accepted)
                self._touched.add(cell)
            self._request[source, bucket] = _add(self._request.get((source, bucket)), accepted)

    def touched(self) -> dict[Cell, tuple[float, float]]:
        """The cells that changed since the last call."""
        cells = {cell: self._cells[cell] for cell in self._touched}
        self._touched = set()
        return cells


def _shrink(counts: tuple[float, float] | None, parent: float, weight: float) -> float:
    """Posterior mean of a Beta(weight * parent, weight * (1 - parent)) after the counts."""
    tested, accepted = counts or (0.0, 0.0)
    return (accepted + weight * parent) / (tested + weight)


def _add(counts: tuple[float, float] | None, accepted: float) -> tuple[float, float]:
    tested, n_accepted = counts or (0.0, 0.0)
    keep = min(1.0, (N_MEMORY - 1) / tested) if tested else 1.0
    return tested * keep + 1.0, n_accepted * keep + accepted


class Store:
    """The SQLite file behind Acceptance and the pass times. path None: in memory, gone with the process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._db: Database | None = None
        self.trouble: str | None = None
        """One line for the user when the database had to be set aside; None when all is well."""
        if path is None:
            self._db = _connect(":memory:")
        else:
            self._open(path)

    def _open(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._db = _connect(path)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):  # locked, unreadable, no space: not the file's fault
                    raise
                aside = path.with_suffix(".broken")
                path.replace(aside)
                self._db = _connect(path)
                self._tell(
                    f"The database {path} was damaged ({error}) and set aside as {aside.name}; learning starts anew."
                )
        except (OSError, sqlite3.Error) as error:
            self._tell(f"The database {path} can't be used ({error}). Rewrites work; what is learned is not kept.")

    def acceptance(self, target: str, file_type: str) -> Acceptance:
        """What is known of a target, for a request on this file type."""
        cells: dict[Cell, tuple[float, float]] = {}
        for row in self._rows("acceptance", "target = ?", target):
            cells[row["source"], row["file_type"], row["bucket"]] = (row["tested"], row["accepted"])
        return Acceptance(file_type, cells)

    def save_acceptance(self, target: str, acceptance: Acceptance) -> None:
        """Write the cells that changed since the last save."""
        self._upsert(
            "acceptance",
            [
                {"target": target, "source": s, "file_type": f, "bucket": b, "tested": n, "accepted": a}
                for (s, f, b), (n, a) in acceptance.touched().items()
            ],
        )

    def pass_times(self, machine: str) -> dict[int, float]:
        """T(q) in seconds by q, as measured on this machine (device, model, dtype); empty when never measured."""
        return {row["q"]: row["seconds"] for row in self._rows("pass_time", "machine = ?", machine)}

    def save_pass_times(self, machine: str, seconds: Mapping[int, float]) -> None:
        """Write T(q)."""
        self._upsert("pass_time", [{"machine": machine, "q": q, "seconds": s} for q, s in seconds.items()])

    def close(self) -> None:
        """Close the file; the store keeps nothing from here on."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _rows(self, table: str, where: str, value: str) -> list[dict[str, Any]]:
        if self._db is None:
            return []
        try:
            return list(self._db.table(table).rows_where(where, [value]))
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def _upsert(self, table: str, rows: list[dict[str, object]]) -> None:
        if self._db is None or not rows:
            return
        try:
            self._db.table(table).upsert_all(rows)
        except sqlite3.OperationalError as error:  # locked by another process: these counts are lost, the next are not
            self._tell(f"What was learned could not be saved to {self._path} ({error}).")
        except sqlite3.Error as error:
            self._give_up(error)

    def _give_up(self, error: sqlite3.Error) -> None:
        self.close()
        self._tell(
            f"The database {self._path} failed ({error}). Rewrites work; delete the file to start learning anew."
        )

    def _tell(self, message: str) -> None:
        if self.trouble is None:
            self.trouble = message
            logger.warning("%s", message)


def _connect(path: Path | str) -> Database:
    """Open or make the database. Two engines may write at once: WAL, and a second's patience."""
    connection = sqlite3.connect(path, timeout=1.0, check_same_thread=False)
    try:
        db = Database(connection, execute_plugins=False)
        db.enable_wal()
        migrations.apply(db)
    except BaseException:
        connection.close()
        raise
    return db
