"""Every index finds the same rows as a dictionary, on the driver and in tasks, and reads only what it has to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.storage import LocalStorage
from tests.kit.model import Model, Row
from tests.kit.templates import Templates
from tests.table.tables import INSERT, TRIPS, base_files, commits, snapshot, spoil, trips, write
from tests.table.upserts import (
    DEFAULT_PAYLOAD,
    DELETE,
    IN_TASKS,
    INDEX,
    INDEXES,
    MANY_GROUPS,
    MOVES,
    ON_DRIVER,
    ONE_GROUP,
    PAYLOAD,
    UPSERT,
    columns,
    counts,
    rows,
    stored,
)

PATH, TIME = "_hoodie_partition_path", "_hoodie_commit_time"

FIRST: list[Row] = [(k, p, 10, 1.0, False) for p, ks in (("x", "abcde"), ("y", "fgh"), ("z", "i")) for k in ks]
HISTORY: list[tuple[str, list[Row]]] = [
    ("upsert", FIRST),
    (
        "upsert",
        [
            ("a", "x", 20, 2.0, False),
            ("b", "x", 5, 2.5, False),  # late
            ("f", "x", 30, 3.0, False),  # of y
            ("g", "z", 5, 3.5, False),  # of y, and late
            ("n", "new", 1, 4.0, False),
            ("n", "new", 2, 4.5, False),
            ("m", "x", 1, 5.0, False),
            ("c", "x", 20, 0.0, True),
            ("d", "y", 20, 0.0, True),  # a delete that names another partition
            ("u", "y", 1, 0.0, True),  # in no partition
        ],
    ),
    ("delete", [("e", "x", 0, 0.0, False), ("h", "x", 0, 0.0, False), ("q", "x", 0, 0.0, False), ("n", "new", 0, 0.0, False)]),
    ("upsert", [("e", "x", 1, 6.0, False), ("n", "y", 3, 6.5, False), ("i", "z", 10, 7.0, False), ("a", "y", 20, 8.0, False)]),
]


#: Every index on the driver and in tasks, with one group a partition and with many; `tests/unit/write` has every combination.
RUNS = [
    pytest.param(index, where, sizes, id=f"{index}-{'tasks' if where else 'driver'}-{'many-groups' if sizes else 'one-group'}")
    for number, index in enumerate(INDEXES)
    for where, sizes in zip((ON_DRIVER, IN_TASKS), (ONE_GROUP, MANY_GROUPS)[:: 1 if number % 2 else -1], strict=True)
]


@pytest.mark.parametrize(("index", "where", "sizes"), RUNS)
def test_a_random_history_leaves_the_same_rows_as_a_dictionary(
    spark: Any, table_path: str, index: str, where: dict[str, Any], sizes: dict[str, Any]
) -> None:
    is_global = index.startswith("GLOBAL")
    by_ordering = where is ON_DRIVER  # both payloads, without doubling the runs
    model = Model(is_global, is_global, by_ordering)
    options = {INDEX: index, **where, **sizes, **({PAYLOAD: DEFAULT_PAYLOAD} if by_ordering else {})}
    for operation, batch in HISTORY:
        frame = rows(spark, *batch)
        write(frame, table_path, {**(UPSERT if operation == "upsert" else DELETE), **options})
        getattr(model, operation)(batch)
        times = sorted({row[TIME] for row in stored(table_path)})
        assert [r[:4] for r in model.sorted_rows()] == columns(table_path, PATH, "id", "ts", "fare")
        written = {r[4] for r in model.sorted_rows()}
        assert len(times) == len(written)
    number = dict(zip(sorted(written), times, strict=True))
    assert [(*r[:4], number[r[4]]) for r in model.sorted_rows()] == columns(table_path, PATH, "id", "ts", "fare", TIME)
    assert len(commits(table_path)) == len(HISTORY)
    assert not any(p.name != "heartbeat" for p in Path(table_path, ".hoodie", ".temp").iterdir())


@pytest.fixture
def in_three(spark: Any, table_path: str, templates: Templates) -> str:
    """Partitions x, y and z with two keys each."""
    six = [(k, p, 10, 1.0) for p, ks in (("x", "ab"), ("y", "cd"), ("z", "ef")) for k in ks]
    return templates.copy("three-partitions", lambda path: write(trips(spark, *six), path, INSERT), table_path)


@pytest.mark.parametrize("where", [ON_DRIVER, IN_TASKS], ids=["driver", "tasks"])
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_an_index_that_is_not_global_neither_lists_nor_opens_other_partitions(
    spark: Any, in_three: str, index: str, where: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(f for f in base_files(in_three) if f.parent.name != "x")
    listed: list[str] = []
    original = LocalStorage.list

    def noting(self: LocalStorage, path: str) -> Any:
        listed.append(path)
        return original(self, path)

    monkeypatch.setattr(LocalStorage, "list", noting)
    write(trips(spark, ("a", "x", 20, 2.0), ("n", "x", 1, 3.0)), in_three, {**UPSERT, INDEX: index, **where})
    write(trips(spark, ("b", "x", 20, 2.0)), in_three, {**DELETE, INDEX: index, **where})
    assert not [p for p in listed if Path(p).name in ("y", "z") or p == in_three]
    assert counts(commits(in_three)[-2]) == [("x", 3, 1, 0, 1)]
    assert counts(commits(in_three)[-1]) == [("x", 2, 0, 1, 0)]


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_BLOOM"])
def test_keys_outside_a_files_range_leave_its_rows_unread(spark: Any, table_path: str, index: str) -> None:
    write(trips(spark, *((f"k{n}", "x", 1, 1.0) for n in range(6))), table_path, {**INSERT, **MANY_GROUPS})
    # The rows of files that cannot hold the key are damaged; their footers are whole.
    for file in base_files(table_path):
        if not any(row["id"] == "k2" for row in _rows(file)):
            data = bytearray(file.read_bytes())
            data[4:200] = bytes(196)
            file.write_bytes(bytes(data))
    write(trips(spark, ("k2", "x", 2, 2.0)), table_path, {**UPSERT, INDEX: index, **MANY_GROUPS})
    assert counts(commits(table_path)[-1]) == [("x", 2, 1, 0, 0)]


def _rows(file: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = pq.ParquetFile(file).read(["id"]).to_pylist()
    return found


@pytest.mark.parametrize("ranges", ["true", "false"])
def test_global_bloom_searches_all_partitions_also_without_ranges(spark: Any, in_three: str, ranges: str) -> None:
    options = {**UPSERT, INDEX: "GLOBAL_BLOOM", "hoodie.bloom.index.prune.by.ranges": ranges}
    write(trips(spark, ("a", "new", 20, 2.0)), in_three, options)
    assert [p for p, i in columns(in_three, PATH, "id") if i == "a"] == ["new"]


@pytest.mark.parametrize("index", list(MOVES))
def test_without_update_partition_path_a_row_is_updated_in_its_old_partition(spark: Any, in_three: str, index: str) -> None:
    write(trips(spark, ("a", "y", 20, 2.0)), in_three, {**UPSERT, INDEX: index, MOVES[index]: "false"})
    assert ("x", "a", "y", 2.0) in columns(in_three, PATH, "id", "city", "fare")  # the column contradicts the folder
    assert counts(commits(in_three)[-1]) == [("x", 2, 1, 0, 0)]


@pytest.mark.parametrize("index", list(MOVES))
def test_a_move_is_a_delete_in_the_old_partition_and_an_insert_in_the_new_one_in_one_commit(
    spark: Any, in_three: str, index: str
) -> None:
    write(trips(spark, ("a", "y", 5, 2.0)), in_three, {**UPSERT, INDEX: index})
    assert [p for p, i in columns(in_three, PATH, "id") if i == "a"] == ["y"]
    assert counts(commits(in_three)[-1]) == [("x", 1, 0, 1, 0), ("y", 3, 0, 0, 1)]
    assert ("a", "y", 5, 2.0) in snapshot(spark, in_three)


@pytest.mark.parametrize("index", list(MOVES))
def test_a_global_index_merges_keys_that_a_non_global_index_wrote_twice(spark: Any, in_three: str, index: str) -> None:
    write(trips(spark, ("a", "y", 11, 1.5)), in_three, UPSERT)
    assert [p for p, i in columns(in_three, PATH, "id") if i == "a"] == ["x", "y"]
    write(trips(spark, ("a", "z", 20, 2.0)), in_three, {**UPSERT, INDEX: index})
    assert [(p, f) for p, i, f in columns(in_three, PATH, "id", "fare") if i == "a"] == [("z", 2.0)]


def test_every_index_works_on_a_table_without_partitions(spark: Any, table_path: str) -> None:
    options = {k: v for k, v in TRIPS.items() if "partitionpath" not in k}
    for index in INDEXES:
        write(trips(spark, ("a", "x", 1, 1.0), (index, "y", 1, 1.0)), table_path, {**options, INDEX: index})
    assert columns(table_path, PATH, "id") == [("", i) for i in sorted(["a", *INDEXES])]
    assert [counts(c)[0][1:] for c in commits(table_path)] == [(2, 0, 0, 2), (3, 1, 0, 1), (4, 1, 0, 1), (5, 1, 0, 1)]


def test_keys_with_every_character_are_found_by_every_index(spark: Any, table_path: str) -> None:
    keys = ["é", "中", "\ue000", "\uff21", "😀", "a b", "a/b", "'", "\\"]
    for index in INDEXES:
        write(trips(spark, *((k, "x", 1, 1.0) for k in keys)), table_path, {**UPSERT, INDEX: index, **MANY_GROUPS})
    assert columns(table_path, "id") == sorted(((k,) for k in keys), key=repr)
    assert sum(c[2] for c in counts(commits(table_path)[-1])) == len(keys)
