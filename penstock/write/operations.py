"""The operations of a write (upsert, insert, …), each as the list of its stages. `door/write.py` runs the one in the options.

    stage  result            module               what the stage does
    1, 2   prepared rows     rows/schema.py       fits columns to the schema, adds record keys and partition paths
    3      one row per key   rows/combine.py      inserts only, if the options ask for it
    4      staged rows       rows/staging.py      evaluates the DataFrame once, writes its rows to Arrow files by partition path
    5      planned tasks     locate/              finds the file group of each key, assigns new rows to file groups
    6      write stats       tasks/run_tasks.py   runs the tasks, which write data files
    7      commit            publish.py           updates the index, completes the instant

Stages 1 and 2 run before the operation begins. An upsert has no stage 3: its tasks pick the newest incoming row of each key. Some
mergers build a new row out of all incoming rows of a key (`Merger.folds`). For them `rows/combine_staged.py` does that after
stage 4, in upserts too, but not in bulk_insert, which stages no rows.

An error inside `begin` rolls the write back. The instant stays pending only if the process dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial

from penstock import options as o
from penstock.commit.begin import begin
from penstock.commit.change import Change
from penstock.commit.early_conflicts import wait_for_writer
from penstock.commit.modes import is_optimistic
from penstock.commit.replace import begin_replace, list_replaced_groups
from penstock.errors import StorageError, TableChanged, WriteConflict
from penstock.hooks import PublishedCommit
from penstock.options.operation import Operation
from penstock.progress import format_count
from penstock.table.state import read_table_schema, reload_timeline
from penstock.timeline.commit_file import WriteStat, make_workload_profile
from penstock.timeline.timeline import Timeline
from penstock.write.checks import check_keys_are_stored, check_no_pending_services, check_ordering_column
from penstock.write.context import WriteContext
from penstock.write.first_attempt import FirstAttempt
from penstock.write.locate.assign import assign_pieces, profile_inserts
from penstock.write.locate.buckets import plan_bucket_tasks
from penstock.write.locate.key_collisions import look_for_new_keys
from penstock.write.locate.plan import plan_inserts, plan_upsert
from penstock.write.locate.small_files import read_sizing
from penstock.write.pending_clustering import resolve_clustering_conflicts
from penstock.write.publish import publish
from penstock.write.replaced_partitions import partitions_to_delete, partitions_to_overwrite, renew_buckets
from penstock.write.rows.combine import combine_rows
from penstock.write.rows.combine_staged import fold_staged_rows, stage_combined_rows
from penstock.write.rows.sort_modes import sort_rows
from penstock.write.rows.staging import StagedRows, Staging, make_runner, stage_rows
from penstock.write.task_settings import build_file_settings, build_insert_tasks, build_merger, build_upsert_rules
from penstock.write.tasks.insert import bulk_insert_rows, insert_bucket
from penstock.write.tasks.kept_files import run_or_keep
from penstock.write.tasks.run_tasks import store_incoming, store_tasks
from penstock.write.tasks.task import InsertTask
from penstock.write.tasks.upsert_kernel import run_task


def upsert(write: WriteContext) -> PublishedCommit:
    """Merge incoming rows with the stored rows of their keys, insert the rows with new keys, and publish the commit."""
    return _write_by_key(write)


def delete(write: WriteContext) -> PublishedCommit:
    """Delete the stored rows that have an incoming key, and publish the commit. Keys that the table does not have are ignored."""
    return _write_by_key(write)


def insert(write: WriteContext) -> PublishedCommit:
    """Add the incoming rows without looking for their keys in the table, and publish the commit.

    If `hoodie.datasource.write.insert.drop.duplicates` is true, keys are looked for, and rows whose keys are stored are dropped.
    """
    if write.options[o.INSERT_DROP_DUPLICATES]:
        return _write_by_key(write)
    if write.index.buckets is not None:
        return _insert_into_buckets(write)
    return _insert_into_small_files(write)


def bulk_insert(write: WriteContext) -> PublishedCommit:
    """Write the incoming rows to new file groups as they arrive, without staging them, and publish the commit.

    With the bucket index, rows are staged and added to the buckets of their keys instead.
    """
    if write.index.buckets is not None:
        return _insert_into_buckets(write)
    with _begin(write) as change:
        combined = combine_rows(write.prepared, write.settings, build_merger(write))
        sorted_rows, is_grouped = sort_rows(combined, write.settings)
        change.start()
        kernel = partial(bulk_insert_rows, write.prepared.crossing, build_file_settings(write, change), is_grouped)
        stats = store_incoming(write, sorted_rows, kernel, "writing new file groups")
        return publish(write, change, stats)


def insert_overwrite(write: WriteContext) -> PublishedCommit:
    """Replace all rows of some partitions with the incoming rows, in one replacecommit.

    The partitions are those in `hoodie.static.overwrite.partition.paths` if set, otherwise those of the incoming rows.
    """
    write.index.check_overwrite(write.settings.operation)
    return _stage_and_store(write, _begin_replace, _stage_combined, _overwrite_partitions)


def insert_overwrite_table(write: WriteContext) -> PublishedCommit:
    """Replace all rows of the table with the incoming rows, in one replacecommit. Earlier commits stay on the timeline."""
    write.index.check_overwrite(write.settings.operation)
    return _stage_and_store(write, _begin_replace, _stage_combined, partial(_overwrite, partitions=None))


def delete_partition(write: WriteContext) -> PublishedCommit:
    """Take whole partitions out of the table, in one replacecommit.

    These are the partitions in `hoodie.datasource.write.partitions.to.delete` if set, otherwise those of the incoming rows.
    """
    return _stage_and_store(write, _begin_replace, _stage_nothing, _take_partitions_out)


OPERATIONS: Mapping[Operation, Callable[[WriteContext], PublishedCommit]] = {
    Operation.UPSERT: upsert,
    Operation.DELETE: delete,
    Operation.INSERT: insert,
    Operation.BULK_INSERT: bulk_insert,
    Operation.INSERT_OVERWRITE: insert_overwrite,
    Operation.INSERT_OVERWRITE_TABLE: insert_overwrite_table,
    Operation.DELETE_PARTITION: delete_partition,
}


#: Begins the change of a write, stages its rows, and writes and publishes what was staged.
BeginChange = Callable[[WriteContext], AbstractContextManager[Change]]
Stage = Callable[[WriteContext, Change], StagedRows]
Store = Callable[[WriteContext, Change, StagedRows], PublishedCommit]


def _stage_and_store(
    write: WriteContext,
    begin_change: BeginChange,
    stage: Stage,
    store: Store,
    first_attempt: FirstAttempt | None = None,
) -> PublishedCommit:
    """Stage the incoming rows, then write and publish them. After a conflict, do so again with the same staged rows.

    The write runs again up to `hoodie.write.num.retries.on.conflict.failures` times, each time under a new instant. The DataFrame
    is evaluated once. The first instant stays pending until the write is over, because the staged rows belong to it, and the data
    files that `store` may keep.

    Args:
        begin_change: takes an instant with the action of the write, and yields the `Change` (the write that is under way).
        stage: stages the incoming rows.
        store: writes data files from the staged rows, and publishes the commit.
        first_attempt: where `store` remembers its first attempt; None: a retry keeps no files.

    Raises:
        WriteConflict: a concurrent commit changed the same file groups, and no retries are left.
        TableChanged: the rows must be prepared again, because a concurrent commit changed the schema of the table, or file groups
            of the table from which the rows themselves were read.
    """
    with begin_change(write) as first:
        staged = stage(write, first)
        try:
            return store(write, first, staged)
        except TableChanged:
            raise
        except WriteConflict as e:
            write.stages.conflicts.append(str(e))
            if not write.options[o.CONFLICT_RETRIES] or not is_optimistic(write.table):
                raise
            conflict = e
        if write.reads_table:
            first.withdraw()
            # The rows themselves have to be read again. At once the write would lose again, and would soon have no attempts left.
            with write.stages.run("wait", "conflict with another writer: reading the table again"):
                wait_for_writer(write.table, conflict)
            raise TableChanged(str(conflict)) from conflict
        release = partial((first_attempt or FirstAttempt()).release, write, first)
        commit = _store_again(write, begin_change, staged, store, conflict, release)
        with suppress(StorageError):  # the write is committed; what is left of its first attempt is rolled back later
            first.abandon()
        return commit


def _store_again(
    write: WriteContext,
    begin_change: BeginChange,
    staged: StagedRows,
    store: Store,
    conflict: WriteConflict,
    release: Callable[[WriteConflict], None],
) -> PublishedCommit:
    """Write and publish staged rows under a new instant. After a conflict do so again, until no retries are left.

    Args:
        conflict: the conflict that ended the first attempt.
        release: called after each conflict. It deletes the files of the first attempt, unless the next one may keep some.

    Raises:
        WriteConflict: the last retry also lost to a concurrent commit.
        TableChanged: another write has changed the table's schema, so the rows must be prepared again.
    """
    retries = write.options[o.CONFLICT_RETRIES]
    for attempt in range(1, retries + 1):
        release(conflict)
        with write.stages.run(
            "wait", f"conflict with another writer: running again, {attempt} of {format_count(retries, 'retry')}"
        ):
            wait_for_writer(write.table, conflict)
        _check_schema(write)
        try:
            with begin_change(write.with_current_timeline()) as change:
                return store(write, change, staged.with_folder_of(change))
        except TableChanged:
            raise
        except WriteConflict as e:
            write.stages.conflicts.append(str(e))
            if attempt == retries:
                raise
            conflict = e
    raise AssertionError


def _check_schema(write: WriteContext) -> None:
    """Raise TableChanged if the table's schema is no longer the one for which the rows were prepared."""
    if read_table_schema(reload_timeline(write.table)) != write.base_schema:
        raise TableChanged(f"another write changed the schema of {write.table.base_path}. Run the write again")


