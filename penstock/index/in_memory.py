"""The in-memory index, for tests: knows the file groups that this process wrote, and no others.

Hudi keeps a map of keys in the JVM. After a restart, or with a concurrent writer, every key is new to that map and rows are
written twice. Penstock remembers the file groups that this process wrote with this index instead. Keys are looked for in
these file groups. A write to a partition with any other file group is refused, because that file group may hold the keys too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.model import FileSlice
from penstock.index.index import Index, WrittenFiles
from penstock.options import Options
from penstock.table.state import TableState

_LOCK = Lock()
#: Base path of a table → (partition path, file id) of the file groups that this process wrote.
_WRITTEN: dict[str, set[tuple[str, str]]] = {}


@dataclass(frozen=True)
class InMemoryIndex(Index):
    """An index for tests that only locates keys in file groups that this process wrote."""

    name = "INMEMORY"
    reason_to_keep = "it was asked for, and knows what this process wrote"

    @classmethod
    def from_options(cls, options: Options) -> InMemoryIndex:
        """Return the index. The options are ignored, because the index has no settings."""
        return cls()

    def check_slices(self, table: TableState, slices: Mapping[str, Sequence[FileSlice]]) -> None:
        """Raise OptionError if this process did not write the file group of one of the file slices.

        The slice may hold keys that the index does not know.

        Args:
            slices: the file slices that may hold incoming keys, by partition path.
        """
        super().check_slices(table, slices)
        check_remembered(table.base_path, slices)

    def after_publish(self, files: WrittenFiles) -> None:
        """Record the file groups of the commit as written by this process, in a variable of this module."""
        remember(files.table.base_path, ((stat.partition_path or "", stat.file_id) for stat in files.stats))


def remember(base_path: str, groups: Iterable[tuple[str, str]]) -> None:
    """Record that this process wrote file groups of a table.

    Args:
        base_path: the base path of the table.
        groups: (partition path, file id) of the file groups.
    """
    with _LOCK:
        _WRITTEN.setdefault(base_path, set()).update(groups)


def forget(base_path: str) -> None:
    """Forget which file groups of a table this process wrote, as if the process had just started."""
    with _LOCK:
        _WRITTEN.pop(base_path, None)


def check_remembered(base_path: str, slices: Mapping[str, Sequence[FileSlice]]) -> None:
    """Raise OptionError if this process did not write the file group of one of the file slices.

    Args:
        base_path: the base path of the table.
        slices: the file slices that may hold incoming keys, by partition path.
    """
    with _LOCK:
        known = frozenset(_WRITTEN.get(base_path, ()))
    for partition_path, slices_of_partition in slices.items():
        for file_slice in slices_of_partition:
            if (partition_path, file_slice.file_id) not in known:
                raise OptionError(
                    f"{o.INDEX_TYPE.key}=INMEMORY knows what this process wrote, and file group {file_slice.file_id} of "
                    f"partition {partition_path or '(none)'} of {base_path} was not: its keys would be written twice. Use SIMPLE "
                    "or BLOOM"
                )
