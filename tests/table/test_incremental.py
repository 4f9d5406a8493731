"""Incremental queries on whole tables of both types return what changed between two instants, and nothing else."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import ChangesLost, OptionError
from penstock.table.state import open_table
from penstock.timeline.instant import parse_time
from tests.table.tables import (
    BULK,
    META,
    OPERATION,
    SIX,
    TRIPS,
    base_files,
    load,
    sorted_rows,
    spoil,
    trips,
    values,
    write,
)

TYPE = "hoodie.datasource.query.type"
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
FALLBACK = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
GLOB = "hoodie.datasource.read.incr.path.glob"
FILTERS = "hoodie.datasource.read.incr.filters"
HOLES = "hoodie.read.timeline.holes.resolution.policy"
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
OFF = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False, "hoodie.compact.inline": False}
#: What is kept when these tests archive; nothing is cleaned.
FEW = {
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": 9,
}
NEW_A, NEW_C, AGAIN_A = ("a", "berlin", 10, 10.5), ("c", "paris", 11, 11.5), ("a", "berlin", 20, 20.5)
ADDED = ("g", "rome", 12, 12.5)


def changes(spark: Any, path: str, begin: str, end: str | None = None, **options: Any) -> Any:
    """Return the changes as a DataFrame."""
    until = {} if end is None else {END: end}
    return load(spark, path, **{TYPE: "incremental", BEGIN: begin}, **until, **options)


def changed(spark: Any, path: str, begin: str, end: str | None = None, **options: Any) -> list[tuple[Any, ...]]:
    """Return the changes as rows without meta columns."""
    return sorted_rows(changes(spark, path, begin, end, **options).drop(*META))


def upsert(spark: Any, path: str, *rows: Any, operation: str = "upsert", **options: Any) -> str:
    """Write rows, and return the instant of the write."""
    write(trips(spark, *rows), path, {**TRIPS, OPERATION: operation, **OFF, **options})
    return instants(path)[-1]


def instants(path: str) -> list[str]:
    return [i.time for i in open_table(path).timeline.writes]


@pytest.fixture(params=KINDS)
def history(request: Any, spark: Any, templates: Any, table_path: str) -> str:
    """Six trips; then `a` and `c` change and `g` is added; then `a` changes again, and `b` is deleted."""

    def make(path: str) -> None:
        write(trips(spark, *SIX), path, {**BULK, **OFF, "hoodie.datasource.write.table.type": request.param})
        upsert(spark, path, NEW_A, NEW_C, ADDED)
        upsert(spark, path, AGAIN_A)
        upsert(spark, path, SIX[1], operation="delete")

    return shutil.copytree(templates.at(f"history-{request.param}", make), table_path)


def test_rows_written_in_the_range_are_returned_as_of_its_end(spark: Any, history: str) -> None:
    first, second, third, last = instants(history)
    assert changed(spark, history, first, second) == sorted([NEW_A, NEW_C, ADDED])
    assert changed(spark, history, first, third) == sorted([AGAIN_A, NEW_C, ADDED]), "a row that changed twice comes once"
    assert changed(spark, history, second) == [AGAIN_A], "deletes do not come"
    assert changed(spark, history, "000", first) == sorted(SIX)
    assert changed(spark, history, "000") == sorted([AGAIN_A, NEW_C, ADDED, *SIX[3:]])
    for begin, end in ((last, None), (last, last), (third, second), (third, last)):
        assert changed(spark, history, begin, end) == []


def test_times_may_be_texts_and_meta_columns_come_first(spark: Any, history: str) -> None:
    first, second, *_ = instants(history)
    assert load(spark, history, **{"hoodie.datasource.view.type": "incremental", BEGIN: "000"}).count() == 6
    found = changes(
        spark, history, "2000-01-01", "2100-01-01 00:00:00", **{"hoodie.datasource.query.incremental.format": "latest_state"}
    )
    assert found.columns == [*META, "id", "city", "ts", "fare"]
    assert {row._hoodie_commit_time for row in changes(spark, history, first, second).collect()} == {second}
    assert changed(spark, history, first[:14], first) == sorted(SIX), "a second begins before its milliseconds"
    whole_second = parse_time(first).strftime("%Y-%m-%d %H:%M:%S")
    assert changed(spark, history, "000", whole_second)[: len(SIX)] != [], "a second in words is its end"
    assert all(row._hoodie_commit_time > first for row in changes(spark, history, whole_second).collect())


def test_read_changes_returns_the_same_rows_as_an_incremental_query(spark: Any, history: str) -> None:
    table = penstock.Table.open(history, spark)
    first, second, _, last = instants(history)
    assert sorted_rows(table.read_changes(since=first, until=second).drop(*META)) == sorted([NEW_A, NEW_C, ADDED])
    assert sorted_rows(table.read_changes(first, second, columns=["fare", "id"])) == [(10.5, "a"), (11.5, "c"), (12.5, "g")]
    assert sorted_rows(table.read_changes(first, second, partitions=["paris"], columns=["id"])) == [("c",)]
    assert sorted_rows(table.read_changes("000", equals={"id": "a"}, columns=["ts"])) == [(20,)]
    assert table.read_changes(datetime(2001, 1, 1), datetime(2002, 1, 1)).count() == 0
    done = table.upsert(trips(spark, ("h", "oslo", 1, 1.0)))
    assert table.read_changes(done).count() == 0
    assert [row.id for row in table.read_changes(since=last).collect()] == ["h"]


def test_only_files_that_changed_in_the_range_are_opened(spark: Any, history: str) -> None:
    first, second, third, _ = instants(history)
    spoil(file for file in base_files(history) if file.parent.name == "tokyo")
    assert changed(spark, history, first, second) == sorted([NEW_A, NEW_C, ADDED])
    spoil(file for file in base_files(history) if file.parent.name == "paris")
    found = changes(spark, history, first, second)
    assert sorted_rows(found.where("city in ('berlin', 'rome')").drop(*META)) == [NEW_A, ADDED], (
        "partitions are left out by filters"
    )
    assert changed(spark, f"{history}/berlin", first, second) == [NEW_A]
    assert changed(spark, history, second, third, **{GLOB: "/berlin/*"}) == [AGAIN_A]


def test_patterns_and_conditions_leave_rows_out(spark: Any, history: str) -> None:
    first, second, *_ = instants(history)
    assert changed(spark, history, first, second, **{GLOB: "/{berlin,rome}/*"}) == [NEW_A, ADDED]
    assert changed(spark, history, first, second, **{GLOB: "/nowhere/*"}) == []
    assert changed(spark, history, first, second, **{FILTERS: "fare > 11, city in ('rome', 'berlin')"}) == [ADDED]
    table = penstock.Table.open(history, spark)
    assert sorted_rows(table.read_changes(first, second, columns=["id"], options={FILTERS: "fare > 11"})) == [("c",), ("g",)]
    with pytest.raises(OptionError, match="incr.filters: 'price > 1' is no condition"):
        changes(spark, history, first, second, **{FILTERS: "price > 1"})


def test_overwritten_rows_are_left_out_and_those_that_replaced_them_are_returned(spark: Any, history: str) -> None:
    _, second, *_, last = instants(history)
    other = ("z", "paris", 1, 9.5)
    overwrite = upsert(spark, history, other, operation="insert_overwrite")
    assert changed(spark, history, last) == [other]
    assert changed(spark, history, "000") == sorted([AGAIN_A, ADDED, *SIX[4:], other])
    assert changed(spark, history, second, last) == [AGAIN_A], "before the overwrite"
    partition = {"hoodie.datasource.write.partitions.to.delete": "rome"}
    upsert(spark, history, other, operation="delete_partition", **partition)
    assert changed(spark, history, second) == sorted([AGAIN_A, other])
    assert changed(spark, history, overwrite) == []


def test_rows_rewritten_by_compaction_or_clustering_are_no_changes(spark: Any, history: str) -> None:
    first, second, _, last = instants(history)
    table = penstock.Table.open(history, spark, OFF)
    if open_table(history).is_merge_on_read:
        table.compact()
        assert changed(spark, history, last) == []
        assert changed(spark, history, first) == sorted([AGAIN_A, NEW_C, ADDED])
        last = instants(history)[-1]
    assert table.cluster() is not None
    assert changed(spark, history, last) == []
    assert changed(spark, history, first) == sorted([AGAIN_A, NEW_C, ADDED])
    assert changed(spark, history, first, second) == sorted([NEW_A, NEW_C, ADDED]), "in the files from before"
    upsert(spark, history, ("d", "paris", 30, 30.5))
    assert changed(spark, history, last) == [("d", "paris", 30, 30.5)]


def test_log_files_renamed_when_a_compaction_was_unscheduled_are_read(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, {**BULK, **OFF, "hoodie.datasource.write.table.type": KINDS[1]})
    (first,) = instants(table_path)
    second = upsert(spark, table_path, NEW_A)
    table = penstock.Table.open(table_path, spark=spark)
    plan = table.schedule_compaction()
    assert plan is not None
    upsert(spark, table_path, AGAIN_A, NEW_C)
    table.unschedule_compaction(plan.instant)
    assert changed(spark, table_path, first) == sorted([AGAIN_A, NEW_C])
    assert changed(spark, table_path, first, second) == [NEW_A]


def test_logs_of_writes_that_neither_timeline_nor_archive_knows_are_an_error(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, {**BULK, **OFF, "hoodie.datasource.write.table.type": KINDS[1]})
    (first,) = instants(table_path)
    second = upsert(spark, table_path, NEW_A)
    last = upsert(spark, table_path, NEW_C)
    assert changed(spark, table_path, first) == [NEW_A, NEW_C]
    for file in Path(table_path, ".hoodie").glob(f"{first}*"):
        file.unlink()
    for file in Path(table_path, ".hoodie").glob(f"{second}*"):
        file.unlink()
    with pytest.raises(ChangesLost, match=f"has files of {first}, of which neither its timeline"):
        changed(spark, table_path, first)
    assert changed(spark, table_path, last) == []


def test_changes_of_archived_writes_are_still_returned(spark: Any, history: str) -> None:
    first, second, _, last = instants(history)
    new = ("h", "oslo", 1, 1.0)
    table = penstock.Table.open(history, spark, OFF)
    if open_table(history).is_merge_on_read:
        table.compact()  # what is not compacted is not archived
    upsert(spark, history, new)
    assert table.archive(FEW) > 0
    assert second not in instants(history)
    assert changed(spark, history, first, second) == sorted([NEW_A, NEW_C, ADDED])
    assert changed(spark, history, "000", first) == sorted(SIX)
    assert changed(spark, history, first) == sorted([AGAIN_A, NEW_C, ADDED, new])
    shutil.rmtree(Path(history, ".hoodie", "archived"))
    with pytest.raises(ChangesLost, match=f"has files of {first}, of which neither its timeline.*{FALLBACK}"):
        changes(spark, history, "000")
    everything = sorted([AGAIN_A, NEW_C, ADDED, *SIX[3:], new])
    assert changed(spark, history, "000", **{FALLBACK: "true"}) == everything
    assert changed(spark, history, last) == [new]


def test_files_that_were_cleaned_are_an_error_or_the_table_is_scanned(spark: Any, history: str) -> None:
    first, second, *_ = instants(history)
    table = penstock.Table.open(history, spark, OFF)
    if open_table(history).is_merge_on_read:
        table.compact()
    assert table.clean({"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": 1})
    with pytest.raises(
        ChangesLost, match=f"file (berlin|paris)/.* written by {second}, was cleaned since; set .*{FALLBACK}=true"
    ):
        changes(spark, history, first, second)
    found = changed(spark, history, first, second, **{FALLBACK: "true"})
    assert found == sorted([NEW_C, ADDED]), "what changed again is not among the rows of now"
    assert changed(spark, history, first, second, **{FALLBACK: "true", GLOB: "/rome/*"}) == [ADDED]
    assert changed(spark, history, first) == sorted([AGAIN_A, NEW_C, ADDED]), "the newest files are there"


def test_a_write_that_is_not_completed_stops_the_query_or_ends_its_range(spark: Any, history: str) -> None:
    first, second, third, last = instants(history)
    action = "deltacommit" if open_table(history).is_merge_on_read else "commit"
    hole = str(int(third) - 1)
    Path(history, ".hoodie", f"{hole}.{action}.requested").touch()
    with pytest.raises(OptionError, match=f"Found hollow commit: '{hole}' is not completed.*{HOLES}=BLOCK"):
        changes(spark, history, first)
    assert changed(spark, history, first, **{HOLES: "BLOCK"}) == sorted([NEW_A, NEW_C, ADDED])
    assert changed(spark, history, first, second) == sorted([NEW_A, NEW_C, ADDED])
    assert changed(spark, history, third, last) == []
    assert changed(spark, history, second, **{HOLES: "BLOCK"}) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_the_current_one_or_that_of_the_end_of_the_range(spark: Any, table_path: str, kind: str) -> None:
    options = {**TRIPS, **OFF, OPERATION: "upsert", "hoodie.datasource.write.table.type": kind}
    write(values(spark, "id string, city string, ts int", ("a", "rome", 1), ("b", "oslo", 2)), table_path, options)
    write(values(spark, "id string, city string, ts int", ("a", "rome", 3)), table_path, options)
    write(values(spark, "id string, city string, ts bigint, tip double", ("b", "oslo", 4, 0.5)), table_path, options)
    first, second, third = instants(table_path)
    assert changed(spark, table_path, first) == [("a", "rome", 3, None), ("b", "oslo", 4, 0.5)]
    assert changed(spark, table_path, first, second) == [("a", "rome", 3, None)]
    then = changes(spark, table_path, first, second, **{"hoodie.datasource.read.schema.use.end.instanttime": "true"})
    assert then.schema["ts"].dataType.simpleString() == "int"
    assert sorted_rows(then.drop(*META)) == [("a", "rome", 3)]
    assert changed(spark, table_path, second, third) == [("b", "oslo", 4, 0.5)]


def test_a_change_that_lost_against_a_newer_row_is_not_returned(spark: Any, table_path: str) -> None:
    payload = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
    for kind in KINDS:
        path = f"{table_path}-{kind}"
        options = {**payload, "hoodie.datasource.write.table.type": kind}
        first = upsert(spark, path, ("a", "rome", 5, 1.0), ("b", "rome", 5, 1.0), **options)
        upsert(spark, path, ("a", "rome", 4, 2.0), ("b", "rome", 6, 2.0), ("c", "rome", 1, 2.0), **options)
        assert changed(spark, path, first) == [("b", "rome", 6, 2.0), ("c", "rome", 1, 2.0)], kind


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({TYPE: "incremental"}, f"Specify the begin instant time to pull from using option {BEGIN}"),
        ({TYPE: "incremental", BEGIN: "yesterday"}, f"{BEGIN}='yesterday' is not a time"),
        ({TYPE: "incremental", BEGIN: "000", END: "never"}, f"{END}='never' is not a time"),
        ({TYPE: "incremental", BEGIN: "000", "as.of.instant": "20240101000000000"}, "as.of.instant is for snapshots"),
        ({BEGIN: "000"}, f"{BEGIN}=000 is for incremental queries, and this one is snapshot: set {TYPE}=incremental"),
        ({TYPE: "read_optimized", GLOB: "/x/*"}, f"{GLOB}=/x/.* is for incremental queries"),
        (
            {TYPE: "incremental", BEGIN: "000", "hoodie.datasource.query.incremental.format": "cdc"},
            "leave it out to get",
        ),
        ({TYPE: "incremental", BEGIN: "000", HOLES: "USE_TRANSITION_TIME"}, "use BLOCK"),
    ],
)
def test_options_that_do_not_fit_an_incremental_query_are_refused(
    spark: Any, made: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        load(spark, made, **options)


def test_a_table_without_commits_or_meta_columns_refuses_incremental_queries(spark: Any, table_path: str) -> None:
    table = penstock.Table.create(table_path, trips(spark), name="trips", record_key="id")
    with pytest.raises(OptionError, match=r"No instants to incrementally pull: .* has no completed write"):
        table.read_changes("000")
    bare = f"{table_path}-bare"
    write(trips(spark, *SIX), bare, {**BULK, "hoodie.populate.meta.fields": "false"})
    with pytest.raises(OptionError, match="Incremental queries are not supported when meta fields are disabled"):
        changes(spark, bare, "000")
