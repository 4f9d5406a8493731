"""Finds columns that a base file holds in another type than the table\'s schema has.

The column types of a table only widen, and Spark's Parquet reader cannot widen every type (in PySpark 3.5, none). So a file that
holds a column in an older type is read in that type, and the column is cast. A file's types are those of the schema in the commit
that wrote it. If that commit is archived, the footer of one of its files is read instead.

A bulk_insert of Hudi writes the columns in the types of the incoming rows, below a commit whose schema has the table's types: a
column of strings may be doubles in its files. So the footer of a file is read for each commit that Penstock did not write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from penstock.errors import CorruptFile, SchemaError
from penstock.filegroup.base_read import open_base_file
from penstock.filegroup.model import BaseFile
from penstock.filegroup.names import is_marked_token, parse_base_name
from penstock.read.plan import QueryPlan
from penstock.schema import META_COLUMNS, arrow_to_avro, avro_to_spark
from penstock.timeline.store import read_schema

#: Types to which a column may be promoted, each wider than those before it.
_WIDER_TYPES: tuple[DataType, ...] = (IntegerType(), LongType(), FloatType(), DoubleType(), StringType())
#: Footers read at the same time.
_THREADS = 8


def find_older_types(plan: QueryPlan, schema: StructType) -> dict[str, tuple[StructField, ...]]:
    """Find the columns that base files hold in an older type than the query's.

    Args:
        schema: the columns of the query.

    Returns:
        Instant time → the columns whose type in the base files of this instant differs from `schema`, with the type in these
            files. Instants without a difference are left out.
    """
    files = {file_slice.base_file.instant: file_slice.base_file for file_slice in plan.all_slices if file_slice.base_file}
    if not files:
        return {}
    types = _read_types_of_commits(plan, files, schema)
    types |= _read_foreign_types(plan, files, schema, types)
    asked = {field.name: field.dataType for field in schema}
    older: dict[str, tuple[StructField, ...]] = {}
    for instant, stored in types.items():
        fields = tuple(field for field in stored if differs(field.dataType, asked[field.name]))
        if fields:
            older[instant] = fields
    return older


def _read_types_of_commits(plan: QueryPlan, files: Mapping[str, BaseFile], schema: StructType) -> dict[str, StructType]:
    """Return instant → the columns that its base files hold, by the schema of its commit; empty if all types are as in `schema`.

    Args:
        files: one base file of each instant.
    """

    @cache
    def read_types(instant: str) -> StructType:
        return _read_stored_columns(plan, files[instant], schema)

    # Types never narrow: if the oldest file has every column in the table's type, all files have.
    in_files = StructType([field for field in schema if field.name not in _not_in_files(plan)])
    if has_all_types(read_types(min(files)), in_files):
        return {}
    return _read_each(sorted(files), read_types)


def _read_foreign_types(
    plan: QueryPlan, files: Mapping[str, BaseFile], schema: StructType, of_commits: Mapping[str, StructType]
) -> dict[str, StructType]:
    """Return instant → the columns that its base files hold, by the footer of one file, for files that Penstock did not write.

    An instant is left out if its files have the types in the schema of its commit, or if the footer cannot be read: then the
    query itself will report the damage.

    Args:
        files: one base file of each instant.
        of_commits: instant → the columns of its base files, by the schema of its commit. An instant that is not in it has the
            columns of `schema`.
    """
    foreign = {instant: file for instant, file in files.items() if not _is_own(file)}
    if not foreign:
        return {}
    with ThreadPoolExecutor(_THREADS) as pool:
        footers = list(pool.map(partial(_read_footer, plan), foreign.values()))
    types: dict[str, StructType] = {}
    for instant, footer in zip(foreign, footers, strict=True):
        known = of_commits.get(instant, schema)
        narrowed = narrow(known, footer)
        if differs(narrowed, known):
            types[instant] = narrowed
    return types


def _is_own(file: BaseFile) -> bool:
    """Whether Penstock wrote the base file: its name has Penstock's mark."""
    name = parse_base_name(file.name)
    return name is not None and is_marked_token(name.write_token, file.instant)


def _read_footer(plan: QueryPlan, file: BaseFile) -> StructType:
    """Return the columns of a base file by its footer; none if the footer cannot be read."""
    try:
        return _read_file_schema(plan, file)
    except (CorruptFile, SchemaError):
        return StructType()


def narrow(asked: StructType, stored: StructType) -> StructType:
    """Return the columns of `asked`, each in its type in `stored` if that type can be promoted to the asked type.

    Any other column keeps its asked type. The fields of structs, the elements of arrays and the values of maps are treated in the
    same way, at any depth.
    """
    fields = []
    for field in asked:
        kind = _narrow_type(field.dataType, stored[field.name].dataType) if field.name in stored.names else field.dataType
        fields.append(StructField(field.name, kind))
    return StructType(fields)


