"""`penstock.Table`: a table at a path, with a method for everything that can be done to it.

A `Table` keeps a path, a session and default options. It caches nothing: every method opens the current table. This module
creates and opens tables; each family of methods has a module of its own. Writes go through `door/write.py` and reads through
`door/read.py`, so that `Table` and `format("hudi")` behave the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import penstock
from penstock import options as o
from penstock.api.arrow import ArrowMethods
from penstock.api.cleaning import CleaningMethods
from penstock.api.clustering import ClusteringMethods
from penstock.api.compaction import CompactionMethods
from penstock.api.handle import active_session, call_options, find_session, path_text, storage_settings, table_columns
from penstock.api.inspect import InspectMethods
from penstock.api.locking import LockMethods
from penstock.api.maintenance import MaintenanceMethods
from penstock.api.read import ReadMethods
from penstock.api.repairing import RepairMethods
from penstock.api.restoring import RestoreMethods
from penstock.api.syncing import SyncMethods
from penstock.api.write import WriteMethods
from penstock.commit.swap_tables import finish_overwrite
from penstock.errors import AlreadyExists, PenstockError, TableExists
from penstock.options import read_options
from penstock.report_table import list_properties
from penstock.storage import open_storage
from penstock.table.config import TableConfig
from penstock.table.state import open_table, table_exists

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from penstock.api.create import Columns, Names

Path: TypeAlias = "str | os.PathLike[str]"


@dataclass(frozen=True, repr=False)
class Table(
    WriteMethods,
    ReadMethods,
    ArrowMethods,
    InspectMethods,
    CompactionMethods,
    ClusteringMethods,
    CleaningMethods,
    RestoreMethods,
    RepairMethods,
    MaintenanceMethods,
    SyncMethods,
    LockMethods,
):
    """A Hudi table. `Table.create` and `Table.open` return one.

    Every method that writes makes one commit. The argument `options` of a method takes `hoodie.*` and `penstock.*` options for
    this call, by their keys.

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
        """Create an empty table and return it.

        Args:
            path: the folder of the table; it is created if it does not exist.
            schema: the columns: a Spark schema, a DataFrame that has them, a DDL string, or an Arrow schema.
            name: the table's name.
            record_key: the column or columns that identify a row; None: the writer generates keys.
            partition_by: the column or columns whose values name the partition folders; empty: the table has no partitions.
            ordering: the column that decides between two rows of one key: the greater value wins. None: the last row wins.
            table_type: `COPY_ON_WRITE` or `MERGE_ON_READ`.
            spark: the session to use; None: the active one.
            options: more options, by their keys. The table stores those that are its properties (hive-style folders, key
                generator and so on). All of them apply to every write through the returned object.
            more: further options, as `**{key: value}`. They override `options`.

        Raises:
            TableExists: there is a table at the path.
            SchemaError: a key, partition or ordering column is not among the columns, or a column cannot be stored.
            OptionError: an option is invalid, or there is no Spark session.

        Example:
            >>> table = penstock.Table.create(path, trips, name="trips", record_key="id", partition_by=["city"],
            ...                               options={"hoodie.datasource.write.hive_style_partitioning": True})
            >>> table.config.hive_style, table.config.partition_fields
            (True, ('city',))
        """
        from penstock.api.create import check_record_key, decide_new_table, joined
        from penstock.write.create_table import create_table

        session = find_session(spark)
        own_options = call_options(options, more)
        check_record_key(record_key)
        storage, base_path = open_storage(path_text(path), storage_settings(own_options))
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
        settings, create_schema = decide_new_table(
            session, schema, {**own_options, **{k: v for k, v in given.items() if v is not None}}
        )
        try:
            create_table(storage, base_path, settings, create_schema)
        except AlreadyExists as e:
            raise _exists(base_path) from e
        return cls(storage.uri(base_path), session, own_options)

    @classmethod
    def open(cls, path: Path, spark: SparkSession | None = None, options: Mapping[str, object] | None = None) -> Table:
        """Open the table at a path. A Spark session is needed only to read and write rows.

        Args:
            path: the folder of the table.
            spark: the session to use; None: the active one, if there is one.
            options: options of every write and table service that is called on the returned object, by their keys. The options of
                a call override them.

        Raises:
            TableNotFound: there is no table at the path.
            CorruptFile: the properties of the table cannot be read.
            Unsupported: Penstock does not support the table version.

        Example:
            >>> penstock.Table.open(table.path).name
            'trips'
        """
        own_options = call_options(options, {})
        settings = storage_settings(own_options)
        finish_overwrite(*open_storage(path_text(path), settings))
        state = open_table(path_text(path), read_options(settings))
        found = spark or active_session()
        return cls(state.uri, penstock.enable(found) if found else None, own_options)

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether there is a Hudi table at the path.

        Args:
            path: a folder, which need not exist.

        Example:
            >>> penstock.Table.exists(table.path), penstock.Table.exists(path + "/elsewhere")
            (True, False)
        """
        return table_exists(*open_storage(path_text(path)))

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
        """The current properties of the table (`.hoodie/hoodie.properties`), typed.

        Example:
            >>> table.config.record_key_fields, table.config.precombine_field
            (('id',), 'ts')
        """
        return self._state().config

    @property
    def schema(self) -> StructType:
        """The current columns of the table as a Spark schema, without Hudi's meta columns.

        Example:
            >>> table.schema.simpleString()
            'struct<id:string,city:string,ts:bigint,fare:double>'
        """
        return table_columns(self._state())

    def __repr__(self) -> str:
        """Return path, name, record key and partition columns; only the path if the table cannot be opened."""
        try:
            config = self.config
        except PenstockError:
            return f"Table({self.path!r})"
        key = ",".join(config.record_key_fields) or "generated"
        parts = f", partition_by={','.join(config.partition_fields)!r}" if config.partition_fields else ""
        return f"Table({self.path!r}, name={config.name!r}, record_key={key!r}{parts})"

    def _repr_html_(self) -> str:
        """Return name, path, type and key columns as HTML, for notebooks; only the path if the table cannot be opened."""
        try:
            config = self.config
        except PenstockError:
            return list_properties("Table", [("path", self.path)]).to_html()
        properties = [
            ("path", self.path),
            ("type", config.table_type),
            ("record key", ", ".join(config.record_key_fields) or "generated"),
            ("partitioned by", ", ".join(config.partition_fields) or "nothing"),
            ("ordered by", config.precombine_field or "nothing: the last row wins"),
        ]
        return list_properties(f"Table {config.name}", properties).to_html()


def _exists(base_path: str) -> TableExists:
    """Return the error for a path at which there is a table already."""
    return TableExists(f"there is already a Hudi table at {base_path}; use Table.open, or choose another folder")
