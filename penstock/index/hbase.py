"""Entries of the HBase index: which file group holds a key, kept in a table of HBase, as Hudi keeps them.

A row per record key, which is the row key itself in UTF-8; in family `_s` the cells `commit_ts`, `file_name` (a file group's
id) and `partition_path`. HBase is reached through its Thrift gateway, by `happybase`, from the driver and from every worker
alike: a connection lasts as long as one task's work. Requests go out in batches, at most so many rows a second.

Errors come out as ours: what the caller can mend (no such table, no such family, a package that is missing) as OptionError,
an HBase that is down or slow as StorageError.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.errors import CorruptFile, OptionError, PenstockError, StorageError
from penstock.options import Options

FAMILY = "_s"
COMMIT, FILE, PATH = b"_s:commit_ts", b"_s:file_name", b"_s:partition_path"
#: A cell of ours, which Hudi leaves alone: the entry that this one took the place of, for as long as its commit may fail.
BEFORE = b"_s:penstock_before"
#: Hudi counts the batch of a lookup as one of ten in a second.
_GETS_PER_SECOND = 10


@dataclass(frozen=True)
class Entry:
    """Where a key is said to be."""

    commit: str
    file_id: str
    partition_path: str
    #: Where it was said to be before `commit`.
    before: Entry | None = None

    @property
    def cells(self) -> dict[bytes, bytes]:
        """The entry as HBase keeps it."""
        cells = {COMMIT: self.commit.encode(), FILE: self.file_id.encode(), PATH: self.partition_path.encode()}
        if self.before is not None:
            was = self.before
            cells[BEFORE] = json.dumps([self.commit, was.commit, was.file_id, was.partition_path]).encode()
        return cells


@dataclass(frozen=True)
class HBaseSettings:
    """How the index is reached, and how hard it may be worked."""

    host: str
    port: int
    table: str
    connect_ms: int
    answer_ms: int
    get_batch: int
    put_batch: int
    #: The put batch is derived from what the region servers bear: this many rows a second each.
    auto_rate: float | None = None
    #: The option that names the host, with its value; for messages.
    named_by: str = ""

    @property
    def where(self) -> str:
        """The gateway, for messages."""
        return f"{self.host}:{self.port}"


def hbase_settings(options: Options) -> HBaseSettings:
    """What the options say. Raises OptionError where one is missing."""
    quorum, table = options[o.HBASE_QUORUM], options[o.HBASE_TABLE]
    if not table:
        raise OptionError(f"{o.INDEX_TYPE.key}=HBASE needs {o.HBASE_TABLE.key}: the table of HBase that holds the index")
    gateway = options[o.HBASE_THRIFT_HOST]
    host = gateway or (quorum or "").split(",")[0].strip().partition(":")[0]
    if not host:
        raise OptionError(
            f"{o.INDEX_TYPE.key}=HBASE needs {o.HBASE_QUORUM.key}, whose first host is asked, or {o.HBASE_THRIFT_HOST.key}: "
            "the host of HBase's Thrift gateway"
        )
    auto = options[o.HBASE_QPS_FRACTION] * options[o.HBASE_QPS_PER_SERVER] if options[o.HBASE_PUT_BATCH_AUTO] else None
    return HBaseSettings(
        host=host,
        port=options[o.HBASE_THRIFT_PORT],
        table=table,
        connect_ms=options[o.HBASE_CONNECTION_TIMEOUT],
        answer_ms=options[o.HBASE_SESSION_TIMEOUT],
        get_batch=options[o.HBASE_GET_BATCH],
        put_batch=options[o.HBASE_PUT_BATCH],
        auto_rate=auto,
        named_by=f"{o.HBASE_THRIFT_HOST.key}={gateway}" if gateway else f"the first host of {o.HBASE_QUORUM.key}={quorum}",
    )


class Entries:
    """The index, while a connection to it is open."""

    def __init__(self, settings: HBaseSettings, connection: Any) -> None:
        self._settings = settings
        self._connection = connection
        self._table = connection.table(settings.table)
        self._gets, self._puts = _Pace(settings.get_batch * _GETS_PER_SECOND), _Pace(settings.put_batch)

    # The loops over keys below are the wire's: HBase takes and gives rows one by one.

    def check(self) -> int:
        """See that the index is there and has its family; gives how many region servers hold it."""
        with _typed(self._settings):
            families = {name.decode().rstrip(":") for name in self._table.families()}
            if FAMILY not in families:
                raise OptionError(
                    f"table {self._settings.table} of HBase has no family {FAMILY} but {', '.join(sorted(families)) or 'none'}; "
                    f"set {o.HBASE_TABLE.key} to a table that was made for an index: create '{self._settings.table}', '{FAMILY}'"
                )
            return max(1, len({(region["server_name"], region["port"]) for region in self._table.regions()}))

    def is_empty(self) -> bool:
        """Whether there is no entry at all."""
        with _typed(self._settings):
            return next(self._table.scan(columns=[COMMIT], limit=1), None) is None

    def get(self, keys: Sequence[str], until_ms: int | None = None) -> list[Entry | None]:
        """The entry of each key; None where there is none.

        Args:
            until_ms: as it was before this moment, as far as HBase keeps older versions.
        """
        found: dict[bytes, Entry] = {}
        for batch in _batches(keys, self._settings.get_batch):
            self._gets.take(len(batch))
            with _typed(self._settings):
                rows = self._table.rows([key.encode() for key in batch], columns=[COMMIT, FILE, PATH, BEFORE], timestamp=until_ms)
            found.update((key, self._entry(key, cells)) for key, cells in rows)
        return [found.get(key.encode()) for key in keys]

    def put(self, keys: Sequence[str], entries: Sequence[Entry]) -> None:
        """Set the entries of some keys."""
        pairs = list(zip(keys, entries, strict=True))
        for batch in _batches(pairs, self._settings.put_batch):
            self._puts.take(len(batch))
            with _typed(self._settings), self._table.batch() as sent:
                for key, entry in batch:
                    sent.put(key.encode(), entry.cells)

    def remove(self, keys: Sequence[str]) -> None:
        """Take the entries of some keys away."""
        for batch in _batches(keys, self._settings.put_batch):
            self._puts.take(len(batch))
            with _typed(self._settings), self._table.batch() as sent:
                for key in batch:
                    sent.delete(key.encode(), columns=[FAMILY.encode()])

    def made_by(self, commit: str) -> Iterator[list[tuple[str, Entry]]]:
        """The entries that a commit made, in batches: HBase looks through the whole index for them."""
        wanted = f"SingleColumnValueFilter('{FAMILY}', 'commit_ts', =, 'binary:{commit}', true, true)"
        with _typed(self._settings):
            batch = []
            for key, cells in self._table.scan(columns=[COMMIT, FILE, PATH, BEFORE], filter=wanted.encode()):
                batch.append((key.decode(), self._entry(key, cells)))
                if len(batch) == self._settings.get_batch:
                    yield batch
                    batch = []
            if batch:
                yield batch

    def _entry(self, key: bytes, cells: dict[bytes, bytes]) -> Entry:
        try:
            commit, file_id, path = (cells[name].decode() for name in (COMMIT, FILE, PATH))
            before = None
            if BEFORE in cells:
                of, *was = json.loads(cells[BEFORE])
                before = Entry(*was) if of == commit else None  # Hudi has changed the entry since
            return Entry(commit, file_id, path, before)
        except (KeyError, ValueError, TypeError) as e:
            names = ", ".join(sorted(name.decode(errors="replace") for name in cells))
            raise CorruptFile(
                f"row {key!r} of HBase's table {self._settings.table} is no entry of an index: it has {names or 'no cells'}. "
                f"Is the table used by something else? Set {o.HBASE_TABLE.key} to one for the index alone, or delete the row"
            ) from e


@contextmanager
def open_entries(settings: HBaseSettings) -> Iterator[Entries]:
    """A connection to the index, for one thread.

    Raises:
        OptionError: the client is not installed.
        StorageError: nobody answers at the gateway's address.
    """
    try:
        import happybase
    except ImportError:
        raise OptionError(
            f"{o.INDEX_TYPE.key}=HBASE needs the package happybase, where Spark's workers run too: pip install 'penstock[hbase]'"
        ) from None
    with _typed(settings):
        # happybase has one timeout for everything; whether anybody is there can be known sooner.
        socket.create_connection((settings.host, settings.port), timeout=settings.connect_ms / 1000).close()
        connection = happybase.Connection(settings.host, settings.port, timeout=settings.answer_ms)
    try:
        yield Entries(settings, connection)
    finally:
        with suppress(Exception):
            connection.close()


class _Pace:
    """Lets so many rows pass in a second, and as many at once at first."""

    def __init__(self, per_second: float) -> None:
        self._per_second, self._left, self._seen = per_second, per_second, clock.monotonic_s()

    def take(self, rows: int) -> None:
        now = clock.monotonic_s()
        self._left = min(self._per_second, self._left + (now - self._seen) * self._per_second) - rows
        self._seen = now
        if self._left < 0:
            clock.sleep_s(-self._left / self._per_second)


def _batches(things: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(things), size):
        yield things[start : start + size]


@contextmanager
def _typed(settings: HBaseSettings) -> Iterator[None]:
    """Errors of the network, of Thrift and of HBase as ours."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as e:
        raise _error(settings, e) from e


