"""Restores on the timeline: which instants one takes back, and what it did, as values and as Hudi's Avro."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import CorruptFile
from penstock.formats.avro.container import read_container, write_container
from penstock.timeline.instant import Action, Instant, State

_PLAN, _RESULT = "HoodieRestorePlan", "HoodieRestoreMetadata"
_PLAN_VERSION, _RESULT_VERSION = 2, 1


@dataclass(frozen=True)
class RestorePlan:
    """What a restore takes back, in this order."""

    #: The commit that is the newest one afterwards.
    to: str
    instants: tuple[Instant, ...] = ()


@dataclass(frozen=True)
class RestoreResult:
    """What a restore did."""

    instant: str
    plan: RestorePlan
    #: Files that were deleted, in full, by the time of the instant that wrote them and partition path.
    deleted: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    #: Log files that were added to take blocks back, with their sizes, in the same way.
    added: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    milliseconds: int = 0

    @property
    def files_deleted(self) -> int:
        """How many files were deleted."""
        return sum(len(names) for parts in self.deleted.values() for names in parts.values())


def write_restore_plan(plan: RestorePlan) -> bytes:
    """The content of `<instant>.restore.requested`, as Hudi 0.14 and 0.15 write it."""
    record = {
        "instantsToRollback": [_info(one) for one in plan.instants],
        "version": _PLAN_VERSION,
        "savepointToRestoreTimestamp": plan.to,
    }
    return write_container(_PLAN, record)


def read_restore_plan(content: bytes, file_name: str) -> RestorePlan:
    """A plan of Hudi 0.12 or later, which says where it restores to.

    Raises:
        CorruptFile: the file is empty, torn, or not a plan.
    """
    try:
        record = read_container(content)
        to = record["savepointToRestoreTimestamp"]
        if not isinstance(to, str):
            raise CorruptFile("it does not say which commit it restores to")
        named = record["instantsToRollback"] or ()
        instants = (Instant(one["commitTime"], Action(one["action"]), State.COMPLETED) for one in named)
        return RestorePlan(to, tuple(instants))
    except (CorruptFile, KeyError, TypeError, ValueError, AttributeError) as e:
        raise CorruptFile(f"{file_name} is not a restore plan: {e}") from e


def write_restore_result(result: RestoreResult) -> bytes:
    """The content of `<instant>.restore`: for each instant what taking it back did, as a rollback would tell it."""
    times = [one.time for one in result.plan.instants]
    record = {
        "startRestoreTime": result.instant,
        "timeTakenInMillis": result.milliseconds,
        "instantsToRollback": times,
        "hoodieRestoreMetadata": {one.time: [_rollback(result, one)] for one in result.plan.instants},
        "version": _RESULT_VERSION,
        "restoreInstantInfo": [_info(one) for one in result.plan.instants],
    }
    return write_container(_RESULT, record)


def _rollback(result: RestoreResult, instant: Instant) -> dict[str, Any]:
    deleted, added = result.deleted.get(instant.time, {}), result.added.get(instant.time, {})
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
        "instantsRollback": [_info(instant)],
    }


def _info(instant: Instant) -> dict[str, str]:
    return {"commitTime": instant.time, "action": instant.action.value}
