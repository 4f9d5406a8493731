"""From the files of instants to entries of the archive, and the rows of history that those become again.

An entry keeps what an instant's file said, in the field that Hudi keeps that kind in: commits, JSON on the timeline, become
Avro; plans and results of services are Avro already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from penstock.errors import CorruptFile
from penstock.formats.avro.container import read_container
from penstock.options.operation import Operation
from penstock.timeline.instant import Action, Instant, State, format_time

#: Of a write stat, what Avro's one has too; the others are dropped, as Hudi drops them.
_STAT_TEXTS = ("fileId", "path", "prevCommit", "partitionPath")
_STAT_NUMBERS = (
    "numWrites",
    "numDeletes",
    "numUpdateWrites",
    "totalWriteBytes",
    "totalWriteErrors",
    "totalLogRecords",
    "totalUpdatedRecordsCompacted",
    "numInserts",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "fileSizeInBytes",
)
#: A key that Hudi's readers look for; what once stood under it is not archived.
_ROLLING_STAT = "ROLLING_STAT"


def archived_entry(instant: Instant, content: bytes, modified_ms: int, *, utc: bool) -> dict[str, Any]:
    """One state of an instant as an entry.

    Raises:
        CorruptFile: the file's content is not what its name says.
    """
    when = datetime.fromtimestamp(modified_ms / 1000, timezone.utc)
    action = instant.action.family if instant.is_completed else instant.action
    entry: dict[str, Any] = {
        "commitTime": instant.time,
        "actionType": action.value,
        "actionState": instant.state.name,
        "version": None,
        "stateTransitionTime": format_time(when if utc else when.astimezone()),
    }
    try:
        return entry | _payload(action, instant.state, content)
    except (CorruptFile, ValueError, TypeError, AttributeError) as e:
        raise CorruptFile(f"{instant.file_name} cannot be archived, its content is not understood: {e}") from e


def _payload(action: Action, state: State, content: bytes) -> dict[str, Any]:
    if action in (Action.COMMIT, Action.DELTA_COMMIT):
        return {"hoodieCommitMetadata": _commit(content)}
    if action is Action.REPLACE_COMMIT:
        return _replace(state, content)
    if not content:
        return {}
    if action in (Action.COMPACTION, Action.LOG_COMPACTION):
        return {"hoodieCompactionPlan": read_container(content)} if state is State.REQUESTED else {}
    if action is Action.CLEAN:
        return {"hoodieCleanMetadata" if state is State.COMPLETED else "hoodieCleanerPlan": read_container(content)}
    if action is Action.ROLLBACK:
        return {"hoodieRollbackMetadata": read_container(content)} if state is State.COMPLETED else {}
    return {}


def _replace(state: State, content: bytes) -> dict[str, Any]:
    if state is State.COMPLETED:
        parsed = json.loads(content)
        replaced = {path: list(ids) for path, ids in (parsed.get("partitionToReplaceFileIds") or {}).items()}
        return {"hoodieReplaceCommitMetadata": _commit(content) | {"partitionToReplaceFileIds": replaced}}
    if not content:
        return {}
    if state is State.INFLIGHT:
        return {"HoodieInflightReplaceMetadata": _commit(content)}
    return {"hoodieRequestedReplaceMetadata": read_container(content)}


def _commit(content: bytes) -> dict[str, Any]:
    """Commit metadata as Avro holds it; that of a file without content is empty."""
    parsed: Mapping[str, Any] = json.loads(content) if content else {}
    stats = parsed.get("partitionToWriteStats") or {}
    extra = {key: value for key, value in (parsed.get("extraMetadata") or {}).items() if value is not None}
    operation = Operation.COMPACT.stored if parsed.get("compacted") else parsed.get("operationType")
    return {
        "partitionToWriteStats": {path: [_stat(one) for one in its] for path, its in stats.items()},
        "extraMetadata": {**extra, _ROLLING_STAT: ""},
        "version": 1,
        "operationType": operation or Operation.UNKNOWN.stored,
    }


def _stat(stat: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: stat.get(name) for name in _STAT_TEXTS}
    return texts | {name: int(stat.get(name) or 0) for name in _STAT_NUMBERS}
