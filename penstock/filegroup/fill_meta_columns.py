"""Adds the meta columns to new rows, and to the rows of a file that is rewritten. Arrow tables in, Arrow tables out.

Commit time, sequence number and record key belong to a row; partition path and file name belong to the file that the row is in.
A rewrite keeps the first three, and adds partition path and file name again, with the name of the new file. Rows without
partition path and file name are called a *body*.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.schema import META_COLUMNS

KEY_COLUMN = "_hoodie_record_key"
_FILE_COLUMNS = META_COLUMNS[3:]
#: Suffixes of the columns that replace a meta column on its way from workers to Spark (`read/meta_encoding.py`): the number of
#: its string, and whether the record key equals a data column.
NUMBER = "_number"
SAME = "_is_key"
#: The names of those columns. Writes refuse a column of these names.
RESERVED_NAMES = (*(META_COLUMNS[position] + NUMBER for position in (0, 3, 4)), META_COLUMNS[2] + SAME)


def record_keys(rows: pa.Table, column: str) -> pa.ChunkedArray:
    """Return the record keys of rows as strings.

    Args:
        column: the column that holds the keys: `_hoodie_record_key`, or a data column if the table fills no meta columns.
    """
    keys = rows[column]
    return keys if column == KEY_COLUMN or pa.types.is_string(keys.type) else keys.cast(pa.string())


def schema_with_meta(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the five meta columns in front of its data columns."""
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *schema])


def body_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows without partition path and file name: commit time, sequence number, record key, data columns.

    Args:
        schema: the data columns.
    """
    return pa.schema([field for field in schema_with_meta(schema) if field.name not in _FILE_COLUMNS])


def stamp_rows(rows: pa.Table, keys: pa.ChunkedArray, *, instant: str, task: int, numbers: npt.NDArray[np.int64]) -> pa.Table:
    """Return new rows with commit time, sequence number and record key in front. Partition path and file name are added later.

    Args:
        rows: the data columns of the rows.
        keys: the record key of each row.
        instant: the instant of the write, which becomes the commit time.
        task: the number of the task.
        numbers: the number of each row within the task, which becomes part of its sequence number.
    """
    meta = (pa.repeat(instant, rows.num_rows), sequence_numbers(instant, task, numbers), keys)
    # Columns are added in front: a new schema of a thousand fields would take longer than the rest.
    body = rows.replace_schema_metadata(None) if rows.schema.metadata else rows
    for position, values in enumerate(meta):
        body = body.add_column(position, META_COLUMNS[position], values)
    return body


def add_null_meta_columns(rows: pa.Table) -> pa.Table:
    """Return the rows with five meta columns in front that are all null, for a table with hoodie.populate.meta.fields=false."""
    nulls = [pa.nulls(rows.num_rows, pa.string())] * len(META_COLUMNS)
    return pa.table([*nulls, *rows.columns], names=[*META_COLUMNS, *rows.column_names])


def add_file_columns(body: pa.Table, partition_path: str, file_name: str) -> pa.Table:
    """Return a copy of the rows with partition path and file name added, so that they have all five meta columns.

    Args:
        body: rows with commit time, sequence number and record key, then the data columns.
    """
    for position, text in ((3, partition_path), (4, file_name)):
        body = body.add_column(position, META_COLUMNS[position], repeat_text(text, body.num_rows))
    return body


def repeat_text(text: str, count: int) -> pa.Array:
    """Return a column that repeats one string. It is dictionary-encoded, so it takes little memory."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def sequence_numbers(instant: str, task: int, numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Return the sequence number of each row: `<instant>_<task>_<number>`. `numbers` holds the row numbers within the task."""
    texts = pc.cast(pa.array(numbers), pa.string())
    return pc.binary_join_element_wise(pa.scalar(f"{instant}_{task}_"), texts, pa.scalar(""))
