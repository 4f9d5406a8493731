"""Errors that workers send to Spark as rows, so that a filter on partition columns can drop an error that does not matter.

Spark cannot push a filter into a Python worker, so a worker that finds a damaged file does not know whether the query needs it.
The worker sends a row with the values of the partition columns and the text of the error. A generator (`explode_outer`) above the
worker raises the error. Spark pushes a filter below the generator if the filter uses no column of the generator. This is also
true for a filter that the user adds after `load`:

- Columns that identify the partition pass the generator unchanged. A filter on them is applied below the generator, and drops the
  rows of errors in other partitions.
- Every other column depends on the column of the generator. So a filter on it is applied above the generator, after it has
  raised the errors.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from penstock.columns import quoted
from penstock.errors import PenstockError

#: The text of an error; null in rows of the table.
_ERROR = "_penstock_error"
#: The column of the generator. It is true in every row that passes.
_PASSED = "_penstock_passed"
_RAISE = f"explode_outer(if(isnull({_ERROR}), array(true), array(cast(raise_error({_ERROR}) as boolean)))) as {_PASSED}"


def add_error_column(columns: StructType) -> StructType:
    """Return the schema of the rows that workers send, with a column for the text of an error."""
    return StructType([*columns, StructField(_ERROR, StringType())])


def append_error(rows: pa.Table, error: PenstockError | None) -> pa.Table:
    """Return the rows with the text of an error in a column of its own. The text is null if `error` is None. Runs in workers."""
    text = None if error is None else f"penstock.errors.{type(error).__name__}: {error}"
    return rows.append_column(_ERROR, pa.array([text] * len(rows), pa.string()) if text else pa.nulls(len(rows), pa.string()))


def raise_late_errors(frame: DataFrame, columns: StructType, known: Collection[str]) -> DataFrame:
    """Return the rows that workers sent, without the column of errors. A row with an error raises it when a query reads the row.

    Args:
        columns: the columns of the rows, without that of errors.
        known: the columns that identify the partition of a row. Rows with an error have values in these columns only.
    """
    selected = []
    for name in columns.names:
        column = quoted(name)
        selected.append(column if name in known else f"if({_PASSED}, {column}, null) as {column}")
    return frame.selectExpr("*", _RAISE).selectExpr(*selected)
