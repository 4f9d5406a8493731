"""Merge small archive files into a larger one.

    write mergeArchivePlan (names of the small files and the new file) → write the new file → delete the small files
    → delete the plan

An archive file is a sequence of log blocks, so the new file is the concatenation of the small ones, oldest first. After a crash
the merge is undone if all small files still exist, and finished otherwise, as in Hudi.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock import options as o
from penstock.errors import AlreadyExists, CorruptFile
from penstock.formats.avro.container import read_container, write_container
from penstock.storage import FileInfo, join
from penstock.table.state import TableState
from penstock.timeline.archive import MERGE_PLAN, archive_path, list_archive_files, next_archive_name, read_entries

_PLAN = "HoodieMergeArchiveFilePlan"


def merge_small_files(table: TableState) -> str | None:
    """Merge the small archive files that are newer than the newest large archive file into one new file.

    Do nothing if there are fewer than `hoodie.archive.merge.files.batch.size` small files, or if another process merges.

    Returns:
        The path of the new file; None if nothing was merged.

    Raises:
        CorruptFile: one of the small files is damaged. Then no file is changed.
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
        # If the storage repeated a call whose answer was lost, the existing file is the one that this process wrote. Otherwise
        # another process has written an archive file under the same name.
        if storage.read(path) != merged:
            storage.delete(plan)
            return None
    for file in small_files:
        storage.delete(file.path)
    storage.delete(plan)
    return path


def _newest_small(files: Sequence[FileInfo], limit_bytes: int) -> list[FileInfo]:
    """Return the archive files that are newer than the newest large file, oldest first.

    Args:
        files: all archive files, oldest first.
        limit_bytes: a file with more bytes is large.
    """
    small_files: list[FileInfo] = []
    for file in reversed(files):
        if file.size_bytes > limit_bytes:
            break
        small_files.append(file)
    return small_files[::-1]


def finish_merge(table: TableState) -> None:
    """Undo or finish a merge of small archive files that a crashed process left. Do nothing if no merge was interrupted.

    The merge is undone if all the small files that it was to join still exist, and finished otherwise.
    """
    storage = table.storage
    folder = archive_path(table.base_path, table.config.archive_folder)
    plan = join(folder, MERGE_PLAN)
    try:
        record = read_container(storage.read(plan))
    except FileNotFoundError:
        return
    except CorruptFile:  # the merge crashed while it wrote the plan, before it wrote anything else
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
