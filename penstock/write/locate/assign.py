"""Assigns new rows to file groups: small files are filled first, then new groups are opened. Counts only; rows stay staged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.filegroup.model import FileSlice
from penstock.options.operation import Operation
from penstock.timeline.commit_file import CommitMetadata, make_workload_profile
from penstock.write.file_sizing import Sizing
from penstock.write.locate.new_rows import NewRowsResult
from penstock.write.rows.staging import Piece
from penstock.write.tasks.located_rows import NewRowRange
from penstock.write.tasks.task import InsertBucket


@dataclass(frozen=True)
class AssignedRows:
    """New rows of an upsert that go to one file group."""

    partition_path: str
    rows: NewRowRange
    #: The slice that the rows are added to; None: a new file group.
    target: FileSlice | None = None


def assign_new_rows(new_rows: NewRowsResult, slices: Mapping[str, Sequence[FileSlice]], sizing: Sizing) -> list[AssignedRows]:
    """Assign the new rows of an upsert, which are listed in a file."""
    assigned = []
    offset = 0
    for path, rows in new_rows.rows_by_path:
        for target, count in _fill_groups(rows, slices.get(path, ()), sizing):
            assigned.append(AssignedRows(path, NewRowRange(new_rows.file, offset, count), target))
            offset += count
    return assigned


def assign_pieces(pieces: Iterable[Piece], slices: Mapping[str, Sequence[FileSlice]], sizing: Sizing) -> list[InsertBucket]:
    """Assign the staged rows of an insert, whose keys are not looked for."""
    by_path: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_path.setdefault(piece.path, []).append(piece)
    buckets = []
    for path, pieces_of_path in by_path.items():
        remaining = _RemainingPieces(pieces_of_path)
        total = sum(piece.rows for piece in pieces_of_path)
        for target, count in _fill_groups(total, slices.get(path, ()), sizing):
            buckets.append(InsertBucket(path, remaining.take(count), target))
    return buckets


def profile_inserts(operation: Operation, buckets: Iterable[InsertBucket]) -> CommitMetadata:
    """Return the workload profile of a write that adds rows and changes none."""
    inserts: dict[str, int] = {}
    for bucket in buckets:
        inserts[bucket.partition_path] = inserts.get(bucket.partition_path, 0) + bucket.rows
    return make_workload_profile(operation, inserts, [])


def _fill_groups(rows: int, slices: Sequence[FileSlice], sizing: Sizing) -> list[tuple[FileSlice | None, int]]:
    """Return how many rows each small slice of a partition gets, and then each new file group (None)."""
    groups: list[tuple[FileSlice | None, int]] = []
    left = rows
    for target in sizing.find_small_slices(slices):
        count = min(sizing.count_rows_that_fit(target), left)
        if count:
            groups.append((target, count))
            left -= count
    while left > 0:
        count = min(sizing.rows_per_group, left)
        groups.append((None, count))
        left -= count
    return groups


class _RemainingPieces:
    """Pieces from which rows are taken from the front."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = list(pieces)

    def take(self, rows: int) -> tuple[Piece, ...]:
        """Return the next rows. A piece is cut where they end within it."""
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
        return tuple(taken)
