"""The settings of a catalog sync: options and the table's own properties, resolved to the entries that are to be registered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock import options as o
from penstock.errors import OptionError
from penstock.keys.partition_fields import partition_columns
from penstock.options import Options
from penstock.schema import with_meta_columns, without_meta_columns
from penstock.schema.avro import avro_to_struct
from penstock.schema.model import Struct
from penstock.storage import join
from penstock.sync.catalog import Buckets, CatalogColumn, CatalogPartition, CatalogTable
from penstock.sync.extractors import extract_values, infer_extractor
from penstock.sync.hive_types import to_columns
from penstock.sync.spark_properties import spark_serde_properties, spark_table_properties
from penstock.table.state import TableState

_SNAPSHOT_SUFFIX = "_rt"
_READ_OPTIMIZED_SUFFIX = "_ro"
_PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_PARQUET_OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
_INPUT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
_REALTIME_INPUT = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
#: The names that both formats had before Hudi moved to Apache.
_OLD_INPUT = "com.uber.hoodie.hadoop.HoodieInputFormat"
_OLD_REALTIME_INPUT = "com.uber.hoodie.hadoop.realtime.HoodieRealtimeInputFormat"
_BUCKETS = re.compile(
    r"\s*CLUSTERED\s+BY\s*\(([^)]*)\)\s*(?:SORTED\s+BY\s*\(([^)]*)\)\s*)?INTO\s+(\d+)\s+BUCKETS\s*", re.IGNORECASE
)


@dataclass(frozen=True)
class View:
    """One entry of a Hudi table in a catalog: its name, and whether its queries read log files (realtime) or base files only."""

    name: str
    is_realtime: bool = False
    is_read_optimized: bool = False


@dataclass(frozen=True)
class SyncSettings:
    """What a sync registers: database, tables, columns, partition columns, and how partition paths become values."""

    database: str
    views: tuple[View, ...]
    #: The path of the table, with scheme and bucket if it is remote.
    base_path: str
    #: All columns that are registered, with the meta columns unless they are left out.
    struct: Struct
    partition_fields: tuple[str, ...]
    extractor: str
    decode: bool
    options: Options
    spark_version: str = ""
    #: Whether partition paths hold formatted times, which are no values of the column's own type.
    has_formatted_paths: bool = False

    def table_of(self, view: View) -> CatalogTable:
        """Return the entry for a view as a first sync creates it."""
        columns = to_columns(
            self.struct,
            with_timestamps=self.options[o.HIVE_SYNC_SUPPORT_TIMESTAMP],
            with_comments=self.options[o.HIVE_SYNC_COMMENT],
        )
        keys = [field.lower() for field in self.partition_fields]
        by_name = {column.name: column for column in columns}
        return CatalogTable(
            name=view.name,
            location=with_scheme(self.base_path),
            columns=tuple(column for column in columns if column.name not in keys),
            partition_keys=tuple(self._partition_key(key, by_name) for key in keys),
            input_format=self._input_format(view),
            output_format=_PARQUET_OUTPUT,
            serde=_PARQUET_SERDE,
            serde_properties=self._serde_properties(view),
            properties=self._table_properties(),
            buckets=parse_buckets(self.options),
        )

    def partition_of(self, path: str) -> CatalogPartition:
        """Return the partition of the catalog for a partition path: its values and its location.

        Raises:
            OptionError: the path does not fit the extractor.
        """
        values = extract_values(self.extractor, path, self.partition_fields, decode=self.decode)
        return CatalogPartition(values, join(with_scheme(self.base_path), path))

    def _partition_key(self, name: str, columns: Mapping[str, CatalogColumn]) -> CatalogColumn:
        """Return a partition key for the catalog: the column of this name in `columns`, or a string column if there is none.

        If partition paths hold formatted times, the type is string too, because the text in the path is no value of the column's
        type.
        """
        column = columns.get(name, CatalogColumn(name, "string"))
        return replace(column, type="string") if self.has_formatted_paths else column

    def _input_format(self, view: View) -> str:
        """Return the Java class of Hudi's input format with which Hive reads a view."""
        if self.options[o.HIVE_SYNC_OLD_INPUT_FORMAT]:
            return _OLD_REALTIME_INPUT if view.is_realtime else _OLD_INPUT
        return _REALTIME_INPUT if view.is_realtime else _INPUT

    def _serde_properties(self, view: View) -> dict[str, str]:
        """Return the serde properties of a view: those that the user set, and those by which Spark reads the table."""
        properties = {"serialization.format": "1"}
        properties |= parse_properties(self.options, o.HIVE_SYNC_SERDE_PROPERTIES)
        if self.options[o.HIVE_SYNC_AS_DATASOURCE]:
            properties |= spark_serde_properties(self.base_path, read_optimized=view.is_read_optimized)
        return properties

    def _table_properties(self) -> dict[str, str]:
        """Return the table properties: those that the user set, and those by which Spark reads the table."""
        properties = {} if self.options[o.HIVE_SYNC_MANAGED_TABLE] else {"EXTERNAL": "TRUE"}
        properties |= parse_properties(self.options, o.HIVE_SYNC_TABLE_PROPERTIES)
        if self.options[o.HIVE_SYNC_AS_DATASOURCE]:
            length = self.options[o.HIVE_SYNC_SCHEMA_LENGTH]
            properties |= spark_table_properties(self.struct, self.partition_fields, self.spark_version, length)
        return properties


