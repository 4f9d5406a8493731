"""Changes of Oracle GoldenGate, from JSON to rows and into tables of both types: an absent column is not a null column."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

import penstock
from penstock.error_text import typed_error
from penstock.errors import OptionError, SchemaError
from tests.table.tables import KEY, NAME, ORDERING, load, write
from tests.table.upserts import PAYLOAD

TABLE = "id long, name string, price decimal(22,2), at timestamp, ok boolean, tags array<string>, raw binary"
PRICES = {NAME: "prices", KEY: "id", ORDERING: "pos", PAYLOAD: "penstock.ogg"}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}


def change(op: str, pos: Any, after: Any = None, before: Any = None) -> str:
    parts = {"table": "S.T", "op_type": op, "pos": pos, "before": before, "after": after}
    return json.dumps({name: part for name, part in parts.items() if part is not None})


def changes(spark: Any, *texts: str | None) -> Any:
    return spark.createDataFrame([(text,) for text in texts], "value string").coalesce(1)


def test_changes_become_rows_that_name_the_columns_they_supply(spark: Any) -> None:
    exact = change("U", 3, {"ID": 1, "Price": 0}).replace("0}", "12345678901234567890.12}")
    texts = [
        change("I", "1", {"ID": 1, "NAME": "a", "PRICE": "1.10", "AT": "2024-01-02 03:04:05.000006", "OK": True, "TAGS": ["x"]}),
        change("U", "2", {"ID": 1, "PRICE": None}),
        exact.replace("Price", "PRICE"),
        change("u", "10", {"ID": 1, "NAME": "c"}, {"ID": 1, "NAME": "b", "PRICE": 7.5, "RAW": "AQI="}),
        change("D", "11", before={"ID": "1", "NAME": "c"}),
    ]
    found = [row.asDict() for row in penstock.ogg_rows(changes(spark, *texts), "value", TABLE).collect()]
    nothing = {"name": None, "price": None, "at": None, "ok": None, "tags": None, "raw": None, "_changed_columns": None}
    inserted = {"name": "a", "price": Decimal("1.10"), "at": datetime(2024, 1, 2, 3, 4, 5, 6), "ok": True, "tags": ["x"]}
    filled = {"name": "c", "price": Decimal("7.50"), "raw": b"\x01\x02", "_changed_columns": ["id", "name"]}
    assert found == [
        {**nothing, "id": 1, **inserted, "op_type": "I", "pos": "1".zfill(20)},
        {**nothing, "id": 1, "op_type": "U", "pos": "2".zfill(20), "_changed_columns": ["id", "price"]},
        {**found[1], "price": Decimal("12345678901234567890.12"), "pos": "3".zfill(20)},
        {**nothing, "id": 1, **filled, "op_type": "U", "pos": "10".zfill(20)},
        {**nothing, "id": 1, "name": "c", "op_type": "D", "pos": "11".zfill(20)},
    ]


BAD: dict[str | None, str] = {
    "{": "not a GoldenGate change",
    None: "not a GoldenGate change.*null",
    "[1]": "not a GoldenGate change",
    change("T", 1, {"id": 1}): "op_type is none of I, U and D",
    json.dumps({"op_type": "I", "after": {"id": 1}}): "has no 'pos'",
    change("U", 1): "has no columns",
    change("D", 1): "has no columns",
    change("I", 1, {"id": 1, "other": 2}): "a column that the table lacks",
    change("I", 1, {"id": "x"}): r"does not fit column 'id' \(bigint\)",
    change("I", 1, {"id": 1, "price": "dear"}): r"does not fit column 'price' \(decimal\(22,2\)\)",
}


def test_a_text_that_is_no_change_of_goldengate_is_refused(spark: Any, table_path: str) -> None:
    for text, message in BAD.items():
        with pytest.raises(Exception, match=message) as raised:
            penstock.ogg_rows(changes(spark, text), "value", TABLE).collect()
        assert isinstance(typed_error(str(raised.value)), SchemaError), text
    with pytest.raises(SchemaError, match="op_type is none of I, U and D"):
        write(penstock.ogg_rows(changes(spark, change("T", 1, {"id": 1})), "value", TABLE), table_path, PRICES)
    (row,) = penstock.ogg_rows(
        changes(spark, change("U", 1, {"id": 1, "other": 2})), "value", TABLE, ignore_unknown=True
    ).collect()
    assert row["_changed_columns"] == ["id"]


BATCHES = [
    [change("I", i, {"id": i, "name": f"n{i}", "price": i}) for i in (1, 2, 3, 4, 5)],
    [
        change("U", 11, {"id": 1, "price": 11}),
        change("U", 12, {"id": 1, "name": None}),
        change("D", 13, before={"id": 2}),
        change("I", 14, {"id": 2, "price": 22}),
        change("D", 15, before={"id": 3, "name": "n3"}),
        change("U", 17, {"id": 4, "name": "last"}, {"id": 4, "name": "between", "price": 99}),
        change("U", 16, {"id": 4, "name": "between", "price": 44}),
    ],
    [
        change("U", 21, {"id": 1, "name": "back"}),
        change("U", 10, {"id": 4, "name": "late"}),
        change("I", 22, {"id": 3, "price": 3}),
    ],
]
LEFT = [(1, "back", 11), (2, None, 22), (3, None, 3), (4, "last", 44), (5, "n5", 5)]


def test_changes_are_applied_on_both_kinds_of_table(spark: Any, table_path: str) -> None:
    for kind in ({}, MERGE_ON_READ):
        path = f"{table_path}-{len(kind)}"
        for texts in BATCHES:
            rows = penstock.ogg_rows(changes(spark, *texts), "value", "id long, name string, price decimal(10,2)")
            write(rows, path, {**PRICES, **kind})
        assert read_rows(spark, path) == LEFT
    table = penstock.Table.open(path)
    assert table.compact_logs({"hoodie.log.compaction.blocks.threshold": 1})  # what is absent stays so in joined blocks too
    assert read_rows(spark, path) == LEFT
    assert table.compact()
    assert read_rows(spark, path) == LEFT


def read_rows(spark: Any, path: str) -> list[tuple[Any, ...]]:
    rows = load(spark, path).orderBy("id").collect()
    assert all(row["_changed_columns"] is None for row in rows)
    return [(row["id"], row["name"], row["price"]) for row in rows]


def test_changes_are_ordered_by_their_position(spark: Any, table_path: str) -> None:
    rows = penstock.ogg_rows(changes(spark, BATCHES[0][0]), "value", "id long, name string, price decimal(10,2)")
    with pytest.raises(OptionError, match=r"precombine\.field=pos; it is 'op_type'"):
        write(rows, table_path, {**PRICES, ORDERING: "op_type"})
