"""What is inside a commit's files: write stats and commit metadata, as JSON with Hudi's field names.

Instants with Avro content (clean, rollback, compaction plans, …) have modules of their own, which use `formats/avro/`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from penstock.errors import CorruptFile
from penstock.options.operation import Operation


@dataclass(frozen=True)
class WriteStat:
    """What one task did to one file."""

    file_id: str
    partition_path: str | None
    path: str | None
    prev_commit: str = "null"
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    num_inserts: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    file_size_in_bytes: int = 0
    total_log_records: int = 0
    total_log_files_compacted: int = 0
    total_log_size_compacted: int = 0
    total_updated_records_compacted: int = 0
    total_log_blocks: int = 0
    total_corrupt_log_block: int = 0
    total_rollback_blocks: int = 0
    min_event_time: int | None = None
    max_event_time: int | None = None
    cdc_stats: Mapping[str, int] | None = None
    runtime_stats: Mapping[str, int] | None = None
    temp_path: str | None = None
    #: Fields that only log files have (logVersion, logOffset, baseFile, logFiles, …), under Hudi's names.
    log: Mapping[str, Any] = field(default_factory=dict)


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


_STAT_FIELDS = {_camel(f.name): f.name for f in fields(WriteStat) if f.name != "log"}
_LOG_FIELDS = ("logVersion", "logOffset", "baseFile", "logFiles", "recordsStats")


@dataclass(frozen=True)
class CommitMetadata:
    """The content of a completed (or, as workload profile, inflight) commit, delta commit or replace commit."""

    stats: tuple[WriteStat, ...] = ()
    #: The operation as the file spells it (`Operation.stored`); another release of Hudi may name one that is not an `Operation`.
    operation: str = Operation.UNKNOWN.stored
    extra: Mapping[str, str] = field(default_factory=dict)
    compacted: bool = False
    replaced: Mapping[str, tuple[str, ...]] | None = None
    #: Partitions that are listed although nothing was written to them.
    partitions: tuple[str, ...] = ()

    @property
    def schema(self) -> str | None:
        """The table's Avro schema as of this commit, as JSON text."""
        return self.extra.get("schema") or None

    @property
    def bytes_written(self) -> int:
        """Bytes in all the files it wrote."""
        return sum(s.total_write_bytes for s in self.stats)

    def by_partition(self) -> dict[str, list[WriteStat]]:
        """Write stats per partition path."""
        found: dict[str, list[WriteStat]] = {p: [] for p in self.partitions}
        for stat in self.stats:
            found.setdefault(stat.partition_path or "", []).append(stat)
        return found


def write_commit(metadata: CommitMetadata, *, profile: bool = False) -> bytes:
    """Commit metadata as Hudi writes it; in a workload profile the stats carry no partition path of their own."""
    content: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [_stat_json(s, profile) for s in stats] for partition, stats in metadata.by_partition().items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra),
        "operationType": metadata.operation,
    }
    if metadata.replaced is not None:
        content["partitionToReplaceFileIds"] = {p: list(ids) for p, ids in metadata.replaced.items()}
    return json.dumps(content, indent=2, separators=(",", " : "), ensure_ascii=False).encode()


def _stat_json(stat: WriteStat, profile: bool) -> dict[str, Any]:
    values = {key: getattr(stat, name) for key, name in _STAT_FIELDS.items()}
    if profile:
        values["partitionPath"] = None
    return {**values, **stat.log}


def read_commit(data: bytes, file_name: str) -> CommitMetadata:
    """Commit metadata of any Hudi release; fields we do not know are left alone.

    Raises:
        CorruptFile: the file is empty, torn, or not commit metadata.
    """
    return parse_commit(_parsed(data, file_name), file_name)