def _error(settings: HBaseSettings, cause: Exception) -> PenstockError:
    said = getattr(cause, "message", None) or str(cause)
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    if "TableNotFoundException" in text:
        return OptionError(
            f"HBase has no table {settings.table} (gateway {settings.where}), which {o.HBASE_TABLE.key} names. Make it: "
            f"create '{settings.table}', '{FAMILY}'"
        )
    if "NoSuchColumnFamilyException" in text:
        return OptionError(f"table {settings.table} of HBase has no family {FAMILY}; set {o.HBASE_TABLE.key} to a table that has")
    if isinstance(cause, TimeoutError):
        return StorageError(
            f"HBase did not answer in time at its Thrift gateway {settings.where}, {settings.named_by} "
            f"({o.HBASE_SESSION_TIMEOUT.key}={settings.answer_ms}, {o.HBASE_CONNECTION_TIMEOUT.key}={settings.connect_ms}). "
            "Nothing is committed; see whether HBase is up, then write again"
        )
    first_line = text.partition("\n")[0]
    return StorageError(
        f"HBase cannot be reached through its Thrift gateway {settings.where}, {settings.named_by} ({type(cause).__name__}: "
        f"{first_line}). Nothing is committed; is the gateway running (hbase thrift start)? {o.HBASE_THRIFT_HOST.key} and "
        f"{o.HBASE_THRIFT_PORT.key} say where; by default it is the first host of {o.HBASE_QUORUM.key}, and 9090"
    )
