"""Save mode `overwrite`: the new table is written beside the old one and takes its place when it is whole.

    1. `<folder>/.<name>.penstock-new-<id>` is written and committed; nobody sees it
    2. the old table is renamed to `.<name>.penstock-old-<id>`
    3. the new one is renamed to `<name>`
    4. the old one is deleted

A crash before 2 leaves the old table. After it, `recover` finishes what was begun: whoever next opens the path finds one
table or the other. Rows read from the old table can be written over it, because it is there until the end.
"""

from __future__ import annotations

from penstock import clock
from penstock.storage import Storage, join
from penstock.table import table_exists
from penstock.timeline.store import load_timeline

_NEW, _OLD = "penstock-new-", "penstock-old-"


def fresh_path(base_path: str) -> str:
    """Where the new table is written."""
    return _sibling(base_path, f"{_NEW}{clock.new_uuid()}")


def swap(storage: Storage, fresh: str, base_path: str) -> None:
    """Put the new table in the place of the old one."""
    old = fresh.replace(_NEW, _OLD)
    storage.move_tree(base_path, old)
    storage.move_tree(fresh, base_path)
    storage.delete_tree(old)


def recover(storage: Storage, base_path: str) -> None:
    """Finish a swap that was cut off."""
    parent, name = base_path.rsplit("/", 1)
    prefix = f".{name}.{_OLD}"
    for entry in storage.list(parent or "/"):
        if not entry.is_dir or not entry.name.startswith(prefix):
            continue
        if not table_exists(storage, base_path):
            fresh = entry.path.replace(_OLD, _NEW)
            is_whole = table_exists(storage, fresh) and load_timeline(storage, fresh).writes
            storage.move_tree(fresh if is_whole else entry.path, base_path)
        if table_exists(storage, base_path) and storage.stat(entry.path) is not None:
            storage.delete_tree(entry.path)


def _sibling(base_path: str, suffix: str) -> str:
    parent, name = base_path.rsplit("/", 1)
    return join(parent or "/", f".{name}.{suffix}")
