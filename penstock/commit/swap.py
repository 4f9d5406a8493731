"""Save mode `overwrite`: the new table is written aside and takes the old one's place when it is whole.

    1. `<table>/.hoodie/.temp/overwrite-<id>` is written and committed; nobody sees it
    2. `<table>/.hoodie/.temp/overwrite` says that <id> is next
    3. the old table is renamed to `<folder>/.<name>.penstock-old`
    4. the new one is renamed to `<name>`
    5. the old one is deleted

A crash before 3 leaves the old table, and what it holds of the new one goes with the next write. After 3, `recover` finishes
what was begun: whoever next opens the path finds the new table. Rows read from the old table can be written over it, because
it is there until the end.
"""

from __future__ import annotations

from contextlib import suppress

from penstock import clock
from penstock.errors import CommitUnknown, StorageError
from penstock.filegroup.markers import TEMP
from penstock.storage import Storage, join
from penstock.table import table_exists
from penstock.timeline.store import FOLDER

#: The note that says which new table is next; and, with an id behind it, the folder of a new table.
OVERWRITE = "overwrite"


def fresh_path(base_path: str) -> str:
    """Where the new table is written."""
    return join(base_path, FOLDER, TEMP, f"{OVERWRITE}-{clock.new_uuid()}")


def swap(storage: Storage, fresh: str, base_path: str) -> None:
    """Put the new table, which is inside the old one, in its place.

    Raises:
        StorageError: it could not be done, and the old table is where it was.
        CommitUnknown: the storage failed in between; whoever next opens the path finishes it.
    """
    old, name = _old_path(base_path), fresh.rsplit("/", 1)[-1]
    moved = join(old, FOLDER, TEMP, name)
    try:
        storage.delete_tree(old)
        storage.replace(join(base_path, FOLDER, TEMP, OVERWRITE), name.encode())
        _move(storage, base_path, old)
        _move(storage, moved, base_path)
    except StorageError as e:
        _take_back(storage, base_path, old, e)
        with suppress(StorageError):
            storage.delete_tree(fresh)
        raise
    with suppress(StorageError):  # the new table stands; what is left of the old one is deleted by a later write
        storage.delete_tree(old)


def _take_back(storage: Storage, base_path: str, old: str, error: StorageError) -> None:
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
    """Finish a swap that was cut off. Two who do so at once do no harm."""
    old = _old_path(base_path)
    if storage.stat(old) is None:
        return
    if not table_exists(storage, base_path) and (fresh := _next_table(storage, old)):
        _move(storage, fresh, base_path)
    storage.delete_tree(old)  # its place is taken, or was, by a table that somebody deleted since


def _next_table(storage: Storage, old: str) -> str | None:
    """The new table that an old one still holds."""
    try:
        name = storage.read(join(old, FOLDER, TEMP, OVERWRITE)).decode()
    except FileNotFoundError:
        return None
    fresh = join(old, FOLDER, TEMP, name)
    return fresh if table_exists(storage, fresh) else None


def _move(storage: Storage, path: str, to: str) -> None:
    """Rename a folder. It is done as well if somebody else did it, or a call of ours whose answer was lost."""
    try:
        storage.move_tree(path, to)
    except StorageError:
        if storage.stat(path) is not None or storage.stat(to) is None:
            raise


def _old_path(base_path: str) -> str:
    parent, name = base_path.rsplit("/", 1)
    return join(parent or "/", f".{name}.penstock-old")
