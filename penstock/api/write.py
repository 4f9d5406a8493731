"""The methods of `Table` that write rows, and those that explain a write. Each write goes through `door/write.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa

from penstock import clock
from penstock import options as o
from penstock.api.handle import TableHandle, call_options, table_columns
from penstock.api.report import Column, Commit, FollowUps, Report, number
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.read.query import parse_query
from penstock.table.state import TableState
from penstock.write.explain.key_merge import KeyMerge

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from penstock.api.incoming_rows import Rows
    from penstock.door.write import RowsOfTable
    from penstock.write.explain.write_plan import WritePlan

SortMode: TypeAlias = Literal[
    "NONE", "GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT"
]


class MergePlan(Report[KeyMerge]):
    """What an upsert would do with some keys, one entry per key. `Table.explain_merge` returns it.

    Example:
        >>> plan = table.explain_merge(trips.where("id = 'a'"))
        >>> [(merge.key, merge.outcome.value, merge.result["fare"]) for merge in plan]
        [('a', 'update', 1.5)]
    """

    title = "Merge plan"
    columns = (
        Column("key", lambda m: str(m.key)),
        Column("partition", lambda m: m.partition or "(none)"),
        Column("rows", number("rows"), right=True),
        Column("stored", lambda m: m.stored_ordering or "", right=True),
        Column("incoming", lambda m: m.incoming_ordering or "", right=True),
        Column("outcome", lambda m: str(m.outcome.value)),
        Column("why", lambda m: str(m.why)),
        Column("payload", lambda m: str(m.payload)),
    )
    schema = pa.schema(
        [
            ("key", pa.string()),
            ("partition", pa.string()),
            ("rows", pa.int64()),
            ("stored_ordering", pa.string()),
            ("incoming_ordering", pa.string()),
            ("outcome", pa.string()),
            ("why", pa.string()),
            ("payload", pa.string()),
        ]
    )


class WriteMethods(TableHandle):
    """The methods of `Table` that write rows. Each call is one write operation and makes one commit.

    Rows are a DataFrame of Spark, pandas or polars, an Arrow table, a list of dicts, or the path of Parquet files.
    """

    def insert(self, rows: Rows, options: Mapping[str, object] | None = None) -> Commit:
        """Add rows without locating their keys. Small files are filled before new file groups are opened.

        Args:
            rows: the rows to add.
            options: write options for this call, by their keys.

        Returns:
            The commit, with its counts.

        Raises:
            SchemaError: the rows do not fit the table's schema.
            RecordKeyError: a row has no record key.
            OptionError: an option is invalid, or contradicts the table.

        Example:
            >>> table.insert(trips).rows_inserted
            3
        """
        return self._write(Operation.INSERT, rows, options)

    def bulk_insert(self, rows: Rows, sort_mode: SortMode | None = None, options: Mapping[str, object] | None = None) -> Commit:
        """Write rows to new file groups, without locating their keys and without filling small files.

        Args:
            rows: the rows to add.
            sort_mode: how Spark arranges the rows first; None: as the options say. `PARTITION_SORT` and `GLOBAL_SORT` write fewer
                and better sorted files.
            options: write options for this call, by their keys.

        Returns:
            The commit, with its counts.

        Raises:
            SchemaError: the rows do not fit the table's schema.
            RecordKeyError: a row has no record key.
            OptionError: an option is invalid, or contradicts the table.

        Example:
            >>> table.bulk_insert(trips, sort_mode="GLOBAL_SORT").operation
            'bulk_insert'
        """
        return self._write(Operation.BULK_INSERT, rows, options, {o.BULK_INSERT_SORT_MODE.key: sort_mode} if sort_mode else {})

    def upsert(self, rows: Rows, options: Mapping[str, object] | None = None) -> Commit:
        """Merge incoming rows with the stored rows of their keys, and insert the rows with new keys.

        Args:
            rows: the incoming rows. Of several rows of one key the one with the greatest ordering value counts; the last one if
                the table has no ordering column.
            options: write options for this call, by their keys.

        Returns:
            The commit, with its counts.

        Raises:
            SchemaError: the rows do not fit the table's schema, or an ordering value is null.
            RecordKeyError: a row has no record key.
            OptionError: an option is invalid, or contradicts the table.
            Unsupported: the table generates its record keys, or stores none.
            WriteConflict: a concurrent write changed the same file groups (try again), or a clustering of them is pending.

        Example:
            >>> table.upsert(trips.selectExpr("id", "city", "ts + 1 as ts", "fare * 2 as fare")).rows_updated
            3
            >>> table.upsert([{"id": "d", "city": "paris", "ts": 4, "fare": 4.5}]).rows_inserted
            1
        """
        return self._write(Operation.UPSERT, rows, options, self._unordered(options))

    def delete(self, keys: Rows | SparkColumn, options: Mapping[str, object] | None = None) -> Commit:
        """Delete the stored rows with these keys, or those for which a condition is true. Unknown keys are ignored.

        Args:
            keys: rows with the columns of the record key and, unless the index is global, of the partition path. Other columns
                are ignored. A string or a Column is a condition over the table's columns, such as `"fare > 30"`; pass the path of
                Parquet files with keys as a `pathlib.Path`.
            options: write options for this call, by their keys.

        Returns:
            The commit, with its counts.

        Raises:
            SchemaError: a column of the record key or the partition path is missing.
            RecordKeyError: a row has no record key.
            OptionError: an option is invalid, or contradicts the table; or the condition cannot be evaluated.
            Unsupported: the table generates its record keys, or stores none.
            WriteConflict: a concurrent write changed the same file groups (try again), or a clustering of them is pending.

        Example:
            >>> table.delete(trips.where("id = 'a'").select("id", "city")).rows_deleted
            1
            >>> table.delete("fare > 3").rows_deleted
            1
            >>> table.read().count()
            1
        """
        from penstock.api.incoming_rows import is_condition

        if is_condition(keys):
            return self._write_frame(Operation.DELETE, self._rows_where(keys), options)
        return self._write(Operation.DELETE, keys, options)

    def insert_overwrite(self, rows: Rows, *, whole_table: bool = False, options: Mapping[str, object] | None = None) -> Commit:
        """Replace all rows of the incoming rows' partitions with the incoming rows.

        Readers see the old rows until the commit completes.

        Args:
            rows: the new rows.
            whole_table: whether to remove the rows of all other partitions too.
            options: write options for this call, by their keys. `hoodie.static.overwrite.partition.paths` names the partitions to
                replace, instead of those of the rows.

        Returns:
            The commit, with its counts.

        Raises:
            SchemaError: the rows do not fit the table's schema.
            RecordKeyError: a row has no record key.
            OptionError: an option is invalid, or contradicts the table.
            WriteConflict: a concurrent write changed the replaced file groups, or a clustering of them is pending.

        Example:
            >>> table.insert_overwrite(trips.where("id = 'a'")).rows_inserted
            1
            >>> [row.id for row in table.read().orderBy("id").collect()]
            ['a', 'c']
        """
        return self._write(Operation.INSERT_OVERWRITE_TABLE if whole_table else Operation.INSERT_OVERWRITE, rows, options)

    def delete_partitions(self, *paths: str, options: Mapping[str, object] | None = None) -> Commit:
        """Remove whole partitions from the table, without reading their rows. The files stay until they are cleaned.

        Args:
            paths: partition paths, for example `berlin` or `city=berlin`; `*` stands for any characters.
            options: write options for this call, by their keys.

        Returns:
            The commit.

        Raises:
            OptionError: an option is invalid, or contradicts the table.
            WriteConflict: a compaction or clustering is pending for one of the partitions.

        Example:
            >>> table.delete_partitions("ber*").operation
            'delete_partition'
            >>> table.read().count()
            1
        """
        rows = self._reader().range(0)
        return self._write_frame(Operation.DELETE_PARTITION, rows, options, {o.PARTITIONS_TO_DELETE.key: ",".join(paths)})

    def plan_upsert(self, rows: Rows, options: Mapping[str, object] | None = None) -> WritePlan:
        """Return which file groups `upsert` would change with these rows, and how many bytes it would rewrite.

        Nothing is written.

        Args:
            rows: the rows of the upsert.
            options: write options for this call, by their keys.

        Raises:
            SchemaError: the rows do not fit the table's schema.
            OptionError: an option is invalid, or contradicts the table.

        Example:
            >>> plan = table.plan_upsert(trips.where("id = 'a'"))
            >>> [(group.partition_path, group.rows_changed, group.rows_new) for group in plan.groups]
            [('berlin', 1, 0)]
        """
        from penstock.write.explain.write_plan import explain_write

        return explain_write(self._frame(rows), self.path, {**self._given(Operation.UPSERT, options), **self._unordered(options)})

    def explain_merge(
        self, rows: Rows, keys: Sequence[str] | None = None, options: Mapping[str, object] | None = None
    ) -> MergePlan:
        """Return what `upsert` would do with some keys, and why: which row wins, and by which values. Nothing is written.

        Args:
            rows: the rows of the upsert.
            keys: the record keys to explain, as in the meta column `_hoodie_record_key`; None: up to 20 keys of the rows.
            options: write options for this call, by their keys.

        Raises:
            SchemaError: the rows do not fit the table's schema.
            OptionError: an option is invalid, or contradicts the table; or `keys` is a string instead of a list.

        Example:
            >>> plan = table.explain_merge(trips.selectExpr("id", "city", "ts - 1 as ts", "fare"), keys=["a"],
            ...     options={"hoodie.datasource.write.payload.class": "DefaultHoodieRecordPayload"})
            >>> plan[0].outcome.value, plan[0].why
            ('keep', 'ts of the stored row is greater: 1 > 0')
        """
        from penstock.write.explain.merge_plan import explain_merge

        given = {**self._given(Operation.UPSERT, options), **self._unordered(options)}
        return MergePlan(explain_merge(self._frame(rows), self.path, given, keys), self._state().config.name)

    def _write(
        self,
        operation: Operation,
        rows: Rows,
        options: Mapping[str, object] | None,
        more: Mapping[str, object] | None = None,
    ) -> Commit:
        """Run one write operation on the existing table with the rows that the caller passed, and return its commit.

        Args:
            options: the options that the caller passed; None: no options.
            more: further options, which override `options`.
        """
        return self._write_frame(operation, self._frame(rows), options, more)

    def _write_frame(
        self,
        operation: Operation,
        rows: DataFrame | RowsOfTable,
        options: Mapping[str, object] | None,
        more: Mapping[str, object] | None = None,
    ) -> Commit:
        """Run one write operation on the existing table, and return its commit.

        Args:
            rows: the rows, as a DataFrame of Spark; or a function that returns it when it is called with the opened table.
            options: the options that the caller passed; None: no options.
            more: further options, which override `options`.
        """
        from penstock.door.write import write

        given = {**self._given(operation, options), **(more or {})}
        began = clock.monotonic_s()
        spark = self._reader() if callable(rows) else rows.sparkSession
        done = write(spark, rows, self.path, given, "append")
        assert done is not None  # only save mode `ignore` returns None
        commit = Commit.of(done.instant, done.metadata, clock.monotonic_s() - began)
        return replace(
            commit,
            failed_services=done.failed_services,
            follow_ups=FollowUps.of(done, commit.instant),
            lock_held_seconds=done.lock.held_s if done.lock is not None else None,
        )

    def _frame(self, rows: Rows) -> DataFrame:
        """Return the rows that the caller passed as a Spark DataFrame."""
        from penstock.api.incoming_rows import as_frame, is_spark_frame

        if is_spark_frame(rows):
            return rows
        return as_frame(rows, self._reader(), table_columns(self._state()))

    def _rows_where(self, condition: str | SparkColumn) -> RowsOfTable:
        """Return a function that reads the rows of the table for which a condition is true.

        The write calls it after it has opened the table, so that the rows are those of the table that the write changes.
        """

        def read_rows(table: TableState) -> DataFrame:
            """Return the rows of the table, as it was when the write opened it, for which the condition is true."""
            from penstock.api.incoming_rows import rows_where
            from penstock.door.read import open_query

            query = parse_query([self.path], read_options({}))
            frame = open_query(self._reader(), query, replace(table, options=query.options))
            return rows_where(frame, condition)

        return read_rows

    def _unordered(self, options: Mapping[str, object] | None) -> dict[str, object]:
        """Return further options for an upsert without an ordering column: of several rows of a key, the last one wins.

        Return an empty dict if the table or the options name an ordering column, or if the options say whether rows of a key are
        combined (`hoodie.combine.before.upsert`).

        Args:
            options: the options that the caller passed; None: no options.
        """
        given = {**self.options, **call_options(options, {})}
        if {o.PRECOMBINE_FIELD.key, o.COMBINE_BEFORE_UPSERT.key} & given.keys() or self._state().config.precombine_field:
            return {}
        return {o.COMBINE_BEFORE_UPSERT.key: False, o.LAST_ROW_WINS.key: True}
