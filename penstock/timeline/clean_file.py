"""The files of a clean on the timeline: its plan and its result, as values and as Hudi's Avro.

A plan lists full paths of files by partition. The table may have been moved since the plan was written, so only the file name
at the end of each path is used, and is looked up in the folder of that partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import CorruptFile
from penstock.formats.avro.container import read_container, write_container
from penstock.timeline.instant import Action, Instant, State

_VERSION = 2
_PLAN = "HoodieCleanerPlan"
_RESULT = "HoodieCleanMetadata"
#: The key in the extra metadata for the savepoints at the time of a clean. The next clean compares them with the savepoints
#: of its own time, to notice that one was deleted.
_SAVEPOINTS = "savepointed_timestamps"


@dataclass(frozen=True)
class CleanPlan:
    """The plan of a clean: the files to delete by partition path, and the partitions that will have no files left."""

    policy: str
    #: Names of the files to delete, by partition path.
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Paths of the partitions that will have no files left.
    partitions: tuple[str, ...] = ()
    #: The earliest commit whose files are all kept; None for a policy that does not count commits.
    earliest: Instant | None = None
    #: The time of the newest completed commit when the plan was made.
    last_commit: str = ""
    #: The times of the savepoints when the plan was made.
    savepoints: tuple[str, ...] = ()


@dataclass(frozen=True)
class CleanedPartition:
    """What a clean did in one partition: the files it deleted, and the files it could not delete."""

    #: Names of deleted files.
    deleted: tuple[str, ...] = ()
    #: Names of files that could not be deleted, or did not exist.
    failed: tuple[str, ...] = ()
    #: Whether the partition has no files left.
    is_gone: bool = False


@dataclass(frozen=True)
class CleanResult:
    """The result of a clean: the deleted files by partition path, and the earliest commit whose files were all kept."""

    instant: str
    #: The time of the earliest commit whose files were all kept; empty for a policy that does not count commits.
    earliest: str
    last_commit: str
    partitions: Mapping[str, CleanedPartition]
    policy: str = ""
    milliseconds: int = 0
    savepoints: tuple[str, ...] = ()

    @property
    def files_deleted(self) -> int:
        """The number of files that the clean deleted, in all partitions."""
        return sum(len(partition.deleted) for partition in self.partitions.values())


def write_clean_plan(plan: CleanPlan, base_path: str) -> bytes:
    """Encode a clean plan as the content of `<instant>.clean.requested` and `.clean.inflight`, as Hudi 0.14 and 0.15 write it."""
    record = {
        "earliestInstantToRetain": _instant_record(plan.earliest) if plan.earliest else None,
        "lastCompletedCommitTimestamp": plan.last_commit,
        "policy": plan.policy,
        "filesToBeDeletedPerPartition": {},
        "version": _VERSION,
        "filePathsToBeDeletedPerPartition": {
            path: [_file_record(base_path, path, name) for name in names] for path, names in plan.files.items()
        },
        "partitionsToBeDeleted": list(plan.partitions),
        "extraMetadata": _extra(plan.savepoints),
    }
    return write_container(_PLAN, record)


def _instant_record(instant: Instant) -> dict[str, str]:
    """Return an instant as the Avro record `HoodieActionInstant`."""
    return {"timestamp": instant.time, "action": instant.action.value, "state": instant.state.name}


def _file_record(base_path: str, partition_path: str, name: str) -> dict[str, Any]:
    """Return the Avro record of a file to delete, with its full path."""
    path = "/".join(part for part in (base_path, partition_path, name) if part)
    return {"filePath": path, "isBootstrapBaseFile": False}


def read_clean_plan(content: bytes, file_name: str) -> CleanPlan:
    """Decode the clean plan in a file of any Hudi release.

    Bootstrap base files, which lie outside of the table's folder, are left out.

    Args:
        file_name: the name of the file, for errors.

    Raises:
        CorruptFile: the file is empty, torn, not a plan, or names a partition outside of the table.
    """
    record = _read_record(content, file_name)
    try:
        earliest = record["earliestInstantToRetain"]
        plan = CleanPlan(
            policy=record["policy"],
            files=_read_files(record),
            partitions=tuple(record["partitionsToBeDeleted"] or ()),
            earliest=_read_instant(earliest) if earliest else None,
            last_commit=record["lastCompletedCommitTimestamp"] or "",
            savepoints=_savepoints(record),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise CorruptFile(f"{file_name} is not a clean plan: {e}") from e
    for path in (*plan.files, *plan.partitions):
        if any(part in (".", "..") or part.startswith(".hoodie") for part in path.split("/")):
            raise CorruptFile(f"{file_name} names partition {path!r}, which is outside of the table's data")
    return plan


def _read_files(record: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return partition path → names of the files to delete, from the Avro record of a clean plan.

    Old releases of Hudi fill `filesToBeDeletedPerPartition`, newer ones `filePathsToBeDeletedPerPartition`.
    """
    paths_by_partition: dict[str, list[str]] = {}
    for partition_path, paths in (record["filesToBeDeletedPerPartition"] or {}).items():
        paths_by_partition[partition_path] = list(paths)
    for partition_path, files in (record["filePathsToBeDeletedPerPartition"] or {}).items():
        paths = [file["filePath"] for file in files if not file.get("isBootstrapBaseFile")]
        paths_by_partition.setdefault(partition_path, []).extend(paths)
    return {path: tuple(name.rsplit("/", 1)[-1] for name in paths) for path, paths in paths_by_partition.items()}


