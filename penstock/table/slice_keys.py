"""Reads the record keys of a file slice from its base file and log files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.filegroup.base_read import open_base_file, read_row_groups
from penstock.filegroup.fill_meta_columns import KEY_COLUMN
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import read_merged_rows
from penstock.merge.kernels.gather import to_array
from penstock.table.merge_rules import build_merge_rules
from penstock.table.state import TableState, read_table_schema


def read_keys(table: TableState, slice_: FileSlice) -> Iterator[pa.Array]:
    """Yield the record keys of the rows of a file slice, after its log files are merged into its base file.

    Each Arrow array holds the keys of one row group or one merged batch.
    """
    schema = pa.schema([pa.field(KEY_COLUMN, pa.string())])
    if slice_.log_files:
        rows = read_merged_rows(table.storage, slice_, build_merge_rules(table, read_table_schema(table) or ""), [KEY_COLUMN])
    elif slice_.base_file is not None:
        path = slice_.base_file.path
        rows = read_row_groups(open_base_file(table.storage, path), path, schema)
    else:
        rows = iter(())
    for part in rows:
        yield to_array(part[KEY_COLUMN])
