"""Small archive files become a larger one.

    mergeArchivePlan (which files, into which) → the new file → the small ones go → the plan goes

Log files are blocks one after the other, so the new file is the old ones' bytes, oldest first. A merge that died is taken
back while all small files are there, and finished otherwise, as Hudi does it.
"""

from __future__ import annotations

from penstock import options as o
from penstock.errors import AlreadyExists, CorruptFile
from penstock.formats.avro.container import read_container, write_container
from penstock.storage import join
from penstock.table import TableState
from penstock.timeline.archive import MERGE_PLAN, archive_files, archive_path, next_archive_name, read_entries

_PLAN = "HoodieMergeArchiveFilePlan"


def merge_small_files(table: TableState) -> str | None:
    """Merge the newest archive files, as far back as they are small, if there are enough; gives the new file's path."""
    storage = table.storage
    folder = archive_path(table.base_path, table.config.archive_folder)
    files = archive_files(storage, table.base_path, table.config.archive_folder)
    large = [at for at, f in enumerate(files) if f.size_bytes > table.options[o.ARCHIVE_MERGE_SMALL_LIMIT]]
    small = files[large[-1] + 1 if large else 0 :]
    if len(small) < table.options[o.ARCHIVE_MERGE_BATCH]:
        return None
    contents = [storage.read(f.path) for f in small]
    for file, content in zip(small, contents, strict=True):
        list(read_entries(content, file.path))  # one that is torn stays as it is, for somebody to look at
    path = join(folder, next_archive_name(files))
    record = {"candidate": [f.path for f in small], "mergedArchiveFileName": path.rsplit("/", 1)[-1]}
    try:
        storage.write_new(join(folder, MERGE_PLAN), write_container(_PLAN, record))
    except AlreadyExists:
        return None  # somebody else merges
    content = b"".join(contents)
    try:
        storage.write_new(path, content)
    except AlreadyExists:  # ours, if the storage repeated a call whose answer was lost; otherwise of somebody who archives
        if storage.read(path) != content:
            storage.delete(join(folder, MERGE_PLAN))
            return None
    for file in small:
        storage.delete(file.path)
    storage.delete(join(folder, MERGE_PLAN))
    return path


def finish_merge(table: TableState) -> None:
    """Take back or finish a merge that died."""
    storage = table.storage
    folder = archive_path(table.base_path, table.config.archive_folder)
    plan = join(folder, MERGE_PLAN)
    try:
        record = read_container(storage.read(plan))
    except FileNotFoundError:
        return
    except CorruptFile:  # it died before anything else was done
        storage.delete(plan)
        return
    here = {f.name for f in archive_files(storage, table.base_path, table.config.archive_folder)}
    names = [text.rsplit("/", 1)[-1] for text in record["candidate"] or ()]
    merged = (record["mergedArchiveFileName"] or "").rsplit("/", 1)[-1]
    if merged in here:
        for name in [merged] if here.issuperset(names) else names:
            storage.delete(join(folder, name))
    storage.delete(plan)
