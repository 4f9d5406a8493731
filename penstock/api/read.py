"""The verbs of `Table` that read rows, through `read/`, as `format("hudi")` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TypeAlias

from pyspark.sql import DataFrame

from penstock import options as o
from penstock.api.handle import Opened, checked_partition
from penstock.api.report import Commit
from penstock.columns import quoted
from penstock.door.read import open_query
from penstock.errors import SchemaError
from penstock.options import read_options
from penstock.read.query import parse_query
from penstock.timeline.instant import format_time

#: A moment of the table: an instant, a time as text, a datetime, or the commit that made it.
Moment: TypeAlias = "str | datetime | Commit"


class ReadingVerbs(Opened):
    """What can be asked of the rows of a table."""

    def read(
        self,
        as_of: Moment | None = None,
        columns: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        equals: Mapping[str, object] | None = None,
    ) -> DataFrame:
        """The table's rows, as an ordinary lazy DataFrame: meta columns first, then the table's own.

        Args:
            as_of: the table as it was then: an instant, a time as text, a datetime, or a `Commit`.
            columns: only these columns, in this order.
            partitions: only these partition paths; no other folder is looked at. `*` stands for any characters.
            options: read options, by their keys.
            equals: only rows whose columns have these values. In a table with the bucket index, values for its hash fields say
                which bucket to open; a `where` put on the DataFrame later gives the same rows, and opens all of them.

        Raises:
            SchemaError: a column that the table does not have.
            OptionError: a time that cannot be answered, or a partition that the table does not have.

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
        """The rows that were written after one moment, up to and with another, as they were then; a lazy DataFrame like `read`'s.

        A row that changed twice comes once, with its last values. Rows that were deleted since do not come, and neither do rows
        that only moved, by compaction or clustering. The newest `_hoodie_commit_time` is where to go on the next time.

        Args:
            since: an instant, a time as text, a datetime, or a `Commit`; what that wrote is left out. `"000"` is before all.
            until: the last moment whose changes come; by default the last write.
            columns: only these columns, in this order.
            partitions: only these partition paths. `*` stands for any characters.
            options: read options, by their keys.
            equals: only rows whose columns have these values.

        Raises:
            ChangesLost: files of that time were cleaned. Read the whole table anew, or set
                `hoodie.datasource.read.incr.fallback.fulltablescan.enable` to filter it as it is now.
            SchemaError: a column that the table does not have.
            OptionError: a time that is none, or a table that does not keep commit times.

        Example:
            >>> first = table.history()[0].instant
            >>> _ = table.upsert(trips.where("id = 'b'").withColumn("fare", trips.fare + 1))
            >>> table.read_changes(since=first, columns=["id", "fare"]).collect()
            [Row(id='b', fare=3.5)]
            >>> table.read_changes(since="000", until=first).count()
            3
        """
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
        state = self._state()
        times = {key: _moment(moment, utc=state.config.timeline_utc) for key, moment in moments.items()}
        query = parse_query([self.path], read_options({**(options or {}), **times}))
        if partitions is not None:
            query = replace(query, within=tuple(checked_partition(p) for p in partitions))
        if equals is not None:
            query = replace(query, equals=tuple({**dict(query.equals), **equals}.items()))
        if columns is not None:
            query = replace(query, columns=tuple(dict.fromkeys([*columns, *dict(query.equals)])))
        frame = open_query(self._reader(), query, replace(state, options=query.options))
        return frame if columns is None else _select(frame, columns)


def _moment(as_of: Moment, *, utc: bool) -> str:
    """A moment as options take it; a datetime with a zone is put into the timeline's."""
    if isinstance(as_of, Commit):
        return as_of.instant
    if isinstance(as_of, datetime):
        return format_time(as_of if as_of.tzinfo is None else as_of.astimezone(timezone.utc if utc else None))
    return as_of


def _select(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise SchemaError(f"the table has no column {missing[0]!r}; it has {', '.join(frame.columns)}")
    return frame.select(*(quoted(c) for c in columns))
