"""Partition columns as expressions over a file's path.

`_metadata.file_path` is known before a file is opened. Where a partition's folder says exactly what the column holds, the
column is given as that piece of the path, and Spark drops the files of other partitions while planning. Where folder and
value do not map one to one (times, floating point, nested folders, several kinds of null), the stored column is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
from penstock.keys.paths import DEFAULT_PARTITION
from penstock.read.plan import Plan

_ONE_TO_ONE = (StringType, IntegerType, LongType, BooleanType, DateType, DecimalType)
#: Characters that stand for themselves in a URL's path, so that nothing has to be decoded.
_PLAIN = re.compile(r"^[A-Za-z0-9_.~=/,-]*$")


@dataclass(frozen=True)
class PartitionColumns:
    """How each column is read."""

    #: Column name → where its text is: components from the end of the path, 1 being the partition's last folder.
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    hive_style: bool = False
    url_encode: bool = False
    decode: bool = False
    #: Partition paths whose rows do not all have one value, as the folder of nulls and empty texts.
    by_stored_value: frozenset[str] = frozenset()
    #: Columns that are not in the files at all.
    not_stored: frozenset[str] = frozenset()

    def stored(self) -> PartitionColumns:
        """The same table with every column read from the files."""
        return replace(self, places={n: p for n, p in self.places.items() if n in self.not_stored}, by_stored_value=frozenset())

    def column(self, wanted: StructField) -> Column:
        """The expression for a column of the table."""
        if wanted.name in self.places:
            first, count = self.places[wanted.name]
            return self._typed(self._text(wanted.name, first, count), wanted.dataType)
        return F.col("`" + wanted.name.replace("`", "``") + "`")

    def _text(self, name: str, last: int, count: int) -> Column:
        """Components `last+count-1 … last` from the end, counted without the file's name."""
        path = F.col("_metadata.file_path")
        text = F.substring_index(path, "/", -(last + count))
        text = F.substring_index(text, "/", count)
        if self.decode:
            text = url_decoded(text)
        if self.hive_style:
            text = F.substring(text, len(name) + 2, 1 << 30)
        return url_decoded(text) if self.url_encode and self.decode else text

    def _typed(self, text: Column, kind: DataType) -> Column:
        return text if isinstance(kind, StringType) else text.cast(kind)


def url_decoded(text: Column) -> Column:
    """`%XX` decoded; a plus sign stays one."""
    return F.url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))


def path_columns(plan: Plan, schema: StructType) -> PartitionColumns:
    """Which columns of the table can be taken from the path."""
    config = plan.table.config
    fields, paths = config.partition_fields, list(plan.slices)
    not_stored = frozenset(fields) if config.drop_partition_columns else frozenset()
    if not fields or not (_from_path(plan) or not_stored):
        return PartitionColumns(not_stored=not_stored)
    depths = {len(p.split("/")) for p in paths}
    kinds = {f.name: f.dataType for f in schema}
    single = len(fields) == 1 and len(depths) == 1 and not config.hive_style
    if depths != {len(fields)} and not single:
        return PartitionColumns(not_stored=not_stored)
    count = depths.pop() if single else 1
    places = {
        name: (len(fields) - i if not single else 1, count)
        for i, name in enumerate(fields)
        if isinstance(kinds.get(name), _ONE_TO_ONE)
    }
    defaults = {p for p in paths if any(c.endswith(DEFAULT_PARTITION) for c in p.split("/"))}
    return PartitionColumns(
        places=places,
        hive_style=config.hive_style,
        url_encode=config.url_encode,
        decode=not all(_PLAIN.match(p) for p in paths),
        by_stored_value=frozenset(defaults),
        not_stored=not_stored,
    )


def _from_path(plan: Plan) -> bool:
    """Whether path and value map one to one by the table's key generator, and the reader lets us use that."""
    if plan.query.options[o.READ_PARTITION_VALUES] != "path":
        return False
    generator = plan.table.config.key_generator_class or ""
    return not ("Timestamp" in generator or "Custom" in generator)
