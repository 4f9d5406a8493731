"""`Commit` and `Report`: the results of the methods of `Table`. Both are immutable and print as tables.

A report is a sequence of small dataclasses. `print` and the Python prompt show it as a text table, rich and notebooks as their
own kind of table (`report_table.py`); `to_arrow` and `to_pandas` convert it. Each kind of report is defined next to the methods
that return it. This module reads no files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, overload

import pyarrow as pa

from penstock.commit.change import STAGES
from penstock.commit.row_ages import FRESHNESS_MS, LATENCY_MS
from penstock.hooks import HookOutcome, PublishedCommit
from penstock.progress import CONFLICTS, format_bytes, format_count
from penstock.report_table import ColumnHead, ReportTable
from penstock.timeline.commit_file import CommitMetadata

if TYPE_CHECKING:
    from rich.table import Table as RichTable

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Commit:
    """The instant and the counts of a completed write. Rows are counted as Hudi counts them.

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
    #: How long the write took; None if that is not known.
    seconds: float | None = None
    #: The age of the newest and of the oldest row of the write when it committed, by `hoodie.payload.event.time.field`.
    freshness_ms: int | None = None
    latency_ms: int | None = None
    #: How long the write waited for the lock of the table, and held it; None for a single writer, which takes none. How long it
    #: was held is known only right after the write.
    lock_wait_seconds: float | None = None
    lock_held_seconds: float | None = None
    #: How often the write lost to another writer, and ran again, before it committed.
    conflicts: int = 0
    #: Table services after the write that failed, with the reason. The write is committed; the next write tries them again.
    failed_services: tuple[str, ...] = ()
    #: What followed the commit: hooks such as callbacks, and table services, each with its result and its duration.
    follow_ups: FollowUps = field(default_factory=lambda: FollowUps((), ""), compare=False)

    @staticmethod
    def of(instant: str, metadata: CommitMetadata, seconds: float | None = None) -> Commit:
        """Return the `Commit` of a completed write, with counts added up from the write stats in its metadata.

        Args:
            instant: the instant time of the write.
            seconds: how long the write took; None if that is not known.
        """
        stats = metadata.stats
        stages = json.loads(metadata.extra.get(STAGES, "{}"))
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
            lock_wait_seconds=stages.get("lock", {}).get("seconds"),
            conflicts=len(stages.get(CONFLICTS, ())),
        )

    def __repr__(self) -> str:
        """Return the commit in one line: instant, operation, and counts of rows, files and bytes."""
        counts = {"inserted": self.rows_inserted, "updated": self.rows_updated, "deleted": self.rows_deleted}
        rows = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "no row changed"
        files = f"{self.files_written:,} file{'' if self.files_written == 1 else 's'}, {format_bytes(self.bytes_written)}"
        took = "" if self.seconds is None else f", {self.seconds:.2f} s"
        lost = f", after {format_count(self.conflicts, 'conflict')}" if self.conflicts else ""
        return f"Commit({self.instant} {self.operation}: {rows}; {files}{took}{lost})"

    def _repr_html_(self) -> str:
        """Return the commit as an HTML table, for notebooks."""
        return _make_table(f"Commit {self.instant}", _COMMIT_COLUMNS, [self]).to_html()


class Commits(list[Commit]):
    """The commits of the plans that a table service ran: a list that notebooks show as a table.

    Example:
        >>> commits = mor.compact()
        >>> [commit.operation for commit in commits]
        ['compact']
    """

    def _repr_html_(self) -> str:
        """Return the commits as an HTML table, for notebooks."""
        return _make_table("Commits", (Column("instant", lambda c: str(c.instant)), *_COMMIT_COLUMNS), self).to_html()


def _whole(text: str | None) -> int | None:
    """Parse an integer of a commit's extra metadata, which stores it as a string; return None if `text` is None."""
    return None if text is None else int(text)


class Column(NamedTuple):
    """A column of a printed report: its title, the function that formats an entry's value, and whether it is aligned right."""

    title: str
    text: Callable[[Any], str]
    right: bool = False


