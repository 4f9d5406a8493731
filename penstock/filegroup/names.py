"""Names of data files, and what they tell.

A base file is `<file id>_<write token>_<instant>.parquet`; a log file `.<file id>_<base instant>.log.<version>_<token>`.
The name of a log file has no place for the instant that wrote it, and two writers may take the same version. So in ours the
number of Spark's stage, which nobody reads, is one that is made of the instant: no two writes give a file the same name, and
the name tells whether an instant wrote it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

PARTITION_METAFILE = ".hoodie_partition_metadata"
UNKNOWN_WRITE_TOKEN = "1-0-1"  # of log files that no task wrote: those of a rollback

_LOG = re.compile(r"\.(.+)_([^_]*)\.log\.([0-9]+)(?:_([0-9]+-[0-9]+-[0-9]+)(\.cdc)?)?")
_BASE = re.compile(r"([^_.][^_]*)_([^_]*)_([0-9]+)(\.[A-Za-z]+)")


@dataclass(frozen=True)
class BaseName:
    """The parts of a base file's name."""

    file_id: str
    write_token: str
    instant: str
    extension: str


@dataclass(frozen=True)
class LogName:
    """The parts of a log file's name."""

    file_id: str
    base_instant: str
    version: int
    write_token: str
    is_cdc: bool = False


def base_file_name(file_id: str, write_token: str, instant: str) -> str:
    """The name of a base file."""
    return f"{file_id}_{write_token}_{instant}.parquet"


def log_file_name(file_id: str, base_instant: str, version: int, write_token: str) -> str:
    """The name of a log file; versions of one file slice count from 1."""
    return f".{file_id}_{base_instant}.log.{version}_{write_token}"


def log_order(name: LogName) -> tuple[str, int, str, bool]:
    """What the log files of a file group are read in the order of: a version is a number, and no write token comes first."""
    return name.base_instant, name.version, name.write_token, name.is_cdc


def next_log_version(names: Iterable[LogName], file_id: str, base_instant: str) -> int:
    """The version of the next log file of a file slice: one more than the greatest there is."""
    versions = (name.version for name in names if (name.file_id, name.base_instant) == (file_id, base_instant))
    return max(versions, default=0) + 1


def write_token(task: int, stage: int, attempt: int) -> str:
    """Which attempt of which task wrote a file."""
    return f"{task}-{stage}-{attempt}"


def log_token(write_token: str, instant: str) -> str:
    """The write token of log files that an instant writes: of the task and the attempt that `write_token` is of."""
    task, _, attempt = write_token.split("-")
    return f"{task}-{_number_of(instant)}-{attempt}"


def is_log_token_of(write_token: str, instant: str) -> bool:
    """Whether a log file is one that Penstock wrote at this instant."""
    return write_token.count("-") == 2 and write_token.split("-")[1] == _number_of(instant)


def _number_of(instant: str) -> str:
    return str(zlib.crc32(instant.encode()) >> 1)  # Java reads it as an int


def parse_base_name(name: str) -> BaseName | None:
    """The parts of a base file's name, or None."""
    match = _BASE.fullmatch(name)
    return BaseName(*match.groups()) if match else None


def parse_log_name(name: str) -> LogName | None:
    """The parts of a log file's name, or None."""
    match = _LOG.fullmatch(name)
    if not match:
        return None
    file_id, base, version, token, cdc = match.groups()
    return LogName(file_id, base, int(version), token or "", cdc is not None)


def partition_metafile(instant: str, partition_path: str, date: str) -> bytes:
    """The content of the file that makes a folder a partition of the table."""
    depth = len(partition_path.split("/")) if partition_path else 0
    return f"#partition metadata\n#{date}\ncommitTime={instant}\npartitionDepth={depth}\n".encode("latin-1")


def is_whole_metafile(content: bytes) -> bool:
    """Whether a partition's metafile, ours or Hudi's, says what readers look for in it."""
    return re.search(rb"partitionDepth=[0-9]+\s*\n", content) is not None
