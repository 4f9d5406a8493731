"""Stage 4, before keys are located, where rows move to other partitions and the payload makes a row of the stored and the new.

Such a row goes to its new partition as what was made of both, so what is stored must be known before the row is written
elsewhere. Rows that are going to move are looked for first (`find_moves`), and the batch is staged again with what they
become (`stage_moves`). With Hudi's payloads the row always goes where the incoming one says. With ours and the user's own it
stays where it has the partition columns of the stored one, because the incoming row came late or does not supply them: its
partition path is the stored row's from here on, and it is merged there. So is a row that a function makes nothing of.

An index that is asked for keys never sees a stored row, and a payload that needs no column of it is not asked when keys are
located. Then a row that the payload keeps or deletes where it is has to be found here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import Unsupported
from penstock.filegroup.base_read import open_base_file, read_row_groups
from penstock.filegroup.model import FileSlice
from penstock.index.lookup import Found, Keys, look_up
from penstock.merge.choice import Choice
from penstock.merge.kernels.gather import Positions, have_same_values, take_rows
from penstock.merge.kernels.marks import FRESH, GONE, MADE, drop_marks
from penstock.spread.run import this_task
from penstock.spread.runner import Runner
from penstock.storage import join
from penstock.storage.os_errors import convert_os_errors
from penstock.write.locate.live_rows import look_up_merged
from penstock.write.locate.tag import Places, TagTask
from penstock.write.locate.upsert import UpsertRules, tag_tasks
from penstock.write.rows.crossing import KEY
from penstock.write.rows.staging import ARRIVAL, Piece, Staging, read_pieces
from penstock.write.rows.task_rows import TaskRows, load_task_rows
from penstock.write.tasks.base_file import row_group_parts

_NUMBER, _STAYS, _PATH = "_penstock_number", "_penstock_stays", "_penstock_stored_path"


@dataclass(frozen=True)
class MoveTask:
    """Some base files, and the incoming rows of other partitions whose keys are looked for in them."""

    tag: TagTask
    partition_columns: tuple[str, ...]
    #: Rows that the merger keeps or deletes are found out here, not when keys are located.
    decides: bool = False
    #: Keys may be in log files alone.
    in_logs: bool = False


@dataclass(frozen=True)
class StageTask:
    """Staged rows, and files with what some of them become."""

    staging: Staging
    pieces: tuple[Piece, ...]
    moves: tuple[str, ...]
    #: Rows that move say so (`MADE`), for a merger that would begin them anew.
    marks: bool = False


def relocate(
    rules: UpsertRules, pieces: Sequence[Piece], slices: Mapping[str, Sequence[FileSlice]], columns: Sequence[str], runner: Runner
) -> list[Piece]:
    """The staged rows with those that move as what they become.

    Args:
        columns: those that the partition path is made of.
    """
    if not pieces or not _looks_at_stored(rules):
        return list(pieces)
    in_logs, decides = rules.index.sees_logs, _decides(rules)
    tags = tag_tasks(rules, tuple(pieces), slices, 0, logs_alone=in_logs)
    tasks = [MoveTask(tag, tuple(columns), decides, in_logs) for tag in tags]
    moves = tuple(name for name in runner.run(find_moves, tasks, str) if name)
    if not moves:
        return list(pieces)
    task = StageTask(rules.loading.staging, tuple(pieces), moves, rules.merger.is_user_function)
    return runner.collect(stage_moves, [task], Piece)


def _looks_at_stored(rules: UpsertRules) -> bool:
    """Whether a row that moves meets the stored one first. With Hudi's payloads that choose, entries of an index are enough."""
    if not rules.index.moves:
        return False
    merger = rules.merger
    return merger.builds or (merger.keeps_partition and _decides(rules))


def _decides(rules: UpsertRules) -> bool:
    return rules.index.entries is not None or not rules.merger.needs


def find_moves(task: MoveTask) -> str:
    """Kernel: what becomes of incoming rows whose stored version is in another partition, to a file; gives its name, or none."""
    tag, storage = task.tag, task.tag.loading.staging.storage
    incoming, places = load_task_rows(tag.loading, tag.pieces), Places(tag.pieces)
    found = zip(tag.files, _found(task, incoming), strict=True)
    moves = [one for slice_, hits in found if (one := _moves_from(task, slice_, hits, incoming, places)) is not None]
    if not moves:
        return ""
    name = f"{tag.out}-moves-{this_task().write_token}.arrow"
    with convert_os_errors(name), storage.create(name) as sink, pa.ipc.new_file(sink, moves[0].schema) as writer:
        for table in moves:
            writer.write_table(table)
    return name


def _found(task: MoveTask, incoming: TaskRows) -> list[Found]:
    """The keys that each file group may hold a row of: those in its base file or, where a log may hold others, all."""
    files, count = task.tag.files, len(incoming.keys)
    has_more = [task.in_logs and bool(one.log_files) for one in files]
    bases = [one.base_file for one, more in zip(files, has_more, strict=True) if one.base_file and not more]
    answers = iter(look_up(task.tag.loading.staging.storage, bases, Keys(incoming.keys), task.tag.pruning))
    any_key = Found(np.full(count, -1), np.arange(count), count, True)
    return [any_key if more else next(answers) for more in has_more]


