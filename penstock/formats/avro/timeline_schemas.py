"""The Avro schemas of the records that the timeline of table version 6 holds: plans and results of table services.

Names and the order of fields and of union branches are Hudi's: readers resolve records by name, and the position in a union is
part of the encoding. `container.py` reads and writes the records.
"""

from __future__ import annotations

from typing import Any

NAMESPACE = "org.apache.hudi.avro.model"

AvroType = str | dict[str, Any] | list[Any]

#: Hudi's classes are generated with Java strings, and the annotation is part of the stored schema.
_STRING: AvroType = {"type": "string", "avro.java.string": "String"}


def _array(items: AvroType) -> AvroType:
    """Return the Avro type of an array whose items have the type `items`."""
    return {"type": "array", "items": items}


def _map(values: AvroType) -> AvroType:
    """Return the Avro type of a map whose values have the type `values`."""
    return {"type": "map", "values": values, "avro.java.string": "String"}


def _required(name: str, kind: AvroType = _STRING, **default: Any) -> dict[str, Any]:
    """Return an Avro field that must not be null. The keyword `default` sets the field's default; without it there is none."""
    return {"name": name, "type": kind, **default}


def _optional(name: str, kind: AvroType = _STRING) -> dict[str, Any]:
    """Return a nullable Avro field. Null is the first branch of its union, and is its default."""
    return {"name": name, "type": ["null", kind], "default": None}


def _number(name: str, default: int) -> dict[str, Any]:
    """Return a nullable Avro int field with a default. The first branch of its union must be the type of the default."""
    return {"name": name, "type": ["int", "null"], "default": default}


def _list_or_empty(name: str, items: AvroType) -> dict[str, Any]:
    """Return an Avro field for an array whose items have the type `items`. Its default is the empty array."""
    return {"name": name, "type": {"type": "array", "items": items, "default": []}, "default": []}


_VERSION = _number("version", 1)

