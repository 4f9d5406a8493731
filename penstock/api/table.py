"""`penstock.Table`: a table by its path, with a verb for everything that can be done to it.

A `Table` remembers a path, a session and default options, never what it read: every verb looks at the table as it is then.
Writes go through `write/door.py`, reads through `read/`, so that this door and `format("hudi")` cannot differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import penstock
from penstock import clock
from penstock import options as o
from penstock.api.care import CareVerbs
from penstock.api.cleaning import CleaningVerbs
from penstock.api.clustering import ClusteringVerbs
from penstock.api.compaction import CompactionVerbs
from penstock.api.index_report import index_report
from penstock.api.looking import data_file, history_entry, rows_by_file
from penstock.api.reports import Commit, Files, History, IndexReport, MergePlan
from penstock.api.restoring import RestoringVerbs
from penstock.commit.swap import recover
from penstock.errors import AlreadyExists, OptionError, PenstockError, SchemaError, TableExists, TableNotFound
from penstock.keys import key_generator
from penstock.metadata.listing import latest_slices
from penstock.options import lookup, read_options
from penstock.read.plan import Plan
from penstock.read.query import parse_query
from penstock.read.recent import open_frame
from penstock.read.scan import table_struct
from penstock.schema import META_COLUMNS, avro_of_arrow, avro_text, spark_of_avro
from penstock.storage import locate
from penstock.table import TableConfig, TableState, open_table, table_exists, table_schema
from penstock.timeline.instant import format_time
from penstock.write.create import create_table
from penstock.write.door import write
from penstock.write.explain import WritePlan, explain_write
from penstock.write.explain_merge import explain_merge
from penstock.write.prepare import check_columns, quoted, stored_schema, writer_schema
from penstock.write.settings import WriteSettings, resolve

Path: TypeAlias = "str | os.PathLike[str]"
Names: TypeAlias = "str | Sequence[str]"
#: What `Table.create` takes as columns: a Spark schema, a DataFrame that has it, DDL text, or an Arrow schema.
Columns: TypeAlias = "StructType | DataFrame | str | pa.Schema"
#: A moment of the table: an instant, a time as text, a datetime, or the commit that made it.
Moment: TypeAlias = "str | datetime | Commit"
SortMode: TypeAlias = Literal[
    "NONE", "GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT"
]


@dataclass(frozen=True, repr=False)
class Table(CompactionVerbs, ClusteringVerbs, CleaningVerbs, RestoringVerbs, CareVerbs):
    """A Hudi table. Made by `Table.create` and `Table.open`.

    Every verb that writes is one commit, and takes `options`: `hoodie.*` options for this call, by their keys.

    Example:
        >>> table = penstock.Table.create(path, "id string, city string, ts long, fare double",
        ...                               name="trips", record_key="id", partition_by="city", ordering="ts")
        >>> table.insert(trips)
        Commit(... insert: 3 inserted; 2 files, ...)
        >>> table.read(columns=["id", "fare"]).orderBy("id").collect()
        [Row(id='a', fare=1.5), Row(id='b', fare=2.5), Row(id='c', fare=3.5)]
    """

    path: str
    _spark: SparkSession | None = field(default=None, compare=False)
    #: Options of every write through this object; those of a call are laid over them.
    options: Mapping[str, object] = field(default_factory=dict, compare=False)

    @classmethod
    def create(
        cls,
        path: Path,
        schema: Columns,
        *,
        name: str,
        record_key: Names | None,
        partition_by: Names = (),
        ordering: str | None = None,
        table_type: str = "COPY_ON_WRITE",
        spark: SparkSession | None = None,
        options: Mapping[str, object] | None = None,
        **more: object,
    ) -> Table:
        """Make an empty table.

        Args:
            path: the table's folder; it is made if it is not there.
            schema: the columns: a Spark schema, a DataFrame that has them, DDL text, or an Arrow schema.
            name: the table's name.
            record_key: column or columns that tell rows apart; None lets the writer make keys up.
            partition_by: column or columns whose values name the folders.
            ordering: column that decides between two rows of one key: the greater value wins. None: the last one does.
            spark: the session to use; by default the active one.
            options: more options, by their keys. The table keeps those that are its properties (hive-style folders, key
                generator and so on); all of them hold for writes through the object given back. Also as `**{key: value}`.

        Raises:
            TableExists: there is a table at the path.
            SchemaError: a key, partition or ordering column is not among the columns, or a column cannot be stored.
            OptionError: an option is wrong, or there is no Spark session.

        Example:
            >>> table = penstock.Table.create(path, trips, name="trips", record_key="id", partition_by=["city"],
            ...                               options={"hoodie.datasource.write.hive_style_partitioning": True})
            >>> table.config.hive_style, table.config.partition_fields
            (True, ('city',))
        """
        session, own = _session(spark), _own_options(options, more)
        storage, base_path = locate(os.fspath(path))
        recover(storage, base_path)
        if table_exists(storage, base_path):
            raise _exists(base_path)
        given = {
            o.TABLE_NAME.key: name,
            o.TABLE_TYPE.key: table_type,
            o.RECORD_KEY_FIELD.key: _joined(record_key),
            o.PARTITION_PATH_FIELD.key: _joined(partition_by),
            o.PRECOMBINE_FIELD.key: ordering,
        }
        settings, create_schema = _decide(session, schema, {**own, **{k: v for k, v in given.items() if v is not None}})
        try:
            create_table(storage, base_path, settings, create_schema)
        except AlreadyExists as e:
            raise _exists(base_path) from e
        return cls(base_path, session, own)

    @classmethod
    def open(cls, path: Path, spark: SparkSession | None = None, options: Mapping[str, object] | None = None) -> Table:
        """The table at a path. Needs no Spark session until rows are read.

        Args:
            options: options of every write through this object, by their keys.

        Raises:
            TableNotFound: there is no table at the path.
            CorruptFile: its properties cannot be read.
            Unsupported: a table version that Penstock does not know.

        Example:
            >>> penstock.Table.open(table.path).name
            'trips'
        """
        recover(*locate(os.fspath(path)))
        state = open_table(os.fspath(path))
        found = spark or SparkSession.getActiveSession()
        return cls(state.base_path, penstock.enable(found) if found else None, _own_options(options, {}))

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether there is a table at a path.

        Example:
            >>> penstock.Table.exists(table.path), penstock.Table.exists(path + "/elsewhere")
            (True, False)
        """
        return table_exists(*locate(os.fspath(path)))

    @property
    def name(self) -> str:
        """The table's name.

        Example:
            >>> table.name
            'trips'
        """
        return self.config.name

    @property
    def config(self) -> TableConfig:
        """The table's own configuration, typed: what `.hoodie/hoodie.properties` says now.

        Example:
            >>> table.config.record_key_fields, table.config.precombine_field
            (('id',), 'ts')
        """
        return self._state().config

    @property
    def schema(self) -> StructType:
        """The table's columns, without Hudi's meta columns.

        Example:
            >>> table.schema.simpleString()
            'struct<id:string,city:string,ts:bigint,fare:double>'
        """
        state = self._state()
        struct = table_struct(Plan(state, parse_query([self.path], state.options), table_schema(state), {}))
        return StructType([f for f in struct if f.name not in META_COLUMNS])

    def insert(self, rows: DataFrame, options: Mapping[str, object] | None = None) -> Commit:
        """Add rows without looking for their keys. Small files are filled up before new ones are opened.

        Example:
            >>> table.insert(trips).rows_inserted
            3
        """
        return self._write("insert", rows, options)

    def bulk_insert(
        self, rows: DataFrame, sort_mode: SortMode | None = None, options: Mapping[str, object] | None = None
    ) -> Commit:
        """Write rows to new files, as fast as they come.

        Args:
            sort_mode: how rows are arranged first; `PARTITION_SORT` and `GLOBAL_SORT` make fewer and better ordered files.

        Example:
            >>> table.bulk_insert(trips, sort_mode="GLOBAL_SORT").operation
            'bulk_insert'
        """
        return self._write("bulk_insert", rows, options, {o.BULK_INSERT_SORT_MODE.key: sort_mode} if sort_mode else {})

    def upsert(self, rows: DataFrame, options: Mapping[str, object] | None = None) -> Commit:
        """Update rows whose keys the table has, insert the others.

        Example:
            >>> table.upsert(trips.selectExpr("id", "city", "ts + 1 as ts", "fare * 2 as fare")).rows_updated
            3
        """
        return self._write("upsert", rows, options, self._unordered(options))

    def delete(self, keys: DataFrame, options: Mapping[str, object] | None = None) -> Commit:
        """Remove rows by key. Keys that the table does not have are ignored.

        Args:
            keys: the record key's columns and, unless the index is a global one, those of the partition path.

        Example:
            >>> table.delete(trips.where("id = 'a'").select("id", "city")).rows_deleted
            1
            >>> table.read().count()
            2
        """
        return self._write("delete", keys, options)

    def insert_overwrite(
        self, rows: DataFrame, *, whole_table: bool = False, options: Mapping[str, object] | None = None
    ) -> Commit:
        """Put rows in the place of all rows of their partitions. Readers see the old rows until the new ones are all there.

        Args:
            whole_table: whether the rows of other partitions go too.

        Example:
            >>> table.insert_overwrite(trips.where("id = 'a'")).rows_inserted
            1
            >>> [row.id for row in table.read().orderBy("id").collect()]
            ['a', 'c']
        """
        return self._write("insert_overwrite_table" if whole_table else "insert_overwrite", rows, options)

    def delete_partitions(self, *paths: str, options: Mapping[str, object] | None = None) -> Commit:
        """Take whole partitions out of the table, without looking at their rows.

        Args:
            paths: partition paths, such as `berlin` or `city=berlin`; `*` stands for any characters.

        Raises:
            WriteConflict: a compaction or clustering that is planned would rewrite files of them.

        Example:
            >>> table.delete_partitions("ber*").operation
            'delete_partition'
            >>> table.read().count()
            1
        """
        rows = self._reader().range(0)
        return self._write("delete_partition", rows, options, {o.PARTITIONS_TO_DELETE.key: ",".join(paths)})

    def plan_upsert(self, rows: DataFrame, options: Mapping[str, object] | None = None) -> WritePlan:
        """What `upsert` would do with these rows: file groups, rows and bytes of each. Nothing is written; prints as a table.

        Example:
            >>> plan = table.plan_upsert(trips.where("id = 'a'"))
            >>> [(group.partition_path, group.rows_changed, group.rows_new) for group in plan.groups]
            [('berlin', 1, 0)]
        """
        return explain_write(rows, self.path, {**self._given("upsert", options), **self._unordered(options)})

    def explain_merge(
        self, rows: DataFrame, keys: Sequence[str] | None = None, options: Mapping[str, object] | None = None
    ) -> MergePlan:
        """What `upsert` would make of some keys, and why: which row wins, by which values. Nothing is written; prints as a table.

        Args:
            keys: record keys, as the meta column `_hoodie_record_key` has them; the first 20 of the rows, if none are named.

        Example:
            >>> plan = table.explain_merge(trips.selectExpr("id", "city", "ts - 1 as ts", "fare"), keys=["a"],
            ...     options={"hoodie.datasource.write.payload.class": "DefaultHoodieRecordPayload"})
            >>> plan[0].outcome.value, plan[0].why
            ('keep', 'ts of the stored row is greater: 1 > 0')
        """
        given = {**self._given("upsert", options), **self._unordered(options)}
        return MergePlan(explain_merge(rows, self.path, given, keys), self.name)

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
        state = self._state()
        given = dict(options or {})
        if as_of is not None:
            given[o.AS_OF_INSTANT.key] = _moment(as_of, utc=state.config.timeline_utc)
        query = parse_query([self.path], read_options(given))
        if partitions is not None:
            query = replace(query, within=tuple(_checked_partition(p) for p in partitions))
        if columns is not None:
            query = replace(query, columns=tuple(dict.fromkeys([*columns, *(equals or {})])))
        query = replace(query, equals=tuple((equals or {}).items()))
        frame = _having(open_frame(self._reader(), query, replace(state, options=query.options)), equals or {})
        return frame if columns is None else _select(frame, columns)

    def history(self, limit: int | None = None) -> History:
        """What happened to the table, newest first; reads no data.

        Args:
            limit: only so many of the newest instants.

        Example:
            >>> _ = table.delete(trips.where("id = 'a'"))
            >>> print(table.history())
            History of trips
            instant            action  inserted  updated  deleted  files     size
            ─────────────────────────────────────────────────────────────────────
            ...                delete         0        0        1      1  ... kB
            ...                insert         3        0        0      2  ... kB
            >>> len(table.history(limit=1))
            1
        """
        state = self._state()
        newest = state.timeline.instants[::-1]
        return History([history_entry(state, i) for i in (newest if limit is None else newest[:limit])], state.config.name)

    def index_report(self, limit: int = 20) -> IndexReport:
        """What the index did in recent writes: how many files it could have opened, how many it did, and how many for nothing.

        Commits keep these figures (`penstock.index` in their extra metadata). Writes of other engines, and inserts that look for
        no keys, have none.

        Args:
            limit: only so many of the newest writes.

        Example:
            >>> _ = table.upsert(trips)
            >>> [(use.index, use.read_once) for use in table.index_report()]
            [('SIMPLE', 2)]
        """
        return index_report(self._state(), limit)

    def files(self, partition: str | None = None) -> Files:
        """The files that a read opens: the current one of each file group.

        Args:
            partition: only of this partition path; no other folder is looked at.

        Example:
            >>> [(file.partition, file.rows) for file in table.files()]
            [('berlin', 2), ('paris', 1)]
        """
        state = self._state()
        wanted = None if partition is None else [_checked_partition(partition)]
        slices = [s for its in latest_slices(state, wanted).values() for s in its]
        rows = rows_by_file(state, slices)
        return Files([data_file(s, rows) for s in slices], state.config.name)

    def __repr__(self) -> str:
        try:
            config = self.config
        except PenstockError:
            return f"Table({self.path!r})"
        key = ",".join(config.record_key_fields) or "generated"
        parts = f", partition_by={','.join(config.partition_fields)!r}" if config.partition_fields else ""
        return f"Table({self.path!r}, name={config.name!r}, record_key={key!r}{parts})"

    def _state(self, options: Mapping[str, object] | None = None) -> TableState:
        return open_table(self.path, read_options({**self.options, **_own_options(options, {})}) if options is not None else None)

    def _reader(self) -> SparkSession:
        return self._spark or _session(None)

    def _write(
        self, operation: str, rows: DataFrame, options: Mapping[str, object] | None, more: Mapping[str, object] | None = None
    ) -> Commit:
        """Run one operation of the pipeline. The verb decides which; the table has to be there."""
        given = {**self._given(operation, options), **(more or {})}
        began = clock.monotonic_s()
        done = write(rows.sparkSession, rows, self.path, given, "append")
        assert done is not None  # only mode `ignore` writes nothing
        commit = Commit.of(done.instant, done.metadata, clock.monotonic_s() - began)
        return replace(commit, failed_services=done.failed_services)

    def _unordered(self, options: Mapping[str, object] | None) -> dict[str, object]:
        """For a table without ordering field: of several rows of a key in one batch the last one counts."""
        given = {**self.options, **_own_options(options, {})}
        if {o.PRECOMBINE_FIELD.key, o.COMBINE_BEFORE_UPSERT.key} & given.keys() or self.config.precombine_field:
            return {}
        return {o.COMBINE_BEFORE_UPSERT.key: False}

    def _given(self, operation: str, options: Mapping[str, object] | None) -> dict[str, object]:
        """All options of a write. Raises TableNotFound, because a write would make the table anew."""
        if not Table.exists(self.path):
            raise TableNotFound(f"there is no table at {self.path} any more; make it with Table.create")
        return {**self.options, **_own_options(options, {}), o.OPERATION.key: operation}


