"""Immutable values for file groups, file slices, base files and log files."""

from __future__ import annotations

from dataclasses import dataclass

#: The identity of a file group: (partition path, file id).
GroupId = tuple[str, str]


@dataclass(frozen=True)
class BaseFile:
    """A base file: a Parquet file with the rows of a file group as of the write at `instant`."""

    path: str
    file_id: str
    instant: str
    size_bytes: int

    @property
    def name(self) -> str:
        """The file's name, without its folder."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class LogFile:
    """A log file: blocks of changed rows and deleted keys, on top of the base file of `base_instant`."""

    path: str
    file_id: str
    base_instant: str
    version: int
    write_token: str
    size_bytes: int

    @property
    def name(self) -> str:
        """The file's name, without its folder."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class FileSlice:
    """A base file and the log files on top of it, in reading order. There may be no base file, or no log files."""

    partition_path: str
    file_id: str
    base_instant: str
    base_file: BaseFile | None = None
    log_files: tuple[LogFile, ...] = ()

    @property
    def base_bytes(self) -> int:
        """Size of the base file in bytes; 0 if there is none."""
        return self.base_file.size_bytes if self.base_file else 0

    @property
    def log_bytes(self) -> int:
        """Size of all log files together, in bytes."""
        return sum(log.size_bytes for log in self.log_files)

    @property
    def size_bytes(self) -> int:
        """Size of the base file and the log files together, in bytes."""
        return self.base_bytes + self.log_bytes


@dataclass(frozen=True)
class FileGroup:
    """All file slices with the same file id in a partition, newest first. Each slice is a version of the same set of rows."""

    partition_path: str
    file_id: str
    slices: tuple[FileSlice, ...]
