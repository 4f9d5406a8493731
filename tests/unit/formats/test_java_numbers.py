"""Floating-point numbers as Java prints them. The texts are those of Java 17, by Spark's cast to string."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.formats.java_numbers import print_floats

INFINITE = float("inf")

DOUBLES: list[tuple[Any, str | None]] = [
    (None, None),
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1.0, "1.0"),
    (-12.5, "-12.5"),
    (0.1, "0.1"),
    (0.001, "0.001"),
    (9999999.0, "9999999.0"),
    (123456.789, "123456.789"),
    (float("nan"), "NaN"),
    (INFINITE, "Infinity"),
    (-INFINITE, "-Infinity"),
    # With an exponent: from 10^7 on, and below 10^-3.
    (1e7, "1.0E7"),
    (12345678.9, "1.23456789E7"),
    (-1e15, "-1.0E15"),
    (1e-4, "1.0E-4"),
    (0.00012, "1.2E-4"),
    (-1.5e-7, "-1.5E-7"),
    (1.5e300, "1.5E300"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    # Whole numbers that a double cannot tell from their neighbours.
    (9007199254740993.0, "9.007199254740992E15"),
    (6.759208501481274e17, "6.7592085014812736E17"),
    (2.976118035732923e18, "2.9761180357329229E18"),
    (9.223372036854775807e18, "9.223372036854776E18"),
    # More digits than needed: a power of two, a number in the middle of two others, the smallest.
    (2.0**-44, "5.6843418860808015E-14"),
    (1e23, "9.999999999999999E22"),
    (5e-324, "4.9E-324"),
    (2.2250738585072014e-308, "2.2250738585072014E-308"),
]
FLOATS: list[tuple[Any, str | None]] = [
    (None, None),
    (0.1, "0.1"),
    (-0.0, "-0.0"),
    (16777216.0, "1.6777216E7"),
    (1e10, "1.0E10"),
    (1e-4, "1.0E-4"),
    (3.4028235e38, "3.4028235E38"),
    (1.4e-45, "1.4E-45"),
    (2.0**40, "1.09951163E12"),
    (INFINITE, "Infinity"),
]


@pytest.mark.parametrize(("kind", "pairs"), [(pa.float64(), DOUBLES), (pa.float32(), FLOATS)], ids=["double", "float"])
def test_numbers_are_printed_as_java_prints_them(kind: pa.DataType, pairs: list[tuple[Any, str | None]]) -> None:
    numbers = pa.array([number for number, _ in pairs], kind)
    printed = print_floats(numbers)
    printed.validate(full=True)
    assert printed.type == pa.string()
    assert printed.to_pylist() == [text for _, text in pairs]


def test_an_array_without_numbers_is_printed() -> None:
    assert print_floats(pa.array([], pa.float64())).to_pylist() == []
    assert print_floats(pa.nulls(2, pa.float32())).to_pylist() == [None, None]


def test_a_slice_of_an_array_is_printed() -> None:
    assert print_floats(pa.array([1.0, 1e9, None, 2.5]).slice(1, 2)).to_pylist() == ["1.0E9", None]
