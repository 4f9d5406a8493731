"""The HBase index: entries in an HBase table, in the same rows and cells as Hudi's.

The table has one row per record key. The row key is the record key in UTF-8; column family `_s` has the cells `commit_ts`,
`file_name` (the file id of the file group) and `partition_path`. The driver and every worker reach HBase through its Thrift
gateway, with the package `happybase`. A connection is open for the duration of one task. Requests are sent in batches, with a
limit of rows per second.

All errors are Penstock's: OptionError for what the caller can fix (no such table, no such column family, a missing package),
StorageError for an HBase that is down or slow.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.errors import CorruptFile, OptionError, PenstockError, StorageError
from penstock.index.entry_index import EntryIndex
from penstock.index.entry_store import Entry
from penstock.options import Options

FAMILY = "_s"
COMMIT = b"_s:commit_ts"
FILE = b"_s:file_name"
PATH = b"_s:partition_path"
#: A cell that only Penstock writes and Hudi ignores: the entry that this one replaced. It is used if the commit fails.
BEFORE = b"_s:penstock_before"
#: Hudi lets ten batches of lookups pass in a second.
_GET_BATCHES_PER_SECOND = 10


@dataclass(frozen=True)
class HBaseIndex(EntryIndex):
    """An index that locates keys by their entries in an HBase table."""

    name = "HBASE"
    moves_option = o.HBASE_UPDATE_PARTITION_PATH.key

    @classmethod
    def from_options(cls, options: Options) -> HBaseIndex:
        """Return the index for the HBase table that the options name.

        Raises:
            OptionError: the options name no HBase table or no gateway.
        """
        return cls(
            make_store(options),
            moves_rows=options[o.HBASE_UPDATE_PARTITION_PATH],
            undoes_entries=options[o.HBASE_ROLLBACK_SYNC],
        )


@dataclass(frozen=True)
class HBaseStore:
    """The address of the HBase table of an index, and how many rows per second may be read from it and written to it."""

    host: str
    port: int
    table: str
    connect_ms: int
    answer_ms: int
    get_batch: int
    put_batch: int
    #: Rows per second that each region server may receive. The put batch is computed from it; None: the put batch is an option.
    rows_per_server: float | None = None
    #: The option that names the host, with its value; for messages.
    named_by: str = ""
    option = o.HBASE_TABLE.key

    @property
    def title(self) -> str:
        """The name of the store in messages, for example `HBase's table trips`."""
        return f"HBase's table {self.table}"

    @property
    def address(self) -> str:
        """The address of the Thrift gateway as `host:port`."""
        return f"{self.host}:{self.port}"

    @contextmanager
    def open(self) -> Iterator[HBaseEntries]:
        """Open a connection to the Thrift gateway, for use by one thread.

        Raises:
            OptionError: the package happybase is not installed.
            StorageError: the gateway does not answer.
        """
        try:
            import happybase
        except ImportError:
            raise OptionError(
                f"{o.INDEX_TYPE.key}=HBASE needs the package happybase, where Spark's workers run too: pip install "
                "'penstock[hbase]'"
            ) from None
        with _typed_errors(self):
            # happybase has only one timeout, for slow answers. A gateway that does not listen is detected sooner by this connect.
            socket.create_connection((self.host, self.port), timeout=self.connect_ms / 1000).close()
            connection = happybase.Connection(self.host, self.port, timeout=self.answer_ms)
        try:
            yield HBaseEntries(self, connection)
        finally:
            with suppress(Exception):
                connection.close()

    def share_rate(self, tasks: int) -> HBaseStore:
        """Return a copy of the store whose put batch suits `tasks` concurrent tasks, by the number of region servers.

        The put batch is the number of entries that a task puts per second. If `hoodie.index.hbase.put.batch.size` sets it, the
        store is returned unchanged.
        """
        if self.rows_per_server is None:
            return self
        with self.open() as entries:
            servers = entries.count_region_servers()
        return replace(self, put_batch=compute_put_batch(self.rows_per_server, servers, tasks))


def compute_put_batch(rows_per_server: float, servers: int, tasks: int) -> int:
    """Return how many entries each of `tasks` concurrent tasks may put per second; at least 1.

    Args:
        rows_per_server: the rows per second that each region server may receive.
        servers: the number of region servers.
    """
    return max(1, int(rows_per_server * servers) // max(1, tasks))


def make_store(options: Options) -> HBaseStore:
    """Return the address and limits of the HBase table that the options name.

    If no option names the host of the Thrift gateway, it is the first host of `hoodie.index.hbase.zkquorum`.

    Raises:
        OptionError: the options name no HBase table or no gateway.
    """
    table = options[o.HBASE_TABLE]
    if not table:
        raise OptionError(f"{o.INDEX_TYPE.key}=HBASE needs {o.HBASE_TABLE.key}: the table of HBase that holds the index")
    quorum = options[o.HBASE_QUORUM]
    gateway = options[o.HBASE_THRIFT_HOST]
    host = gateway or (quorum or "").split(",")[0].strip().partition(":")[0]
    if not host:
        raise OptionError(
            f"{o.INDEX_TYPE.key}=HBASE needs {o.HBASE_QUORUM.key}, whose first host is asked, or {o.HBASE_THRIFT_HOST.key}: "
            "the host of HBase's Thrift gateway"
        )
    rows_per_server = None
    if options[o.HBASE_PUT_BATCH_AUTO]:
        rows_per_server = options[o.HBASE_QPS_FRACTION] * options[o.HBASE_QPS_PER_SERVER]
    return HBaseStore(
        host=host,
        port=options[o.HBASE_THRIFT_PORT],
        table=table,
        connect_ms=options[o.HBASE_CONNECTION_TIMEOUT],
        answer_ms=options[o.HBASE_SESSION_TIMEOUT],
        get_batch=options[o.HBASE_GET_BATCH],
        put_batch=options[o.HBASE_PUT_BATCH],
        rows_per_server=rows_per_server,
        named_by=f"{o.HBASE_THRIFT_HOST.key}={gateway}" if gateway else f"the first host of {o.HBASE_QUORUM.key}={quorum}",
    )


class HBaseEntries:
    """An open connection to the HBase table of an index.

    The methods loop over keys in Python, because the Thrift protocol sends rows one by one.
    """

    def __init__(self, store: HBaseStore, connection: Any) -> None:
        self._store = store
        self._connection = connection
        self._table = connection.table(store.table)
        self._get_rate = _Rate(store.get_batch * _GET_BATCHES_PER_SECOND)
        self._put_rate = _Rate(store.put_batch)

    def check(self) -> None:
        """Raise OptionError if the HBase table does not exist or does not have the column family `_s`."""
        with _typed_errors(self._store):
            families = {name.decode().rstrip(":") for name in self._table.families()}
        if FAMILY not in families:
            raise OptionError(
                f"table {self._store.table} of HBase has no family {FAMILY} but {', '.join(sorted(families)) or 'none'}; "
                f"set {o.HBASE_TABLE.key} to a table that was made for an index: create '{self._store.table}', '{FAMILY}'"
            )

    def count_region_servers(self) -> int:
        """Return the number of region servers that hold the HBase table; at least 1."""
        with _typed_errors(self._store):
            return max(1, len({(region["server_name"], region["port"]) for region in self._table.regions()}))

    def is_empty(self) -> bool:
        """Whether the HBase table has no entries."""
        with _typed_errors(self._store):
            return next(self._table.scan(columns=[COMMIT], limit=1), None) is None

    def get(self, keys: Sequence[str], until_ms: int | None = None) -> list[Entry | None]:
        """Return the entry of each key; None for a key without entry.

        Args:
            until_ms: if given, return the versions that were written before this time (milliseconds since 1970), as far as HBase
                keeps older versions.
        """
        entry_by_key: dict[bytes, Entry] = {}
        for batch in _batches(keys, self._store.get_batch):
            self._get_rate.take(len(batch))
            row_keys = [key.encode() for key in batch]
            with _typed_errors(self._store):
                rows = self._table.rows(row_keys, columns=[COMMIT, FILE, PATH, BEFORE], timestamp=until_ms)
            for row_key, cells in rows:
                entry_by_key[row_key] = self._entry(row_key, cells)
        return [entry_by_key.get(key.encode()) for key in keys]

    def put(self, keys: Sequence[str], entries: Sequence[Entry]) -> None:
        """Write one entry for each key. An existing entry of the key is replaced."""
        pairs = list(zip(keys, entries, strict=True))
        for batch in _batches(pairs, self._store.put_batch):
            self._put_rate.take(len(batch))
            with _typed_errors(self._store), self._table.batch() as sent:
                for key, entry in batch:
                    sent.put(key.encode(), entry_cells(entry))

    def remove(self, keys: Sequence[str]) -> None:
        """Delete the entry of each key. A key without entry is ignored."""
        for batch in _batches(keys, self._store.put_batch):
            self._put_rate.take(len(batch))
            with _typed_errors(self._store), self._table.batch() as sent:
                for key in batch:
                    sent.delete(key.encode(), columns=[FAMILY.encode()])

    def made_by(self, commit: str) -> Iterator[list[tuple[str, Entry]]]:
        """Yield all entries that a commit put, in batches of (key, entry). HBase scans the whole table to find these entries."""
        row_filter = f"SingleColumnValueFilter('{FAMILY}', 'commit_ts', =, 'binary:{commit}', true, true)"
        with _typed_errors(self._store):
            batch = []
            for row_key, cells in self._table.scan(columns=[COMMIT, FILE, PATH, BEFORE], filter=row_filter.encode()):
                batch.append((row_key.decode(), self._entry(row_key, cells)))
                if len(batch) == self._store.get_batch:
                    yield batch
                    batch = []
            if batch:
                yield batch

    def _entry(self, row_key: bytes, cells: dict[bytes, bytes]) -> Entry:
        """Return the entry in a row of HBase. Raise CorruptFile if the row lacks a cell of an entry or cannot be decoded.

        Args:
            cells: the cells of the row, by name with column family (`_s:commit_ts`).
        """
        try:
            commit, file_id, partition_path = (cells[name].decode() for name in (COMMIT, FILE, PATH))
            before = None
            if BEFORE in cells:
                written_by, *old = json.loads(cells[BEFORE])
                # If the commit is another one, Hudi has changed the entry since and left this cell behind.
                before = Entry(*old) if written_by == commit else None
            return Entry(commit, file_id, partition_path, before)
        except (KeyError, ValueError, TypeError) as e:
            names = ", ".join(sorted(name.decode(errors="replace") for name in cells))
            raise CorruptFile(
                f"row {row_key!r} of HBase's table {self._store.table} is no entry of an index: it has {names or 'no cells'}. "
                f"Is the table used by something else? Set {o.HBASE_TABLE.key} to one for the index alone, or delete the row"
            ) from e


def entry_cells(entry: Entry) -> dict[bytes, bytes]:
    """Return the HBase cells of an entry: name with column family (`_s:commit_ts`) → value."""
    cells = {COMMIT: entry.commit.encode(), FILE: entry.file_id.encode(), PATH: entry.partition_path.encode()}
    old = entry.before
    if old is not None:
        cells[BEFORE] = json.dumps([entry.commit, old.commit, old.file_id, old.partition_path]).encode()
    return cells


class _Rate:
    """Limits how many rows per second are sent to HBase. The rows of the first second may be sent at once."""

    def __init__(self, rows_per_second: float) -> None:
        self._rows_per_second = rows_per_second
        self._rows_left = rows_per_second
        self._updated_s = clock.monotonic_s()

    def take(self, rows: int) -> None:
        """Wait until `rows` more rows may be sent to HBase."""
        now_s = clock.monotonic_s()
        regained = (now_s - self._updated_s) * self._rows_per_second
        self._rows_left = min(self._rows_per_second, self._rows_left + regained) - rows
        self._updated_s = now_s
        if self._rows_left < 0:
            clock.sleep_s(-self._rows_left / self._rows_per_second)


def _batches(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Yield the values in slices of `size` values. The last slice may be shorter."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


@contextmanager
def _typed_errors(store: HBaseStore) -> Iterator[None]:
    """Convert errors of the network, of Thrift and of HBase inside the `with` block to Penstock's errors."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as e:
        raise _typed_error(store, e) from e


