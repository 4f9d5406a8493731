"""Whole upserts and deletes of a copy-on-write table without Spark: tasks are planned and run, and compared with a dictionary."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import clock
from penstock.errors import SchemaError
from penstock.formats.bloom import read_bloom
from penstock.formats.parquet import read_footer
from penstock.index import Index
from penstock.merge.merger import Merger
from penstock.merge.overwrite import AlwaysDelete, EventTimeOrdering, OverwriteWithLatest
from penstock.options.operation import Operation
from penstock.timeline.commit_file import WriteStat
from penstock.write.locate.small_files import Sizing
from tests.kit.model import Model, Row
from tests.unit.write.engine import (
    BLOOM,
    DELETABLE,
    GLOBAL_BLOOM,
    GLOBAL_SIMPLE,
    INDEXES,
    ROOMY,
    SIMPLE,
    TIGHT,
    Engine,
    histories,
    table_of,
    trips,
)

PATH, TIME, SEQNO = "_hoodie_partition_path", "_hoodie_commit_time", "_hoodie_commit_seqno"
IN_PLACE = replace(GLOBAL_SIMPLE, moves_rows=False)


def check(engine: Engine, model: Model) -> None:
    found = [(*rest, int(time)) for *rest, time in engine.snapshot(PATH, "id", "ts", "v", TIME)]
    assert found == model.sorted_rows()
    for base in engine.groups.values():
        footer = read_footer(pq.ParquetFile(base.path))
        keys = pq.read_table(base.path, columns=["_hoodie_record_key"])["_hoodie_record_key"]
        bloom = read_bloom(footer["org.apache.hudi.bloomfilter"], footer.get("hoodie_bloom_filter_type_code"))
        assert bloom.might_contain(keys).all()
        texts = keys.to_pylist()
        assert (footer.get("hoodie_min_record_key"), footer.get("hoodie_max_record_key")) == (
            (min(texts), max(texts)) if texts else (None, None)
        )
    seqnos = Counter(row[SEQNO] for row in engine.rows() if row[TIME] == f"{engine.instant:03}")
    assert max(seqnos.values(), default=1) == 1
    assert sum(s.num_writes for s in engine.stats) == sum(
        pq.read_metadata(base.path).num_rows for base in engine.groups.values() if base.instant == f"{engine.instant:03}"
    )


@pytest.mark.parametrize("sizing", [ROOMY, TIGHT], ids=["one-group", "many-groups"])
@pytest.mark.parametrize("merger", [OverwriteWithLatest(), EventTimeOrdering("ts")], ids=["overwrite", "default"])
@pytest.mark.parametrize(
    "index", [*INDEXES, IN_PLACE], ids=lambda i: i.name + ("" if i.moves_rows or not i.is_global else "_IN_PLACE")
)
@settings(deadline=None, max_examples=8)
@given(history=histories(rows_max=8, writes_max=4), batches=st.integers(1, 3), memory=st.sampled_from([1, 1 << 30]))
def test_any_history_of_writes_leaves_the_rows_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory,
    index: Index,
    merger: Merger,
    sizing: Sizing,
    history: list[tuple[str, list[Row]]],
    batches: int,
    memory: int,
) -> None:
    engine = Engine(tmp_path_factory.mktemp("t"), DELETABLE, index, sizing, merger, memory=memory)
    model = Model(index.is_global, index.moves_rows, isinstance(merger, EventTimeOrdering))
    for operation, rows in history:
        batch = table_of(DELETABLE, *rows)
        if operation == "upsert":
            engine.write(batch, batches=batches)
            model.upsert(rows)
        else:
            engine.ordering, engine.merger = None, AlwaysDelete()
            engine.write(batch, operation=Operation.DELETE, batches=batches, drops_unknown=True)
            engine.ordering, engine.merger = "ts", merger
            model.delete(rows)
        check(engine, model)
    assert not (engine.folder / "spill").exists() or list((engine.folder / "spill").iterdir()) == []


# --- the tasks of an upsert


def filled(folder: Path, index: Index = SIMPLE, sizing: Sizing = TIGHT, **settings: Any) -> Engine:
    """Return a table with keys a to f in partition x, in three groups if the sizing is tight, and g in y."""
    engine = Engine(folder, index=index, sizing=sizing, **settings)
    engine.write(trips(*((k, "x", 10, k) for k in "abcdef"), ("g", "y", 10, "g")))
    return engine


def counts(stats: list[WriteStat]) -> list[tuple[str | None, int, int, int, int]]:
    return sorted((s.partition_path, s.num_writes, s.num_update_writes, s.num_deletes, s.num_inserts) for s in stats)


def test_a_partition_of_one_file_group_is_one_task_and_a_partition_of_several_one_task_per_changed_group(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    assert len(engine.groups) == 4
    engine.write(trips(("a", "x", 20, "new"), ("g", "y", 20, "new")))
    assert engine.task_plan is not None
    assert sorted(type(t).__name__ for t in engine.task_plan.tasks) == ["GroupTask", "PartitionTask"]
    assert counts(engine.stats) == [("x", 2, 1, 0, 0), ("y", 1, 1, 0, 0)]


def test_keys_of_several_partitions_are_located_in_two_jobs(tmp_path: Path) -> None:
    engine = Engine(tmp_path, sizing=TIGHT)
    engine.write(trips(*((k, p, 1, k) for p in "xyz" for k in "abcd")))
    engine.write(trips(*((k, p, 2, "new") for p in "xyz" for k in "ad")))
    assert engine.jobs == ["tag_slices", "find_new_rows", "run_task"]
    assert counts(engine.stats) == [(p, 2, 1, 0, 0) for p in "xyz" for _ in range(2)]


def test_the_profile_counts_updates_by_group_and_inserts_by_partition(tmp_path: Path) -> None:
    engine = filled(tmp_path, GLOBAL_BLOOM)
    engine.write(trips(("a", "x", 20, "u"), ("b", "x", 20, "u"), ("n", "x", 1, "i"), ("m", "z", 1, "i"), ("m", "z", 0, "i")))
    assert engine.task_plan is not None
    profile = engine.task_plan.profile
    assert profile.operation == "UPSERT"
    inserts = {s.partition_path: s.num_inserts for s in profile.stats if s.file_id == ""}
    updates = {(s.partition_path, s.prev_commit): s.num_update_writes for s in profile.stats if s.file_id}
    assert inserts == {"x": 1, "z": 1}
    assert updates == {("x", "001"): 2}
    assert {s.file_id for s in profile.stats if s.file_id} == {s.file_id for s in engine.stats if s.num_update_writes}


def test_a_partition_with_updates_only_is_in_the_profile_without_inserts(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    engine.write(trips(("a", "x", 20, "u"), ("g", "y", 20, "u")))
    assert engine.task_plan is not None
    assert {s.partition_path: s.num_inserts for s in engine.task_plan.profile.stats if s.file_id == ""} == {"x": 0, "y": 0}


def test_a_file_whose_key_range_excludes_the_keys_is_not_opened(tmp_path: Path) -> None:
    engine = filled(tmp_path, BLOOM)
    engine.write(trips(("c", "x", 20, "u"), ("zz", "x", 1, "i")))
    assert engine.task_plan is not None
    figures = engine.task_plan.index_counts
    assert (figures["files"], figures["opened"], figures["candidates"]) == (3, 1, 1)
    engine.index = SIMPLE
    engine.write(trips(("c", "x", 20, "u")))
    assert engine.task_plan.index_counts["opened"] == 4


def test_a_delete_of_unknown_keys_touches_no_file(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    before = dict(engine.groups)
    engine.merger, engine.ordering = AlwaysDelete(), None
    assert engine.write(trips(("q", "x", 1, ""), ("q", "y", 1, ""), ("q", "z", 1, "")), drops_unknown=True) == []
    assert engine.groups == before


def test_a_delete_counts_the_rows_it_removed(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    engine.merger, engine.ordering = AlwaysDelete(), None
    engine.write(trips(("a", "x", 1, ""), ("b", "x", 1, ""), ("q", "x", 1, ""), ("g", "y", 1, "")), drops_unknown=True)
    assert counts(engine.stats) == [("x", 0, 0, 2, 0), ("y", 0, 0, 1, 0)]


def test_a_delete_of_an_unknown_key_in_an_upsert_is_counted_in_the_file_that_it_is_assigned_to(tmp_path: Path) -> None:
    rows = table_of(
        DELETABLE, ("u", "x", 1, "", True), ("a", "x", 1, "new", False), ("n", "new", 1, "", False), ("w", "new", 1, "", True)
    )
    roomy = Engine(tmp_path / "roomy", DELETABLE)
    roomy.write(table_of(DELETABLE, ("a", "x", 1, "old", None)))
    roomy.write(rows)
    assert counts(roomy.stats) == [("new", 1, 0, 1, 1), ("x", 1, 1, 1, 1)]
    tight = Engine(tmp_path / "tight", DELETABLE, sizing=TIGHT)
    tight.write(table_of(DELETABLE, ("a", "x", 1, "old", None)))
    tight.write(rows)
    assert counts(tight.stats) == [("new", 1, 0, 1, 1), ("x", 1, 1, 0, 0)]  # alone, a delete makes no file


def test_an_empty_payload_deletes_known_keys_and_drops_unknown_ones(tmp_path: Path) -> None:
    engine = filled(tmp_path, sizing=ROOMY, merger=OverwriteWithLatest())
    engine.merger, engine.ordering = AlwaysDelete(), None
    engine.write(trips(("a", "x", None, ""), ("q", "x", 1, ""), ("q", "new", 1, "")))
    assert counts(engine.stats) == [("x", 5, 0, 2, 1)]
    assert "a" not in [i for (i,) in engine.snapshot("id")]


# --- rows whose partition changes


@pytest.fixture(params=[GLOBAL_SIMPLE, GLOBAL_BLOOM], ids=lambda i: i.name)
def anywhere(request: pytest.FixtureRequest) -> Index:
    index: Index = request.param
    return index


@pytest.mark.parametrize("sizing", [ROOMY, TIGHT], ids=["one-group", "many-groups"])
def test_a_row_whose_partition_changed_is_deleted_in_the_old_partition_and_inserted_in_the_new_one(
    tmp_path: Path, anywhere: Index, sizing: Sizing
) -> None:
    engine = filled(tmp_path, anywhere, sizing)
    engine.write(trips(("a", "y", 5, "moved"), ("n", "y", 1, "n")))
    assert ("y", "a", "moved", "002") in engine.snapshot(PATH, "id", "v", TIME)
    assert [p for p, i in engine.snapshot(PATH, "id") if i == "a"] == ["y"]
    deletes = {s.partition_path: s.num_deletes for s in engine.stats if s.num_deletes}
    inserts = sum(s.num_inserts for s in engine.stats if s.partition_path == "y")
    assert (deletes, inserts) == ({"x": 1}, 2)


def test_without_moves_a_row_is_updated_in_its_old_partition_whatever_its_partition_column_says(
    tmp_path: Path, anywhere: Index
) -> None:
    engine = filled(tmp_path, replace(anywhere, moves_rows=False))
    engine.write(trips(("a", "y", 5, "updated")))
    assert ("x", "a", "y", "updated") in engine.snapshot(PATH, "id", "city", "v")
    assert counts(engine.stats) == [("x", 2, 1, 0, 0)]


def test_a_late_row_does_not_move_the_stored_row_but_stamps_it_with_the_new_commit(tmp_path: Path, anywhere: Index) -> None:
    engine = filled(tmp_path, anywhere, merger=EventTimeOrdering("ts"))
    engine.write(trips(("a", "y", 5, "late"), ("b", "y", 20, "moved")))
    assert ("x", "a", 10, "a", "x", "002") in engine.snapshot(PATH, "id", "ts", "v", "city", TIME)
    assert [p for p, i in engine.snapshot(PATH, "id") if i == "b"] == ["y"]
    assert counts(engine.stats) == [("x", 1, 1, 1, 0), ("y", 1, 0, 0, 1)]


def test_a_late_row_in_the_same_partition_changes_nothing(tmp_path: Path, anywhere: Index) -> None:
    engine = filled(tmp_path, anywhere, merger=EventTimeOrdering("ts"))
    engine.write(trips(("a", "x", 5, "late")))
    assert ("x", "a", 10, "a", "001") in engine.snapshot(PATH, "id", "ts", "v", TIME)
    assert counts(engine.stats) == [("x", 2, 0, 0, 0)]


@pytest.mark.parametrize(("ts", "gone"), [(20, True), (10, True), (5, False)])
def test_a_delete_applies_to_the_stored_row_in_another_partition(tmp_path: Path, anywhere: Index, ts: int, gone: bool) -> None:
    engine = Engine(tmp_path, DELETABLE, anywhere, TIGHT, EventTimeOrdering("ts"))
    engine.write(table_of(DELETABLE, ("a", "x", 10, "old", None), ("b", "x", 10, "old", None)))
    engine.write(table_of(DELETABLE, ("a", "y", ts, None, True)))
    expected = [("x", "b", "001")] if gone else [("x", "a", "001"), ("x", "b", "001")]
    assert engine.snapshot(PATH, "id", TIME) == expected
    assert counts(engine.stats) == [("x", 1 if gone else 2, 0, int(gone), 0)]


def test_the_delete_operation_applies_in_any_partition(tmp_path: Path, anywhere: Index) -> None:
    engine = filled(tmp_path, anywhere)
    engine.merger, engine.ordering = AlwaysDelete(), None
    engine.write(trips(("a", "nowhere", 0, ""), ("q", "x", 0, "")), drops_unknown=True)
    assert counts(engine.stats) == [("x", 1, 0, 1, 0)]


@pytest.mark.parametrize("sizing", [ROOMY, TIGHT], ids=["one-group", "many-groups"])
def test_a_key_that_is_in_several_partitions_ends_in_the_partition_of_the_incoming_row(
    tmp_path: Path, anywhere: Index, sizing: Sizing
) -> None:
    engine = Engine(tmp_path, index=SIMPLE, sizing=sizing)
    engine.write(trips(("a", "x", 1, "1"), ("a", "y", 1, "1"), ("b", "x", 1, "b")))
    engine.index = anywhere
    engine.write(trips(("a", "z", 2, "n")))
    assert engine.snapshot(PATH, "id", "v") == [("x", "b", "b"), ("z", "a", "n")]
    assert sum(s.num_deletes for s in engine.stats) == 2


def test_a_key_that_is_in_several_partitions_and_in_that_of_the_incoming_row_stays_only_there(
    tmp_path: Path, anywhere: Index
) -> None:
    engine = Engine(tmp_path, index=SIMPLE)
    engine.write(trips(("a", "x", 1, "1"), ("a", "y", 1, "1")))
    engine.index = anywhere
    engine.write(trips(("a", "x", 2, "n")))
    assert engine.snapshot(PATH, "id", "v") == [("x", "a", "n")]
    assert counts(engine.stats) == [("x", 1, 1, 0, 0), ("y", 0, 0, 1, 0)]


def test_a_global_index_keeps_one_row_of_a_key_that_a_batch_has_in_several_partitions(tmp_path: Path, anywhere: Index) -> None:
    engine = Engine(tmp_path, index=anywhere)
    engine.write(trips(("a", "x", 1, "1"), ("a", "y", 3, "3"), ("a", "z", 2, "2")))
    assert engine.snapshot(PATH, "v") == [("y", "3")]
    engine.index = SIMPLE
    engine.write(trips(("a", "x", 1, "1"), ("a", "z", 2, "2")))
    assert engine.snapshot(PATH, "v") == [("x", "1"), ("y", "3"), ("z", "2")]


def test_a_row_moves_also_if_the_stored_file_lacks_the_ordering_column(tmp_path: Path, anywhere: Index) -> None:
    narrow = pa.schema([("id", pa.string()), ("city", pa.string())])
    engine = Engine(tmp_path, narrow, anywhere, ordering=None)
    engine.write(table_of(narrow, ("a", "x"), ("b", "x")))
    engine.schema, engine.merger, engine.ordering = trips().schema, EventTimeOrdering("ts"), "ts"
    engine.write(trips(("a", "y", 1, "moved")))
    assert engine.snapshot(PATH, "id", "v") == [("x", "b", None), ("y", "a", "moved")]


# --- inserts without duplicates


@pytest.mark.parametrize("sizing", [ROOMY, TIGHT], ids=["one-group", "many-groups"])
@pytest.mark.parametrize("index", INDEXES, ids=lambda i: i.name)
def test_an_insert_without_duplicates_drops_rows_with_known_keys(tmp_path: Path, index: Index, sizing: Sizing) -> None:
    engine = filled(tmp_path, index, sizing)
    known = ("a", "x", 30, "p"), ("a", "y", 20, "q"), ("b", "y", 30, "s")
    engine.write(
        trips(*known, ("n", "x", 3, "p"), ("n", "x", 9, "q"), ("n", "x", 9, "r")),
        operation=Operation.INSERT,
        drops_known=True,
    )
    rows = [(p, i, v) for p, i, v in engine.snapshot(PATH, "id", "v") if i in "abn"]
    added = [("x", "n", "r")] if index.is_global else [("x", "n", "r"), ("y", "a", "q"), ("y", "b", "s")]
    assert sorted(rows) == sorted([("x", "a", "a"), ("x", "b", "b"), *added])
    assert sum(s.num_inserts for s in engine.stats) == len(added)
    assert sum(s.num_update_writes + s.num_deletes for s in engine.stats) == 0


def test_an_insert_of_known_keys_alone_touches_no_file(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    assert engine.write(trips(("a", "x", 30, "p")), operation=Operation.INSERT, drops_known=True) == []


# --- odd batches


def test_many_rows_of_one_key_become_one_row(tmp_path: Path) -> None:
    engine = filled(tmp_path, sizing=ROOMY)
    count = 20_000
    rows = pa.table(
        {"id": ["k"] * count, "city": ["x"] * count, "ts": [n % 997 for n in range(count)], "v": [str(n) for n in range(count)]}
    )
    engine.write(rows.cast(trips().schema), batches=3)
    last = max(n for n in range(count) if n % 997 == 996)
    assert [row for row in engine.snapshot("id", "ts", "v") if row[0] == "k"] == [("k", 996, str(last))]
    assert counts(engine.stats) == [("x", 7, 0, 0, 1)]


def test_an_empty_batch_has_no_tasks(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    for index in INDEXES:
        engine.index = index
        assert engine.write(trips()) == []


def test_a_null_ordering_value_raises_a_schema_error_with_every_index(tmp_path: Path) -> None:
    for index in INDEXES:
        engine = filled(tmp_path / index.name, index)
        with pytest.raises(SchemaError, match="Ordering value is null for 1 of"):
            engine.write(trips(("a", "x", None, "v")))


def test_the_same_writes_produce_the_same_files_and_sequence_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of file groups are random numbers with the same seed: they decide which of several small files is filled first."""

    def history(folder: Path, index: Index) -> Any:
        chance = random.Random(7)
        monkeypatch.setattr(clock, "new_uuid", lambda: str(uuid.UUID(int=chance.getrandbits(128))))
        engine = filled(folder, index)
        engine.write(trips(*((k, p, 2, k) for p in "xyz" for k in "adefmn")), batches=2)
        engine.write(trips(*((k, "x", 3, k) for k in "bcghij")), batches=3)
        order = {f: i for i, f in enumerate(f for _, f in engine.groups)}
        rows = sorted((row[PATH], row["id"], row["v"], row[SEQNO]) for row in engine.rows())
        return rows, [(s.partition_path, order[s.file_id], s.num_writes, s.num_inserts) for s in engine.stats]

    for index in INDEXES:
        assert history(tmp_path / f"{index.name}1", index) == history(tmp_path / f"{index.name}2", index)
