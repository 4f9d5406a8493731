"""An index that keeps its entries in a SQLite file: all that an index over a key-value store has to write.

Tests use it where `tests/services/test_hbase.py` needs a server. Workers are on this machine, so they open the same file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock import options as o
from penstock.index import INDEXES
from penstock.index.entry_index import EntryIndex
from penstock.index.entry_store import Entry
from penstock.options import Options

NAME = "SQLITE"
_TABLE = """create table if not exists entries (
    key text primary key, made_by text, file_id text, path text, old_made_by text, old_file_id text, old_path text)"""


@dataclass(frozen=True)
class SqliteIndex(EntryIndex):
    """Locates keys by entries in SQLite. The option that names HBase's table names the file."""

    name = NAME

    @classmethod
    def from_options(cls, options: Options) -> SqliteIndex:
        """Return the index, which moves rows and undoes the entries of rollbacks."""
        return cls(SqliteStore(options[o.HBASE_TABLE] or ""), moves_rows=True, undoes_entries=True)


@dataclass(frozen=True)
class SqliteStore:
    """The path of a SQLite file."""

    path: str
    option = o.HBASE_TABLE.key

    @property
    def title(self) -> str:
        """The store, for messages."""
        return f"SQLite's file {self.path}"

    @contextmanager
    def open(self) -> Iterator[SqliteEntries]:
        """Open the file for one thread."""
        with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as connection:
            connection.execute(_TABLE)
            yield SqliteEntries(connection)

    def share_rate(self, tasks: int) -> SqliteStore:
        """Return the store: the rate of requests is not limited."""
        return self


class SqliteEntries:
    """The entries in an open file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def check(self) -> None:
        """Do nothing: opening has created the table."""

    def is_empty(self) -> bool:
        """Whether there is no entry at all."""
        return self._connection.execute("select 1 from entries limit 1").fetchone() is None

    def get(self, keys: Sequence[str], until_ms: int | None = None) -> list[Entry | None]:
        """Return the entry of each key. SQLite keeps no older versions, so there are none before a time."""
        if until_ms is not None:
            return [None] * len(keys)
        found = (self._connection.execute("select * from entries where key = ?", (key,)).fetchone() for key in keys)
        return [_entry(row) if row else None for row in found]

    def put(self, keys: Sequence[str], entries: Sequence[Entry]) -> None:
        """Set the entries of keys."""
        for key, entry in zip(keys, entries, strict=True):
            old = entry.before
            before = (old.commit, old.file_id, old.partition_path) if old else (None, None, None)
            row = (key, entry.commit, entry.file_id, entry.partition_path, *before)
            self._connection.execute("insert or replace into entries values (?, ?, ?, ?, ?, ?, ?)", row)

    def remove(self, keys: Sequence[str]) -> None:
        """Delete the entries of keys."""
        self._connection.executemany("delete from entries where key = ?", [(key,) for key in keys])

    def made_by(self, commit: str) -> Iterator[list[tuple[str, Entry]]]:
        """Yield the keys and entries that a commit has put, in one batch."""
        rows = self._connection.execute("select * from entries where made_by = ?", (commit,)).fetchall()
        if rows:
            yield [(row[0], _entry(row)) for row in rows]


def _entry(row: tuple[str, ...]) -> Entry:
    _, commit, file_id, path, old_commit, old_file_id, old_path = row
    before = Entry(old_commit, old_file_id, old_path) if old_commit else None
    return Entry(commit, file_id, path, before)


def read_entries(path: str | Path) -> dict[str, Entry]:
    """Return all entries in a file, by their keys."""
    with closing(sqlite3.connect(path)) as connection:
        return {row[0]: _entry(row) for row in connection.execute("select * from entries")}


@contextmanager
def sqlite_index_added() -> Iterator[None]:
    """Add the index to the table of indexes, as a line in `INDEXES` does it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(INDEXES, NAME, "tests.kit.sqlite_index:SqliteIndex")
        before = (o.INDEX_TYPE.allowed, o.INDEX_TYPE.supported)
        for field in ("allowed", "supported"):  # made of INDEXES when the package is imported
            object.__setattr__(o.INDEX_TYPE, field, (*getattr(o.INDEX_TYPE, field), NAME))
        try:
            yield
        finally:
            object.__setattr__(o.INDEX_TYPE, "allowed", before[0])
            object.__setattr__(o.INDEX_TYPE, "supported", before[1])
