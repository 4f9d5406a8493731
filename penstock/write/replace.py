"""Operations that replace file groups: `insert_overwrite`, `insert_overwrite_table` and `delete_partition`.

Each is a replace commit. New rows go to new file groups; the groups that were there are named in the commit and no longer
seen, and their files stay until they are cleaned. Before the commit is published nothing has changed for any reader.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock import options as o
from penstock.catalog.listing import is_partition, list_partitions, merged_slices
from penstock.catalog.pending import pending_groups
from penstock.commit.change import Change, begin
from penstock.errors import OptionError, Unsupported, WriteConflict
from penstock.formats.avro.container import write_container
from penstock.hooks import PublishedCommit
from penstock.index import buckets_in
from penstock.index.consistent_hashing import HashRings, save_changed
from penstock.options.operation import Operation
from penstock.spread.runner import Runner
from penstock.table import TableState, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import Action
from penstock.write.context import WriteContext
from penstock.write.locate.assign import assign_inserts, sizing_of
from penstock.write.locate.buckets import plan_buckets, run_bucket
from penstock.write.operations import complete, insert_profile, note_stats, stage_inserts, store
from penstock.write.pending_clustering import settle_updates
from penstock.write.rows.staging import Piece, Staging, pieces_fit_on_driver
from penstock.write.rules import rules_of

Replaced = dict[str, tuple[str, ...]]


def insert_overwrite(write: WriteContext) -> PublishedCommit:
    """Put the rows in the place of all rows of their partitions, or of the partitions that the options name."""
    return _overwrite(write, Operation.INSERT_OVERWRITE)


def insert_overwrite_table(write: WriteContext) -> PublishedCommit:
    """Put the rows in the place of all rows of the table, which stays the same table with its history."""
    return _overwrite(write, Operation.INSERT_OVERWRITE_TABLE)


def delete_partition(write: WriteContext) -> PublishedCommit:
    """Take whole partitions out of the table: those that the options name, or those of the rows."""
    with begin(write.table, Action.REPLACE_COMMIT, requested_content()) as change:
        table = reload_timeline(write.table)
        with write.stages.run("assign", "finding the partitions"):
            paths = _partitions_to_delete(write, table)
            _check_nothing_planned(table, paths)
        change.start(insert_profile(Operation.DELETE_PARTITION, []))
        renew_rings(table, change.time, paths)
        return complete(write, change, [], Operation.DELETE_PARTITION, replaced=groups_in(table, paths))


def _overwrite(write: WriteContext, operation: Operation) -> PublishedCommit:
    with begin(write.table, Action.REPLACE_COMMIT, requested_content()) as change:
        staging, pieces = stage_inserts(write, change)
        stats = (_store if write.index.buckets is None else _store_buckets)(write, change, staging, pieces, operation)
        table = reload_timeline(write.table)
        paths = _overwritten(write, {piece.path for piece in pieces}) if operation is Operation.INSERT_OVERWRITE else None
        replaced = groups_in(table, paths)
        settle_updates(table, change, {(path, file_id) for path, ids in replaced.items() for file_id in ids}, write.unschedule)
        return complete(write, change, stats, operation, replaced=replaced)


def _store(
    write: WriteContext, change: Change, staging: Staging, pieces: Sequence[Piece], operation: Operation
) -> list[WriteStat]:
    """All rows to base files of new file groups."""
    with write.stages.run("assign", "opening new file groups"):
        buckets = assign_inserts(pieces, {}, sizing_of(write.table, write.options))
    change.start(insert_profile(operation, buckets))
    return store(write, change, staging, buckets, base_files_alone=True)


def _store_buckets(
    write: WriteContext, change: Change, staging: Staging, pieces: Sequence[Piece], operation: Operation
) -> list[WriteStat]:
    """The same where the index says which bucket a row belongs to."""
    if isinstance(write.index.buckets, HashRings):
        raise Unsupported(
            f"{o.BUCKET_ENGINE.key}=CONSISTENT_HASHING gives a bucket one file group for good, so {write.settings.operation} "
            "cannot put another in its place; delete the rows and insert the new ones"
        )
    rules = replace(rules_of(write, change, staging), logs=None, merging=None, adds=True, logs_first=False)
    work = plan_buckets(rules, pieces, {}, operation, checks_keys=False)
    change.start(work.profile)
    runner = Runner(write.spark, on_driver=pieces_fit_on_driver(write.options, pieces))
    with write.stages.run("store", f"writing {len(work.tasks)} buckets") as notes:
        stats = runner.collect(run_bucket, work.tasks, WriteStat)
        note_stats(notes, stats)
    return stats


def renew_rings(table: TableState, time: str, partitions: Sequence[str]) -> None:
    """Where buckets are parts of a ring, give them other file groups: rows that come later do not go to those that are gone."""
    buckets = buckets_in(table)
    if isinstance(buckets, HashRings):
        save_changed(table, time, {path: buckets.ring(path).renewed() for path in partitions if path in buckets.stored})


def groups_in(table: TableState, partitions: Sequence[str] | None) -> Replaced:
    """The file groups that are seen in some partitions, or in all."""
    there = None if partitions is None else [path for path in partitions if is_partition(table, path)]
    found: Replaced = dict.fromkeys(partitions or (), ())
    slices = merged_slices(table, there)
    return found | {path: tuple(dict.fromkeys(one.file_id for one in its)) for path, its in slices.items()}


def requested_content() -> bytes:
    """The content of the requested file of a write, which has no plan."""
    nothing = {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": 1}
    return write_container("HoodieRequestedReplaceMetadata", nothing)


def _overwritten(write: WriteContext, written: Collection[str]) -> list[str]:
    """The partitions whose rows go: a given list, or those that get rows."""
    given = write.options[o.STATIC_OVERWRITE_PARTITIONS]
    outside = sorted(set(written) - set(given)) if given else []
    if outside:
        raise OptionError(
            f"{o.STATIC_OVERWRITE_PARTITIONS.key}={','.join(given)} does not name partition {outside[0]!r}, which rows are for; "
            "add it, or leave the option out to overwrite the partitions of the rows"
        )
    return sorted(given or written)


def _partitions_to_delete(write: WriteContext, table: TableState) -> list[str]:
    given = write.options[o.PARTITIONS_TO_DELETE]
    if not given:
        return sorted(row[0] for row in write.prepared.rows.collect())
    patterns = [_pattern(one) for one in given if _is_pattern(one)]
    known = list_partitions(table) if patterns else []
    matching = [path for path in known if any(pattern.fullmatch(path) for pattern in patterns)]
    return sorted({*matching, *(one for one in given if not _is_pattern(one))})


def _is_pattern(text: str) -> bool:
    return "*" in text or "%2A" in text


def _pattern(text: str) -> re.Pattern[str]:
    """A partition path in which `*` stands for any characters."""
    return re.compile(".*".join(map(re.escape, text.replace("%2A", "*").split("*"))))


def _check_nothing_planned(table: TableState, partitions: Collection[str]) -> None:
    """Refuse to take out what a table service is about to rewrite."""
    hit = sorted((path, instant) for (path, _), instant in pending_groups(table).items() if path in set(partitions))
    if hit:
        raise WriteConflict(
            f"Failed to drop partitions. Please ensure that there are no pending table service actions: {hit[0][1]} of "
            f"{table.base_path} is to rewrite files of partition {hit[0][0]!r}. Run or unschedule it first"
        )
