"""The methods of `Table` for savepoints, restore and rollback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

import pyarrow as pa

from penstock.api.handle import TableHandle
from penstock.api.report import Column, Commit, Report
from penstock.door.services import run_service
from penstock.report_table import HtmlFields
from penstock.services.restore import restore
from penstock.services.rollback.requested import roll_back_to
from penstock.services.savepoint import create_savepoint, delete_savepoint
from penstock.table.savepoints import read_savepoints
from penstock.timeline.savepoint_file import Savepoint


@dataclass(frozen=True)
class SavepointEntry(HtmlFields):
    """A savepoint: a commit whose files are kept, so that the table can be restored to it.

    Example:
        >>> table.savepoint(comment="before the cleanup").files
        2
    """

    instant: str
    #: When the savepoint was made, in UTC.
    made: datetime
    user: str
    comment: str
    files: int


@dataclass(frozen=True)
class Restored(HtmlFields):
    """The result of a restore: what it removed from the table.

    Example:
        >>> saved = table.savepoint()
        >>> _ = table.delete(trips)
        >>> done = table.restore(saved.instant)
        >>> done.to == saved.instant, len(done.instants), done.files_deleted
        (True, 1, 2)
    """

    #: The instant of the restore itself.
    instant: str
    #: The commit that the table was restored to.
    to: str
    #: The instants that were removed, newest first.
    instants: tuple[str, ...]
    files_deleted: int


class Savepoints(Report[SavepointEntry]):
    """The savepoints of a table, oldest first. `Table.savepoints` returns it.

    Example:
        >>> _ = table.savepoint(user="anna", comment="month end")
        >>> [(savepoint.user, savepoint.comment) for savepoint in table.savepoints()]
        [('anna', 'month end')]
    """

    title = "Savepoints"
    columns = (
        Column("instant", lambda s: str(s.instant)),
        Column("made", lambda s: f"{s.made:%Y-%m-%d %H:%M:%S}"),
        Column("user", lambda s: str(s.user)),
        Column("files", lambda s: f"{s.files:,}", right=True),
        Column("comment", lambda s: str(s.comment)),
    )
    schema = pa.schema(
        [
            ("instant", pa.string()),
            ("made", pa.timestamp("ms", "UTC")),
            ("user", pa.string()),
            ("comment", pa.string()),
            ("files", pa.int64()),
        ]
    )


class RestoreMethods(TableHandle):
    """The methods of `Table` for savepoints (protected commits), restore to a savepoint, and rollback of the newest write."""

    def savepoint(self, instant: str | Commit | None = None, *, user: str = "", comment: str = "") -> SavepointEntry:
        """Protect the files of a commit from cleaning, so that the table can be restored to it.

        Other processes may write and clean.

        Args:
            instant: the commit, or its instant; None: the newest commit.
            user: the author of the savepoint, as `savepoints()` shows it.
            comment: the reason for the savepoint, as `savepoints()` shows it.

        Returns:
            The savepoint.

        Raises:
            OptionError: there is no such commit, it already has a savepoint, or some of its files were cleaned.
            WriteConflict: a clean that deletes files of the commit was planned at the same time.

        Example:
            >>> saved = table.savepoint(comment="as delivered")
            >>> saved.instant == table.history()[0].instant
            True
        """
        return _describe_savepoint(create_savepoint(self._state({}), _time(instant), user=user, comment=comment))

    def delete_savepoint(self, instant: str) -> None:
        """Delete a savepoint. The next clean may delete the files that the savepoint protected.

        Args:
            instant: the instant of the commit that has the savepoint.

        Raises:
            OptionError: the commit of this instant has no savepoint.

        Example:
            >>> table.delete_savepoint(table.savepoint().instant)
            >>> len(table.savepoints())
            0
        """
        delete_savepoint(self._state({}), instant)

    def savepoints(self) -> Savepoints:
        """Return the savepoints of the table, oldest first.

        Example:
            >>> len(table.savepoints())
            0
        """
        state = self._state()
        return Savepoints([_describe_savepoint(savepoint) for savepoint in read_savepoints(state)], state.config.name)

    def restore(self, to: str | SavepointEntry, options: Mapping[str, object] | None = None) -> Restored:
        """Restore the table to a savepoint. Everything written later is deleted permanently. No other process may write.

        To finish a restore that died, call it again; until then every write is refused. The savepoint stays.

        Args:
            to: the savepoint, or the instant of its commit.
            options: options by their keys.

        Returns:
            The instants that were removed, and how many files were deleted.

        Raises:
            OptionError: there is no such savepoint, a later savepoint exists, or a later commit was archived.
            WriteConflict: another process writes to the table, or a restore to another commit is not finished.
            CorruptFile: a file of the savepoint is missing; nothing was changed.

        Example:
            >>> saved = table.savepoint()
            >>> _ = table.delete(trips.where("id = 'a'"))
            >>> _ = table.restore(saved)
            >>> table.read().count()
            3
        """
        state = self._state(options or {})
        spark = self._reader()
        with run_service("restore", state, spark) as stages:
            done = restore(spark, state, to.instant if isinstance(to, SavepointEntry) else to, stages)
        return Restored(done.instant, done.plan.to, tuple(instant.time for instant in done.plan.instants), done.files_deleted)

    def rollback(self, instant: str | Commit) -> str:
        """Undo the newest write, completed or not. No other process may write.

        Args:
            instant: the commit of the newest write, or its instant. To undo an older write, undo the later ones first, or restore
                a savepoint.

        Returns:
            The instant of the rollback itself.

        Raises:
            OptionError: there is no such write, a later write exists, the write has a savepoint, a pending clustering or
                compaction will read its files, or the file versions before it were cleaned.

        Example:
            >>> commit = table.delete(trips)
            >>> _ = table.rollback(commit)
            >>> table.read().count()
            3
        """
        state = self._state({})
        with run_service("rollback", state, None):
            return roll_back_to(state, _time(instant) or "")


def _time(instant: str | Commit | None) -> str | None:
    """Return the instant that a caller passed as a `Commit` or as a string; None for None."""
    return instant.instant if isinstance(instant, Commit) else instant


def _describe_savepoint(savepoint: Savepoint) -> SavepointEntry:
    """Return a savepoint as an entry of `Savepoints`."""
    made = datetime.fromtimestamp(savepoint.made_ms / 1000, timezone.utc)
    files = sum(map(len, savepoint.files.values()))
    return SavepointEntry(savepoint.instant, made, savepoint.user, savepoint.comment, files)