def _plan_on(write: WriteContext, change: Change, timeline: Timeline) -> None:
    """Record that the tasks of the write are planned on `timeline`. The conflict check then looks at commits that are not on it.

    Do nothing if the incoming rows were read from the table itself. The conflict check then looks at all commits since that read.

    Args:
        change: the write that is under way.
    """
    if not write.reads_table:
        change.plan_on(timeline)


@contextmanager
def _begin(write: WriteContext) -> Iterator[Change]:
    """Begin a write that replaces no file groups: take its instant, and yield it as a `Change` (a write that is under way)."""
    with begin(write.table, write.action) as change:
        change.expect_schema(write.base_schema)
        yield change


@contextmanager
def _begin_replace(write: WriteContext) -> Iterator[Change]:
    """Begin a write that replaces file groups: take its instant, and yield it as a `Change` (a write that is under way)."""
    with begin_replace(write.table) as change:
        change.expect_schema(write.base_schema)
        yield change


def _stage_combined(write: WriteContext, change: Change) -> StagedRows:
    """Stage the incoming rows. Combine them to one per key first, if the options ask for it (`wants_one_row_per_key`)."""
    return stage_combined_rows(write, change, build_merger(write))


def _overwrite_partitions(write: WriteContext, change: Change, staged: StagedRows) -> PublishedCommit:
    """Replace the rows of the partitions of an insert_overwrite with the staged rows, and publish the replacecommit."""
    return _overwrite(write, change, staged, partitions_to_overwrite(write, staged.partition_paths))


