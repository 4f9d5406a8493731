"""Which files hold a column in another type than the table has now."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from penstock.read.widened_types import _read_each, differs, has_all_types, narrow

INT = IntegerType()
LONG = LongType()


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


@pytest.mark.parametrize("nested", [lambda kind: kind, ArrayType, lambda kind: MapType(StringType(), kind)])
def test_a_missing_field_does_not_differ_but_says_nothing_about_later_files(nested: type[ArrayType]) -> None:
    asked = struct(a=INT, b=nested(struct(x=INT, y=LONG)))
    assert has_all_types(asked, asked)
    assert has_all_types(struct(b=asked["b"].dataType, a=INT, more=INT), asked)
    for lacking in (struct(a=INT), struct(a=INT, b=nested(struct(x=INT)))):
        assert not has_all_types(lacking, asked)
        assert not differs(lacking, asked)
    narrow = struct(a=INT, b=nested(struct(x=INT, y=INT)))
    assert not has_all_types(narrow, asked)
    assert differs(narrow, asked)


@pytest.mark.parametrize("changes", [[], [1], [500], [999], [3, 4, 700]])
def test_of_many_instants_only_those_around_a_change_are_read(changes: list[int]) -> None:
    instants = [f"{n:03}" for n in range(1_000)]
    read_instants: list[str] = []

    def read_types(instant: str) -> StructType:
        read_instants.append(instant)
        return struct(**{f"c{n}": INT for n in changes if int(instant) >= n})

    found = _read_each(instants, read_types)
    assert len(read_instants) <= 2 + 10 * len(changes)
    assert found == {instant: read_types(instant) for instant in instants}


def test_a_single_instant_is_read() -> None:
    assert _read_each(["1"], lambda _: struct(a=INT)) == {"1": struct(a=INT)}


def test_a_type_in_a_file_counts_only_where_it_can_be_promoted() -> None:
    asked = struct(a=StringType(), b=LONG, c=INT, d=StringType(), e=StringType(), f=ArrayType(struct(x=StringType())))
    stored = struct(a=DoubleType(), b=INT, c=LONG, d=BinaryType(), e=DateType(), f=ArrayType(struct(x=LONG, y=INT)), g=INT)
    expected = struct(a=DoubleType(), b=INT, c=INT, d=StringType(), e=StringType(), f=ArrayType(struct(x=LONG)))
    assert narrow(asked, stored) == expected
    assert narrow(asked, struct()) == asked
