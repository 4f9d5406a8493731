"""Pairs of column types: a table has one of them, and rows of the other are written to it. One column of a test table per pair."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa


class Promotion(NamedTuple):
    """A column that is stored in one type and written in another, and what readers find afterwards."""

    name: str
    stored_type: pa.DataType
    stored: Any
    incoming_type: pa.DataType
    incoming: Any
    #: The column's type after the write, as Spark names it.
    result_type: str
    stored_after: Any
    incoming_after: Any


_I, _L, _F, _D, _S = pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()
_DAY = dt.date(2024, 2, 29)
_BIG = 2**40

PROMOTIONS = (
    # The table's column grows.
    Promotion("int_to_long", _I, 7, _L, _BIG, "bigint", 7, _BIG),
    Promotion("int_to_float", _I, 7, _F, 1.5, "float", 7.0, 1.5),
    Promotion("int_to_double", _I, 7, _D, 0.1, "double", 7.0, 0.1),
    Promotion("int_to_string", _I, -7, _S, "x", "string", "-7", "x"),
    Promotion("long_to_float", _L, _BIG, _F, 1.5, "float", float(_BIG), 1.5),
    Promotion("long_to_double", _L, 2**53, _D, 0.1, "double", float(2**53), 0.1),
    Promotion("long_to_string", _L, 2**53 + 1, _S, "x", "string", "9007199254740993", "x"),
    Promotion("float_to_double", _F, 0.5, _D, 0.1, "double", 0.5, 0.1),
    Promotion("float_to_string", _F, 0.1, _S, "x", "string", "0.1", "x"),
    Promotion("double_to_string", _D, 1e7, _S, "x", "string", "1.0E7", "x"),
    Promotion(
        "decimal_grows",
        pa.decimal128(10, 2),
        Decimal("12345678.50"),
        pa.decimal128(11, 2),
        Decimal("123456789.25"),
        "decimal(11,2)",
        Decimal("12345678.50"),
        Decimal("123456789.25"),
    ),
    # Incoming values take the type of the table's column.
    Promotion("long_takes_int", _L, _BIG, _I, 7, "bigint", _BIG, 7),
    Promotion("float_takes_int", _F, 1.5, _I, 7, "float", 1.5, 7.0),
    Promotion("float_takes_long", _F, 1.5, _L, _BIG, "float", 1.5, float(_BIG)),
    Promotion("double_takes_int", _D, 0.1, _I, 7, "double", 0.1, 7.0),
    Promotion("double_takes_long", _D, 0.1, _L, 2**53, "double", 0.1, float(2**53)),
    Promotion("double_takes_float", _D, 0.1, _F, 0.5, "double", 0.1, 0.5),
    Promotion("string_takes_int", _S, "x", _I, -7, "string", "x", "-7"),
    Promotion("string_takes_long", _S, "x", _L, _BIG, "string", "x", "1099511627776"),
    Promotion("string_takes_float", _S, "x", _F, 0.1, "string", "x", "0.1"),
    Promotion("string_takes_double", _S, "x", _D, 1e7, "string", "x", "1.0E7"),
    Promotion("string_takes_decimal", _S, "x", pa.decimal128(6, 2), Decimal("1.50"), "string", "x", "1.50"),
    Promotion("string_takes_date", _S, "x", pa.date32(), _DAY, "string", "x", "2024-02-29"),
    Promotion("string_takes_binary", _S, "x", pa.binary(), "größer".encode(), "string", "x", "größer"),
    Promotion("decimal_takes_int", pa.decimal128(12, 2), Decimal("1.50"), _I, 7, "decimal(12,2)", Decimal("1.50"), Decimal(7)),
    Promotion("decimal_takes_long", pa.decimal128(12, 2), Decimal("1.50"), _L, 7, "decimal(12,2)", Decimal("1.50"), Decimal(7)),
    Promotion(
        "decimal_takes_double", pa.decimal128(12, 2), Decimal("1.50"), _D, 0.25, "decimal(12,2)", Decimal("1.50"), Decimal("0.25")
    ),
    Promotion(
        "decimal_takes_narrower",
        pa.decimal128(12, 2),
        Decimal("1.50"),
        pa.decimal128(6, 1),
        Decimal("2.5"),
        "decimal(12,2)",
        Decimal("1.50"),
        Decimal("2.50"),
    ),
    Promotion(
        "decimal_takes_string",
        pa.decimal128(12, 2),
        Decimal("1.50"),
        _S,
        "3.75",
        "decimal(12,2)",
        Decimal("1.50"),
        Decimal("3.75"),
    ),
    Promotion("date_takes_string", pa.date32(), _DAY, _S, "2024-03-01", "date", _DAY, dt.date(2024, 3, 1)),
    Promotion("binary_takes_string", pa.binary(), b"\x01\xff", _S, "text", "binary", b"\x01\xff", b"text"),
)


def stored_rows(ts: int, *keys: str) -> pa.Table:
    """Return rows with the stored value of every pair."""
    columns = {one.name: pa.array([one.stored] * len(keys), one.stored_type) for one in PROMOTIONS}
    return pa.table({**_head(ts, keys), **columns})


def incoming_rows(ts: int, *keys: str) -> pa.Table:
    """Return rows with the incoming value of every pair."""
    columns = {one.name: pa.array([one.incoming] * len(keys), one.incoming_type) for one in PROMOTIONS}
    return pa.table({**_head(ts, keys), **columns})


def _head(ts: int, keys: tuple[str, ...]) -> dict[str, pa.Array]:
    return {"id": pa.array(keys, pa.string()), "ts": pa.array([ts] * len(keys), pa.int64())}
