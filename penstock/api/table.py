"""`penstock.Table`: a table by its path, with a verb for everything that can be done to it.

A `Table` remembers a path, a session and default options, never what it read: every verb looks at the table as it is then.
Here are the ways to one, and what it is; each family of verbs has a file of its own. Writes go through `write/door.py`, reads
through `read/`, so that this door and `format("hudi")` cannot differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import penstock
from penstock import options as o
from penstock.api.cleaning import CleaningVerbs
from penstock.api.clustering import ClusteringVerbs
from penstock.api.compaction import CompactionVerbs
from penstock.api.create import Columns, Names, decide_table, joined
from penstock.api.handle import own_options, session_of
from penstock.api.inspect import LookingVerbs
from penstock.api.maintenance import CareVerbs
from penstock.api.read import ReadingVerbs
from penstock.api.restoring import RestoringVerbs
from penstock.api.write import WritingVerbs
from penstock.commit.overwrite import finish_overwrite
from penstock.errors import AlreadyExists, PenstockError, TableExists
from penstock.read.plan import QueryPlan
from penstock.read.query import parse_query
from penstock.read.scan import table_struct
from penstock.schema import META_COLUMNS
from penstock.storage import open_storage
from penstock.table import TableConfig, open_table, table_exists, table_schema
from penstock.write.create_table import create_table

Path: TypeAlias = "str | os.PathLike[str]"


@dataclass(frozen=True, repr=False)
class Table(WritingVerbs, ReadingVerbs, LookingVerbs, CompactionVerbs, ClusteringVerbs, CleaningVerbs, RestoringVerbs, CareVerbs):
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
        session, own = session_of(spark), own_options(options, more)
        storage, base_path = open_storage(os.fspath(path))
        finish_overwrite(storage, base_path)
        if table_exists(storage, base_path):
            raise _exists(base_path)
        given = {
            o.TABLE_NAME.key: name,
            o.TABLE_TYPE.key: table_type,
            o.RECORD_KEY_FIELD.key: joined(record_key),
            o.PARTITION_PATH_FIELD.key: joined(partition_by),
            o.PRECOMBINE_FIELD.key: ordering,
        }
        settings, create_schema = decide_table(session, schema, {**own, **{k: v for k, v in given.items() if v is not None}})
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
        finish_overwrite(*open_storage(os.fspath(path)))
        state = open_table(os.fspath(path))
        found = spark or SparkSession.getActiveSession()
        return cls(state.base_path, penstock.enable(found) if found else None, own_options(options, {}))

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether there is a table at a path.

        Example:
            >>> penstock.Table.exists(table.path), penstock.Table.exists(path + "/elsewhere")
            (True, False)
        """
        return table_exists(*open_storage(os.fspath(path)))

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
        struct = table_struct(QueryPlan(state, parse_query([self.path], state.options), table_schema(state), {}))
        return StructType([f for f in struct if f.name not in META_COLUMNS])

    def __repr__(self) -> str:
        try:
            config = self.config
        except PenstockError:
            return f"Table({self.path!r})"
        key = ",".join(config.record_key_fields) or "generated"
        parts = f", partition_by={','.join(config.partition_fields)!r}" if config.partition_fields else ""
        return f"Table({self.path!r}, name={config.name!r}, record_key={key!r}{parts})"


def _exists(base_path: str) -> TableExists:
    return TableExists(f"there is a Hudi table at {base_path} already; use Table.open, or choose another folder")
