"""Values are cast to the type of their column; one that does not fit is an error, on every PySpark and in every ANSI mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, IntegerType, StringType

from penstock.columns import conform
from penstock.errors import SchemaError
from penstock.keys import typed_error

pytestmark = pytest.mark.everywhere


@pytest.fixture(params=["true", "false"], ids=["ansi", "not-ansi"])
def session(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", before)


def conformed(rows: Any, source: DataType, target: DataType) -> list[Any]:
    return [row[0] for row in rows.select(conform(F.col("v"), source, target, "v")).collect()]


def test_a_value_that_fits_is_cast_and_null_stays_null(session: Any) -> None:
    rows = session.createDataFrame([("12",), (None,)], "v string")
    assert conformed(rows, StringType(), IntegerType()) == [12, None]


def test_values_inside_an_array_are_cast(session: Any) -> None:
    rows = session.createDataFrame([(["1", None, "3"],)], "v array<string>")
    assert conformed(rows, ArrayType(StringType()), ArrayType(IntegerType())) == [[1, None, 3]]


@pytest.mark.parametrize(
    ("value", "source", "target", "shown"),
    [("x", StringType(), IntegerType(), "'x'"), (12345, IntegerType(), DecimalType(4, 2), "'12345'")],
    ids=["text", "digits"],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_it(
    session: Any, value: Any, source: DataType, target: DataType, shown: str
) -> None:
    rows = session.createDataFrame([(value,)], f"v {source.simpleString()}")
    with pytest.raises(Exception) as caught:
        conformed(rows, source, target)
    error = typed_error(str(caught.value))
    assert isinstance(error, SchemaError)
    assert "column 'v'" in str(error)
    assert shown in str(error)