def _stage_nothing(write: WriteContext, change: Change) -> StagedRows:
    """Return an empty `StagedRows`, for a delete_partition, which writes no rows."""
    return StagedRows(Staging(write.table.storage, ""), ())


def _take_partitions_out(write: WriteContext, change: Change, _: StagedRows) -> PublishedCommit:
    """Find the partitions of a delete_partition and publish the replacecommit that takes them out of the table."""
    table = reload_timeline(write.table)
    _plan_on(write, change, table.timeline)
    with write.stages.run("assign", "finding the partitions"):
        partitions = partitions_to_delete(write, table)
        check_no_pending_services(table, partitions)
    change.start(make_workload_profile(Operation.DELETE_PARTITION, {}, []))
    renew_buckets(table, change.time, partitions)
    return publish(write, change, [], replaced=list_replaced_groups(table, partitions))


def _write_by_key(write: WriteContext) -> PublishedCommit:
    """Stage the rows, find the file group of each key, write each file group that changes, and publish the commit."""
    check_keys_are_stored(write, write.settings.operation.value)
    check_ordering_column(write)
    stage = partial(stage_rows, prepared=write.prepared, numbered=write.index.is_global)
    first = FirstAttempt()
    return _stage_and_store(write, _begin, stage, partial(_locate_and_store, first), first)


