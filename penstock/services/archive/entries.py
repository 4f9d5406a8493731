"""Archive entries, converted from timeline files.

An entry holds the content of one timeline file, in the field that Hudi's archive schema has for that kind of content. Commit
files are JSON on the timeline and are converted to Avro; plans and results of table services are Avro already.
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

#: Fields of a write stat that Hudi's Avro schema of archive entries has too. Hudi drops the other fields when it archives.
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
#: A key of the extra metadata that Hudi's readers of the archive require. Hudi archives it with an empty value.
_ROLLING_STAT = "ROLLING_STAT"


def archived_entry(instant: Instant, content: bytes, modified_ms: int, *, utc: bool) -> dict[str, Any]:
    """Return the archive entry for one timeline file: the file's content in the field that Hudi's archive schema has for it.

    Args:
        instant: the instant and state in the name of the timeline file.
        content: the content of the timeline file.
        modified_ms: when the file was written, in milliseconds since 1970.
        utc: whether the table's instant times are in UTC. If false, they are in the time zone of this machine.

    Raises:
        CorruptFile: the content cannot be parsed as that of the instant's action and state.
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
        return entry | _content_field(action, instant.state, content)
    except (CorruptFile, ValueError, TypeError, AttributeError) as e:
        raise CorruptFile(f"{instant.file_name} cannot be archived, its content is not understood: {e}") from e


def _content_field(action: Action, state: State, content: bytes) -> dict[str, Any]:
    """Parse a timeline file. Return a dict with one item: the name of the field in Hudi's archive schema → the parsed content.

    The dict is empty if Hudi archives no content for this action and state.

    Args:
        content: the content of the timeline file.
    """
    if action in (Action.COMMIT, Action.DELTA_COMMIT):
        return {"hoodieCommitMetadata": _commit_metadata(content)}
    if action is Action.REPLACE_COMMIT:
        return _replace_field(state, content)
    if not content:
        return {}
    if action in (Action.COMPACTION, Action.LOG_COMPACTION):
        return {"hoodieCompactionPlan": read_container(content)} if state is State.REQUESTED else {}
    if action is Action.CLEAN:
        return {"hoodieCleanMetadata" if state is State.COMPLETED else "hoodieCleanerPlan": read_container(content)}
    if action is Action.ROLLBACK:
        return {"hoodieRollbackMetadata": read_container(content)} if state is State.COMPLETED else {}
    return {}


def _replace_field(state: State, content: bytes) -> dict[str, Any]:
    """Parse a timeline file of a replace commit. Return a dict with one item: field in Hudi's archive schema → parsed content.

    The dict is empty if the file is an empty requested or inflight file.

    Args:
        content: the content of the timeline file.
    """
    if state is State.COMPLETED:
        parsed = json.loads(content)
        replaced = {path: list(ids) for path, ids in (parsed.get("partitionToReplaceFileIds") or {}).items()}
        return {"hoodieReplaceCommitMetadata": _commit_metadata(content) | {"partitionToReplaceFileIds": replaced}}
    if not content:
        return {}
    if state is State.INFLIGHT:
        return {"HoodieInflightReplaceMetadata": _commit_metadata(content)}
    return {"hoodieRequestedReplaceMetadata": read_container(content)}


def _commit_metadata(content: bytes) -> dict[str, Any]:
    """Convert a commit file from JSON to the record of Hudi's Avro schema. An empty file becomes a record without write stats."""
    parsed: Mapping[str, Any] = json.loads(content) if content else {}
    stats = parsed.get("partitionToWriteStats") or {}
    extra = {key: value for key, value in (parsed.get("extraMetadata") or {}).items() if value is not None}
    operation = Operation.COMPACT.stored if parsed.get("compacted") else parsed.get("operationType")
    return {
        "partitionToWriteStats": {path: list(map(_write_stat, written)) for path, written in stats.items()},
        "extraMetadata": {**extra, _ROLLING_STAT: ""},
        "version": 1,
        "operationType": operation or Operation.UNKNOWN.stored,
    }


def _write_stat(stat: Mapping[str, Any]) -> dict[str, Any]:
    """Convert one write stat from JSON to the record of Hudi's Avro schema."""
    texts = {name: stat.get(name) for name in _STAT_TEXTS}
    return texts | {name: int(stat.get(name) or 0) for name in _STAT_NUMBERS}
