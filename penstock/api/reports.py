"""What a table tells about itself: a commit, its history, its files. Frozen values that print as tables.

A report is a sequence of small dataclasses, newest or first one first. `print` and a Python prompt show it as a table of
text, rich and notebooks as one of theirs, and `to_arrow` and `to_pandas` hand it on. Made by `table.py`; nothing here reads.
"""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, overload

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from penstock.commit.change import FRESHNESS_MS, LATENCY_MS
from penstock.progress import human_bytes
from penstock.timeline.contents import CommitMetadata
from penstock.write.explain_merge import KeyMerge

T = TypeVar("T")

_SHORT_ID = 8


@dataclass(frozen=True, repr=False)
class Commit:
    """A write that is part of the table, summed up. Rows are counted as Hudi counts them.

    Example:
        >>> commit = table.upsert(trips)
        >>> commit.operation, commit.rows_inserted, commit.rows_updated
        ('upsert', 0, 3)
        >>> commit
        Commit(... upsert: 3 updated; 2 files, ...)
    """

    instant: str
    operation: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files_written: int = 0
    bytes_written: int = 0
    #: How long the write took; None where that is not known.
    seconds: float | None = None
    #: How old the newest and the oldest of its rows were when it was committed, by `hoodie.payload.event.time.field`.
    freshness_ms: int | None = None
    latency_ms: int | None = None
    #: Table services after the write that failed, with the reason. The write stands; the next one tries them again.
    failed_services: tuple[str, ...] = ()

    @staticmethod
    def of(instant: str, metadata: CommitMetadata, seconds: float | None = None) -> Commit:
        """The sum of a commit's write stats."""
        stats = metadata.stats
        return Commit(
            instant=instant,
            operation=metadata.operation.lower(),
            rows_inserted=sum(s.num_inserts for s in stats),
            rows_updated=sum(s.num_update_writes for s in stats),
            rows_deleted=sum(s.num_deletes for s in stats),
            files_written=sum(s.path is not None for s in stats),
            bytes_written=metadata.bytes_written,
            seconds=seconds,
            freshness_ms=_whole(metadata.extra.get(FRESHNESS_MS)),
            latency_ms=_whole(metadata.extra.get(LATENCY_MS)),
        )

    def __repr__(self) -> str:
        counts = {"inserted": self.rows_inserted, "updated": self.rows_updated, "deleted": self.rows_deleted}
        rows = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "no row changed"
        files = f"{self.files_written:,} file{'' if self.files_written == 1 else 's'}, {human_bytes(self.bytes_written)}"
        took = "" if self.seconds is None else f", {self.seconds:.2f} s"
        return f"Commit({self.instant} {self.operation}: {rows}; {files}{took})"

    def _repr_html_(self) -> str:
        return _html(f"Commit {self.instant}", _COMMIT_COLUMNS, [self])


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)


@dataclass(frozen=True)
class HistoryEntry:
    """One instant of the timeline. Counts are None for what is not a completed write.

    Example:
        >>> entry = table.history()[0]
        >>> entry.action, entry.state, entry.operation, entry.rows_inserted
        ('commit', 'completed', 'insert', 3)
    """

    instant: str
    #: The instant as wall-clock time, in the zone that the table's timeline is kept in.
    time: datetime
    action: str
    state: str
    operation: str | None = None
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    files_written: int | None = None
    bytes_written: int | None = None


@dataclass(frozen=True)
class DataFile:
    """The current base file of a file group.

    Example:
        >>> file = table.files("berlin")[0]
        >>> file.partition, file.rows, file.log_files
        ('berlin', 2, 0)
    """

    partition: str
    file_group: str
    instant: str
    #: None where the commit that wrote it has left the active timeline.
    rows: int | None
    size_bytes: int
    log_files: int
    path: str


@dataclass(frozen=True)
class PendingCompaction:
    """A compaction that is planned, and not done yet.

    Example:
        >>> mor.schedule_compaction()
        PendingCompaction(instant='...', state='requested', file_groups=1, log_files=1, log_bytes=...)
    """

    instant: str
    #: `requested`, or `inflight` when its run has begun.
    state: str
    file_groups: int
    log_files: int
    log_bytes: int


