"""Names of tables in queries, and the views that take their place."""

from __future__ import annotations

import pytest

from penstock.spark.catalog_tables import TableName, replace_names

TABLES = {"db.trips": TableName("db", "trips"), "db.users": TableName("db", "users"), "trips": TableName("db", "trips")}


def replaced(statement: str) -> str | None:
    return replace_names(statement, lambda name: TABLES.get(name.replace("`", "").replace(" ", "")))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("select trips.id from db.trips where n > 1", "select trips.id from {trips} AS `trips` where n > 1"),
        ("SELECT * FROM trips", "SELECT * FROM {trips} AS `trips`"),
        ("select t.id from db.trips t", "select t.id from {trips} t"),
        ("select * from db.trips as t, `db`.`users` u", "select * from {trips} as t, {users} u"),
        (
            "select * from db.trips left join db . users using (id)",
            "select * from {trips} AS `trips` left join {users} AS `users` using (id)",
        ),
        (
            "select * from (select * from db.trips) q union all select * from db.users limit 3",
            "select * from (select * from {trips} AS `trips`) q union all select * from {users} AS `users` limit 3",
        ),
        ("with q as (select * from db.trips) select * from q", "with q as (select * from {trips} AS `trips`) select * from q"),
        (
            "select * from other, db.trips -- from db.users\nwhere s = 'from db.users'",
            "select * from other, {trips} AS `trips` -- from db.users\nwhere s = 'from db.users'",
        ),
        (
            "with trips as (select * from db.trips) select * from trips",
            "with trips as (select * from {trips} AS `trips`) select * from trips",
        ),
        ("select * from db.users join trips using(id)", "select * from {users} AS `users` join {trips} AS `trips` using(id)"),
        ("select * from db.trips where(n>1)", "select * from {trips} AS `trips` where(n>1)"),
        ("select * from db.users u join trips on(u.id=1)", "select * from {users} u join {trips} AS `trips` on(u.id=1)"),
        ("from db.trips select *", "from {trips} AS `trips` select *"),
        ("select * from db.trips as t(a, b)", "select * from {trips} as t(a, b)"),
        ("select 'db.trips' as s from range(3) join db.trips", "select 'db.trips' as s from range(3) join {trips} AS `trips`"),
    ],
)
def test_a_view_takes_the_place_of_a_table(statement: str, expected: str) -> None:
    views = {"trips": "`penstock_2_db__trips`", "users": "`penstock_2_db__users`"}
    assert replaced(statement) == expected.format(**views)


@pytest.mark.parametrize(
    "statement",
    [
        "select * from other.trips2",
        "select extract(day from ts), trips from other",
        "with trips as (select 1 as id) select * from trips",
        "with a as (select 1), trips (id) as (select 2) select * from trips",
        "with a as (select 1),trips as (select 2) select * from trips",
        "with a as (select 1),`trips` as (select 2) select * from trips",
        "with `Trips` as (select 1) select * from `trips`",
        "with`trips` as(select 1) select * from trips",
        "with recursive trips as (select 1) select * from trips",
        "with recursive a as (select 1), trips (id) max recursion level 9 as (select 1) select * from trips",
        "with trips (select 1) select * from trips",
        "select * from (with a as (select 1),trips(id) as (select 2) select * from a join trips)",
        "select * from trips(1)",
        "insert into db.trips select 1",
        "create table x as select * from db.trips",
        "select 'from db.trips'",
    ],
)
def test_other_statements_and_names_stay(statement: str) -> None:
    assert replaced(statement) is None


def test_a_part_of_a_name_is_no_name() -> None:
    """The look-up gets whole names only."""
    asked: list[str] = []
    replace_names("select * from db.trips1(2) join a.b.c.d join x1 using(id) join y where(n>1)", lambda name: asked.append(name))
    assert asked == ["x1", "y"]


def test_backticks_in_the_name_of_a_table_are_quoted() -> None:
    found = replace_names("select * from db.`a``b`", lambda _: TableName("db", "a`b"))
    assert found == "select * from `penstock_2_db__a``b` AS `a``b`"


def test_every_table_has_a_view_of_its_own() -> None:
    assert TableName("a", "b__c").view != TableName("a__b", "c").view