def _moves_from(task: MoveTask, slice_: FileSlice, found: Found, incoming: TaskRows, places: Places) -> pa.Table | None:
    """What becomes of rows that were found in one file, if any of them comes for another partition."""
    away = np.flatnonzero(places.of(incoming.rows[found.key]) != places.number(slice_.partition_path))
    if not len(away):
        return None
    keys, old = _stored(task.tag, slice_, incoming, found, away)
    new = incoming.take(incoming.rows[keys]).drop_columns([KEY])
    merger = task.tag.merger
    meeting = merger.merge(old, np.arange(old.num_rows), new)
    is_built = meeting.choices == Choice.BUILD
    is_met = (meeting.choices == Choice.DELETE) & (merger.is_user_function or task.decides)
    if task.decides:
        is_met |= meeting.choices == Choice.KEEP_OLD
    built = np.concatenate([np.flatnonzero(is_built), np.flatnonzero(is_met)])
    if not len(built):
        return None
    rows = meeting.rows(np.where(is_built, Choice.BUILD, Choice.KEEP_OLD))
    old, new = take_rows(old, built), drop_marks(take_rows(new, built))
    nothing = np.arange(len(built)) >= rows.num_rows  # the stored row says where it is met
    rows = pa.concat_tables([rows, old.filter(pa.array(nothing))])
    stays = (~have_same_values(rows, new, task.partition_columns) & merger.keeps_partition) | nothing
    if (stays & ~have_same_values(rows, old, task.partition_columns)).any():
        raise Unsupported(
            f"a row of {slice_.partition_path!r} takes some of its partition columns ({', '.join(task.partition_columns)}) from "
            "the stored row and some from the incoming one, so that it belongs to neither's partition; supply all, or none"
        )
    more = {
        _NUMBER: pa.array(incoming.rows[keys[built]]),
        _STAYS: pa.array(stays),
        _PATH: pa.repeat(slice_.partition_path, len(built)),
    }
    for name, values in more.items():
        rows = rows.append_column(name, values)
    return rows


def _stored(tag: TagTask, slice_: FileSlice, incoming: TaskRows, found: Found, away: Positions) -> tuple[Positions, pa.Table]:
    """Which keys of the share have a living row here, and these rows, with the columns of the incoming ones."""
    storage = tag.loading.staging.storage
    schema = pa.schema([field for field in incoming.schema if field.name not in (KEY, FRESH, GONE, ARRIVAL)])
    if tag.merging is not None and slice_.log_files:
        keys = np.unique(found.key[away])
        living = look_up_merged(storage, slice_, tag.merging, incoming.keys.take(pa.array(keys)), schema.names)
        return keys[living.key], living.rows.select(schema.names).cast(schema)
    assert slice_.base_file is not None
    groups = read_row_groups(open_base_file(storage, slice_.base_file.path), slice_.base_file.path, schema)
    keys, first = np.unique(found.key[away], return_index=True)
    return keys, take_rows(pa.concat_tables([schema.empty_table(), *groups]), found.old[away][first])


def stage_moves(task: StageTask) -> list[Piece]:
    """Kernel: the batch into one staged file, batches of one partition path each; gives its pieces."""
    storage = task.staging.storage
    rows = pa.concat_tables(list(read_pieces(task.staging, task.pieces)))
    moves = pa.concat_tables([pa.ipc.open_file(storage.map(name)).read_all() for name in task.moves])
    numbers, first = np.unique(np.asarray(moves[_NUMBER]), return_index=True)
    moves = take_rows(moves, first)
    stays = np.asarray(moves[_STAYS], dtype=np.bool_)
    places = Places(task.pieces)
    paths = sorted({*places.paths, *moves[_PATH].unique().to_pylist()})
    path_of = np.array([paths.index(path) for path in places.paths])[places.of(np.arange(rows.num_rows))]
    stored_in = pc.index_in(moves[_PATH], value_set=pa.array(paths))
    path_of[numbers[stays]] = np.asarray(stored_in, dtype=np.int64)[stays]
    gone = numbers[~stays]
    source = np.arange(rows.num_rows)
    source[gone] = rows.num_rows + np.arange(len(gone))
    moved = _beside(take_rows(rows, gone), moves.filter(pa.array(~stays)))
    if task.marks:
        rows, moved = (one.append_column(MADE, pa.repeat(made, one.num_rows)) for one, made in ((rows, False), (moved, True)))
    both = pa.concat_tables([rows, moved])
    return _write(task, both, source, path_of, paths)


def _beside(rows: pa.Table, merged: pa.Table) -> pa.Table:
    """Rows with the values they become; key and order of arrival are theirs."""
    columns = [merged[n] if n in merged.column_names else rows[n] for n in rows.column_names]
    return pa.table(columns, schema=rows.schema)


def _write(task: StageTask, rows: pa.Table, source: Positions, path_of: Positions, paths: Sequence[str]) -> list[Piece]:
    name = join(task.staging.folder, f"relocated-{this_task().write_token}.arrow")
    pieces: list[Piece] = []
    with convert_os_errors(name), task.staging.storage.create(name) as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        for i, path in enumerate(paths):
            for part in row_group_parts(np.flatnonzero(path_of == i)):
                for one in take_rows(rows, source[part]).combine_chunks().to_batches():
                    pieces.append(Piece(path, name, len(pieces), one.num_rows, one.nbytes))
                    writer.write_batch(one)
    return pieces
