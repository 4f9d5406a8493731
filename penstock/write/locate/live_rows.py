"""Looks up keys in the rows of a merge-on-read slice as a query sees them: base file and logs merged.

A key may be in the base files of two file groups. In one of them a log file has deleted it (the row is dead). In the other it is
alive, because it was inserted again or moved to another partition. An incoming row is merged with the living row only.
`are_dead` finds the dead rows at little cost: it reads delete blocks, which are small. It reads the rest of the log files only if
a delete block names one of the keys, or if the merger writes its deletes as rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.filegroup.fill_meta_columns import KEY_COLUMN
from penstock.filegroup.log.scan import open_log_file, scan_slice
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeRules, columns_to_read, fold_slice_log, read_merged_rows
from penstock.formats.log import BlockType, read_deletes
from penstock.merge.kernels.by_key import find_positions
from penstock.merge.kernels.gather import Flags, Positions, take_rows
from penstock.storage import Storage


@dataclass(frozen=True)
class LivingRows:
    """The rows of a file slice that have a wanted key, with base file and logs merged. Rows that a log deleted are left out.

    `key` holds, for each row, the position of its key among the wanted keys.
    """

    #: The position of each row's key in the array of wanted keys.
    key: Positions
    #: The requested columns of the rows.
    rows: pa.Table


def look_up_merged(
    storage: Storage, file_slice: FileSlice, rules: MergeRules, keys: pa.Array, columns: Sequence[str]
) -> LivingRows:
    """Return the rows of a file slice, base file and logs merged, that have one of the keys.

    Rows that a log file has deleted are left out. Every column of the result is nullable, because a row in a log file may lack a
    column.

    Args:
        keys: the wanted record keys.
        rules: how base file and log files are merged.
        columns: the columns to return, besides the record key. Columns that the table does not have are ignored.
    """
    wanted = [KEY_COLUMN, *(name for name in dict.fromkeys(columns) if name in rules.arrow.names)]
    schema = pa.schema([rules.arrow.field(name).with_nullable(True) for name in wanted])
    found_keys = [np.empty(0, np.int64)]
    found_rows = [schema.empty_table()]
    for rows in read_merged_rows(storage, file_slice, rules, wanted):
        positions = find_positions(rows[KEY_COLUMN], keys)
        hits = np.flatnonzero(positions >= 0)
        found_keys.append(positions[hits])
        found_rows.append(pa.table(take_rows(rows, hits).columns, schema=schema))
    return LivingRows(np.concatenate(found_keys), pa.concat_tables(found_rows))


def are_dead(storage: Storage, file_slice: FileSlice, rules: MergeRules, keys: pa.Array) -> Flags:
    """Return a mask over the keys: true if a log file of the slice has deleted the key, and no later row inserts it again.

    Args:
        rules: how base file and log files are merged.
        keys: record keys that are all in the slice's base file.
    """
    dead = np.zeros(len(keys), np.bool_)
    # A merger that writes deletes as rows may have deleted any of the keys, so a missing delete entry proves nothing.
    may_be_dead = np.full(len(keys), rules.merger.logs_deletes_as_rows)
    scan = scan_slice(storage, file_slice, rules.times)
    for file, block in scan.blocks:
        if block.type is BlockType.DELETE:
            with open_log_file(storage, file) as log:
                may_be_dead |= find_positions(keys, read_deletes(log, block).keys.unique()) >= 0
    if not may_be_dead.any():
        return dead
    if rules.orders_deletes:
        # A delete in the log may be older than the row of the base file: the rows must be compared.
        candidates = np.flatnonzero(may_be_dead)
        living = look_up_merged(storage, file_slice, rules, keys.take(pa.array(candidates)), [])
        dead[np.setdiff1d(candidates, candidates[living.key])] = True
        return dead
    # A later row, or one with a greater ordering value, may have brought a deleted key back: the whole log must be read.
    folded = fold_slice_log(storage, file_slice, rules, columns_to_read(rules, [KEY_COLUMN]), scan)
    is_deleted = folded.empty
    if rules.merger.logs_deletes_as_rows:
        is_deleted = is_deleted | rules.merger.is_delete(folded.take(np.arange(len(is_deleted))))
    deleted_keys = folded.keys.filter(pa.array(is_deleted))
    dead[may_be_dead] = find_positions(keys.filter(pa.array(may_be_dead)), deleted_keys) >= 0
    return dead
