"""Takes partition columns from a file's path, so that Spark drops the files of other partitions while it plans.

If the name of a partition's folder determines the column's value exactly, the column is taken from the path in one of three ways:

- As Spark's own partition columns, if folders are `column=value` in plain characters. They cost nothing per row.
- From the part of `_metadata.file_path` between the table's path and the file's name, if a URL encodes no character of these two.
  The part is cut out at fixed positions, then split at slashes, and decoded if necessary.
- Otherwise from `_metadata.file_path`, by counting slashes from its end.

Spark knows `_metadata.file_path` before it opens a file. A filter on an expression over it, added later by `where`, a view or
SQL, is evaluated on the list of files. If a folder's name does not determine the value (timestamps, floating point), the column
is read from the files. The default partition, whose rows have null or an empty string, is read as a DataFrame of its own. There
the column is an expression of literals, so that Spark can see that a filter on any other value matches no row of that folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from penstock import options as o
from penstock.columns import quoted
from penstock.keys.partition_path import DEFAULT_PARTITION
from penstock.read.folder_values import FolderValues, find_places, keeps_values_in_folders
from penstock.read.plan import QueryPlan
from penstock.storage.base import split_scheme
from penstock.table.state import TableState

_ONE_TO_ONE = (StringType, IntegerType, LongType, BooleanType, DateType, DecimalType)
#: Types that Spark's own partition columns parse as Penstock does.
_NATIVE = (StringType, IntegerType, LongType, DateType)
#: Strings that rows in the default partition's folder may hold: its own name may have been a value.
_IN_FOLDER_OF_NULLS = ("", DEFAULT_PARTITION)
#: Characters that a URL's path does not encode.
_PLAIN = re.compile("[A-Za-z0-9_.~=/,-]*")
#: The scheme of the paths that Spark gets, and how `_metadata.file_path` then begins in the releases of `_KNOWN_RELEASES`. In
#: other releases every row's path is compared with it first, and searched for slashes if it begins differently.
_LOCAL_SCHEME = "file:"
_KNOWN_RELEASES = ("3.5.", "4.0.", "4.1.", "4.2.", "4.3.")
#: A length behind the end of every text.
_TO_THE_END = 1 << 30


@dataclass(frozen=True)
class PartitionColumns(FolderValues):
    """How each partition column of one table is read: from the partition path or from files. Pickled to the workers."""

    #: Whether some partition path has characters that a URL encodes.
    decode: bool = False
    #: The table's path, if columns are Spark's own partition columns.
    native_base: str | None = None
    #: What comes before the partition path in `_metadata.file_path`; None: not known, because a URL may encode it.
    prefix: str | None = None
    #: Whether file paths may not begin with `prefix`, because the release of Spark is not in `_KNOWN_RELEASES`.
    unsure: bool = True
    #: Partition columns that no file stores, because the table drops them.
    not_stored: frozenset[str] = frozenset()

    def is_stored(self, name: str, nulls: frozenset[str]) -> bool:
        """Whether Spark's Parquet scan has the column under its name: files store it, or it is Spark's own partition column.

        Args:
            nulls: the partition columns that are null or empty in the scanned files.
        """
        if name in self.places:
            return self.native_base is not None and not nulls
        return name not in self.not_stored

    def column(self, wanted: StructField, nulls: frozenset[str]) -> Column:
        """Return a Spark expression whose value is the partition column `wanted`, for files that Spark's Parquet scan reads.

        The value comes from the path of the file. In the default partition, and for a column that the path does not have, it is
        null or taken from the file. Called for a column that the scan does not have by its name (`is_stored` is false).

        Args:
            wanted: the name and type of the column in the query.
            nulls: the partition columns that are null or empty in the scanned files.
        """
        if wanted.name not in self.places:
            return F.lit(None).cast(wanted.dataType)
        if wanted.name in nulls:
            return _null_or_empty(wanted, None if wanted.name in self.not_stored else F.col(quoted(wanted.name)))
        text = self._text_column(wanted.name)
        return text if isinstance(wanted.dataType, StringType) else text.cast(wanted.dataType)

    def _text_column(self, name: str) -> Column:
        """Return a Spark expression whose value is a partition column as a string, cut out of the path of a row's file.

        Args:
            name: the name of the column.
        """
        text = self._path_column()
        place = self.places[name]
        if place is not None and self.depth > 1:
            text = F.substring_index(F.substring_index(text, "/", place + 1), "/", -1)
        if self.decode:
            text = url_decoded(text)
        if self.hive_style:
            text = F.substring(text, len(name) + 2, _TO_THE_END)
        # Spark encodes a path as a URL; Hudi may have encoded the value in it before.
        return url_decoded(text) if self.decode and self.url_encode else text

    def _path_column(self) -> Column:
        """Return a Spark expression whose value is the partition path of a row's file.

        The path is URL-encoded as in `_metadata.file_path`.
        """
        searched = F.substring_index(F.col("_metadata.file_path"), "/", -(self.depth + 1))
        searched = F.substring_index(searched, "/", self.depth)
        if self.prefix is None:
            return searched
        if not self.unsure:
            return _path_behind(self.prefix)
        is_known = F.col("_metadata.file_path").startswith(self.prefix)
        return F.when(is_known, _path_behind(self.prefix)).otherwise(searched)

    def column_in(self, wanted: StructField, partition_path: str) -> Column | str:
        """Return a Spark expression whose value is the column `wanted`, for the rows that workers read from one partition.

        This is a literal if the partition path has the value, otherwise the name of the column that workers send.

        Args:
            wanted: the name and type of the column in the query.
        """
        is_stored = wanted.name not in self.not_stored
        if wanted.name in self.nulls_of(partition_path):
            stored = F.col(quoted(wanted.name)) if is_stored else None
            return _null_or_empty(wanted, stored).alias(wanted.name)
        if wanted.name in self.places:
            return F.lit(self.text_in(wanted.name, partition_path)).cast(wanted.dataType).alias(wanted.name)
        if is_stored:
            return quoted(wanted.name)
        return F.lit(None).cast(wanted.dataType).alias(wanted.name)

    def with_texts(self, rows: pa.Table, partition_path: str) -> pa.Table:
        """Return a copy of rows of one partition, with the partition columns replaced by the values in the path, as strings.

        Runs in workers.
        """
        nulls = self.nulls_of(partition_path)
        for name in [name for name in rows.column_names if name in self.places]:
            stored = rows[name]
            if name not in nulls:
                column = pa.repeat(self.text_in(name, partition_path), len(rows))
            elif stored.type == pa.string():
                is_possible = pc.is_in(stored, pa.array(_IN_FOLDER_OF_NULLS, pa.string()))
                column = pc.if_else(is_possible, stored, pa.nulls(len(rows), pa.string()))
            else:
                column = pa.nulls(len(rows), pa.string())
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return rows


def _path_behind(prefix: str) -> Column:
    """Return a Spark expression whose value is the partition path of a row's file.

    This is the part of `_metadata.file_path` between `prefix` and the file's name. The expression cuts bytes, which is faster
    than cutting a string: Spark finds a character by counting from the beginning.
    """
    start = len(prefix) + 1
    length = f"octet_length(_metadata.file_path) - octet_length(_metadata.file_name) - {start}"
    return F.expr(f"cast(substring(cast(_metadata.file_path as binary), {start}, {length}) as string)")


def _null_or_empty(wanted: StructField, stored: Column | None) -> Column:
    """Return a Spark expression whose value is a partition column, for rows in the folder of the default partition.

    There the value is null; in a column of strings it may also be empty or the folder's name. The possible results are literals,
    so Spark can decide without opening a file that a filter on another value matches nothing.

    Args:
        wanted: the name and type of the column in the query.
        stored: the column as files store it; None: no file stores it, and the result is null.
    """
    null = F.lit(None).cast(wanted.dataType)
    if stored is None or not isinstance(wanted.dataType, StringType):
        return null
    return F.when(stored == "", F.lit("")).when(stored == DEFAULT_PARTITION, F.lit(DEFAULT_PARTITION)).otherwise(null)


def url_decoded(text: Column) -> Column:
    """Return a Spark expression whose value is a string column with `%XX` decoded.

    Unlike with Spark's `url_decode`, a plus sign stays unchanged.
    """
    return F.url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))


def choose_partition_columns(plan: QueryPlan, schema: StructType, release: str) -> PartitionColumns:
    """Choose which partition columns are taken from the partition path, and in which way.

    Args:
        schema: the columns of the query.
        release: the version of Spark, such as 4.0.1.
    """
    config = plan.table.config
    not_stored = frozenset(config.partition_fields) if config.drop_partition_columns else frozenset()
    if not config.partition_fields or not (_may_use_path(plan, schema) or not_stored):
        return PartitionColumns(not_stored=not_stored)
    paths = list(plan.slices)
    places = _find_places(plan, schema)
    is_plain = all(_PLAIN.fullmatch(path) for path in paths)
    is_native = (
        is_plain
        and config.hive_style
        and len(places) == len(config.partition_fields)
        and all(isinstance(schema[name].dataType, _NATIVE) for name in places)
    )
    return PartitionColumns(
        places=places,
        depth=len(paths[0].split("/")),
        hive_style=config.hive_style,
        url_encode=config.url_encode,
        decode=not is_plain,
        native_base=plan.table.base_path if is_native else None,
        prefix=_find_prefix(plan),
        unsure=not release.startswith(_KNOWN_RELEASES),
        not_stored=not_stored,
    )


def _find_places(plan: QueryPlan, schema: StructType) -> dict[str, int | None]:
    """Return the partition columns whose value the partition path determines, each with the position of its folder in the path.

    None instead of a position: the whole path is the value.
    """
    exact = [column.name for column in schema if isinstance(column.dataType, _ONE_TO_ONE)]
    texts = [column.name for column in schema if isinstance(column.dataType, StringType)]
    return find_places(plan, exact, texts)


def _find_prefix(plan: QueryPlan) -> str | None:
    """Return the part of `_metadata.file_path` before the partition path, so that the partition path can be cut out behind it.

    None if this part is not known, because Spark's URLs encode characters of the base path or of a file name.
    """
    base_path = plan.table.base_path
    names = [file_slice.base_file.name for file_slice in plan.all_slices if file_slice.base_file]
    is_plain = _PLAIN.fullmatch(base_path) and all(_PLAIN.fullmatch(name) for name in names)
    return f"{spark_path(plan.table, base_path)}/" if is_plain else None


def spark_path(table: TableState, path: str) -> str:
    """Return a path of the table's storage as Spark takes it: with the scheme that the user wrote, `file:` for a local path."""
    uri = table.storage.uri(path)
    return uri if split_scheme(uri)[0] else f"{_LOCAL_SCHEME}{uri}"


def _may_use_path(plan: QueryPlan, schema: StructType) -> bool:
    """Whether the query may take partition values from the partition path.

    True if `penstock.read.partition.values` is `path`, no column is named `_metadata`, and the key generator maps values to
    folders one to one.
    """
    if plan.query.options[o.READ_PARTITION_VALUES] != "path":
        return False
    if any(name.lower() == "_metadata" for name in schema.names):
        return False  # the table's column hides Spark's own of that name
    return keeps_values_in_folders(plan)
