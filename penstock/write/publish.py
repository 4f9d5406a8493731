"""Stage 7 of a write: publishes the commit, and updates the index if it stores entries (record key to file group)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock import options as o
from penstock.commit.change import STAGES, Change
from penstock.commit.seen_commits import Look
from penstock.hooks import PublishedCommit
from penstock.index.index import WrittenFiles
from penstock.index.previous_index import INDEX_FIGURES
from penstock.options import Options
from penstock.timeline.commit_file import CommitMetadata, WriteStat
from penstock.workers.driver_limit import fits_on_driver
from penstock.workers.runner import Runner
from penstock.workers.session_settings import count_cores

if TYPE_CHECKING:
    from penstock.write.context import WriteContext

#: How many tasks the driver runs at the same time.
_DRIVER_TASKS = 4


def publish(
    write: WriteContext,
    change: Change,
    stats: Sequence[WriteStat],
    *,
    index_figures: str | None = None,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
    look: Look | None = None,
) -> PublishedCommit:
    """Store index entries of new keys, publish the commit, and remove index entries of deleted keys; or undo an empty write.

    The index is only changed if it stores entries (record key to file group) outside the table. A write is empty if it wrote no
    data file and replaces no file group. It is undone, and its instant deleted, unless `hoodie.allow.empty.commit` is true.

    Args:
        stats: the write stats of all data files.
        index_figures: the name and counts of the index as JSON (`TaskPlan.figures`), which the commit stores for reports; None:
            the commit stores only the name.
        replaced: the ids of the file groups that the write replaces, by partition path; None: it replaces none.
        look: the check for keys that concurrent commits inserted too, made before the commit is published; None: no such check.

    Returns:
        The commit; without write stats if the write was undone.
    """
    operation = write.settings.operation
    takes_groups_out = any((replaced or {}).values())
    if not stats and not takes_groups_out and not write.options[o.ALLOW_EMPTY_COMMIT]:
        change.abandon()
        return PublishedCommit(change.time, change.instant.action, CommitMetadata(operation=operation.stored), is_undone=True)
    if write.index.store is not None:
        with write.stages.run("index", "putting entries of new keys into the index") as notes:
            files_with_inserts = _written_files(write, change.time, stats, rows=sum(stat.num_inserts for stat in stats))
            notes.rows = write.index.before_publish(files_with_inserts)
    files_with_deletes = _written_files(write, change.time, stats, rows=sum(stat.num_deletes for stat in stats))
    extra = {
        **extra_metadata(write.options),
        **write.addition.extra,
        STAGES: write.stages.to_text(),
        INDEX_FIGURES: index_figures or json.dumps({"index": write.index.name}),
    }
    return change.complete(
        stats,
        operation=operation,
        schema=write.prepared.avro_schema,
        extra=extra,
        replaced=replaced,
        spark=write.spark,
        stages=write.stages,
        read_table=write.read_table,
        published=partial(write.index.after_publish, files_with_deletes),
        check=write.addition.check_commits,
        look=look,
        calls_hooks=False,
    )


def _written_files(write: WriteContext, instant: str, stats: Sequence[WriteStat], *, rows: int) -> WrittenFiles:
    """Return the description of the written files with which the index is called before and after the commit.

    An index that stores entries reads the keys of the files in tasks, which the `runner` of the description runs.

    Args:
        instant: the instant time of the write.
        stats: the write stats of the files.
        rows: how many entries the index changes. If they are few, the tasks run on the driver; otherwise in Spark.
    """
    on_driver = fits_on_driver(write.options, rows=rows)
    tasks_at_once = _DRIVER_TASKS if on_driver else count_cores(write.spark.conf) or len(stats)
    return WrittenFiles(
        table=write.table,
        instant=instant,
        stats=stats,
        runner=Runner(write.spark, on_driver=on_driver),
        tasks_at_once=tasks_at_once,
    )


def extra_metadata(options: Options) -> dict[str, str]:
    """Return the options to store in the commit's extra metadata.

    These are the options whose keys begin with the value of `hoodie.datasource.write.commitmeta.key.prefix`; none if it is empty.
    """
    prefix = options[o.COMMIT_METADATA_KEY_PREFIX]
    return dict(options.prefixed(prefix)) if prefix else {}
