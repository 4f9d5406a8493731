"""Meta columns: putting them on rows, and carrying them along when a file is rewritten. Kernels.

Commit time, sequence number and key belong to a row; partition path and file name to the file it is in. The last two are
therefore not read from an old file, but put in again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.schema import META_COLUMNS

KEY_COLUMN = "_hoodie_record_key"
_OF_THE_FILE = META_COLUMNS[3:]
#: How the columns end that stand for a meta column on the way to Spark: its number, and whether it equals the key column.
NUMBER, SAME = "_number", "_is_key"
#: The names of those columns. No table has a column of these names.
RESERVED_NAMES = (*(META_COLUMNS[at] + NUMBER for at in (0, 3, 4)), META_COLUMNS[2] + SAME)


def record_keys(rows: pa.Table, column: str) -> pa.ChunkedArray:
    """The record keys of rows: the meta column, or the texts of the column that keys are made of where it is not filled."""
    keys = rows[column]
    return keys if column == KEY_COLUMN or pa.types.is_string(keys.type) else keys.cast(pa.string())


def schema_with_meta(schema: pa.Schema) -> pa.Schema:
    """The data columns with the five meta columns in front."""
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *schema])


def body_schema(schema: pa.Schema) -> pa.Schema:
    """What differs from row to row: commit time, sequence number, key and the data columns."""
    return pa.schema([f for f in schema_with_meta(schema) if f.name not in _OF_THE_FILE])


def stamp_rows(rows: pa.Table, keys: pa.ChunkedArray, *, instant: str, task: int, numbers: npt.NDArray[np.int64]) -> pa.Table:
    """New rows with the meta columns that are theirs; `numbers` count them for their sequence numbers."""
    meta = [pa.repeat(instant, rows.num_rows), sequence_numbers(instant, task, numbers), keys]
    return pa.table([*meta, *rows.columns], schema=body_schema(rows.schema))


def add_null_meta_columns(rows: pa.Table) -> pa.Table:
    """Rows of a table that does not populate its meta columns."""
    nulls = [pa.nulls(rows.num_rows, pa.string())] * len(META_COLUMNS)
    return pa.table([*nulls, *rows.columns], names=[*META_COLUMNS, *rows.column_names])


def add_file_columns(body: pa.Table, path: str, file_name: str) -> pa.Table:
    """Rows with the two columns that say where they are."""
    for at, (name, text) in enumerate(zip(_OF_THE_FILE, (path, file_name), strict=True), start=3):
        body = body.add_column(at, name, repeat_text(text, body.num_rows))
    return body


def repeat_text(text: str, count: int) -> pa.Array:
    """One text for every row, as a dictionary of one: cheap to hold and to encode."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def sequence_numbers(instant: str, task: int, rows: npt.NDArray[np.int64]) -> pa.Array:
    """`<instant>_<task>_<row>` for each row number."""
    texts = pc.cast(pa.array(rows), pa.string())
    return pc.binary_join_element_wise(pa.scalar(f"{instant}_{task}_"), texts, pa.scalar(""))