def parse_commit(content: Mapping[str, Any], file_name: str) -> CommitMetadata:
    """Commit metadata out of its fields; those that the archive keeps have the same names.

    Raises:
        CorruptFile: it is not commit metadata.
    """
    try:
        stats = [
            _read_stat(partition, stat)
            for partition, stats in (content.get("partitionToWriteStats") or {}).items()
            for stat in stats
        ]
        replaced = content.get("partitionToReplaceFileIds")
        return CommitMetadata(
            stats=tuple(stats),
            operation=_operation(content),
            extra=_extra(content),
            compacted=bool(content.get("compacted")),
            replaced=None if replaced is None else {p: tuple(ids) for p, ids in replaced.items()},
            partitions=tuple(content.get("partitionToWriteStats") or ()),
        )
    except (AttributeError, TypeError, KeyError) as e:
        raise CorruptFile(f"{file_name} is not commit metadata: {e}") from e


def read_commit_schema(data: bytes, file_name: str) -> tuple[str, str | None]:
    """A commit's operation and Avro schema; its write stats, of which there may be many, are not looked at.

    Raises:
        CorruptFile: the file is empty, torn, or not commit metadata.
    """
    content = _parsed(data, file_name)
    try:
        return _operation(content), _extra(content).get("schema") or None
    except (AttributeError, TypeError) as e:
        raise CorruptFile(f"{file_name} is not commit metadata: {e}") from e


def read_partitions(data: bytes, file_name: str) -> dict[str, bool]:
    """The partitions that a commit wrote to, or replaced file groups of; and whether it made an older version of any.

    Write stats, of which there may be many, are looked at only as far as is needed.

    Raises:
        CorruptFile: the file is empty, torn, or not commit metadata.
    """
    content = _parsed(data, file_name)
    try:
        by_path = content.get("partitionToWriteStats") or {}
        compacted = bool(content.get("compacted"))
        found = {path: bool(stats) and (compacted or any(map(_is_next_version, stats))) for path, stats in by_path.items()}
        return found | dict.fromkeys(content.get("partitionToReplaceFileIds") or (), True)
    except (AttributeError, TypeError) as e:
        raise CorruptFile(f"{file_name} is not commit metadata: {e}") from e


def _is_next_version(stat: Mapping[str, Any]) -> bool:
    """Whether a write stat is of a base file that took the place of another."""
    in_log = (stat.get("path") or "").rpartition("/")[2].startswith(".")
    return not in_log and stat.get("prevCommit") not in ("null", "", None)


def _parsed(data: bytes, file_name: str) -> Any:
    if not data:
        raise CorruptFile(
            f"{file_name} has no content: a writer died while publishing it. Restore the file from a copy, "
            "or remove it to give up that commit"
        )
    try:
        return json.loads(data)
    except ValueError as e:
        raise CorruptFile(f"{file_name} is not commit metadata: {e}") from e


def _operation(content: Mapping[str, Any]) -> str:
    return content.get("operationType") or Operation.UNKNOWN.stored


def _extra(content: Mapping[str, Any]) -> dict[str, str]:
    return {k: v for k, v in (content.get("extraMetadata") or {}).items() if v is not None}


def _read_stat(partition: str, stat: Mapping[str, Any]) -> WriteStat:
    known = {name: stat[key] for key, name in _STAT_FIELDS.items() if stat.get(key) is not None}
    known.setdefault("path", None)
    known["partition_path"] = partition
    return WriteStat(**known, log={k: stat[k] for k in _LOG_FIELDS if k in stat})


def make_workload_profile(
    operation: Operation, inserts: Mapping[str, int], updates: Iterable[tuple[str, str, str, int]]
) -> CommitMetadata:
    """What a write is about to do, for the inflight file.

    Args:
        operation: the operation.
        inserts: new rows per partition path.
        updates: (partition path, file id, base instant, rows) per touched file group.
    """
    stats = [WriteStat(file_id="", partition_path=p, path=None, num_inserts=n) for p, n in inserts.items()]
    stats += [
        WriteStat(file_id=file_id, partition_path=p, path=None, prev_commit=base, num_update_writes=n)
        for p, file_id, base, n in updates
    ]
    return CommitMetadata(stats=tuple(stats), operation=operation.stored)
