"""The in-memory index: what this process has written to a table, it knows; and nothing else. For tests.

Hudi keeps a map of keys in the JVM, so that after a restart, or beside another writer, every key is new and rows are there twice.
Here the process remembers the file groups that it wrote with this index. Keys are looked for in these, and a partition with any
other file group is refused, since that may hold them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.model import FileSlice

_LOCK = Lock()
#: (partition path, file id) of the file groups of each table.
_WRITTEN: dict[str, set[tuple[str, str]]] = {}


def remember(base_path: str, groups: Iterable[tuple[str, str]]) -> None:
    """These file groups, by partition path and file id, were written by this process."""
    with _LOCK:
        _WRITTEN.setdefault(base_path, set()).update(groups)


def forget(base_path: str) -> None:
    """As if the process had just begun."""
    with _LOCK:
        _WRITTEN.pop(base_path, None)


def check_remembered(base_path: str, slices: Mapping[str, Sequence[FileSlice]]) -> None:
    """Refuse file groups that this process did not write.

    Raises:
        OptionError: there is one, whose keys the index does not know.
    """
    with _LOCK:
        known = frozenset(_WRITTEN.get(base_path, ()))
    for path, its in slices.items():
        for one in its:
            if (path, one.file_id) not in known:
                raise OptionError(
                    f"{o.INDEX_TYPE.key}=INMEMORY knows what this process wrote, and file group {one.file_id} of partition "
                    f"{path or '(none)'} of {base_path} was not: its keys would be there twice. Use SIMPLE or BLOOM"
                )
