"""Stage 5: every row has a file group: its own, a small one, or a new one. Kernels over counts; rows stay where they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock import options as o
from penstock.catalog.pending import pending_clusterings
from penstock.filegroup.model import FileSlice
from penstock.index import index_of
from penstock.options import Options
from penstock.options.operation import Operation
from penstock.table import TableState
from penstock.timeline.commit_file import CommitMetadata, workload_profile
from penstock.timeline.instant import Action
from penstock.timeline.store import read_metadata
from penstock.write.rows.staging import Piece

#: How many commits back the size of a record is looked for.
_COMMITS_BACK = 100


@dataclass(frozen=True)
class Sizing:
    """What decides how large files become."""

    small_file_limit: int
    max_file_bytes: int
    record_bytes: int
    #: Rows of a new file group, when they are not to be derived from its size.
    split_rows: int | None = None
    #: Of a merge-on-read table: small files of a partition that one write fills. None: copy-on-write, all of them.
    candidates: int | None = None
    #: Where new rows go to logs: what bytes of a log count beside those of a base file. Then every file slice may take rows.
    log_ratio: float | None = None
    #: (partition path, file id) of file groups that take no more rows, because a table service is about to rewrite them.
    busy: frozenset[tuple[str, str]] = frozenset()

    @property
    def rows_per_group(self) -> int:
        """Rows that a new file group is given."""
        return self.split_rows or -(-self.max_file_bytes // self.record_bytes)

    def room(self, slice_: FileSlice) -> int:
        """Rows that a file slice still takes."""
        return max(0, self.max_file_bytes - self.bytes_of(slice_)) // self.record_bytes

    def bytes_of(self, slice_: FileSlice) -> int:
        """How large the base file of a file slice is or, where new rows go to logs, would be with its logs."""
        return slice_.base_bytes + int(slice_.log_bytes * (self.log_ratio or 0.0))


@dataclass(frozen=True)
class InsertBucket:
    """Rows that go to one file group."""

    path: str
    pieces: tuple[Piece, ...]
    #: What they are added to; None for a new file group.
    target: FileSlice | None = None

    @property
    def rows(self) -> int:
        """How many rows."""
        return sum(p.rows for p in self.pieces)


def assign_inserts(pieces: Iterable[Piece], slices: Mapping[str, Sequence[FileSlice]], sizing: Sizing) -> list[InsertBucket]:
    """Distribute new rows: small files are filled first, then new groups are opened."""
    by_path: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_path.setdefault(piece.path, []).append(piece)
    buckets = []
    for path, its in by_path.items():
        buckets.extend(_assign_path(path, its, small_files(slices.get(path, ()), sizing), sizing))
    return buckets


def profile_inserts(operation: Operation, buckets: Iterable[InsertBucket]) -> CommitMetadata:
    """Return the workload profile of a write that adds rows and changes none."""
    inserts: dict[str, int] = {}
    for bucket in buckets:
        inserts[bucket.path] = inserts.get(bucket.path, 0) + bucket.rows
    return workload_profile(operation, inserts, [])


def small_files(slices: Sequence[FileSlice], sizing: Sizing) -> list[FileSlice]:
    """File slices that take more rows, of those for which no compaction or clustering is pending.

    Of a copy-on-write table they are those with a small base file. Of a merge-on-read table they are those without changes on
    top, which a new base file would hide, the smallest ones first; or, where new rows go to logs, all that have room.
    """
    if sizing.small_file_limit <= 0:
        return []
    slices = [s for s in slices if (s.partition_path, s.file_id) not in sizing.busy]
    settled = [s for s in slices if all(f.base_instant == s.base_instant for f in s.log_files) and _is_base_newest(s)]
    if sizing.log_ratio is not None:
        return [s for s in settled if sizing.bytes_of(s) < sizing.max_file_bytes]
    small = [s for s in settled if s.base_file and s.base_file.size_bytes < sizing.small_file_limit]
    if sizing.candidates is None:
        return small
    return sorted((s for s in small if not s.log_files), key=sizing.bytes_of)[: max(0, sizing.candidates)]


def _is_base_newest(slice_: FileSlice) -> bool:
    return slice_.base_file is None or slice_.base_file.instant == slice_.base_instant


def _assign_path(path: str, pieces: list[Piece], small: list[FileSlice], sizing: Sizing) -> list[InsertBucket]:
    rows = _Taker(pieces)
    buckets = []
    for target in small:
        fits = sizing.room(target)
        if fits and rows.left:
            buckets.append(InsertBucket(path, rows.take(fits), target))
    if rows.left:
        groups = -(-rows.left // sizing.rows_per_group)
        buckets.extend(InsertBucket(path, rows.take(sizing.rows_per_group)) for _ in range(groups))
    return buckets


class _Taker:
    """Hands out rows from the front."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = list(pieces)
        self.left = sum(p.rows for p in pieces)

    def take(self, rows: int) -> tuple[Piece, ...]:
        taken: list[Piece] = []
        while rows > 0 and self._pieces:
            head = self._pieces[0]
            count = min(rows, head.rows)
            taken.append(head.cut(0, count))
            if count == head.rows:
                self._pieces.pop(0)
            else:
                self._pieces[0] = head.cut(count, head.rows - count)
            rows -= count
            self.left -= count
        return tuple(taken)


def sizing_of(table: TableState, options: Options) -> Sizing:
    """File sizes as the options ask for, with the record size that earlier commits had."""
    sizing = Sizing(
        small_file_limit=options[o.SMALL_FILE_LIMIT],
        max_file_bytes=options[o.MAX_FILE_SIZE],
        record_bytes=options[o.RECORD_SIZE_ESTIMATE],
        split_rows=None if options[o.INSERT_AUTO_SPLIT] else options[o.INSERT_SPLIT_SIZE],
        candidates=options[o.SMALL_FILE_CANDIDATES] if table.is_merge_on_read else None,
        log_ratio=insert_ratio(table, options),
        busy=frozenset(pending_clusterings(table)),
    )
    least = options[o.RECORD_SIZE_ESTIMATION_THRESHOLD] * sizing.small_file_limit
    recent = reversed(table.timeline.writes[-_COMMITS_BACK:])
    commits = ((i.action, read_metadata(table.storage, table.base_path, i)) for i in recent)
    return replace(sizing, record_bytes=record_bytes(commits, least, sizing.record_bytes))


def insert_ratio(table: TableState, options: Options) -> float | None:
    """Where new rows go to logs, what bytes of a log count beside those of a base file; None: they go to base files."""
    return options[o.LOG_TO_PARQUET_RATIO] if table.is_merge_on_read and index_of(options).sees_logs else None


def record_bytes(commits: Iterable[tuple[Action, CommitMetadata]], least_bytes: float, estimate: int) -> int:
    """Bytes of a record: from the newest commit that wrote more than `least_bytes`, else the estimate."""
    for action, commit in commits:
        stats = [s for s in commit.stats if action is not Action.DELTA_COMMIT or (s.path or "").endswith(".parquet")]
        size, rows = sum(s.total_write_bytes for s in stats), sum(s.num_writes for s in stats)
        if size > least_bytes and rows > 0:
            return -(-size // rows)
    return max(1, estimate)
