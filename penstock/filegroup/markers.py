"""Markers: every data file is announced before it is created, so that whatever a dead writer left can be found.

A marker is an empty file `.hoodie/.temp/<instant>/<partition>/<file name>.marker.<CREATE|MERGE|APPEND>`. Before a commit
is published, files that have a marker but no write stat (of tasks that were retried or ran twice) are removed. The
folder is sealed first: a task that is still running after that cannot publish a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from penstock.errors import AlreadyExists, StorageError
from penstock.storage import Storage, join, walk
from penstock.timeline.store import FOLDER

TEMP = ".temp"
#: No folder of a partition can have this name.
SEAL = ".hoodie_sealed"
_INFIX = ".marker."


class MarkerType(str, Enum):
    """What is about to happen to the file."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


@dataclass(frozen=True)
class Marker:
    """A data file, relative to the table's base path, and what was to be done to it."""

    file_path: str
    kind: MarkerType


def markers_folder(base_path: str, instant: str) -> str:
    """Where the markers of a write are."""
    return join(base_path, FOLDER, TEMP, instant)


def create_marker(storage: Storage, base_path: str, instant: str, file_path: str, kind: MarkerType) -> None:
    """Announce a data file. Raises StorageError if the write has been sealed."""
    folder = markers_folder(base_path, instant)
    try:
        storage.create(join(folder, f"{file_path}{_INFIX}{kind.value}")).close()
    except AlreadyExists:
        raise AlreadyExists(f"another attempt of this task announced the same file: {file_path}") from None
    check_open(storage, base_path, instant)


def seal(storage: Storage, base_path: str, instant: str) -> None:
    """From now on no task may add files to this write."""
    storage.replace(join(markers_folder(base_path, instant), SEAL), b"")


def check_open(storage: Storage, base_path: str, instant: str) -> None:
    """Raises StorageError if the write has been sealed: this task is a leftover whose work is not wanted."""
    if storage.stat(join(markers_folder(base_path, instant), SEAL)) is not None:
        raise StorageError(f"write {instant} was finished without this attempt of a task; its files are not wanted")


def read_markers(storage: Storage, base_path: str, instant: str) -> list[Marker]:
    """All markers of a write, one file each or collected by a timeline server."""
    folder = markers_folder(base_path, instant)
    found = []
    for file in walk(storage, folder):
        relative = file.path[len(folder) + 1 :]
        if _INFIX in relative:
            found.append(_parse(relative))
        elif relative.startswith("MARKERS") and relative != "MARKERS.type":
            lines = storage.read(file.path).decode().splitlines()
            found.extend(_parse(line.strip()) for line in lines if _INFIX in line)
    return found


def _parse(text: str) -> Marker:
    file_path, _, kind = text.rpartition(_INFIX)
    return Marker(file_path, MarkerType(kind))


def reconcile(storage: Storage, base_path: str, instant: str, written: Iterable[str]) -> list[str]:
    """Remove base files that were announced but are not among those written; gives what was removed."""
    wanted = set(written)
    strays = {
        m.file_path
        for m in read_markers(storage, base_path, instant)
        if m.kind is not MarkerType.APPEND and m.file_path not in wanted
    }
    return [path for path in sorted(strays) if storage.delete(join(base_path, path))]


def delete_markers(storage: Storage, base_path: str, instant: str) -> None:
    """Forget a finished write's markers, and whatever else it kept beside them."""
    storage.delete_tree(markers_folder(base_path, instant))