def _insert_into_buckets(write: WriteContext) -> PublishedCommit:
    """Stage the rows, write each row to the bucket of its key, and publish the commit.

    Rows that go to a base file are added to it without comparing keys, unless an insert has the option
    `hoodie.merge.allow.duplicate.on.inserts=false`: then they are merged by key. Rows that go to a log are merged by its readers.
    """
    check_keys_are_stored(write, f"{o.INDEX_TYPE.key}=BUCKET")
    first = FirstAttempt()
    return _stage_and_store(write, _begin, _stage_combined, partial(_locate_and_store, first), first)


def _locate_and_store(first: FirstAttempt, write: WriteContext, change: Change, staged: StagedRows) -> PublishedCommit:
    """Find the file group of each staged key, write each file group that changes, and publish the commit.

    After a conflict, that is done for the partitions that other commits have changed. The files of all others are copied from the
    first attempt. If `hoodie.clustering.updates.strategy` allows changes to file groups of a pending clustering, the clustering
    plan may be removed from the timeline (`resolve_clustering_conflicts`).

    Args:
        first: remembers the first attempt of the write.

    Raises:
        WriteConflict: the write changes a file group of a pending clustering and that option does not allow it; or the hash
            rings of the index changed since the rows were staged.
    """
    index_at_staging = write.index
    write = write.with_current_timeline()
    _plan_on(write, change, write.table.timeline)
    index_at_staging.check_unchanged(write.index, staged.partition_paths)
    rules = build_upsert_rules(write, change, staged.staging)
    runner = make_runner(write, staged.pieces)
    kept = first.find_kept(write, rules, staged.partition_paths)
    rules = replace(rules, settings=replace(rules.settings, first_task=kept.first_task))
    planned = replace(staged, pieces=kept.select_pieces(staged.pieces))
    if rules.merger.folds and write.settings.picks_newest and not rules.adds:
        planned = fold_staged_rows(write, planned, rules.merger)
    with write.stages.run("tag", "locating keys"):
        task_plan = plan_upsert(write, rules, planned.pieces, runner)
        rules.index.before_tasks(write.table, staged.partition_paths)
        resolve_clustering_conflicts(write.table, change, task_plan.touched | kept.touched, write.unschedule)
    task_plan = kept.add_to(task_plan)
    change.start(task_plan.profile)
    activity = f"{'merging into' if rules.logs is None else 'appending to'} {format_count(len(task_plan.tasks), 'file group')}"
    if kept.stats:
        activity += f", keeping {format_count(len(kept.stats), 'file')}"
    tasks = [*task_plan.tasks, *kept.make_tasks(rules.settings)]
    stats = store_tasks(write, change, runner, run_or_keep, tasks, activity)
    first.remember(write, rules, task_plan, stats)
    pieces = (*kept.select_kept(staged.pieces), *planned.pieces)
    look = look_for_new_keys(write, rules, pieces, runner)
    return publish(write, change, stats, index_figures=task_plan.figures(), look=look)


