"""Compaction of whole tables: inline and by another process, concurrently with writes, after crashes. No row is lost or doubled."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import CommitUnknown, CorruptFile, OptionError, StorageError, Unsupported, WriteConflict
from penstock.formats.log import encode_rollback_block, scan_blocks
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services import planned
from penstock.services.compaction.service import COMPACTION
from penstock.services.log_compaction.service import LOG_COMPACTION
from penstock.services.planned import schedule, schedule_and_run
from penstock.table.state import TableState, open_table
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_compaction_plan
from tests.crash.scenes import HEARTBEATS_EXPIRED
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.plain import Row, orphans, pending, plain_rows
from tests.kit.templates import Templates
from tests.table.handmade import HandMade, at
from tests.table.tables import (
    OPERATION,
    SIX,
    TRIPS,
    Trip,
    base_files,
    commits,
    footer,
    load,
    snapshot,
    stats,
    timeline,
    trips,
    write,
)

MOR = {**TRIPS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
INLINE, SCHEDULE = "hoodie.compact.inline", "hoodie.compact.schedule.inline"
COMMITS = "hoodie.compact.inline.max.delta.commits"
APART = {**MOR, INLINE: "false"}
LAZY = {"hoodie.cleaner.policy.failed.writes": "LAZY"}


def without(rows: tuple[Trip, ...], keys: str) -> tuple[Trip, ...]:
    """Return the rows of other keys."""
    return tuple(row for row in rows if str(row[0]) not in keys)


CHANGES: tuple[Trip, ...] = (("a", "berlin", 9, 9.5), ("c", "paris", 9, 9.5))
CHANGED = (*CHANGES, *without(SIX, "ac"))
LATER: tuple[Trip, ...] = (("a", "berlin", 10, 10.5), ("e", "tokyo", 10, 10.5))
ALL = (*LATER, *without(CHANGED, "ae"))


def upsert(spark: Any, path: str, *rows: Any, **options: str) -> None:
    write(trips(spark, *rows), path, {**APART, OPERATION: "upsert", **options})


def delete(spark: Any, path: str, *rows: Any) -> None:
    write(trips(spark, *rows), path, {**APART, OPERATION: "delete"})


def rows_of(*rows: Any) -> list[Row]:
    return sorted((tuple(row) for row in rows), key=repr)


def read_optimized(spark: Any, path: str) -> list[Row]:
    found = load(spark, path, **{"hoodie.datasource.query.type": "read_optimized"}).select("id", "city", "ts", "fare")
    return rows_of(*found.collect())


def log_files(path: str) -> list[str]:
    return sorted(p.name for p in Path(path).rglob(".*.log.*"))


def instants(path: str, end: str) -> list[str]:
    return [name.split(".")[0] for name in timeline(path) if name.partition(".")[2] == end]


@pytest.fixture
def path(spark: Any, table_path: str, templates: Templates) -> str:
    """A table with six rows, two of them with newer versions in log files."""

    def make(path: str) -> None:
        write(trips(spark, *SIX), path, {**APART, OPERATION: "insert"})
        upsert(spark, path, *CHANGES)

    return templates.copy("two-rows-in-logs", make, table_path)


@pytest.fixture
def table(path: str, spark: Any) -> penstock.Table:
    return penstock.Table.open(path, spark)


def test_base_files_hold_all_rows_after_a_compaction(spark: Any, table: penstock.Table) -> None:
    assert read_optimized(spark, table.path) == rows_of(*SIX)
    (commit,) = table.compact()
    assert (commit.operation, commit.rows_updated, commit.files_written) == ("compact", 2, 2)
    assert read_optimized(spark, table.path) == rows_of(*CHANGED)
    assert plain_rows(table.path) == rows_of(*CHANGED)
    assert orphans(table.path) == []


def test_deleted_rows_are_gone_from_the_base_files(spark: Any, table: penstock.Table) -> None:
    delete(spark, table.path, SIX[1], SIX[4], SIX[5])
    (commit,) = table.compact()
    assert commit.rows_deleted == 3
    assert read_optimized(spark, table.path) == rows_of(*without(CHANGED, "bef"))


def test_rows_keep_their_commit_time(spark: Any, table: penstock.Table) -> None:
    first, second = instants(table.path, "deltacommit")
    table.compact()
    read = load(spark, table.path, **{"hoodie.datasource.query.type": "read_optimized"})
    found = {row.id: row for row in read.collect()}
    assert {key: row._hoodie_commit_time for key, row in found.items()} == {k: second if k in "ac" else first for k in "abcdef"}
    assert all(row._hoodie_commit_seqno.startswith(row._hoodie_commit_time) for row in found.values())
    (compacted,) = instants(table.path, "commit")
    assert {key for key, row in found.items() if row._hoodie_file_name.endswith(f"_{compacted}.parquet")} == set("abcd")


def test_the_commit_says_that_it_is_a_compaction(table: penstock.Table) -> None:
    table.compact()
    last = commits(table.path)[-1]
    assert (last["compacted"], last["operationType"]) == (True, "COMPACT")
    assert set(json.loads(last["extraMetadata"]["penstock.stages"])) == {"compact"}
    first = instants(table.path, "deltacommit")[0]
    for stat in stats(last):
        assert (stat["prevCommit"], stat["numWrites"], stat["numUpdateWrites"]) == (first, 2, 1)
        assert (stat["totalLogRecords"], stat["totalLogFilesCompacted"], stat["totalUpdatedRecordsCompacted"]) == (1, 1, 1)
        assert stat["totalLogSizeCompacted"] > 0


def test_the_schema_of_the_table_stays(spark: Any, table: penstock.Table) -> None:
    before = table.schema
    table.compact()
    assert table.schema == before
    assert {json.loads(footer(file)["parquet.avro.schema"])["name"] for file in base_files(table.path)} == {"trips_record"}


def test_spark_tasks_run_a_large_compaction(spark: Any, table: penstock.Table) -> None:
    table.compact(options={"penstock.small.batch.rows": 0})
    assert read_optimized(spark, table.path) == rows_of(*CHANGED)


def test_a_table_with_nothing_to_compact_gets_no_commit(table: penstock.Table) -> None:
    table.compact()
    before = timeline(table.path)
    assert table.compact() == []
    assert table.schedule_compaction() is None
    assert timeline(table.path) == before


def test_a_copy_on_write_table_is_refused(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, {**TRIPS, OPERATION: "insert"})
    with pytest.raises(Unsupported, match="Can only compact table of type MERGE_ON_READ"):
        penstock.Table.open(table_path, spark).compact()


# A plan that waits


def test_writes_during_a_pending_plan_are_kept_on_top_of_its_base_files(spark: Any, table: penstock.Table) -> None:
    plan = table.schedule_compaction()
    assert plan is not None
    assert (plan.state, plan.file_groups, plan.log_files) == ("requested", 2, 2)
    upsert(spark, table.path, *LATER)
    assert plain_rows(table.path) == rows_of(*ALL)
    on_top = [name for name in log_files(table.path) if f"_{plan.instant}.log" in name]
    assert len(on_top) == 1  # tokyo's group is in no plan
    table.compact(plan.instant)
    assert plain_rows(table.path) == rows_of(*ALL)
    assert read_optimized(spark, table.path) == rows_of(*CHANGED)
    table.compact()
    assert read_optimized(spark, table.path) == rows_of(*ALL)


def test_several_pending_plans_are_run_in_their_order(spark: Any, table: penstock.Table) -> None:
    first = table.schedule_compaction()
    upsert(spark, table.path, *LATER)
    second = table.schedule_compaction()
    assert first is not None
    assert second is not None
    assert [one.instant for one in table.pending_compactions()] == [first.instant, second.instant]
    done = table.compact()
    assert [one.instant for one in done[:2]] == [first.instant, second.instant]
    assert len(done) == 3  # and what lay on top of the first
    assert read_optimized(spark, table.path) == rows_of(*ALL)


def test_an_unscheduled_plan_leaves_no_trace_in_the_table(spark: Any, table: penstock.Table) -> None:
    plan = table.schedule_compaction()
    assert plan is not None
    upsert(spark, table.path, *LATER)
    table.unschedule_compaction(plan.instant)
    assert len(table.pending_compactions()) == 0
    assert not any(plan.instant in name for name in log_files(table.path))
    assert plain_rows(table.path) == rows_of(*ALL)
    upsert(spark, table.path, ("a", "berlin", 11, 11.5))
    table.compact()
    assert read_optimized(spark, table.path) == rows_of(("a", "berlin", 11, 11.5), *ALL[1:])


def test_an_unknown_plan_is_not_run(table: penstock.Table) -> None:
    with pytest.raises(OptionError, match="no pending compaction at 7"):
        table.compact("7")


def test_a_plan_is_not_run_while_an_earlier_write_is_under_way(table: penstock.Table) -> None:
    plan = table.schedule_compaction()
    assert plan is not None
    (Path(table.path) / ".hoodie" / "20200101000000000.deltacommit.inflight").touch()
    with pytest.raises(WriteConflict, match="began before compaction"):
        table.compact()
    assert table.pending_compactions()[0].state == "requested"


def test_compaction_runs_concurrently_with_a_writer(spark: Any, table: penstock.Table) -> None:
    """A write that meets a plan which is withdrawn at that moment raises WriteConflict, and is run again."""
    errors: list[BaseException] = []

    def keep_writing() -> None:
        for number in range(8):
            while True:
                try:
                    upsert(spark, table.path, ("a", "berlin", 100 + number, 0.5), ("d", "paris", 100 + number, 0.5))
                    break
                except WriteConflict:
                    continue
                except BaseException as e:
                    errors.append(e)
                    return

    writer, runs = threading.Thread(target=keep_writing), 0
    writer.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        while writer.is_alive():
            with suppress(WriteConflict):
                runs += len(table.compact())
    writer.join()
    assert errors == []
    assert runs > 0
    expected = rows_of(("a", "berlin", 107, 0.5), ("d", "paris", 107, 0.5), *without(CHANGED, "ad"))
    assert plain_rows(table.path) == expected
    table.compact()
    assert read_optimized(spark, table.path) == expected
    assert pending(table.path) == []


# After a write


def test_every_fifth_delta_commit_compacts_by_default(spark: Any, table_path: str) -> None:
    for number in range(5):
        assert instants(table_path, "commit") == [] if number else True
        write(trips(spark, ("a", "berlin", number, 0.5)), table_path, {**MOR, OPERATION: "upsert"})
    assert len(instants(table_path, "commit")) == 1
    assert read_optimized(spark, table_path) == [("a", "berlin", 4, 0.5)]


@pytest.mark.parametrize(
    ("options", "compacts", "plans"),
    [
        ({INLINE: "true"}, 1, 0),
        ({INLINE: "false"}, 0, 0),
        ({SCHEDULE: "true"}, 0, 1),
        ({"hoodie.datasource.compaction.async.enable": "true"}, 0, 0),
        ({"hoodie.table.services.enabled": "false"}, 0, 0),
        ({INLINE: "true", COMMITS: "4"}, 0, 0),
        ({INLINE: "true", "hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED"}, 0, 0),
        ({INLINE: "true", "hoodie.compact.inline.trigger.strategy": "NUM_OR_TIME"}, 1, 0),
    ],
)
def test_options_decide_which_compaction_follows_a_write(
    spark: Any, path: str, options: dict[str, str], compacts: int, plans: int
) -> None:
    given = {**MOR, OPERATION: "upsert", COMMITS: "3", **options}
    write(trips(spark, *LATER), path, given)
    assert len(instants(path, "commit")) == compacts
    assert len(penstock.Table.open(path, spark).pending_compactions()) == plans
    assert plain_rows(path) == rows_of(*ALL)


def test_no_plan_is_scheduled_after_a_write_while_another_is_pending(spark: Any, path: str) -> None:
    for number in range(2):
        upsert(spark, path, ("b", "berlin", 20 + number, 0.5), **{SCHEDULE: "true", COMMITS: "1"})
    assert len(penstock.Table.open(path, spark).pending_compactions()) == 1


def test_a_compaction_after_a_write_runs_pending_plans(spark: Any, path: str) -> None:
    plan = penstock.Table.open(path, spark).schedule_compaction()
    assert plan is not None
    upsert(spark, path, *LATER, **{INLINE: "true", COMMITS: "99"})
    assert instants(path, "commit") == [plan.instant]


@pytest.mark.parametrize("raises", [True, False])
def test_a_failed_compaction_does_not_undo_the_write(spark: Any, path: str, raises: bool) -> None:
    plan = penstock.Table.open(path, spark).schedule_compaction()
    assert plan is not None
    lost = next(p for p in Path(path).rglob(".*.log.*") if p.parent.name == "paris")
    lost.rename(f"{path}-lost")
    given = {INLINE: "true", "hoodie.fail.writes.on.inline.table.service.exception": str(raises).lower()}
    what = r"the write is done, do not run it again; but the compaction after it failed: .* is missing"
    if raises:
        with pytest.raises(CorruptFile, match=what):
            upsert(spark, path, *LATER, **given)
    else:
        with pytest.warns(RuntimeWarning, match=what):
            upsert(spark, path, *LATER, **given)
    assert len(instants(path, "deltacommit")) == 3
    assert pending(path) == [f"{plan.instant}.compaction.requested"]
    Path(f"{path}-lost").rename(lost)
    penstock.Table.open(path, spark).compact()
    assert read_optimized(spark, path) == rows_of(*ALL)


# Runs that fail or die


def run(spark: Any, path: str, **options: str) -> list[Any]:
    """Run a compaction through any storage."""
    return schedule_and_run(spark, open_table(path, read_options(options)), COMPACTION, Stages("", "off"), due=True)


def test_an_error_leaves_the_plan_and_nothing_else(spark: Any, table: penstock.Table) -> None:
    plan = table.schedule_compaction()
    assert plan is not None
    files, failing = (
        base_files(table.path),
        FaultPlan(f"{table.path}-plan", fault=Fault.FAILS, match=r"^create .*paris.*\.parquet$"),
    )
    with injected(failing), pytest.raises(StorageError):
        run(spark, f"crash:{table.path}")
    assert pending(table.path) == [f"{plan.instant}.compaction.requested"]
    assert base_files(table.path) == files
    table.compact()
    assert read_optimized(spark, table.path) == rows_of(*CHANGED)


def test_a_run_whose_publishing_failed_is_repeated(spark: Any, table: penstock.Table) -> None:
    failing = FaultPlan(f"{table.path}-plan", fault=Fault.FAILS, match=r"^write_new .*\.commit$")
    with injected(failing), pytest.raises(CommitUnknown):
        run(spark, f"crash:{table.path}")
    assert plain_rows(table.path) == rows_of(*CHANGED)
    table.compact()
    assert read_optimized(spark, table.path) == rows_of(*CHANGED)
    assert orphans(table.path) == []


@pytest.mark.parametrize(
    ("match", "fault"),
    [
        (r"^write_new .*\.compaction\.requested$", Fault.AFTER),
        (r"^write_new .*\.compaction\.inflight$", Fault.AFTER),
        (r"^create .*paris.*\.parquet$", Fault.AFTER),
        (r"^write_new .*\.commit$", Fault.BEFORE),
        (r"^write_new .*\.commit$", Fault.AFTER),
    ],
    ids=["planned", "begun", "with half a file", "before publishing", "published"],
)
@pytest.mark.parametrize("writes_between", [False, True], ids=["", "and a write came"])
def test_a_run_that_died_is_repeated(spark: Any, table: penstock.Table, match: str, fault: Fault, writes_between: bool) -> None:
    with injected(FaultPlan(f"{table.path}-plan", fault=fault, match=match)), pytest.raises(Crash):
        run(spark, f"crash:{table.path}")
    assert plain_rows(table.path) == rows_of(*CHANGED)
    if writes_between:
        upsert(spark, table.path, *LATER)
        assert plain_rows(table.path) == rows_of(*ALL)
    table.compact()
    assert plain_rows(table.path) == rows_of(*(ALL if writes_between else CHANGED))
    assert read_optimized(spark, table.path) == plain_rows(table.path)
    assert pending(table.path) == []
    upsert(spark, table.path, SIX[1])  # clears what a run left that died when it was done
    assert orphans(table.path) == []


def test_a_rollback_of_a_dead_run_that_died_itself_is_finished(spark: Any, table: penstock.Table) -> None:
    for number, match in enumerate((r"^write_new .*\.commit$", r"^write_new .*\.rollback$")):
        with injected(FaultPlan(f"{table.path}-plan{number}", fault=Fault.BEFORE, match=match)), pytest.raises(Crash):
            run(spark, f"crash:{table.path}")
    table.compact()
    assert pending(table.path) == []
    assert read_optimized(spark, table.path) == rows_of(*CHANGED)


def test_a_run_of_a_live_process_is_not_repeated(spark: Any, table: penstock.Table) -> None:
    with injected(FaultPlan(f"{table.path}-plan", match=r"^write_new .*\.commit$")), pytest.raises(Crash):
        run(spark, f"crash:{table.path}", **LAZY)
    (heartbeat,) = Path(table.path, ".hoodie", ".heartbeat").iterdir()
    heartbeat.write_bytes(b"")  # as if another machine ran it
    with pytest.raises(WriteConflict, match="is being run by another process"):
        table.compact(options=LAZY)
    upsert(spark, table.path, *LATER, **LAZY, **{INLINE: "true"})  # neither fails nor takes it away
    assert plain_rows(table.path) == rows_of(*ALL)
    assert len(pending(table.path)) == 1


class Interrupted(Stages):
    """Stages that run an action once while a compaction works."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__("", "off")
        self._happens = happens

    def to_text(self) -> str:
        happens, self._happens = self._happens, lambda: None
        happens()
        return super().to_text()


