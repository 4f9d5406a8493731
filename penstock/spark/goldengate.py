"""`ogg_rows`: turns Oracle GoldenGate's JSON changes into rows for the payload `penstock.ogg`. Spark expressions only.

Each change is parsed as maps from column name to string, because a map distinguishes an absent column from a null one. Then the
strings are cast to the types of the columns. Decimals are parsed a second time with their type, because Spark converts a JSON
number to a string through a double.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, DecimalType, MapType, StringType, StructType

from penstock.columns import quoted
from penstock.error_text import marked_ends
from penstock.errors import SchemaError
from penstock.merge.column_mask import MASK
from penstock.merge.goldengate import OPERATION, OPERATIONS, POSITION, POSITION_DIGITS

_JSON = "_penstock_json"
_CHANGE = "_penstock_change"
_EXACT = "_penstock_exact"
_SIDES = ("before", "after")
_MEMBERS = f"{OPERATION} string, {POSITION} string, before map<string, string>, after map<string, string>"
_SHOWN = 200


def ogg_rows(changes: DataFrame, column: str, schema: StructType | str, *, ignore_unknown: bool = False) -> DataFrame:
    """Return one row per change of Oracle GoldenGate's JSON, for the payload `penstock.ogg`.

    The rows have the table's columns, then `op_type`, `pos` and `_changed_columns`: the columns that an update supplies, which
    are those of its `after`, null or not. Names match in any case. If an update has `before`, its values fill columns that
    `after` lacks, for a key that is not stored yet; these columns are still absent from `_changed_columns`. Texts and numbers
    are cast to the column's type; bytes are decoded from Base64.

    Args:
        changes: a DataFrame with the JSON texts.
        column: the column that holds them.
        schema: the table's columns with their types, as a `StructType` or as DDL text.
        ignore_unknown: drop columns that the table does not have.

    Raises:
        SchemaError: when the rows are written: invalid JSON, an unknown operation, a change without columns or position, an
            unknown column, or a value that does not fit the type of its column.

    Example:
        >>> changes = spark.createDataFrame([('{"op_type": "U", "pos": "7", "after": {"ID": 1, "NAME": null}}',)], "value string")
        >>> row = penstock.ogg_rows(changes, "value", "id long, name string, price double").first()
        >>> row.id, row.name, row.price, row._changed_columns
        (1, None, None, ['id', 'name'])
    """
    struct = schema if isinstance(schema, StructType) else changes.sparkSession.createDataFrame([], schema).schema
    kinds = {field.name: field.dataType for field in struct if field.name not in (OPERATION, POSITION, MASK)}
    decimals = {name: kind for name, kind in kinds.items() if isinstance(kind, DecimalType)}
    exact = _exact(decimals)
    parsed = changes.select(F.col(quoted(column)).alias(_JSON)).select(
        F.col(_JSON), F.from_json(_JSON, _MEMBERS).alias(_CHANGE), *exact
    )
    lowered = parsed.select(
        _JSON, *(f"{_EXACT}{i}" for i in range(len(exact))), f"{_CHANGE}.{POSITION}", _operation(), *map(_lowered, _SIDES)
    )
    return lowered.select(
        *(_value(name, kind, list(decimals)).alias(name) for name, kind in kinds.items()),
        _checked(kinds, ignore_unknown).alias(OPERATION),
        F.expr(f"lpad({POSITION}, greatest({POSITION_DIGITS}, length({POSITION})), '0')").alias(POSITION),
        _supplied(list(kinds)).alias(MASK),
    )


def _exact(decimals: Mapping[str, DataType]) -> list[Column]:
    """Return expressions that parse the decimal columns with their types, one for each spelling of the names (`_spellings`).

    Several spellings are needed because Spark's JSON parser is case-sensitive.

    Args:
        decimals: column → decimal type.
    """
    found = []
    for number, spelled in enumerate(_spellings(list(decimals))):
        members = ", ".join(f"{quoted(n)}: {k.simpleString()}" for n, k in zip(spelled, decimals.values(), strict=True))
        sides = ", ".join(f"{side} struct<{members}>" for side in _SIDES)
        found.append(F.from_json(_JSON, sides).alias(f"{_EXACT}{number}"))
    return found


def _spellings(names: list[str]) -> list[tuple[str, ...]]:
    """Return the list of names in up to three spellings: unchanged, all in lower case and all in upper case."""
    if not names:
        return []
    return list(dict.fromkeys((tuple(names), tuple(n.lower() for n in names), tuple(n.upper() for n in names))))


def _operation() -> Column:
    """Return an expression for the operation of a change, in upper case."""
    return F.upper(F.col(f"{_CHANGE}.{OPERATION}")).alias(OPERATION)


def _lowered(side: str) -> Column:
    """Return an expression for one side of a change (`before` or `after`) as a map from column name in lower case to string.

    The map is empty if the change does not have the side.
    """
    return F.expr(f"coalesce(transform_keys({_CHANGE}.{side}, (k, v) -> lower(k)), map())").alias(side)


def _value(name: str, kind: DataType, decimals: list[str]) -> Column:
    """Return an expression for a column's value in a change, in its type. It raises SchemaError if the value does not fit.

    The value comes from `after`. If `after` lacks the column and the change is not an insert, it comes from `before`.

    Args:
        kind: the type of the column.
        decimals: the names of all decimal columns.
    """
    key = _literal(name.lower())
    in_after = f"(map_contains_key(after, {key}) or {OPERATION} = 'I')"
    text = f"if({in_after}, try_element_at(after, {key}), try_element_at(before, {key}))"
    if isinstance(kind, StringType):
        return F.expr(text)
    found = _cast(text, kind)
    if isinstance(kind, DecimalType):
        at = decimals.index(name)
        spelled = [f"{_EXACT}{i}.{{}}.{quoted(names[at])}" for i, names in enumerate(_spellings(decimals))]
        after, before = (", ".join(s.format(side) for s in spelled) for side in ("after", "before"))
        found = f"if({in_after}, coalesce({after}, null), coalesce({before}, null))"
        found = f"coalesce({found}, {_cast(text, kind)})"
    shown = f"a GoldenGate change holds a value that does not fit column {name!r} ({kind.simpleString()}): "
    return F.expr(f"if({text} is not null and {found} is null, {_raised(shown)}, {found})")


def _cast(text: str, kind: DataType) -> str:
    """Return an SQL expression that casts the SQL expression `text` to a column's type; null where the value does not fit."""
    if isinstance(kind, BinaryType):
        return f"try_to_binary({text}, 'base64')"
    if isinstance(kind, (StructType, ArrayType, MapType)):
        return f"from_json({text}, {_literal(kind.simpleString())})"
    return f"try_cast({text} as {kind.simpleString()})"


