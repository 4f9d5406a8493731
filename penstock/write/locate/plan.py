"""Stage 5 of a write: locates the keys of the staged rows and plans the tasks that write files.

To locate a key is to find the file group that holds its row. The index decides how. An index with buckets (`Index.buckets`)
hashes the key. An index with a key-value store (`Index.store`) looks up the key's entry. The simple and the bloom index read the
keys of base files. With `penstock.index=auto` one of these two is chosen first (`choose_index.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from penstock import options as o
from penstock.filegroup.model import FileSlice
from penstock.index.bucket_hash import Buckets
from penstock.index.entry_store import EntryStore
from penstock.table.damaged_logs import warn_of_skipped_blocks
from penstock.workers.runner import Runner
from penstock.write.context import WriteContext
from penstock.write.locate.assign import assign_pieces
from penstock.write.locate.buckets import plan_bucket_tasks
from penstock.write.locate.choose_index import choose_index
from penstock.write.locate.entries import check_not_clustered, look_up_entries
from penstock.write.locate.file_group_tasks import plan_file_group_tasks
from penstock.write.locate.file_slices import list_write_slices
from penstock.write.locate.moves import relocate_rows
from penstock.write.locate.small_files import read_sizing
from penstock.write.locate.task_plan import TaskPlan
from penstock.write.rows.staging import Piece
from penstock.write.tasks.task import InsertBucket, UpsertRules


def plan_upsert(
    write: WriteContext,
    rules: UpsertRules,
    pieces: Sequence[Piece],
    runner: Runner,
    *,
    locates_all: bool = False,
) -> TaskPlan:
    """Locate the keys of staged rows, and plan the tasks that write the rows. No data file is written yet.

    With `penstock.index=auto` the simple or the bloom index is chosen first, unless the index in the options must be kept.

    Args:
        rules: the settings that all tasks share.
        pieces: where the staged rows are. A piece is consecutive rows of a staged file.
        runner: runs the jobs that locate keys.
        locates_all: whether to locate the keys of all partitions now. Otherwise the task of a small partition locates its own
            keys. If true, rows that move between partitions are not merged with their stored rows. `explain_write` sets it, to
            count rows without writing.
    """
    planner = Planner(write, rules, pieces, runner, locates_all)
    if write.options[o.PENSTOCK_INDEX] == "off":
        return planner.plan_tasks()
    reason = rules.index.reason_to_keep
    if reason is not None:
        return replace(planner.plan_tasks(), why=f"it stays as it is: {reason}")
    slices = planner.list_slices()
    choice = choose_index(write.table.storage, rules.index, count_rows(pieces), slices)
    chosen = replace(planner, rules=replace(rules, index=choice.index))
    return replace(chosen.look_into_slices(slices), why=choice.why)


def plan_inserts(write: WriteContext, pieces: Sequence[Piece], instant: str) -> list[InsertBucket]:
    """Assign the staged rows of an insert to file groups: fill small slices of their partitions, then open new file groups.

    Each returned `InsertBucket` is the rows for one file group, which one task writes. No keys are located.

    Args:
        pieces: where the staged rows are. A piece is consecutive rows of a staged file.
        instant: the instant time of the write.
    """
    partitions = sorted({piece.path for piece in pieces})
    slices = list_write_slices(write.table, partitions, instant=instant, logs_alone=write.index.finds_rows_in_logs)
    return assign_pieces(pieces, slices, read_sizing(write.table, write.options))


def count_rows(pieces: Sequence[Piece]) -> dict[str, int]:
    """Return how many staged rows each partition path has.

    Args:
        pieces: where the staged rows are. A piece is consecutive rows of a staged file, all of one partition path.
    """
    rows_by_path: dict[str, int] = {}
    for piece in pieces:
        rows_by_path[piece.path] = rows_by_path.get(piece.path, 0) + piece.rows
    return rows_by_path


@dataclass(frozen=True)
class Planner:
    """The arguments of `plan_upsert`, and one method for each kind of index that locates the keys and plans the tasks."""

    write: WriteContext
    rules: UpsertRules
    pieces: Sequence[Piece]
    runner: Runner
    locates_all: bool

    def plan_tasks(self) -> TaskPlan:
        """Find the file group of each incoming key with the index of `rules`, and return one task per file group that changes.

        An index with buckets hashes the keys. An index with a key-value store looks up one entry per key. For any other index the
        keys of base files are read. A small partition with at most one file group is one task, which reads the keys itself.
        """
        index = self.rules.index
        if index.buckets is not None:
            return self._hash_into_buckets(index.buckets)
        if index.store is not None:
            return self._look_up_entries(index.store)
        return self.look_into_slices(self.list_slices())

    def look_into_slices(self, slices: dict[str, list[FileSlice]]) -> TaskPlan:
        """Locate the keys by reading the base files of these slices, and plan the tasks.

        With a global index that moves rows, the stored row of an incoming row may be in another partition. If the merger needs
        both rows, they are merged and staged again before the keys are located, unless `locates_all` is set.

        Args:
            slices: the file slices that may hold the keys, by partition path.
        """
        pieces = self.pieces
        if not self.locates_all:
            pieces = relocate_rows(self.rules, pieces, slices, self.write.partition_columns, self.runner)
        return plan_file_group_tasks(
            self.rules, pieces, slices, self.write.settings.operation, self.runner, locates_all=self.locates_all
        )

    def _hash_into_buckets(self, buckets: Buckets) -> TaskPlan:
        """Plan one task for each bucket (file group that the hash of a key selects) that has incoming rows.

        Staging has hashed the keys already.
        """
        # The properties of a table that Hudi wrote may lack the number of buckets. Then tasks check the number in the options
        # against keys of a stored file.
        checks_keys = o.BUCKET_COUNT.key not in self.write.table.config.raw
        slices = self.list_slices()
        return plan_bucket_tasks(self.rules, buckets, self.pieces, slices, self.write.settings.operation, checks_keys=checks_keys)

    def _look_up_entries(self, store: EntryStore) -> TaskPlan:
        """Locate the keys by looking up their entries in the key-value store of the index, and plan the tasks.

        An entry names the partition and the file group of a key. Only the partitions of incoming rows and the partitions that
        entries name are listed. Incoming rows that leave the partition of their stored row are merged with it, if the merger
        needs both rows. Then the entries are looked up a second time, because the rows are staged again with other numbers.

        Raises:
            OptionError: an entry names a file group that a clustering replaced without updating the entries.
        """
        rules = self.rules
        table = self.write.table
        moves = rules.index.moves_rows and not rules.drops_known
        look_up = partial(
            look_up_entries, store, table.timeline, loading=rules.loading, merger=rules.merger, runner=self.runner, moves=moves
        )
        pieces = self.pieces
        answers = look_up(pieces)
        partitions = sorted({piece.path for piece in pieces} | answers.partitions)
        logs_alone = rules.index.finds_rows_in_logs
        slices = list_write_slices(table, partitions, instant=rules.settings.instant, logs_alone=logs_alone)
        rules.index.check_slices(table, slices)
        warn_of_skipped_blocks(table, chain.from_iterable(slices.values()))
        check_not_clustered(table, rules.index, answers, slices)
        if moves and not self.locates_all:
            relocated = relocate_rows(rules, pieces, answers.select_slices(slices), self.write.partition_columns, self.runner)
            if relocated != list(pieces):
                # The results of a lookup refer to rows by number, and rows have other numbers in the relocated pieces.
                pieces = relocated
                answers = look_up(relocated, attempt=1)
        return plan_file_group_tasks(
            rules, pieces, slices, self.write.settings.operation, self.runner, locates_all=self.locates_all, answers=answers
        )

    def list_slices(self) -> dict[str, list[FileSlice]]:
        """Return the file slices that may hold incoming keys, by partition path. Warn of damaged log blocks that are skipped.

        These are the slices of the partitions of incoming rows; with a global index, of all partitions.

        Raises:
            OptionError: the index would not find all rows of these slices, for example because some rows are only in log files.
        """
        rules = self.rules
        table = self.write.table
        partitions = None if rules.index.is_global else sorted({piece.path for piece in self.pieces})
        slices = list_write_slices(table, partitions, instant=rules.settings.instant, logs_alone=True)
        rules.index.check_slices(table, slices)
        warn_of_skipped_blocks(table, chain.from_iterable(slices.values()))
        return slices