def elsewhere(table: penstock.Table) -> TableState:
    """Return the table as a process sees it that takes every other one for dead."""
    return open_table(table.path, read_options(HEARTBEATS_EXPIRED))


def test_a_run_that_was_taken_for_dead_publishes_nothing(spark: Any, table: penstock.Table) -> None:
    """Another process runs the plan to its end while the run works."""
    plan = table.schedule_compaction()
    assert plan is not None
    instant, state = plan.instant, open_table(table.path, read_options({}))
    with pytest.raises(WriteConflict, match="took the run of .* for dead"):
        planned.run_plan(
            spark,
            state,
            instant,
            COMPACTION,
            Interrupted(lambda: planned.run_plan(spark, elsewhere(table), instant, COMPACTION, Stages("", "off"))),
        )
    assert f"{instant}.compaction.inflight" in timeline(table.path)
    assert read_optimized(spark, table.path) == rows_of(*CHANGED)
    assert orphans(table.path) == []


def test_a_run_that_was_taken_for_dead_does_not_touch_the_run_of_another(spark: Any, table: penstock.Table) -> None:
    """Another process is in the middle of running the plan."""
    plan = table.schedule_compaction()
    assert plan is not None
    instant, state = plan.instant, open_table(table.path, read_options({}))
    found: list[str] = []

    def first_run() -> None:
        with pytest.raises(WriteConflict, match="took the run of .* for dead"):
            planned.run_plan(spark, state, instant, COMPACTION, Interrupted(second_run))

    def second_run() -> None:
        found_then = Interrupted(lambda: found.extend(file.name for file in base_files(table.path)))
        planned.run_plan(spark, elsewhere(table), instant, COMPACTION, found_then)

    first_run()
    assert sum(instant in name for name in found) == 2  # the second's files only
    assert read_optimized(spark, table.path) == rows_of(*CHANGED)
    assert orphans(table.path) == []


