"""Stage 3 of inserts: combines the incoming rows to one per key (Hudi's pre-combining), if the options ask for it.

Most mergers pick the newest row of each key; for inserts a Spark aggregation does that. Upserts and deletes need no shuffle,
because the task that merges has all rows of a key and picks one of them.

Some mergers build one new row out of all rows of a key instead. This is called folding (`Merger.folds`). The rows of an insert
are folded after they are staged (`combine_staged.py`). A bulk_insert stages no rows: its rows are shuffled by key, Python workers
fold them in a `mapInArrow`, and the folded rows go back to Spark (`_fold_while_crossing`).
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
from penstock.columns import quoted
from penstock.error_text import marked_ends
from penstock.errors import PenstockError, SchemaError
from penstock.index import make_index
from penstock.keys.partition_fields import partition_columns
from penstock.keys.partition_path import DEFAULT_PARTITION
from penstock.merge.kernels.fold import fold_batch
from penstock.merge.kernels.gather import find_column, take_rows, to_array
from penstock.merge.kernels.marks import GONE
from penstock.merge.kernels.ordering import check_ordering_values
from penstock.merge.merger import Merger
from penstock.options.operation import Operation
from penstock.workers.prepare import prepare_workers
from penstock.write.rows.crossing_columns import CrossingColumns, cast_to_stored, crossing_keys, crossing_paths
from penstock.write.rows.schema import PreparedRows
from penstock.write.settings import WriteSettings

_ROW = "_penstock_row"
_ARRIVAL = "_penstock_arrival"
#: The most rows in a record batch that a worker returns to Spark.
_BATCH_ROWS = 64 * 1024


def combine_rows(prepared: PreparedRows, settings: WriteSettings, merger: Merger) -> PreparedRows:
    """Return the incoming rows of an insert with one row per key, if the options ask for it; otherwise return them unchanged.

    The options that ask for it are `hoodie.combine.before.insert` and `hoodie.datasource.write.insert.drop.duplicates`. A key is
    unique in its partition; with a global index, in the whole table. The row with the greatest ordering value is kept. Among rows
    with equal ordering values the last to arrive is kept; a bulk_insert keeps the first. If `Merger.folds` is true, the merger
    builds one new row out of all rows of the key instead.
    """
    if not wants_one_row_per_key(prepared, settings):
        return prepared
    ordering = settings.ordering_field
    assert ordering is not None  # otherwise wants_one_row_per_key has raised
    if merger.folds:
        return prepared.with_rows(_fold_while_crossing(prepared, settings, merger, ordering))
    return prepared.with_rows(_pick_newest(prepared, settings, merger, ordering))


def wants_one_row_per_key(prepared: PreparedRows, settings: WriteSettings) -> bool:
    """Whether the options of an insert ask to combine the incoming rows to one per key before they are written.

    The options are `hoodie.combine.before.insert` and `hoodie.datasource.write.insert.drop.duplicates`. False if the table
    generates its record keys, because then no two rows have the same key.

    Raises:
        SchemaError: the options ask for it, and the rows do not have the ordering column.
    """
    options = settings.options
    ordering = settings.ordering_field
    overwrites = settings.operation in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE)
    drops_duplicates = options[o.INSERT_DROP_DUPLICATES] and not overwrites
    if not (options[o.COMBINE_BEFORE_INSERT] or drops_duplicates) or prepared.crossing.key is None:
        return False
    if ordering is None or ordering.split(".")[0] not in prepared.rows.columns:
        raise SchemaError(
            f"Pre-combine field {ordering or options[o.PRECOMBINE_FIELD]} is missing in the rows: set "
            f"{o.PRECOMBINE_FIELD.key} to one of {', '.join(prepared.crossing.schema.names)}, or "
            f"{o.COMBINE_BEFORE_INSERT.key} to false"
        )
    return True


def _pick_newest(prepared: PreparedRows, settings: WriteSettings, merger: Merger, ordering: str) -> DataFrame:
    """Return the incoming rows with only the newest row of each key, by a Spark aggregation over whole rows.

    Args:
        ordering: the name of the ordering column. The row with the greatest value is the newest.
    """
    crossing = prepared.crossing
    assert crossing.key is not None
    value = F.lit(0) if merger.ignores_ordering else _checked_ordering(prepared, ordering)
    # Among rows with equal ordering values the last to arrive wins. In a bulk_insert the first to arrive wins.
    arrival = F.col(_ARRIVAL) * (-1 if settings.operation is Operation.BULK_INSERT else 1)
    group_by = [F.col(quoted(crossing.key))]
    if crossing.path is not None and not make_index(settings.options).is_global:
        group_by.append(_path_expression(crossing, F.col(quoted(crossing.path))))
    names = prepared.rows.columns
    whole_row = F.struct(*(F.col(quoted(name)) for name in names))
    return (
        prepared.rows.withColumn(_ARRIVAL, F.monotonically_increasing_id())
        .groupBy(*(column.alias(f"_penstock_by_{number}") for number, column in enumerate(group_by)))
        .agg(F.max_by(whole_row, F.struct(value, arrival)).alias(_ROW))
        .select(*(F.col(_ROW)[name].alias(name) for name in names))
    )


def _checked_ordering(prepared: PreparedRows, ordering: str) -> Column:
    """Return a Spark expression whose value is the ordering column. When Spark evaluates it for a null, it raises SchemaError.

    Args:
        ordering: the name of the ordering column; `a.b` is a field of a struct.
    """
    name = ordering if "." in ordering else quoted(ordering)  # a.b is a field of a struct
    value = F.col(name)
    kind = prepared.rows.select(value).schema[0].dataType.simpleString()
    # The driver finds the text between the marks in Spark's error and raises a SchemaError.
    before, after = marked_ends(SchemaError)
    message = (
        f"{before}Ordering value is null in column {ordering}: fill the column, or set "
        f"{o.COMBINE_BEFORE_INSERT.key} to false{after}"
    )
    return F.when(value.isNull(), F.raise_error(F.lit(message)).cast(kind)).otherwise(value)


def _path_expression(crossing: CrossingColumns, column: Column) -> Column:
    """Return a Spark expression whose value is the partition path, by which rows are grouped before they are sent to Python.

    Null and empty paths become the default partition. `crossing_paths` does the same in the Python workers.

    Args:
        column: the column with the partition path.
    """
    if not crossing.path_is_plain:
        return column
    return F.when(F.coalesce(column, F.lit("")) == "", F.lit(DEFAULT_PARTITION)).otherwise(column)


@dataclass(frozen=True)
class _CrossingFold:
    """The settings with which a worker builds one row out of all rows of a key, in a bulk_insert. Pickled to the workers."""

    crossing: CrossingColumns
    merger: Merger
    ordering: str
    #: Whether a key is unique in the whole table. Otherwise it is unique in its partition.
    is_global: bool
    #: The partition columns if rows of one key may be of several partitions (global index); otherwise empty.
    partition_columns: tuple[str, ...]


def _fold_while_crossing(prepared: PreparedRows, settings: WriteSettings, merger: Merger, ordering: str) -> DataFrame:
    """Let Python workers build one row out of all rows of each key with the merger, for a bulk_insert. Return the built rows.

    Costs one shuffle by key, and one more transfer of the rows from the JVM to Python workers and back.

    Args:
        ordering: the name of the ordering column.
    """
    prepare_workers(prepared.rows.sparkSession)
    is_global = make_index(settings.options).is_global
    columns = partition_columns(settings.keys.partition_path_fields) if is_global else ()
    fold = _CrossingFold(prepared.crossing, merger, ordering, is_global, columns)
    numbered = prepared.rows.withColumn(_ARRIVAL, F.monotonically_increasing_id())
    by_key = numbered.repartition(F.col(quoted(prepared.crossing.key or "")))
    return by_key.mapInArrow(partial(_fold_batches, fold), prepared.rows.schema)


def _fold_batches(fold: _CrossingFold, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one row per key, built by the merger out of the rows of one Spark partition.

    `mapInArrow` calls this function in the workers. Errors of Penstock are raised with marks around their text, so that the
    driver finds the text in Spark's error.

    Args:
        fold: the merger, and which columns are key and path.
        batches: the rows of the Spark partition, which has all incoming rows of its keys.
    """
    try:
        tables = [pa.Table.from_batches([batch]) for batch in batches]
        folded = _fold_rows(fold, pa.concat_tables(tables)).to_batches(max_chunksize=_BATCH_ROWS) if tables else []
    except PenstockError as e:
        # Spark wraps the error in its own; the driver finds the text between the marks and raises the error again.
        before, after = marked_ends(type(e))
        raise type(e)(f"{before}{e}{after}") from None
    yield from folded


