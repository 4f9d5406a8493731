"""Markers: every data file is announced before it is created, so that whatever a dead writer left can be found.

A marker says `<partition>/<file name>.marker.<CREATE|MERGE|APPEND>`. It is an empty file of that name below
`.hoodie/.temp/<instant>` (`DIRECT`), or a line of a file `MARKERS<number>` there, which announces many files at once
(`TIMELINE_SERVER_BASED`, after who keeps such files for Hudi; `MARKERS.type` says so). Older releases of Hudi take every
other file in that folder for a marker when they roll a write back, so what else a write keeps is beside it, in
`.hoodie/.temp/penstock-<instant>`: staged rows, and a file that says the write is open. A task may publish files only while
that file is there. Before a commit it is removed (the write is sealed), and then the files that have a marker but no write
stat, of tasks that were retried or ran twice. A task that comes later finds the write sealed, however late it comes, because
nothing ever opens it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from penstock.errors import AlreadyExists, StorageError
from penstock.storage import Storage, join, walk
from penstock.timeline.store import FOLDER

TEMP = ".temp"
#: Before the instant, in the name of the folder that holds what a write keeps beside its markers.
WORK_PREFIX = "penstock-"
_OPEN = "open"
_INFIX = ".marker."
_COLLECTED, _TYPE = "MARKERS", "MARKERS.type"
#: Between the numbers of one task's files of markers. Hudi keeps a list as long as the greatest number.
_STRIDE = 256


class MarkerType(str, Enum):
    """What is about to happen to the file."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


class MarkerStyle(str, Enum):
    """How a write keeps its markers."""

    DIRECT = "DIRECT"
    COLLECTED = "TIMELINE_SERVER_BASED"


@dataclass(frozen=True)
class Marker:
    """A data file, relative to the table's base path, and what was to be done to it."""

    file_path: str
    kind: MarkerType

    @property
    def text(self) -> str:
        """The marker's name."""
        return f"{self.file_path}{_INFIX}{self.kind.value}"


def markers_folder(base_path: str, instant: str) -> str:
    """Where the markers of a write are, and nothing else."""
    return join(base_path, FOLDER, TEMP, instant)


def work_folder(base_path: str, instant: str) -> str:
    """Where a write keeps what is not a marker, until it is finished."""
    return join(base_path, FOLDER, TEMP, f"{WORK_PREFIX}{instant}")


def open_write(storage: Storage, base_path: str, instant: str, style: MarkerStyle = MarkerStyle.DIRECT) -> None:
    """From now on tasks may add files to this write."""
    if style is MarkerStyle.COLLECTED:
        with storage.create(join(markers_folder(base_path, instant), _TYPE)) as file:
            file.write(style.value.encode())
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


def announce(
    storage: Storage,
    base_path: str,
    instant: str,
    markers: Sequence[Marker],
    style: MarkerStyle = MarkerStyle.DIRECT,
    task: int = 0,
    turn: int = 0,
) -> None:
    """Announce data files. Raises StorageError if the write has been sealed.

    Args:
        task: who announces; tasks that do it at the same time begin at different numbers.
        turn: how often it has done so before.
    """
    folder = markers_folder(base_path, instant)
    lines = [marker.text for marker in markers if style is MarkerStyle.COLLECTED and "\n" not in marker.text]
    if lines:
        with _next_file(storage, folder, task + turn * _STRIDE) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
    for marker in markers:
        if style is MarkerStyle.DIRECT or "\n" in marker.text:
            _create(storage, folder, marker)
    check_open(storage, base_path, instant)  # afterwards: a marker made while the write was open is seen by who sealed it


def _create(storage: Storage, folder: str, marker: Marker) -> None:
    try:
        storage.create(join(folder, marker.text)).close()
    except AlreadyExists:
        raise AlreadyExists(f"another attempt of this task announced the same file: {marker.file_path}") from None


def _next_file(storage: Storage, folder: str, number: int) -> pa.NativeFile:
    """A file of markers that nobody else writes to."""
    while True:
        with suppress(AlreadyExists):
            return storage.create(join(folder, f"{_COLLECTED}{number}"))
        number += _STRIDE


def read_markers(storage: Storage, base_path: str, instant: str) -> list[Marker]:
    """All markers of a write, one file each or collected by a timeline server."""
    folder = markers_folder(base_path, instant)
    found: list[Marker | None] = []
    for file in walk(storage, folder):
        relative = file.path[len(folder) + 1 :]
        if _INFIX in relative:
            found.append(_parse(relative))
        elif relative.startswith(_COLLECTED) and relative != _TYPE:
            found.extend(_parse(line) for line in storage.read(file.path).decode().split("\n"))
    return [marker for marker in found if marker is not None]


def _parse(text: str) -> Marker | None:
    """A marker; None for a line that was not written to its end, whose file was not begun either."""
    file_path, _, kind = text.strip("\r").rpartition(_INFIX)
    return Marker(file_path, MarkerType(kind)) if file_path and kind in MarkerType.__members__ else None


def reconcile(storage: Storage, base_path: str, instant: str, written: Iterable[str]) -> list[str]:
    """Remove files that were announced but are not among those written; gives what was removed.

    Log files too: each is one attempt's own, and its rows would count twice, since readers judge blocks by their instant.
    """
    wanted = set(written)
    strays = {m.file_path for m in read_markers(storage, base_path, instant) if m.file_path not in wanted}
    return [path for path in sorted(strays) if storage.delete(join(base_path, path))]


def delete_markers(storage: Storage, base_path: str, instant: str) -> None:
    """Forget a finished write's markers, and whatever else it kept beside them."""
    storage.delete_tree(markers_folder(base_path, instant))
    storage.delete_tree(work_folder(base_path, instant))