def test_a_run_is_not_published_over_one_that_began_after_it(spark: Any, table: penstock.Table) -> None:
    """The other has its files, and not published yet, when the first one wants to."""
    plan = table.schedule_compaction()
    assert plan is not None
    instant, state = plan.instant, open_table(table.path, read_options({}))
    began, ended = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        ended.wait(60)

    def second_run() -> None:
        planned.run_plan(spark, elsewhere(table), instant, COMPACTION, Interrupted(wait))

    other = threading.Thread(target=second_run)

    def while_the_first_works() -> None:
        other.start()
        assert began.wait(60)

    with pytest.raises(WriteConflict, match="took the run of .* for dead"):
        planned.run_plan(spark, state, instant, COMPACTION, Interrupted(while_the_first_works))
    ended.set()
    other.join()
    assert pending(table.path) == []
    assert read_optimized(spark, table.path) == rows_of(*CHANGED)
    assert orphans(table.path) == []


# Log compaction

JOIN, BLOCKS = "hoodie.log.compaction.inline", "hoodie.log.compaction.blocks.threshold"


def test_a_log_with_many_blocks_is_compacted_into_one_after_a_write(spark: Any, path: str) -> None:
    for number in range(3):
        upsert(spark, path, ("a", "berlin", 20 + number, 0.5), **{JOIN: "true", BLOCKS: "3"})
    joined = [commit for commit in commits(path) if commit["operationType"] == "LOG_COMPACT"]
    (stat,) = stats(joined[0])
    assert len(joined) == 1
    assert (stat["partitionPath"], stat["totalLogFilesCompacted"], stat["totalLogRecords"], stat["numWrites"]) == (
        "berlin",
        3,
        3,
        1,
    )
    expected = rows_of(("a", "berlin", 22, 0.5), *CHANGED[1:])
    assert plain_rows(path) == expected
    assert snapshot(spark, path) == expected
    penstock.Table.open(path, spark).compact()
    assert read_optimized(spark, path) == expected