def _session(spark: SparkSession | None) -> SparkSession:
    """A session with Penstock on it: the given one, or the active one."""
    found = spark or SparkSession.getActiveSession()
    if found is None:
        raise OptionError("there is no active Spark session: make one with penstock.session(), or give one as spark=")
    return penstock.enable(found)


def _own_options(options: Mapping[str, object] | None, more: Mapping[str, object]) -> dict[str, object]:
    """Options under their catalogue keys, so that those of a call replace those of the table whatever their spelling."""
    if unknown := [k for k in more if "." not in k]:
        raise OptionError(f"{unknown[0]!r} is neither an argument of Table.create nor the key of an option; check its spelling")
    found: dict[str, object] = {}
    for key, value in {**(options or {}), **more}.items():
        option = lookup(key)
        found[option.key if option else key] = value
    if o.OPERATION.key in found:
        raise OptionError(f"{o.OPERATION.key} is decided by the verb: call insert, bulk_insert, upsert or delete instead")
    return found


def _decide(spark: SparkSession, schema: Columns, given: Mapping[str, object]) -> tuple[WriteSettings, str]:
    """A new table's settings and Avro schema, checked against each other."""
    options = read_options(given)
    struct = _struct(spark, schema, str(given[o.TABLE_NAME.key]))
    settings = resolve(options, None, frozenset(struct.names))
    check_columns(struct)
    key_generator(settings.keys).columns(struct)
    ordering = options[o.PRECOMBINE_FIELD] if options.is_set(o.PRECOMBINE_FIELD) else None
    if ordering and ordering.split(".")[0] not in struct.names:
        raise SchemaError(f"ordering column {ordering!r} is not among the columns {', '.join(struct.names)}")
    return settings, avro_text(stored_schema(writer_schema(struct, settings, None), settings))


