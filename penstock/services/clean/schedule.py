"""Scheduling: when a clean is due, which partitions it looks at, and its plan on the timeline.

Cleaning is incremental. What the last clean left can only have grown old where a commit since then wrote another version of
a file group, or replaced some; the commits say where, and only those partitions are listed. Without a last clean, where the
commits before are in the archive, and when a savepoint is gone, all are. A plan that deletes nothing is not kept, but for one
in a while: it tells the next clean where to begin, before archiving takes the commits that would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock import clock
from penstock import options as o
from penstock.catalog.listing import visibility, walk_partitions
from penstock.catalog.pending import clustering_plans, pending_plans
from penstock.catalog.savepoints import savepoint_times, savepointed_files
from penstock.errors import CorruptFile
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.services.clean.plan import GroupId, Keeping, PartitionPlan, plan_partition
from penstock.services.clean.retention import Policy, earliest_retained, policy_of
from penstock.storage import join
from penstock.table import TableState, reload_timeline
from penstock.timeline.archive import is_archived
from penstock.timeline.clean_file import CleanPlan, CleanResult, read_clean_result, write_clean_plan
from penstock.timeline.clustering_plan import ClusteringSlice
from penstock.timeline.commit_file import read_partitions
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, request


def schedule_clean(table: TableState, *, due: bool = False) -> Instant | None:
    """Put a plan on the timeline, if a clean is due and there is anything to delete; gives its instant.

    Args:
        due: whether it is due whatever the trigger of the options says.
    """
    last = last_clean(table)
    if not (due or is_due(table, last)):
        return None
    plan = make_clean_plan(table, last)
    if not plan.files and (due or not _says_enough(table, last, plan)):
        return None
    content = write_clean_plan(plan, table.base_path)
    utc = table.config.timeline_utc
    instant = request(table.storage, table.base_path, Action.CLEAN, utc=utc, content=content, is_plan=True)
    if set(savepoint_times(reload_timeline(table))) - set(savepoint_times(table)):
        table.storage.delete(instant_path(table.base_path, instant))  # made meanwhile; the next plan knows of it
        return None
    return instant


def _says_enough(table: TableState, last: CleanResult | None, plan: CleanPlan) -> bool:
    """Whether a plan without files is kept: it has looked at so many commits that archiving may soon take them, or at all
    partitions because of a savepoint that is gone."""
    if plan.earliest is None or not table.options[o.CLEANER_INCREMENTAL]:
        return False
    if _freed(last, plan.savepoints):
        return True
    since = max(last.earliest if last else "", table.timeline.start or "")
    looked_at = sum(since <= i.time < plan.earliest.time for i in table.timeline.writes)
    return looked_at >= max(1, table.options[o.KEEP_MAX_COMMITS] - table.options[o.KEEP_MIN_COMMITS])


def last_clean(table: TableState) -> CleanResult | None:
    """What the newest finished clean did. Raises CorruptFile."""
    cleans = table.timeline.of(Action.CLEAN, state=State.COMPLETED)
    if not cleans:
        return None
    path = instant_path(table.base_path, cleans[-1])
    try:
        return read_clean_result(table.storage.read(path), path)
    except CorruptFile as e:
        raise CorruptFile(f"{e}. Restore the file from a copy, or remove it: the next clean then looks at all partitions") from e


def is_due(table: TableState, last: CleanResult | None) -> bool:
    """Whether so many commits were made since the last clean that the next is due."""
    since = last.last_commit if last else ""
    return sum(i.time > since for i in table.timeline.writes) >= table.options[o.CLEAN_MAX_COMMITS]


def make_clean_plan(table: TableState, last: CleanResult | None) -> CleanPlan:
    """What a clean of the table would delete now; nothing is written."""
    options = table.options
    policy = policy_of(table.options)
    now = clock.utc_now() if table.config.timeline_utc else clock.local_now()
    earliest = earliest_retained(table.timeline, options, now)
    savepoints = savepoint_times(table)
    newest = table.timeline.last_write
    plan = CleanPlan(
        policy=policy.value,
        earliest=earliest,
        last_commit=newest.time if newest else "",
        savepoints=savepoints,
    )
    if newest is None or (earliest is None and policy is not Policy.VERSIONS):
        return plan
    looked_at = list(_listed(table, changed_partitions(table, last, earliest)))
    if not looked_at:
        return plan
    keeping = Keeping(
        policy=policy,
        timeline=table.timeline,
        earliest=earliest.time if earliest else None,
        versions=options[o.CLEANER_FILE_VERSIONS_RETAINED],
        replaced=visibility(table).replaced,
        needed=needed_slices(table),
        savepointed=savepointed_files(table),
    )
    found: dict[str, PartitionPlan] = {path: plan_partition(path, names, keeping) for path, names in looked_at}
    return replace(
        plan,
        files={path: one.files for path, one in found.items() if one.files},
        partitions=tuple(path for path, one in found.items() if one.is_empty and path),
    )


def needed_slices(table: TableState) -> dict[GroupId, str]:
    """What plans that wait are going to read: of a file group, the slices from a base instant on."""
    found: dict[GroupId, str] = {}
    for action in (Action.COMPACTION, Action.LOG_COMPACTION):
        for _, plan in pending_plans(table, action):
            for one in plan.operations:
                group = (one.partition_path, one.file_id)
                found[group] = min(found.get(group, one.base_instant), one.base_instant)
    for _, clustering in clustering_plans(table):
        found |= {(one.partition_path, one.file_id): _base_instant(one) for one in clustering.slices}
    return found


def _base_instant(one: ClusteringSlice) -> str:
    """Of a slice that a clustering reads; an empty text, which holds all slices, where its names do not tell."""
    base = parse_base_name(one.base_file) if one.base_file else None
    logs = (log for name in one.log_files if (log := parse_log_name(name)))
    return base.instant if base else min((log.base_instant for log in logs), default="")


def changed_partitions(table: TableState, last: CleanResult | None, earliest: Instant | None) -> list[str] | None:
    """The partitions that may hold something to delete; None for all of them."""
    if earliest is None or not table.options[o.CLEANER_INCREMENTAL]:
        return None
    start = table.timeline.start or ""
    if last is not None and last.earliest:
        since = last.earliest
        if since < start:
            return None
    elif is_archived(table.storage, table.base_path, table.config.archive_folder):
        return None
    else:
        since = start
    if _freed(last, savepoint_times(table)):
        return None
    found = {path for path, one in last.partitions.items() if one.failed} if last else set()
    for instant in table.timeline.writes:
        if since <= instant.time < earliest.time:
            content = table.storage.read(instant_path(table.base_path, instant))
            found |= {path for path, made_old in read_partitions(content, instant.file_name).items() if made_old}
    return sorted(found)


def _freed(last: CleanResult | None, savepoints: Sequence[str]) -> bool:
    """Whether a savepoint is gone that the last clean knew of. It may have held files of any partition."""
    return last is not None and not set(last.savepoints) <= set(savepoints)


def _listed(table: TableState, partitions: list[str] | None) -> Iterator[tuple[str, list[str]]]:
    """Partitions with the names of their files; each is listed once."""
    if partitions is None:
        yield from ((path, [f.name for f in files]) for path, files in walk_partitions(table.storage, table.base_path))
        return
    for path in partitions:
        names = [f.name for f in table.storage.list(join(table.base_path, path)) if not f.is_dir]
        if names:
            yield path, names