def test_deletes_stay_deleted_after_a_log_compaction(spark: Any, table: penstock.Table) -> None:
    delete(spark, table.path, CHANGES[0], SIX[1])
    upsert(spark, table.path, SIX[1])
    expected = rows_of(*CHANGED[1:])
    assert plain_rows(table.path) == expected
    (commit,) = table.compact_logs({BLOCKS: 3})
    assert commit.operation == "log_compact"
    assert plain_rows(table.path) == expected
    assert table.compact_logs({BLOCKS: 3}) == []


def test_no_log_compaction_runs_during_a_write(table: penstock.Table) -> None:
    (Path(table.path) / ".hoodie" / "20990101000000000.deltacommit.requested").touch()
    assert table.compact_logs({BLOCKS: 1}) == []


@pytest.mark.parametrize(
    ("match", "fault"),
    [
        (r"^write_new .*\.logcompaction\.requested$", Fault.AFTER),
        (r"^create .*\.log\.", Fault.AFTER),
        (r"^write_new .*\.deltacommit$", Fault.BEFORE),
        (r"^write_new .*\.deltacommit$", Fault.AFTER),
    ],
    ids=["planned", "with half a file", "before publishing", "published"],
)
def test_a_log_compaction_that_died_is_repeated(spark: Any, table: penstock.Table, match: str, fault: Fault) -> None:
    upsert(spark, table.path, *LATER)
    with injected(FaultPlan(f"{table.path}-plan", fault=fault, match=match)), pytest.raises(Crash):
        schedule_and_run(spark, open_table(f"crash:{table.path}", read_options({BLOCKS: "2"})), LOG_COMPACTION, Stages("", "off"))
    assert plain_rows(table.path) == rows_of(*ALL)
    table.compact_logs({BLOCKS: 2})
    assert plain_rows(table.path) == rows_of(*ALL)
    assert pending(table.path) == []
    assert len([c for c in commits(table.path) if c["operationType"] == "LOG_COMPACT"]) == 1
    upsert(spark, table.path, ("a", "berlin", 30, 0.5))
    assert plain_rows(table.path) == rows_of(("a", "berlin", 30, 0.5), *ALL[1:])
    table.compact()
    assert read_optimized(spark, table.path) == rows_of(("a", "berlin", 30, 0.5), *ALL[1:])


