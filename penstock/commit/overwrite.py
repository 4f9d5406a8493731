"""Save mode `overwrite`: the new table is written aside and takes the old one's place when it is whole.

    1. `<table>/.hoodie/.temp/overwrite-<id>` is written and committed; nobody sees it
    2. `<table>/.hoodie/.temp/overwrite` says that <id> is next
    3. the old table is renamed to `<folder>/.<name>.penstock-old`; by then nobody else reaches the new one, which has to be whole
    4. the new one is renamed to `<name>`
    5. the old one goes into the new one, to `<table>/.hoodie/.temp/<id>.penstock-old`, and is deleted there

A crash before 3 leaves the old table, and what it holds of the new one goes with a later write, when its writer has given no
sign of life for a while. After 3, `recover` finishes what was begun: whoever next opens the path finds the new table, or the
old one if the new one is not whole. Rows read from the old table can be written over it, because it is there until the end.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress

from penstock import clock
from penstock.commit.heartbeat import stop_heartbeat
from penstock.errors import CommitUnknown, CorruptFile, PenstockError, StorageError, TableNotFound, WriteConflict
from penstock.filegroup.markers import TEMP
from penstock.storage import Storage, join
from penstock.table import read_config, table_exists
from penstock.timeline.store import FOLDER, load_timeline, read_metadata

#: The note that says which new table is next; with an id behind it, the folder of a new table; and its sign of life.
OVERWRITE = "overwrite"
#: How the name of a table ends that another one has replaced.
REPLACED = ".penstock-old"


def fresh_path(base_path: str) -> str:
    """Where the new table is written."""
    return join(base_path, FOLDER, TEMP, f"{OVERWRITE}-{clock.new_uuid()}")


def is_written_aside(base_path: str) -> bool:
    """Whether a path is that of a new table which has not taken the old table's place yet."""
    folder, _, name = base_path.rpartition("/")
    return name.startswith(f"{OVERWRITE}-") and folder.endswith(join(FOLDER, TEMP))


def swap(storage: Storage, fresh: str, base_path: str, instant: str) -> None:
    """Put the new table, which is inside the old one, in its place.

    Args:
        instant: the commit that made the new table.

    Raises:
        StorageError: it could not be done, and the old table is where it was.
        WriteConflict: somebody else deleted a part of the new table. The old one is where it was.
        CommitUnknown: the storage failed in between; whoever next opens the path finishes it.
    """
    old, name = _old_path(base_path), fresh.rsplit("/", 1)[-1]
    moved, note = join(old, FOLDER, TEMP, name), join(base_path, FOLDER, TEMP, OVERWRITE)
    try:
        recover(storage, base_path)
        storage.replace(note, name.encode())
        _move(storage, base_path, old)
        if not _is_whole(storage, moved, instant) and not _is_whole(storage, base_path, instant):
            raise WriteConflict(
                f"another writer took the overwrite of {base_path} for dead and deleted what it had written; the old table is as "
                "it was. Run the write again, one writer at a time"
            )
        _move(storage, moved, base_path)
    except (StorageError, WriteConflict) as e:
        _take_back(storage, base_path, old, e)
        with suppress(StorageError):
            storage.delete(note)
            storage.delete_tree(fresh)
        raise
    _let_go(storage, base_path, old)


def _take_back(storage: Storage, base_path: str, old: str, error: PenstockError) -> None:
    """Make sure that the old table is in its place after a swap that failed."""
    try:
        if storage.stat(base_path) is None:
            _move(storage, old, base_path)
    except StorageError:
        raise CommitUnknown(
            f"overwriting {base_path} was cut off between two renames ({error}). The new table takes its place when the path "
            f"is next opened; both are in {old} until then"
        ) from error


def recover(storage: Storage, base_path: str) -> None:
    """Finish a swap that was cut off. Two who do so at once do no harm, nor does one beside a swap that is under way."""
    old = _old_path(base_path)
    if storage.stat(old) is None:
        return
    if not table_exists(storage, base_path):
        try:
            _move(storage, _next_table(storage, old) or old, base_path)
        except StorageError:
            if not table_exists(storage, base_path):  # or somebody else was faster
                raise
    _let_go(storage, base_path, old)


def _let_go(storage: Storage, base_path: str, old: str) -> None:
    """Delete the old table, if it is there, now that another one has its place. What cannot be done now is left to a later write.

    First it goes into the new table, in one step, which fails if that one has just been renamed by the next swap: then `old` is
    no longer what it was, and nothing may be deleted under that name.
    """
    gone = join(base_path, FOLDER, TEMP, f"{clock.new_uuid()}{REPLACED}")
    with suppress(StorageError):
        stop_heartbeat(storage, base_path, OVERWRITE)
        storage.move_tree(old, gone)
        storage.delete_tree(gone)


def _next_table(storage: Storage, old: str) -> str | None:
    """The new table that an old one still holds; None if it holds none that is whole."""
    try:
        name = storage.read(join(old, FOLDER, TEMP, OVERWRITE)).decode()
    except FileNotFoundError:
        return None
    fresh = join(old, FOLDER, TEMP, name)
    return fresh if _is_whole(storage, fresh) else None


def _is_whole(storage: Storage, path: str, instant: str | None = None) -> bool:
    """Whether a table is there with its properties, its commits and all files that these name.

    Args:
        instant: a commit that has to be among them.
    """
    try:
        read_config(storage, path)
        writes = load_timeline(storage, path).writes
        stats = [stat for write in writes for stat in read_metadata(storage, path, write).stats]
    except (TableNotFound, CorruptFile, FileNotFoundError):
        return False
    named: dict[str, set[str]] = defaultdict(set)
    for stat in stats:
        if stat.path:
            folder, _, file = stat.path.rpartition("/")
            named[folder].add(file)
    is_there = bool(writes) if instant is None else instant in {write.time for write in writes}
    return is_there and all(names <= {f.name for f in storage.list(join(path, folder))} for folder, names in named.items())


def _move(storage: Storage, path: str, to: str) -> None:
    """Rename a folder. It is done as well if somebody else did it, or a call of ours whose answer was lost."""
    try:
        storage.move_tree(path, to)
    except StorageError:
        if storage.stat(path) is not None or storage.stat(to) is None:
            raise


def _old_path(base_path: str) -> str:
    parent, name = base_path.rsplit("/", 1)
    return join(parent or "/", f".{name}{REPLACED}")