#: The fields of each record, by its name without namespace. A type that begins with "Hoodie" names another record.
RECORDS: dict[str, list[dict[str, Any]]] = {
    # clean
    "HoodieActionInstant": [_required("timestamp"), _required("action"), _required("state")],
    "HoodieCleanFileInfo": [_optional("filePath"), _optional("isBootstrapBaseFile", "boolean")],
    "HoodieCleanerPlan": [
        _optional("earliestInstantToRetain", "HoodieActionInstant"),
        _required("lastCompletedCommitTimestamp", default=""),
        _required("policy"),
        _optional("filesToBeDeletedPerPartition", _map(_array(_STRING))),
        _VERSION,
        _optional("filePathsToBeDeletedPerPartition", _map(_array("HoodieCleanFileInfo"))),
        _optional("partitionsToBeDeleted", _array(_STRING)),
        _optional("extraMetadata", _map(_STRING)),
    ],
    "HoodieCleanPartitionMetadata": [
        _required("partitionPath"),
        _required("policy"),
        _required("deletePathPatterns", _array(_STRING)),
        _required("successDeleteFiles", _array(_STRING)),
        _required("failedDeleteFiles", _array(_STRING)),
        _optional("isPartitionDeleted", "boolean"),
    ],
    "HoodieCleanMetadata": [
        _required("startCleanTime"),
        _required("timeTakenInMillis", "long"),
        _required("totalFilesDeleted", "int"),
        _required("earliestCommitToRetain"),
        _required("lastCompletedCommitTimestamp", default=""),
        _required("partitionMetadata", _map("HoodieCleanPartitionMetadata")),
        _VERSION,
        _optional("bootstrapPartitionMetadata", _map("HoodieCleanPartitionMetadata")),
        _optional("extraMetadata", _map(_STRING)),
    ],
    # rollback and restore
    "HoodieInstantInfo": [_required("commitTime"), _required("action")],
    "HoodieRollbackRequest": [
        _required("partitionPath"),
        _optional("fileId"),
        _optional("latestBaseInstant"),
        _list_or_empty("filesToBeDeleted", _STRING),
        _optional("logBlocksToBeDeleted", _map("long")),
    ],
    "HoodieRollbackPlan": [
        _optional("instantToRollback", "HoodieInstantInfo"),
        _optional("RollbackRequests", _array("HoodieRollbackRequest")),
        _VERSION,
    ],
    "HoodieRollbackPartitionMetadata": [
        _required("partitionPath"),
        _required("successDeleteFiles", _array(_STRING)),
        _required("failedDeleteFiles", _array(_STRING)),
        _optional("rollbackLogFiles", _map("long")),
        _optional("logFilesFromFailedCommit", _map("long")),
    ],
    "HoodieRollbackMetadata": [
        _required("startRollbackTime"),
        _required("timeTakenInMillis", "long"),
        _required("totalFilesDeleted", "int"),
        _required("commitsRollback", _array(_STRING)),
        _required("partitionMetadata", _map("HoodieRollbackPartitionMetadata")),
        _VERSION,
        _list_or_empty("instantsRollback", "HoodieInstantInfo"),
    ],
    "HoodieRestorePlan": [
        _list_or_empty("instantsToRollback", "HoodieInstantInfo"),
        _number("version", 2),
        _optional("savepointToRestoreTimestamp"),
    ],
    "HoodieRestoreMetadata": [
        _required("startRestoreTime"),
        _required("timeTakenInMillis", "long"),
        _required("instantsToRollback", _array(_STRING)),
        _required("hoodieRestoreMetadata", _map(_array(["null", "HoodieRollbackMetadata"]))),
        _VERSION,
        _list_or_empty("restoreInstantInfo", "HoodieInstantInfo"),
    ],
    # savepoint
    "HoodieSavepointPartitionMetadata": [_required("partitionPath"), _required("savepointDataFile", _array(_STRING))],
    "HoodieSavepointMetadata": [
        _required("savepointedBy"),
        _required("savepointedAt", "long"),
        _required("comments"),
        _required("partitionMetadata", _map("HoodieSavepointPartitionMetadata")),
        _VERSION,
    ],
    # compaction
    "HoodieCompactionOperation": [
        _required("baseInstantTime", ["null", _STRING]),
        _optional("deltaFilePaths", _array(_STRING)),
        _optional("dataFilePath"),
        _required("fileId", ["null", _STRING]),
        _optional("partitionPath"),
        _optional("metrics", _map("double")),
        _optional("bootstrapFilePath"),
    ],
    "HoodieCompactionStrategy": [_optional("compactorClassName"), _optional("strategyParams", _map(_STRING)), _VERSION],
    "HoodieCompactionPlan": [
        _optional("operations", _array("HoodieCompactionOperation")),
        _optional("extraMetadata", _map(_STRING)),
        _VERSION,
        _optional("strategy", "HoodieCompactionStrategy"),
        _required("preserveHoodieMetadata", ["boolean", "null"], default=False),
    ],
    # clustering and the other replacing writes
    "HoodieSliceInfo": [
        _optional("dataFilePath"),
        _optional("deltaFilePaths", _array(_STRING)),
        _required("fileId", ["null", _STRING]),
        _optional("partitionPath"),
        _optional("bootstrapFilePath"),
        _VERSION,
    ],
    "HoodieClusteringGroup": [
        _optional("slices", _array("HoodieSliceInfo")),
        _optional("metrics", _map("double")),
        _number("numOutputFileGroups", 1),
        _optional("extraMetadata", _map(_STRING)),
        _VERSION,
    ],
    "HoodieClusteringStrategy": [_optional("strategyClassName"), _optional("strategyParams", _map(_STRING)), _VERSION],
    "HoodieClusteringPlan": [
        _optional("inputGroups", _array("HoodieClusteringGroup")),
        _optional("strategy", "HoodieClusteringStrategy"),
        _optional("extraMetadata", _map(_STRING)),
        _VERSION,
        _optional("preserveHoodieMetadata", "boolean"),
    ],
    "HoodieRequestedReplaceMetadata": [
        _optional("operationType"),
        _optional("clusteringPlan", "HoodieClusteringPlan"),
        _optional("extraMetadata", _map(_STRING)),
        _VERSION,
    ],
    # indexing
    "HoodieIndexPartitionInfo": [_VERSION, _optional("metadataPartitionPath"), _optional("indexUptoInstant")],
    "HoodieIndexPlan": [_VERSION, _optional("indexPartitionInfos", _array("HoodieIndexPartitionInfo"))],
    "HoodieIndexCommitMetadata": [
        _VERSION,
        _optional("operationType"),
        _optional("indexPartitionInfos", _array("HoodieIndexPartitionInfo")),
    ],
    # archived timeline; commits of the active timeline are JSON
    "HoodieWriteStat": [
        _optional("fileId"),
        _optional("path"),
        _optional("prevCommit"),
        _optional("numWrites", "long"),
        _optional("numDeletes", "long"),
        _optional("numUpdateWrites", "long"),
        _optional("totalWriteBytes", "long"),
        _optional("totalWriteErrors", "long"),
        _optional("partitionPath"),
        _optional("totalLogRecords", "long"),
        _optional("totalLogFiles", "long"),
        _optional("totalUpdatedRecordsCompacted", "long"),
        _optional("numInserts", "long"),
        _optional("totalLogBlocks", "long"),
        _optional("totalCorruptLogBlock", "long"),
        _optional("totalRollbackBlocks", "long"),
        _optional("fileSizeInBytes", "long"),
    ],
    "HoodieCommitMetadata": [
        _optional("partitionToWriteStats", _map(_array("HoodieWriteStat"))),
        _optional("extraMetadata", _map(_STRING)),
        _VERSION,
        _optional("operationType"),
    ],
    "HoodieReplaceCommitMetadata": [
        _optional("partitionToWriteStats", _map(_array("HoodieWriteStat"))),
        _optional("extraMetadata", _map(_STRING)),
        _VERSION,
        _optional("operationType"),
        _optional("partitionToReplaceFileIds", _map(_array(_STRING))),
    ],
    "HoodieCompactionWriteStat": [
        _optional("partitionPath"),
        _optional("totalLogRecords", "long"),
        _optional("totalLogFiles", "long"),
        _optional("totalUpdatedRecordsCompacted", "long"),
        _optional("hoodieWriteStat", "HoodieWriteStat"),
    ],
    "HoodieCompactionMetadata": [
        _required("partitionToCompactionWriteStats", ["null", _map(_array("HoodieCompactionWriteStat"))]),
    ],
    "HoodieArchivedMetaEntry": [
        _optional("hoodieCommitMetadata", "HoodieCommitMetadata"),
        _optional("hoodieCleanMetadata", "HoodieCleanMetadata"),
        _optional("hoodieCompactionMetadata", "HoodieCompactionMetadata"),
        _optional("hoodieRollbackMetadata", "HoodieRollbackMetadata"),
        _optional("hoodieSavePointMetadata", "HoodieSavepointMetadata"),
        _optional("commitTime"),
        _optional("actionType"),
        _VERSION,
        _optional("hoodieCompactionPlan", "HoodieCompactionPlan"),
        _optional("hoodieCleanerPlan", "HoodieCleanerPlan"),
        _optional("actionState"),
        _optional("hoodieReplaceCommitMetadata", "HoodieReplaceCommitMetadata"),
        _optional("hoodieRequestedReplaceMetadata", "HoodieRequestedReplaceMetadata"),
        _optional("HoodieInflightReplaceMetadata", "HoodieCommitMetadata"),
        _optional("hoodieIndexCommitMetadata", "HoodieIndexCommitMetadata"),
        _optional("stateTransitionTime"),
    ],
    "HoodieMergeArchiveFilePlan": [_VERSION, _optional("candidate", _array(_STRING)), _optional("mergedArchiveFileName")],
}


