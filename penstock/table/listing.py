"""Finds the partitions, file groups and file slices of a table by listing its folders on storage.

A folder is a partition if it holds the file `.hoodie_partition_metadata`. Folders below a partition are not listed. A function
with an argument `partitions` lists only the folders of these partitions.

On an object store one recursive listing returns a thousand files of any folders. So a table is listed there as a whole, and so
are many partitions of a small table. Folders that are listed one by one are listed concurrently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.errors import CorruptFile
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.filegroup.names import PARTITION_METAFILE
from penstock.filegroup.partitions import parent_folders
from penstock.storage import FileInfo, Storage, has_whole_files, join, list_tree_without
from penstock.table.latest_slices import Visibility, group_files, latest_base_slices, latest_merged_slices
from penstock.table.state import TableState
from penstock.timeline.instant import Action, State
from penstock.timeline.store import FOLDER, read_metadata

#: Folders of an object store that are listed concurrently.
_LISTED_AT_ONCE = 16
#: How many partitions must be asked for, for each request that a listing of the whole table may take.
_PARTITIONS_PER_REQUEST = 4


def list_partitions(table: TableState) -> list[str]:
    """Return the paths of all partitions, relative to the base path; `[""]` for a nonpartitioned table that has files."""
    return [path for path, _ in walk_partitions(table.storage, table.base_path)]


def walk_partitions(storage: Storage, base_path: str, below: str = "") -> Iterator[tuple[str, list[FileInfo]]]:
    """Yield each partition path with the files in the partition's folder. Each folder is listed once.

    Args:
        below: the path of the folder to search, relative to the base path; "" for the whole table.
    """
    files = list_tree_without(storage, join(base_path, below), FOLDER)
    if files is not None:
        yield from _find_partitions(base_path, files)
    else:
        yield from _walk_folders(storage, base_path, below)


def _find_partitions(base_path: str, files: Sequence[FileInfo]) -> Iterator[tuple[str, list[FileInfo]]]:
    """Yield each partition path with its files, found among files that were listed before. Paths are sorted folder by folder.

    Args:
        files: all files below the searched folder, at any depth.
    """
    files_by_path = _group_by_folder(base_path, files)
    found: set[str] = set()
    for path in sorted(files_by_path, key=lambda path: path.split("/")):
        outer = ["", *parent_folders(path)] if path else []
        if _has_metafile(files_by_path[path]) and found.isdisjoint(outer):
            found.add(path)
            yield path, files_by_path[path]


def _group_by_folder(base_path: str, files: Iterable[FileInfo]) -> dict[str, list[FileInfo]]:
    """Return files by the path of their folder, relative to the base path. Timelines of other tables below are left out."""
    files_by_path: dict[str, list[FileInfo]] = {}
    for file in files:
        folder = file.path.rpartition("/")[0].removeprefix(base_path).lstrip("/")
        if FOLDER not in folder.split("/"):
            files_by_path.setdefault(folder, []).append(file)
    return files_by_path


def _walk_folders(storage: Storage, base_path: str, below: str) -> Iterator[tuple[str, list[FileInfo]]]:
    """Yield each partition path with its files, by listing folder after folder.

    Args:
        below: the path of the folder to begin with, relative to the base path; "" for the whole table.
    """
    entries = storage.list(join(base_path, below))
    if _has_metafile(entries):
        yield below, [entry for entry in entries if not entry.is_dir]
        return
    for entry in entries:
        if entry.is_dir and entry.name != FOLDER:
            yield from _walk_folders(storage, base_path, f"{below}/{entry.name}" if below else entry.name)


def is_partition(table: TableState, path: str) -> bool:
    """Whether the folder `path`, relative to the base path, is a partition. Checks that the metafile exists; lists no folder."""
    metafile = join(table.base_path, path, PARTITION_METAFILE)
    # With hoodie.partition.metafile.use.base.format Hudi writes the metafile as Parquet.
    return any(table.storage.stat(metafile + suffix) is not None for suffix in ("", ".parquet"))


def find_partitions(table: TableState, paths: Iterable[str]) -> dict[str, list[FileInfo]] | None:
    """Return the files in each of the folders `paths`, in the order of the paths; None if one of the folders is not a partition.

    Args:
        paths: paths relative to the base path.
    """
    found = dict(_list_folders(table.storage, table.base_path, sorted(set(paths))))
    return found if all(map(_has_metafile, found.values())) else None


def _has_metafile(files: Iterable[FileInfo]) -> bool:
    """Whether one of a folder's files is the metafile that makes it a partition. Hudi may also write the metafile as Parquet."""
    return any(file.name.startswith(PARTITION_METAFILE) for file in files)


def list_groups(table: TableState, partitions: Iterable[str] | None = None) -> list[FileGroup]:
    """Return the file groups of the table, each with all its slices, including slices that are not committed.

    Args:
        partitions: the paths of the partitions to list; None for all.
    """
    if partitions is None:
        files_by_path: Iterable[tuple[str, list[FileInfo]]] = walk_partitions(table.storage, table.base_path)
    else:
        files_by_path = _list_folders(table.storage, table.base_path, list(partitions))
    groups: list[FileGroup] = []
    for path, files in files_by_path:
        groups += group_files(path, files)
    return groups


def _list_folders(storage: Storage, base_path: str, paths: Sequence[str]) -> Iterable[tuple[str, list[FileInfo]]]:
    """Return these partition paths with the files in their folders."""
    if not has_whole_files(storage) or len(paths) < 2:
        return ((path, storage.list(join(base_path, path))) for path in paths)
    most_requests = max(1, len(paths) // _PARTITIONS_PER_REQUEST)
    files = list_tree_without(storage, base_path, FOLDER, most_requests)
    if files is not None:
        files_by_path = _group_by_folder(base_path, files)
        return [(path, files_by_path.get(path, [])) for path in paths]
    with ThreadPoolExecutor(_LISTED_AT_ONCE) as pool:
        listed = pool.map(lambda path: storage.list(join(base_path, path)), paths)
        return list(zip(paths, listed, strict=True))


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
