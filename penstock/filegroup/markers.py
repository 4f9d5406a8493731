"""Markers: every data file is announced before it is created, so that all files of a dead writer can be found.

A marker is the text `<partition>/<file name>.marker.<CREATE|MERGE|APPEND>`. It is an empty file of that name below
`.hoodie/.temp/<instant>` (`DIRECT`); or a line of a file `MARKERS<number>` in that folder, which announces many files at once
(`TIMELINE_SERVER_BASED`: in Hudi the timeline server writes such files; `MARKERS.type` names the style).

Older releases of Hudi take every other file in that folder for a marker when they roll a write back. So everything else that a
write keeps is in a folder next to it, `.hoodie/.temp/penstock-<instant>`: staged rows, and a file `open`.

A task may create data files only while the file `open` exists. Before the commit the driver deletes `open`, which *seals* the
write. Then the driver deletes the data files that have a marker but no write stat: files of tasks that were retried or ran twice.
An attempt of a task that runs later, however late, finds the write sealed, because a write is never opened again.
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
#: The distance between the numbers of one task's `MARKERS<number>` files. It is small, because Hudi allocates a list as long as
#: the greatest number.
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
        """The marker as text, which is the name of a marker file, or a line of a `MARKERS<number>` file."""
        return f"{self.file_path}{_INFIX}{self.kind.value}"


def markers_folder(base_path: str, instant: str) -> str:
    """Return the folder of a write's markers, which holds nothing else."""
    return join(base_path, FOLDER, TEMP, instant)


def work_folder(base_path: str, instant: str) -> str:
    """Return the folder of a write's other temporary files, such as staged rows. It is deleted when the write is finished."""
    return join(base_path, FOLDER, TEMP, f"{WORK_PREFIX}{instant}")


def open_write(storage: Storage, base_path: str, instant: str, style: MarkerStyle = MarkerStyle.DIRECT) -> None:
    """Open a write: from now on its tasks may create data files."""
    if style is MarkerStyle.COLLECTED:
        with storage.create(join(markers_folder(base_path, instant), _TYPE)) as file:
            file.write(style.value.encode())
    storage.create(_open_path(base_path, instant)).close()


def seal(storage: Storage, base_path: str, instant: str) -> bool:
    """Seal a write: from now on its tasks may create no files. Return False if it was already sealed, or Hudi wrote it."""
    return storage.delete(_open_path(base_path, instant))


def check_open(storage: Storage, base_path: str, instant: str) -> None:
    """Raise StorageError if the write is sealed: this attempt of a task is too late, and its files must not stay."""
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
        style: whether each marker is a file of its own, or a line of a `MARKERS<number>` file.
        task: the number of the task. Concurrent tasks start with different file numbers, which avoids collisions.
        turn: how many times the task has announced files before.
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
    """Create a new `MARKERS<number>` file, with the first free number from `number` on in steps of `_STRIDE`."""
    while True:
        with suppress(AlreadyExists):
            return storage.create(join(folder, f"{_COLLECTED}{number}"))
        number += _STRIDE


def read_markers(storage: Storage, base_path: str, instant: str) -> list[Marker]:
    """Return all markers of a write, from single marker files and from `MARKERS<number>` files."""
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
    """Parse a marker; return None for a torn line.

    No data file is lost by that: a task creates a data file only after the marker's line is complete.
    """
    file_path, _, kind = text.strip("\r").rpartition(_INFIX)
    return Marker(file_path, MarkerType(kind)) if file_path and kind in MarkerType.__members__ else None


def reconcile(storage: Storage, base_path: str, instant: str, written: Iterable[str]) -> list[str]:
    """Delete the data files that have a marker but are not in `written`; return the paths that were deleted.

    Log files are deleted too. Each belongs to one attempt of a task, and a reader accepts every block of a committed instant: it
    would read the rows of a lost attempt as well.

    Args:
        written: the data files that the write stats name, relative to the base path.
    """
    announced = {marker.file_path for marker in read_markers(storage, base_path, instant)}
    strays = sorted(announced - set(written))
    return [path for path in strays if storage.delete(join(base_path, path))]


def delete_markers(storage: Storage, base_path: str, instant: str) -> None:
    """Delete the markers of a finished write, and its work folder with staged rows and key changes."""
    storage.delete_tree(markers_folder(base_path, instant))
    storage.delete_tree(work_folder(base_path, instant))