def _build_schema(name: str, defined: set[str]) -> AvroType:
    """Return the Avro schema of the record `name`. A nested record is defined where it first occurs, then referred to by name.

    Args:
        defined: the names of the records whose schema is already in the result. The names that this call defines are added.
    """
    if name in defined:
        return f"{NAMESPACE}.{name}"
    # Nested records inherit the namespace of the outermost one.
    namespace = {"namespace": NAMESPACE} if not defined else {}
    defined.add(name)
    fields = [{**field, "type": _inline_records(field["type"], defined)} for field in RECORDS[name]]
    return {"type": "record", "name": name, **namespace, "fields": fields}


def _inline_records(kind: AvroType, defined: set[str]) -> AvroType:
    """Return a copy of an Avro type in which the first mention of each record's name is replaced by the record's schema.

    Args:
        defined: the names of the records whose schema is already in the result. The names that this call replaces are added.
    """
    if isinstance(kind, list):
        return [_inline_records(branch, defined) for branch in kind]
    if isinstance(kind, str):
        return _build_schema(kind, defined) if kind in RECORDS else kind
    inlined = {}
    for key, part in kind.items():
        is_type = key in ("items", "values")
        inlined[key] = _inline_records(part, defined) if is_type else part
    return inlined


#: The Avro schema of each record of the timeline, by its name without namespace.
SCHEMAS: dict[str, Any] = {name: _build_schema(name, set()) for name in RECORDS}
