"""Compaction plans: what a requested compaction, or log compaction, is going to do, as a value and as Hudi's Avro.

A plan names files without their folder, and says of every file group which slice becomes the next base file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import CorruptFile
from penstock.formats.avro.container import read_container, write_container

_RECORD = "HoodieCompactionPlan"
_VERSION = 2  # files are named without their folder


@dataclass(frozen=True)
class CompactionOperation:
    """One file group's part of a plan: its slice, named file by file."""

    partition_path: str
    file_id: str
    base_instant: str
    #: The base file's name; None where the slice has log files alone.
    base_file: str | None
    #: Names of the log files, in reading order.
    log_files: tuple[str, ...]
    #: How much work it is, under Hudi's names; its compactor wants TOTAL_LOG_FILES_SIZE.
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CompactionPlan:
    """All operations of one compaction, in the order they were chosen in."""

    operations: tuple[CompactionOperation, ...] = ()
    #: The Java class that is to run them, which Hudi loads; None is its own compactor.
    runner: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    #: As Hudi fills it: rows of a compaction keep their meta columns either way.
    preserves_meta: bool = False


def write_compaction_plan(plan: CompactionPlan) -> bytes:
    """The content of `<instant>.compaction.requested`, as Hudi 0.14 and 0.15 write it."""
    runner = {"compactorClassName": plan.runner, "strategyParams": dict(plan.parameters), "version": 1}
    record = {
        "operations": [_record_of(operation) for operation in plan.operations],
        "extraMetadata": dict(plan.extra) or None,
        "version": _VERSION,
        "strategy": runner if plan.runner else None,
        "preserveHoodieMetadata": plan.preserves_meta,
    }
    return write_container(_RECORD, record)


def _record_of(operation: CompactionOperation) -> dict[str, Any]:
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
    """A plan of any Hudi release; older ones name files with their folder, of which the last part counts.

    Raises:
        CorruptFile: the file is empty, torn, or not a compaction plan.
    """
    try:
        record = read_container(content)
        operations = tuple(_operation_of(one) for one in record["operations"] or ())
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


def _operation_of(record: Mapping[str, Any]) -> CompactionOperation:
    base = record["dataFilePath"]
    return CompactionOperation(
        partition_path=record["partitionPath"] or "",
        file_id=_text(record, "fileId"),
        base_instant=_text(record, "baseInstantTime"),
        base_file=_name(base) if base else None,
        log_files=tuple(_name(path) for path in record["deltaFilePaths"] or ()),
        metrics=record["metrics"] or {},
    )


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        raise CorruptFile(f"an operation has no {name}")
    return value


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
