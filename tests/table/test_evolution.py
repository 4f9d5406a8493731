"""Schema evolution between commits: what may change, what old rows then hold, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import SchemaError
from tests.table.tables import KEY, META, NAME, OPERATION, PARTITION, commits, load, sorted_rows, state_of, timeline, write

FIRST = {NAME: "t", KEY: "id", OPERATION: "bulk_insert"}
NULL_FOR_MISSING = "hoodie.write.set.null.for.missing.columns"
DROP = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """id string, n int, f float, s struct<x int, y string>, l array<struct<p int>>."""
    path = str(tmp_path_factory.mktemp("made") / "table")
    frame = spark.sql(
        "select 'a' id, 1 n, cast(1.5 as float) f, named_struct('x', 1, 'y', 'q') s, array(named_struct('p', 1), null) l"
    )
    write(frame, path, FIRST)
    return path


@pytest.fixture(params=["bulk_insert", "insert"])
def grown(request: pytest.FixtureRequest, spark: Any, made: str, table_path: str) -> Any:
    """Writes rows to a copy of that table, into a new file or through the old one, and returns all rows."""
    table = shutil.copytree(made, table_path)

    def grow(query: str, **options: Any) -> Any:
        write(spark.sql(query), table, {OPERATION: request.param, **options})
        return load(spark, table).drop(*META)

    grow.table = table  # type: ignore[attr-defined]
    return grow


OLD = ("a", 1, 1.5, (1, "q"), [(1,), None])
SAME = "cast(2.5 as float) f, named_struct('x', 2, 'y', 'r') s, array(named_struct('p', 2)) l"


def test_a_new_column_is_null_in_old_rows(grown: Any) -> None:
    rows = grown(f"select 'b' id, 2 n, {SAME}, 'new' more, map('k', 1) m")
    assert rows.columns == ["id", "n", "f", "s", "l", "more", "m"]
    assert sorted_rows(rows) == [(*OLD, None, None), ("b", 2, 2.5, (2, "r"), [(2,)], "new", {"k": 1})]


def test_a_new_field_of_a_struct_is_null_in_old_rows(grown: Any) -> None:
    rows = grown(
        "select 'b' id, 2 n, cast(2.5 as float) f, named_struct('x', 2, 'y', 'r', 'z', 9) s, "
        "array(named_struct('p', 2, 'q', 'v')) l"
    )
    assert sorted_rows(rows) == [
        ("a", 1, 1.5, (1, "q", None), [(1, None), None]),
        ("b", 2, 2.5, (2, "r", 9), [(2, "v")]),
    ]


def test_columns_and_fields_are_matched_by_name(grown: Any) -> None:
    rows = grown(
        "select array(named_struct('p', 2)) l, named_struct('y', 'r', 'x', 2) s, cast(2.5 as float) f, 2 n, 'b' id"
    ).select("id", "n", "f", "s.x", "s.y", "l")
    assert sorted_rows(rows) == [("a", 1, 1.5, 1, "q", [(1,), None]), ("b", 2, 2.5, 2, "r", [(2,)])]


@pytest.mark.parametrize(
    ("columns", "types", "values"),
    [
        ("3000000000 n, 2.5D f", ("bigint", "double"), (3000000000, 2.5)),
        ("2.5D n, cast(2.5 as float) f", ("double", "float"), (2.5, 2.5)),
        ("cast(2.5 as float) n, cast(2.5 as float) f", ("float", "float"), (2.5, 2.5)),
    ],
    ids=["long-double", "int-double", "int-float"],
)
def test_a_type_widens_and_old_rows_are_read_in_it(
    grown: Any, columns: str, types: tuple[str, str], values: tuple[Any, Any]
) -> None:
    rows = grown(f"select 'b' id, {columns}, named_struct('x', 2, 'y', 'r') s, array(named_struct('p', 2)) l")
    assert tuple(rows.schema[c].dataType.simpleString() for c in ("n", "f")) == types
    assert sorted_rows(rows.select("id", "n", "f")) == [("a", 1, 1.5), ("b", *values)]
    assert [r.id for r in rows.where("n > 2").collect()] == ["b"]
    assert [r.id for r in rows.where("n = 1").collect()] == ["a"]


def test_a_type_inside_a_struct_widens(grown: Any) -> None:
    rows = grown(
        "select 'b' id, 2 n, cast(2.5 as float) f, named_struct('x', 3000000000, 'y', 'r') s, "
        "array(named_struct('p', 3000000000)) l"
    )
    assert sorted_rows(rows.select("id", "s.x", "l")) == [("a", 1, [(1,), None]), ("b", 3000000000, [(3000000000,)])]


BY_CITY = {NAME: "t", KEY: "id", PARTITION: "city", OPERATION: "bulk_insert"}


@pytest.mark.parametrize(
    ("added", "widened"),
    [("cast({} as int) c", "cast({} as bigint) c"), ("cast({} as bigint) c", "cast({} as double) c")],
    ids=["int-long", "long-double"],
)
@pytest.mark.parametrize("place", ["{}", "named_struct('x', 1, {}) s"], ids=["column", "field"])
def test_a_column_that_the_oldest_files_lack_widens(spark: Any, table_path: str, added: str, widened: str, place: str) -> None:
    def column(kind: str, value: int) -> str:
        if place == "{}":
            return kind.format(value)
        return place.format(f"'c', {kind.format(value).removesuffix(' c')}")

    first = "" if place == "{}" else ", named_struct('x', 1) s"
    write(spark.sql(f"select 'a' id, 'rome' city{first}"), table_path, BY_CITY)
    write(spark.sql(f"select 'b' id, 'oslo' city, {column(added, 2)}"), table_path, BY_CITY)
    write(spark.sql(f"select 'd' id, 'bern' city, {column(added, 4)}"), table_path, BY_CITY)
    write(spark.sql(f"select 'e' id, 'lima' city, {column(widened, 5)}"), table_path, BY_CITY)
    rows = load(spark, table_path).selectExpr("id", "c" if place == "{}" else "s.c")
    assert sorted_rows(rows) == [("a", None), ("b", 2), ("d", 4), ("e", 5)]


def test_a_narrower_type_is_cast_up(grown: Any) -> None:
    grown(f"select 'b' id, 3000000000 n, {SAME}")
    rows = grown(f"select 'c' id, cast(3 as tinyint) n, {SAME}")
    assert rows.schema["n"].dataType.simpleString() == "bigint"
    assert sorted_rows(rows.select("id", "n")) == [("a", 1), ("b", 3000000000), ("c", 3)]


MISSING = "select 'b' id, 2 n, cast(2.5 as float) f, array(named_struct('p', 2)) l"


def test_a_missing_column_is_an_error_and_the_table_is_untouched(grown: Any) -> None:
    before = state_of(grown.table)
    with pytest.raises(SchemaError, match="'s'") as error:
        grown(MISSING)
    assert NULL_FOR_MISSING in str(error.value)
    assert state_of(grown.table) == before


def test_a_missing_column_can_be_filled_with_null(grown: Any) -> None:
    rows = grown(MISSING, **{NULL_FOR_MISSING: "true"})
    assert sorted_rows(rows) == [OLD, ("b", 2, 2.5, None, [(2,)])]


def test_a_missing_column_can_be_dropped_from_the_table(grown: Any) -> None:
    rows = grown(MISSING, **{DROP: "true"})
    assert sorted_rows(rows) == [("a", 1, 1.5, [(1,), None]), ("b", 2, 2.5, [(2,)])]


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        (f"true n, {SAME}", "'n'"),
        (f"2 n, date'2024-01-01' f, {SAME.partition(', ')[2]}", "'f'"),
        (f"2 n, 2 N2, cast(2.5 as float) f, 'text' s, {SAME.rpartition('s, ')[2]}", "'s'"),
        (f"2 n, 2 ID, {SAME}", "ID"),
    ],
    ids=["int-boolean", "float-date", "struct-string", "case"],
)
def test_a_type_that_does_not_fit_is_an_error_and_the_table_is_untouched(grown: Any, columns: str, named: str) -> None:
    before = state_of(grown.table)
    with pytest.raises(SchemaError, match=named):
        grown(f"select 'b' id, {columns}")
    assert state_of(grown.table) == before


def test_time_travel_has_the_schema_of_its_time(spark: Any, made: str, table_path: str) -> None:
    table = shutil.copytree(made, table_path)
    first = timeline(table)[0].split(".")[0]
    write(spark.sql(f"select 'b' id, 2 n, {SAME}, 'new' more"), table, {OPERATION: "bulk_insert"})
    then = spark.read.format("hudi").option("as.of.instant", first).load(table)
    assert "more" not in then.columns
    assert sorted_rows(then.drop(*META)) == [OLD]
    schemas = [json.loads(c["extraMetadata"]["schema"]) for c in commits(table)]
    assert [len(s["fields"]) for s in schemas] == [5, 6]
    assert Path(table).exists()
