"""Markers: every data file is announced before it is created, so that all files of a dead writer can be found.

A marker is the text `<partition>/<file name>.marker.<CREATE|MERGE|APPEND>`. It is an empty file of that name below
`.hoodie/.temp/<instant>` (`DIRECT`); or a line of a file `MARKERS<number>` in that folder, which announces many files at once
(`TIMELINE_SERVER_BASED`: in Hudi the timeline server writes such files; `MARKERS.type` names the style).

Older releases of Hudi take every other file in that folder for a marker when they roll a write back. So everything else that a
write keeps is in a folder next to it, `.hoodie/.temp/penstock-<instant>`: staged rows, and a file `open`.

A task may publish files only while the file `open` exists. Before the commit the driver removes it, which *seals* the write. Then
the driver removes the data files that have a marker but no write stat, of tasks that were retried or ran twice. A task that comes
later finds the write sealed, however late it comes, because a write is never opened again.
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
#: The beginning of the name of the folder next to the markers; the instant follows.
WORK_PREFIX = "penstock-"
_OPEN = "open"
_INFIX = ".marker."
_COLLECTED = "MARKERS"
_TYPE = "MARKERS.type"
#: The distance between the numbers of one task's files of markers. It is small, since Hudi keeps a list as long as the greatest
#: number.
_STRIDE = 256


class MarkerType(str, Enum):
    """What a write is about to do with a data file."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


class MarkerStyle(str, Enum):
    """How a write stores its markers."""

    DIRECT = "DIRECT"
    COLLECTED = "TIMELINE_SERVER_BASED"


@dataclass(frozen=True)
class Marker:
    """A data file, relative to the table's base path, and what the write is about to do with it."""

    file_path: str
    kind: MarkerType

    @property
    def text(self) -> str:
        """The marker as text: a file's name, or a line."""
        return f"{self.file_path}{_INFIX}{self.kind.value}"


def markers_folder(base_path: str, instant: str) -> str:
    """Return the folder of a write's markers, which holds nothing else."""
    return join(base_path, FOLDER, TEMP, instant)


def work_folder(base_path: str, instant: str) -> str:
    """Return the folder where a write keeps what is not a marker, until it is finished."""
    return join(base_path, FOLDER, TEMP, f"{WORK_PREFIX}{instant}")


def open_write(storage: Storage, base_path: str, instant: str, style: MarkerStyle = MarkerStyle.DIRECT) -> None:
    """Open a write: from now on its tasks may create data files."""
    if style is MarkerStyle.COLLECTED:
        with storage.create(join(markers_folder(base_path, instant), _TYPE)) as file:
            file.write(style.value.encode())
    storage.create(_open_path(base_path, instant)).close()


def seal(storage: Storage, base_path: str, instant: str) -> bool:
    """Seal a write: from now on no task may add files. Return False if it was sealed before, or is not a Penstock write."""
    return storage.delete(_open_path(base_path, instant))


def check_open(storage: Storage, base_path: str, instant: str) -> None:
    """Raise StorageError if the write is sealed: then this attempt of a task came too late, and its files are not wanted."""
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
    """Write the markers of data files. Raises StorageError if the write is sealed.

    Args:
        task: the number of the task. Concurrent tasks begin with different numbers of files, so that they do not collide.
        turn: how often the task has announced files before.
    """
    folder = markers_folder(base_path, instant)
    lines = [marker.text for marker in markers if style is MarkerStyle.COLLECTED and "\n" not in marker.text]
    if lines:
        with _next_file(storage, folder, task + turn * _STRIDE) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
    for marker in markers:
        if style is MarkerStyle.DIRECT or "\n" in marker.text:
            _create(storage, folder, marker)
    # Markers first, then the check. If the write is still open now, the driver seals it later and will see these markers.
    check_open(storage, base_path, instant)


def _create(storage: Storage, folder: str, marker: Marker) -> None:
    try:
        storage.create(join(folder, marker.text)).close()
    except AlreadyExists:
        raise AlreadyExists(f"another attempt of this task announced the same file: {marker.file_path}") from None


def _next_file(storage: Storage, folder: str, number: int) -> pa.NativeFile:
    """Create a file of markers that no other task writes to."""
    while True:
        with suppress(AlreadyExists):
            return storage.create(join(folder, f"{_COLLECTED}{number}"))
        number += _STRIDE


def read_markers(storage: Storage, base_path: str, instant: str) -> list[Marker]:
    """Read all markers of a write, in one file each or collected."""
    folder = markers_folder(base_path, instant)
    texts: list[str] = []
    for file in walk(storage, folder):
        relative = file.path[len(folder) + 1 :]
        if _INFIX in relative:
            texts.append(relative)
        elif relative.startswith(_COLLECTED) and relative != _TYPE:
            texts.extend(storage.read(file.path).decode().split("\n"))
    markers = [_parse(text) for text in texts]
    return [marker for marker in markers if marker is not None]


def _parse(text: str) -> Marker | None:
    """Return a marker; None for a torn line. A task creates its data files after the line is complete, so no file is lost."""
    file_path, _, kind = text.strip("\r").rpartition(_INFIX)
    return Marker(file_path, MarkerType(kind)) if file_path and kind in MarkerType.__members__ else None


def reconcile(storage: Storage, base_path: str, instant: str, written: Iterable[str]) -> list[str]:
    """Remove files that were announced but are not among those written; return what was removed.

    Log files too: a file belongs to one attempt alone, and its rows would be read twice, since readers judge a block by its
    instant.
    """
    announced = {marker.file_path for marker in read_markers(storage, base_path, instant)}
    strays = sorted(announced - set(written))
    return [path for path in strays if storage.delete(join(base_path, path))]


def delete_markers(storage: Storage, base_path: str, instant: str) -> None:
    """Delete the markers of a finished write, and everything else it kept next to them."""
    storage.delete_tree(markers_folder(base_path, instant))
    storage.delete_tree(work_folder(base_path, instant))
