"""Names of data files and of partition metafiles: building and parsing them.

A base file is `<file id>_<write token>_<instant>.parquet`; a log file is `.<file id>_<base instant>.log.<version>_<write token>`.
The name of a log file does not contain the instant that wrote it, and two writers may choose the same version. A write token is
`<task>-<stage>-<attempt>`, and no reader uses the number of Spark's stage. So Penstock puts a checksum of the instant in its
place: two writes use different names, and `is_marked_token` can tell whether a given instant wrote a log file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

PARTITION_METAFILE = ".hoodie_partition_metadata"
#: The token of log files that no task wrote: those of a rollback.
UNKNOWN_WRITE_TOKEN = "1-0-1"

_LOG = re.compile(r"\.(.+)_([^_]*)\.log\.([0-9]+)(?:_([0-9]+-[0-9]+-[0-9]+)(\.cdc)?)?")
_BASE = re.compile(r"([^_.][^_]*)_([^_]*)_([0-9]+)(\.[A-Za-z]+)")


@dataclass(frozen=True)
class BaseName:
    """The parts of a base file's name: `<file id>_<write token>_<instant><extension>`."""

    file_id: str
    write_token: str
    instant: str
    extension: str


@dataclass(frozen=True)
class LogName:
    """The parts of a log file's name: `.<file id>_<base instant>.log.<version>_<write token>`."""

    file_id: str
    base_instant: str
    version: int
    #: Empty in names of old releases of Hudi.
    write_token: str
    is_cdc: bool = False


def base_file_name(file_id: str, write_token: str, instant: str) -> str:
    """Build the name of a base file: `<file id>_<write token>_<instant>.parquet`."""
    return f"{file_id}_{write_token}_{instant}.parquet"


def log_file_name(file_id: str, base_instant: str, version: int, write_token: str) -> str:
    """Build the name of a log file: `.<file id>_<base instant>.log.<version>_<write token>`. A slice's versions count from 1."""
    return f".{file_id}_{base_instant}.log.{version}_{write_token}"


def log_order(name: LogName) -> tuple[str, int, str, bool]:
    """Return the sort key that puts a file group's log files in reading order.

    Versions compare as numbers, and a log file without a write token sorts first.
    """
    return name.base_instant, name.version, name.write_token, name.is_cdc


def next_log_version(names: Iterable[LogName], file_id: str, base_instant: str) -> int:
    """Return the version for a slice's next log file: one more than the greatest version of its log files among `names`.

    Args:
        file_id: the file id of the slice.
        base_instant: the base instant of the slice.
    """
    versions = (name.version for name in names if (name.file_id, name.base_instant) == (file_id, base_instant))
    return max(versions, default=0) + 1


def write_token(task: int, stage: int, attempt: int) -> str:
    """Build the token in a file's name that says which attempt of which task wrote the file: `<task>-<stage>-<attempt>`."""
    return f"{task}-{stage}-{attempt}"


def mark_token(write_token: str, instant: str) -> str:
    """Return the write token for a file of the write at `instant`: `write_token`, with a checksum of the instant as stage."""
    task, _, attempt = write_token.split("-")
    return f"{task}-{_instant_number(instant)}-{attempt}"


def is_marked_token(write_token: str, instant: str) -> bool:
    """Whether a file with this write token was written by Penstock in the write at `instant`.

    Penstock's tokens contain a checksum of the instant.
    """
    return write_token.count("-") == 2 and write_token.split("-")[1] == _instant_number(instant)


def _instant_number(instant: str) -> str:
    """Return a checksum of an instant. Write tokens of Penstock's files have it in place of the stage."""
    return str(zlib.crc32(instant.encode()) >> 1)  # 31 bits: Hudi parses the number of a stage as a Java int


def parse_base_name(name: str) -> BaseName | None:
    """Split a base file's name into its parts; return None if `name` is not the name of a base file."""
    match = _BASE.fullmatch(name)
    return BaseName(*match.groups()) if match else None


def parse_log_name(name: str) -> LogName | None:
    """Split a log file's name into its parts; return None if `name` is not the name of a log file."""
    match = _LOG.fullmatch(name)
    if not match:
        return None
    file_id, base_instant, version, token, cdc = match.groups()
    return LogName(file_id, base_instant, int(version), token or "", cdc is not None)


def partition_metafile(instant: str, partition_path: str, date: str) -> bytes:
    """Build the content of a partition's metafile, the file that makes a folder a partition of the table.

    Args:
        instant: the instant of the write that creates the partition.
        date: the current time, for a comment line.
    """
    depth = len(partition_path.split("/")) if partition_path else 0
    return f"#partition metadata\n#{date}\ncommitTime={instant}\npartitionDepth={depth}\n".encode("latin-1")


def is_whole_metafile(content: bytes) -> bool:
    """Whether the content of a partition's metafile has the complete line `partitionDepth=…`, which readers need."""
    return re.search(rb"partitionDepth=[0-9]+\s*\n", content) is not None
