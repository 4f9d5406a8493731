"""Cleaning and archiving of whole tables: after each write, on request, on executors; and their failures."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.door.services import SERVICES
from penstock.errors import CorruptFile, OptionError
from penstock.table.state import open_table
from tests.table.tables import OPERATION, SIX, TRIPS, base_files, load, snapshot, timeline, trips, write

UPSERT = {**TRIPS, OPERATION: "upsert"}
KEEP = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4}
OFF = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}


def upsert(spark: Any, path: str, number: int, options: dict[str, Any]) -> None:
    write(trips(spark, *newer(number)), path, {**UPSERT, **options})


def newer(number: int) -> list[tuple[str | None, str | None, int, float]]:
    return [(key, city, ts + number, fare) for key, city, ts, fare in SIX]


def writes(path: str) -> list[str]:
    return [i.time for i in open_table(path).timeline.writes]


def test_a_table_with_many_writes_stays_small_and_time_travel_reaches_the_retained_commits(spark: Any, table_path: str) -> None:
    for number in range(7):
        upsert(spark, table_path, number, KEEP | {"penstock.small.batch.rows": 0 if number == 5 else 1000})
    assert snapshot(spark, table_path) == sorted(newer(6))
    assert len(base_files(table_path)) == 3 * 2
    assert len(writes(table_path)) <= 4
    assert len([n for n in timeline(table_path) if n.endswith(".clean")]) <= 5
    assert load(spark, table_path, **{"as.of.instant": writes(table_path)[-1]}).count() == 6
    with pytest.raises(OptionError, match="Cleaner cleaned up the timestamp of interest"):
        load(spark, table_path, **{"as.of.instant": writes(table_path)[-2]}).count()
    table = penstock.Table.open(table_path, spark)
    assert table.clean(KEEP) is None
    table.archive(KEEP)  # the clean of the last write came after its look at the timeline
    assert table.archive(KEEP) == 0
    with pytest.raises(OptionError, match="hoodie.keep.max.commits=2 must be greater"):
        table.archive({"hoodie.keep.max.commits": 2})


def test_time_travel_to_an_archived_instant_works_while_its_files_are_there(spark: Any, table_path: str) -> None:
    for number in range(6):
        upsert(spark, table_path, number, OFF)
    first = writes(table_path)[1]
    table = penstock.Table.open(table_path, spark)
    assert (
        table.archive({**KEEP, "hoodie.cleaner.fileversions.retained": 9, "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"})
        == 3
    )
    assert first not in writes(table_path)
    assert sorted(r.ts for r in table.read(as_of=first).collect()) == [2, 3, 4, 5, 6, 7]
    assert snapshot(spark, table_path) == sorted(newer(5))


def test_time_travel_to_an_archived_instant_shows_columns_that_archived_writes_added(spark: Any, table_path: str) -> None:
    columns = trips(spark).schema
    table = penstock.Table.create(
        table_path, columns, name="trips", record_key="id", partition_by="city", ordering="ts", spark=spark
    )
    upsert(spark, table_path, 0, OFF)
    for number in range(1, 6):
        more = trips(spark, *newer(number)).selectExpr("*", "ts * 10 as more")
        write(more, table_path, {**UPSERT, **OFF})
    before, second = writes(table_path)[:2]
    versions = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": 9}
    assert table.archive({**KEEP, **versions}) == 3
    assert second not in writes(table_path)
    assert sorted(r.more for r in table.read(as_of=second).collect()) == [20, 30, 40, 50, 60, 70]
    assert {r.more for r in table.read(as_of=before).collect()} == {None}


def test_time_travel_to_what_a_clean_by_file_versions_deleted_is_refused(spark: Any, table_path: str) -> None:
    upsert(spark, table_path, 0, OFF)
    write(trips(spark, *newer(1)[:1]), table_path, {**UPSERT, **OFF})
    table = penstock.Table.open(table_path, spark)
    before, after = writes(table_path)
    first, *_, last = newer(0)
    versions = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": 1}
    assert table.clean(versions)
    with pytest.raises(OptionError, match=f"files that {before} needs may be gone, those of {before} in partition '{first[1]}'"):
        table.read(as_of=before)
    assert table.read(as_of=after).count() == 6
    assert load(spark, f"{table_path}/{last[1]}", **{"as.of.instant": before}).count(), "nothing was cleaned there"


def test_a_merge_on_read_table_loses_its_old_logs_with_their_base_files(spark: Any, table_path: str) -> None:
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline.max.delta.commits": 2}
    for number in range(7):
        upsert(spark, table_path, number, KEEP | kind)
    assert snapshot(spark, table_path) == sorted(newer(6))
    slices = {
        (p.parent.name, p.name.split("_")[1].split(".")[0]) for p in Path(table_path).glob("*/.*.log.*") if "crc" not in p.name
    }
    assert len(base_files(table_path)) <= 3 * 2
    assert len(slices) <= 3 * 2
    found = penstock.Table.open(table_path, spark).clean({"hoodie.cleaner.fileversions.retained": 1})
    assert found is None or found.files_failed == 0
    assert snapshot(spark, table_path) == sorted(newer(6))


def test_services_run_in_a_fixed_order() -> None:
    names = [service.failure_noun for service in SERVICES]
    first = ["rolling back failed writes", "cleaning", "archiving", "the compaction after it", "joining logs"]
    assert names == [*first, "the clustering after it", "deleting old partitions", "sending commit notices"]


def test_a_service_that_fails_does_not_undo_the_write_and_is_reported(spark: Any, table_path: str) -> None:
    for number in range(3):
        upsert(spark, table_path, number, OFF)
    torn = Path(table_path, ".hoodie", f"{writes(table_path)[0]}.savepoint")
    torn.write_bytes(b"torn")
    table = penstock.Table.open(table_path, spark, KEEP)
    with pytest.warns(RuntimeWarning, match="the write is done, do not run it again; but cleaning failed: savepoint"):
        done = table.upsert(trips(spark, *newer(3)))
    assert [text.partition(":")[0] for text in done.failed_services] == ["cleaning"]
    assert snapshot(spark, table_path) == sorted(newer(3))
    with pytest.raises(CorruptFile, match="the write is done, do not run it again"):
        table.upsert(trips(spark, *newer(4)), {"hoodie.fail.writes.on.inline.table.service.exception": True})
    assert snapshot(spark, table_path) == sorted(newer(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        table.upsert(trips(spark, *newer(5)), {"hoodie.table.services.enabled": False})
        torn.unlink()
        assert table.upsert(trips(spark, *newer(6))).failed_services == ()
    assert len(base_files(table_path)) == 3 * 2
