"""Cleaning on the timeline: what a clean is going to delete, and what it did, as values and as Hudi's Avro.

A plan names files in full. A table may have been moved since, so only the last part of a name counts, below the partition
that the plan gives for it; and a name that is not a data file's is never taken for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import CorruptFile
from penstock.formats.avro.container import read_container, write_container
from penstock.timeline.instant import Action, Instant, State

_VERSION = 2
_PLAN, _RESULT = "HoodieCleanerPlan", "HoodieCleanMetadata"
#: In the extra metadata: the savepoints that a clean has seen, so that the next one notices when one is gone.
_SAVEPOINTS = "savepointed_timestamps"


@dataclass(frozen=True)
class CleanPlan:
    """What a clean deletes."""

    policy: str
    #: Names of files by partition path.
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Partitions that have nothing left in them.
    partitions: tuple[str, ...] = ()
    #: The earliest commit whose files all stay; None where the policy knows none.
    earliest: Instant | None = None
    #: The newest commit when the plan was made.
    last_commit: str = ""
    savepoints: tuple[str, ...] = ()


@dataclass(frozen=True)
class CleanedPartition:
    """What was deleted of one partition, by name; and what could not be, or was gone."""

    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    is_gone: bool = False


@dataclass(frozen=True)
class CleanResult:
    """What a clean did."""

    instant: str
    #: The earliest commit whose files all stayed; empty where the policy knows none.
    earliest: str
    last_commit: str
    partitions: Mapping[str, CleanedPartition]
    policy: str = ""
    milliseconds: int = 0
    savepoints: tuple[str, ...] = ()

    @property
    def files_deleted(self) -> int:
        """How many files were deleted."""
        return sum(len(one.deleted) for one in self.partitions.values())


def write_clean_plan(plan: CleanPlan, base_path: str) -> bytes:
    """The content of `<instant>.clean.requested`, and of its inflight file, as Hudi 0.14 and 0.15 write it."""
    earliest = plan.earliest
    record = {
        "earliestInstantToRetain": earliest
        and {"timestamp": earliest.time, "action": earliest.action.value, "state": earliest.state.name},
        "lastCompletedCommitTimestamp": plan.last_commit,
        "policy": plan.policy,
        "filesToBeDeletedPerPartition": {},
        "version": _VERSION,
        "filePathsToBeDeletedPerPartition": {
            path: [{"filePath": "/".join(filter(None, (base_path, path, name))), "isBootstrapBaseFile": False} for name in names]
            for path, names in plan.files.items()
        },
        "partitionsToBeDeleted": list(plan.partitions),
        "extraMetadata": _extra(plan.savepoints),
    }
    return write_container(_PLAN, record)


def read_clean_plan(content: bytes, file_name: str) -> CleanPlan:
    """A plan of any Hudi release. Files outside the table, of one that was bootstrapped, are left alone.

    Raises:
        CorruptFile: the file is empty, torn, not a plan, or leads out of the table.
    """
    record = _record(content, file_name)
    try:
        by_path: dict[str, list[str]] = {
            path: list(names) for path, names in (record["filesToBeDeletedPerPartition"] or {}).items()
        }
        for path, files in (record["filePathsToBeDeletedPerPartition"] or {}).items():
            by_path.setdefault(path, []).extend(f["filePath"] for f in files if not f.get("isBootstrapBaseFile"))
        kept = record["earliestInstantToRetain"]
        plan = CleanPlan(
            policy=record["policy"],
            files={path: tuple(name.rsplit("/", 1)[-1] for name in names) for path, names in by_path.items()},
            partitions=tuple(record["partitionsToBeDeleted"] or ()),
            earliest=kept and _instant(kept),
            last_commit=record["lastCompletedCommitTimestamp"] or "",
            savepoints=_savepoints(record),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise CorruptFile(f"{file_name} is not a clean plan: {e}") from e
    for path in (*plan.files, *plan.partitions):
        if any(part in (".", "..") or part.startswith(".hoodie") for part in path.split("/")):
            raise CorruptFile(f"{file_name} names partition {path!r}, which is outside of the table's data")
    return plan


def _instant(kept: Mapping[str, str]) -> Instant:
    return Instant(kept["timestamp"], Action(kept["action"]), State[kept["state"]])


def write_clean_result(result: CleanResult) -> bytes:
    """The content of `<instant>.clean`."""
    record = {
        "startCleanTime": result.instant,
        "timeTakenInMillis": result.milliseconds,
        "totalFilesDeleted": result.files_deleted,
        "earliestCommitToRetain": result.earliest,
        "lastCompletedCommitTimestamp": result.last_commit,
        "partitionMetadata": {path: _partition_record(path, one, result.policy) for path, one in result.partitions.items()},
        "version": _VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": _extra(result.savepoints),
    }
    return write_container(_RESULT, record)


def _partition_record(path: str, one: CleanedPartition, policy: str) -> dict[str, Any]:
    return {
        "partitionPath": path,
        "policy": policy,
        "deletePathPatterns": [*one.deleted, *one.failed],
        "successDeleteFiles": list(one.deleted),
        "failedDeleteFiles": list(one.failed),
        "isPartitionDeleted": one.is_gone,
    }


def read_clean_result(content: bytes, file_name: str) -> CleanResult:
    """What a clean of any Hudi release did. Raises CorruptFile."""
    record = _record(content, file_name)
    try:
        return CleanResult(
            instant=record["startCleanTime"],
            earliest=record["earliestCommitToRetain"] or "",
            last_commit=record["lastCompletedCommitTimestamp"] or "",
            partitions={
                path: CleanedPartition(
                    tuple(one["successDeleteFiles"]), tuple(one["failedDeleteFiles"]), bool(one.get("isPartitionDeleted"))
                )
                for path, one in record["partitionMetadata"].items()
            },
            milliseconds=record["timeTakenInMillis"],
            savepoints=_savepoints(record),
        )
    except (KeyError, TypeError, AttributeError) as e:
        raise CorruptFile(f"{file_name} does not say what a clean did: {e}") from e


def _record(content: bytes, file_name: str) -> dict[str, Any]:
    try:
        return read_container(content)
    except CorruptFile as e:
        raise CorruptFile(f"{file_name}: {e}") from e


def _extra(savepoints: tuple[str, ...]) -> dict[str, str]:
    return {_SAVEPOINTS: ",".join(savepoints)} if savepoints else {}


def _savepoints(record: Mapping[str, Any]) -> tuple[str, ...]:
    text = (record.get("extraMetadata") or {}).get(_SAVEPOINTS) or ""
    return tuple(part for part in text.split(",") if part)