class Report(Sequence[T], Generic[T]):
    """A sequence of entries (small dataclasses) that prints as a table.

    Each subclass defines its title, columns and Arrow schema.

    Args:
        about: the name of the table that the report is about. The heading shows it.
    """

    title: ClassVar[str]
    columns: ClassVar[tuple[Column, ...]]
    schema: ClassVar[pa.Schema]
    #: What an empty report says instead of a table without rows.
    if_empty: ClassVar[str] = "none"

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
        """Return the entries as an Arrow table, one row per entry."""
        names = self.schema.names
        return pa.table([[getattr(e, name) for e in self._entries] for name in names], schema=self.schema)

    def to_pandas(self) -> Any:
        """Return the entries as a pandas DataFrame, one row per entry."""
        return self.to_arrow().to_pandas()

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns to print. A subclass may leave some out, depending on its entries."""
        return self.columns

    def __rich__(self) -> RichTable:
        """Return the report as a table of the library rich."""
        return self._to_table().to_rich()

    def __str__(self) -> str:
        """Return the report as a text table, as wide as its content."""
        return self._to_table().to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the report as an HTML table, for notebooks."""
        return self._to_table().to_html()

    def _to_table(self) -> ReportTable:
        """Return the report as a `ReportTable`, which is rendered as text, as HTML or by the library rich."""
        return _make_table(self._heading, self.shown, self._entries, self.if_empty)

    @property
    def _heading(self) -> str:
        """The line above the printed table, for example `History of trips`."""
        return f"{self.title} of {self._about}"


@dataclass(frozen=True)
class FollowUp:
    """One step after a commit: a hook, such as a callback, or a table service.

    Example:
        >>> commit = table.upsert(trips)
        >>> [(step.name, step.result) for step in commit.follow_ups]
        [('clean', 'not due'), ('archive', 'not due')]
    """

    name: str
    #: `hook` or `service`.
    kind: str
    #: What was done, `not due`, or `failed`.
    result: str
    seconds: float
    #: Why the step failed; None if it did not. The commit stays published.
    error: str | None = None


class FollowUps(Report[FollowUp]):
    """The hooks and table services that ran after a commit, in the order in which they ran. `Commit.follow_ups` holds it.

    Example:
        >>> print(table.upsert(trips).follow_ups)
        Follow-ups of ...
        step     kind     result   seconds
        ──────────────────────────────────
        clean    service  not due     ...
        archive  service  not due     ...
    """

    title = "Follow-ups"
    columns = (
        Column("step", lambda f: str(f.name)),
        Column("kind", lambda f: str(f.kind)),
        Column("result", lambda f: f"failed: {f.error}" if f.error else str(f.result)),
        Column("seconds", lambda f: f"{f.seconds:.2f}", right=True),
    )
    schema = pa.schema(
        [
            ("name", pa.string()),
            ("kind", pa.string()),
            ("result", pa.string()),
            ("seconds", pa.float64()),
            ("error", pa.string()),
        ]
    )

    @staticmethod
    def of(commit: PublishedCommit, about: str) -> FollowUps:
        """Return the report of the hooks and table services that ran after a commit.

        Args:
            about: what the heading names: the instant of the commit.
        """
        steps = []
        for step in commit.follow_ups:
            if isinstance(step, HookOutcome):
                steps.append(FollowUp(step.hook, "hook", "failed" if step.error else "done", step.seconds, step.error))
            else:
                result = "failed" if step.error else step.done or "not due"
                steps.append(FollowUp(step.service, "service", result, step.seconds, step.error))
        return FollowUps(steps, about)


def _make_table(heading: str, columns: Sequence[Column], entries: Sequence[Any], if_empty: str = "none") -> ReportTable:
    """Return a `ReportTable` with one row per entry. Its cells are the entries' values as texts.

    Args:
        heading: the line above the table.
        if_empty: the text after the heading if there are no entries.
    """
    heads = [ColumnHead(column.title, column.right) for column in columns]
    rows = []
    for entry in entries:
        rows.append([column.text(entry) for column in columns])
    return ReportTable(heading, heads, rows, if_empty)


def number(name: str) -> Callable[[Any], str]:
    """Return a function that formats the count in the field `name` of an entry, for a `Column`; an empty string for None."""

    def text(entry: Any) -> str:
        """Format the count of one entry."""
        value = getattr(entry, name)
        return "" if value is None else f"{value:,}"

    return text


def size(name: str) -> Callable[[Any], str]:
    """Return a function that formats the bytes in the field `name` of an entry, for a `Column`; an empty string for None."""

    def text(entry: Any) -> str:
        """Format the bytes of one entry."""
        value = getattr(entry, name)
        return "" if value is None else format_bytes(value)

    return text


#: The counts of a write, as columns.
ROWS = (
    Column("inserted", number("rows_inserted"), right=True),
    Column("updated", number("rows_updated"), right=True),
    Column("deleted", number("rows_deleted"), right=True),
    Column("files", number("files_written"), right=True),
    Column("size", size("bytes_written"), right=True),
)
_COMMIT_COLUMNS = (
    Column("operation", lambda c: str(c.operation)),
    *ROWS,
    Column("seconds", lambda c: "" if c.seconds is None else f"{c.seconds:.2f}", right=True),
)
