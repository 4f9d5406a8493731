"""The files of commits, delta commits and replace commits: write stats and commit metadata, as JSON with Hudi's field names.

The completed file lists the data files that a write wrote. The inflight file may hold a workload profile: how many rows the
write is about to insert into each partition and update in each file group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from penstock.errors import CorruptFile
from penstock.options.operation import Operation


@dataclass(frozen=True)
class WriteStat:
    """What one task wrote to one data file: counts of rows and bytes, with Hudi's field names in snake case."""

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
    """Convert a name in snake case to camel case, as Hudi spells it."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


_STAT_FIELDS = {_camel(f.name): f.name for f in fields(WriteStat) if f.name != "log"}
#: Encodes an object without nested ones, with a line break after each of its fields.
_FLAT = json.JSONEncoder(ensure_ascii=False, separators=(",\n        ", " : "))
_LOG_FIELDS = ("logVersion", "logOffset", "baseFile", "logFiles", "recordsStats")


@dataclass(frozen=True)
class CommitMetadata:
    """The content of the completed file of a commit, delta commit or replace commit: write stats, operation and schema.

    An inflight file may hold commit metadata too, as a workload profile: the numbers of rows that the write is about to write.

    Attributes:
        extra: the map `extraMetadata`, with the table's schema and the user's own values.
        compacted: whether the commit is a compaction.
        replaced: for a replace commit, partition path → file ids of the file groups that it replaced; None for other commits.
    """

    stats: tuple[WriteStat, ...] = ()
    #: The operation as the file spells it (`Operation.stored`). Other releases of Hudi may write a word that `Operation` lacks.
    operation: str = Operation.UNKNOWN.stored
    extra: Mapping[str, str] = field(default_factory=dict)
    compacted: bool = False
    replaced: Mapping[str, tuple[str, ...]] | None = None
    #: The paths of all partitions that the file lists, also of partitions without write stats.
    partitions: tuple[str, ...] = ()

    @property
    def schema(self) -> str | None:
        """The table's Avro schema as of this commit, as JSON; None if the commit has no schema."""
        return self.extra.get("schema") or None

    @property
    def bytes_written(self) -> int:
        """The number of bytes in all files that the commit wrote."""
        return sum(stat.total_write_bytes for stat in self.stats)

    def by_partition(self) -> dict[str, list[WriteStat]]:
        """Return the write stats of each partition, by partition path. A partition without write stats has an empty list."""
        stats_by_partition: dict[str, list[WriteStat]] = {path: [] for path in self.partitions}
        for stat in self.stats:
            stats_by_partition.setdefault(stat.partition_path or "", []).append(stat)
        return stats_by_partition


def write_commit(metadata: CommitMetadata, *, profile: bool = False) -> bytes:
    """Encode commit metadata as JSON, formatted as Hudi formats it.

    Args:
        profile: whether the metadata is a workload profile, for an inflight file. Then `partitionPath` is null in each write
            stat, as in Hudi's profiles.
    """
    content: dict[str, Any] = {
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra),
        "operationType": metadata.operation,
    }
    if metadata.replaced is not None:
        content["partitionToReplaceFileIds"] = {path: list(ids) for path, ids in metadata.replaced.items()}
    stats = _write_partitions(metadata.by_partition(), profile)
    return f'{{\n  "partitionToWriteStats" : {stats},{_write_json(content)[1:]}'.encode()


def _write_json(value: Any) -> str:
    """Encode a value as JSON, formatted as Hudi formats it."""
    return json.dumps(value, indent=2, separators=(",", " : "), ensure_ascii=False)


def _write_partitions(stats_by_partition: Mapping[str, Iterable[WriteStat]], profile: bool) -> str:
    """Encode the write stats of all partitions as JSON, formatted as Hudi formats it, at their depth in the file.

    Python's encoder is slow if it has to indent, and a commit may have very many write stats. So each of them is encoded without
    indentation, with line breaks as separators.
    """
    parts: list[str] = []
    for path, stats in stats_by_partition.items():
        texts = [f"\n      {_write_stat(stat, profile)}" for stat in stats]
        array = f"[{','.join(texts)}\n    ]" if texts else "[]"
        parts.append(f"\n    {_FLAT.encode(path)} : {array}")
    return f"{{{','.join(parts)}\n  }}" if parts else "{}"


