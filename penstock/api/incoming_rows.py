"""What the methods of `Table` accept as rows, and how each form becomes a DataFrame.

A Spark DataFrame is used unchanged, and a path is read with `spark.read.parquet`. Rows in the memory of this process (pandas,
Arrow, polars, a list of dicts) become an Arrow table, then a DataFrame. These libraries and Python hold most integers in 64 bits,
whatever the column of the table is, so integers take the type of the table's column if all of them fit. The types of a Spark
DataFrame and of Parquet files are kept: the write decides whether a column grows, as in Hudi.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from logging import LogRecord
from threading import get_ident
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from penstock.columns import quoted
from penstock.errors import OptionError, PenstockError, SchemaError
from penstock.schema import arrow_to_avro, avro_to_spark, spark_to_arrow
from penstock.storage import open_storage
from penstock.table.state import table_exists
from penstock.workers.driver_rows import send_rows


class ArrowStream(Protocol):
    """Rows of a library with Arrow's C interface, such as a DataFrame of pandas or polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


#: What the methods of `Table` accept as rows.
Rows: TypeAlias = "DataFrame | ArrowStream | pa.Table | pa.RecordBatch | Sequence[Mapping[str, object]] | str | os.PathLike[str]"

#: The loggers to which PySpark 4 writes each error of a query: of SQL text, and of Columns.
_QUERY_LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_FORMS = "a DataFrame of Spark, pandas or polars, an Arrow table, a list of dicts, or the path of Parquet files"


def as_frame(rows: Rows, spark: SparkSession, columns: StructType) -> DataFrame:
    """Return the rows that a caller passed as a Spark DataFrame.

    Args:
        rows: the rows, in one of the forms of `Rows`.
        spark: the session for rows that are not a Spark DataFrame.
        columns: the table's columns. Integers, and all values of dicts, take the types of these columns if they fit.

    Raises:
        OptionError: the rows have another form, or the path cannot be read as Parquet.
        SchemaError: a column has no type that a Hudi table can hold, or values of several types.
    """
    if isinstance(rows, str | os.PathLike):
        return _read_parquet(spark, os.fspath(rows))
    kind = _kind_of(rows)
    if is_spark_frame(rows):
        return rows
    if kind == "pyspark.pandas.DataFrame":
        return cast("Any", rows).to_spark()
    try:
        table = _as_arrow(rows, kind, columns)
    except (pa.ArrowException, OverflowError) as e:
        raise SchemaError(f"the rows cannot become Arrow columns: {e}; give each column values of one type") from e
    return _send(spark, table, columns)


def rows_where(frame: DataFrame, condition: str | Column) -> DataFrame:
    """Return the rows of a DataFrame for which a condition is true.

    Args:
        condition: a SQL expression over the columns, or a Column.

    Raises:
        OptionError: the condition is empty, cannot be parsed, has a column that the table does not have, or is not boolean.
    """
    if isinstance(condition, str) and not condition.strip():
        raise OptionError("the condition is empty; pass one such as \"fare > 30\", or 'true' for all rows")
    try:
        with _no_query_log():
            found = frame.where(condition)
            found.columns  # noqa: B018  Spark Connect analyses the condition only now
    except PySparkException as e:
        text = f"{condition!r}" if isinstance(condition, str) else str(condition)
        hint = "; pass a pathlib.Path if it is the path of Parquet files with keys" if "/" in text else ""
        raise OptionError(f"{text} is not a condition over the table's columns: {_first_line(e)}{hint}") from None
    return found