@dataclass(frozen=True)
class IndexUse:
    """What the index did in one write.

    Example:
        >>> _ = table.upsert(trips)
        >>> use = table.index_report()[0]
        >>> use.index, use.operation, use.read_once
        ('SIMPLE', 'upsert', 2)
    """

    instant: str
    operation: str
    index: str
    #: Incoming rows whose keys were looked for apart, before the merge.
    rows: int = 0
    #: Base files that could hold them.
    files: int = 0
    #: Those whose keys were read, because footers did not rule them out.
    opened: int = 0
    #: Those that did hold some of them.
    holding: int = 0
    #: Incoming keys that were compared with the keys of a file, counted once per file.
    compared: int = 0
    #: Partitions with at most one file group, which is read once, to find keys and to merge; not counted above.
    read_once: int = 0
    #: Why the index was chosen, where that was left to Penstock.
    why: str = ""

    @property
    def false_positive_rate(self) -> float | None:
        """The share of files without any of the keys that were opened all the same; None if there was no such file."""
        without = self.files - self.holding
        return (self.opened - self.holding) / without if without else None


@dataclass(frozen=True)
class PendingClustering:
    """A clustering that is planned, and not done yet.

    Example:
        >>> plan = table.schedule_clustering()
        >>> plan
        PendingClustering(instant='...', state='requested', groups=2, file_groups=2, new_files=2, sort_columns='')
        >>> table.unschedule_clustering(plan.instant)
    """

    instant: str
    #: `requested`, or `inflight` when its run has begun.
    state: str
    #: Groups of file groups that are rewritten together.
    groups: int
    file_groups: int
    #: Files that come of it, as planned.
    new_files: int
    #: The columns that rows are sorted by; empty where they are not.
    sort_columns: str


@dataclass(frozen=True)
class Cleaned:
    """A clean that deleted old file versions.

    Example:
        >>> for _ in range(2):
        ...     _ = table.upsert(trips)
        >>> done = table.clean({"hoodie.cleaner.commits.retained": 1})
        >>> done.files_deleted, done.earliest == table.history(2)[1].instant
        (2, True)
    """

    instant: str
    files_deleted: int
    #: Files that were not there any more, or could not be deleted.
    files_failed: int
    partitions_deleted: int
    #: The earliest commit that can be read in full; empty where files are kept by their number.
    earliest: str


class Column(NamedTuple):
    """How one field of an entry is shown."""

    title: str
    text: Callable[[Any], str]
    right: bool = False


class Report(Sequence[T], Generic[T]):
    """A sequence of entries that prints as a table."""

    title: ClassVar[str]
    columns: ClassVar[tuple[Column, ...]]
    schema: ClassVar[pa.Schema]

    def __init__(self, entries: Sequence[T], about: str) -> None:
        self._entries = tuple(entries)
        self._about = about

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        return iter(self._entries)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...

    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        return self._entries[at]

    def to_arrow(self) -> pa.Table:
        """The entries as an Arrow table, a column per field."""
        names = self.schema.names
        return pa.table([[getattr(e, name) for e in self._entries] for name in names], schema=self.schema)

    def to_pandas(self) -> Any:
        """The entries as a pandas DataFrame, a column per field."""
        return self.to_arrow().to_pandas()

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns that say something about these entries."""
        return self.columns

    def __rich__(self) -> RichTable:
        table = RichTable(
            title=self._heading, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
        )
        for column in self.shown:
            table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
        for entry in self._entries:
            table.add_row(*(Text(column.text(entry)) for column in self.shown))
        return table

    def __str__(self) -> str:
        table, console = self.__rich__(), Console(file=io.StringIO(), width=10_000)
        width = max(Measurement.get(console, console.options, table).maximum, len(self._heading))
        with console.capture() as captured:
            console.print(table, width=width)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html(self._heading, self.shown, self._entries)

    @property
    def _heading(self) -> str:
        return f"{self.title} of {self._about}"


def _html(title: str, columns: Sequence[Column], entries: Sequence[Any]) -> str:
    def cell(tag: str, column: Column, text: str) -> str:
        return f'<{tag} style="text-align:{"right" if column.right else "left"}">{html.escape(text)}</{tag}>'

    head = "".join(cell("th", c, c.title) for c in columns)
    rows = "".join(f"<tr>{''.join(cell('td', c, c.text(e)) for c in columns)}</tr>" for e in entries)
    return f"<table><caption>{html.escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _number(name: str) -> Callable[[Any], str]:
    """A count, or nothing where there is none."""

    def text(entry: Any) -> str:
        value = getattr(entry, name)
        return "" if value is None else f"{value:,}"

    return text


def _size(name: str) -> Callable[[Any], str]:
    def text(entry: Any) -> str:
        value = getattr(entry, name)
        return "" if value is None else human_bytes(value)

    return text


def _short_id(file_group: str) -> str:
    """The start of a file group's id, which is what people compare."""
    return file_group if len(file_group) <= _SHORT_ID + 1 else f"{file_group[:_SHORT_ID]}…"