def _write_stat(stat: WriteStat, profile: bool) -> str:
    """Encode a write stat as a JSON object at its depth in the file.

    Args:
        profile: whether the write stat is part of a workload profile.
    """
    values = stat_to_json(stat, profile=profile)
    if stat.log or stat.cdc_stats is not None or stat.runtime_stats is not None:  # objects and lists inside the object
        # A line break inside a JSON string is escaped, so each line break here begins a line of the formatted text.
        return _write_json(values).replace("\n", "\n      ")
    return f"{{\n        {_FLAT.encode(values)[1:-1]}\n      }}"


def stat_to_json(stat: WriteStat, *, profile: bool = False) -> dict[str, Any]:
    """Return the JSON object of a write stat, with Hudi's field names.

    Args:
        profile: whether the write stat is part of a workload profile. Then `partitionPath` is null.
    """
    values = {key: getattr(stat, name) for key, name in _STAT_FIELDS.items()}
    if profile:
        values["partitionPath"] = None
    return {**values, **stat.log}


def read_commit(data: bytes, file_name: str) -> CommitMetadata:
    """Decode the commit metadata in a file of any Hudi release. Fields that Penstock does not know are left out.

    Args:
        file_name: the name of the file, for errors.

    Raises:
        CorruptFile: the file is empty, torn, or not commit metadata.
    """
    return parse_commit(_parse_json(data, file_name), file_name)


def parse_commit(content: Mapping[str, Any], file_name: str) -> CommitMetadata:
    """Build commit metadata from parsed JSON, or from an entry of the archived timeline, which has the same fields.

    Args:
        file_name: the name of the commit's file, for errors.

    Raises:
        CorruptFile: the content is not commit metadata.
    """
    try:
        stats: list[WriteStat] = []
        for path, stats_of_partition in (content.get("partitionToWriteStats") or {}).items():
            stats += [_read_stat(path, stat) for stat in stats_of_partition]
        replaced = content.get("partitionToReplaceFileIds")
        return CommitMetadata(
            stats=tuple(stats),
            operation=_read_operation(content),
            extra=_read_extra(content),
            compacted=bool(content.get("compacted")),
            replaced=None if replaced is None else {path: tuple(ids) for path, ids in replaced.items()},
            partitions=tuple(content.get("partitionToWriteStats") or ()),
        )
    except (AttributeError, TypeError, KeyError) as e:
        raise CorruptFile(f"{file_name} is not commit metadata: {e}") from e


def read_commit_schema(data: bytes, file_name: str) -> tuple[str, str | None]:
    """Return (operation, Avro schema as JSON) from the file of a commit; the schema is None if the file has none.

    This is faster than `read_commit`, because the write stats, which may be many, are not converted to `WriteStat`s.

    Args:
        file_name: the name of the file, for errors.

    Raises:
        CorruptFile: the file is empty, torn, or not commit metadata.
    """
    content = _parse_json(data, file_name)
    try:
        return _read_operation(content), _read_extra(content).get("schema") or None
    except (AttributeError, TypeError) as e:
        raise CorruptFile(f"{file_name} is not commit metadata: {e}") from e


