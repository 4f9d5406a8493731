"""Whole upserts and deletes of a merge-on-read table without Spark: what goes to logs and base files, and what a query reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SchemaError
from penstock.filegroup.log.committed_times import CommittedTimes
from penstock.filegroup.log.scan import scan_slice, touched_positions
from penstock.filegroup.log.write import BlockFormat, LogSettings
from penstock.filegroup.model import BaseFile, FileSlice, LogFile
from penstock.filegroup.names import parse_log_name
from penstock.filegroup.slice_rows import MergeRules, read_log_rows, read_merged_rows, read_touched_rows
from penstock.filegroup.task_output import TaskOutput
from penstock.formats.log import BlockType, read_deletes, read_rows, scan_blocks
from penstock.index import Index
from penstock.index.simple import SimpleIndex
from penstock.merge.merger import Merger
from penstock.merge.overwrite import AlwaysDelete, EventTimeOrdering, OverwriteWithLatest
from penstock.options.operation import Operation
from penstock.schema import arrow_to_avro, avro_text, with_meta_columns
from penstock.storage import LocalStorage
from penstock.table.state import open_table
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_compaction_plan
from penstock.write.locate.file_group_tasks import plan_file_group_tasks
from penstock.write.locate.file_slices import list_appendable_slices
from penstock.write.locate.small_files import Sizing
from penstock.write.tasks.insert import insert_bucket
from penstock.write.tasks.log_file import RollingLogWriter
from penstock.write.tasks.task import InsertBucket, InsertTask, UpsertRules
from penstock.write.tasks.upsert_kernel import run_task
from tests.kit.model import Model, Row
from tests.table.handmade import HandMade, at
from tests.unit.write.engine import (
    DELETABLE,
    GLOBAL_SIMPLE,
    INDEXES,
    ROOMY,
    SIMPLE,
    TIGHT,
    Engine,
    base_of,
    histories,
    settings_at,
    stage_pieces,
    table_of,
    task_rows_settings,
)

AVRO = with_meta_columns(arrow_to_avro(DELETABLE, "trips"))
IN_PLACE = replace(GLOBAL_SIMPLE, moves_rows=False)
PATH, TIME = "_hoodie_partition_path", "_hoodie_commit_time"


@dataclass
class MergeOnRead(Engine):
    """A merge-on-read table that is written without Spark."""

    logs: LogSettings = field(default_factory=LogSettings)
    log_files: dict[tuple[str, str], list[LogFile]] = field(default_factory=dict)
    #: File groups that wait for a compaction, with its instant.
    compactions: dict[tuple[str, str], str] = field(default_factory=dict)

    def write(self, rows: Any, *, operation: Operation = Operation.UPSERT, batches: int = 1, **rules: Any) -> list[WriteStat]:
        self.instant += 1
        file_settings = replace(settings_at(self.folder, self.schema, f"{self.instant:03}"), avro_schema=avro_text(AVRO))
        size = max(1, -(-rows.num_rows // batches))
        parts = [rows.slice(at, size) for at in range(0, rows.num_rows, size)] or [rows]
        staging, pieces = stage_pieces(file_settings, *parts, path=self.path, numbered=self.index.is_global)
        loading = task_rows_settings(staging, self.ordering, self.memory, str(self.folder / "spill"))
        given = UpsertRules(
            file_settings, loading, self.merger, self.sizing, self.index, self.ordering, logs=self.logs, merging=self.merging()
        )
        self.jobs = []
        self.task_plan = plan_file_group_tasks(replace(given, **rules), pieces, self.slices(), operation, self.runner)
        self.stats = self.runner.collect(run_task, self.task_plan.tasks, WriteStat)
        for stat in self.stats:
            group = stat.partition_path or "", stat.file_id
            if "logVersion" not in stat.log:
                self.groups[group] = base_of(file_settings, stat)
                self.log_files.pop(group, None)
                continue
            path = f"{self.folder}/{stat.path}"
            name = parse_log_name(path.rpartition("/")[2])
            assert name is not None
            log = LogFile(path, name.file_id, name.base_instant, name.version, name.write_token, stat.file_size_in_bytes)
            self.log_files.setdefault(group, []).append(log)
        return self.stats

    def merging(self) -> MergeRules:
        merger = OverwriteWithLatest() if isinstance(self.merger, AlwaysDelete) else self.merger
        times = CommittedTimes(frozenset(f"{n:03}" for n in range(1, self.instant + 1)))
        return MergeRules(merger, AVRO, times, "ts", 1 << 30, str(self.folder))

    def slices(self) -> Mapping[str, list[FileSlice]]:
        found: dict[str, list[FileSlice]] = {}
        for path, file_id in dict.fromkeys([*self.groups, *self.log_files]):
            base, logs = self.groups.get((path, file_id)), tuple(self.log_files.get((path, file_id), ()))
            instant = self.compactions.get((path, file_id), base.instant if base else logs[0].base_instant)
            found.setdefault(path, []).append(FileSlice(path, file_id, instant, base, logs))
        return found

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for slices in self.slices().values():
            for file_slice in slices:
                tables = read_merged_rows(LocalStorage(), file_slice, self.merging())
                merged = [row for table in tables for row in table.to_pylist()]
                assert rows_by_position(file_slice, self.merging()) in (None, sorted(merged, key=repr))
                found += merged
        return found

    def bases(self) -> dict[tuple[str, str], BaseFile]:
        return dict(self.groups)


def rows_by_position(file_slice: FileSlice, rules: MergeRules) -> list[dict[str, Any]] | None:
    """Return the rows of a slice by the positions in its logs, without comparing keys; None if logs hold no positions."""
    touched = touched_positions(file_slice, scan_slice(LocalStorage(), file_slice, rules.times))
    if touched is None or file_slice.base_file is None:
        return None
    base = pq.ParquetFile(file_slice.base_file.path).read().to_pylist()
    kept = [row for at, row in enumerate(base) if at not in set(touched.tolist())]
    rows_of = read_log_rows if rules.lets_logs_win else read_touched_rows
    known = rows_of(LocalStorage(), file_slice, rules, rules.arrow.names)
    return sorted([*kept, *(row for table in known for row in table.to_pylist())], key=repr)


def filled(folder: Path, index: Index = SIMPLE, sizing: Sizing = TIGHT, **settings: Any) -> MergeOnRead:
    """Return a table with keys a to f in partition x, in three groups if the sizing is tight, and g in y."""
    engine = MergeOnRead(folder, DELETABLE, index, sizing, **settings)
    engine.write(table_of(DELETABLE, *((k, "x", 10, k, False) for k in "abcdef"), ("g", "y", 10, "g", False)))
    return engine


def upsert(engine: MergeOnRead, *rows: Row, **rules: Any) -> list[tuple[Any, ...]]:
    """Write rows and return (path, is a log, writes, updates, deletes, inserts) of each file."""
    return counts(engine.write(table_of(DELETABLE, *rows), **rules))


def delete(engine: MergeOnRead, *keys: tuple[str, str]) -> list[tuple[Any, ...]]:
    ordering, merger = engine.ordering, engine.merger
    engine.ordering, engine.merger = None, AlwaysDelete()
    stats = engine.write(
        table_of(DELETABLE, *((k, p, None, None, None) for k, p in keys)), operation=Operation.DELETE, drops_unknown=True
    )
    engine.ordering, engine.merger = ordering, merger
    return counts(stats)


def counts(stats: list[WriteStat]) -> list[tuple[Any, ...]]:
    return sorted(
        (s.partition_path, "logVersion" in s.log, s.num_writes, s.num_update_writes, s.num_deletes, s.num_inserts) for s in stats
    )


@pytest.mark.parametrize("sizing", [replace(ROOMY, candidates=1), TIGHT], ids=["one-group", "many-groups"])
@pytest.mark.parametrize("merger", [OverwriteWithLatest(), EventTimeOrdering("ts")], ids=["overwrite", "default"])
@pytest.mark.parametrize(
    "index", [*INDEXES, IN_PLACE], ids=lambda i: i.name + ("" if i.moves_rows or not i.is_global else "_IN_PLACE")
)
@settings(deadline=None, max_examples=4)
@given(
    history=histories(rows_max=6, writes_max=5),
    batches=st.integers(1, 3),
    memory=st.sampled_from([1, 1 << 30]),
    kind=st.sampled_from(BlockFormat),
)
def test_any_history_with_growing_ordering_values_leaves_the_rows_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory,
    index: Index,
    merger: Merger,
    sizing: Sizing,
    history: list[tuple[str, list[Row]]],
    batches: int,
    memory: int,
    kind: BlockFormat,
) -> None:
    """In logs the ordering value decides, whatever the payload: a dictionary agrees only if ordering values grow."""
    folder = tmp_path_factory.mktemp("t")
    engine = MergeOnRead(folder, DELETABLE, index, sizing, merger, memory=memory, logs=LogSettings(kind))
    model = Model(index.is_global, index.moves_rows, isinstance(merger, EventTimeOrdering))
    for number, (operation, given_rows) in enumerate(history):
        rows = [(k, p, 1 + ts + 4 * number, v, gone) for k, p, ts, v, gone in given_rows]
        if operation == "upsert":
            engine.write(table_of(DELETABLE, *rows), batches=batches)
            model.upsert(rows)
        else:
            delete(engine, *((row[0], row[1]) for row in rows))
            model.delete(rows)
        found = [(*rest, int(time)) for *rest, time in engine.snapshot(PATH, "id", "ts", "v", TIME)]
        assert found == model.sorted_rows()
        seqnos = Counter(row["_hoodie_commit_seqno"] for row in engine.rows())
        assert max(seqnos.values(), default=1) == 1


@pytest.mark.parametrize("sizing", [replace(ROOMY, candidates=1), TIGHT], ids=["one-group", "many-groups"])
def test_updates_and_deletes_go_to_logs_and_no_base_file_is_rewritten(tmp_path: Path, sizing: Sizing) -> None:
    engine = filled(tmp_path, sizing=sizing)
    before = engine.bases()
    found = upsert(engine, ("a", "x", 20, "new", False), ("b", "x", 20, None, True), ("g", "y", 20, "new", False))
    assert found == [("x", True, 1, 1, 1, 0), ("y", True, 1, 1, 0, 0)]
    assert engine.bases() == before
    assert engine.snapshot("id", "v") == [("a", "new"), ("c", "c"), ("d", "d"), ("e", "e"), ("f", "f"), ("g", "new")]


def test_a_batch_is_reduced_to_one_row_per_key_and_not_merged_with_the_stored_row(tmp_path: Path) -> None:
    engine = filled(tmp_path, merger=EventTimeOrdering("ts"))
    upsert(engine, ("a", "x", 3, "late", False), ("a", "x", 2, "later", False))
    (log,) = engine.log_files["x", engine.stats[0].file_id]
    content = Path(log.path).read_bytes()
    (block,) = scan_blocks(content)
    assert read_rows(content, block, columns=["id", "ts"]).to_pylist() == [{"id": "a", "ts": 3}]
    assert ("a", "a") in engine.snapshot("id", "v"), "a reader decides that the row came too late"


def test_a_small_file_that_takes_new_rows_is_rewritten_with_the_changes_of_its_rows(tmp_path: Path) -> None:
    engine = filled(tmp_path, sizing=replace(ROOMY, candidates=1))
    assert upsert(engine, ("a", "x", 20, "new", False), ("n", "x", 20, "n", False)) == [("x", False, 7, 1, 0, 1)]
    assert engine.snapshot("id", "v")[0] == ("a", "new")


def test_a_base_file_with_logs_takes_no_new_rows(tmp_path: Path) -> None:
    engine = filled(tmp_path, sizing=replace(ROOMY, candidates=1))
    upsert(engine, ("a", "x", 20, "new", False))
    assert upsert(engine, ("n", "x", 20, "n", False)) == [("x", False, 1, 0, 0, 1)]
    assert len([path for path, _ in engine.groups if path == "x"]) == 2
    assert len(engine.snapshot("id")) == 8


def test_of_several_small_files_the_smallest_is_filled(tmp_path: Path) -> None:
    engine = filled(tmp_path, sizing=TIGHT)
    sizes = {file_id: base.size_bytes for (path, file_id), base in engine.groups.items() if path == "x"}
    engine.sizing = replace(ROOMY, candidates=1)
    upsert(engine, ("n", "x", 20, "n", False), ("m", "x", 20, "m", False))
    assert [stat.file_id for stat in engine.stats] == [min(sizes, key=lambda file_id: sizes[file_id])]


def test_while_a_compaction_is_pending_changes_go_to_a_log_of_its_slice_and_new_rows_to_a_new_group(tmp_path: Path) -> None:
    engine = filled(tmp_path, sizing=replace(ROOMY, candidates=1))
    (group,) = [at for at in engine.groups if at[0] == "y"]
    upsert(engine, ("g", "y", 20, "one", False))
    engine.compactions[group] = "0025"
    upsert(engine, ("g", "y", 30, "two", False), ("n", "y", 30, "n", False))
    assert counts(engine.stats) == [("y", False, 1, 0, 0, 1), ("y", True, 1, 1, 0, 0)]
    first, second = engine.log_files[group]
    assert (first.base_instant, first.version, second.base_instant, second.version) == ("001", 1, "0025", 1)
    (stat,) = [s for s in engine.stats if s.log]
    assert (stat.prev_commit, stat.log["baseFile"], stat.log["logFiles"]) == ("0025", "", [second.name])
    assert [row for row in engine.snapshot("id", "v") if row[0] in "gn"] == [("g", "two"), ("n", "n")]


def test_a_delete_entry_carries_the_ordering_value_of_the_row_that_deletes(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    upsert(engine, ("a", "x", 7, None, True))
    assert list_deletes(engine, "x") == [("a", "x", 7)]
    assert ("a",) not in engine.snapshot("id"), "a delete block takes a base row away whatever its ordering value"


def test_the_delete_operation_applies_whatever_the_ordering_value(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    assert delete(engine, ("a", "x"), ("g", "y"), ("no", "y"), ("g", "new")) == [("x", True, 0, 0, 1, 0), ("y", True, 0, 0, 1, 0)]
    assert list_deletes(engine, "x") == [("a", "x", None)]
    assert engine.snapshot("id") == [("b",), ("c",), ("d",), ("e",), ("f",)]


def test_a_row_that_moves_leaves_a_delete_entry_that_always_applies(tmp_path: Path) -> None:
    engine = filled(tmp_path, GLOBAL_SIMPLE)
    found = upsert(engine, ("a", "z", 5, "moved", False), ("b", "x", 20, "new", False))
    assert found == [("x", True, 1, 1, 1, 0), ("z", False, 1, 0, 0, 1)]
    assert list_deletes(engine, "x") == [("a", "x", None)]
    upsert(engine, ("a", "y", 6, "back", False))
    assert [row for row in engine.snapshot(PATH, "id", "v") if row[1] == "a"] == [("y", "a", "back")]
    upsert(engine, ("a", "x", 7, "home", False))
    assert [row for row in engine.snapshot(PATH, "id", "v") if row[1] == "a"] == [("x", "a", "home")]


def test_a_row_moves_only_if_it_is_newer_than_the_row_in_the_log(tmp_path: Path) -> None:
    engine = filled(tmp_path, GLOBAL_SIMPLE, merger=EventTimeOrdering("ts"))
    upsert(engine, ("a", "x", 30, "newer", False))
    assert upsert(engine, ("a", "z", 20, "late", False)) == []
    assert [row for row in engine.snapshot(PATH, "id", "v") if row[1] == "a"] == [("x", "a", "newer")]


def test_a_key_that_was_deleted_and_inserted_in_another_group_is_updated_in_that_group_only(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    delete(engine, ("a", "x"))
    old = engine.stats[0].file_id
    engine.index, engine.groups = SIMPLE, {at: base for at, base in engine.groups.items() if at[1] != old}
    upsert(engine, ("a", "x", 20, "again", False))  # as an insert would, which looks for no keys
    restored = [at for at, base in filled_groups(engine, tmp_path).items() if at[1] == old]
    engine.groups |= {at: filled_groups(engine, tmp_path)[at] for at in restored}
    assert [row for row in engine.snapshot("id", "v") if row[0] == "a"] == [("a", "again")]
    upsert(engine, ("a", "x", 30, "updated", False))
    assert [row for row in engine.snapshot("id", "v") if row[0] == "a"] == [("a", "updated")]
    assert [s.file_id for s in engine.stats] != [old]


def filled_groups(engine: MergeOnRead, folder: Path) -> dict[tuple[str, str], BaseFile]:
    """Return the base files of the first write, by listing."""
    found = {}
    for file in folder.glob("x/*_001.parquet"):
        file_id = file.name.split("_")[0]
        found["x", file_id] = BaseFile(str(file), file_id, "001", file.stat().st_size)
    return found


def test_a_key_that_was_deleted_is_inserted_again_in_its_old_group(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    delete(engine, ("a", "x"))
    (old,) = [s.file_id for s in engine.stats]
    assert upsert(engine, ("a", "x", 20, "again", False)) == [("x", True, 1, 1, 0, 0)]
    assert [s.file_id for s in engine.stats] == [old]
    assert ("a", "again") in engine.snapshot("id", "v")


def list_deletes(engine: MergeOnRead, path: str) -> list[tuple[Any, ...]]:
    """Return (key, partition path, ordering value) of the delete entries that the last write left in a partition."""
    found: list[tuple[Any, ...]] = []
    for stat in engine.stats:
        if stat.partition_path == path and stat.log:
            content = (engine.folder / str(stat.path)).read_bytes()
            for block in scan_blocks(content):
                if block.type is BlockType.DELETE:
                    entries = read_deletes(content, block)
                    ordering = entries.ordering(DELETABLE.field("ts").type)
                    found += zip(entries.keys.to_pylist(), entries.partitions.to_pylist(), ordering.to_pylist(), strict=True)
    return found


# --- an index that finds keys in logs, so that new rows go to logs too


@dataclass(frozen=True)
class LogIndex(SimpleIndex):
    """An index that finds keys in log files."""

    name = "LOGS"
    finds_rows_in_logs = True
    inserts_into_logs = True


IN_LOGS = LogIndex()
INTO_LOGS = LogSettings(insert_ratio=0.35)


@pytest.mark.parametrize("batches", [1, 3])
def test_where_the_index_finds_keys_in_logs_new_rows_go_to_logs(tmp_path: Path, batches: int) -> None:
    sizing = replace(TIGHT, candidates=1, log_ratio=0.35)
    engine = MergeOnRead(tmp_path, DELETABLE, IN_LOGS, sizing, logs=INTO_LOGS)
    rows = table_of(DELETABLE, *((k, "x", 10, k, k == "d") for k in "abcde"))
    found = counts(engine.write(rows, batches=batches))
    assert [row[:2] for row in found] == [("x", True)] * 3, "two rows to a group"
    assert [sum(row[i] for row in found) for i in (2, 3, 4, 5)] == [4, 0, 1, 4], "a delete of an unknown key is only counted"
    assert not list(tmp_path.glob("x/*.parquet"))
    for stat in engine.stats:
        name = parse_log_name(str(stat.path).rpartition("/")[2])
        assert name is not None
        assert (name.base_instant, name.version, stat.prev_commit, stat.log["baseFile"]) == ("001", 1, "001", "")
    assert engine.snapshot("id", "v") == [("a", "a"), ("b", "b"), ("c", "c"), ("e", "e")]


def test_new_rows_and_changes_of_a_slice_with_room_share_one_log_file(tmp_path: Path) -> None:
    engine = filled(tmp_path, sizing=replace(ROOMY, candidates=1))
    engine.index, engine.logs, engine.sizing = IN_LOGS, INTO_LOGS, replace(ROOMY, candidates=1, log_ratio=0.35)
    before = engine.bases()
    found = upsert(engine, ("a", "x", 20, "new", False), ("n", "x", 20, "n", False), ("m", "x", 20, "m", True))
    assert found == [("x", True, 2, 1, 1, 1)], "as Hudi, a delete of an unknown key is written down"
    assert engine.bases() == before
    assert upsert(engine, ("p", "y", 30, "p", False)) == [("y", True, 1, 0, 0, 1)]
    assert engine.snapshot("id", "v")[0] == ("a", "new")
    assert [row[0] for row in engine.snapshot("id")] == [*"abcdefgnp"]


def test_a_full_log_is_followed_by_a_log_of_a_new_group(tmp_path: Path) -> None:
    rows = table_of(DELETABLE, *((k, "x", 10, k * 50, False) for k in "abcdef"))
    output = TaskOutput(replace(settings_at(tmp_path, DELETABLE, max_file_bytes=300), avro_schema=avro_text(AVRO)), 0, "0-0-0")
    target = FileSlice("x", "old-0", "000")
    groups = RollingLogWriter(output, "x", INTO_LOGS, target)
    for number in range(6):
        groups.write(rows.slice(number, 1), rows["id"].slice(number, 1))
    groups.write(rows.slice(0, 0), rows["id"].slice(0, 0))
    stats = groups.close()
    assert len(stats) > 2
    assert [s.prev_commit for s in stats] == ["000", *["001"] * (len(stats) - 1)]
    assert len({s.file_id for s in stats}) == len(stats)
    assert sum(s.num_inserts for s in stats) == 6
    assert all((tmp_path / str(s.path)).exists() for s in stats)


def test_an_insert_goes_to_logs_if_the_index_finds_keys_in_logs(tmp_path: Path) -> None:
    rows = table_of(DELETABLE, ("a", "x", 10, "a", False), ("b", "x", 10, "b", True))
    settings = replace(settings_at(tmp_path, DELETABLE, "002"), avro_schema=avro_text(AVRO))
    staging, pieces = stage_pieces(settings, rows, path="city")
    base = BaseFile(f"{tmp_path}/x/f-0_0-0-0_001.parquet", "f-0", "001", 1)
    for target in (FileSlice("x", "f-0", "001", base), None):
        task = InsertTask(InsertBucket("x", tuple(pieces), target), settings, staging, OverwriteWithLatest(), logs=INTO_LOGS)
        (stat,) = insert_bucket(task)
        assert counts([stat]) == [("x", True, 1, 0, 1, 1)]
        assert stat.prev_commit == ("001" if target else "002")


def test_an_insert_into_a_log_with_stored_rows_needs_an_ordering_value(tmp_path: Path) -> None:
    rows = table_of(DELETABLE, ("a", "x", None, "a", False))
    output = TaskOutput(replace(settings_at(tmp_path, DELETABLE), avro_schema=avro_text(AVRO)), 0, "0-0-0")
    logs = replace(INTO_LOGS, compared="ts")
    with pytest.raises(SchemaError, match="Ordering value is null for 1 of 1 rows: column 'ts'"):
        RollingLogWriter(output, "x", logs, FileSlice("x", "old-0", "000")).write(rows, rows["id"])
    alone = RollingLogWriter(output, "x", logs)
    alone.write(rows, rows["id"])
    assert [stat.num_inserts for stat in alone.close()] == [1]


def test_changes_are_appended_behind_compactions_that_were_planned_before_the_write_began(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    made.base(1, "x", ("a", "x", 1, 1.0)).base(1, "y", ("b", "y", 1, 1.0)).instant(1)
    made.log(1, "x", 1, made.rows(2, "x", ("a", "x", 2, 2.0))).log(2, "z", 1, made.rows(2, "z", ("c", "z", 2, 2.0))).instant(2)
    for number, path in ((3, "x"), (5, "y")):
        (group,) = list_appendable_slices(open_table(str(made.path)), [path], instant=at(9))[path]
        operation = CompactionOperation(path, group.file_id, at(1), None, ())
        file = made.path / ".hoodie" / f"{at(number)}.compaction.requested"
        file.write_bytes(write_compaction_plan(CompactionPlan((operation,))))
    table = open_table(str(made.path))
    found = list_appendable_slices(table, None, instant=at(4))
    assert {path: [s.base_instant for s in its] for path, its in found.items()} == {"x": [at(3)], "y": [at(1)], "z": []}
    found = list_appendable_slices(table, ["z"], instant=at(4), logs_alone=True)
    assert [(s.base_instant, s.base_file, len(s.log_files)) for s in found["z"]] == [(at(2), None, 1)]
