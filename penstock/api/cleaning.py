"""The methods of `Table` that clean and archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.api.handle import TableHandle
from penstock.door.services import run_service
from penstock.options import check_combinations
from penstock.report_table import HtmlFields
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.timeline.clean_file import CleanResult


@dataclass(frozen=True)
class Cleaned(HtmlFields):
    """The result of a clean: how many old files it deleted.

    Example:
        >>> for _ in range(2):
        ...     _ = table.upsert(trips)
        >>> done = table.clean({"hoodie.cleaner.commits.retained": 1})
        >>> done.files_deleted, done.earliest == table.history(2)[1].instant
        (2, True)
    """

    instant: str
    files_deleted: int
    #: Files that were missing, or could not be deleted.
    files_failed: int
    partitions_deleted: int
    #: The earliest commit that can be read in full; empty under KEEP_LATEST_FILE_VERSIONS.
    earliest: str


class CleaningMethods(TableHandle):
    """The methods of `Table` that clean old file versions and archive old instants."""

    def clean(self, options: Mapping[str, object] | None = None) -> Cleaned | None:
        """Delete old file versions that the options do not retain. Other processes may read and write at the same time.

        Every write cleans, unless `hoodie.clean.automatic` is false. A clean that died is finished first.

        Args:
            options: options by their keys, for example `hoodie.cleaner.commits.retained`.

        Returns:
            The result of the last clean that ran; None if there was nothing to delete. A clean that died and was finished
                counts, too.

        Raises:
            OptionError: options contradict each other.
            CorruptFile: a savepoint or a plan cannot be read, so it is unknown which files must be kept.

        Example:
            >>> for fare in (2, 3):
            ...     _ = table.upsert(trips.selectExpr("id", "city", f"ts + {fare} as ts", f"double({fare}) as fare"))
            >>> table.clean({"hoodie.cleaner.commits.retained": 1}).files_deleted
            2
            >>> table.clean() is None
            True
        """
        state = self._state(options or {})
        spark = self._reader()
        check_combinations(state.options)
        with run_service("clean", state, spark) as stages:
            done = clean(spark, state, stages, due=True)
        return _cleaned(done[-1]) if done else None

    def archive(self, options: Mapping[str, object] | None = None) -> int:
        """Move old instants from the active timeline to the archive, so that loading the timeline stays fast.

        Every write archives, unless `hoodie.archive.automatic` is false.

        Args:
            options: options by their keys, for example `hoodie.keep.min.commits` and `hoodie.keep.max.commits`.

        Returns:
            The number of archived instants.

        Raises:
            OptionError: options contradict each other.
            CorruptFile: the file of an instant cannot be read; nothing was removed.

        Example:
            >>> keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
            >>> for _ in range(4):
            ...     _ = table.upsert(trips)
            >>> table.archive(keep), len(table.history())
            (3, 2)
        """
        state = self._state(options or {})
        check_combinations(state.options)
        with run_service("archive", state, None) as stages:
            done = archive(state, stages)
        return len(done.instants) if done else 0


def _cleaned(result: CleanResult) -> Cleaned:
    """Add up the counts of a clean over all partitions, and return them as the result of `Table.clean`."""
    partitions = result.partitions.values()
    return Cleaned(
        instant=result.instant,
        files_deleted=result.files_deleted,
        files_failed=sum(len(partition.failed) for partition in partitions),
        partitions_deleted=sum(partition.is_gone for partition in partitions),
        earliest=result.earliest,
    )
