"""Plan a rollback: find the files of a write by its markers, or by listing partitions.

A completed write no longer has markers, so its files are found by listing. With `hoodie.rollback.using.markers=false`, the files
of a pending write are found by listing too. A plan is Hudi's `HoodieRollbackPlan`: one request per file to delete, and one per
slice whose log needs a rollback block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock import options as o
from penstock.commit.markers import read_markers
from penstock.filegroup.markers import Marker, MarkerType
from penstock.filegroup.names import BaseName, LogName, is_marked_token, parse_base_name, parse_log_name
from penstock.storage import join
from penstock.table.listing import walk_partitions
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat, read_commit
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path


def plan_rollback(table: TableState, instant: Instant) -> dict[str, Any]:
    """Return the plan to roll back a write: which files to delete, and to which slices to add a rollback block. Writes nothing.

    Args:
        instant: the write, in its current state.
    """
    if instant.state is State.REQUESTED or (instant.state is State.INFLIGHT and _uses_markers(table, instant)):
        # Data files are written from inflight on. But a write that was withdrawn after a conflict is in the state requested
        # again, and its tasks may have ended late.
        requests = _requests_by_markers(table, read_markers(table.storage, table.base_path, instant.time))
    else:
        requests = _requests_by_listing(table, instant)
    return {
        "instantToRollback": {"commitTime": instant.time, "action": instant.action.value},
        "RollbackRequests": requests,
        "version": 1,
    }


def _uses_markers(table: TableState, instant: Instant) -> bool:
    """Whether to find the files of a pending write by its markers instead of listing partitions.

    Always true for a log compaction: only its markers say which slices it has added log files to.
    """
    return table.options[o.ROLLBACK_USING_MARKERS] or instant.action is Action.LOG_COMPACTION


def _requests_by_markers(table: TableState, markers: Sequence[Marker]) -> list[dict[str, Any]]:
    """Return one request of a rollback plan per marker: delete the base file, or add a rollback block after the log file.

    Markers of other files are ignored.
    """
    requests = []
    for marker in sorted(markers, key=lambda marker: marker.file_path):
        path, _, file_name = marker.file_path.rpartition("/")
        log = parse_log_name(file_name)
        if log is not None:
            requests.append(_add_block_request(table, path, log.file_id, log.base_instant, {file_name: 1}))
            continue
        base = parse_base_name(file_name)
        if base is None:
            continue
        if marker.kind is MarkerType.APPEND:
            # Older releases of Hudi put the name of the base file in the marker of a log file: it stands for all logs of the
            # slice.
            requests.append(_add_block_request(table, path, base.file_id, base.instant, {}))
        else:
            requests.append(_delete_request(path, base.file_id, base.instant, join(table.base_path, path, file_name)))
    return requests


def _delete_request(path: str, file_id: str, base_instant: str, file: str) -> dict[str, Any]:
    """Return a request of a rollback plan to delete one file.

    Args:
        path: the partition path.
        file: the full path of the file.
    """
    return _request(path, file_id, base_instant) | {"filesToBeDeleted": [file]}


def _add_block_request(table: TableState, path: str, file_id: str, base_instant: str, logs: Mapping[str, int]) -> dict[str, Any]:
    """Return a request of a rollback plan to add a rollback block to a slice.

    Args:
        path: the partition path.
        logs: sizes of the failed write's log files, by name. If empty, the request names the partition's folder, as in Hudi.
    """
    folder = {join(table.base_path, path): 1}
    return _request(path, file_id, base_instant) | {"logBlocksToBeDeleted": dict(logs) or folder}


def _request(path: str, file_id: str, base_instant: str) -> dict[str, Any]:
    """Return an empty request of a rollback plan for one slice: with no file to delete and no rollback block to add.

    Args:
        path: the partition path.
    """
    return {
        "partitionPath": path,
        "fileId": file_id,
        "latestBaseInstant": base_instant,
        "filesToBeDeleted": [],
        "logBlocksToBeDeleted": {},
    }


def _requests_by_listing(table: TableState, instant: Instant) -> list[dict[str, Any]]:
    """List all partitions; return the requests of a rollback plan that undo a write.

    Files whose base instant is the write's time are to be deleted. But if the write is a compaction, log files with its time as
    base instant stay: they are of later writes. Earlier slices to which the write has added log files get a rollback block. The
    commit metadata or workload profile of the write names these log files, and the names of Penstock's log files contain the
    write's time. A file group may have several files of one write, from two attempts of a task.
    """
    is_delta = instant.action.family is Action.DELTA_COMMIT
    stats: dict[str, list[WriteStat]] = read_written(table, instant).by_partition() if is_delta else {}
    requests: list[dict[str, Any]] = []
    for path, files in walk_partitions(table.storage, table.base_path):
        newest: dict[str, str] = {}  # base instant by file id, up to the write's time
        own_logs: dict[str, dict[str, int]] = {}  # log files by file id whose names say that the write made them
        for file in files:
            name: BaseName | LogName | None = parse_base_name(file.name) or parse_log_name(file.name)
            if name is None:
                continue
            base_instant = name.instant if isinstance(name, BaseName) else name.base_instant
            if base_instant == instant.time and (is_delta or isinstance(name, BaseName)):
                requests.append(_delete_request(path, name.file_id, base_instant, join(table.base_path, path, file.name)))
            if base_instant <= instant.time:
                newest[name.file_id] = max(newest.get(name.file_id, ""), base_instant)
            if is_delta and isinstance(name, LogName) and is_marked_token(name.write_token, instant.time):
                own_logs.setdefault(name.file_id, {})[file.name] = 1
        requests += _requests_for_logs(table, path, stats.get(path, []), newest, instant.time, own_logs)
    return requests


def _requests_for_logs(
    table: TableState,
    path: str,
    stats: Sequence[WriteStat],
    newest: Mapping[str, str],
    time: str,
    own_logs: Mapping[str, Mapping[str, int]],
) -> list[dict[str, Any]]:
    """Return a request to add a rollback block for each slice of older writes to which a write may have added log files.

    Slices that the write itself began are left out: their files are deleted.

    Args:
        path: the partition path.
        stats: the write stats of the write in this partition.
        newest: by file id, the newest base instant that is not later than the write. It identifies the slice.
        time: the instant time of the write.
        own_logs: by file id, sizes of the log files whose names contain the write's time.
    """
    logs = {file_id: dict(names) for file_id, names in own_logs.items() if newest[file_id] < time}
    for stat in stats:
        if stat.prev_commit != "null" and newest.get(stat.file_id, time) < time:
            names = logs.setdefault(stat.file_id, {})
            file_name = (stat.path or "").rpartition("/")[2]
            if parse_log_name(file_name):
                names[file_name] = max(1, stat.total_write_bytes)
    return [_add_block_request(table, path, file_id, newest[file_id], names) for file_id, names in sorted(logs.items())]


def read_written(table: TableState, instant: Instant) -> CommitMetadata:
    """Read what a write wrote: the commit metadata of a completed write, or the workload profile of an inflight write.

    Return empty metadata if the timeline file is missing or empty.
    """
    try:
        content = table.storage.read(instant_path(table.base_path, instant))
    except FileNotFoundError:
        content = b""
    return read_commit(content, instant.file_name) if content else CommitMetadata()
