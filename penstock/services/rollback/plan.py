"""What a rollback is to remove: known from the write's markers, or by listing.

A completed write has no markers any more; the option `hoodie.rollback.using.markers` may say that others are listed too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock import options as o
from penstock.catalog.listing import walk_partitions
from penstock.filegroup.markers import Marker, MarkerType, read_markers
from penstock.filegroup.names import BaseName, LogName, is_log_token_of, parse_base_name, parse_log_name
from penstock.storage import join
from penstock.table import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat, read_commit
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path


def plan_rollback(table: TableState, instant: Instant) -> dict[str, Any]:
    """What undoing a write removes, and what it takes back in logs."""
    if instant.state is State.REQUESTED:
        requests: list[dict[str, Any]] = []
    elif instant.state is State.INFLIGHT and (table.options[o.ROLLBACK_USING_MARKERS] or instant.action is Action.LOG_COMPACTION):
        # a log compaction says nowhere else which logs it has added to
        requests = _announced(table, read_markers(table.storage, table.base_path, instant.time))
    else:
        requests = _listed(table, instant)
    return {
        "instantToRollback": {"commitTime": instant.time, "action": instant.action.value},
        "RollbackRequests": requests,
        "version": 1,
    }


def _announced(table: TableState, markers: Sequence[Marker]) -> list[dict[str, Any]]:
    """A request for each marker that names a data file."""
    requests = []
    for marker in sorted(markers, key=lambda m: m.file_path):
        path, _, file = marker.file_path.rpartition("/")
        if (log := parse_log_name(file)) is not None:
            requests.append(_taking_back(table, path, log.file_id, log.base_instant, {file: 1}))
        elif (base := parse_base_name(file)) is None:
            continue
        elif marker.kind is MarkerType.APPEND:  # as Hudi wrote it once: the name stands for the slice's log, whichever file
            requests.append(_taking_back(table, path, base.file_id, base.instant, {}))
        else:
            requests.append(_deleting(path, base.file_id, base.instant, join(table.base_path, path, file)))
    return requests


def _deleting(path: str, file_id: str, base_instant: str, file: str) -> dict[str, Any]:
    return _request(path, file_id, base_instant) | {"filesToBeDeleted": [file]}


def _taking_back(table: TableState, path: str, file_id: str, base_instant: str, logs: Mapping[str, int]) -> dict[str, Any]:
    """A request to add a rollback block to a slice's log. Where no log file is known it names the folder, as Hudi does."""
    unnamed = {join(table.base_path, path): 1}
    return _request(path, file_id, base_instant) | {"logBlocksToBeDeleted": dict(logs) or unnamed}


def _request(path: str, file_id: str, base_instant: str) -> dict[str, Any]:
    return {
        "partitionPath": path,
        "fileId": file_id,
        "latestBaseInstant": base_instant,
        "filesToBeDeleted": [],
        "logBlocksToBeDeleted": {},
    }


def _listed(table: TableState, instant: Instant) -> list[dict[str, Any]]:
    """Requests for what a listing shows of a write: files with its time as their base instant, and logs it has added to.

    Which slices that were may stand in what the write says about itself; our log files tell it by their names. Two attempts of a
    task may have made the same file group. A compaction did not write the logs that have its time.
    """
    is_delta = instant.action.family is Action.DELTA_COMMIT
    stats: dict[str, list[WriteStat]] = written_by(table, instant).by_partition() if is_delta else {}
    requests: list[dict[str, Any]] = []
    for path, files in walk_partitions(table.storage, table.base_path):
        newest: dict[str, str] = {}
        named: dict[str, dict[str, int]] = {}
        for file in files:
            name: BaseName | LogName | None = parse_base_name(file.name) or parse_log_name(file.name)
            if name is None:
                continue
            base_instant = name.instant if isinstance(name, BaseName) else name.base_instant
            if base_instant == instant.time and (is_delta or isinstance(name, BaseName)):
                requests.append(_deleting(path, name.file_id, base_instant, join(table.base_path, path, file.name)))
            if base_instant <= instant.time:
                newest[name.file_id] = max(newest.get(name.file_id, ""), base_instant)
            if is_delta and isinstance(name, LogName) and is_log_token_of(name.write_token, instant.time):
                named.setdefault(name.file_id, {})[file.name] = 1
        requests += _added_to(table, path, stats.get(path, []), newest, instant.time, named)
    return requests


def _added_to(
    table: TableState,
    path: str,
    stats: Sequence[WriteStat],
    newest: Mapping[str, str],
    time: str,
    named: Mapping[str, Mapping[str, int]],
) -> list[dict[str, Any]]:
    """A request for each file group that the write may have added log files to; new ones went with their files.

    Args:
        named: log files by file id whose names say that the write made them.
    """
    logs = {file_id: dict(its) for file_id, its in named.items() if newest[file_id] < time}
    for stat in stats:
        if stat.prev_commit != "null" and newest.get(stat.file_id, time) < time:
            name = (stat.path or "").rpartition("/")[2]
            logs.setdefault(stat.file_id, {}).update({name: max(1, stat.total_write_bytes)} if parse_log_name(name) else {})
    return [_taking_back(table, path, file_id, newest[file_id], named) for file_id, named in sorted(logs.items())]


def written_by(table: TableState, instant: Instant) -> CommitMetadata:
    """What a write says it did, or was about to do; nothing where it says nothing."""
    try:
        content = table.storage.read(instant_path(table.base_path, instant))
    except FileNotFoundError:
        content = b""
    return read_commit(content, instant.file_name) if content else CommitMetadata()
