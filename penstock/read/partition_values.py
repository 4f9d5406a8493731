"""Partition columns out of a file's path, so that Spark drops the files of other partitions while it plans.

Where a partition's folder says exactly what the column holds, the column comes from there, in one of three ways:

- by Spark's own partition columns, where folders are `column=value` in plain characters: they cost nothing per row;
- by a slice of `_metadata.file_path` between the table's path and the file's name, where both are plain: a few bytes
  copied per row, then cut at slashes and decoded if there is a need to;
- by searching `_metadata.file_path` for its slashes from the end, otherwise.

`_metadata.file_path` is known before a file is opened, and a filter on an expression over it, put there later by `where`, a
view or SQL, is evaluated on the list of files. Where folder and value do not map one to one (times, floating point), the
stored column is used. The folder of nulls and empty texts is read by itself: its column can hold nothing else, and says so
in a form in which Spark sees that a filter on another value finds nothing there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
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
from penstock.read.plan import QueryPlan

_ONE_TO_ONE = (StringType, IntegerType, LongType, BooleanType, DateType, DecimalType)
#: Types that Spark's own partition columns read as we do.
_NATIVE = (StringType, IntegerType, LongType, DateType)
#: Texts that the folder of nulls holds.
_IN_FOLDER_OF_NULLS = ("", DEFAULT_PARTITION)
#: Characters that stand for themselves in a URL's path, so that nothing has to be decoded.
_PLAIN = re.compile("[A-Za-z0-9_.~=/,-]*")
#: How a local file is named to Spark, and how `_metadata.file_path` spells it then in the releases that were looked at; in
#: others every row's path is compared with it first, and searched if it is spelled otherwise.
SCHEME = "file:"
_SPELLED_SO = ("3.5.", "4.0.", "4.1.", "4.2.", "4.3.")


@dataclass(frozen=True)
class PartitionColumns:
    """How each partition column of one table is read."""

    #: Column → the folder of the partition path that holds it, counted from 0; None if all of them together do.
    places: Mapping[str, int | None] = field(default_factory=dict)
    #: How many folders a partition path has.
    depth: int = 0
    hive_style: bool = False
    url_encode: bool = False
    #: Paths have characters that a URL spells otherwise.
    decode: bool = False
    #: The table's path, if columns are Spark's own partition columns.
    native_base: str | None = None
    #: What stands before the partition path in a file's path, if that is known to the letter.
    prefix: str | None = None
    #: Whether file paths may be spelled otherwise after all.
    unsure: bool = True
    #: Columns that are not in the files at all.
    not_stored: frozenset[str] = frozenset()

    def nulls_of(self, partition_path: str) -> frozenset[str]:
        """The columns that are null or empty in a partition."""
        folders = partition_path.split("/")
        return frozenset(
            name
            for name, at in self.places.items()
            if at is not None and folders[at].removeprefix(f"{name}=" if self.hive_style else "") == DEFAULT_PARTITION
        )

    def is_stored(self, name: str, nulls: frozenset[str]) -> bool:
        """Whether a column is read as the scan gives it, from files or as Spark's own partition column."""
        if name in self.places:
            return self.native_base is not None and not nulls
        return name not in self.not_stored

    def column(self, wanted: StructField, nulls: frozenset[str]) -> Column:
        """The expression for a column that is not read as the scan gives it, in partitions where `nulls` are null or empty."""
        if wanted.name not in self.places:
            return F.lit(None).cast(wanted.dataType)
        if wanted.name in nulls:
            return _null_or_empty(wanted, None if wanted.name in self.not_stored else F.col(quoted(wanted.name)))
        text = self._text(wanted.name)
        return text if isinstance(wanted.dataType, StringType) else text.cast(wanted.dataType)

    def _text(self, name: str) -> Column:
        """The column's value as text, cut out of the partition path."""
        text, at = self._path(), self.places[name]
        if at is not None and self.depth > 1:
            text = F.substring_index(F.substring_index(text, "/", at + 1), "/", -1)
        if self.decode:
            text = url_decoded(text)
        if self.hive_style:
            text = F.substring(text, len(name) + 2, 1 << 30)
        return url_decoded(text) if self.decode and self.url_encode else text

    def _path(self) -> Column:
        """The partition path, as a file's URL spells it."""
        text = F.substring_index(F.col("_metadata.file_path"), "/", -(self.depth + 1))
        text = F.substring_index(text, "/", self.depth)
        if self.prefix is None:
            return text
        if not self.unsure:
            return _between(self.prefix)
        return F.when(F.col("_metadata.file_path").startswith(self.prefix), _between(self.prefix)).otherwise(text)

    def column_in(self, wanted: StructField, partition_path: str) -> Column | str:
        """A column in rows of one partition that do not come straight from a file: a literal, if it can be, or a plain name."""
        stored = None if wanted.name in self.not_stored else quoted(wanted.name)
        if wanted.name in self.nulls_of(partition_path):
            return _null_or_empty(wanted, None if stored is None else F.col(stored)).alias(wanted.name)
        if wanted.name not in self.places:
            return F.lit(None).cast(wanted.dataType).alias(wanted.name) if stored is None else stored
        return F.lit(self._text_in(wanted.name, partition_path)).cast(wanted.dataType).alias(wanted.name)

    def _text_in(self, name: str, partition_path: str) -> str:
        """The text that a partition's folders say a column has."""
        text, at = partition_path, self.places[name]
        if at is not None:
            text = text.split("/")[at].removeprefix(f"{name}=" if self.hive_style else "")
        return unquote(text) if self.url_encode else text

    def with_texts(self, rows: pa.Table, partition_path: str) -> pa.Table:
        """Kernel: rows of one partition; what its folders say, as text, takes the place of the columns that are read there."""
        nulls = self.nulls_of(partition_path)
        for name in (name for name in rows.column_names if name in self.places):
            at, stored = rows.schema.get_field_index(name), rows[name]
            if name not in nulls:
                column = pa.repeat(self._text_in(name, partition_path), len(rows))
            elif stored.type == pa.string():
                is_told = pc.is_in(stored, pa.array(_IN_FOLDER_OF_NULLS, pa.string()))
                column = pc.if_else(is_told, stored, pa.nulls(len(rows), pa.string()))
            else:
                column = pa.nulls(len(rows), pa.string())
            rows = rows.set_column(at, name, column)
        return rows


