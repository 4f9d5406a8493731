"""Avro container files of the timeline: plans and results of services, each one record in one file.

Kernel: a record as a dict in, the bytes of a file out, and back. `SCHEMAS` holds the schema of every record of table
version 6 by its short name, spelled as Hudi spells it: names resolve between writers, and the order inside a union is
part of the encoding. Written files are deterministic: the sync marker is a digest of the record.

A file is read by the schema it carries. Fields of a newer writer stay; fields that an older one did not know yet get
the default they have here. Nothing a file names is ever imported or called.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
from collections.abc import Mapping
from copy import copy
from typing import Any

from penstock.errors import CorruptFile

try:
    import fastavro
except ImportError:  # workers have nothing to do with the timeline, and may do without
    fastavro = None  # type: ignore[assignment]

NAMESPACE = "org.apache.hudi.avro.model"

AvroType = str | dict[str, Any] | list[Any]

_STRING: AvroType = {"type": "string", "avro.java.string": "String"}


def write_container(name: str, record: Mapping[str, Any]) -> bytes:
    """A file with this one record of the schema `name`; fields left out get their defaults."""
    head, body = io.BytesIO(), encode_record(name, record)
    marker = hashlib.blake2b(body, digest_size=16, key=name.encode()).digest()
    fastavro.writer(head, _parsed(name), [], codec="null", sync_marker=marker)
    return b"".join((head.getvalue(), _long(1), _long(len(body)), body, marker))


def _long(value: int) -> bytes:
    """A number that is not negative, as Avro writes it."""
    out, rest = bytearray(), value << 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


def read_container(data: bytes) -> dict[str, Any]:
    """The one record of a file, with defaults for the fields its writer did not know.

    Raises:
        CorruptFile: the bytes are no Avro container, are cut short, or hold another number of records than one.
    """
    try:
        reader = fastavro.reader(io.BytesIO(data))
        records = list(reader)
        schema: Any = reader.writer_schema
        name = str(schema["name"]).rpartition(".")[2]
    except Exception as cause:  # fastavro has no error of its own: wrong bytes surface as whatever broke
        raise CorruptFile(f"not an Avro file of the timeline: {cause or type(cause).__name__}") from cause
    if len(records) != 1 or not isinstance(records[0], dict):
        raise CorruptFile(f"an Avro file of the timeline holds one record, this one holds {len(records)}")
    record: dict[str, Any] = records[0]
    return _complete(name, record) if name in _RECORDS else record


def encode_record(name: str, record: Mapping[str, Any]) -> bytes:
    """A record of the schema `name` alone, as a block of a log file holds it; fields left out get their defaults."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, _parsed(name), record, strict_allow_default=True)
    return body.getvalue()


def decode_record(data: bytes, schema: str) -> dict[str, Any]:
    """A record that was written with the Avro schema `schema`, with defaults for the fields its writer did not know.

    Raises:
        CorruptFile: the bytes are no such record.
    """
    try:
        record: Any = fastavro.schemaless_reader(io.BytesIO(data), _parsed_text(schema), None)
        found: dict[str, Any] = _complete(str(_parsed_text(schema)["name"]).rpartition(".")[2], record)
        return found
    except Exception as cause:  # as above
        raise CorruptFile(f"not a record of the timeline: {cause or type(cause).__name__}") from cause


def _complete(kind: AvroType, value: Any) -> Any:
    """`value` with every field that `kind` knows, at any depth."""
    if not isinstance(value, (dict, list)):
        return value
    match kind, value:
        case [_, branch], _:  # the other branch, where it is not "null", has no fields
            return _complete(branch, value)
        case {"items": items}, list():
            return [_complete(items, item) for item in value]
        case {"values": values}, dict():
            return {key: _complete(values, item) for key, item in value.items()}
        case str(), dict() if kind in _RECORDS:
            known = _fields(kind)
            filled = {**{name: copy(field.get("default")) for name, field in known.items()}, **value}
            return {key: _complete(known[key]["type"], item) if key in known else item for key, item in filled.items()}
    return value


@functools.cache
def _fields(name: str) -> Mapping[str, Any]:
    return {field["name"]: field for field in _RECORDS[name]}


def _array(items: AvroType) -> AvroType:
    return {"type": "array", "items": items}


def _map(values: AvroType) -> AvroType:
    return {"type": "map", "values": values, "avro.java.string": "String"}


def _required(name: str, kind: AvroType = _STRING, **default: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **default}


def _optional(name: str, kind: AvroType = _STRING) -> dict[str, Any]:
    """Null first, and null when nobody says otherwise."""
    return {"name": name, "type": ["null", kind], "default": None}


def _number(name: str, default: int) -> dict[str, Any]:
    """Value first, for a default that is not null."""
    return {"name": name, "type": ["int", "null"], "default": default}


def _list_or_empty(name: str, items: AvroType) -> dict[str, Any]:
    return {"name": name, "type": {"type": "array", "items": items, "default": []}, "default": []}


_VERSION = _number("version", 1)

# Types that start with "Hoodie" name another record of this table.
_RECORDS: dict[str, list[dict[str, Any]]] = {
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
    # archived timeline; live commits are JSON
    "HoodieWriteStat": [
        *[_optional(name) for name in ("fileId", "path", "prevCommit")],
        *[_optional(name, "long") for name in ("numWrites", "numDeletes", "numUpdateWrites", "totalWriteBytes")],
        _optional("totalWriteErrors", "long"),
        _optional("partitionPath"),
        *[_optional(name, "long") for name in ("totalLogRecords", "totalLogFiles", "totalUpdatedRecordsCompacted")],
        *[_optional(name, "long") for name in ("numInserts", "totalLogBlocks", "totalCorruptLogBlock")],
        *[_optional(name, "long") for name in ("totalRollbackBlocks", "fileSizeInBytes")],
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
        *[_optional(name, "long") for name in ("totalLogRecords", "totalLogFiles", "totalUpdatedRecordsCompacted")],
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


def _schema(name: str, defined: set[str]) -> AvroType:
    """The record as one Avro schema: other records stand where they are first used, later uses are their names."""
    if name in defined:
        return f"{NAMESPACE}.{name}"
    first = {"namespace": NAMESPACE} if not defined else {}
    defined.add(name)
    fields = [{**field, "type": _inlined(field["type"], defined)} for field in _RECORDS[name]]
    return {"type": "record", "name": name, **first, "fields": fields}


def _inlined(kind: AvroType, defined: set[str]) -> AvroType:
    if isinstance(kind, list):
        return [_inlined(branch, defined) for branch in kind]
    if isinstance(kind, str):
        return _schema(kind, defined) if kind in _RECORDS else kind
    return {key: _inlined(part, defined) if key in ("items", "values") else part for key, part in kind.items()}


SCHEMAS: dict[str, Any] = {name: _schema(name, set()) for name in _RECORDS}


@functools.cache
def _parsed(name: str) -> Any:
    return fastavro.parse_schema(SCHEMAS[name])


@functools.lru_cache(maxsize=8)
def _parsed_text(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))