def _typed_error(store: HBaseStore, cause: Exception) -> PenstockError:
    """Return the Penstock error for an error of the network, of Thrift or of HBase."""
    message = getattr(cause, "message", None) or str(cause)
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    if "TableNotFoundException" in text:
        return OptionError(
            f"HBase has no table {store.table} (gateway {store.address}), which {o.HBASE_TABLE.key} names. Make it: "
            f"create '{store.table}', '{FAMILY}'"
        )
    if "NoSuchColumnFamilyException" in text:
        return OptionError(f"table {store.table} of HBase has no family {FAMILY}; set {o.HBASE_TABLE.key} to a table that has")
    if isinstance(cause, TimeoutError):
        return StorageError(
            f"HBase did not answer in time at its Thrift gateway {store.address}, {store.named_by} "
            f"({o.HBASE_SESSION_TIMEOUT.key}={store.answer_ms}, {o.HBASE_CONNECTION_TIMEOUT.key}={store.connect_ms}). "
            "Nothing is committed; see whether HBase is up, then write again"
        )
    first_line = text.partition("\n")[0]
    return StorageError(
        f"HBase cannot be reached through its Thrift gateway {store.address}, {store.named_by} ({type(cause).__name__}: "
        f"{first_line}). Nothing is committed; is the gateway running (hbase thrift start)? {o.HBASE_THRIFT_HOST.key} and "
        f"{o.HBASE_THRIFT_PORT.key} say where; by default it is the first host of {o.HBASE_QUORUM.key}, and 9090"
    )
