"""Immutable values for file groups, file slices, base files and log files."""

from __future__ import annotations

from dataclasses import dataclass

#: The identity of a file group: (partition path, file id).
GroupId = tuple[str, str]


@dataclass(frozen=True)
class BaseFile:
    """One version of a file group's rows, as Parquet."""

    path: str
    file_id: str
    instant: str
    size_bytes: int

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class LogFile:
    """A file of changes on top of a base file, in blocks."""

    path: str
    file_id: str
    base_instant: str
    version: int
    write_token: str
    size_bytes: int

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class FileSlice:
    """A base file and the log files on top of it; either may be missing. Log files are in the order in which they are read."""

    partition_path: str
    file_id: str
    base_instant: str
    base_file: BaseFile | None = None
    log_files: tuple[LogFile, ...] = ()

    @property
    def base_bytes(self) -> int:
        """Bytes of the base file; 0 if there is none."""
        return self.base_file.size_bytes if self.base_file else 0

    @property
    def log_bytes(self) -> int:
        """Bytes of all log files."""
        return sum(log.size_bytes for log in self.log_files)

    @property
    def size_bytes(self) -> int:
        """Bytes of the base file and the log files."""
        return self.base_bytes + self.log_bytes


@dataclass(frozen=True)
class FileGroup:
    """All slices with the same file id in a partition, newest first: versions of the same set of rows."""

    partition_path: str
    file_id: str
    slices: tuple[FileSlice, ...]