_ROWS = (
    Column("inserted", _number("rows_inserted"), right=True),
    Column("updated", _number("rows_updated"), right=True),
    Column("deleted", _number("rows_deleted"), right=True),
    Column("files", _number("files_written"), right=True),
    Column("size", _size("bytes_written"), right=True),
)
_COMMIT_COLUMNS = (
    Column("operation", lambda c: str(c.operation)),
    *_ROWS,
    Column("seconds", lambda c: "" if c.seconds is None else f"{c.seconds:.2f}", right=True),
)


class History(Report[HistoryEntry]):
    """What happened to a table, newest first.

    Example:
        >>> [entry.operation for entry in table.history()]
        ['insert']
        >>> table.history().to_arrow().num_rows
        1
    """

    title = "History"
    columns = (
        Column("instant", lambda e: str(e.instant)),
        Column("action", lambda e: e.operation or e.action),
        Column("state", lambda e: str(e.state)),
        *_ROWS,
    )
    schema = pa.schema(
        [
            ("instant", pa.string()),
            ("time", pa.timestamp("ms")),
            ("action", pa.string()),
            ("state", pa.string()),
            ("operation", pa.string()),
            ("rows_inserted", pa.int64()),
            ("rows_updated", pa.int64()),
            ("rows_deleted", pa.int64()),
            ("files_written", pa.int64()),
            ("bytes_written", pa.int64()),
        ]
    )

    @property
    def shown(self) -> tuple[Column, ...]:
        """The state only where an instant is not completed."""
        if any(entry.state != "completed" for entry in self):
            return self.columns
        return tuple(c for c in self.columns if c.title != "state")


class Files(Report[DataFile]):
    """The files that a read of the whole table opens, by partition.

    Example:
        >>> sum(file.rows for file in table.files())
        3
        >>> table.files().to_arrow().column_names[:2]
        ['partition', 'file_group']
    """

    title = "Files"
    columns = (
        Column("partition", lambda f: f.partition or "(none)"),
        Column("file group", lambda f: _short_id(f.file_group)),
        Column("written at", lambda f: str(f.instant)),
        Column("rows", _number("rows"), right=True),
        Column("size", _size("size_bytes"), right=True),
    )
    schema = pa.schema(
        [
            ("partition", pa.string()),
            ("file_group", pa.string()),
            ("instant", pa.string()),
            ("rows", pa.int64()),
            ("size_bytes", pa.int64()),
            ("log_files", pa.int64()),
            ("path", pa.string()),
        ]
    )