@contextmanager
def _no_query_log() -> Iterator[None]:
    """Keep PySpark 4 from logging errors of queries of this thread: kilobytes of JSON on stderr, for an error that is raised."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # PySpark 3.5 logs nothing
        yield
        return
    thread = get_ident()
    loggers = [PySparkLogger.getLogger(name) for name in _QUERY_LOGS]

    def is_of_another_thread(record: LogRecord) -> bool:
        return record.thread != thread

    for logger in loggers:
        logger.addFilter(is_of_another_thread)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_another_thread)


def is_condition(keys: object) -> TypeGuard[str | Column]:
    """Whether the argument of `Table.delete` is a condition: a string or a Column of Spark."""
    return isinstance(keys, str) or _kind_of(keys) == "pyspark.sql.Column"


def is_spark_frame(rows: object) -> TypeGuard[DataFrame]:
    """Whether rows are a DataFrame of Spark, classic or Connect."""
    return _kind_of(rows) == "pyspark.sql.DataFrame"


def _kind_of(rows: object) -> str:
    """Return the library and class name of rows, such as `pandas.DataFrame`, without importing the library; "" if not known.

    For a subclass, and for a class in a submodule such as Spark Connect's DataFrame, the name is that of the public class, for
    example `pyspark.sql.DataFrame`.
    """
    for kind in type(rows).__mro__:
        if kind.__name__ in ("DataFrame", "LazyFrame", "Column"):
            library = kind.__module__
            for name in ("pyspark.pandas", "pyspark.sql", "pandas", "polars"):
                if library == name or library.startswith(f"{name}."):
                    return f"{name}.{kind.__name__}"
    return ""


def _as_arrow(rows: Any, kind: str, columns: StructType) -> pa.Table:
    """Return rows in the memory of this process as an Arrow table.

    Args:
        kind: the library and class name of the rows, such as `pandas.DataFrame`.
        columns: the table's columns.

    Raises:
        OptionError: the rows have a form that is not known.
    """
    if kind == "pandas.DataFrame":
        is_named = all(name is not None for name in rows.index.names)  # an index with a name is a column
        return _narrow(pa.Table.from_pandas(rows, preserve_index=is_named), columns, floats_too=True)
    if isinstance(rows, list | tuple):
        return _from_dicts(rows, columns)
    if kind == "polars.LazyFrame":
        rows = rows.collect()
    if kind.startswith("polars."):
        return _narrow(cast("pa.Table", rows.to_arrow()), columns)
    if isinstance(rows, pa.RecordBatch):
        return _narrow(pa.Table.from_batches([rows]), columns)
    if isinstance(rows, pa.RecordBatchReader):
        return _narrow(rows.read_all(), columns)
    if isinstance(rows, pa.Table):
        return _narrow(rows, columns)
    if hasattr(rows, "__arrow_c_stream__"):
        return _narrow(pa.table(rows), columns)
    hint = "; call its read()" if hasattr(rows, "read") and hasattr(rows, "upsert") else ""
    raise OptionError(f"rows cannot be of the type {type(rows).__name__}: pass {_FORMS}{hint}")


def _from_dicts(rows: Sequence[Any], columns: StructType) -> pa.Table:
    """Return a list of dicts as an Arrow table. Columns are the keys of all dicts; a key that a dict lacks is null.

    Args:
        columns: the table's columns. A value takes the type of its column if it fits.

    Raises:
        OptionError: the elements are not dicts.
    """
    known = spark_to_arrow(columns.jsonValue())
    if not rows:
        return known.empty_table()
    if not isinstance(rows[0], Mapping):
        raise OptionError(f"rows cannot be a list of {type(rows[0]).__name__}: pass {_FORMS}")
    found = pa.array(rows).type
    own = [found.field(number) for number in range(found.num_fields)]
    columns_of_rows = [_from_key(rows, f, known.field(f.name).type if f.name in known.names else f.type) for f in own]
    return pa.Table.from_arrays(columns_of_rows, names=[f.name for f in own])


def _from_key(rows: Sequence[Any], found: pa.Field, wanted: pa.DataType) -> pa.Array:
    """Return the values of one key of dicts as an Arrow array. They take the type of the table's column if each fits unchanged.

    Args:
        found: the key, with the type that Arrow finds for its values.
        wanted: the type of the table's column.
    """
    # A time without a zone would be taken as UTC. Spark reads it in the session's time zone (`_send`).
    if not pt.is_timestamp(found.type) and not _would_change(found.type, wanted):
        with suppress(pa.ArrowException, OverflowError):  # a value does not fit: the write decides whether the column grows
            return pa.array(rows, pa.struct([pa.field(found.name, wanted)])).field(0)
    values = pa.array(rows, pa.struct([found])).field(0)
    if pt.is_integer(wanted) and _would_change(found.type, wanted):
        with suppress(pa.ArrowInvalid):  # a fraction: the write decides whether the column grows
            return values.cast(wanted)
    return values


def _would_change(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow may change Python values without an error when it converts them from one type to another.

    Arrow cuts off the fraction of a number and the time of day of a datetime, and converts an integer to a date or time.

    Args:
        found: the type that Arrow finds for the values.
        wanted: the type of the table's column.
    """
    if pt.is_list(found) and pt.is_list(wanted):
        return _would_change(found.value_type, wanted.value_type)
    if pt.is_struct(found) and pt.is_map(wanted):
        return any(_would_change(f.type, wanted.item_type) for f in found)
    if pt.is_struct(found) and pt.is_struct(wanted):
        return any(_would_change(f.type, wanted.field(f.name).type) for f in found if wanted.get_field_index(f.name) >= 0)
    if pt.is_integer(wanted):
        return bool(pt.is_floating(found) or pt.is_decimal(found))
    return bool((pt.is_date(wanted) and pt.is_timestamp(found)) or (pt.is_temporal(wanted) and pt.is_integer(found)))


