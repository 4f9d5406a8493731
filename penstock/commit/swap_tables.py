"""Save mode `overwrite`: the new table is written aside and takes the old table's place when it is whole.

    1. the new table is written and committed in `<table>/.hoodie/.temp/overwrite-<id>`, where no reader looks
    2. the note `<table>/.hoodie/.temp/overwrite` says that <id> is the next table
    3. the old table is renamed to `<folder>/.<name>.penstock-old`, and the new table inside it is checked to be whole
    4. the new table is renamed to `<name>`
    5. the old table is moved into the new one, to `<table>/.hoodie/.temp/<id>.penstock-old`, and deleted there

A crash before step 3 leaves the old table. A later write deletes what is left of the new one, when the heartbeat of its writer
is too old. After a crash in step 3 or later, `finish_overwrite` completes the steps: the next process that opens the path finds
the new table, or the old one if the new one is not whole. Rows that are read from the old table can be written over it, because
it is there until the end.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress

from penstock import clock
from penstock.commit.heartbeat import delete_heartbeat
from penstock.errors import CommitUnknown, CorruptFile, PenstockError, StorageError, TableNotFound, WriteConflict
from penstock.filegroup.markers import TEMP
from penstock.storage import Storage, join
from penstock.table.config import read_config
from penstock.table.state import table_exists
from penstock.timeline.store import FOLDER, load_timeline, read_metadata

#: The name of the note that says which table is next, and of the new table's heartbeat; with an id, of the new table's folder.
OVERWRITE = "overwrite"
#: How the name of a table ends that another one has replaced.
REPLACED_SUFFIX = ".penstock-old"


def new_table_path(base_path: str) -> str:
    """Return a path where the new table is written."""
    return join(base_path, FOLDER, TEMP, f"{OVERWRITE}-{clock.new_uuid()}")


def is_written_aside(base_path: str) -> bool:
    """Whether a path is that of a new table which has not taken the old table's place yet."""
    folder, _, name = base_path.rpartition("/")
    return name.startswith(f"{OVERWRITE}-") and folder.endswith(join(FOLDER, TEMP))


def swap_tables(storage: Storage, new_table: str, base_path: str, instant: str) -> None:
    """Put the new table, which lies inside the old one, in the old table's place.

    Args:
        instant: the commit that made the new table.

    Raises:
        StorageError: the swap failed, and the old table is where it was.
        WriteConflict: another process deleted a part of the new table. The old one is where it was.
        CommitUnknown: the storage failed between two renames. The next process that opens the path finishes the swap.
    """
    old_table = _old_table_path(base_path)
    name = new_table.rsplit("/", 1)[-1]
    moved = join(old_table, FOLDER, TEMP, name)  # the new table once the old one, which holds it, is renamed
    note = join(base_path, FOLDER, TEMP, OVERWRITE)
    try:
        finish_overwrite(storage, base_path)
        storage.replace(note, name.encode())
        _move(storage, base_path, old_table)
        # Checked after the rename, which takes the new table out of reach of other writers: one of them may have deleted files
        # of it as leftovers, but none can from here on. The second look is for `finish_overwrite` of another process, which may
        # have put the new table in its place by now.
        if not _is_whole(storage, moved, instant) and not _is_whole(storage, base_path, instant):
            raise WriteConflict(
                f"another writer took the overwrite of {base_path} for dead and deleted what it had written; the old table is as "
                "it was. Run the write again, one writer at a time"
            )
        _move(storage, moved, base_path)
    except (StorageError, WriteConflict) as e:
        _restore_old_table(storage, base_path, old_table, e)
        with suppress(StorageError):
            storage.delete(note)
            storage.delete_tree(new_table)
        raise
    _delete_old_table(storage, base_path, old_table)


def _restore_old_table(storage: Storage, base_path: str, old_table: str, error: PenstockError) -> None:
    """Put the old table back in its place after a swap that failed, if it is not there. Raise CommitUnknown if that fails."""
    try:
        if storage.stat(base_path) is None:
            _move(storage, old_table, base_path)
    except StorageError:
        raise CommitUnknown(
            f"overwriting {base_path} was cut off between two renames ({error}). The new table takes its place when the path "
            f"is next opened; both are in {old_table} until then"
        ) from error


def finish_overwrite(storage: Storage, base_path: str) -> None:
    """Finish a swap that was cut off. Safe to run in two processes at once, and during a swap."""
    old_table = _old_table_path(base_path)
    if storage.stat(old_table) is None:
        return
    if not table_exists(storage, base_path):
        try:
            _move(storage, _next_table(storage, old_table) or old_table, base_path)
        except StorageError:
            if not table_exists(storage, base_path):  # or another process was faster
                raise
    _delete_old_table(storage, base_path, old_table)


def _delete_old_table(storage: Storage, base_path: str, old_table: str) -> None:
    """Delete the old table, if it is there, now that another one has its place. What fails now is left to a later write."""
    leftover = join(base_path, FOLDER, TEMP, f"{clock.new_uuid()}{REPLACED_SUFFIX}")
    with suppress(StorageError):
        delete_heartbeat(storage, base_path, OVERWRITE)
        # Moved into the new table before it is deleted, in one step. The next swap may just have renamed the new table to the
        # old table's name: then there is no folder to move to, this step fails, and nothing is deleted under that name.
        storage.move_tree(old_table, leftover)
        storage.delete_tree(leftover)


def _next_table(storage: Storage, old_table: str) -> str | None:
    """Return the path of the new table that an old one holds; None if there is none, or it is not whole."""
    try:
        name = storage.read(join(old_table, FOLDER, TEMP, OVERWRITE)).decode()
    except FileNotFoundError:
        return None
    new_table = join(old_table, FOLDER, TEMP, name)
    return new_table if _is_whole(storage, new_table) else None


def _is_whole(storage: Storage, path: str, instant: str | None = None) -> bool:
    """Whether a table is there with its properties, its commits and all files that the commits name.

    Args:
        instant: a commit that has to be among them; None if any commit will do.
    """
    file_names: dict[str, set[str]] = defaultdict(set)  # by folder
    try:
        read_config(storage, path)
        writes = load_timeline(storage, path).writes
        for write in writes:
            for stat in read_metadata(storage, path, write).stats:
                if stat.path:
                    folder, _, file_name = stat.path.rpartition("/")
                    file_names[folder].add(file_name)
    except (TableNotFound, CorruptFile, FileNotFoundError):
        return False
    has_commit = bool(writes) if instant is None else instant in {write.time for write in writes}
    if not has_commit:
        return False
    return all(names <= _list_names(storage, join(path, folder)) for folder, names in file_names.items())


def _list_names(storage: Storage, folder: str) -> set[str]:
    return {file.name for file in storage.list(folder)}


def _move(storage: Storage, path: str, to: str) -> None:
    """Rename a folder. A rename that another process has done, or a call of this process whose answer was lost, is no error."""
    try:
        storage.move_tree(path, to)
    except StorageError:
        if storage.stat(path) is not None or storage.stat(to) is None:
            raise


def _old_table_path(base_path: str) -> str:
    parent, name = base_path.rsplit("/", 1)
    return join(parent or "/", f".{name}{REPLACED_SUFFIX}")
