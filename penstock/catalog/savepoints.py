"""Savepoints: files that stay as long as somebody says so; and what was deleted by going back to one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from penstock.errors import CorruptFile
from penstock.table import TableState
from penstock.timeline.instant import Action, State
from penstock.timeline.restore_file import read_restore_plan
from penstock.timeline.savepoint_file import Savepoint, read_savepoint
from penstock.timeline.store import instant_path


def list_savepoint_times(table: TableState) -> tuple[str, ...]:
    """The times of commits that have a savepoint, oldest first."""
    return tuple(i.time for i in table.timeline.filter(Action.SAVEPOINT, state=State.COMPLETED))


def read_savepoints(table: TableState) -> list[Savepoint]:
    """All savepoints, oldest first.

    Raises:
        CorruptFile: a savepoint cannot be read, so that nobody knows what it holds.
    """
    found = []
    for instant in table.timeline.filter(Action.SAVEPOINT, state=State.COMPLETED):
        path = instant_path(table.base_path, instant)
        found.append(read_savepoint(table.storage.read(path), instant.time, path))
    return found


def list_savepointed_files(table: TableState) -> Mapping[str, frozenset[str]]:
    """The names of files that savepoints hold, by partition path. Raises CorruptFile."""
    found: dict[str, set[str]] = {}
    for one in read_savepoints(table):
        for path, names in one.files.items():
            found.setdefault(path, set()).update(names)
    return {path: frozenset(names) for path, names in found.items()}


def list_finished_restores(table: TableState) -> list[tuple[str, str]]:
    """The commit that each restore went back to, and the restore's own time: nothing that was written between is there."""
    found = []
    for instant in table.timeline.filter(Action.RESTORE, state=State.COMPLETED):
        path = instant_path(table.base_path, instant.in_state(State.REQUESTED))
        with suppress(CorruptFile, FileNotFoundError):
            found.append((read_restore_plan(table.storage.read(path), path).to, instant.time))
    return found
