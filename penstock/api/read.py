"""The methods of `Table` that read rows. They open a query in `door/read.py`, as `format("hudi")` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeAlias

from penstock import options as o
from penstock.api.handle import TableHandle, check_partition
from penstock.api.report import Commit
from penstock.errors import OptionError, SchemaError
from penstock.options import read_options
from penstock.options.storage import STORAGE_OPTIONS
from penstock.read.query import Query, parse_query
from penstock.table.state import TableState
from penstock.timeline.instant import format_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A moment in the history of a table: an instant, a date string, a datetime, or a commit.
Moment: TypeAlias = "str | datetime | Commit"


class ReadMethods(TableHandle):
    """The methods of `Table` that read rows: the current rows, the rows at an earlier time, or the rows that changed."""

    def read(
        self,
        as_of: Moment | None = None,
        columns: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        equals: Mapping[str, object] | None = None,
    ) -> DataFrame:
        """Return the rows of the table as a lazy DataFrame: meta columns first, then the table's own.

        Args:
            as_of: read the table as it was at this moment: an instant, a date string, a datetime, or a `Commit`; None: now.
            columns: the columns to return, in this order; None: all.
            partitions: the partition paths to read; None: all. No other folder is listed. `*` stands for any characters.
            options: read options, by their keys.
            equals: return only rows whose columns have these values. In a table with the bucket index, values for its hash fields
                select the bucket to open; a later `where` on the DataFrame returns the same rows, and opens all buckets.

        Raises:
            SchemaError: the table does not have one of the columns.
            OptionError: `as_of` is not a time, or the table does not have one of the partitions.

        Example:
            >>> first = table.history()[0].instant
            >>> _ = table.delete(trips)
            >>> table.read().count(), table.read(as_of=first).count()
            (0, 3)
            >>> table.read(as_of=first, columns=["id"], partitions=["paris"]).collect()
            [Row(id='c')]
            >>> table.read(as_of=first, columns=["fare"], equals={"id": "b"}).collect()
            [Row(fare=2.5)]
        """
        moments = {} if as_of is None else {o.AS_OF_INSTANT.key: as_of}
        return self._rows(moments, options, columns, partitions, equals)

    def read_changes(
        self,
        since: Moment,
        until: Moment | None = None,
        columns: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        equals: Mapping[str, object] | None = None,
    ) -> DataFrame:
        """Return the rows written after `since`, up to and including `until`, as a lazy DataFrame.

        A row that changed twice is returned once, with its last values. Deleted rows are not returned, and neither are rows that
        a compaction or clustering only moved. Pass the greatest `_hoodie_commit_time` as `since` of the next call.

        Args:
            since: an instant, a date string, a datetime, or a `Commit`; its own changes are excluded. `"000"` is before all.
            until: the last moment whose changes are included; None: the last write.
            columns: the columns to return, in this order; None: all.
            partitions: the partition paths to read; None: all. `*` stands for any characters.
            options: read options, by their keys.
            equals: return only rows whose columns have these values.

        Raises:
            ChangesLost: files of that time were cleaned. Read the whole table, or set
                `hoodie.datasource.read.incr.fallback.fulltablescan.enable` to filter the current table.
            SchemaError: the table does not have one of the columns.
            OptionError: `since` or `until` is not a time, or the table does not keep commit times.

        Example:
            >>> first = table.history()[0].instant
            >>> _ = table.upsert(trips.where("id = 'b'").withColumn("fare", trips.fare + 1))
            >>> table.read_changes(since=first, columns=["id", "fare"]).collect()
            [Row(id='b', fare=3.5)]
            >>> table.read_changes(since="000", until=first).count()
            3
        """
        check_since(since)
        moments = {o.BEGIN_INSTANT.key: since} | ({} if until is None else {o.END_INSTANT.key: until})
        return self._rows(moments, {**(options or {}), o.QUERY_TYPE.key: "incremental"}, columns, partitions, equals)

    def _rows(
        self,
        moments: Mapping[str, Moment],
        options: Mapping[str, object] | None,
        columns: Sequence[str] | None,
        partitions: Sequence[str] | None,
        equals: Mapping[str, object] | None,
    ) -> DataFrame:
        """Open a query of the rows of the table, and return its lazy DataFrame.

        Args:
            moments: the times given for the query, by the key of the read option: that for as of, begin or end.
            options: other read options.
            equals: column → the value that rows must have; None: all rows.
        """
        from penstock.door.read import open_query

        state = self._state()
        query = make_query(self.path, state, moments, options, columns, partitions, equals)
        frame = open_query(self._reader(), query, replace(state, options=query.options))
        return frame if columns is None else _select(frame, columns)


def make_query(
    path: str,
    state: TableState,
    moments: Mapping[str, Moment],
    options: Mapping[str, object] | None,
    columns: Sequence[str] | None,
    partitions: Sequence[str] | None,
    equals: Mapping[str, object] | None = None,
) -> Query:
    """Return the `Query` for the arguments of a method of `Table` that reads rows.

    Args:
        path: the path of the table.
        moments: option key → time of the query. The options are those for as of, begin and end.
        options: read options, by their keys.
        columns: the columns to return; None: all.
        partitions: the partition paths to read; None: all.
        equals: column → the value that rows must have.

    Raises:
        OptionError: an argument is not valid.
    """
    _check_columns(columns)
    times = {key: _moment(moment, utc=state.config.timeline_utc) for key, moment in moments.items()}
    of_storage = state.options.prefixed(STORAGE_OPTIONS)
    query = parse_query([path], read_options({**of_storage, **(options or {}), **times}))
    if partitions is not None:
        query = replace(query, within=tuple(check_partition(p) for p in partitions))
    if equals is not None:
        query = replace(query, equals=tuple({**dict(query.equals), **equals}.items()))
    if columns is not None:
        query = replace(query, columns=tuple(dict.fromkeys([*columns, *dict(query.equals)])))
    return query


def check_since(since: Moment | None) -> None:
    """Raise OptionError if the begin of an incremental query is None or empty."""
    if since is None or since == "":
        raise OptionError(f"since is {since!r}; give an instant of the table, a time, a Commit, or '000' for all changes")


def _check_columns(columns: Sequence[str] | None) -> None:
    """Raise OptionError if `columns` is an empty list, or a string instead of a list."""
    if isinstance(columns, str):
        raise OptionError(f"columns is the string {columns!r}; give a list of names, such as [{columns!r}]")
    if columns is not None and not columns:
        raise OptionError("columns is empty; name the columns that you want, or leave it out to get all")


def _moment(as_of: Moment, *, utc: bool) -> str:
    """Return a moment as the string that an option takes. A datetime with a time zone is converted to the timeline's zone.

    Args:
        as_of: an instant or date string, which is returned unchanged, a datetime, or a commit.
        utc: whether the timeline's time zone is UTC. Otherwise it is the local time zone.
    """
    if isinstance(as_of, Commit):
        return as_of.instant
    if isinstance(as_of, datetime):
        return format_time(as_of if as_of.tzinfo is None else as_of.astimezone(timezone.utc if utc else None))
    return as_of


def _select(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the DataFrame with only these columns, in this order.

    Raises:
        SchemaError: the table does not have one of the columns.
    """
    from penstock.columns import quoted

    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise SchemaError(f"the table has no column {missing[0]!r}; it has {', '.join(frame.columns)}")
    return frame.select(*(quoted(c) for c in columns))
