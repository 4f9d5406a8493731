"""Plans of compactions and log compactions: dataclasses here, Avro records on disk.

A plan is the content of `<instant>.compaction.requested` or `<instant>.logcompaction.requested`. For each file group to compact,
the plan lists the base file and the log files of one file slice, by file name without folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import CorruptFile
from penstock.formats.avro.container import read_container, write_container

_RECORD = "HoodieCompactionPlan"
_VERSION = 2  # the plan holds file names, not full paths


@dataclass(frozen=True)
class CompactionOperation:
    """One file slice to compact: its file group, and the names of its base file and log files."""

    partition_path: str
    file_id: str
    base_instant: str
    #: The name of the base file; None if the slice has only log files.
    base_file: str | None
    #: Names of the log files, in reading order.
    log_files: tuple[str, ...]
    #: Measures of the work (sizes and counts of files), under Hudi's names. Hudi's compactor needs TOTAL_LOG_FILES_SIZE.
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CompactionPlan:
    """The plan of one compaction or log compaction: file slices to compact, in the order in which the strategy chose them."""

    operations: tuple[CompactionOperation, ...] = ()
    #: The Java class that Hudi runs the operations with; None: its default compactor.
    runner: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    #: The field `preserveHoodieMetadata` as Hudi fills it. Compacted rows keep their meta columns whether it is true or false.
    preserves_meta: bool = False


def write_compaction_plan(plan: CompactionPlan) -> bytes:
    """Encode a compaction plan as the content of its requested file, as Hudi 0.14 and 0.15 write it."""
    runner = {"compactorClassName": plan.runner, "strategyParams": dict(plan.parameters), "version": 1}
    record = {
        "operations": [_operation_record(operation) for operation in plan.operations],
        "extraMetadata": dict(plan.extra) or None,
        "version": _VERSION,
        "strategy": runner if plan.runner else None,
        "preserveHoodieMetadata": plan.preserves_meta,
    }
    return write_container(_RECORD, record)


def _operation_record(operation: CompactionOperation) -> dict[str, Any]:
    """Return the Avro record of one operation of a compaction plan."""
    return {
        "baseInstantTime": operation.base_instant,
        "deltaFilePaths": list(operation.log_files),
        "dataFilePath": operation.base_file,
        "fileId": operation.file_id,
        "partitionPath": operation.partition_path,
        "metrics": {name: float(value) for name, value in operation.metrics.items()},
        "bootstrapFilePath": None,
    }


def read_compaction_plan(content: bytes, file_name: str) -> CompactionPlan:
    """Decode the compaction plan in a requested file of any Hudi release.

    Old releases write full paths. Only the file name at the end of each path is used.

    Args:
        file_name: the name of the requested file, for errors.

    Raises:
        CorruptFile: the file is empty, torn, or not a compaction plan.
    """
    try:
        record = read_container(content)
        operations = tuple(_read_operation(operation) for operation in record["operations"] or ())
        strategy = record["strategy"] or {}
        return CompactionPlan(
            operations=operations,
            runner=strategy.get("compactorClassName"),
            parameters=strategy.get("strategyParams") or {},
            extra=record["extraMetadata"] or {},
            preserves_meta=bool(record["preserveHoodieMetadata"]),
        )
    except (CorruptFile, KeyError, TypeError, AttributeError) as e:
        raise CorruptFile(
            f"{file_name} is not a compaction plan: {e}. Restore the file from a copy, or unschedule that compaction"
        ) from e


def _read_operation(record: Mapping[str, Any]) -> CompactionOperation:
    """Return the operation of a compaction plan in an Avro record."""
    base = record["dataFilePath"]
    return CompactionOperation(
        partition_path=record["partitionPath"] or "",
        file_id=_read_text(record, "fileId"),
        base_instant=_read_text(record, "baseInstantTime"),
        base_file=_file_name(base) if base else None,
        log_files=tuple(_file_name(path) for path in record["deltaFilePaths"] or ()),
        metrics=record["metrics"] or {},
    )


def _read_text(record: Mapping[str, Any], name: str) -> str:
    """Return the string in the field `name` of an operation's record. Raises CorruptFile if the field is null."""
    value = record[name]
    if not isinstance(value, str):
        raise CorruptFile(f"an operation has no {name}")
    return value


def _file_name(path: str) -> str:
    """Return the file name at the end of a path."""
    return path.rsplit("/", 1)[-1]
