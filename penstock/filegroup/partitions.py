"""Partitions as folders: the metafile that makes a folder one, and what a write that is taken back does to it.

Readers find partitions by their metafile and look no further below one. So a partition inside another would be lost to
them, and is refused before it is published.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import CorruptFile, RecordKeyError
from penstock.filegroup.names import PARTITION_METAFILE, is_whole_metafile
from penstock.formats.properties import read_properties
from penstock.storage import Storage, join


def withdraw_partition(storage: Storage, base_path: str, partition_path: str, instant: str) -> None:
    """Take back the metafile and the folders that a write made, if nobody else has put anything there.

    Only for a writer that is alone: another could be about to put a file there, which nobody would find.
    """
    folder = join(base_path, partition_path)
    path = join(folder, PARTITION_METAFILE)
    others = [e for e in storage.list(folder) if not is_metafile(e.name) and not e.is_dir]
    if not others and read_creation_instant(storage, base_path, partition_path) in (instant, None):
        storage.delete(path)
    parts = partition_path.split("/") if partition_path else []
    for depth in range(len(parts), 0, -1):
        if not storage.remove_empty(join(base_path, *parts[:depth])):
            return


def is_metafile(name: str) -> bool:
    """Whether a file only says that its folder is a partition; Hadoop's checksum of that file goes with it."""
    return name in (PARTITION_METAFILE, f".{PARTITION_METAFILE}.crc")


def read_creation_instant(storage: Storage, base_path: str, partition_path: str) -> str | None:
    """The instant that a metafile names; None if it is not there or not whole, which only a writer that died leaves."""
    try:
        content = storage.read(join(base_path, partition_path, PARTITION_METAFILE))
        return read_properties(content).get("commitTime") if is_whole_metafile(content) else None
    except (FileNotFoundError, CorruptFile):
        return None


def check_not_nested(storage: Storage, base_path: str, partition_paths: Iterable[str]) -> None:
    """Let pass only partitions that lie in no other one and have no other one in them.

    Raises:
        RecordKeyError: one does; values of different depth met in one table.
    """
    for path in partition_paths:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            outer = "/".join(parts[:depth])
            if storage.stat(join(base_path, outer, PARTITION_METAFILE)) is not None:
                raise _nested(path, outer)
        for entry in storage.list(join(base_path, path)):
            if entry.is_dir and (inner := _first_partition(storage, entry.path)) is not None:
                raise _nested(inner[len(base_path) + 1 :], path)


def _first_partition(storage: Storage, folder: str) -> str | None:
    """A partition at or below a folder."""
    entries = storage.list(folder)
    if any(e.name.startswith(PARTITION_METAFILE) for e in entries):
        return folder
    found = (_first_partition(storage, e.path) for e in entries if e.is_dir)
    return next((path for path in found if path is not None), None)


def _nested(inner: str, outer: str) -> RecordKeyError:
    return RecordKeyError(
        f"partition {inner!r} lies inside partition {outer!r}, where no reader would look for it. "
        "Fix: create the table with hoodie.datasource.write.partitionpath.urlencode=true, or use values without slashes."
    )
