"""How rows cross from Spark to the workers, and how a worker takes them apart again. Kernels, but for `cross`.

A row crosses once, and only with what the worker cannot make itself: a record key or partition path that is a plain
string column is taken from there. What the worker gives on is: data columns as they are stored, record keys, paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RecordKeyError
from penstock.keys.partition_path import DEFAULT_PARTITION, check_partition_path

KEY = "_penstock_key"
PATH = "_penstock_path"


@dataclass(frozen=True)
class CrossingColumns:
    """Which columns a worker gets, and what they are."""

    #: The data columns as they are stored, in order.
    schema: pa.Schema
    #: Column with the record key; None when the worker makes keys up.
    key: str | None
    #: Column with the partition path; None for a table without partitions.
    path: str | None
    #: The key is a user's column: a null or empty value is the user's error, to be named.
    key_is_plain: bool = False
    path_is_plain: bool = False


@dataclass(frozen=True)
class Rows:
    """Rows of one partition path, without meta columns."""

    path: str
    table: pa.Table
    keys: pa.ChunkedArray | None


def split_batch(layout: CrossingColumns, batch: pa.RecordBatch | pa.Table) -> Iterator[Rows]:
    """Cut one batch by partition path; rows of a path keep their order."""
    if batch.num_rows == 0:
        return
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    keys = crossing_keys(layout, table)
    paths = crossing_paths(layout, table)
    data = as_stored(table.select(layout.schema.names), layout.schema)
    if paths is None:
        yield Rows("", data, keys)
        return
    encoded = paths.combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()  # distinct paths of one batch
    for name in names:
        check_partition_path(name)
    if len(names) == 1:
        yield Rows(names[0], data, keys)
        return
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    data, keys = data.take(pa.array(order)), keys.take(pa.array(order)) if keys is not None else None
    bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
    for i, name in enumerate(names):
        start, count = int(bounds[i]), int(bounds[i + 1] - bounds[i])
        yield Rows(name, data.slice(start, count), keys.slice(start, count) if keys is not None else None)


def as_stored(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns in the types that files hold."""
    return table if table.schema.equals(schema) else table.cast(schema)


def crossing_keys(layout: CrossingColumns, table: pa.Table) -> pa.ChunkedArray | None:
    """Record keys of rows as they cross; None where the worker makes them up.

    Raises:
        RecordKeyError: one is null or empty.
    """
    if layout.key is None:
        return None
    keys = table[layout.key]
    if layout.key_is_plain:
        if keys.null_count:
            raise RecordKeyError(
                f'recordKey value: "null" for field: "{layout.key}" cannot be null or empty. '
                f"Filter such rows out, or choose another record key than {layout.key}"
            )
        if pc.any(pc.equal(pc.binary_length(keys), 0)).as_py():
            raise RecordKeyError(
                f'recordKey value: "" for field: "{layout.key}" cannot be null or empty. '
                f"Filter such rows out, or choose another record key than {layout.key}"
            )
    return keys


def crossing_paths(layout: CrossingColumns, table: pa.Table) -> pa.ChunkedArray | None:
    """Partition paths of rows as they cross; None where the table has no partitions."""
    if layout.path is None:
        return None
    paths = table[layout.path]
    if not layout.path_is_plain:
        return paths
    filled = pc.fill_null(paths, DEFAULT_PARTITION)
    return pc.if_else(pc.equal(filled, ""), DEFAULT_PARTITION, filled)
