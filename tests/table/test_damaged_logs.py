"""Damaged log files: what a crashed append left is passed over; damage of a completed write fails only queries that need it."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CorruptFile
from penstock.formats.log import encode_delete_block, encode_rollback_block, scan_blocks
from penstock.formats.log.deletes import build_deletes
from penstock.timeline.instant import next_time
from tests.kit.templates import Templates
from tests.table.tables import (
    OPERATION,
    SIX,
    TRIPS,
    Trip,
    commits,
    load,
    snapshot,
    sorted_rows,
    state_of,
    stats,
    timeline,
    trips,
    values,
    write,
)

MOR = {**TRIPS, "hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
SKIP = {"penstock.log.skip.damaged.blocks": "true"}
CHANGES: tuple[Trip, ...] = (("a", "berlin", 9, 9.5), ("c", "paris", 9, 9.5))
CHANGED = sorted([*CHANGES, *(row for row in SIX if row[0] not in ("a", "c"))], key=repr)
#: What a crashed append may leave behind the last whole block: a whole block of a write that never completed, and its beginnings.
BLOCK = encode_rollback_block(instant="20200101000000000", target_instant="20190101000000000")
TAILS = {"a magic": BLOCK[:6], "a front": BLOCK[:14], "a header": BLOCK[:-20], "zeros": bytes(512), "noise": b"\xa5" * 40}


@pytest.fixture
def path(spark: Any, table_path: str, templates: Templates) -> str:
    """A table whose partitions berlin and paris have a base file and a log each."""

    def build(at: str) -> None:
        write(trips(spark, *SIX), at, {**MOR, OPERATION: "upsert"})
        upsert(spark, at, *CHANGES)

    return templates.copy("logs-in-two-partitions", build, table_path)


def upsert(spark: Any, path: str, *rows: Trip, **options: str) -> None:
    write(trips(spark, *rows), path, {**MOR, OPERATION: "upsert", **options})


def log_of(path: str, city: str) -> Path:
    """Return the only log file of a partition."""
    (log,) = Path(path, city).glob(".*.log.*[0-9]")
    return log


def damage(log: Path) -> None:
    """Overwrite the end of the log, so that its last block is not whole."""
    content = log.read_bytes()
    log.write_bytes(content[:-30] + b"\xa5" * 30)


# --- what a crashed append left


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_bytes_behind_the_recorded_size_are_passed_over_by_queries_writers_and_compaction(
    spark: Any, path: str, tail: bytes
) -> None:
    for city in ("berlin", "paris"):
        log = log_of(path, city)
        log.write_bytes(log.read_bytes() + tail)
    assert snapshot(spark, path) == CHANGED
    upsert(spark, path, ("b", "berlin", 20, 20.5))
    expected = sorted([("b", "berlin", 20, 20.5), *(row for row in CHANGED if row[0] != "b")], key=repr)
    assert snapshot(spark, path) == expected
    assert penstock.Table.open(path, spark).compact()
    assert snapshot(spark, path, **{"hoodie.datasource.query.type": "read_optimized"}) == expected


def test_a_crashed_append_is_rolled_back_by_the_next_writer(spark: Any, path: str) -> None:
    """As Hudi leaves it where logs are appended to: a pending delta commit, a marker, and a torn block in an existing log file."""
    log = log_of(path, "berlin")
    died = next_time(timeline(path)[-1].partition(".")[0], "0")
    torn = encode_delete_block(build_deletes(pa.array(["a"]), pa.array(["berlin"])), instant=died, schema="{}")
    log.write_bytes(log.read_bytes() + torn[:-9])
    hoodie = Path(path, ".hoodie")
    for state in ("requested", "inflight"):
        (hoodie / f"{died}.deltacommit.{state}").touch()
    marker = hoodie / ".temp" / died / "berlin" / f"{log.name}.marker.APPEND"
    marker.parent.mkdir(parents=True)
    marker.touch()
    assert snapshot(spark, path) == CHANGED
    upsert(spark, path, ("d", "paris", 20, 20.5))
    assert not [name for name in timeline(path) if name.startswith(died)]
    blocks = [block for file in Path(path, "berlin").glob(".*.log.*") for block in scan_blocks(file.read_bytes())]
    assert [block.target_instant for block in blocks if block.is_rollback] == [died]
    assert snapshot(spark, path) == sorted([("d", "paris", 20, 20.5), *(row for row in CHANGED if row[0] != "d")], key=repr)
    assert list(penstock.Table.open(path, spark).check_files()) == []


def test_a_write_to_another_partition_goes_on(spark: Any, path: str) -> None:
    damage(log_of(path, "berlin"))
    upsert(spark, path, ("d", "paris", 20, 20.5))
    assert sorted_rows(load(spark, f"{path}/paris").select("id", "ts")) == [("c", 9), ("d", 20)]


# --- damage of a completed write


def test_a_query_of_other_partitions_goes_on(spark: Any, path: str) -> None:
    damage(log_of(path, "berlin"))
    with pytest.warns(RuntimeWarning, match="a query that reads partition 'berlin' of .* fails: .*it is damaged"):
        frame = load(spark, path)
    others = [row for row in CHANGED if row[1] != "berlin"]
    columns = ("id", "city", "ts", "fare")
    assert sorted_rows(frame.where("city <> 'berlin'").select(*columns)) == others
    assert sorted_rows(frame.where("city = 'paris' and fare > 9").select("id")) == [("c",)]
    assert frame.where("_hoodie_partition_path = 'tokyo'").count() == 2
    assert sorted_rows(load(spark, f"{path}/paris").select("id")) == [("c",), ("d",)]
    with pytest.raises(Exception, match="it is damaged, and write .* had completed it"):
        frame.collect()
    with pytest.raises(Exception, match="it is damaged, and write .* had completed it"):
        frame.where("city = 'berlin'").count()
    with pytest.raises(CorruptFile, match="it is damaged, and write .* had completed it"):
        load(spark, f"{path}/berlin")


# --- damaged blocks that are skipped knowingly


def spoil_content(log: Path) -> None:
    """Change the number of records in the first block. The block stays whole, and its content cannot be decoded."""
    content = bytearray(log.read_bytes())
    block = next(iter(scan_blocks(bytes(content))))
    content[block.content_offset + 4 : block.content_offset + 8] = struct.pack(">i", 1 << 20)
    log.write_bytes(bytes(content))


def spoil_version(log: Path) -> None:
    """Change the log format version of the first block."""
    content = bytearray(log.read_bytes())
    content[17] = 7
    log.write_bytes(bytes(content))


def spoil_start(log: Path) -> None:
    """Overwrite the first bytes, so that the file does not begin with a block."""
    log.write_bytes(b"\xa5" * 20 + log.read_bytes()[20:])


def empty(log: Path) -> None:
    """Cut the file to zero bytes, as a disk may leave it that lost power."""
    log.write_bytes(b"")


DAMAGE = {
    "a torn block": damage,
    "a content": spoil_content,
    "a version": spoil_version,
    "no block": spoil_start,
    "no bytes": empty,
}
#: Without the update of row a.
WITHOUT = sorted([("a", "berlin", 1, 1.5), *(row for row in CHANGED if row[0] != "a")], key=repr)
LOST = (
    r"skips 1 damaged log block \([0-9,]+ bytes\) in 1 log file, with up to 1 changed or deleted rows, of .*log file .*/berlin/"
)


@pytest.mark.parametrize(
    ("spoil", "few", "problem"),
    [(damage, 0, "it is damaged, and write .* had completed it"), (spoil_content, 64, "log file .*berlin.*block at byte")],
    ids=["many log files", "a content"],
)
def test_a_query_of_other_partitions_goes_on_where_only_workers_find_the_damage(
    spark: Any, path: str, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None], few: int, problem: str
) -> None:
    monkeypatch.setattr("penstock.read.log_headers._FEW_LOG_FILES", few)
    spoil(log_of(path, "berlin"))
    frame = load(spark, path)
    columns = ("id", "city", "ts", "fare")
    assert sorted_rows(frame.where("city <> 'berlin'").select(*columns)) == [row for row in CHANGED if row[1] != "berlin"]
    assert frame.where("city = 'paris' and fare > 9 and _hoodie_record_key is not null").count() == 1
    assert frame.where("_hoodie_partition_path = 'paris'").count() == 2
    for needing in ("true", "city = 'berlin'", "city = 'paris' or fare > 1000", "_hoodie_record_key = 'c' and ts > 1000"):
        with pytest.raises(Exception, match=problem):
            frame.where(needing).count()
    with pytest.raises(Exception, match=problem):
        frame.where("fare > 1000").select("id").collect()


@pytest.mark.parametrize("spoil", DAMAGE.values(), ids=DAMAGE)
def test_damaged_blocks_are_skipped_on_demand_and_a_warning_counts_what_is_lost(
    spark: Any, path: str, spoil: Callable[[Path], None]
) -> None:
    spoil(log_of(path, "berlin"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(Exception, match="log file .*/berlin/"):
            load(spark, path).collect()
        with pytest.raises(Exception, match="log file .*/berlin/"):
            penstock.Table.open(path, spark).compact()
    with pytest.warns(RuntimeWarning, match=LOST):
        assert snapshot(spark, path, **SKIP) == WITHOUT
    with pytest.warns(RuntimeWarning, match=LOST):
        penstock.Table.open(path, spark).compact(options=SKIP)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert snapshot(spark, path) == WITHOUT


def test_a_write_that_reads_logs_skips_damaged_blocks_on_demand(spark: Any, path: str) -> None:
    damage(log_of(path, "berlin"))
    moving = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    moved = ("b", "paris", 30, 30.5)
    with pytest.raises(CorruptFile, match="it is damaged"):
        upsert(spark, path, moved, **moving)
    with pytest.warns(RuntimeWarning, match=LOST):
        upsert(spark, path, moved, **moving, **SKIP)
    with pytest.warns(RuntimeWarning, match=LOST):
        assert snapshot(spark, path, **SKIP) == sorted([moved, *(row for row in WITHOUT if row[0] != "b")], key=repr)


def test_a_warning_counts_the_blocks_of_a_query_with_many_log_files(
    spark: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.read.log_headers._FEW_LOG_FILES", 0)
    for city in ("berlin", "paris"):
        damage(log_of(path, city))
    with pytest.warns(RuntimeWarning, match="skips 2 damaged log blocks .* in 2 log files, with up to 2 changed or deleted rows"):
        assert snapshot(spark, path, **SKIP) == sorted(SIX, key=repr)


def test_a_skipped_torn_tail_counts_as_no_loss(spark: Any, path: str) -> None:
    log = log_of(path, "berlin")
    log.write_bytes(log.read_bytes() + BLOCK[:14])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert snapshot(spark, path, **SKIP) == CHANGED


# --- repair


@pytest.mark.parametrize("spoil", DAMAGE.values(), ids=DAMAGE)
def test_a_repair_compacts_the_damaged_file_groups_alone_and_reports_what_is_lost(
    spark: Any, path: str, spoil: Callable[[Path], None]
) -> None:
    spoil(log_of(path, "berlin"))
    table = penstock.Table.open(path, spark)
    before = state_of(path)
    planned = table.repair(dry_run=True)
    assert (len(planned), planned.commits, state_of(path)) == (1, (), before)
    with pytest.warns(RuntimeWarning, match=LOST):
        repaired = table.repair()
    assert list(repaired) == list(planned)
    (group,) = repaired
    assert (group.partition_path, group.damaged_blocks, group.lost_rows, group.torn_blocks) == ("berlin", 1, 1, 0)
    assert "/berlin/" in group.problem
    assert "up to 1" in str(repaired)
    assert [commit.operation for commit in repaired.commits] == ["compact"]
    assert [stat["partitionPath"] for stat in stats(commits(path)[-1])] == ["berlin"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert snapshot(spark, path) == WITHOUT
        again = table.repair()
    assert (len(again), again.commits) == (0, ())
    assert list(table.check_files()) == []


def test_files_that_lost_their_end_or_are_missing_are_problems_of_the_check(spark: Any, path: str) -> None:
    berlin, paris = log_of(path, "berlin"), log_of(path, "paris")
    size = berlin.stat().st_size
    berlin.write_bytes(b"")
    paris.unlink()
    instant = timeline(path)[-1].partition(".")[0]
    assert {found.path: found.problem for found in penstock.Table.open(path, spark).check_files()} == {
        f"berlin/{berlin.name}": f"is shorter than write {instant} recorded: 0 of {size:,} bytes",
        f"paris/{paris.name}": f"is missing: commit {instant} wrote it, and no later one replaced it",
    }


def test_a_log_that_was_cut_behind_a_whole_block_is_found_by_check_and_repair(spark: Any, table_path: str) -> None:
    columns = "id string, city string, ts bigint, fare double, _hoodie_is_deleted boolean"
    first = [("a", "berlin", 1, 1.5, False), ("b", "berlin", 1, 1.5, False)]
    for rows in (first, [("a", "berlin", 2, 2.5, False), ("b", "berlin", 2, 2.5, True)]):
        write(values(spark, columns, *rows), table_path, {**MOR, OPERATION: "upsert"})
    log = log_of(table_path, "berlin")
    changed, deleted = scan_blocks(log.read_bytes())
    log.write_bytes(log.read_bytes()[: changed.size])
    table = penstock.Table.open(table_path, spark)
    instant = timeline(table_path)[-1].partition(".")[0]
    problem = f"is shorter than write {instant} recorded: {changed.size:,} of {changed.size + deleted.size:,} bytes"
    assert [found.problem for found in table.check_files()] == [problem]
    with pytest.warns(RuntimeWarning, match="with up to 2 changed or deleted rows, of .* is shorter than write"):
        (group,) = table.repair()
    assert (group.damaged_blocks, group.damaged_bytes, group.lost_rows, group.torn_blocks) == (1, deleted.size, 2, 0)
    assert group.problem.endswith(problem)
    assert sorted_rows(load(spark, table_path).select("id", "ts")) == [("a", 2), ("b", 1)]
    assert (len(table.repair(dry_run=True)), list(table.check_files())) == (0, [])


def test_an_empty_log_file_that_no_commit_names_is_no_damage(spark: Any, path: str) -> None:
    """A task that died may leave a file which it created and did not fill."""
    log = log_of(path, "berlin")
    log.with_name(log.name.replace(".log.1_", ".log.2_")).touch()
    assert snapshot(spark, path) == CHANGED
    assert len(penstock.Table.open(path, spark).repair(dry_run=True)) == 0


def test_a_repair_runs_the_pending_compaction_of_a_damaged_file_group(spark: Any, path: str) -> None:
    table = penstock.Table.open(path, spark)
    plan = table.schedule_compaction()
    assert plan is not None
    upsert(spark, path, ("b", "berlin", 20, 20.5))
    early, late = sorted(Path(path, "berlin").glob(".*.log.*[0-9]"))
    for log in (early, late):
        damage(log)
    with pytest.warns(RuntimeWarning, match="damaged log block"):
        repaired = table.repair()
    assert [commit.instant == plan.instant for commit in repaired.commits] == [True, False]
    assert [(group.damaged_blocks, group.lost_rows) for group in repaired] == [(2, 2)]
    assert snapshot(spark, path) == WITHOUT
    assert len(table.repair()) == 0


def test_a_repair_removes_what_a_crashed_append_left_and_loses_nothing(spark: Any, path: str) -> None:
    log = log_of(path, "berlin")
    log.write_bytes(log.read_bytes() + TAILS["noise"])
    table = penstock.Table.open(path, spark)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        (group,) = table.repair()
    assert (group.damaged_blocks, group.lost_rows, group.torn_blocks, group.problem) == (0, 0, 1, "")
    assert snapshot(spark, path) == CHANGED
    assert len(table.repair(dry_run=True)) == 0


def test_a_copy_on_write_table_has_nothing_to_repair(spark: Any, table: str) -> None:
    before = state_of(table)
    assert len(penstock.Table.open(table, spark).repair()) == 0
    assert state_of(table) == before
