"""Foreign files: files in the folder of a table whose names show that they do not belong to the table. No query reads them."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.filegroup.names import parse_base_name
from penstock.storage import FileInfo, Storage, join, walk
from penstock.timeline.store import FOLDER

#: The empty file with which Spark marks a complete write of plain files.
_SUCCESS = "_SUCCESS"


def find_foreign_files(storage: Storage, base_path: str) -> Iterator[str]:
    """Yield the paths, relative to the base path, of all files at any depth whose names are not those of Hudi's base files.

    Hidden files (names that begin with a dot) are left out, because Hudi's log files and `.hoodie_partition_metadata` are hidden,
    too. Spark's file `_SUCCESS` is left out.
    """
    for file in _visible_files(storage, base_path):
        if file.name != _SUCCESS and parse_base_name(file.name) is None:
            yield _relative(file, base_path)


def find_parquet_file(storage: Storage, base_path: str) -> str | None:
    """Return the path, relative to the base path, of a Parquet file at any depth of a folder; None if the folder has none."""
    for file in _visible_files(storage, base_path):
        if is_parquet(file.name):
            return _relative(file, base_path)
    return None


def is_parquet(path: str) -> bool:
    """Whether the path of a file ends in `.parquet`."""
    return path.endswith(".parquet")


def _visible_files(storage: Storage, base_path: str) -> Iterator[FileInfo]:
    """Yield the files at any depth of a table's folder, except those in `.hoodie` and hidden ones."""
    for entry in storage.list(base_path):
        if entry.is_dir and entry.name == FOLDER:
            continue
        for file in walk(storage, entry.path) if entry.is_dir else (entry,):
            if not file.name.startswith("."):
                yield file


def _relative(file: FileInfo, base_path: str) -> str:
    """Return the path of a file relative to the base path."""
    return file.path.removeprefix(join(base_path, "")).lstrip("/")
