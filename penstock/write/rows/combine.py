"""Stage 3 of inserts: one row per key, where the options ask for it.

A Spark aggregation over whole rows. Upserts and deletes need no shuffle for this: they combine in the task that already
holds all rows of a key (`merge/`). A payload that makes one row of several folds them where they are staged (`fold.py`); a
bulk_insert stages none, so there its rows are brought together by key and folded on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock import options as o
from penstock.error_text import marked_ends
from penstock.errors import PenstockError, SchemaError
from penstock.index import index_of
from penstock.keys.names import partition_columns
from penstock.keys.partition_path import DEFAULT_PARTITION
from penstock.merge.kernels.fold import fold_batch
from penstock.merge.kernels.gather import find_column, take_rows, to_array
from penstock.merge.kernels.marks import GONE
from penstock.merge.kernels.ordering import check_ordering_values
from penstock.merge.merger import Merger
from penstock.options.operation import Operation
from penstock.write.rows.crossing import CrossingColumns, as_stored, crossing_keys, crossing_paths
from penstock.write.rows.schema import Prepared, quoted
from penstock.write.settings import WriteSettings

_ROW, _ARRIVAL = "_penstock_row", "_penstock_arrival"
#: Rows that are handed back to Spark at once.
_BATCH_ROWS = 64 * 1024


def combine(prepared: Prepared, settings: WriteSettings, merger: Merger) -> Prepared:
    """Keep the row with the greatest ordering value of each key, per partition unless the index is a global one.

    Among equals the last one stays, as payloads decide it; a bulk_insert keeps the first. A payload with a way of its own to
    make one row of several is asked for that row.
    """
    layout, options = prepared.layout, settings.options
    if not wants_one_row(prepared, settings) or layout.key is None:
        return prepared
    ordering = settings.ordering_field
    assert ordering is not None  # or it was missed above
    if merger.folds:
        return prepared.changed(_folded(prepared, settings, merger, ordering))
    before, after = marked_ends(SchemaError)
    message = (
        f"{before}Ordering value is null in column {ordering}: fill the column, or set "
        f"{o.COMBINE_BEFORE_INSERT.key} to false{after}"
    )
    value = F.col(ordering if "." in ordering else quoted(ordering))
    checked = F.when(value.isNull(), F.raise_error(F.lit(message)).cast(_type_of(prepared, ordering))).otherwise(value)
    if merger.ignores_ordering:
        checked = F.lit(0)
    arrival = F.col(_ARRIVAL) * (-1 if settings.operation is Operation.BULK_INSERT else 1)
    keys = [F.col(quoted(layout.key))]
    if layout.path is not None and not index_of(options).is_global:
        keys.append(_path_of(layout, F.col(quoted(layout.path))))
    names = prepared.rows.columns
    rows = (
        prepared.rows.withColumn(_ARRIVAL, F.monotonically_increasing_id())
        .groupBy(*(k.alias(f"_penstock_by_{i}") for i, k in enumerate(keys)))
        .agg(F.max_by(F.struct(*(F.col(quoted(n)) for n in names)), F.struct(checked, arrival)).alias(_ROW))
        .select(*(F.col(_ROW)[n].alias(n) for n in names))
    )
    return prepared.changed(rows)


def _path_of(layout: CrossingColumns, column: Column) -> Column:
    """The partition path of a row, as `paths_of` tells it."""
    if not layout.path_is_plain:
        return column
    return F.when(F.coalesce(column, F.lit("")) == "", F.lit(DEFAULT_PARTITION)).otherwise(column)


def wants_one_row(prepared: Prepared, settings: WriteSettings) -> bool:
    """Whether rows of one key are to become one before they are inserted.

    Raises:
        SchemaError: they are, and lack the ordering column.
    """
    options, ordering = settings.options, settings.ordering_field
    overwrites = settings.operation in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE)
    drops = options[o.INSERT_DROP_DUPLICATES] and not overwrites
    if not (options[o.COMBINE_BEFORE_INSERT] or drops) or prepared.layout.key is None:
        return False
    if ordering is None or ordering.split(".")[0] not in prepared.rows.columns:
        raise SchemaError(
            f"Pre-combine field {ordering or options[o.PRECOMBINE_FIELD]} is missing in the rows: set "
            f"{o.PRECOMBINE_FIELD.key} to one of {', '.join(prepared.layout.schema.names)}, or "
            f"{o.COMBINE_BEFORE_INSERT.key} to false"
        )
    return True


def _type_of(prepared: Prepared, ordering: str) -> str:
    field = ordering if "." in ordering else quoted(ordering)
    return prepared.rows.select(F.col(field)).schema[0].dataType.simpleString()


@dataclass(frozen=True)
class _IncomingFold:
    """How incoming rows become one per key while they cross."""

    layout: CrossingColumns
    merger: Merger
    ordering: str
    #: Keys count in all partitions.
    everywhere: bool
    #: Columns of the partition path.
    placed_by: tuple[str, ...]


def _folded(prepared: Prepared, settings: WriteSettings, merger: Merger, ordering: str) -> DataFrame:
    """One row of several of a key, as an insert would store it. One shuffle, and the rows cross once more."""
    everywhere = index_of(settings.options).is_global
    by = partition_columns(settings.keys.partition_path_fields)
    how = _IncomingFold(prepared.layout, merger, ordering, everywhere, by if everywhere else ())
    numbered = prepared.rows.withColumn(_ARRIVAL, F.monotonically_increasing_id())
    together = numbered.repartition(F.col(quoted(prepared.layout.key or "")))
    return together.mapInArrow(partial(_fold_incoming, how), prepared.rows.schema)


def _fold_incoming(how: _IncomingFold, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Kernel: all rows of some keys into one of each. What goes wrong is told so that the driver finds it in Spark's error."""
    try:
        tables = [pa.Table.from_batches([batch]) for batch in batches]
        found = _one_per_key(how, pa.concat_tables(tables)).to_batches(max_chunksize=_BATCH_ROWS) if tables else []
    except PenstockError as e:
        before, after = marked_ends(type(e))
        raise type(e)(f"{before}{e}{after}") from None
    yield from found