class MergePlan(Report[KeyMerge]):
    """What an upsert would make of some keys.

    Example:
        >>> plan = table.explain_merge(trips.where("id = 'a'"))
        >>> [(one.key, one.outcome.value, one.result["fare"]) for one in plan]
        [('a', 'update', 1.5)]
    """

    title = "Merge plan"
    columns = (
        Column("key", lambda m: str(m.key)),
        Column("partition", lambda m: m.partition or "(none)"),
        Column("rows", _number("rows"), right=True),
        Column("stored", lambda m: m.stored_ordering or "", right=True),
        Column("incoming", lambda m: m.incoming_ordering or "", right=True),
        Column("outcome", lambda m: str(m.outcome.value)),
        Column("why", lambda m: str(m.why)),
        Column("payload", lambda m: str(m.payload)),
    )
    schema = pa.schema(
        [
            ("key", pa.string()),
            ("partition", pa.string()),
            ("rows", pa.int64()),
            ("stored_ordering", pa.string()),
            ("incoming_ordering", pa.string()),
            ("outcome", pa.string()),
            ("why", pa.string()),
            ("payload", pa.string()),
        ]
    )


class PendingCompactions(Report[PendingCompaction]):
    """Compactions that are planned and not done yet, oldest first.

    Example:
        >>> _ = mor.schedule_compaction()
        >>> [(plan.state, plan.file_groups) for plan in mor.pending_compactions()]
        [('requested', 1)]
    """

    title = "Pending compactions"
    columns = (
        Column("instant", lambda c: str(c.instant)),
        Column("state", lambda c: str(c.state)),
        Column("file groups", _number("file_groups"), right=True),
        Column("log files", _number("log_files"), right=True),
        Column("log size", _size("log_bytes"), right=True),
    )
    schema = pa.schema(
        [
            ("instant", pa.string()),
            ("state", pa.string()),
            ("file_groups", pa.int64()),
            ("log_files", pa.int64()),
            ("log_bytes", pa.int64()),
        ]
    )


class IndexReport(Report[IndexUse]):
    """What the index did in recent writes, newest first.

    Example:
        >>> _ = table.upsert(trips)
        >>> table.index_report().to_arrow().column_names[:3]
        ['instant', 'operation', 'index']
    """

    title = "Index"
    columns = (
        Column("instant", lambda u: str(u.instant)),
        Column("operation", lambda u: str(u.operation)),
        Column("index", lambda u: str(u.index)),
        Column("rows", _number("rows"), right=True),
        Column("files", _number("files"), right=True),
        Column("opened", _number("opened"), right=True),
        Column("holding", _number("holding"), right=True),
        Column("compared", _number("compared"), right=True),
        Column("read once", _number("read_once"), right=True),
        Column("false positives", lambda u: "" if u.false_positive_rate is None else f"{u.false_positive_rate:.1%}", right=True),
    )
    schema = pa.schema(
        [
            ("instant", pa.string()),
            ("operation", pa.string()),
            ("index", pa.string()),
            ("rows", pa.int64()),
            ("files", pa.int64()),
            ("opened", pa.int64()),
            ("holding", pa.int64()),
            ("compared", pa.int64()),
            ("read_once", pa.int64()),
            ("why", pa.string()),
            ("false_positive_rate", pa.float64()),
        ]
    )


class PendingClusterings(Report[PendingClustering]):
    """Clusterings that are planned and not done yet, oldest first.

    Example:
        >>> plan = table.schedule_clustering()
        >>> [(one.state, one.file_groups) for one in table.pending_clusterings()]
        [('requested', 2)]
        >>> table.unschedule_clustering(plan.instant)
    """

    title = "Pending clusterings"
    columns = (
        Column("instant", lambda c: str(c.instant)),
        Column("state", lambda c: str(c.state)),
        Column("groups", _number("groups"), right=True),
        Column("file groups", _number("file_groups"), right=True),
        Column("new files", _number("new_files"), right=True),
        Column("sorted by", lambda c: str(c.sort_columns)),
    )
    schema = pa.schema(
        [
            ("instant", pa.string()),
            ("state", pa.string()),
            ("groups", pa.int64()),
            ("file_groups", pa.int64()),
            ("new_files", pa.int64()),
            ("sort_columns", pa.string()),
        ]
    )
