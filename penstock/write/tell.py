"""Behind stage 6: an index that keeps entries is told which keys are new, before the commit, and which are gone, after it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from penstock import options as o
from penstock.catalog.listing import latest_slices, merged_slices
from penstock.catalog.slice_keys import read_keys
from penstock.errors import OptionError
from penstock.filegroup.key_changes import KeyChange
from penstock.index import Index
from penstock.index.entry_store import TellTask, put_entries, remove_entries, share_rate, tell_tasks
from penstock.index.hbase import HBaseSettings, open_entries
from penstock.spread.driver import fits_on_driver
from penstock.spread.runner import Runner
from penstock.spread.session import count_cores
from penstock.table import TableState
from penstock.timeline.commit_file import WriteStat
from penstock.write.locate.index_change import added_by_another

#: Tasks that run at once on the driver.
_AT_ONCE_HERE = 4


def check_entries(index: Index, table: TableState) -> None:
    """See that the index is there and belongs to the table, before anything is written.

    Raises:
        OptionError: its table is not there, has no family for it, or the client is not installed; or it has no entry at all, or
            was not told of the newest rows, while the table has rows.
        StorageError: nobody answers.
    """
    if index.entries is None:
        return
    with open_entries(index.entries) as entries:
        entries.check()
        is_empty = bool(table.timeline.writes) and entries.is_empty()
    if is_empty and _has_rows(table):
        raise OptionError(
            f"{o.INDEX_TYPE.key}=HBASE finds no entry in HBase's table {index.entries.table}, but {table.base_path} has rows, "
            f"which would be written twice. Set {o.HBASE_TABLE.key} to the table that holds its entries, or use the index that "
            "the table was written with"
        )
    added = added_by_another(table, index.name)
    if added is not None and _has_rows(table):
        raise OptionError(
            f"{o.INDEX_TYPE.key}=HBASE was not told of rows that write {added[0]} of {table.base_path} added or moved with "
            f"{o.INDEX_TYPE.key}={added[1]}: they would be written twice. Use GLOBAL_SIMPLE or GLOBAL_BLOOM from now on, or "
            "write the rows to a new table"
        )


def _has_rows(table: TableState) -> bool:
    slices = (merged_slices if table.is_merge_on_read else latest_slices)(table)
    return any(len(part) for its in slices.values() for slice_ in its for part in read_keys(table, slice_))


@dataclass(frozen=True)
class Telling:
    """What tells the index about one write."""

    spark: SparkSession
    table: TableState
    index: Index
    commit: str

    def of_added(self, stats: Sequence[WriteStat]) -> int:
        """Put the entries of keys that are new; gives how many."""
        if self.index.entries is None:
            return 0
        timeline = self.table.timeline if self.index.moves else None
        here = fits_on_driver(self.table.options, rows=sum(stat.num_inserts for stat in stats))
        tasks = self._tasks(self.index.entries, stats, KeyChange.ADDED, timeline)
        at_once = _AT_ONCE_HERE if here else count_cores(self.spark.conf) or len(tasks)
        if tasks and self.index.entries.auto_rate is not None:
            settings = share_rate(self.index.entries, min(len(tasks), at_once))
            tasks = self._tasks(settings, stats, KeyChange.ADDED, timeline)
        return self._run(put_entries, tasks, here=here)

    def of_removed(self, stats: Sequence[WriteStat]) -> int:
        """Remove the entries of keys that are gone, now that the commit stands; an error is a warning by now."""
        if self.index.entries is None:
            return 0
        here = fits_on_driver(self.table.options, rows=sum(stat.num_deletes for stat in stats))
        try:
            return self._run(remove_entries, self._tasks(self.index.entries, stats, KeyChange.REMOVED), here=here)
        except Exception as e:  # whatever it is, the commit stands
            text = f"the write is done, but entries of keys that it deleted stay in the index, which does no harm: {e}"
            warnings.warn(text, RuntimeWarning, stacklevel=4)
            return 0

    def _tasks(self, settings: HBaseSettings, stats: Sequence[WriteStat], note: KeyChange, *more: Any) -> list[TellTask]:
        return tell_tasks(settings, self.table.storage, self.table.base_path, self.commit, stats, note, *more)

    def _run(self, kernel: Callable[[TellTask], int], tasks: Sequence[TellTask], *, here: bool) -> int:
        return sum(Runner(self.spark, on_driver=here).run(kernel, tasks, int))