def _narrow_type(asked: DataType, stored: DataType) -> DataType:
    """Return `stored` if it is a type that can be promoted to `asked`, at any depth; otherwise `asked`."""
    if isinstance(asked, StructType) and isinstance(stored, StructType):
        return narrow(asked, stored)
    if isinstance(asked, ArrayType) and isinstance(stored, ArrayType):
        return ArrayType(_narrow_type(asked.elementType, stored.elementType))
    if isinstance(asked, MapType) and isinstance(stored, MapType):
        return MapType(asked.keyType, _narrow_type(asked.valueType, stored.valueType))
    if asked in _WIDER_TYPES and stored in _WIDER_TYPES[: _WIDER_TYPES.index(asked)]:
        return stored
    return asked


def _not_in_files(plan: QueryPlan) -> set[str]:
    """Return the columns that no commit's schema has: the meta columns, and partition columns if the table drops them."""
    config = plan.table.config
    return {*META_COLUMNS, *(config.partition_fields if config.drop_partition_columns else ())}


def _read_each(instants: Sequence[str], read_types: Callable[[str], StructType]) -> dict[str, StructType]:
    """Return the stored columns of the base files of each instant, with few calls of `read_types`.

    If files of two instants have the same columns, so have all files in between, because types only widen. If the columns differ,
    the span between the two instants is halved.

    Args:
        instants: instants of base files, ascending.
        read_types: reads the stored columns of the base files of one instant.
    """
    stored = {instant: read_types(instant) for instant in (instants[0], instants[-1])}
    spans = [(0, len(instants) - 1)]
    while spans:
        first, last = spans.pop()
        if stored[instants[first]] == stored[instants[last]]:
            stored |= dict.fromkeys(instants[first:last], stored[instants[first]])
        elif last - first > 1:
            middle = (first + last) // 2
            stored[instants[middle]] = read_types(instants[middle])
            spans += [(first, middle), (middle, last)]
    return stored


def _read_stored_columns(plan: QueryPlan, base_file: BaseFile, schema: StructType) -> StructType:
    """Return the columns of `schema` that a base file holds, in the file's types.

    The types come from the commit that wrote the file if the commit is on the active timeline, otherwise from the file's footer.
    The result is empty if neither can be read.
    """
    table = plan.table
    write = next((instant for instant in table.timeline.writes if instant.time == base_file.instant), None)
    commit_schema = None
    if write is not None:
        _, commit_schema = read_schema(table.storage, table.base_path, write, is_final=table.is_final(write))
    try:
        if commit_schema:
            stored = StructType.fromJson(avro_to_spark(json.loads(commit_schema)))
        else:
            stored = _read_file_schema(plan, base_file)
    except (CorruptFile, SchemaError):
        return StructType()
    return StructType([field for field in stored if field.name in schema.names])


def _read_file_schema(plan: QueryPlan, base_file: BaseFile) -> StructType:
    """Return the columns of a base file in Spark's types, from its footer."""
    file = open_base_file(plan.table.storage, base_file.path)
    return StructType.fromJson(avro_to_spark(arrow_to_avro(file.schema_arrow, plan.table.config.name)))


def differs(stored: DataType, asked: DataType) -> bool:
    """Whether a type in a file differs from the asked type, at any depth. Struct fields that only one type has are ignored."""
    if isinstance(stored, StructType) and isinstance(asked, StructType):
        shared = [field for field in stored if field.name in asked.names]
        return any(differs(field.dataType, asked[field.name].dataType) for field in shared)
    if isinstance(stored, ArrayType) and isinstance(asked, ArrayType):
        return differs(stored.elementType, asked.elementType)
    if isinstance(stored, MapType) and isinstance(asked, MapType):
        return differs(stored.valueType, asked.valueType)
    return stored != asked


def has_all_types(stored: DataType, asked: DataType) -> bool:
    """Whether the type `stored` has every field of the type `asked`, at any depth, in the same type. It may have more fields."""
    if isinstance(stored, StructType) and isinstance(asked, StructType):
        return all(field.name in stored.names and has_all_types(stored[field.name].dataType, field.dataType) for field in asked)
    if isinstance(stored, ArrayType) and isinstance(asked, ArrayType):
        return has_all_types(stored.elementType, asked.elementType)
    if isinstance(stored, MapType) and isinstance(asked, MapType):
        return has_all_types(stored.valueType, asked.valueType)
    return stored == asked
