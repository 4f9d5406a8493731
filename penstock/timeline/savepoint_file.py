"""The file of a savepoint on the timeline: the data files that the savepoint keeps, as a value and as Hudi's Avro.

A savepoint has the same time as its commit. A savepoint has no requested file: an empty inflight file is created first, then
the completed file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import CorruptFile
from penstock.formats.avro.container import read_container, write_container

_RECORD = "HoodieSavepointMetadata"


@dataclass(frozen=True)
class Savepoint:
    """A savepoint of one commit: the names of the data files that a query as of that commit reads. Cleans keep these files."""

    #: The time of the commit.
    instant: str
    #: Names of the data files, by partition path.
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    user: str = ""
    comment: str = ""
    #: When the savepoint was made, in milliseconds since 1970.
    made_ms: int = 0


def write_savepoint(savepoint: Savepoint) -> bytes:
    """Encode a savepoint as the content of `<instant>.savepoint`, as Hudi 0.14 and 0.15 write it."""
    record = {
        "savepointedBy": savepoint.user,
        "savepointedAt": savepoint.made_ms,
        "comments": savepoint.comment,
        "partitionMetadata": {
            path: {"partitionPath": path, "savepointDataFile": list(names)} for path, names in savepoint.files.items()
        },
        "version": 1,
    }
    return write_container(_RECORD, record)


def read_savepoint(content: bytes, instant: str, file_name: str) -> Savepoint:
    """Decode the savepoint in a file of any Hudi release.

    Args:
        instant: the time of the savepoint and of its commit. The file does not hold it.
        file_name: the name of the file, for errors.

    Raises:
        CorruptFile: the file is empty, torn, or not a savepoint.
    """
    try:
        record = read_container(content)
        partitions = record["partitionMetadata"].values()
        return Savepoint(
            instant=instant,
            files={partition["partitionPath"]: tuple(partition["savepointDataFile"]) for partition in partitions},
            user=record["savepointedBy"] or "",
            comment=record["comments"] or "",
            made_ms=int(record["savepointedAt"]),
        )
    except (CorruptFile, KeyError, TypeError, ValueError, AttributeError) as e:
        raise CorruptFile(
            f"savepoint {file_name} does not say which files it holds ({e}); restore it from a copy, or delete the savepoint"
        ) from e
