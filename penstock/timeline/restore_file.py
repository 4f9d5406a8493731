"""The files of a restore on the timeline: its plan and its result, as values and as Hudi's Avro."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import CorruptFile
from penstock.formats.avro.container import read_container, write_container
from penstock.timeline.instant import Action, Instant, State

_PLAN = "HoodieRestorePlan"
_PLAN_VERSION = 2
_RESULT = "HoodieRestoreMetadata"
_RESULT_VERSION = 1


@dataclass(frozen=True)
class RestorePlan:
    """The plan of a restore: the commit to restore to, and the instants to roll back, in this order."""

    #: The time of the commit to restore to. It is the newest commit once the restore has completed.
    to: str
    instants: tuple[Instant, ...] = ()


@dataclass(frozen=True)
class RestoreResult:
    """The result of a restore: the files that it deleted and the log files that it added, for each instant rolled back."""

    instant: str
    plan: RestorePlan
    #: Time of the rolled back instant → partition path → full paths of the files that were deleted.
    deleted: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    #: Time of the rolled back instant → partition path → path and size of each log file that was added. These log files hold
    #: the rollback blocks that cancel the instant's log blocks.
    added: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    milliseconds: int = 0

    @property
    def files_deleted(self) -> int:
        """The number of files that the restore deleted, for all instants that it rolled back."""
        count = 0
        for paths_by_partition in self.deleted.values():
            count += sum(len(paths) for paths in paths_by_partition.values())
        return count


def write_restore_plan(plan: RestorePlan) -> bytes:
    """Encode a restore plan as the content of `<instant>.restore.requested`, as Hudi 0.14 and 0.15 write it."""
    record = {
        "instantsToRollback": [_instant_record(instant) for instant in plan.instants],
        "version": _PLAN_VERSION,
        "savepointToRestoreTimestamp": plan.to,
    }
    return write_container(_PLAN, record)


def read_restore_plan(content: bytes, file_name: str) -> RestorePlan:
    """Decode the restore plan in a `.restore.requested` file of Hudi 0.12 or later.

    Args:
        file_name: the name of the file, for errors.

    Raises:
        CorruptFile: the file is empty, torn, not a restore plan, or of an older release, which does not name the commit to
            restore to.
    """
    try:
        record = read_container(content)
        to = record["savepointToRestoreTimestamp"]
        if not isinstance(to, str):
            raise CorruptFile("it does not say which commit it restores to")
        instants = tuple(_read_instant(instant) for instant in record["instantsToRollback"] or ())
        return RestorePlan(to, instants)
    except (CorruptFile, KeyError, TypeError, ValueError, AttributeError) as e:
        raise CorruptFile(f"{file_name} is not a restore plan: {e}") from e


def write_restore_result(result: RestoreResult) -> bytes:
    """Encode the result of a restore as the content of `<instant>.restore`: one rollback record per instant rolled back."""
    instants = result.plan.instants
    record = {
        "startRestoreTime": result.instant,
        "timeTakenInMillis": result.milliseconds,
        "instantsToRollback": [instant.time for instant in instants],
        "hoodieRestoreMetadata": {instant.time: [_rollback_record(result, instant)] for instant in instants},
        "version": _RESULT_VERSION,
        "restoreInstantInfo": [_instant_record(instant) for instant in instants],
    }
    return write_container(_RESULT, record)


def _rollback_record(result: RestoreResult, instant: Instant) -> dict[str, Any]:
    """Return the Avro record of one instant that the restore rolled back, with its deleted and added files."""
    deleted = result.deleted.get(instant.time, {})
    added = result.added.get(instant.time, {})
    return {
        "startRollbackTime": result.instant,
        "timeTakenInMillis": result.milliseconds,
        "totalFilesDeleted": sum(map(len, deleted.values())),
        "commitsRollback": [instant.time],
        "partitionMetadata": {
            path: {
                "partitionPath": path,
                "successDeleteFiles": list(deleted.get(path, ())),
                "failedDeleteFiles": [],
                "rollbackLogFiles": dict(added.get(path, {})),
                "logFilesFromFailedCommit": {},
            }
            for path in sorted({*deleted, *added})
        },
        "version": 1,
        "instantsRollback": [_instant_record(instant)],
    }


def _instant_record(instant: Instant) -> dict[str, str]:
    """Return an instant as the Avro record `HoodieInstantInfo`."""
    return {"commitTime": instant.time, "action": instant.action.value}


def _read_instant(record: Mapping[str, str]) -> Instant:
    """Return the instant in an Avro record `HoodieInstantInfo`, with the state completed."""
    return Instant(record["commitTime"], Action(record["action"]), State.COMPLETED)
