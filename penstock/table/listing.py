"""Finds the partitions, file groups and file slices of a table by listing its folders on storage.

A folder is a partition if it holds the file `.hoodie_partition_metadata`. Folders below a partition are not listed. A function
with an argument `partitions` lists only the folders of these partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from penstock.errors import CorruptFile
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.filegroup.names import PARTITION_METAFILE
from penstock.storage import FileInfo, Storage, join
from penstock.table.latest_slices import Visibility, group_files, latest_base_slices, latest_merged_slices
from penstock.table.state import TableState
from penstock.timeline.instant import Action, State
from penstock.timeline.store import FOLDER, read_metadata


def list_partitions(table: TableState) -> list[str]:
    """Return the paths of all partitions, relative to the base path; `[""]` for a nonpartitioned table that has files."""
    return [path for path, _ in walk_partitions(table.storage, table.base_path)]


def walk_partitions(storage: Storage, base_path: str, below: str = "") -> Iterator[tuple[str, list[FileInfo]]]:
    """Yield each partition path with the files in the partition's folder. Each folder is listed once.

    Args:
        below: the path of the folder to search, relative to the base path; "" for the whole table.
    """
    entries = storage.list(join(base_path, below))
    if any(entry.name.startswith(PARTITION_METAFILE) for entry in entries):
        yield below, [entry for entry in entries if not entry.is_dir]
        return
    for entry in entries:
        if entry.is_dir and entry.name != FOLDER:
            yield from walk_partitions(storage, base_path, f"{below}/{entry.name}" if below else entry.name)


def is_partition(table: TableState, path: str) -> bool:
    """Whether the folder `path`, relative to the base path, is a partition. Checks that the metafile exists; lists no folder."""
    metafile = join(table.base_path, path, PARTITION_METAFILE)
    # With hoodie.partition.metafile.use.base.format Hudi writes the metafile as Parquet.
    return any(table.storage.stat(metafile + suffix) is not None for suffix in ("", ".parquet"))


def list_groups(table: TableState, partitions: Iterable[str] | None = None) -> list[FileGroup]:
    """Return the file groups of the table, each with all its slices, including slices that are not committed.

    Args:
        partitions: the paths of the partitions to list; None for all.
    """
    if partitions is None:
        files_by_path: Iterable[tuple[str, list[FileInfo]]] = walk_partitions(table.storage, table.base_path)
    else:
        files_by_path = ((path, table.storage.list(join(table.base_path, path))) for path in partitions)
    groups: list[FileGroup] = []
    for path, files in files_by_path:
        groups += group_files(path, files)
    return groups


def list_files(table: TableState) -> dict[str, list[FileInfo]]:
    """Return the files in each partition's folder, by partition path. Each folder is listed once."""
    return dict(walk_partitions(table.storage, table.base_path))


def group_partitions(files_by_path: Mapping[str, list[FileInfo]], paths: Iterable[str]) -> list[FileGroup]:
    """Return the file groups of the partitions `paths`, in the order of `paths`, without listing folders.

    Args:
        files_by_path: the files of every partition, as `list_files` returns them.
    """
    groups: list[FileGroup] = []
    for path in paths:
        groups += group_files(path, files_by_path[path])
    return groups


def list_base_slices(
    table: TableState, partitions: Sequence[str] | None = None, as_of: str | None = None
) -> dict[str, list[FileSlice]]:
    """Return the newest committed slice that has a base file, for each file group, as lists by partition path.

    Args:
        partitions: the paths of the partitions to list; None for all.
        as_of: the instant time of a time travel query; None for the latest commit.
    """
    return group_by_partition(latest_base_slices(list_groups(table, partitions), load_visibility(table, as_of)))


def list_merged_slices(
    table: TableState, partitions: Sequence[str] | None = None, as_of: str | None = None
) -> dict[str, list[FileSlice]]:
    """Return the newest committed slice of each file group, with or without a base file, as lists by partition path.

    Each slice has all its log files, also those that were written while a compaction of the slice was pending.

    Args:
        partitions: the paths of the partitions to list; None for all.
        as_of: the instant time of a time travel query; None for the latest commit.
    """
    return group_by_partition(latest_merged_slices(list_groups(table, partitions), load_visibility(table, as_of)))


def group_by_partition(slices: Iterable[FileSlice]) -> dict[str, list[FileSlice]]:
    """Return the file slices as lists by partition path. In each list the slices keep their order."""
    slices_by_path: dict[str, list[FileSlice]] = {}
    for file_slice in slices:
        slices_by_path.setdefault(file_slice.partition_path, []).append(file_slice)
    return slices_by_path


def load_visibility(table: TableState, as_of: str | None = None) -> Visibility:
    """Return which instants and file groups a query sees. Reads the completed replace commits, to leave out replaced groups.

    Args:
        as_of: the instant time of a time travel query; None for the latest commit.

    Raises:
        CorruptFile: a replace commit does not name the file groups that it replaced.
    """
    replaced: dict[tuple[str, str], str] = {}
    for instant in table.timeline.filter(Action.REPLACE_COMMIT, state=State.COMPLETED):
        metadata = read_metadata(table.storage, table.base_path, instant)
        if metadata.replaced is None:
            raise CorruptFile(f"{instant.file_name} of {table.base_path} does not say which file groups it replaced")
        for path, ids in metadata.replaced.items():
            replaced |= {(path, file_id): instant.time for file_id in ids}
    return Visibility(table.timeline, replaced, as_of)