def _struct(spark: SparkSession, schema: Columns, name: str) -> StructType:
    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, pa.Schema):
        return StructType.fromJson(spark_of_avro(avro_of_arrow(schema, name)))
    found = spark.createDataFrame([], schema).schema if isinstance(schema, str) else schema.schema
    return StructType([f for f in found if f.name not in META_COLUMNS])


def _joined(names: Names | None) -> str | None:
    """Column names as the options spell them; None where there are none."""
    listed = [names] if isinstance(names, str) else list(names or ())
    return ",".join(listed) or None


def _exists(base_path: str) -> TableExists:
    return TableExists(f"there is a Hudi table at {base_path} already; use Table.open, or choose another folder")


def _moment(as_of: Moment, *, utc: bool) -> str:
    """A moment as the option for time travel takes it; a datetime with a zone is put into the timeline's."""
    if isinstance(as_of, Commit):
        return as_of.instant
    if isinstance(as_of, datetime):
        return format_time(as_of if as_of.tzinfo is None else as_of.astimezone(timezone.utc if utc else None))
    return as_of


def _checked_partition(path: str) -> str:
    clean = path.strip("/")
    if any(part in (".", "..") or part.startswith(".hoodie") or "\0" in part for part in clean.split("/")):
        raise OptionError(f"partition {path!r} is not a partition path: it leads out of the table's data")
    return clean


def _select(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise SchemaError(f"the table has no column {missing[0]!r}; it has {', '.join(frame.columns)}")
    return frame.select(*(quoted(c) for c in columns))


def _having(frame: DataFrame, equals: Mapping[str, object]) -> DataFrame:
    """The rows whose columns have these values."""
    for column, value in equals.items():
        if column not in frame.columns:
            raise SchemaError(f"the table has no column {column!r}; it has {', '.join(frame.columns)}")
        frame = frame.where(F.col(quoted(column)).eqNullSafe(F.lit(value)))
    return frame
