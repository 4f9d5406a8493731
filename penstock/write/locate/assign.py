"""Assigns new rows to file groups: small file slices are filled first, then new file groups are opened.

This runs on the driver and works with row counts only. The rows themselves stay in the staged files (Arrow files to which the
write has saved its incoming rows).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.filegroup.model import FileSlice
from penstock.options.operation import Operation
from penstock.timeline.commit_file import CommitMetadata, make_workload_profile
from penstock.write.locate.new_rows import NewRowsResult
from penstock.write.locate.small_files import Sizing
from penstock.write.rows.staging import Piece
from penstock.write.tasks.located_rows import NewRowRange
from penstock.write.tasks.task import InsertBucket


@dataclass(frozen=True)
class AssignedRows:
    """Some new rows of an upsert, all of one partition path, and the file group to which they will be written."""

    partition_path: str
    rows: NewRowRange
    #: The slice that the rows are added to; None: a new file group.
    target: FileSlice | None = None


def assign_new_rows(new_rows: NewRowsResult, slices: Mapping[str, Sequence[FileSlice]], sizing: Sizing) -> list[AssignedRows]:
    """Assign the new rows of an upsert to file groups: fill small slices first, then open new file groups.

    Each returned item is one part of the rows with its file group. If an existing file group also gets changes, the task that
    changes it writes these rows too; otherwise they are a task of their own.

    Args:
        new_rows: names the Arrow file that lists the numbers of the new rows, and says how many each partition path has.
        slices: the file slices of each partition path.
        sizing: the limits that decide how many rows a file group takes.
    """
    assigned = []
    offset = 0
    for path, rows in new_rows.rows_by_path:
        for target, count in _fill_groups(rows, slices.get(path, ()), sizing):
            assigned.append(AssignedRows(path, NewRowRange(new_rows.file, offset, count), target))
            offset += count
    return assigned


def assign_pieces(pieces: Iterable[Piece], slices: Mapping[str, Sequence[FileSlice]], sizing: Sizing) -> list[InsertBucket]:
    """Assign the staged rows of an insert to file groups: fill small slices first, then open new file groups.

    Each returned `InsertBucket` is the rows for one file group.

    Args:
        pieces: where the staged rows are. A piece is consecutive rows of one partition path in a staged file.
        slices: the file slices of each partition path. Without slices all rows go to new file groups.
        sizing: the limits that decide how many rows a file group takes.
    """
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
    """Return the workload profile that the inflight file of an insert records: new rows per partition path, and no updates."""
    inserts: dict[str, int] = {}
    for bucket in buckets:
        inserts[bucket.partition_path] = inserts.get(bucket.partition_path, 0) + bucket.rows
    return make_workload_profile(operation, inserts, [])


def _fill_groups(rows: int, slices: Sequence[FileSlice], sizing: Sizing) -> list[tuple[FileSlice | None, int]]:
    """Split the new rows of one partition over file groups. Return pairs: (slice to fill, how many rows it gets).

    Small slices of the partition come first, filled up to the maximum file size. Pairs with None instead of a slice follow: each
    stands for one new file group.

    Args:
        rows: how many new rows the partition gets.
        slices: the file slices of the partition.
    """
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
    """The staged rows of one partition path that are not assigned to a file group yet, as a queue of pieces.

    A piece is consecutive rows of a staged file.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = list(pieces)

    def take(self, rows: int) -> tuple[Piece, ...]:
        """Remove the next `rows` rows from the queue and return them as pieces (consecutive rows of a staged file).

        If the last piece has more rows than needed, it is cut in two.
        """
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