def read_stat_fields(data: bytes, file_name: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return a tuple per write stat of a commit, with the values of the fields `keys`. A field that a write stat lacks is None.

    This is faster than `read_commit`, because the write stats, which may be many, are not converted to `WriteStat`s.

    Args:
        data: the content of the commit's file.
        file_name: the name of the file, for errors.
        keys: the names of the fields as the file spells them.

    Raises:
        CorruptFile: the file is empty, torn, or not commit metadata.
    """
    content = _parse_json(data, file_name)
    try:
        found: list[tuple[Any, ...]] = []
        for stats in (content.get("partitionToWriteStats") or {}).values():
            found += [tuple(map(stat.get, keys)) for stat in stats]
        return found
    except (AttributeError, TypeError) as e:
        raise CorruptFile(f"{file_name} is not commit metadata: {e}") from e


def read_partitions(data: bytes, file_name: str) -> dict[str, bool]:
    """Return the partitions that a commit changed: path → whether the commit made an older file there obsolete.

    A clean may delete an obsolete file later. A commit makes files obsolete if it wrote the next version of a base file,
    compacted, or replaced file groups. This is faster than `read_commit`, because write stats are not converted to `WriteStat`s.

    Args:
        data: the content of the commit's file.
        file_name: the name of the file, for errors.

    Raises:
        CorruptFile: the file is empty, torn, or not commit metadata.
    """
    content = _parse_json(data, file_name)
    try:
        is_compaction = bool(content.get("compacted"))
        has_old_version: dict[str, bool] = {}
        for path, stats in (content.get("partitionToWriteStats") or {}).items():
            has_old_version[path] = bool(stats) and (is_compaction or any(_is_next_version(stat) for stat in stats))
        return has_old_version | dict.fromkeys(content.get("partitionToReplaceFileIds") or (), True)
    except (AttributeError, TypeError) as e:
        raise CorruptFile(f"{file_name} is not commit metadata: {e}") from e


def _is_next_version(stat: Mapping[str, Any]) -> bool:
    """Whether a write stat, given as a JSON object, is of a base file that replaces an older base file of its file group."""
    is_log_file = (stat.get("path") or "").rpartition("/")[2].startswith(".")
    return not is_log_file and stat.get("prevCommit") not in ("null", "", None)


def _parse_json(data: bytes, file_name: str) -> Any:
    """Parse the JSON of a commit's file. Raises CorruptFile if the file is empty or not JSON."""
    if not data:
        raise CorruptFile(
            f"{file_name} has no content: a writer died while publishing it. Restore the file from a copy, "
            "or remove it to give up that commit"
        )
    try:
        return json.loads(data)
    except ValueError as e:
        raise CorruptFile(f"{file_name} is not commit metadata: {e}") from e


def _read_operation(content: Mapping[str, Any]) -> str:
    """Return the operation in the JSON of a commit, as the file spells it; UNKNOWN if there is none."""
    return content.get("operationType") or Operation.UNKNOWN.stored


def _read_extra(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the extra metadata in the JSON of a commit, without null values."""
    extra = content.get("extraMetadata") or {}
    return {key: value for key, value in extra.items() if value is not None}


def _read_stat(partition: str, stat: Mapping[str, Any]) -> WriteStat:
    """Convert the JSON object of a write stat to a `WriteStat`. Unknown fields are left out.

    Args:
        partition: the partition path, which is the key of the object in the commit's JSON.
    """
    known = {name: stat[key] for key, name in _STAT_FIELDS.items() if stat.get(key) is not None}
    known.setdefault("path", None)
    known["partition_path"] = partition
    return WriteStat(**known, log={k: stat[k] for k in _LOG_FIELDS if k in stat})


def make_workload_profile(
    operation: Operation, inserts: Mapping[str, int], updates: Iterable[tuple[str, str, str, int]]
) -> CommitMetadata:
    """Build the workload profile of a write, for its inflight file: how many rows it is about to insert and to update.

    Args:
        inserts: the number of rows to insert, by partition path.
        updates: (partition path, file id, base instant, number of rows to update) of each file group that changes.
    """
    stats = [WriteStat(file_id="", partition_path=path, path=None, num_inserts=rows) for path, rows in inserts.items()]
    for path, file_id, base_instant, rows in updates:
        stats.append(WriteStat(file_id, path, path=None, prev_commit=base_instant, num_update_writes=rows))
    return CommitMetadata(stats=tuple(stats), operation=operation.stored)
