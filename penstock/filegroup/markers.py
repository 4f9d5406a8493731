"""Markers: every data file is announced before it is created, so that whatever a dead writer left can be found.

A marker is an empty file `.hoodie/.temp/<instant>/<partition>/<file name>.marker.<CREATE|MERGE|APPEND>`. Older releases of
Hudi take every file in that folder for a marker when they roll a write back, so what else a write keeps is beside it, in
`.hoodie/.temp/penstock-<instant>`: staged rows, and a file that says the write is open. A task may publish files only while
that file is there. Before a commit it is removed (the write is sealed), and then the files that have a marker but no write
stat, of tasks that were retried or ran twice. A task that comes later finds the write sealed, however late it comes, because
nothing ever opens it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from penstock.errors import AlreadyExists, StorageError
from penstock.storage import Storage, join, walk
from penstock.timeline.store import FOLDER

TEMP = ".temp"
#: Before the instant, in the name of the folder that holds what a write keeps beside its markers.
WORK_PREFIX = "penstock-"
_OPEN = "open"
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
    """Where the markers of a write are, and nothing else."""
    return join(base_path, FOLDER, TEMP, instant)


def work_folder(base_path: str, instant: str) -> str:
    """Where a write keeps what is not a marker, until it is finished."""
    return join(base_path, FOLDER, TEMP, f"{WORK_PREFIX}{instant}")


def open_write(storage: Storage, base_path: str, instant: str) -> None:
    """From now on tasks may add files to this write."""
    storage.create(_open_path(base_path, instant)).close()


def seal(storage: Storage, base_path: str, instant: str) -> bool:
    """From now on no task may add files to this write; False if it was sealed before, or is not one of ours."""
    return storage.delete(_open_path(base_path, instant))


def check_open(storage: Storage, base_path: str, instant: str) -> None:
    """Raises StorageError if the write has been sealed: this task is a leftover whose work is not wanted."""
    if storage.stat(_open_path(base_path, instant)) is None:
        raise StorageError(
            f"write {instant} is closed: it was finished without this attempt of a task, or another writer rolled it back"
        )


def _open_path(base_path: str, instant: str) -> str:
    return join(work_folder(base_path, instant), _OPEN)


def create_marker(storage: Storage, base_path: str, instant: str, file_path: str, kind: MarkerType) -> None:
    """Announce a data file. Raises StorageError if the write has been sealed."""
    try:
        storage.create(join(markers_folder(base_path, instant), f"{file_path}{_INFIX}{kind.value}")).close()
    except AlreadyExists:
        raise AlreadyExists(f"another attempt of this task announced the same file: {file_path}") from None
    check_open(storage, base_path, instant)  # afterwards: a marker made while the write was open is seen by who sealed it


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
    storage.delete_tree(work_folder(base_path, instant))
