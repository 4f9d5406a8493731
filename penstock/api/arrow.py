"""The methods of `Table` that read rows without Spark: Arrow, pandas, polars and DuckDB.

The methods plan a query in the same way as a query on Spark, and read its files on threads of this process
(`read/arrow_scan.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock import options as o
from penstock.api.handle import TableHandle
from penstock.api.read import Moment, check_since, make_query
from penstock.door.plan_again import plan_until_it_holds
from penstock.errors import OptionError
from penstock.read.arrow_scan import ArrowScan, scan_arrow
from penstock.read.log_headers import read_log_headers
from penstock.read.plan import QueryPlan

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

#: A condition on rows: an Arrow expression, or a list of (column, operator, value) as `pyarrow.parquet.read_table` takes it.
Where: TypeAlias = "pc.Expression | Sequence[Any]"


@dataclass(frozen=True)
class Scan:
    """Rows of a table that are read without Spark. `Table.scan` and `Table.changes` return one.

    Nothing is read until one of its methods is called. Libraries that know Arrow's stream interface take a `Scan` as it is:
    `polars.DataFrame(scan)`, `pyarrow.table(scan)`.

    Example:
        >>> scan = table.scan(columns=["id", "fare"], where=[("fare", ">", 2)])
        >>> scan.to_arrow().sort_by("id").to_pylist()
        [{'id': 'b', 'fare': 2.5}, {'id': 'c', 'fare': 3.5}]
    """

    _scan: ArrowScan

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, as an Arrow schema.

        Example:
            >>> table.scan(columns=["id", "ts"]).schema.types
            [DataType(string), DataType(int64)]
        """
        return self._scan.schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader of record batches. Memory does not grow with the table.

        Example:
            >>> sum(batch.num_rows for batch in table.scan().to_reader())
            3
        """
        return pa.RecordBatchReader.from_batches(self._scan.schema, self._scan.batches())

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table.

        Example:
            >>> table.scan().to_arrow().num_rows
            3
        """
        return self.to_reader().read_all()

    def to_pandas(self) -> pandas.DataFrame:
        """Return all rows as a DataFrame of pandas.

        Example:
            >>> sorted(table.scan(columns=["id"]).to_pandas()["id"])
            ['a', 'b', 'c']
        """
        _need("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return all rows as a DataFrame of polars.

        Example:
            >>> table.scan().to_polars().height
            3
        """
        _need("polars")
        import polars

        return polars.DataFrame(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return all rows as a relation of DuckDB.

        Args:
            connection: the connection of the relation; None: DuckDB's default one.

        Example:
            >>> table.scan().to_duckdb().aggregate("sum(fare)").fetchall()
            [(7.5,)]
        """
        _need("duckdb")
        import duckdb

        return (connection or duckdb.default_connection()).from_arrow(self.to_arrow())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches."""
        return self._scan.batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a capsule of Arrow's C stream interface, which other libraries import.

        Args:
            requested_schema: a capsule with the schema that the library asks for; None: the scan's own schema.
        """
        return self.to_reader().__arrow_c_stream__(requested_schema)


class ArrowMethods(TableHandle):
    """The methods of `Table` that read rows without Spark."""

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        as_of: Moment | None = None,
        partitions: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        threads: int | None = None,
    ) -> Scan:
        """Return the rows of the table, to be read without Spark: meta columns first, then the table's own.

        This call plans the query. So the `Scan` returns the rows of this moment, even if it is read after later writes.

        Args:
            columns: the columns to return, in this order; None: all.
            where: the condition that rows must fulfil: an Arrow expression such as `pyarrow.compute.field("fare") > 2`, or a list
                such as `[("fare", ">", 2)]`; None: all rows. Partitions and row groups that have no such row are not read.
            as_of: read the table as it was at this moment: an instant, a date string, a datetime, or a `Commit`; None: now.
            partitions: the partition paths to read; None: all. `*` stands for any characters.
            options: read options, by their keys, such as `hoodie.datasource.query.type`.
            threads: how many file slices are read at once; None: as many as the machine has cores.

        Raises:
            SchemaError: the table does not have one of the columns.
            OptionError: an argument is not valid.

        Example:
            >>> table.scan(columns=["id"], partitions=["paris"]).to_arrow().to_pylist()
            [{'id': 'c'}]
        """
        moments = {} if as_of is None else {o.AS_OF_INSTANT.key: as_of}
        return self._scan(moments, options, columns, where, partitions, threads)

    def changes(
        self,
        since: Moment,
        until: Moment | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        partitions: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        threads: int | None = None,
    ) -> Scan:
        """Return the rows written after `since`, up to and including `until`, to be read without Spark.

        A row that changed twice is returned once, with its last values. Deleted rows are not returned. Pass the greatest
        `_hoodie_commit_time` as `since` of the next call.

        Args:
            since: an instant, a date string, a datetime, or a `Commit`; its own changes are excluded. `"000"` is before all.
            until: the last moment whose changes are included; None: the last write.
            columns: the columns to return, in this order; None: all.
            where: the condition that rows must fulfil, as for `scan`; None: all rows.
            partitions: the partition paths to read; None: all. `*` stands for any characters.
            options: read options, by their keys.
            threads: how many file slices are read at once; None: as many as the machine has cores.

        Raises:
            ChangesLost: files of that time were cleaned.
            SchemaError: the table does not have one of the columns.
            OptionError: an argument is not valid, or the table does not keep commit times.

        Example:
            >>> first = table.history()[0].instant
            >>> _ = table.upsert(trips.where("id = 'b'").withColumn("fare", trips.fare + 1))
            >>> table.changes(since=first, columns=["id", "fare"]).to_arrow().to_pylist()
            [{'id': 'b', 'fare': 3.5}]
        """
        check_since(since)
        moments = {o.BEGIN_INSTANT.key: since} | ({} if until is None else {o.END_INSTANT.key: until})
        return self._scan(moments, {**(options or {}), o.QUERY_TYPE.key: "incremental"}, columns, where, partitions, threads)

    def to_arrow(self, columns: Sequence[str] | None = None, where: Where | None = None, **more: Any) -> pa.Table:
        """Return the rows of the table as an Arrow table, without Spark.

        Args:
            columns: the columns to return, in this order; None: all.
            where: the condition that rows must fulfil, as for `scan`; None: all rows.
            more: other arguments of `scan`: `as_of`, `partitions`, `options`, `threads`.

        Example:
            >>> table.to_arrow(columns=["id"], where=[("fare", ">", 3)]).to_pylist()
            [{'id': 'c'}]
        """
        return self.scan(columns, where, **more).to_arrow()

    def to_pandas(self, columns: Sequence[str] | None = None, where: Where | None = None, **more: Any) -> pandas.DataFrame:
        """Return the rows of the table as a DataFrame of pandas, without Spark.

        Args:
            columns: the columns to return, in this order; None: all.
            where: the condition that rows must fulfil, as for `scan`; None: all rows.
            more: other arguments of `scan`: `as_of`, `partitions`, `options`, `threads`.

        Example:
            >>> len(table.to_pandas())
            3
        """
        return self.scan(columns, where, **more).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, where: Where | None = None, **more: Any) -> polars.DataFrame:
        """Return the rows of the table as a DataFrame of polars, without Spark.

        Args:
            columns: the columns to return, in this order; None: all.
            where: the condition that rows must fulfil, as for `scan`; None: all rows.
            more: other arguments of `scan`: `as_of`, `partitions`, `options`, `threads`.

        Example:
            >>> table.to_polars(columns=["id", "fare"]).height
            3
        """
        return self.scan(columns, where, **more).to_polars()

    def to_duckdb(self, columns: Sequence[str] | None = None, where: Where | None = None, **more: Any) -> duckdb.DuckDBPyRelation:
        """Return the rows of the table as a relation of DuckDB, without Spark.

        Args:
            columns: the columns to return, in this order; None: all.
            where: the condition that rows must fulfil, as for `scan`; None: all rows.
            more: other arguments of `scan`: `as_of`, `partitions`, `options`, `threads`.

        Example:
            >>> table.to_duckdb().count("*").fetchall()
            [(3,)]
        """
        return self.scan(columns, where, **more).to_duckdb()

    def _scan(
        self,
        moments: Mapping[str, Moment],
        options: Mapping[str, object] | None,
        columns: Sequence[str] | None,
        where: Where | None,
        partitions: Sequence[str] | None,
        threads: int | None,
    ) -> Scan:
        """Plan a query of the rows of the table, and return its result as a `Scan`, which reads no row yet.

        Args:
            moments: option key → time of the query. The options are those for as of, begin and end.
            where: the condition that rows must fulfil; None: all rows.
            threads: how many file slices are read at once; None: as many as the machine has cores.
        """
        condition = _as_expression(where)
        state = self._state()
        query = make_query(self.path, state, moments, options, columns, partitions)

        def make_scan(plan: QueryPlan) -> ArrowScan:
            """Return the rows that a query plan reads, as an Arrow scan. Nothing is read yet."""
            return scan_arrow(read_log_headers(plan, for_spark=False), columns, condition, threads)

        return Scan(plan_until_it_holds(query, replace(state, options=query.options), make_scan))


def _as_expression(where: Where | None) -> pc.Expression | None:
    """Return a condition as an Arrow expression; None if there is none.

    Raises:
        OptionError: it is neither an expression nor a list of (column, operator, value).
    """
    if where is None or isinstance(where, pc.Expression):
        return where
    if isinstance(where, str) or not where:
        raise OptionError(f'where is {where!r}; pass an Arrow expression, or a list such as [("fare", ">", 2)]')
    try:
        return pq.filters_to_expression(where)
    except (ValueError, TypeError) as e:
        raise OptionError(f'where={where!r} is not a condition: {e}; pass a list such as [("fare", ">", 2)]') from e


def _need(library: str) -> None:
    """Raise OptionError if a library is not installed."""
    if find_spec(library) is None:
        raise OptionError(f"{library} is not installed: run pip install {library}")
