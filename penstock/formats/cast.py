"""Rows of an older or wider file, in the schema the table has now. A kernel: Arrow tables in and out."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError


def fit_to_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table's columns by name, in the schema's order and types; nulls where it has no such column."""
    if table.schema.equals(schema):
        return table
    columns = [_column(table, field) for field in schema]
    return pa.table(columns, schema=schema)


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    column = table[field.name]
    if column.type.equals(field.type):
        return column
    try:
        if _same_shape(column.type, field.type):
            return _cast(column, field.type)
        return _nested(column.combine_chunks(), field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise SchemaError(f"column {field.name!r} is stored as {column.type} and cannot become {field.type}: {e}") from e


def _same_shape(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether nested fields agree by name and order, and none may be null only in the old, so that a plain cast does what is
    meant."""
    if pa.types.is_struct(new):
        return (
            pa.types.is_struct(old)
            and [f.name for f in old] == [f.name for f in new]
            and all((n.nullable or not o.nullable) and _same_shape(o.type, n.type) for o, n in zip(old, new, strict=True))
        )
    if pa.types.is_map(new):
        return pa.types.is_map(old) and _same_shape(old.item_type, new.item_type)
    if pa.types.is_list(new):
        return pa.types.is_list(old) and _same_shape(old.value_type, new.value_type)
    return not pa.types.is_nested(old)


def _nested(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Rebuild a nested array field by field, matched by name."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if array.type.equals(kind):
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        have = {f.name: i for i, f in enumerate(array.type)}
        children = [_nested(array.field(have[f.name]), f.type) if f.name in have else pa.nulls(len(array), f.type) for f in kind]
        for field, child in zip(kind, children, strict=True):
            if not field.nullable and pc.any(pc.and_(pc.is_valid(array), pc.is_null(child))).as_py():
                raise pa.ArrowInvalid(f"field {field.name!r} holds null, which its schema does not allow")
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pc.is_null(array))
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        keys, items = _nested(array.keys, kind.key_type), _nested(array.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=kind)
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(_offsets(array), _nested(array.values, kind.value_type), type=kind)
    return _cast(array, kind)


def _cast(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    """A cast that refuses to lose anything but the last digits of a whole number that becomes floating point."""
    return pc.cast(column, options=pc.CastOptions(kind, allow_float_truncate=pa.types.is_floating(kind)))


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets that carry the list's nulls: a null offset marks a null list."""
    if not array.null_count:
        return array.offsets
    mask = pa.concat_arrays([pc.is_null(array), pa.array([False])])
    return pc.if_else(mask, pa.scalar(None, pa.int32()), array.offsets)
