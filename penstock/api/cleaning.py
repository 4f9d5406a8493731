"""The verbs of `Table` that keep it small: old file versions are deleted, old instants archived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.api.handle import Opened
from penstock.door.services import make_stages
from penstock.options import check_combinations
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.timeline.clean_file import CleanResult


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


class CleaningVerbs(Opened):
    """What can be done about what is old."""

    def clean(self, options: Mapping[str, object] | None = None) -> Cleaned | None:
        """Delete file versions that no reader may ask for any more. Others may write and read meanwhile.

        Every write does so by itself, unless `hoodie.clean.automatic` is false. A clean that died is finished first.

        Args:
            options: what is kept, such as `hoodie.cleaner.commits.retained`, by their keys.

        Returns:
            What the last clean did; None if there was nothing to delete.

        Raises:
            OptionError: options contradict each other.
            CorruptFile: a savepoint or a plan cannot be read, so that nobody knows what has to stay.

        Example:
            >>> for fare in (2, 3):
            ...     _ = table.upsert(trips.selectExpr("id", "city", f"ts + {fare} as ts", f"double({fare}) as fare"))
            >>> table.clean({"hoodie.cleaner.commits.retained": 1}).files_deleted
            2
            >>> table.clean() is None
            True
        """
        state, spark = self._state(options or {}), self._reader()
        check_combinations(state.options)
        stages = make_stages("clean", state, spark)
        done = clean(spark, state, stages, due=True)
        return _cleaned(done[-1]) if done else None

    def archive(self, options: Mapping[str, object] | None = None) -> int:
        """Move old instants from the timeline to the archive, so that reading the timeline stays quick.

        Every write does so by itself, unless `hoodie.archive.automatic` is false.

        Args:
            options: how many instants stay, `hoodie.keep.min.commits` and `hoodie.keep.max.commits`, by their keys.

        Returns:
            How many instants were archived.

        Raises:
            OptionError: options contradict each other.
            CorruptFile: an instant's file cannot be read; nothing was removed.

        Example:
            >>> keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
            >>> for _ in range(4):
            ...     _ = table.upsert(trips)
            >>> table.archive(keep), len(table.history())
            (3, 2)
        """
        state = self._state(options or {})
        check_combinations(state.options)
        done = archive(state, make_stages("archive", state, None))
        return len(done.instants) if done else 0


def _cleaned(result: CleanResult) -> Cleaned:
    parts = result.partitions.values()
    return Cleaned(
        instant=result.instant,
        files_deleted=result.files_deleted,
        files_failed=sum(len(one.failed) for one in parts),
        partitions_deleted=sum(one.is_gone for one in parts),
        earliest=result.earliest,
    )
