"""Mergers of change streams, as AWS DMS and Debezium write them.

The Hudi payloads are AWSDmsAvroPayload, MySqlDebeziumAvroPayload and PostgresDebeziumAvroPayload. As in Hudi, several rows of a
key in one batch are compared by the table's ordering column, which should be the stream's own position column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.deletes import delete_flags, has_text
from penstock.merge.kernels.blend import blend, cast_column
from penstock.merge.kernels.gather import Flags
from penstock.merge.merger import Merger
from penstock.merge.row_choice import Choice, Choices

DMS_OPERATION = "Op"
DEBEZIUM_OPERATION = "_change_operation_type"
MYSQL_POSITION = "_event_seq"
POSTGRES_POSITION = "_event_lsn"
#: What Debezium writes in place of a value that the database did not send, because it did not change.
UNAVAILABLE = "__debezium_unavailable_value"


@dataclass(frozen=True)
class AwsDms(Merger):
    """AWSDmsAvroPayload: the incoming row always wins. A row with `D` in the column `Op` deletes its key."""

    reads = (DMS_OPERATION,)

    def is_delete(self, new: pa.Table) -> Flags:
        return _has_operation(new, DMS_OPERATION, "D", "AWSDmsAvroPayload") | delete_flags(new)


@dataclass(frozen=True)
class DebeziumMySql(Merger):
    """MySqlDebeziumAvroPayload: the row with the later binary log position wins; at the same position the stored row wins."""

    needs = (MYSQL_POSITION,)
    reads = (DEBEZIUM_OPERATION,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        file, offset = _parse_binlog_positions(_check_positions(new, MYSQL_POSITION, "MySqlDebeziumAvroPayload"))
        stored = cast_column(old, new.schema.field(MYSQL_POSITION))
        stored_file, stored_offset = _parse_binlog_positions(stored)
        is_known = np.asarray(pc.is_valid(stored))
        is_late = is_known & ((file < stored_file) | ((file == stored_file) & (offset <= stored_offset)))
        return np.where(is_late, Choice.KEEP_OLD, super().resolve(old, new))

    def is_delete(self, new: pa.Table) -> Flags:
        return _has_operation(new, DEBEZIUM_OPERATION, "d", "MySqlDebeziumAvroPayload") | delete_flags(new)

    def is_delete_entry(self, new: pa.Table) -> Flags:
        """Return a mask over the incoming rows, true for deletes: they go to a log as entries of a delete block, not as rows.

        Raises:
            SchemaError: a row has no binary log position, so a reader of the log file could not tell which row is newer.
        """
        _parse_binlog_positions(_check_positions(new, MYSQL_POSITION, "MySqlDebeziumAvroPayload"))
        return self.is_delete(new)


@dataclass(frozen=True)
class DebeziumPostgres(Merger):
    """PostgresDebeziumAvroPayload: the row with the greater position in the database's log wins; if equal, the incoming row wins.

    Values that Debezium did not send are taken from the stored row.
    """

    needs = (POSTGRES_POSITION,)
    reads = (DEBEZIUM_OPERATION,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        position = _check_positions(new, POSTGRES_POSITION, "PostgresDebeziumAvroPayload")
        stored = cast_column(old, new.schema.field(POSTGRES_POSITION))
        is_late = np.asarray(pc.fill_null(pc.less(position, stored), False), dtype=np.bool_)
        lacks_values = np.zeros(new.num_rows, np.bool_)
        for name in new.column_names:
            lacks_values |= _is_unavailable(new[name])
        taken = np.where(lacks_values, Choice.BUILD, Choice.TAKE_NEW)
        taken = np.where(self.is_delete(new), Choice.DELETE, taken)
        return np.where(is_late, Choice.KEEP_OLD, taken)

    def is_delete(self, new: pa.Table) -> Flags:
        return _has_operation(new, DEBEZIUM_OPERATION, "d", "PostgresDebeziumAvroPayload") | delete_flags(new)

    def is_delete_entry(self, new: pa.Table) -> Flags:
        """Return a mask over the incoming rows, true for deletes: they go to a log as entries of a delete block, not as rows.

        Raises:
            SchemaError: a row has no position in the database's log, so a reader could not tell which row is newer.
        """
        _check_positions(new, POSTGRES_POSITION, "PostgresDebeziumAvroPayload")
        return self.is_delete(new)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        columns = []
        for field in new.schema:
            incoming = new[field.name]
            is_unavailable = _is_unavailable(incoming)
            if is_unavailable.any():
                incoming = blend(~is_unavailable, incoming, cast_column(old, field))
            columns.append(incoming)
        return pa.table(columns, schema=new.schema)


def _has_operation(rows: pa.Table, column: str, letter: str, payload: str) -> Flags:
    """Return a mask over the rows, true where the column named `column` holds `letter` in upper or lower case.

    Args:
        column: the name of the operation column of the change stream, such as `Op`.
        payload: the name of the Hudi payload, for the error message.

    Raises:
        SchemaError: the rows have no operation column.
    """
    if column not in rows.column_names:
        raise SchemaError(
            f"{payload} needs the column {column!r}, which says what was done to each row; the rows have "
            f"{', '.join(rows.column_names)}. Add it, or choose another hoodie.datasource.write.payload.class"
        )
    return has_text(rows[column], letter, any_case=True)


def _check_positions(rows: pa.Table, column: str, payload: str) -> pa.ChunkedArray:
    """Return the column named `column`, which holds each incoming row's position in the database's log.

    Args:
        payload: the name of the Hudi payload, for the error message.

    Raises:
        SchemaError: the column is missing, or a row has no position.
    """
    if column not in rows.column_names or rows[column].null_count:
        raise SchemaError(
            f"{column} cannot be null in insert record: {payload} compares it to tell which row is newer; fill the column, or "
            "choose another hoodie.datasource.write.payload.class"
        )
    return rows[column]


def _parse_binlog_positions(positions: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split MySQL binary log positions such as `000003.1540` into file numbers (3) and offsets (1540); both are 0 for a null.

    Raises:
        SchemaError: a position has another form.
    """
    parts = pc.extract_regex(positions.cast(pa.string()), r"^(?P<file>[0-9]{1,18})\.(?P<offset>[0-9]{1,18})$")
    is_wrong = pc.and_(pc.is_valid(positions), pc.is_null(parts))
    if pc.any(is_wrong, min_count=0).as_py():
        wrong = positions.filter(is_wrong)[0].as_py()
        raise SchemaError(
            f"column {MYSQL_POSITION!r} holds {wrong!r}; it has to be <number of the binary log file>.<offset>, such as "
            "000003.1540"
        )
    return _parse_numbers(parts, "file"), _parse_numbers(parts, "offset")


def _parse_numbers(parts: pa.ChunkedArray, name: str) -> npt.NDArray[np.int64]:
    """Return the file numbers or the offsets of binary log positions as integers; 0 for a null.

    Args:
        parts: a struct column with the fields `file` and `offset`, which hold digits as text.
        name: the field to return, `file` or `offset`.
    """
    numbers = pc.cast(pc.struct_field(parts, name), pa.int64())
    return np.asarray(pc.fill_null(numbers, 0), dtype=np.int64)


def _is_unavailable(values: pa.ChunkedArray) -> Flags:
    """Return a mask over the values, true for Debezium's placeholder for a value that the database did not send."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        placeholder = pa.scalar(UNAVAILABLE, kind)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        placeholder = pa.scalar(UNAVAILABLE.encode(), kind)
    else:
        return np.zeros(len(values), np.bool_)
    return np.asarray(pc.fill_null(pc.equal(values, placeholder), False), dtype=np.bool_)
