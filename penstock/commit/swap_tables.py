"""Save mode `overwrite`: the new table is written inside the old table's folder and takes its place when it is complete.

    1. the new table is written and committed in `<table>/.hoodie/.temp/overwrite-<id>`, where no reader looks
    2. an instant is requested in the old table, with the heartbeat of a single writer, so that no other writer begins; then the
       file `<table>/.hoodie/.temp/overwrite` is written: it names the folder `overwrite-<id>` as the next table
    3. the old table is renamed to `<folder>/.<name>.penstock-old`, and the new table inside it is checked for missing files
    4. the new table is renamed to `<name>`
    5. the old table is moved into the new one, to `<table>/.hoodie/.temp/<id>.penstock-old`, and deleted there

A swap is refused while another writer is alive, by its heartbeat. A crash before step 3 leaves the old table in place. Its
requested instant is rolled back as that of a failed write. A later write deletes the incomplete new table when its writer's
heartbeat has expired. After a crash in step 3 or later, `finish_overwrite` completes the steps: the next process that opens the
path finds the new table, or the old one if the new one has missing files. A write may read its rows from the table that it
overwrites, because the old table exists until step 5.

A storage that cannot rename has other steps from step 3 on: `replace_in_place.py`.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress

from penstock import clock
from penstock.commit.heartbeat import delete_heartbeat
from penstock.commit.replace_in_place import finish_in_place, replace_in_place
from penstock.commit.sole_writer import without_other_writers
from penstock.errors import CommitUnknown, CorruptFile, PenstockError, StorageError, TableNotFound, WriteConflict
from penstock.filegroup.markers import TEMP
from penstock.options import Options
from penstock.storage import Storage, has_whole_files, join
from penstock.table.config import read_config
from penstock.table.state import TableState, table_exists
from penstock.timeline.overwrite_note import OVERWRITE
from penstock.timeline.store import FOLDER, load_timeline, read_metadata

#: The end of the folder name of a table that another table has replaced.
REPLACED_SUFFIX = ".penstock-old"


def new_table_path(base_path: str) -> str:
    """Return a new, unique path inside the table at `base_path`. The table that will replace the old one is written there."""
    return join(base_path, FOLDER, TEMP, f"{OVERWRITE}-{clock.new_uuid()}")


def _is_written_aside(base_path: str) -> bool:
    """Whether a path is one that `new_table_path` returned: that of a new table which has not yet replaced the old table."""
    folder, _, name = base_path.rpartition("/")
    return name.startswith(f"{OVERWRITE}-") and folder.endswith(join(FOLDER, TEMP))


def final_table_path(base_path: str) -> str:
    """Return the path at which a table will be after its commit: that of the old table for a table that replaces another one."""
    if not _is_written_aside(base_path):
        return base_path
    return base_path.rpartition("/")[0].removesuffix(f"/{FOLDER}/{TEMP}")


def swap_tables(table: TableState, new_table: str, instant: str) -> None:
    """Replace a table by the table at `new_table`, a folder inside it. Then delete the old table.

    Args:
        table: the old table. Its timeline is not used.
        new_table: a path that `new_table_path` returned, with a complete table.
        instant: the instant time of the commit that wrote the new table.

    Raises:
        StorageError: the swap failed. The old table is still at its path.
        WriteConflict: another writer is alive, or another process deleted files of the new table. The old table is still at its
            path.
        CommitUnknown: the storage failed between two renames. The next process that opens the path finishes the swap.
    """
    storage = table.storage
    base_path = table.base_path
    if has_whole_files(storage):
        _replace_in_place(table, new_table, instant)
        return
    old_table = _old_table_path(base_path)
    name = new_table.rsplit("/", 1)[-1]
    moved = join(old_table, FOLDER, TEMP, name)  # the new table's path after the old table was renamed
    note = join(base_path, FOLDER, TEMP, OVERWRITE)
    try:
        finish_overwrite(storage, base_path)
        with without_other_writers(table):
            try:
                storage.replace(note, name.encode())
                _move(storage, base_path, old_table)
                # Check after the rename, which takes the new table out of reach of other writers: before, one of them may have
                # deleted its files as leftovers; from here on, none can. The second check is at `base_path`, because
                # `finish_overwrite` of another process may already have moved the new table there.
                if not _is_whole(storage, moved, instant) and not _is_whole(storage, base_path, instant):
                    raise WriteConflict(
                        f"another writer took the overwrite of {base_path} for dead and deleted what it had written; the old "
                        "table is as it was. Run the write again, one writer at a time"
                    )
                _move(storage, moved, base_path)
            except (StorageError, WriteConflict) as e:
                _restore_old_table(storage, base_path, old_table, e)
                raise
    except (StorageError, WriteConflict):
        with suppress(StorageError):
            storage.delete(note)
            storage.delete_tree(new_table)
        raise
    _delete_old_table(storage, base_path, old_table)


def _replace_in_place(table: TableState, new_table: str, instant: str) -> None:
    """Replace a table on a storage that cannot rename, by copying files (`replace_in_place.py`).

    If that fails and the old table is as it was, delete the new table and raise the error again.
    """
    try:
        replace_in_place(table, new_table, instant)
    except (StorageError, WriteConflict):
        with suppress(StorageError):
            table.storage.delete_tree(new_table)
        raise


def _restore_old_table(storage: Storage, base_path: str, old_table: str, error: PenstockError) -> None:
    """Move the old table back to `base_path` after a swap that failed, unless a table is already there.

    Args:
        old_table: the path that the old table was renamed to.
        error: the error of the swap.

    Raises:
        CommitUnknown: the storage failed again. The message quotes `error`.
    """
    try:
        if storage.stat(base_path) is None:
            _move(storage, old_table, base_path)
    except StorageError:
        raise CommitUnknown(
            f"overwriting {base_path} was cut off between two renames ({error}). The new table takes its place when the path "
            f"is next opened; both are in {old_table} until then"
        ) from error


def finish_overwrite(storage: Storage, base_path: str, options: Options | None = None) -> bool:
    """Finish a swap of tables that a crash interrupted. Return whether there was one.

    Move the new table to `base_path`, or the old table if the new one has missing files. Then delete the old table if it was
    replaced. Safe to run in two processes at once, and during a swap. On a storage that cannot rename, wait for a swap that is
    under way (`replace_in_place.py`).

    Args:
        options: those of the caller; None: defaults.
    """
    if has_whole_files(storage):
        return finish_in_place(storage, base_path, options or Options({}))
    old_table = _old_table_path(base_path)
    if storage.stat(old_table) is None:
        return False
    if not table_exists(storage, base_path):
        try:
            _move(storage, _next_table(storage, old_table) or old_table, base_path)
        except StorageError:
            if not table_exists(storage, base_path):  # otherwise another process has moved it
                raise
    _delete_old_table(storage, base_path, old_table)
    return True


def _delete_old_table(storage: Storage, base_path: str, old_table: str) -> None:
    """Delete the old table, if it still exists, after another table took its place. Ignore errors of the storage.

    A later write deletes files that are left after an error.

    Args:
        old_table: the path that the old table was renamed to.
    """
    leftover = join(base_path, FOLDER, TEMP, f"{clock.new_uuid()}{REPLACED_SUFFIX}")
    with suppress(StorageError):
        delete_heartbeat(storage, base_path, OVERWRITE)
        # Move the old table into the new one in one step, then delete it. Another swap may just have renamed the new table to
        # `old_table`: then `base_path` does not exist, the move fails, and nothing at `old_table` is deleted.
        storage.move_tree(old_table, leftover)
        storage.delete_tree(leftover)


def _next_table(storage: Storage, old_table: str) -> str | None:
    """Return the path of the new table inside the renamed old table; None if there is none, or if it has missing files."""
    try:
        name = storage.read(join(old_table, FOLDER, TEMP, OVERWRITE)).decode()
    except FileNotFoundError:
        return None
    new_table = join(old_table, FOLDER, TEMP, name)
    return new_table if _is_whole(storage, new_table) else None


def _is_whole(storage: Storage, path: str, instant: str | None = None) -> bool:
    """Whether the table at `path` is complete: it has `hoodie.properties`, a commit, and all files that its commits name.

    Args:
        instant: the instant time of a commit that the table must have; None if any commit is enough.
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
    """Return the names of the files in a folder."""
    return {file.name for file in storage.list(folder)}


def _move(storage: Storage, path: str, to: str) -> None:
    """Rename the folder `path` to `to`. Raise StorageError if that failed.

    An error is ignored if afterwards `to` exists and `path` does not: another process did the rename, or an earlier call whose
    answer was lost.
    """
    try:
        storage.move_tree(path, to)
    except StorageError:
        if storage.stat(path) is not None or storage.stat(to) is None:
            raise


def _old_table_path(base_path: str) -> str:
    """Return the path that the old table is renamed to during a swap: `.<name>.penstock-old`, next to `base_path`."""
    parent, name = base_path.rsplit("/", 1)
    return join(parent or "/", f".{name}{REPLACED_SUFFIX}")
