"""Stage 7 of a write: its index learns of new keys, and its commit is published with the metadata that the options ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

from penstock import options as o
from penstock.commit.change import Change
from penstock.hooks import PublishedCommit
from penstock.index.in_memory import remember
from penstock.options import Options
from penstock.timeline.commit_file import CommitMetadata, WriteStat
from penstock.write.context import WriteContext
from penstock.write.locate.task_plan import INDEX_FIGURES
from penstock.write.tell import Telling


def publish(
    write: WriteContext,
    change: Change,
    stats: Sequence[WriteStat],
    *,
    index_figures: str | None = None,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
) -> PublishedCommit:
    """Publish a write. One that changed nothing is abandoned, if the options do not allow empty commits.

    Args:
        index_figures: what the index did, for reports; None: only the name of the index is kept.
        replaced: the file groups that the write takes out of the table, by partition path.
    """
    operation = write.settings.operation
    takes_groups_out = any((replaced or {}).values())
    if not stats and not takes_groups_out and not write.options[o.ALLOW_EMPTY_COMMIT]:
        change.abandon()
        return PublishedCommit(change.time, change.instant.action, CommitMetadata(operation=operation.stored))
    telling = Telling(write.spark, write.table, write.index, change.time)
    if telling.index.entries is not None:
        with write.stages.run("index", "telling the index of new keys") as notes:
            notes.rows = telling.of_added(stats)
    extra = {
        **extra_metadata(write.options),
        "penstock.stages": write.stages.to_text(),
        INDEX_FIGURES: index_figures or json.dumps({"index": write.index.name}),
    }
    commit = change.complete(
        stats,
        operation=operation,
        schema=write.prepared.avro_schema,
        extra=extra,
        replaced=replaced,
        spark=write.spark,
        published=partial(telling.of_removed, stats),
    )
    if write.index.remembers:
        remember(write.table.base_path, ((stat.partition_path or "", stat.file_id) for stat in stats))
    return commit


def extra_metadata(options: Options) -> dict[str, str]:
    """Return the options that the user wants to keep in the commit: those with the prefix that an option names."""
    prefix = options[o.COMMIT_METADATA_KEY_PREFIX]
    return dict(options.prefixed(prefix)) if prefix else {}
