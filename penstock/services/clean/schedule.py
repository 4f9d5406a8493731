"""Schedule a clean: decide whether it is due, list partitions, store the plan on the timeline.

Cleaning is incremental. A file that the last clean kept can only have become old if a later commit wrote a new slice of its file
group or replaced the file group. So the commits since the last clean say which partitions to list. All partitions are listed if
there is no earlier clean, if commits since the last clean are archived, or if a savepoint was deleted.

A plan without files to delete is stored only if that spares the next clean work (`_is_worth_keeping`). The next clean then reads
commits from this clean's earliest retained commit on. Without the stored plan, the next clean would begin at the earliest
retained commit of the clean before this one. Once that commit is archived, it would have to list all partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock import clock
from penstock import options as o
from penstock.commit.conflicts import check_not_restoring
from penstock.commit.table_lock import locked
from penstock.commit.undone_commits import check_still_there
from penstock.errors import CorruptFile, WriteConflict
from penstock.filegroup.model import GroupId
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.services.clean.plan import PartitionPlan, RetentionRules, plan_partition
from penstock.services.clean.retention import CleanPolicy, clean_policy, earliest_retained
from penstock.storage import join
from penstock.table.listing import load_visibility, walk_partitions
from penstock.table.pending import list_clustering_plans, list_compaction_plans
from penstock.table.savepoints import list_savepoint_times, list_savepointed_files
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.archive import is_archived
from penstock.timeline.clean_file import CleanPlan, CleanResult, read_clean_result, write_clean_plan
from penstock.timeline.clustering_plan import ClusteringSlice
from penstock.timeline.commit_file import read_partitions
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, request_instant


def schedule_clean(table: TableState, *, due: bool = False) -> Instant | None:
    """Plan a clean and store the plan on the timeline, if a clean is due and there is anything to delete.

    Args:
        due: True to plan a clean even if fewer commits than `hoodie.clean.max.commits` were made since the last clean.

    Returns:
        The plan's instant; None if no plan was stored. Also None if the plan was deleted again, because concurrently a savepoint
            was created, the table was restored or a commit was rolled back.
    """
    last = last_clean(table)
    if not (due or is_due(table, last)):
        return None
    plan = make_clean_plan(table, last)
    if not plan.files and (due or not _is_worth_keeping(table, last, plan)):
        return None
    with locked(table):
        return _store_plan(table, write_clean_plan(plan, table.base_path))


def _store_plan(table: TableState, content: bytes) -> Instant | None:
    """Store a clean plan on the timeline. Delete it again, and return None, if the files may be needed after all.

    Args:
        table: the table with the timeline on which the plan was made.
    """
    utc = table.config.timeline_utc
    instant = request_instant(table.storage, table.base_path, Action.CLEAN, utc=utc, content=content, is_plan=True)
    # A savepoint may have been created while the plan was made, or the table restored, or a commit rolled back, so that older
    # files are needed again. Each of them and the clean read the timeline again after they are stored on it. So at least one of
    # the two sees the other and is withdrawn.
    now = reload_timeline(table)
    is_void = bool(set(list_savepoint_times(now)) - set(list_savepoint_times(table)))
    try:
        check_not_restoring(now, now.timeline)
        check_still_there(now, table.timeline, now.timeline)
    except WriteConflict:
        is_void = True
    if is_void:
        if instant in now.timeline.pending:  # otherwise another process has begun to run the plan
            table.storage.delete(instant_path(table.base_path, instant))
        return None
    return instant


def _is_worth_keeping(table: TableState, last: CleanResult | None, plan: CleanPlan) -> bool:
    """Whether to store a clean plan that has no files to delete, because its result spares the next clean some work.

    True in two cases:

    - To make this plan, so many commits were read that they may soon be archived.
    - To make this plan, all partitions were listed, because a savepoint was deleted.

    Args:
        last: the result of the last clean; None if there is none.
    """
    if plan.earliest is None or not table.options[o.CLEANER_INCREMENTAL]:
        return False
    if _lost_savepoint(last, plan.savepoints):
        return True
    since = max(last.earliest if last else "", table.timeline.start or "")
    commits_read = sum(since <= write.time < plan.earliest.time for write in table.timeline.writes)
    return commits_read >= max(1, table.options[o.KEEP_MAX_COMMITS] - table.options[o.KEEP_MIN_COMMITS])


def last_clean(table: TableState) -> CleanResult | None:
    """Return the result of the newest completed clean; None if there is none. Raise CorruptFile if the result cannot be read."""
    cleans = table.timeline.filter(Action.CLEAN, state=State.COMPLETED)
    if not cleans:
        return None
    path = instant_path(table.base_path, cleans[-1])
    try:
        return read_clean_result(table.storage.read(path), path)
    except CorruptFile as e:
        raise CorruptFile(f"{e}. Restore the file from a copy, or remove it: the next clean then lists all partitions") from e


def is_due(table: TableState, last: CleanResult | None) -> bool:
    """Whether a clean is due: at least `hoodie.clean.max.commits` commits were completed since the last clean.

    Args:
        last: the result of the last clean; None if the table was never cleaned.
    """
    since = last.last_commit if last else ""
    return sum(write.time > since for write in table.timeline.writes) >= table.options[o.CLEAN_MAX_COMMITS]


def make_clean_plan(table: TableState, last: CleanResult | None) -> CleanPlan:
    """Return the plan of a clean: which files it deletes, by partition. The plan is not stored, and may name no files.

    Args:
        last: the result of the last clean; None if there is none.
    """
    options = table.options
    policy = clean_policy(table.options)
    now = clock.utc_now() if table.config.timeline_utc else clock.local_now()
    earliest = earliest_retained(table.timeline, options, now)
    savepoints = list_savepoint_times(table)
    newest = table.timeline.last_write
    plan = CleanPlan(
        policy=policy.value,
        earliest=earliest,
        last_commit=newest.time if newest else "",
        savepoints=savepoints,
    )
    if newest is None or (earliest is None and policy is not CleanPolicy.VERSIONS):
        return plan
    listed = list(_list_partitions(table, changed_partitions(table, last, earliest)))
    if not listed:
        return plan
    rules = RetentionRules(
        policy=policy,
        timeline=table.timeline,
        earliest=earliest.time if earliest else None,
        versions=options[o.CLEANER_FILE_VERSIONS_RETAINED],
        replaced=load_visibility(table).replaced,
        needed=needed_slices(table),
        savepointed=list_savepointed_files(table),
    )
    planned: dict[str, PartitionPlan] = {path: plan_partition(path, names, rules) for path, names in listed}
    return replace(
        plan,
        files={path: partition.files for path, partition in planned.items() if partition.files},
        partitions=tuple(path for path, partition in planned.items() if partition.is_empty and path),
    )


def needed_slices(table: TableState) -> dict[GroupId, str]:
    """Return the file groups that pending plans name, each with the base instant of the earliest slice that a plan will read.

    A clean keeps this slice and all later slices of the file group.
    """
    needed: dict[GroupId, str] = {}
    for action in (Action.COMPACTION, Action.LOG_COMPACTION):
        for _, plan in list_compaction_plans(table, action):
            for operation in plan.operations:
                group = (operation.partition_path, operation.file_id)
                needed[group] = min(needed.get(group, operation.base_instant), operation.base_instant)
    for _, clustering in list_clustering_plans(table):
        for planned in clustering.slices:
            needed[planned.partition_path, planned.file_id] = _base_instant(planned)
    return needed


def _base_instant(planned: ClusteringSlice) -> str:
    """Return the base instant of a slice that a clustering reads, parsed from the names of the slice's files.

    Return "" if no name can be parsed. A clean then keeps all slices of the file group.
    """
    base = parse_base_name(planned.base_file) if planned.base_file else None
    if base is not None:
        return base.instant
    logs = [parse_log_name(name) for name in planned.log_files]
    return min((log.base_instant for log in logs if log), default="")


def changed_partitions(table: TableState, last: CleanResult | None, earliest: Instant | None) -> list[str] | None:
    """Return the paths of the partitions that may hold files to delete, sorted. None if all partitions must be listed.

    Args:
        last: the result of the last clean; None if there is none.
        earliest: the earliest commit that the clean retains; None if the policy counts file versions.
    """
    if earliest is None or not table.options[o.CLEANER_INCREMENTAL]:
        return None
    start = table.timeline.start or ""
    if last is not None and last.earliest:
        since = last.earliest
        if since < start:
            return None  # commits since then are archived
    elif is_archived(table.storage, table.base_path, table.config.archive_folder):
        return None
    else:
        since = start
    if _lost_savepoint(last, list_savepoint_times(table)):
        return None
    changed: set[str] = set()
    if last is not None:
        changed.update(path for path, partition in last.partitions.items() if partition.failed)
    for write in table.timeline.writes:
        if since <= write.time < earliest.time:
            content = table.storage.read(instant_path(table.base_path, write))
            made_old = read_partitions(content, write.file_name)
            changed.update(path for path, has_older_version in made_old.items() if has_older_version)
    return sorted(changed)


def _lost_savepoint(last: CleanResult | None, savepoints: Sequence[str]) -> bool:
    """Whether a savepoint that existed at the last clean was deleted since.

    Then all partitions are listed, because the savepoint may have held files of any partition.

    Args:
        last: the result of the last clean; None if there is none.
        savepoints: the instant times of the savepoints that exist now.
    """
    return last is not None and not set(last.savepoints) <= set(savepoints)


def _list_partitions(table: TableState, partitions: list[str] | None) -> Iterator[tuple[str, list[str]]]:
    """List partitions; yield the path of each with the names of its files.

    Args:
        partitions: paths of the partitions to list; None for all partitions of the table.
    """
    if partitions is None:
        for path, files in walk_partitions(table.storage, table.base_path):
            yield path, [file.name for file in files]
        return
    for path in partitions:
        names = [file.name for file in table.storage.list(join(table.base_path, path)) if not file.is_dir]
        if names:
            yield path, names
