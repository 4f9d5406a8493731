"""Spark expressions that convert columns to other types: of incoming rows in a write, and of files with older types in a query.

A value that cannot be converted raises an error that names the column, whatever Spark's ANSI mode is. On the driver
`error_text.typed_error` turns the text of Spark's exception into Penstock's error again.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, DecimalType, FractionalType, MapType, StringType, StructType

from penstock.error_text import marked_ends
from penstock.errors import SchemaError


def quoted(name: str) -> str:
    """Return a column name in backticks, as Spark's parser expects names with special characters."""
    return "`" + name.replace("`", "``") + "`"


def conform(value: Column, source: DataType, target: DataType, name: str) -> Column:
    """Return an expression that converts a value from the type `source` to the type `target`.

    Fields of structs are matched by name, not by position. A value that `target` cannot hold raises an error when Spark evaluates
    the row.

    Args:
        name: the name of the column, for error messages.
    """
    if source == target:
        return value
    if isinstance(source, StructType) and isinstance(target, StructType):
        fields = [_conform_field(value, source, field.name, field.dataType, name).alias(field.name) for field in target]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        source_element = source.elementType
        target_element = target.elementType
        return F.transform(value, lambda element: conform(element, source_element, target_element, f"{name}.element"))
    if isinstance(source, MapType) and isinstance(target, MapType):
        source_value = source.valueType
        target_value = target.valueType
        return F.transform_values(value, lambda _, inner: conform(inner, source_value, target_value, f"{name}.value"))
    return _cast(value, source, target, name)


def _conform_field(value: Column, source: StructType, field: str, target: DataType, name: str) -> Column:
    """Return an expression for one field of a struct in the type `target`; null if the source struct does not have the field.

    Args:
        value: the struct.
        field: the name of the field.
        name: the name of the struct's column, for error messages.
    """
    if field not in source.names:
        return F.lit(None).cast(target)
    return conform(value[field], source[field].dataType, target, f"{name}.{field}")


def _cast(value: Column, source: DataType, target: DataType, name: str) -> Column:
    """Return an expression that yields a value of type `source` cast to the type `target`.

    The expression raises SchemaError for a value that `target` cannot hold. Null stays null.

    Args:
        name: the name of the column, for the error message.
    """
    if isinstance(source, BinaryType) and isinstance(target, StringType):
        return _decode(value)
    if not _can_fail(source, target):
        return value.cast(target)
    cast = _try_cast(value, target)
    before, after = marked_ends(SchemaError)
    message = F.concat(
        F.lit(f"{before}column '{name}' is {target.simpleString()} in the table, and the value '"),
        value.cast("string"),
        F.lit(f"' cannot become one; correct it, or cast the column before writing{after}"),
    )
    return F.when(value.isNotNull() & cast.isNull(), F.raise_error(message).cast(target)).otherwise(cast)


def _decode(value: Column) -> Column:
    """Return an expression that yields bytes as a string, read as UTF-8. Bytes that are no text become U+FFFD, as in Hudi."""
    if hasattr(F, "make_valid_utf8"):
        return F.make_valid_utf8(value.cast("string"))
    return F.decode(value, "UTF-8")  # in PySpark 3.5; in PySpark 4 it raises an error for such bytes


def _try_cast(value: Column, target: DataType) -> Column:
    """Return an expression that yields a value cast to the type `target`; null if that type cannot hold the value."""
    if hasattr(Column, "try_cast"):  # asked of the class: every attribute of a Column object is a field of the value
        return value.try_cast(target)
    # PySpark 3.5 has try_cast only in SQL, where a lambda is the way to pass a column in.
    return F.call_function("transform", F.array(value), F.expr(f"value -> try_cast(value AS {target.simpleString()})"))[0]


def _can_fail(source: DataType, target: DataType) -> bool:
    """Whether there are values of the source type that the target type cannot hold."""
    if isinstance(target, DecimalType):
        return not isinstance(source, DecimalType) or _whole_digits(source) > _whole_digits(target)
    if isinstance(source, StringType):
        return True
    return isinstance(source, FractionalType) and not isinstance(target, FractionalType | StringType)


def _whole_digits(decimal: DecimalType) -> int:
    """Return the number of digits that a decimal type has before the decimal point."""
    return decimal.precision - decimal.scale
