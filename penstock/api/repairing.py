"""The method of `Table` that repairs damaged log files, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock import options as o
from penstock.api.handle import TableHandle
from penstock.api.report import Column, Commit, Report, number, size
from penstock.door.services import run_service
from penstock.services.repair import DamagedGroup, find_damaged_groups, repair_logs


class Repaired(Report[DamagedGroup]):
    """The file groups whose log files were damaged, and what is lost with the damaged blocks. `Table.repair` returns it.

    `commits` lists the compactions that repaired the file groups. It is empty if nothing was damaged, and after a dry run.

    Example:
        >>> repaired = mor.repair()
        >>> len(repaired), repaired.commits
        (0, ())
    """

    title = "Damaged log files"
    columns = (
        Column("partition", lambda g: str(g.partition_path)),
        Column("file group", lambda g: str(g.file_id)),
        Column("damaged blocks", number("damaged_blocks"), right=True),
        Column("size", size("damaged_bytes"), right=True),
        Column("rows lost", lambda g: "unknown" if g.lost_rows is None else f"up to {g.lost_rows:,}", right=True),
        Column("torn blocks", number("torn_blocks"), right=True),
    )
    schema = pa.schema(
        [
            ("partition_path", pa.string()),
            ("file_id", pa.string()),
            ("damaged_blocks", pa.int64()),
            ("damaged_bytes", pa.int64()),
            ("lost_rows", pa.int64()),
            ("torn_blocks", pa.int64()),
            ("problem", pa.string()),
        ]
    )

    def __init__(self, entries: Sequence[DamagedGroup], about: str, commits: Sequence[Commit] = ()) -> None:
        super().__init__(entries, about)
        self.commits = tuple(commits)


class RepairMethods(TableHandle):
    """The method of `Table` that repairs damaged log files."""

    def repair(self, *, dry_run: bool = False, options: Mapping[str, object] | None = None) -> Repaired:
        """Compact the file groups whose log files are damaged, without the blocks that cannot be read.

        Rows and deletes in damaged blocks are lost. If there is a copy of the log files, restore it instead. Writes that died are
        rolled back first. Torn blocks that such writes left are removed too; nothing is lost with them. The damaged files stay in
        their old file slices until they are cleaned. Base files are not repaired.

        Args:
            dry_run: True to list the damage and change nothing.
            options: options by their keys.

        Returns:
            The file groups that had damaged or torn blocks, with what is lost, and the commits of the compactions.

        Raises:
            WriteConflict: another process writes to the table, or runs a plan that names a damaged file group.

        Example:
            >>> mor.repair(dry_run=True)
            Damaged log files of ...
        """
        given = {**(options or {}), o.SKIP_DAMAGED_BLOCKS.key: "true"}
        state = self._state(given)
        if dry_run or not state.is_merge_on_read:
            return Repaired(find_damaged_groups(state), state.config.name)
        spark = self._reader()
        with run_service("repair", state, spark) as stages:
            found, done = repair_logs(spark, state, stages)
        return Repaired(found, state.config.name, [Commit.of(commit.instant, commit.metadata) for commit in done])
