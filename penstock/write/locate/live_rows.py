"""Merge-on-read: which rows that an index finds in base files are still there, now that logs may have deleted them.

A key may be in the base file of one group, where its log has deleted it, and alive in another: it was deleted and inserted
again, or it moved to another partition. Then only the living row is the one that an incoming row meets. Deletes are looked
for in delete blocks, which are small, and what else the log says is read only if one of them names a key that counts, or if
the merger's deletes are rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.filegroup.log.scan import open_log_file, scan_slice
from penstock.filegroup.meta_columns import KEY_COLUMN
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeRules, columns_to_read, fold_slice_log, read_merged_rows
from penstock.formats.log import BlockType, read_deletes
from penstock.merge.kernels.by_key import find_positions
from penstock.merge.kernels.gather import Flags, Positions, take_rows
from penstock.storage import Storage


@dataclass(frozen=True)
class Living:
    """Rows of a merged slice whose keys were looked for: positions among the keys, and some columns of the rows."""

    key: Positions
    rows: pa.Table


def look_up_merged(storage: Storage, slice_: FileSlice, rules: MergeRules, keys: pa.Array, columns: Sequence[str]) -> Living:
    """Find keys among the rows of a slice as a query sees them. Any column may hold nulls, as those of a log do."""
    wanted = [KEY_COLUMN, *(name for name in dict.fromkeys(columns) if name in rules.arrow.names)]
    schema = pa.schema([rules.arrow.field(name).with_nullable(True) for name in wanted])
    found, rows = [np.empty(0, np.int64)], [schema.empty_table()]
    for part in read_merged_rows(storage, slice_, rules, wanted):
        at = find_positions(part[KEY_COLUMN], keys)
        hits = np.flatnonzero(at >= 0)
        found.append(at[hits])
        rows.append(pa.table(take_rows(part, hits).columns, schema=schema))
    return Living(np.concatenate(found), pa.concat_tables(rows))


def are_dead(storage: Storage, slice_: FileSlice, rules: MergeRules, keys: pa.Array) -> Flags:
    """Which of some keys, all in the slice's base file, its log has deleted."""
    dead = np.zeros(len(keys), np.bool_)
    named = np.full(len(keys), rules.merger.logs_deletes_as_rows)
    scan = scan_slice(storage, slice_, rules.times)
    for file, block in scan.blocks:
        if block.type is BlockType.DELETE:
            with open_log_file(storage, file) as log:
                named |= find_positions(keys, read_deletes(log, block).keys.unique()) >= 0
    if named.any():
        log_says = fold_slice_log(storage, slice_, rules, columns_to_read(rules, [KEY_COLUMN]), scan)
        gone = log_says.empty
        if rules.merger.logs_deletes_as_rows:
            gone = gone | rules.merger.is_delete(log_says.take(np.arange(len(gone))))
        dead[named] = find_positions(keys.filter(pa.array(named)), log_says.keys.filter(pa.array(gone))) >= 0
    return dead