def _one_per_key(how: _IncomingFold, incoming: pa.Table) -> pa.Table:
    names, crossed = how.layout.schema.names, incoming.drop_columns([_ARRIVAL])
    rows, ordering = as_stored(incoming.select(names), how.layout.schema), find_column(incoming, how.ordering)
    assert ordering is not None  # the rows were looked at before
    check_ordering_values(ordering, how.ordering)
    arrival = np.asarray(incoming[_ARRIVAL], dtype=np.int64)
    batch = fold_batch(how.merger, rows, _whole_keys(how, incoming), ordering, how.ordering, arrival, how.placed_by)
    made = batch.apply(rows)
    if batch.gone is not None:
        made = made.append_column(GONE, pa.array(np.isin(batch.rows, batch.changed[batch.gone])))
    kept, stored = how.merger.insert(made)
    others = take_rows(crossed, batch.rows[kept])
    columns = [stored[field.name].cast(field.type) if field.name in names else others[field.name] for field in crossed.schema]
    return pa.table(columns, schema=crossed.schema)


def _whole_keys(how: _IncomingFold, incoming: pa.Table) -> pa.Array:
    """A number for each record key, or for each with its partition path where a key counts there alone."""
    paths = None if how.everywhere else crossing_paths(how.layout, incoming)
    keys = to_array(crossing_keys(how.layout, incoming)).dictionary_encode()
    numbers = np.asarray(keys.indices, dtype=np.int64)
    if paths is None:
        return pa.array(numbers)
    of_paths = to_array(paths).dictionary_encode()
    return pa.array(numbers * len(of_paths.dictionary) + np.asarray(of_paths.indices, dtype=np.int64))
