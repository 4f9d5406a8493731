"""Plans of compactions and log compactions, as values and as Hudi's Avro.

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
    """One operation of a plan: the file slice of a file group to compact, with the names of its files."""

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
    """The plan of one compaction or log compaction. The operations are in the order in which the plan strategy chose them."""

    operations: tuple[CompactionOperation, ...] = ()
    #: The Java class that Hudi runs the operations with; None: its default compactor.
    runner: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    #: The field `preserveHoodieMetadata` as Hudi fills it. Compacted rows keep their meta columns whether it is true or false.
    preserves_meta: bool = False


def write_compaction_plan(plan: CompactionPlan) -> bytes:
    """Return the content of the plan's requested file, as Hudi 0.14 and 0.15 write it."""
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
    """Return the compaction plan in a requested file of any Hudi release.

    Old releases write full paths. Only the file name at the end of each path is used.

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
    value = record[name]
    if not isinstance(value, str):
        raise CorruptFile(f"an operation has no {name}")
    return value


def _file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