def _fold_rows(fold: _CrossingFold, incoming: pa.Table) -> pa.Table:
    """Build one row out of the rows of each key with the merger. Return these rows, except those of keys that are deleted.

    Args:
        incoming: rows as Spark sent them to the worker, with the column `_ARRIVAL`. The result has the other columns.
    """
    crossed = incoming.drop_columns([_ARRIVAL])
    data_columns = fold.crossing.schema.names
    rows = cast_to_stored(incoming.select(data_columns), fold.crossing.schema)
    ordering = find_column(incoming, fold.ordering)
    assert ordering is not None  # wants_one_row_per_key has checked the column
    check_ordering_values(ordering, fold.ordering)
    arrival = np.asarray(incoming[_ARRIVAL], dtype=np.int64)
    keys = _key_numbers(fold, incoming)
    batch = fold_batch(fold.merger, rows, keys, ordering, fold.ordering, arrival, fold.partition_columns)
    folded = batch.apply(rows)
    if batch.gone is not None:
        folded = folded.append_column(GONE, pa.array(np.isin(batch.rows, batch.changed[batch.gone])))
    kept, stored = fold.merger.insert(folded)
    # Computed key and path columns are not built by the merger; they are taken from one incoming row of the key.
    computed = take_rows(crossed, batch.rows[kept])
    columns = []
    for field in crossed.schema:
        column = stored[field.name].cast(field.type) if field.name in data_columns else computed[field.name]
        columns.append(column)
    return pa.table(columns, schema=crossed.schema)


def _key_numbers(fold: _CrossingFold, incoming: pa.Table) -> pa.Array:
    """Return one number per incoming row, which is the same for rows with the same record key and partition path.

    With a global index the partition path does not count, because a key is unique in the whole table.
    """
    keys = to_array(crossing_keys(fold.crossing, incoming)).dictionary_encode()
    numbers = np.asarray(keys.indices, dtype=np.int64)
    paths = None if fold.is_global else crossing_paths(fold.crossing, incoming)
    if paths is None:
        return pa.array(numbers)
    encoded_paths = to_array(paths).dictionary_encode()
    return pa.array(numbers * len(encoded_paths.dictionary) + np.asarray(encoded_paths.indices, dtype=np.int64))
