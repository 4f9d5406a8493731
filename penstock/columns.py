"""Values of one Spark type in another, as expressions: incoming rows on their way into a table, old files on their way out.

A value that cannot become what is asked is an error that names the column, whatever Spark's ANSI mode is; it is found
again on the driver by `keys.failures.typed_error`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, FractionalType, MapType, StringType, StructType

from penstock.error_text import marked_ends
from penstock.errors import SchemaError


def quoted(name: str) -> str:
    """A column name as Spark's parser takes it, whatever characters it holds."""
    return "`" + name.replace("`", "``") + "`"


def conform(value: Column, source: DataType, target: DataType, name: str) -> Column:
    """A value of one type in another, nested fields matched by name (a cast would match them by position)."""
    if source == target:
        return value
    if isinstance(source, StructType) and isinstance(target, StructType):
        fields = [_field(value, source, f.name, f.dataType, name).alias(f.name) for f in target]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        inner, wanted = source.elementType, target.elementType
        return F.transform(value, lambda x: conform(x, inner, wanted, f"{name}.element"))
    if isinstance(source, MapType) and isinstance(target, MapType):
        inner, wanted = source.valueType, target.valueType
        return F.transform_values(value, lambda _, x: conform(x, inner, wanted, f"{name}.value"))
    return _cast(value, source, target, name)


def _field(value: Column, source: StructType, field: str, kind: DataType, name: str) -> Column:
    if field not in source.names:
        return F.lit(None).cast(kind)
    return conform(value[field], source[field].dataType, kind, f"{name}.{field}")


def _cast(value: Column, source: DataType, target: DataType, name: str) -> Column:
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


def _try_cast(value: Column, target: DataType) -> Column:
    """The value in another type, or null where it has none there."""
    if hasattr(Column, "try_cast"):  # not asked of the value: that has every attribute, as a field of itself
        return value.try_cast(target)
    # PySpark 3.5 has it in SQL only, where a lambda is the way to hand a column over
    return F.call_function("transform", F.array(value), F.expr(f"value -> try_cast(value AS {target.simpleString()})"))[0]


def _can_fail(source: DataType, target: DataType) -> bool:
    """Whether some values of one type have no place in the other."""
    if isinstance(target, DecimalType):
        return not isinstance(source, DecimalType) or _digits(source) > _digits(target)
    return isinstance(source, StringType) or (
        isinstance(source, FractionalType) and not isinstance(target, FractionalType | StringType)
    )


def _digits(kind: DecimalType) -> int:
    return kind.precision - kind.scale
