"""Savepoints: files that stay as long as somebody says so."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import CorruptFile
from penstock.formats.avro import read_container
from penstock.table import TableState
from penstock.timeline.instant import Action, State
from penstock.timeline.store import instant_path


def savepoint_times(table: TableState) -> tuple[str, ...]:
    """The times of commits that have a savepoint, oldest first."""
    return tuple(i.time for i in table.timeline.of(Action.SAVEPOINT, state=State.COMPLETED))


def savepointed_files(table: TableState) -> Mapping[str, frozenset[str]]:
    """The names of files that savepoints hold, by partition path.

    Raises:
        CorruptFile: a savepoint cannot be read, so that nobody knows what it holds.
    """
    found: dict[str, set[str]] = {}
    for instant in table.timeline.of(Action.SAVEPOINT, state=State.COMPLETED):
        path = instant_path(table.base_path, instant)
        try:
            partitions = read_container(table.storage.read(path))["partitionMetadata"]
            for partition in partitions.values():
                found.setdefault(partition["partitionPath"], set()).update(partition["savepointDataFile"])
        except (CorruptFile, KeyError, TypeError, AttributeError) as e:
            raise CorruptFile(
                f"savepoint {path} does not say which files it holds ({e}); restore it from a copy, or delete the savepoint"
            ) from e
    return {path: frozenset(names) for path, names in found.items()}