def _checked(kinds: dict[str, DataType], ignore_unknown: bool) -> Column:
    """Return a Spark expression whose value is the operation of a change: `I`, `U` or `D`.

    When Spark evaluates it for a change that lacks a field or has an unknown operation or column, it raises SchemaError.

    Args:
        kinds: column of the table → its type.
        ignore_unknown: whether a change may have columns that the table does not have.
    """
    known = ", ".join(_literal(name.lower()) for name in kinds)
    unknown = f"array_except(array_union(map_keys(after), map_keys(before)), array({known}))"
    checks = [
        (f"{OPERATION} is null and {POSITION} is null", "not a GoldenGate change, a JSON object with op_type and pos: "),
        (
            f"{OPERATION} is null or {OPERATION} not in ({', '.join(map(_literal, OPERATIONS))})",
            f"{OPERATION} is none of I, U and D: ",
        ),
        (f"{POSITION} is null", f"a GoldenGate change has no {POSITION!r}, which orders the changes: "),
        (
            f"cardinality(after) = 0 and ({OPERATION} <> 'D' or cardinality(before) = 0)",
            "a GoldenGate change has no columns: ",
        ),
    ]
    if not ignore_unknown:
        fix = "a GoldenGate change has a column that the table lacks; add it, or ignore unknown ones: "
        checks.append((f"cardinality({unknown}) > 0", fix))
    cases = " ".join(f"when {wrong} then {_raised(said)}" for wrong, said in checks)
    return F.expr(f"case {cases} else {OPERATION} end")


def _raised(said: str) -> str:
    """Return an SQL expression that raises SchemaError with the message `said` and the beginning of the JSON."""
    before, behind = marked_ends(SchemaError)
    shown = f"coalesce(substr({_JSON}, 1, {_SHOWN}), 'null')"
    return f"raise_error(concat({_literal(before + said)}, {shown}, {_literal(behind)}))"


def _supplied(names: list[str]) -> Column:
    """Return an expression for the columns that an update supplies, as the table spells them; null for inserts and deletes.

    Args:
        names: the columns of the table.
    """
    listed = ", ".join(f"if(map_contains_key(after, {_literal(n.lower())}), {_literal(n)}, null)" for n in names)
    return F.expr(f"if({OPERATION} = 'U', array_compact(array({listed})), cast(null as array<string>))")


def _literal(text: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
