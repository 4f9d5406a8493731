"""Reads the savepoints of a table, with the data files that a clean must not delete because of them; and completed restores."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from penstock.errors import CorruptFile
from penstock.table.state import TableState
from penstock.timeline.instant import Action, State
from penstock.timeline.restore_file import read_restore_plan
from penstock.timeline.savepoint_file import Savepoint, read_savepoint
from penstock.timeline.store import instant_path


def list_savepoint_times(table: TableState) -> tuple[str, ...]:
    """Return the instant times of the commits that have a completed savepoint, oldest first."""
    return tuple(i.time for i in table.timeline.filter(Action.SAVEPOINT, state=State.COMPLETED))


def read_savepoints(table: TableState) -> list[Savepoint]:
    """Read all completed savepoints; return them oldest first.

    Raises:
        CorruptFile: a savepoint cannot be read, so it is unknown which data files it keeps.
    """
    savepoints = []
    for instant in table.timeline.filter(Action.SAVEPOINT, state=State.COMPLETED):
        path = instant_path(table.base_path, instant)
        savepoints.append(read_savepoint(table.storage.read(path), instant.time, path))
    return savepoints


def list_savepointed_files(table: TableState) -> Mapping[str, frozenset[str]]:
    """Return the names of the data files that a clean must not delete because a savepoint needs them, by partition path.

    Raises:
        CorruptFile: a savepoint cannot be read.
    """
    names_by_path: dict[str, set[str]] = {}
    for savepoint in read_savepoints(table):
        for path, names in savepoint.files.items():
            names_by_path.setdefault(path, set()).update(names)
    return {path: frozenset(names) for path, names in names_by_path.items()}


def list_finished_restores(table: TableState) -> list[tuple[str, str]]:
    """Return a pair per completed restore, oldest first: (instant time of the commit restored to, instant time of the restore).

    Commits with times between the two are no longer part of the table. A restore whose plan cannot be read is left out.
    """
    restores = []
    for instant in table.timeline.filter(Action.RESTORE, state=State.COMPLETED):
        path = instant_path(table.base_path, instant.in_state(State.REQUESTED))
        with suppress(CorruptFile, FileNotFoundError):
            plan = read_restore_plan(table.storage.read(path), path)
            restores.append((plan.to, instant.time))
    return restores
