"""Names of columns in the history of schemas that Hudi's full schema evolution keeps."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from penstock.errors import CorruptFile, Unsupported
from penstock.storage.memory import MemoryStorage
from penstock.table.column_history import check_columns_keep_names

NAMES = count()
OLD = [(0, "id", "string"), (1, "fare", "int")]


def record(*columns: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "record", "fields": [{"id": n, "name": name, "optional": True, "type": kind} for n, name, kind in columns]}


def new_storage() -> MemoryStorage:
    return MemoryStorage(f"column-history-{next(NAMES)}")


def table_with(*schemas: dict[str, Any], time: str = "20240101000000000") -> MemoryStorage:
    storage = new_storage()
    storage.write_new(f"/t/.hoodie/.schema/{time}.schemacommit", json.dumps({"schemas": schemas}).encode())
    return storage


def test_columns_may_be_added_moved_and_widened() -> None:
    inner = {"type": "array", "element_id": 4, "element": record((5, "x", "int")), "element_optional": True}
    new = record((1, "fare", "long"), (0, "id", "string"), (3, "stops", inner))
    check_columns_keep_names(table_with(new, record(*OLD)), "/t")
    check_columns_keep_names(new_storage(), "/t")


@pytest.mark.parametrize(
    ("new", "old", "reason"),
    [
        (record((0, "id", "string"), (1, "price", "int")), record(*OLD), "'price' was 'fare' before"),
        (record((0, "id", "string")), record(*OLD), "'fare' was dropped"),
        (record((0, "id", "string"), (2, "fare", "int")), record(*OLD), "'fare' was dropped"),
        (record((0, "a", record((1, "y", "int")))), record((0, "a", record((1, "x", "int")))), "'a.y' was 'a.x' before"),
        (
            record((0, "m", {"type": "map", "key_id": 1, "key": "string", "value_id": 2, "value": record((3, "y", "int"))})),
            record((0, "m", {"type": "map", "key_id": 1, "key": "string", "value_id": 2, "value": record((3, "x", "int"))})),
            "'m.value.y' was 'm.value.x' before",
        ),
    ],
)
def test_a_renamed_or_dropped_column_is_refused(new: dict[str, Any], old: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unsupported, match=f"{reason}.*use Hudi for this table"):
        check_columns_keep_names(table_with(new, old), "/t")


def test_changes_after_the_time_of_a_query_do_not_count() -> None:
    new = {**record((0, "id", "string"), (1, "price", "int")), "version_id": 20240101000000000}
    storage = table_with(new, {**record(*OLD), "version_id": 0})
    check_columns_keep_names(storage, "/t", "20231231000000000")
    with pytest.raises(Unsupported, match="'price' was 'fare' before"):
        check_columns_keep_names(storage, "/t", "20240101000000000")


def test_only_the_newest_complete_file_counts() -> None:
    storage = table_with(record(*OLD))
    storage.write_new("/t/.hoodie/.schema/20240102000000000.schemacommit", json.dumps({"schemas": [record(*OLD[:1])]}).encode())
    storage.write_new("/t/.hoodie/.schema/20240103000000000.schemacommit.inflight", b"")
    check_columns_keep_names(storage, "/t")


def test_a_damaged_history_is_named() -> None:
    storage = new_storage()
    storage.write_new("/t/.hoodie/.schema/20240101000000000.schemacommit", b"{}")
    with pytest.raises(CorruptFile, match=r"\.hoodie/\.schema/20240101000000000\.schemacommit of /t"):
        check_columns_keep_names(storage, "/t")
