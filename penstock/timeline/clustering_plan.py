"""Clustering plans: which file slices are rewritten together, as a value and as Hudi's Avro.

A plan is the content of `<instant>.replacecommit.requested`, with the operation `CLUSTER`; the same file of a write that
replaces file groups has no plan. Files are named with their folder. The table may have been moved since, so of what is read
only the last part of a name counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import CorruptFile
from penstock.formats.avro.container import read_container, write_container
from penstock.options.operation import Operation

_RECORD = "HoodieRequestedReplaceMetadata"


@dataclass(frozen=True)
class ClusteringSlice:
    """One file slice that is read, named file by file."""

    partition_path: str
    file_id: str
    #: The base file's name; None where the slice has log files alone.
    base_file: str | None
    log_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusteringGroup:
    """Slices of one partition that are rewritten together."""

    slices: tuple[ClusteringSlice, ...]
    #: How many file groups come of it.
    outputs: int = 1
    #: How much work it is, under Hudi's names.
    metrics: Mapping[str, float] = field(default_factory=dict)
    #: What else the strategy says about it.
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusteringPlan:
    """All groups of one clustering."""

    groups: tuple[ClusteringGroup, ...] = ()
    #: The Java class that is to run them, which Hudi loads, and what it is told.
    runner: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    #: Whether rows keep their commit time and sequence number.
    preserves_meta: bool = True

    @property
    def slices(self) -> Iterator[ClusteringSlice]:
        """The slices of all groups."""
        return (one for group in self.groups for one in group.slices)


def write_clustering_plan(plan: ClusteringPlan, base_path: str) -> bytes:
    """The content of the requested file, as Hudi 0.14 and 0.15 write it."""
    record = {
        "operationType": Operation.CLUSTER.stored,
        "clusteringPlan": {
            "inputGroups": [_record_of(group, base_path) for group in plan.groups],
            "strategy": {"strategyClassName": plan.runner, "strategyParams": dict(plan.parameters), "version": 1},
            "extraMetadata": {},
            "version": 1,
            "preserveHoodieMetadata": plan.preserves_meta,
        },
        "extraMetadata": {},
        "version": 1,
    }
    return write_container(_RECORD, record)


def _record_of(group: ClusteringGroup, base_path: str) -> dict[str, Any]:
    return {
        "slices": [_slice_record(one, base_path) for one in group.slices],
        "metrics": {name: float(value) for name, value in group.metrics.items()},
        "numOutputFileGroups": group.outputs,
        "extraMetadata": dict(group.extra) or None,
        "version": 1,
    }


def _slice_record(one: ClusteringSlice, base_path: str) -> dict[str, Any]:
    folder = f"{base_path}/{one.partition_path}" if one.partition_path else base_path
    return {
        "dataFilePath": f"{folder}/{one.base_file}" if one.base_file else "",
        "deltaFilePaths": [f"{folder}/{name}" for name in one.log_files],
        "fileId": one.file_id,
        "partitionPath": one.partition_path,
        "bootstrapFilePath": "",
        "version": 1,
    }


def read_clustering_plan(content: bytes, file_name: str) -> ClusteringPlan | None:
    """The plan of any Hudi release; None if the file belongs to a write that replaces file groups.

    Raises:
        CorruptFile: the file is torn, or not what it should be.
    """
    if not content:
        return None
    try:
        record = read_container(content)
        if record.get("operationType") != Operation.CLUSTER.stored:
            return None
        return _plan_of(record.get("clusteringPlan") or {})
    except (CorruptFile, KeyError, TypeError, AttributeError) as e:
        raise CorruptFile(
            f"{file_name} cannot be read as the plan of a clustering or of another replacing write: {e}. Restore the file "
            "from a copy; if nothing of it was run, unschedule_clustering() gives up the plan"
        ) from e


def _plan_of(record: Mapping[str, Any]) -> ClusteringPlan:
    strategy = record.get("strategy") or {}
    return ClusteringPlan(
        groups=tuple(_group_of(one) for one in record.get("inputGroups") or ()),
        runner=strategy.get("strategyClassName") or "",
        parameters=strategy.get("strategyParams") or {},
        preserves_meta=record.get("preserveHoodieMetadata") is not False,  # Hudi too keeps them where a plan does not say
    )


def _group_of(record: Mapping[str, Any]) -> ClusteringGroup:
    return ClusteringGroup(
        slices=tuple(_slice_of(one) for one in record["slices"] or ()),
        outputs=max(1, record.get("numOutputFileGroups") or 1),
        metrics=record.get("metrics") or {},
        extra=record.get("extraMetadata") or {},
    )


def _slice_of(record: Mapping[str, Any]) -> ClusteringSlice:
    if not isinstance(record["fileId"], str):
        raise CorruptFile("a slice has no fileId")
    return ClusteringSlice(
        partition_path=record.get("partitionPath") or "",
        file_id=record["fileId"],
        base_file=_name(record.get("dataFilePath") or "") or None,
        log_files=tuple(_name(path) for path in record.get("deltaFilePaths") or ()),
    )


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
