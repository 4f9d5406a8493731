"""Markers announce every data file before it is created, so that a rollback finds all files of a dead writer.

A marker is the text `<partition>/<file name>.marker.<CREATE|MERGE|APPEND>`. It is an empty file of that name below
`.hoodie/.temp/<instant>` (`DIRECT`); or a line of a file `MARKERS<number>` in that folder, which announces many files at once
(`TIMELINE_SERVER_BASED`; in Hudi the timeline server writes these files). The file `MARKERS.type` names the style.

Older releases of Hudi take every other file in that folder for a marker when they roll a write back. So everything else that a
write keeps is in a folder next to it, `.hoodie/.temp/penstock-<instant>`: staged rows, and a file `open`.

A task may create data files only while the file `open` exists. `commit/markers.py` is the driver's side: it creates and deletes
`open`, reads the markers, and deletes the data files of lost attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from penstock.errors import AlreadyExists, StorageError
from penstock.storage import Storage, join
from penstock.timeline.store import FOLDER

TEMP = ".temp"
#: The beginning of the name of the folder next to the markers; the instant follows.
WORK_PREFIX = "penstock-"
_OPEN = "open"
#: Between the path of a data file and the kind of the marker.
INFIX = ".marker."
#: The beginning of the name of a file that holds many markers; a number follows.
COLLECTED_PREFIX = "MARKERS"
#: The file that names the style of the markers, if they are collected.
STYLE_FILE = "MARKERS.type"
#: The distance between the numbers of one task's `MARKERS<number>` files. It is small, because Hudi allocates a list as long as
#: the greatest number.
_STRIDE = 256


class MarkerType(str, Enum):
    """What a write is about to do to a file group: create it, write its next base file (merge), or write a log file (append)."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


class MarkerStyle(str, Enum):
    """How a write stores its markers: each as an empty file (direct), or many as lines of a `MARKERS<number>` file."""

    DIRECT = "DIRECT"
    COLLECTED = "TIMELINE_SERVER_BASED"


@dataclass(frozen=True)
class Marker:
    """Announces a data file before it is created: its path below the base path, and what the write is about to do with it."""

    file_path: str
    kind: MarkerType

    @property
    def text(self) -> str:
        """The marker as a string: the name of an empty marker file, or a line of a `MARKERS<number>` file."""
        return f"{self.file_path}{INFIX}{self.kind.value}"

    @classmethod
    def parse(cls, text: str) -> Marker | None:
        """Parse the string of a marker; return None for a torn line (one that a crashed writer wrote in part).

        A torn line announces no existing data file, because a task creates a data file only after its marker is complete.
        """
        file_path, _, kind = text.strip("\r").rpartition(INFIX)
        return cls(file_path, MarkerType(kind)) if file_path and kind in MarkerType.__members__ else None


def markers_folder(base_path: str, instant: str) -> str:
    """Return the path of the folder that holds the markers of the write at `instant`, and nothing else."""
    return join(base_path, FOLDER, TEMP, instant)


def work_folder(base_path: str, instant: str) -> str:
    """Return the path of the folder for temporary files of the write at `instant` that are no markers, such as staged rows.

    The folder is deleted when the write is finished.
    """
    return join(base_path, FOLDER, TEMP, f"{WORK_PREFIX}{instant}")


def check_open(storage: Storage, base_path: str, instant: str) -> None:
    """Raise StorageError if the write at `instant` is sealed, so that its tasks may create no more data files.

    A write is sealed once its file `open` is gone.
    """
    if storage.stat(open_file(base_path, instant)) is None:
        raise StorageError(
            f"write {instant} is closed: it was finished without this attempt of a task, or another writer rolled it back"
        )


def open_file(base_path: str, instant: str) -> str:
    """Return the path of the file `open` of the write at `instant`. Tasks may create data files while that file exists."""
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
    """Write the markers of data files, before these files are created.

    Args:
        instant: the instant of the write.
        style: whether each marker is a file of its own, or a line of a `MARKERS<number>` file.
        task: the number of the task. Concurrent tasks start with different file numbers, which avoids collisions.
        turn: how many times this task has called `announce` before. Each call starts with another file number.

    Raises:
        StorageError: the write is sealed, so its tasks may create no more data files.
    """
    folder = markers_folder(base_path, instant)
    lines = [marker.text for marker in markers if style is MarkerStyle.COLLECTED and "\n" not in marker.text]
    if lines:
        content = "".join(f"{line}\n" for line in lines).encode()
        _create_collected(storage, folder, task + turn * _STRIDE, content)
    for marker in markers:
        if style is MarkerStyle.DIRECT or "\n" in marker.text:
            _create(storage, folder, marker)
    # Markers first, then the check. If the write is still open now, the driver seals it later and will see these markers.
    check_open(storage, base_path, instant)


def _create(storage: Storage, folder: str, marker: Marker) -> None:
    """Create the empty file of a marker. Raises AlreadyExists if another attempt of the task announced the same data file."""
    try:
        storage.create(join(folder, marker.text)).close()
    except AlreadyExists:
        raise AlreadyExists(f"another attempt of this task announced the same file: {marker.file_path}") from None


def _create_collected(storage: Storage, folder: str, number: int, content: bytes) -> None:
    """Write `content`, lines that are markers, to a new `MARKERS<number>` file.

    Tries `number`, then `number + _STRIDE`, and so on, until it finds a file name that is free.
    """
    while True:
        try:
            with storage.create(join(folder, f"{COLLECTED_PREFIX}{number}")) as file:
                file.write(content)
        except AlreadyExists:
            number += _STRIDE
        else:
            return
