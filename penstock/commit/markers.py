"""The driver's side of markers: opens and seals a write, reads its markers and deletes files of lost attempts.

Tasks announce their data files by markers (`filegroup/markers.py`), and may create data files only while the file `open` exists
in the work folder of the write. Before the commit the driver deletes `open`, which *seals* the write. Then the driver deletes the
data files that have a marker but no write stat: files of tasks that were retried or ran twice. An attempt of a task that runs
later, however late, finds the write sealed, because a write is never opened again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.filegroup.markers import (
    COLLECTED_PREFIX,
    INFIX,
    STYLE_FILE,
    Marker,
    MarkerStyle,
    markers_folder,
    open_file,
    work_folder,
)
from penstock.storage import Storage, abort_uploads, delete_trees, join, walk


def open_write(storage: Storage, base_path: str, instant: str, style: MarkerStyle = MarkerStyle.DIRECT) -> None:
    """Open a write: create the file `open` in its work folder. Tasks of the write may create data files while this file exists.

    Args:
        instant: the instant time of the write.
        style: whether tasks create one marker file per data file or collect markers in `MARKERS<number>` files.
    """
    if style is MarkerStyle.COLLECTED:
        with storage.create(join(markers_folder(base_path, instant), STYLE_FILE)) as file:
            file.write(style.value.encode())
    storage.create(open_file(base_path, instant)).close()


def seal(storage: Storage, base_path: str, instant: str) -> bool:
    """Seal a write: delete the file `open` in its work folder. From then on the tasks of the write may create no data files.

    Return whether the file existed. False means that the write was already sealed, or that Hudi wrote it. On an object store two
    processes that seal at the same moment may both get True, so publishing does not rely on it (`publish_alone.py`).
    """
    return storage.delete(open_file(base_path, instant))


def read_markers(storage: Storage, base_path: str, instant: str) -> list[Marker]:
    """Return all markers of the write at `instant`, from single marker files and from `MARKERS<number>` files."""
    folder = markers_folder(base_path, instant)
    texts: list[str] = []
    for file in walk(storage, folder):
        relative = file.path[len(folder) + 1 :]
        if INFIX in relative:
            texts.append(relative)
        elif relative.startswith(COLLECTED_PREFIX) and relative != STYLE_FILE:
            texts.extend(storage.read(file.path).decode().split("\n"))
    markers = [Marker.parse(text) for text in texts]
    return [marker for marker in markers if marker is not None]


def reconcile(storage: Storage, base_path: str, instant: str, written: Iterable[str]) -> list[str]:
    """Delete the data files of a write that have a marker but are not in `written`; return the paths of the deleted files.

    These are files of lost task attempts. Their unfinished uploads are aborted. Log files are deleted too: each belongs to one
    attempt of a task, and a reader accepts every block of a committed instant, also the blocks of the lost attempt.

    Args:
        written: paths of the data files that the write stats name, relative to the base path.
    """
    announced = {marker.file_path for marker in read_markers(storage, base_path, instant)}
    return delete_announced(storage, base_path, sorted(announced - set(written)))


def delete_announced(storage: Storage, base_path: str, paths: Sequence[str]) -> list[str]:
    """Delete data files of a write, and abort their unfinished uploads. Return the paths of the files that existed.

    The write must be sealed, so that its tasks create no more data files.

    Args:
        paths: paths from the markers of the write, relative to the base path.
    """
    if paths:
        # Before the files are deleted: an upload that is completed in between leaves a file that is deleted then.
        files = {join(base_path, path) for path in paths}
        abort_uploads(storage, base_path, files.__contains__)
    return [path for path in paths if storage.delete(join(base_path, path))]


def delete_markers(storage: Storage, base_path: str, instant: str) -> None:
    """Delete the markers of a write that is over, and its work folder with staged rows and lists of changed keys."""
    delete_trees(storage, [markers_folder(base_path, instant), work_folder(base_path, instant)])