def _read_instant(record: Mapping[str, str]) -> Instant:
    """Return the instant in an Avro record `HoodieActionInstant`."""
    return Instant(record["timestamp"], Action(record["action"]), State[record["state"]])


def write_clean_result(result: CleanResult) -> bytes:
    """Encode the result of a clean as the content of `<instant>.clean`."""
    record = {
        "startCleanTime": result.instant,
        "timeTakenInMillis": result.milliseconds,
        "totalFilesDeleted": result.files_deleted,
        "earliestCommitToRetain": result.earliest,
        "lastCompletedCommitTimestamp": result.last_commit,
        "partitionMetadata": {
            path: _partition_record(path, partition, result.policy) for path, partition in result.partitions.items()
        },
        "version": _VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": _extra(result.savepoints),
    }
    return write_container(_RESULT, record)


def _partition_record(path: str, partition: CleanedPartition, policy: str) -> dict[str, Any]:
    """Return the Avro record of a partition in the result of a clean."""
    return {
        "partitionPath": path,
        "policy": policy,
        "deletePathPatterns": [*partition.deleted, *partition.failed],
        "successDeleteFiles": list(partition.deleted),
        "failedDeleteFiles": list(partition.failed),
        "isPartitionDeleted": partition.is_gone,
    }


def read_clean_result(content: bytes, file_name: str) -> CleanResult:
    """Decode the result of a clean from the content of `<instant>.clean`, written by any Hudi release.

    Args:
        file_name: the name of the file, for errors.

    Raises:
        CorruptFile: the file is empty, torn, or not the result of a clean.
    """
    record = _read_record(content, file_name)
    try:
        return CleanResult(
            instant=record["startCleanTime"],
            earliest=record["earliestCommitToRetain"] or "",
            last_commit=record["lastCompletedCommitTimestamp"] or "",
            partitions={path: _read_partition(partition) for path, partition in record["partitionMetadata"].items()},
            milliseconds=record["timeTakenInMillis"],
            savepoints=_savepoints(record),
        )
    except (KeyError, TypeError, AttributeError) as e:
        raise CorruptFile(f"{file_name} does not say what a clean did: {e}") from e


def _read_partition(record: Mapping[str, Any]) -> CleanedPartition:
    """Return what a clean did in one partition, from an Avro record: the files it deleted, and the files it could not delete."""
    return CleanedPartition(
        deleted=tuple(record["successDeleteFiles"]),
        failed=tuple(record["failedDeleteFiles"]),
        is_gone=bool(record.get("isPartitionDeleted")),
    )


def _read_record(content: bytes, file_name: str) -> dict[str, Any]:
    """Decode the Avro record in a clean's file. Raises CorruptFile with the name of the file if the content is not Avro."""
    try:
        return read_container(content)
    except CorruptFile as e:
        raise CorruptFile(f"{file_name}: {e}") from e


def _extra(savepoints: tuple[str, ...]) -> dict[str, str]:
    """Return the extra metadata of a clean: the times of the savepoints that existed when it was planned; empty if none did.

    The next clean compares them with the savepoints that exist then, to notice that one was deleted.
    """
    return {_SAVEPOINTS: ",".join(savepoints)} if savepoints else {}


def _savepoints(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the times of the savepoints that existed when a clean was planned, from the extra metadata of its record."""
    text = (record.get("extraMetadata") or {}).get(_SAVEPOINTS) or ""
    return tuple(part for part in text.split(",") if part)
