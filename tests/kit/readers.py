"""Other readers of our tables, and one form in which tables from all of them compare equal.

hudi-rs (the package `hudi`) reads without Spark and without Java. What it, Spark, pyarrow and the oracle return for the
same rows differs in column order, row order, widths of strings and units of timestamps; `normalise` removes these
differences and no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


def hudi_rs_rows(
    path: str | Path, options: Mapping[str, str] | None = None, *, filters: Sequence[tuple[str, str, str]] = ()
) -> pa.Table:
    """Return the rows of a snapshot query by hudi-rs, meta columns included."""
    from hudi import HudiReadOptions, HudiTableBuilder  # lazy: other tests need no hudi-rs

    table = HudiTableBuilder.from_base_uri(str(path)).with_options(dict(options or {})).build()
    batches = table.read(HudiReadOptions(filters=list(filters)))
    if not batches:
        return table.get_schema_with_meta_fields().empty_table()
    return pa.Table.from_batches(batches)


def hudi_rs_base_files(path: str | Path) -> set[str]:
    """Return the paths, within the table, of the base files that hudi-rs would read."""
    from hudi import HudiTableBuilder

    table = HudiTableBuilder.from_base_uri(str(path)).build()
    return {file_slice.base_file_relative_path() for file_slice in table.get_file_slices()}


def normalise(table: pa.Table, *, meta: bool = False) -> pa.Table:
    """Return the same rows with columns and rows in one order and types in one spelling.

    The five meta columns are left out unless `meta` is set: they differ between two writers of the same rows.
    """
    names = sorted(name for name in table.column_names if meta or name not in META_COLUMNS)
    plain = table.select(names)
    plain = plain.cast(pa.schema([pa.field(field.name, _plain_type(field.type)) for field in plain.schema]))
    # A loop over rows: nested columns have no order in Arrow, and tables in tests are small.
    rows = [repr(row) for row in plain.to_pylist()]
    return plain.take(pa.array(sorted(range(len(rows)), key=rows.__getitem__), pa.int64())).combine_chunks()


def rows_of(table: pa.Table, *, meta: bool = False) -> list[dict[str, Any]]:
    """Return the normalised rows as dictionaries, which a failing assertion shows best."""
    rows: list[dict[str, Any]] = normalise(table, meta=meta).to_pylist()
    return rows


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in fields])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    return _plain_leaf(kind)


def _plain_leaf(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or str(kind) == "binary_view":
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    return kind
