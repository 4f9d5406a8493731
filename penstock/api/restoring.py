"""The verbs of `Table` that go back: savepoints, restores, and the rollback of the newest write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

import pyarrow as pa

from penstock.api.handle import Opened
from penstock.api.report import Column, Commit, Report
from penstock.catalog.savepoints import savepoints
from penstock.door.services import make_stages
from penstock.services.restore import restore
from penstock.services.rollback.requested import roll_back_to
from penstock.services.savepoint import create_savepoint, delete_savepoint
from penstock.timeline.savepoint_file import Savepoint


@dataclass(frozen=True)
class SavepointEntry:
    """A commit whose files stay, so that the table can be restored to it.

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
class Restored:
    """A restore that is done.

    Example:
        >>> saved = table.savepoint()
        >>> _ = table.delete(trips)
        >>> done = table.restore(saved.instant)
        >>> done.to == saved.instant, len(done.instants), done.files_deleted
        (True, 1, 2)
    """

    #: The restore's own time.
    instant: str
    #: The commit that is the newest one now.
    to: str
    #: What was taken back, newest first.
    instants: tuple[str, ...]
    files_deleted: int


class Savepoints(Report[SavepointEntry]):
    """Commits whose files stay, oldest first.

    Example:
        >>> _ = table.savepoint(user="anna", comment="month end")
        >>> [(one.user, one.comment) for one in table.savepoints()]
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


class RestoringVerbs(Opened):
    """What can be done to have an earlier state back."""

    def savepoint(self, instant: str | Commit | None = None, *, user: str = "", comment: str = "") -> SavepointEntry:
        """Keep what a commit needs, so that the table can be restored to it. Others may write and clean meanwhile.

        Args:
            instant: the commit, or its instant; by default the newest.
            user: who makes it, and
            comment: why, for those who read `savepoints()`.

        Raises:
            OptionError: there is no such commit, it has a savepoint already, or files of it were cleaned.
            WriteConflict: a clean that takes files of it was planned at the same moment.

        Example:
            >>> saved = table.savepoint(comment="as delivered")
            >>> saved.instant == table.history()[0].instant
            True
        """
        return _entry(create_savepoint(self._state({}), _time(instant), user=user, comment=comment))

    def delete_savepoint(self, instant: str) -> None:
        """Let go of the files that a savepoint holds; the next clean may delete them.

        Raises:
            OptionError: there is no such savepoint.

        Example:
            >>> table.delete_savepoint(table.savepoint().instant)
            >>> len(table.savepoints())
            0
        """
        delete_savepoint(self._state({}), instant)

    def savepoints(self) -> Savepoints:
        """The savepoints of the table, oldest first.

        Example:
            >>> len(table.savepoints())
            0
        """
        state = self._state()
        return Savepoints([_entry(one) for one in savepoints(state)], state.config.name)

    def restore(self, to: str | SavepointEntry, options: Mapping[str, object] | None = None) -> Restored:
        """Take the table back to a savepoint. What was written later is deleted for good; no other writer may be at work.

        A restore that died is finished by calling it again; until then nobody can write to the table. The savepoint stays.

        Args:
            to: the savepoint, or the instant of its commit.
            options: options by their keys.

        Raises:
            OptionError: there is no such savepoint, a later one is there, or a later commit was archived.
            WriteConflict: somebody writes to the table, or a restore to another commit is not finished.
            CorruptFile: a file that the savepoint holds is missing; nothing was changed.

        Example:
            >>> saved = table.savepoint()
            >>> _ = table.delete(trips.where("id = 'a'"))
            >>> _ = table.restore(saved)
            >>> table.read().count()
            3
        """
        state, spark = self._state(options or {}), self._reader()
        stages = make_stages("restore", state, spark)
        done = restore(spark, state, to.instant if isinstance(to, SavepointEntry) else to, stages)
        return Restored(done.instant, done.plan.to, tuple(one.time for one in done.plan.instants), done.files_deleted)

    def rollback(self, instant: str | Commit) -> str:
        """Undo the newest write, finished or not. No other writer may be at work.

        Args:
            instant: the write, or its instant. An older one is reached write by write, or by a savepoint and `restore`.

        Returns:
            The rollback's own instant.

        Raises:
            OptionError: there is no such write, a later one exists, a savepoint holds it, a clustering that is planned is to
                read what it wrote, or the rows before it were cleaned.

        Example:
            >>> commit = table.delete(trips)
            >>> _ = table.rollback(commit)
            >>> table.read().count()
            3
        """
        return roll_back_to(self._state({}), _time(instant) or "")


def _time(instant: str | Commit | None) -> str | None:
    return instant.instant if isinstance(instant, Commit) else instant


def _entry(savepoint: Savepoint) -> SavepointEntry:
    made = datetime.fromtimestamp(savepoint.made_ms / 1000, timezone.utc)
    files = sum(map(len, savepoint.files.values()))
    return SavepointEntry(savepoint.instant, made, savepoint.user, savepoint.comment, files)