def test_a_partial_file_of_a_dead_log_compaction_never_counts_whatever_the_rollback_options(
    spark: Any, table: penstock.Table
) -> None:
    upsert(spark, table.path, ("a", "berlin", 10, 0.5), ("b", "berlin", 10, 0.5))
    one_row_a_block = {BLOCKS: "2", "hoodie.logfile.data.block.max.size": "1"}
    with injected(FaultPlan(f"{table.path}-plan", match=r"^write_new .*\.deltacommit$")), pytest.raises(Crash):
        schedule_and_run(
            spark, open_table(f"crash:{table.path}", read_options(one_row_a_block)), LOG_COMPACTION, Stages("", "off")
        )
    joined = max(Path(table.path, "berlin").glob(".*.log.*"), key=lambda file: int(file.name.split(".log.")[1].split("_")[0]))
    first, second = scan_blocks(joined.read_bytes())
    joined.write_bytes(joined.read_bytes()[: second.offset])  # as if the process had died between the two
    upsert(spark, table.path, ("a", "berlin", 11, 11.5))
    table.compact_logs({BLOCKS: 2, "hoodie.rollback.using.markers": "false"})
    assert first.compacted_instants
    assert pending(table.path) == []
    assert plain_rows(table.path) == rows_of(("a", "berlin", 11, 11.5), ("b", "berlin", 10, 0.5), *without(CHANGED, "ab"))


