"""Partitions as folders: the metafile that makes a folder a partition, and how a failed write's partitions are removed.

Readers find partitions by their metafile, and do not search below a folder that has one. They would not find a partition inside
another partition, so `check_not_nested` raises before a write with such a partition is published.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from penstock.errors import CorruptFile, RecordKeyError
from penstock.filegroup.names import PARTITION_METAFILE, is_whole_metafile
from penstock.formats.properties import read_properties
from penstock.storage import FileInfo, Storage, join, list_tree_without
from penstock.timeline.store import FOLDER


def withdraw_partition(storage: Storage, base_path: str, partition_path: str, instant: str) -> None:
    """Delete the metafile and the folders of a partition that a failed write created. Folders that hold other files are kept.

    Call this only if the table has no concurrent writer: another writer could be about to create a file in the partition, and
    readers would not find that file without the metafile.

    Args:
        instant: the instant of the failed write.
    """
    folder = join(base_path, partition_path)
    path = join(folder, PARTITION_METAFILE)
    data_files = [entry for entry in storage.list(folder) if not is_metafile(entry.name) and not entry.is_dir]
    if not data_files and read_creation_instant(storage, base_path, partition_path) in (instant, None):
        storage.delete(path)
    parts = partition_path.split("/") if partition_path else []
    for depth in range(len(parts), 0, -1):  # innermost folder first
        if not storage.remove_empty(join(base_path, *parts[:depth])):
            return


def is_metafile(name: str) -> bool:
    """Whether a file name is that of a partition metafile, or of the checksum file that Hadoop writes for a metafile."""
    return name in (PARTITION_METAFILE, f".{PARTITION_METAFILE}.crc")


def read_creation_instant(storage: Storage, base_path: str, partition_path: str) -> str | None:
    """Return the instant of the write that created a partition, from its metafile; None if the metafile is missing or torn."""
    try:
        content = storage.read(join(base_path, partition_path, PARTITION_METAFILE))
        return read_properties(content).get("commitTime") if is_whole_metafile(content) else None
    except (FileNotFoundError, CorruptFile):
        return None


def check_not_nested(storage: Storage, base_path: str, partition_paths: Iterable[str]) -> None:
    """Raise RecordKeyError if one of `partition_paths` lies inside another partition of the table, or contains one.

    This happens if partition values contain different numbers of slashes: `a` and `a/b`.
    """
    paths = set(partition_paths)
    files = list_tree_without(storage, base_path, FOLDER, most_requests=len(paths)) if len(paths) > 1 else None
    if files is not None:
        _check_listed(base_path, files, paths)
        return
    for path in paths:
        for outer in parent_folders(path):
            if storage.stat(join(base_path, outer, PARTITION_METAFILE)) is not None:
                raise _nested_error(path, outer)
        for entry in storage.list(join(base_path, path)):
            if not entry.is_dir:
                continue
            inner = _find_partition(storage, entry.path)
            if inner is not None:
                raise _nested_error(inner[len(base_path) + 1 :], path)


def _check_listed(base_path: str, files: Iterable[FileInfo], paths: AbstractSet[str]) -> None:
    """Raise RecordKeyError if one of `paths` lies inside another partition of the table, or contains one.

    Args:
        files: the files of the whole table, from a recursive listing.
        paths: the partition paths to check.
    """
    found: set[str] = set()
    for file in files:
        if file.name.startswith(PARTITION_METAFILE):
            path = file.path.rpartition("/")[0].removeprefix(base_path).lstrip("/")
            if FOLDER not in path.split("/"):  # the timeline of a table below
                found.add(path)
    for path in found:
        for outer in parent_folders(path):
            if outer in found and (path in paths or outer in paths):
                raise _nested_error(path, outer)


def parent_folders(path: str) -> list[str]:
    """Return the folders that contain a partition path, the outermost first, without the base path."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _find_partition(storage: Storage, folder: str) -> str | None:
    """Return the path of the first partition that is the folder itself or lies below it; None if there is none."""
    entries = storage.list(folder)
    if any(entry.name.startswith(PARTITION_METAFILE) for entry in entries):
        return folder
    for entry in entries:
        partition = _find_partition(storage, entry.path) if entry.is_dir else None
        if partition is not None:
            return partition
    return None


def _nested_error(inner: str, outer: str) -> RecordKeyError:
    """Build the RecordKeyError about a partition `inner` that lies inside a partition `outer`."""
    return RecordKeyError(
        f"partition {inner!r} lies inside partition {outer!r}, where no reader would look for it. "
        "Fix: create the table with hoodie.datasource.write.partitionpath.urlencode=true, or use values without slashes."
    )