def _between(prefix: str) -> Column:
    """The bytes of a file's path between a prefix and the slash before the file's name; cheap, whatever the path's length."""
    start = len(prefix) + 1
    length = f"octet_length(_metadata.file_path) - octet_length(_metadata.file_name) - {start}"
    return F.expr(f"cast(substring(cast(_metadata.file_path as binary), {start}, {length}) as string)")


def _null_or_empty(wanted: StructField, stored: Column | None) -> Column:
    """A column in the folder of nulls and empty texts; only literals, so that Spark can decide filters without a file."""
    null = F.lit(None).cast(wanted.dataType)
    if stored is None or not isinstance(wanted.dataType, StringType):
        return null
    return F.when(stored == "", F.lit("")).when(stored == DEFAULT_PARTITION, F.lit(DEFAULT_PARTITION)).otherwise(null)


def url_decoded(text: Column) -> Column:
    """`%XX` decoded; a plus sign stays one."""
    return F.url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))


def path_columns(plan: QueryPlan, schema: StructType, release: str) -> PartitionColumns:
    """Which columns of the table can be taken from the path, and how, by a release of Spark."""
    config = plan.table.config
    fields, paths = config.partition_fields, list(plan.slices)
    not_stored = frozenset(fields) if config.drop_partition_columns else frozenset()
    if not fields or not (_from_path(plan, schema) or not_stored):
        return PartitionColumns(not_stored=not_stored)
    places = _places(plan, schema)
    plain = all(_PLAIN.fullmatch(p) for p in paths)
    native = plain and config.hive_style and len(places) == len(fields)
    native = native and all(isinstance(schema[name].dataType, _NATIVE) for name in places)
    return PartitionColumns(
        places=places,
        depth=len(paths[0].split("/")),
        hive_style=config.hive_style,
        url_encode=config.url_encode,
        decode=not plain,
        native_base=plan.table.base_path if native else None,
        prefix=_prefix(plan),
        unsure=not release.startswith(_SPELLED_SO),
        not_stored=not_stored,
    )


def _places(plan: QueryPlan, schema: StructType) -> dict[str, int | None]:
    """Where in the path each column's value is; empty if paths and columns do not correspond."""
    config, paths = plan.table.config, list(plan.slices)
    fields = config.partition_fields
    depths = {len(p.split("/")) for p in paths}
    if len(depths) != 1:
        return {}
    depth = depths.pop()
    kinds = {f.name: f.dataType for f in schema}
    if len(fields) == 1 and depth > 1 and not config.hive_style and isinstance(kinds.get(fields[0]), StringType):
        return {fields[0]: None}
    if depth != len(fields):
        return {}
    if config.hive_style and not all(_is_hive_style(p, fields) for p in paths):
        return {}
    return {name: at for at, name in enumerate(fields) if _is_one_to_one(kinds.get(name))}


def _is_hive_style(path: str, fields: Iterable[str]) -> bool:
    return all(part.startswith(f"{name}=") for part, name in zip(path.split("/"), fields, strict=True))


def _is_one_to_one(kind: DataType | None) -> bool:
    return isinstance(kind, _ONE_TO_ONE)


def _prefix(plan: QueryPlan) -> str | None:
    """What file paths begin with, if it and the files' names are spelled in a URL as they are."""
    base = plan.table.base_path
    files = [s.base_file.name for its in plan.slices.values() for s in its if s.base_file]
    is_plain = _PLAIN.fullmatch(base) and all(_PLAIN.fullmatch(f) for f in files)
    return f"{SCHEME}{base}/" if is_plain else None


def _from_path(plan: QueryPlan, schema: StructType) -> bool:
    """Whether path and value map one to one by the table's key generator, and the reader lets us use that."""
    if plan.query.options[o.READ_PARTITION_VALUES] != "path" or any(n.lower() == "_metadata" for n in schema.names):
        return False
    generator = plan.table.config.key_generator_class or ""
    return not any(kind in generator for kind in ("Timestamp", "Custom", "Nonpartitioned", "Global"))
