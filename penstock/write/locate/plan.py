"""Stage 4: where incoming keys live, and so which tasks a write has: by buckets of rows, by asking for keys, or by looking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock import options as o
from penstock.catalog.listing import latest_slices
from penstock.errors import OptionError
from penstock.filegroup.model import FileSlice
from penstock.index import Index
from penstock.index.in_memory import check_remembered
from penstock.options.operation import Operation
from penstock.spread.runner import Runner
from penstock.table import TableState
from penstock.write.context import WriteContext
from penstock.write.file_sizing import read_sizing
from penstock.write.locate.assign import assign_pieces
from penstock.write.locate.buckets import plan_buckets
from penstock.write.locate.choose_index import choose_index, kept_index
from penstock.write.locate.entries import ask_index, check_not_clustered
from penstock.write.locate.file_group_tasks import plan_file_group_tasks
from penstock.write.locate.file_slices import list_appendable_slices
from penstock.write.locate.index_change import logs_with_new_rows
from penstock.write.locate.moves import relocate_rows
from penstock.write.locate.task_plan import TaskPlan
from penstock.write.rows.staging import Piece
from penstock.write.tasks.task import InsertBucket, UpsertRules


def plan(
    write: WriteContext,
    rules: UpsertRules,
    pieces: Sequence[Piece],
    operation: Operation,
    runner: Runner,
    *,
    apart: bool = False,
) -> TaskPlan:
    """Decide on the tasks of a write: by the buckets of its rows, by asking for their keys, or by looking for them."""
    if write.options[o.PENSTOCK_INDEX] == "off":
        return _plan(write, rules, pieces, operation, runner, apart=apart)
    if (why := kept_index(rules.index)) is not None:
        return replace(_plan(write, rules, pieces, operation, runner, apart=apart), why=f"it stays as it is: {why}")
    slices = located_slices(write, rules, pieces)
    choice = choose_index(write.table.storage, rules.index, rows_by_path(pieces), slices)
    chosen = replace(rules, index=choice.index)
    return replace(_plan_located(write, chosen, pieces, slices, operation, runner, apart=apart), why=choice.why)


def plan_inserts(write: WriteContext, pieces: Sequence[Piece], instant: str) -> list[InsertBucket]:
    """Assign the rows of an insert to small files of their partitions, and the rest to new file groups."""
    partitions = sorted({piece.path for piece in pieces})
    slices = slices_of(write.table, partitions, instant=instant, logs_alone=write.index.sees_logs)
    return assign_pieces(pieces, slices, read_sizing(write.table, write.options))


def rows_by_path(pieces: Sequence[Piece]) -> dict[str, int]:
    """How many rows come for each partition."""
    found: dict[str, int] = {}
    for piece in pieces:
        found[piece.path] = found.get(piece.path, 0) + piece.rows
    return found


def _plan(
    write: WriteContext,
    rules: UpsertRules,
    pieces: Sequence[Piece],
    operation: Operation,
    runner: Runner,
    *,
    apart: bool,
) -> TaskPlan:
    """The same by the index as it was asked for."""
    if rules.index.entries is not None:
        return _plan_asked(write, rules, pieces, operation, runner, apart=apart)
    slices = located_slices(write, rules, pieces)
    if rules.index.buckets is not None:
        unsaid = o.BUCKET_COUNT.key not in write.table.config.raw
        return plan_buckets(rules, pieces, slices, operation, checks_keys=unsaid)
    if rules.index.remembers:
        check_remembered(write.table.base_path, slices)
    return _plan_located(write, rules, pieces, slices, operation, runner, apart=apart)


def _plan_located(
    write: WriteContext,
    rules: UpsertRules,
    pieces: Sequence[Piece],
    slices: dict[str, list[FileSlice]],
    operation: Operation,
    runner: Runner,
    *,
    apart: bool,
) -> TaskPlan:
    """The same by looking into files."""
    pieces = pieces if apart else relocate_rows(rules, pieces, slices, write.partition_columns, runner)
    return plan_file_group_tasks(rules, pieces, slices, operation, runner, locates_all=apart)


def _plan_asked(
    write: WriteContext,
    rules: UpsertRules,
    pieces: Sequence[Piece],
    operation: Operation,
    runner: Runner,
    *,
    apart: bool,
) -> TaskPlan:
    """The same by an index that keeps entries: only partitions of the rows, and such as it names, are looked into."""
    index = rules.index
    assert index.entries is not None
    moves = index.moves and not rules.drops_known
    ask = partial(
        ask_index,
        index.entries,
        write.table.timeline,
        loading=rules.loading,
        merger=rules.merger,
        runner=runner,
        moves=moves,
    )
    asked = ask(pieces)
    paths = sorted({p.path for p in pieces} | asked.partitions)
    slices = slices_of(write.table, paths, instant=rules.settings.instant, logs_alone=index.sees_logs)
    check_not_clustered(write.table, asked, slices)
    if moves and not apart:
        relocated = relocate_rows(rules, pieces, asked.among(slices), write.partition_columns, runner)
        if relocated != list(pieces):
            pieces, asked = relocated, ask(relocated, time=1)  # rows have other numbers there
    return plan_file_group_tasks(rules, pieces, slices, operation, runner, locates_all=apart, answers=asked)


def located_slices(write: WriteContext, rules: UpsertRules, pieces: Sequence[Piece]) -> dict[str, list[FileSlice]]:
    """The file slices that incoming keys may be in: of their own partitions, or of all for a global index."""
    partitions = None if rules.index.is_global else sorted({p.path for p in pieces})
    slices = slices_of(write.table, partitions, instant=rules.settings.instant, logs_alone=True)
    if not rules.index.sees_logs and rules.index.buckets is None:
        check_keys_are_in_base_files(rules.index, write.table, slices)
    return slices


def check_keys_are_in_base_files(index: Index, table: TableState, slices: Mapping[str, Sequence[FileSlice]]) -> None:
    """Refuse rows that are in log files alone to an index that looks into base files: it would have them written twice.

    Raises:
        OptionError: there are some, which an index that sees logs has let in.
    """
    logged = [one for its in slices.values() for one in its if one.log_files]
    added = logs_with_new_rows(table, min(log.base_instant for one in logged for log in one.log_files)) if logged else set()
    for one in logged:
        if one.base_file is None or any(log.name in added for log in one.log_files):
            raise OptionError(
                f"file group {one.file_id} of partition {one.partition_path or '(none)'} of {table.base_path} has rows in log "
                f"files alone, which another index has let in; {o.INDEX_TYPE.key}={index.name} does not see them there and would "
                "write them twice. Compact the table first (Table.compact), or use the index that it was written with"
            )


def slices_of(
    table: TableState, partitions: Sequence[str] | None, *, instant: str, logs_alone: bool
) -> dict[str, list[FileSlice]]:
    """The newest file slices with a base file; of a merge-on-read table, with the log that changes are appended to.

    Args:
        instant: the write's own.
        logs_alone: slices without a base file as well.
    """
    if table.is_merge_on_read:
        return list_appendable_slices(table, partitions, instant=instant, logs_alone=logs_alone)
    return latest_slices(table, partitions)
