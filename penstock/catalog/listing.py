"""The table's partitions and file slices, by listing its folders.

A folder is a partition if it holds the partition metafile; what is below such a folder is not looked at. Only the
partitions asked for are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.errors import CorruptFile
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.filegroup.names import PARTITION_METAFILE
from penstock.filegroup.view import Visibility, group_files, latest_base_slices, latest_merged_slices
from penstock.storage import FileInfo, Storage, join
from penstock.table import TableState
from penstock.timeline.instant import Action, State
from penstock.timeline.store import FOLDER, read_metadata


def list_partitions(table: TableState) -> list[str]:
    """The paths of all partitions; `[""]` for a table without partitions that has files."""
    return [path for path, _ in walk_partitions(table.storage, table.base_path)]


def walk_partitions(storage: Storage, base_path: str, below: str = "") -> Iterator[tuple[str, list[FileInfo]]]:
    """Every partition with its files; each folder is listed once."""
    entries = storage.list(join(base_path, below))
    if any(e.name.startswith(PARTITION_METAFILE) for e in entries):
        yield below, [e for e in entries if not e.is_dir]
        return
    for entry in entries:
        if entry.is_dir and entry.name != FOLDER:
            yield from walk_partitions(storage, base_path, f"{below}/{entry.name}" if below else entry.name)


def is_partition(table: TableState, path: str) -> bool:
    """Whether a path is a partition's, without listing the table."""
    folder = join(table.base_path, path)
    return any(table.storage.stat(join(folder, PARTITION_METAFILE + end)) is not None for end in ("", ".parquet"))


def list_groups(table: TableState, partitions: Iterable[str] | None = None) -> list[FileGroup]:
    """File groups with all their slices, committed or not, of some partitions or of all."""
    if partitions is None:
        listed: Iterable[tuple[str, list[FileInfo]]] = walk_partitions(table.storage, table.base_path)
    else:
        listed = ((p, table.storage.list(join(table.base_path, p))) for p in partitions)
    return [group for path, files in listed for group in group_files(path, files)]


def choose_groups(table: TableState, choose: Callable[[list[str]], Iterable[str]]) -> list[FileGroup]:
    """File groups of the partitions that are chosen of all there are, in that order. Each folder is listed once."""
    listed = dict(walk_partitions(table.storage, table.base_path))
    return [group for path in choose(list(listed)) for group in group_files(path, listed[path])]


def list_base_slices(
    table: TableState, partitions: Sequence[str] | None = None, as_of: str | None = None
) -> dict[str, list[FileSlice]]:
    """The newest committed slice with a base file of each file group, by partition path."""
    return group_by_partition(latest_base_slices(list_groups(table, partitions), load_visibility(table, as_of)))


def list_merged_slices(
    table: TableState, partitions: Sequence[str] | None = None, as_of: str | None = None
) -> dict[str, list[FileSlice]]:
    """The newest committed slice of each file group, with all log files that may hold changes on top of it, by partition path."""
    return group_by_partition(latest_merged_slices(list_groups(table, partitions), load_visibility(table, as_of)))


def group_by_partition(slices: Iterable[FileSlice]) -> dict[str, list[FileSlice]]:
    """Slices by their partition paths."""
    found: dict[str, list[FileSlice]] = {}
    for slice_ in slices:
        found.setdefault(slice_.partition_path, []).append(slice_)
    return found


def load_visibility(table: TableState, as_of: str | None = None) -> Visibility:
    """What a query sees: the timeline, and the file groups that replace commits took out."""
    replaced: dict[tuple[str, str], str] = {}
    for instant in table.timeline.filter(Action.REPLACE_COMMIT, state=State.COMPLETED):
        metadata = read_metadata(table.storage, table.base_path, instant)
        if metadata.replaced is None:
            raise CorruptFile(f"{instant.file_name} of {table.base_path} does not say which file groups it replaced")
        for path, ids in metadata.replaced.items():
            replaced |= {(path, file_id): instant.time for file_id in ids}
    return Visibility(table.timeline, replaced, as_of)
