"""Mergers of change streams: rows as AWS DMS and Debezium write them, and the `_hoodie_operation` column.

AWSDmsAvroPayload, MySqlDebeziumAvroPayload and PostgresDebeziumAvroPayload. Among the rows of a batch the configured ordering
field decides, as with Hudi; it should be the stream's own position.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.choice import Choice, Choices
from penstock.merge.deletes import DELETE_FLAG, check_operations, delete_flags, has_text
from penstock.merge.kernels.blend import blend, cast_column
from penstock.merge.kernels.gather import Flags
from penstock.merge.kernels.runs import Folded, Runs
from penstock.merge.merger import Merger
from penstock.schema import OPERATION_COLUMN

DMS_OPERATION = "Op"
DEBEZIUM_OPERATION = "_change_operation_type"
MYSQL_POSITION = "_event_seq"
POSTGRES_POSITION = "_event_lsn"
#: What Debezium puts in place of a value that the database did not send, because it was not changed.
UNAVAILABLE = "__debezium_unavailable_value"

_OPERATIONS = ("I", "-U", "U", "D")


@dataclass(frozen=True)
class AwsDms(Merger):
    """The incoming row always wins; `Op` says which are deletes: AWSDmsAvroPayload."""

    reads = (DMS_OPERATION,)

    def is_delete(self, new: pa.Table) -> Flags:
        return _marked(new, DMS_OPERATION, "D", "AWSDmsAvroPayload") | delete_flags(new)


@dataclass(frozen=True)
class DebeziumMySql(Merger):
    """The row further on in the binary log wins, the stored one at the same place: MySqlDebeziumAvroPayload."""

    needs = (MYSQL_POSITION,)
    reads = (DEBEZIUM_OPERATION,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        file, at = _binlog_places(_positions(new, MYSQL_POSITION, "MySqlDebeziumAvroPayload"))
        stored = cast_column(old, new.schema.field(MYSQL_POSITION))
        known = np.asarray(pc.is_valid(stored))
        old_file, old_at = _binlog_places(stored)
        kept = known & ((file < old_file) | ((file == old_file) & (at <= old_at)))
        taken = np.where(self.is_delete(new), Choice.DELETE, Choice.TAKE_NEW)
        return np.where(kept, Choice.KEEP_OLD, taken).astype(np.int8)

    def is_delete(self, new: pa.Table) -> Flags:
        return _marked(new, DEBEZIUM_OPERATION, "d", "MySqlDebeziumAvroPayload") | delete_flags(new)

    def is_delete_entry(self, rows: pa.Table) -> Flags:
        """Rows that cannot be told apart by their place are refused before they are in a log."""
        _binlog_places(_positions(rows, MYSQL_POSITION, "MySqlDebeziumAvroPayload"))
        return self.is_delete(rows)


@dataclass(frozen=True)
class DebeziumPostgres(Merger):
    """The row with the greater log position wins, the incoming one at the same; values not sent are the stored ones.

    PostgresDebeziumAvroPayload.
    """

    needs = (POSTGRES_POSITION,)
    reads = (DEBEZIUM_OPERATION,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        at = _positions(new, POSTGRES_POSITION, "PostgresDebeziumAvroPayload")
        stored = cast_column(old, new.schema.field(POSTGRES_POSITION))
        kept = np.asarray(pc.fill_null(pc.less(at, stored), False), dtype=np.bool_)
        lacking = np.zeros(new.num_rows, np.bool_)
        for name in new.column_names:
            lacking |= _unavailable(new[name])
        taken = np.where(self.is_delete(new), Choice.DELETE, np.where(lacking, Choice.BUILD, Choice.TAKE_NEW))
        return np.where(kept, Choice.KEEP_OLD, taken).astype(np.int8)

    def is_delete(self, new: pa.Table) -> Flags:
        return _marked(new, DEBEZIUM_OPERATION, "d", "PostgresDebeziumAvroPayload") | delete_flags(new)

    def is_delete_entry(self, rows: pa.Table) -> Flags:
        """Rows that cannot be told apart by their place are refused before they are in a log."""
        _positions(rows, POSTGRES_POSITION, "PostgresDebeziumAvroPayload")
        return self.is_delete(rows)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        columns = []
        for field in new.schema:
            lacking = _unavailable(new[field.name])
            columns.append(blend(~lacking, new[field.name], cast_column(old, field)) if lacking.any() else new[field.name])
        return pa.table(columns, schema=new.schema)


@dataclass(frozen=True)
class WithOperation(Merger):
    """Any merger, where `_hoodie_operation` says which rows are deletes too. A row that is kept is kept from these as well.

    Mergers of ours are told of deletes before they decide: what comes before and after one matters to them. Hudi's do not know.
    """

    merger: Merger

    @property
    def needs(self) -> tuple[str, ...]:
        return self.merger.needs

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.merger.reads, OPERATION_COLUMN)

    @property
    def ignores_ordering(self) -> bool:
        return self.merger.ignores_ordering

    @property
    def logs_deletes_as_rows(self) -> bool:
        return True

    def is_delete_entry(self, rows: pa.Table) -> Flags:
        """In a log the column says it: only what another rule deletes becomes a delete entry."""
        operation_deletes(rows)
        return self.merger.is_delete_entry(rows)

    @property
    def keeps_partition(self) -> bool:
        return self.merger.keeps_partition

    @property
    def builds(self) -> bool:
        return self.merger.builds

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        deletes = operation_deletes(new)
        if self.merger.logs_deletes_as_rows:
            return self.merger.resolve(old, _with_flags(new, deletes))
        choices = self.merger.resolve(old, new)
        choices[deletes & (choices != Choice.KEEP_OLD)] = Choice.DELETE
        return choices

    def is_delete(self, new: pa.Table) -> Flags:
        return self.merger.is_delete(new) | operation_deletes(new)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        return self.merger.build(old, new)

    def to_stored(self, new: pa.Table) -> pa.Table:
        return self.merger.to_stored(new)

    def fold(self, runs: Runs) -> Folded:
        if not self.merger.logs_deletes_as_rows:
            return self.merger.fold(runs)
        folded = self.merger.fold(replace(runs, rows=_with_flags(runs.rows, operation_deletes(runs.rows))))
        return replace(folded, rows=folded.rows.select(runs.rows.column_names))


def _with_flags(rows: pa.Table, deletes: Flags) -> pa.Table:
    """The rows, with these marked as deletes by their flag."""
    if not deletes.any():
        return rows
    if DELETE_FLAG not in rows.column_names:
        return rows.append_column(DELETE_FLAG, pa.array(deletes))
    at = rows.schema.get_field_index(DELETE_FLAG)
    return rows.set_column(
        at, rows.schema.field(at), blend(~deletes, rows[DELETE_FLAG], pa.chunked_array([pa.repeat(True, len(deletes))]))
    )


def operation_deletes(rows: pa.Table) -> Flags:
    """Rows whose `_hoodie_operation` is `D`: writers delete their keys, readers of a log leave them out.

    Raises:
        SchemaError: an operation that is none of `I`, `-U`, `U`, `D`.
    """
    if OPERATION_COLUMN not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    check_operations(rows[OPERATION_COLUMN], OPERATION_COLUMN, _OPERATIONS)
    return has_text(rows[OPERATION_COLUMN], "D")


def _marked(rows: pa.Table, column: str, letter: str, payload: str) -> Flags:
    """Rows whose operation is this one, in whatever case."""
    if column not in rows.column_names:
        raise SchemaError(
            f"{payload} needs the column {column!r}, which says what was done to each row; the rows have "
            f"{', '.join(rows.column_names)}. Add it, or choose another hoodie.datasource.write.payload.class"
        )
    return has_text(rows[column], letter, any_case=True)


def _positions(rows: pa.Table, column: str, payload: str) -> pa.ChunkedArray:
    """The incoming rows' places in the database's log."""
    if column not in rows.column_names or rows[column].null_count:
        raise SchemaError(
            f"{column} cannot be null in insert record: {payload} compares it to tell which row is newer; fill the column, or "
            "choose another hoodie.datasource.write.payload.class"
        )
    return rows[column]


def _binlog_places(positions: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """File numbers and offsets of texts such as `000003.1540`; 0 and 0 where there is none."""
    parts = pc.extract_regex(positions.cast(pa.string()), r"^(?P<file>[0-9]{1,18})\.(?P<at>[0-9]{1,18})$")
    bad = pc.and_(pc.is_valid(positions), pc.is_null(parts))
    if pc.any(bad, min_count=0).as_py():
        odd = positions.filter(bad)[0].as_py()
        raise SchemaError(
            f"column {MYSQL_POSITION!r} holds {odd!r}; it has to be <number of the binary log file>.<offset>, such as 000003.1540"
        )
    numbers = (pc.cast(pc.struct_field(parts, name), pa.int64()) for name in ("file", "at"))
    file, at = (np.asarray(pc.fill_null(n, 0), dtype=np.int64) for n in numbers)
    return file, at


def _unavailable(values: pa.ChunkedArray) -> Flags:
    """Where a text or bytes stand for a value that was not sent."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        placeholder = pa.scalar(UNAVAILABLE, kind)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        placeholder = pa.scalar(UNAVAILABLE.encode(), kind)
    else:
        return np.zeros(len(values), np.bool_)
    return np.asarray(pc.fill_null(pc.equal(values, placeholder), False), dtype=np.bool_)
