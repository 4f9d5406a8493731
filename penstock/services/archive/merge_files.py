"""Merging small archive files to a larger one.

    mergeArchivePlan (which files, into which) → the new file → the small files deleted → the plan deleted

Archive files are log blocks one after the other, so the new file is the bytes of the old ones, oldest first. A merge that died
is taken back while all small files are there, and finished otherwise, as Hudi does.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock import options as o
from penstock.errors import AlreadyExists, CorruptFile
from penstock.formats.avro.container import read_container, write_container
from penstock.storage import FileInfo, join
from penstock.table import TableState
from penstock.timeline.archive import MERGE_PLAN, archive_path, list_archive_files, next_archive_name, read_entries

_PLAN = "HoodieMergeArchiveFilePlan"


def merge_small_files(table: TableState) -> str | None:
    """Merge the newest archive files, back to the last one that is large, if there are enough of them.

    Returns:
        The path of the new file; None if nothing was merged.

    Raises:
        CorruptFile: one of the files is damaged. It stays unchanged.
    """
    storage = table.storage
    folder = archive_path(table.base_path, table.config.archive_folder)
    files = list_archive_files(storage, table.base_path, table.config.archive_folder)
    small_files = _newest_small(files, table.options[o.ARCHIVE_MERGE_SMALL_LIMIT])
    if len(small_files) < table.options[o.ARCHIVE_MERGE_BATCH]:
        return None
    contents = []
    for file in small_files:
        content = storage.read(file.path)
        list(read_entries(content, file.path))  # raises CorruptFile before anything is changed
        contents.append(content)
    path = join(folder, next_archive_name(files))
    plan = join(folder, MERGE_PLAN)
    record = {"candidate": [file.path for file in small_files], "mergedArchiveFileName": path.rsplit("/", 1)[-1]}
    try:
        storage.write_new(plan, write_container(_PLAN, record))
    except AlreadyExists:
        return None  # another process merges
    merged = b"".join(contents)
    try:
        storage.write_new(path, merged)
    except AlreadyExists:
        # The file is this process's own if the storage repeated a call whose answer was lost. Otherwise another process has
        # archived under the same name.
        if storage.read(path) != merged:
            storage.delete(plan)
            return None
    for file in small_files:
        storage.delete(file.path)
    storage.delete(plan)
    return path


def _newest_small(files: Sequence[FileInfo], limit_bytes: int) -> list[FileInfo]:
    """Return the newest files, back to the last one above a size."""
    small_files: list[FileInfo] = []
    for file in reversed(files):
        if file.size_bytes > limit_bytes:
            break
        small_files.append(file)
    return small_files[::-1]


def finish_merge(table: TableState) -> None:
    """Take back or finish a merge that died."""
    storage = table.storage
    folder = archive_path(table.base_path, table.config.archive_folder)
    plan = join(folder, MERGE_PLAN)
    try:
        record = read_container(storage.read(plan))
    except FileNotFoundError:
        return
    except CorruptFile:  # the merge died while it wrote the plan, before anything else was done
        storage.delete(plan)
        return
    present = {file.name for file in list_archive_files(storage, table.base_path, table.config.archive_folder)}
    small_names = [path.rsplit("/", 1)[-1] for path in record["candidate"] or ()]
    merged_name = (record["mergedArchiveFileName"] or "").rsplit("/", 1)[-1]
    if merged_name in present:
        is_whole_without_merged = present.issuperset(small_names)
        for name in [merged_name] if is_whole_without_merged else small_names:
            storage.delete(join(folder, name))
    storage.delete(plan)