def _narrow(rows: pa.Table, columns: StructType, *, floats_too: bool = False) -> pa.Table:
    """Return rows with integers cast to the integer types of the table's columns, in each column where every value fits.

    Integers inside of lists, maps and structs are cast too.

    Args:
        floats_too: whether floats without a fraction are cast to integers. Pandas has floats where integers are missing.
    """
    known = spark_to_arrow(columns.jsonValue())
    for number, field in enumerate(rows.schema):
        if field.name not in known.names:
            continue
        wanted = known.field(field.name).type
        is_float = floats_too and pt.is_floating(field.type) and pt.is_integer(wanted)
        narrower = wanted if is_float else _with_integers_of(field.type, wanted)
        if narrower == field.type:
            continue
        try:
            rows = rows.set_column(number, field.name, rows.column(number).cast(narrower))
        except pa.ArrowException:
            continue  # a value does not fit: the write decides whether the column grows
    return rows


def _with_integers_of(found: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the type `found` with its integers, also nested ones, in the integer types that `wanted` has in their place."""
    if pt.is_integer(found):
        return wanted if pt.is_integer(wanted) else found
    if (pt.is_list(found) or pt.is_large_list(found)) and pt.is_list(wanted):
        element = found.value_field.with_type(_with_integers_of(found.value_type, wanted.value_type))
        return pa.list_(element) if pt.is_list(found) else pa.large_list(element)
    if pt.is_map(found) and pt.is_map(wanted):
        value = found.item_field.with_type(_with_integers_of(found.item_type, wanted.item_type))
        return pa.map_(found.key_field, value)
    if pt.is_struct(found) and pt.is_struct(wanted):
        return pa.struct([_with_integers_of_field(field, wanted) for field in found])
    return found


def _with_integers_of_field(field: pa.Field, wanted: pa.DataType) -> pa.Field:
    """Return a field of a struct with its integers, also nested ones, in the integer types of the table's struct.

    Args:
        wanted: the table's struct. Its field of the same name has the types. If it lacks the field, `field` is returned.
    """
    number = wanted.get_field_index(field.name)
    return field if number < 0 else field.with_type(_with_integers_of(field.type, wanted.field(number).type))


def _send(spark: SparkSession, rows: pa.Table, columns: StructType) -> DataFrame:
    """Return an Arrow table as a DataFrame. The table's columns come first, in the table's order.

    A time without a zone becomes a `timestamp_ntz`. But if the table's column is a `timestamp`, the time is taken as one in the
    session's time zone. A column that is all null takes the type of the table's column.
    """
    known = spark_to_arrow(columns.jsonValue())
    if len(set(rows.column_names)) == rows.num_columns:
        rows = rows.select(
            sorted(rows.column_names, key=lambda name: known.names.index(name) if name in known.names else len(known))
        )
    for number, field in enumerate(rows.schema):
        if pt.is_null(field.type) and field.name in known.names:
            rows = rows.set_column(number, known.field(field.name), rows.column(number).cast(known.field(field.name).type))
    struct = StructType.fromJson(avro_to_spark(arrow_to_avro(rows.schema, "rows")))
    try:
        rows = rows.cast(spark_to_arrow(struct.jsonValue()), safe=False)  # a timestamp loses its nanoseconds, as in Spark
    except pa.ArrowException as e:
        raise SchemaError(f"the rows have a type that Spark does not take: {e}; cast the column") from e
    frame = send_rows(spark, rows, struct)
    zoned = {field.name for field in columns if isinstance(field.dataType, TimestampType)}
    local = [field.name for field in struct if field.dataType.typeName() == "timestamp_ntz" and field.name in zoned]
    return frame.withColumns({name: F.col(quoted(name)).cast("timestamp") for name in local}) if local else frame


def _read_parquet(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of Parquet files.

    Raises:
        OptionError: the path is the folder of a Hudi table, or cannot be read as Parquet.
    """
    if _is_table(path):
        raise OptionError(f"rows: {path} is a Hudi table, not a folder of plain Parquet files; pass Table.open(path).read()")
    try:
        frame = spark.read.parquet(path)
        frame.columns  # noqa: B018  Spark Connect looks for the files only now
    except Exception as e:  # PySpark 3.5 does not convert the error of a job that reads footers
        if "NANOS" in str(e):
            raise OptionError(
                f"rows: {path!r} cannot be read as Parquet: Spark reads no timestamps with nanoseconds (NANOS); pass the rows "
                "themselves, or write the file with microseconds: to_parquet(..., coerce_timestamps='us')"
            ) from e
        if not isinstance(e, PySparkException):
            raise
        raise OptionError(f"rows: {path!r} cannot be read as Parquet: {_first_line(e)}") from e
    return frame


def _is_table(path: str) -> bool:
    """Whether there is a Hudi table at a path. False if Penstock cannot open the path, because only Spark knows its storage."""
    try:
        return table_exists(*open_storage(path))
    except PenstockError:
        return False


def _first_line(error: Exception) -> str:
    """Return the first line of Spark's error message, to quote it in an error of Penstock."""
    return str(error).strip().split("\n", 1)[0]
