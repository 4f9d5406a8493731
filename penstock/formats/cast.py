"""Casts Arrow tables to another schema: the rows of a file to the current schema of the Hudi table, or to the columns of a query.

Columns and nested fields are matched by name. Numbers that become text are printed as Java prints them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.formats.java_numbers import print_floats


def fit_to_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast an Arrow table to `schema`. Return its rows with the columns of `schema`, in that order and with those types.

    A column that the Arrow table lacks is all null. Columns that `schema` lacks are dropped.

    Raises:
        SchemaError: a column cannot be cast without loss.
    """
    if table.schema.equals(schema):
        return table
    names = frozenset(table.column_names)
    columns = [_cast_column(table, field) if field.name in names else pa.nulls(table.num_rows, field.type) for field in schema]
    return pa.table(columns, schema=schema)


def _cast_column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    """Return the column of an Arrow table with the name of `field`, cast to the type of `field`.

    Raises:
        SchemaError: the column cannot be cast without loss.
    """
    column = table[field.name]
    if column.type.equals(field.type):
        return column
    try:
        if _has_same_shape(column.type, field.type):
            return _cast(column, field.type)
        return _rebuild(column.combine_chunks(), field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise SchemaError(f"column {field.name!r} is stored as {column.type} and cannot become {field.type}: {e}") from e


def _has_same_shape(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether Arrow's own cast from type `old` to type `new` is correct.

    Arrow matches the fields of structs by position and does not check for nulls. So Arrow's cast is correct only if both types
    have the same fields in the same order, and no field is nullable in the old type but not in the new one. Arrow also prints
    floating-point numbers in another format than Java, so its cast from a number of this kind to text is not correct.
    """
    if pa.types.is_struct(new):
        if not pa.types.is_struct(old) or [field.name for field in old] != [field.name for field in new]:
            return False
        for old_field, new_field in zip(old, new, strict=True):
            if old_field.nullable and not new_field.nullable:
                return False
            if not _has_same_shape(old_field.type, new_field.type):
                return False
        return True
    if pa.types.is_map(new):
        return pa.types.is_map(old) and _has_same_shape(old.item_type, new.item_type)
    if pa.types.is_list(new):
        return pa.types.is_list(old) and _has_same_shape(old.value_type, new.value_type)
    return not pa.types.is_nested(old) and not _becomes_text(old, new)


def _becomes_text(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether a cast from `old` to `new` makes text of floating-point numbers. Arrow prints them in another format than Java."""
    return pa.types.is_floating(old) and pa.types.is_string(new)


def _rebuild(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array to the type `kind` where Arrow's own cast is not correct.

    Struct fields are matched by name, and missing fields become null. Floating-point numbers become text as Java prints them.
    """
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if array.type.equals(kind):
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return _rebuild_struct(array, kind)
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        keys = _rebuild(array.keys, kind.key_type)
        items = _rebuild(array.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets_with_nulls(array), keys, items, type=kind)
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(_offsets_with_nulls(array), _rebuild(array.values, kind.value_type), type=kind)
    if _becomes_text(array.type, kind):
        return print_floats(array)
    return _cast(array, kind)


def _rebuild_struct(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a struct array to the struct type `kind`. Raises ArrowInvalid if a field that must not be null holds null."""
    numbers = {field.name: number for number, field in enumerate(array.type)}
    children = []
    for field in kind:
        if field.name in numbers:
            child = _rebuild(array.field(numbers[field.name]), field.type)
        else:
            child = pa.nulls(len(array), field.type)
        # A child is null, too, where the struct itself is null: that is allowed.
        if not field.nullable and pc.any(pc.and_(pc.is_valid(array), pc.is_null(child))).as_py():
            raise pa.ArrowInvalid(f"field {field.name!r} holds null, which its schema does not allow")
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=pc.is_null(array))


def _cast(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    """Cast a column to the type `kind` with Arrow. Raises ArrowInvalid if a value would change.

    Only a cast to a floating-point type may change values: a large long becomes the nearest float.
    """
    try:
        return pc.cast(column, options=pc.CastOptions(kind, allow_float_truncate=pa.types.is_floating(kind)))
    except pa.ArrowInvalid:
        if pa.types.is_binary(column.type) and pa.types.is_string(kind):
            return _decode(column)
        raise


def _decode(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return a column of bytes as strings, read as UTF-8. Bytes that are no text become U+FFFD, as in Hudi.

    Arrow has no function for it, so values are decoded one by one. Called only for a column that has such bytes.
    """
    decoded = [None if value is None else value.decode("utf-8", "replace") for value in column.to_pylist()]
    array = pa.array(decoded, pa.string())
    return pa.chunked_array([array]) if isinstance(column, pa.ChunkedArray) else array


def _offsets_with_nulls(array: pa.Array) -> pa.Array:
    """Return the offsets of a list or map array, for Arrow's `from_arrays`. A null list has null in place of its offset."""
    if not array.null_count:
        return array.offsets
    mask = pa.concat_arrays([pc.is_null(array), pa.array([False])])
    return pc.if_else(mask, pa.scalar(None, pa.int32()), array.offsets)