def test_a_plan_is_run_without_a_file_group_whose_first_write_was_rolled_back_since(spark: Any, table_path: str) -> None:
    ring = {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    options = {**APART, **ring, "hoodie.bucket.index.num.buckets": "1", OPERATION: "insert"}
    for rows in (SIX, (("n", "oslo", 1, 1.5),)):
        write(trips(spark, *rows), table_path, options)
    table = penstock.Table.open(table_path, spark)
    state = open_table(table_path, read_options({BLOCKS: "1"}))
    assert schedule(state, LOG_COMPACTION) is not None
    plan = table.schedule_compaction()
    assert plan is not None
    assert plan.file_groups == 4
    table.rollback(max(instants(table_path, "deltacommit")))
    table.compact_logs()
    (commit,) = table.compact()
    assert commit.rows_inserted == len(SIX)
    assert pending(table_path) == []
    assert read_optimized(spark, table_path) == rows_of(*SIX)


def test_a_write_whose_base_files_a_plan_names_is_not_rolled_back(spark: Any, table_path: str) -> None:
    for operation, rows in (("bulk_insert", SIX), ("upsert", SIX[:2])):
        write(trips(spark, *rows), table_path, {**APART, OPERATION: operation})
    table = penstock.Table.open(table_path, spark)
    plan = table.schedule_compaction()
    assert plan is not None
    first, second = sorted(instants(table_path, "deltacommit"))
    table.rollback(second)
    with pytest.raises(OptionError, match=f"compaction {plan.instant} of .* waits to read what write {first} has written"):
        table.rollback(first)
    table.unschedule_compaction(plan.instant)
    table.rollback(first)
    assert plain_rows(table_path) == []


def test_all_log_files_of_a_slice_are_compacted_whether_the_plan_knows_them_or_not(spark: Any, tmp_path: Path) -> None:
    """One was written while the plan was made; the other takes back what the plan names, and its time is archived."""
    made = HandMade(tmp_path / "t").base(1, "x", ("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "x", 1, 1.0))
    made.log(1, "x", 1, made.rows(2, "x", ("a", "x", 2, 2.0))).log(1, "x", 2, made.rows(4, "x", ("b", "x", 4, 4.0)))
    made.log(1, "x", 3, made.rows(5, "x", ("c", "x", 5, 5.0)))
    made.log(1, "x", 4, encode_rollback_block(instant=at(6), target_instant=at(4)))
    named = tuple(f".x-0_{at(1)}.log.{version}_0-0-0" for version in (1, 2))
    operation = CompactionOperation("x", "x-0", at(1), f"x-0_0-0-0_{at(1)}.parquet", named, {"TOTAL_LOG_FILES_SIZE": 1.0})
    (made.path / ".hoodie" / f"{at(7)}.compaction.requested").write_bytes(write_compaction_plan(CompactionPlan((operation,))))
    made.instant(5)  # the first one on the timeline: what is older was archived
    expected = [("a", "x", 2, 2.0), ("b", "x", 1, 1.0), ("c", "x", 5, 5.0)]
    assert plain_rows(made.path) == expected
    penstock.Table.open(made.path, spark).compact()
    assert read_optimized(spark, str(made.path)) == expected


def test_logs_of_a_table_without_meta_columns_are_compacted_by_the_key_column(spark: Any, tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", properties={"hoodie.populate.meta.fields": "false"}, meta=False)
    made.base(1, "x", ("a", "x", 1, 1.0), ("b", "x", 1, 2.0)).instant(1)
    made.log(1, "x", 1, made.rows(2, "x", ("a", "x", 2, 10.0)), made.deletes(2, "x", "b")).instant(2)
    assert snapshot(spark, str(made.path)) == [("a", "x", 2, 10.0)]
    penstock.Table.open(made.path, spark).compact()
    assert read_optimized(spark, str(made.path)) == [("a", "x", 2, 10.0)]
    newest = max(base_files(str(made.path)), key=lambda file: file.name.rpartition("_")[2])
    file = pq.ParquetFile(newest)
    assert "hoodie_min_record_key" not in {key.decode() for key in file.metadata.metadata}
    assert file.read(["_hoodie_record_key"])["_hoodie_record_key"].null_count == 1
