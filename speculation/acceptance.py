"""What is known of acceptance and of pass times, kept in SQLite. Knows no model and no tokenizer.

A broken or locked database never breaks a rewrite: it is set aside, the counts go on in memory, the user is told once.
"""

import logging
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlite_utils import Database, Migrations

from speculation.survival import Acceptance, Cell

logger = logging.getLogger(__name__)

migrations = Migrations("stet")


@migrations()
def m001_initial(db: Database) -> None:
    """Create the tables of acceptance counts and pass times."""
    db.table("acceptance").create(
        {"target": str, "source": str, "file_type": str, "bucket": int, "tested": float, "accepted": float},
        pk=("target", "source", "file_type", "bucket"),
    )
    db.table("pass_time").create({"machine": str, "q": int, "seconds": float}, pk=("machine", "q"))


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
