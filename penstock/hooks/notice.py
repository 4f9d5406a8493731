"""`CommitNotice`, the argument of callbacks after a commit, and its JSON form, the message to other systems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.hooks.commit_hook import PendingCommit, PublishedCommit
from penstock.options.operation import Operation
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat, stat_to_json

#: The operations whose commits are announced: those of writes. Hudi does not announce compactions and clusterings either.
_ANNOUNCED = frozenset(
    operation.stored
    for operation in (
        Operation.UPSERT,
        Operation.INSERT,
        Operation.BULK_INSERT,
        Operation.DELETE,
        Operation.INSERT_OVERWRITE,
        Operation.INSERT_OVERWRITE_TABLE,
        Operation.DELETE_PARTITION,
    )
)


@dataclass(frozen=True)
class CommitNotice:
    """The notice of one commit of a write. Callbacks of users are called with it."""

    table_name: str
    #: The path of the table, as users write it: with scheme and bucket if it is remote.
    base_path: str
    instant: str
    #: The action in the name of the commit's file: `commit`, `deltacommit` or `replacecommit`.
    action: str
    #: The operation as options spell it, such as `upsert`.
    operation: str
    #: What the commit holds: the write stats of its files, the schema, the extra metadata, and replaced file groups.
    metadata: CommitMetadata = field(repr=False)
    #: The options of the write, by their keys. They may hold passwords.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def idempotency_key(self) -> str:
        """A text that identifies the commit by table and instant. If a notice is sent twice, the key is the same both times."""
        return f"{self.table_name}@{self.instant}"

    @property
    def rows_inserted(self) -> int:
        """The number of rows with new keys."""
        return sum(stat.num_inserts for stat in self.metadata.stats)

    @property
    def rows_updated(self) -> int:
        """The number of rows whose stored row was replaced."""
        return sum(stat.num_update_writes for stat in self.metadata.stats)

    @property
    def rows_deleted(self) -> int:
        """The number of deleted rows."""
        return sum(stat.num_deletes for stat in self.metadata.stats)

    @property
    def files_written(self) -> int:
        """The number of data files that the commit wrote."""
        return sum(stat.path is not None for stat in self.metadata.stats)

    @property
    def bytes_written(self) -> int:
        """The number of bytes in the data files that the commit wrote."""
        return self.metadata.bytes_written

    @property
    def partitions(self) -> tuple[str, ...]:
        """The paths of the partitions that the commit changed."""
        return tuple(sorted({*self.metadata.by_partition(), *(self.metadata.replaced or {})}))


def is_announced(commit: PendingCommit | PublishedCommit) -> bool:
    """Whether callbacks are called for the commit: it is the commit of a write, not of a compaction or clustering."""
    return commit.operation in _ANNOUNCED


def make_notice(table: TableState, commit: PendingCommit | PublishedCommit) -> CommitNotice:
    """Return the notice of a commit."""
    return CommitNotice(
        table_name=table.config.name,
        base_path=table.uri,
        instant=commit.instant,
        action=commit.action.value,
        operation=commit.operation.lower(),
        metadata=commit.metadata,
        options=table.options.raw,
    )


def write_message(notice: CommitNotice, *, hudi_form: bool) -> str:
    """Return the notice as JSON, with the fields of Hudi's message.

    Args:
        hudi_form: whether to write fields whose Java type in Hudi is Option as Hudi does: without the value, only whether there
            is one. If false, the value itself is written.
    """
    content = {
        "commitTime": notice.instant,
        "tableName": notice.table_name,
        "basePath": notice.base_path,
        "hoodieWriteStat": [_stat_fields(stat, hudi_form) for stat in notice.metadata.stats],
        "commitActionType": _optional(notice.action, hudi_form),
        "extraMetadata": _optional(dict(notice.metadata.extra), hudi_form),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _stat_fields(stat: WriteStat, hudi_form: bool) -> dict[str, Any]:
    """Return the fields of a write stat for the message: those that a commit has, with one exception for log files.

    The column stats of a log file are `recordsStats` in a commit, as `{"val": …}`, and `columnStats` in the message.

    Args:
        hudi_form: whether to write fields whose Java type in Hudi is Option as Hudi does: without the value, only whether there
            is one. If false, the value itself is written.
    """
    fields = stat_to_json(stat)
    if stat.log:
        stored = fields.pop("recordsStats", None) or {}
        fields["columnStats"] = _optional(stored.get("val"), hudi_form)
    return fields


def _optional(value: Any, hudi_form: bool) -> Any:
    """Return the JSON form of a field whose Java type in Hudi is Option.

    Args:
        hudi_form: whether to return what Hudi writes: a dict that says whether there is a value. Otherwise return the value.
    """
    if not hudi_form:
        return value
    return {"empty": value is None, "present": value is not None}