def _insert_into_small_files(write: WriteContext) -> PublishedCommit:
    """Stage the rows, add them to small file slices and the rest to new file groups, and publish the commit.

    If `hoodie.merge.allow.duplicate.on.inserts` is false, a row that goes to a base file with its key is merged with the stored
    row. Other files are not searched for the key.
    """
    if not write.options[o.MERGE_ALLOW_DUPLICATE_ON_INSERTS]:
        check_keys_are_stored(write, f"{o.MERGE_ALLOW_DUPLICATE_ON_INSERTS.key}=false")
    return _stage_and_store(write, _begin, _stage_combined, _fill_small_files)


def _fill_small_files(write: WriteContext, change: Change, staged: StagedRows) -> PublishedCommit:
    """Add staged rows to small file slices and the rest to new file groups, and publish the commit."""
    write = write.with_current_timeline()
    _plan_on(write, change, write.table.timeline)
    with write.stages.run("assign", "filling small files"):
        buckets = plan_inserts(write, staged.pieces, change.time)
    change.start(profile_inserts(write.settings.operation, buckets))
    stats = _store_inserts(write, change, staged, build_insert_tasks(write, change, staged.staging, buckets))
    return publish(write, change, stats)


def _overwrite(write: WriteContext, change: Change, staged: StagedRows, partitions: Sequence[str] | None) -> PublishedCommit:
    """Write staged rows to new file groups, and publish a replacecommit that replaces the old file groups of some partitions.

    If `hoodie.clustering.updates.strategy` allows it, plans of pending clusterings of the old file groups may be removed from
    the timeline.

    Args:
        partitions: the partition paths whose file groups are replaced; None: all partitions.
    """
    if write.index.buckets is None:
        stats = _store_new_groups(write, change, staged)
    else:
        stats = _store_new_buckets(write, change, staged)
    # The groups to replace are listed after the new files are written: rows that concurrent writes added are replaced too.
    table = reload_timeline(write.table)
    _plan_on(write, change, table.timeline)
    replaced = list_replaced_groups(table, partitions)
    touched: set[tuple[str, str]] = set()
    for path, file_ids in replaced.items():
        touched.update((path, file_id) for file_id in file_ids)
    resolve_clustering_conflicts(table, change, touched, write.unschedule)
    return publish(write, change, stats, replaced=replaced)


def _store_new_groups(write: WriteContext, change: Change, staged: StagedRows) -> list[WriteStat]:
    """Write all staged rows to base files of new file groups. Return the write stats."""
    with write.stages.run("assign", "opening new file groups"):
        buckets = assign_pieces(staged.pieces, {}, read_sizing(write.table, write.options))
    change.start(profile_inserts(write.settings.operation, buckets))
    tasks = build_insert_tasks(write, change, staged.staging, buckets, base_files_only=True)
    return _store_inserts(write, change, staged, tasks)


def _store_new_buckets(write: WriteContext, change: Change, staged: StagedRows) -> list[WriteStat]:
    """Write all staged rows to base files of new file groups, one file group per bucket. Return the write stats."""
    buckets = write.index.buckets
    assert buckets is not None
    rules = build_upsert_rules(write, change, staged.staging)
    rules = replace(rules, logs=None, merging=None, adds=True, logs_first=False)
    task_plan = plan_bucket_tasks(rules, buckets, staged.pieces, {}, write.settings.operation, checks_keys=False)
    change.start(task_plan.profile)
    runner = make_runner(write, staged.pieces)
    return store_tasks(
        write, change, runner, run_task, task_plan.tasks, f"writing {format_count(len(task_plan.tasks), 'bucket')}"
    )


def _store_inserts(write: WriteContext, change: Change, staged: StagedRows, tasks: Sequence[InsertTask]) -> list[WriteStat]:
    """Run the tasks of an insert and return their write stats."""
    runner = make_runner(write, staged.pieces)
    return store_tasks(write, change, runner, insert_bucket, tasks, f"writing {format_count(len(tasks), 'file group')}")