def resolve_sync(table: TableState, avro_schema: str, spark_version: str = "") -> SyncSettings:
    """Return the settings of a sync. Settings without an option follow from the table's properties.

    Args:
        table: the table with the options of the write or of the sync.
        avro_schema: the table's Avro schema as JSON.
        spark_version: the version of Spark; `hoodie.meta_sync.spark.version` overrides it.

    Raises:
        OptionError: an option has a wrong form.
    """
    options = table.options
    omits_meta = options[o.HIVE_SYNC_OMIT_METADATA_FIELDS]
    avro = without_meta_columns(avro_schema) if omits_meta else with_meta_columns(avro_schema)
    fields = options[o.HIVE_SYNC_PARTITION_FIELDS] or partition_columns(table.config.partition_fields)
    extractor = infer_extractor(len(fields), table.config.hive_style)
    if options.is_set(o.HIVE_SYNC_PARTITION_EXTRACTOR):
        extractor = options[o.HIVE_SYNC_PARTITION_EXTRACTOR]
    decode = options[o.META_SYNC_DECODE_PARTITION]
    settings = SyncSettings(
        database=_name(options, o.HIVE_SYNC_DATABASE, table.config.raw.get("hoodie.database.name") or "default").lower(),
        views=list_views(table, _name(options, o.HIVE_SYNC_TABLE, table.config.name).lower()),
        base_path=options[o.META_SYNC_BASE_PATH] or table.uri,
        struct=avro_to_struct(avro),
        partition_fields=fields,
        extractor=extractor,
        decode=table.config.url_encode if decode is None else decode,
        options=options,
        spark_version=options[o.META_SYNC_SPARK_VERSION] or spark_version,
        has_formatted_paths=_has_formatted_paths(table),
    )
    for option in (o.HIVE_SYNC_TABLE_PROPERTIES, o.HIVE_SYNC_SERDE_PROPERTIES):
        parse_properties(options, option)
    parse_buckets(options)
    return settings


def list_views(table: TableState, name: str) -> tuple[View, ...]:
    """Return the entries to register for a table: one if it is copy-on-write, one to three if it is merge-on-read.

    Args:
        name: the name of the table in the catalog, to which the name of a view adds a suffix.
    """
    options = table.options
    if not table.is_merge_on_read:
        return (View(name),)
    strategy = options[o.HIVE_SYNC_TABLE_STRATEGY]
    if strategy == "RO":
        return (View(name, is_read_optimized=True),)
    if strategy == "RT":
        return (View(name, is_realtime=True),)
    suffix = "" if options[o.HIVE_SYNC_SKIP_RO_SUFFIX] else _READ_OPTIMIZED_SUFFIX
    views = [View(name + suffix, is_read_optimized=True), View(name + _SNAPSHOT_SUFFIX, is_realtime=True)]
    if options[o.META_SYNC_SNAPSHOT_NAME]:
        # Hudi registers the plain name twice if the suffix is skipped too; the last one stays.
        views = [view for view in views if view.name != name]
        views.append(View(name, is_realtime=True))
    return tuple(views)


def parse_properties(options: Options, option: o.Option[str | None]) -> dict[str, str]:
    """Return the properties in the value of an option, which has one `key=value` per line; an empty dict if it is not set.

    Raises:
        OptionError: a line has no `=`.
    """
    properties = {}
    for line in (options[option] or "").splitlines():
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise OptionError(f"option '{option.key}' has the line {line!r}; expected key=value, one per line")
        properties[key.strip()] = value.strip()
    return properties


def parse_buckets(options: Options) -> Buckets | None:
    """Return the buckets that are registered with the table; None if the options ask for none.

    Raises:
        OptionError: the buckets have another form than `CLUSTERED BY (a, b) SORTED BY (c DESC) INTO 8 BUCKETS`.
    """
    if not options[o.HIVE_SYNC_BUCKET]:
        return None
    text = options[o.HIVE_SYNC_BUCKET_SPEC]
    found = _BUCKETS.fullmatch(text)
    if found is None:
        raise OptionError(
            f"option '{o.HIVE_SYNC_BUCKET_SPEC.key}' is {text!r}; expected CLUSTERED BY (a, b) SORTED BY (c DESC) INTO 8 BUCKETS"
        )
    order = []
    for part in _split(found[2] or ""):
        name, _, direction = part.partition(" ")
        order.append((name, direction.strip().upper() != "DESC"))
    return Buckets(tuple(_split(found[1])), int(found[3]), tuple(order))


def with_scheme(path: str) -> str:
    """Return a path with its scheme: a local path begins with `file:`, as Hadoop writes it."""
    return f"file:{path}" if path.startswith("/") else path


def _has_formatted_paths(table: TableState) -> bool:
    """Whether the key generator formats times into partition paths."""
    is_timestamp_based = "TimestampBased" in (table.config.key_generator_class or "")
    return is_timestamp_based or any(field.upper().endswith(":TIMESTAMP") for field in table.config.partition_fields)


def _name(options: Options, option: o.Option[str], otherwise: str) -> str:
    """Return the value of an option if the user set it, otherwise `otherwise`."""
    return options[option] if options.is_set(option) else otherwise


def _split(text: str) -> list[str]:
    """Return the items of a comma-separated list, in lower case and without backticks."""
    return [part.strip().replace("`", "").lower() for part in text.split(",") if part.strip()]
