"""Clustering plans: which file slices are rewritten together. A plan is a dataclass here, and an Avro record on disk.

A plan is the content of `<instant>.replacecommit.requested`, with the operation `CLUSTER`. A write that replaces file groups
(insert_overwrite, delete_partition) creates a file of that name too, but without a plan. Plans name files by full paths. The
table may have been moved since the plan was written, so only the file name at the end of each path is used.
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
    """A file slice that a clustering reads and replaces, with the names of its files."""

    partition_path: str
    file_id: str
    #: The name of the base file; None if the slice has only log files.
    base_file: str | None
    log_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusteringGroup:
    """File slices of one partition that a clustering rewrites together, into `outputs` new file groups."""

    slices: tuple[ClusteringSlice, ...]
    #: The number of new file groups that the rows of the slices are expected to fill.
    outputs: int = 1
    #: Measures of the work (sizes and counts of files), under Hudi's names.
    metrics: Mapping[str, float] = field(default_factory=dict)
    #: Further values that the plan strategy stores with the group.
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusteringPlan:
    """The plan of one clustering: groups of file slices. The slices of a group are rewritten together into new file groups."""

    groups: tuple[ClusteringGroup, ...] = ()
    #: The Java class that Hudi runs the groups with, and its parameters.
    runner: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    #: Whether rewritten rows keep their `_hoodie_commit_time` and `_hoodie_commit_seqno`.
    preserves_meta: bool = True

    @property
    def slices(self) -> Iterator[ClusteringSlice]:
        """The file slices of all groups of the plan."""
        for group in self.groups:
            yield from group.slices


def write_clustering_plan(plan: ClusteringPlan, base_path: str) -> bytes:
    """Encode a clustering plan as the content of `<instant>.replacecommit.requested`, as Hudi 0.14 and 0.15 write it."""
    record = {
        "operationType": Operation.CLUSTER.stored,
        "clusteringPlan": {
            "inputGroups": [_group_record(group, base_path) for group in plan.groups],
            "strategy": {"strategyClassName": plan.runner, "strategyParams": dict(plan.parameters), "version": 1},
            "extraMetadata": {},
            "version": 1,
            "preserveHoodieMetadata": plan.preserves_meta,
        },
        "extraMetadata": {},
        "version": 1,
    }
    return write_container(_RECORD, record)


def _group_record(group: ClusteringGroup, base_path: str) -> dict[str, Any]:
    """Return the Avro record of one group of a clustering plan."""
    return {
        "slices": [_slice_record(clustering_slice, base_path) for clustering_slice in group.slices],
        "metrics": {name: float(value) for name, value in group.metrics.items()},
        "numOutputFileGroups": group.outputs,
        "extraMetadata": dict(group.extra) or None,
        "version": 1,
    }


def _slice_record(clustering_slice: ClusteringSlice, base_path: str) -> dict[str, Any]:
    """Return the Avro record of one file slice of a clustering plan, with full paths of its files."""
    folder = f"{base_path}/{clustering_slice.partition_path}" if clustering_slice.partition_path else base_path
    return {
        "dataFilePath": f"{folder}/{clustering_slice.base_file}" if clustering_slice.base_file else "",
        "deltaFilePaths": [f"{folder}/{name}" for name in clustering_slice.log_files],
        "fileId": clustering_slice.file_id,
        "partitionPath": clustering_slice.partition_path,
        "bootstrapFilePath": "",
        "version": 1,
    }


def read_clustering_plan(content: bytes, file_name: str) -> ClusteringPlan | None:
    """Decode the clustering plan in a `.replacecommit.requested` file of any Hudi release.

    Args:
        file_name: the name of the file, for errors.

    Returns:
        None if the file is empty or has another operation: it belongs to a write that replaces file groups.

    Raises:
        CorruptFile: the file is torn, or is not the record that Hudi writes there.
    """
    if not content:
        return None
    try:
        record = read_container(content)
        if record.get("operationType") != Operation.CLUSTER.stored:
            return None
        return _read_plan(record.get("clusteringPlan") or {})
    except (CorruptFile, KeyError, TypeError, AttributeError) as e:
        raise CorruptFile(
            f"{file_name} cannot be read as the plan of a clustering or of another replacing write: {e}. Restore the file "
            "from a copy; if nothing of it was run, unschedule_clustering() removes the plan"
        ) from e


def _read_plan(record: Mapping[str, Any]) -> ClusteringPlan:
    """Return the clustering plan in an Avro record."""
    strategy = record.get("strategy") or {}
    return ClusteringPlan(
        groups=tuple(_read_group(group) for group in record.get("inputGroups") or ()),
        runner=strategy.get("strategyClassName") or "",
        parameters=strategy.get("strategyParams") or {},
        preserves_meta=record.get("preserveHoodieMetadata") is not False,  # a missing value means true, as in Hudi
    )


def _read_group(record: Mapping[str, Any]) -> ClusteringGroup:
    """Return the group of a clustering plan in an Avro record."""
    return ClusteringGroup(
        slices=tuple(_read_slice(clustering_slice) for clustering_slice in record["slices"] or ()),
        outputs=max(1, record.get("numOutputFileGroups") or 1),
        metrics=record.get("metrics") or {},
        extra=record.get("extraMetadata") or {},
    )


def _read_slice(record: Mapping[str, Any]) -> ClusteringSlice:
    """Return the file slice of a clustering plan in an Avro record. Raises CorruptFile if the record has no file id."""
    if not isinstance(record["fileId"], str):
        raise CorruptFile("a slice has no fileId")
    return ClusteringSlice(
        partition_path=record.get("partitionPath") or "",
        file_id=record["fileId"],
        base_file=_name(record.get("dataFilePath") or "") or None,
        log_files=tuple(_name(path) for path in record.get("deltaFilePaths") or ()),
    )


def _name(path: str) -> str:
    """Return the file name at the end of a path."""
    return path.rsplit("/", 1)[-1]
