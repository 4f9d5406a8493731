"""Streams into tables: batches once each, restarts, retries, wrong calls, table services in the background."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import OptionError, Unsupported
from tests.kit.http_servers import running_server
from tests.kit.streams import BATCH_KEY, Feed, committed_batches, make_writer, run_stream
from tests.table.tables import OPERATION, ORDERING, TRIPS, Trip, snapshot

TYPE = "hoodie.datasource.write.table.type"
ON_CONNECT = os.environ.get("PENSTOCK_TEST_SESSION") == "connect"
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"
RETRIES = "hoodie.datasource.write.streaming.retry.count"
PAUSE = "hoodie.datasource.write.streaming.retry.interval.ms"
IGNORE = "hoodie.datasource.write.streaming.ignore.failed.batch"
MERGE_ON_READ = {**TRIPS, TYPE: "MERGE_ON_READ"}
TWO_WRITERS = {
    **TRIPS,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "penstock.lock": "storage",
    "hoodie.write.num.retries.on.conflict.failures": 5,
}


def row(number: int, city: str = "berlin", fare: float = 1.0) -> Trip:
    return (f"k{number:03d}", city, number, fare)


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "feed")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a thread. The limit is far above what it needs."""
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_batches_are_committed_in_turn_and_a_restart_goes_on(
    spark: Any, feed: Feed, table_path: str, checkpoint: Path, table_type: str
) -> None:
    options = {**TRIPS, TYPE: table_type}
    feed.put(row(1), row(2))
    feed.put(row(2, fare=2.0), row(3))
    run_stream(feed.stream(spark), table_path, checkpoint, options)
    feed.put(row(1, fare=9.0))
    run_stream(feed.stream(spark), table_path, checkpoint, options)
    assert snapshot(spark, table_path) == [row(1, fare=9.0), row(2, fare=2.0), row(3)]
    assert committed_batches(table_path) == [f'{{"default_single_writer":"{number}"}}' for number in range(3)]


def test_a_batch_that_spark_repeats_is_not_applied_again(spark: Any, feed: Feed, table_path: str, checkpoint: Path) -> None:
    inserts = {**TRIPS, OPERATION: "insert"}
    feed.put(row(1))
    feed.put(row(2))
    run_stream(feed.stream(spark), table_path, checkpoint, inserts)
    for name in ("1", ".1.crc"):  # as if the program had died between the commit and Spark's note of it
        (checkpoint / "commits" / name).unlink()
    feed.put(row(3))
    run_stream(feed.stream(spark), table_path, checkpoint, inserts)
    assert snapshot(spark, table_path) == [row(1), row(2), row(3)]


def test_a_new_checkpoint_that_would_leave_out_batches_is_refused(
    spark: Any, feed: Feed, table_path: str, checkpoint: Path, tmp_path: Path
) -> None:
    feed.put(row(1))
    run_stream(feed.stream(spark), table_path, checkpoint, TRIPS)
    with pytest.raises(OptionError, match="is new, but .* batches up to 0 .*identifier"):
        run_stream(feed.stream(spark), table_path, tmp_path / "new", TRIPS)
    run_stream(feed.stream(spark), table_path, tmp_path / "new", {**TRIPS, IDENTIFIER: "again"})
    assert committed_batches(table_path) == ['{"default_single_writer":"0"}', '{"again":"0"}']


def test_a_checkpoint_of_another_table_is_refused(
    spark: Any, feed: Feed, table_path: str, checkpoint: Path, tmp_path: Path
) -> None:
    feed.put(row(1))
    run_stream(feed.stream(spark), table_path, checkpoint, TRIPS)
    with pytest.raises(OptionError, match=f"belongs to the stream that writes to {table_path}"):
        run_stream(feed.stream(spark), str(tmp_path / "other"), checkpoint, TRIPS)


def test_a_stream_without_a_place_for_its_checkpoint_is_refused(spark: Any, feed: Feed, table_path: str, tmp_path: Path) -> None:
    feed.put(row(1))
    writer = feed.stream(spark).writeStream.format("hudi").options(**TRIPS).trigger(availableNow=True)
    with pytest.raises(OptionError, match="'checkpointLocation' must be set"):
        writer.start(table_path)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    try:
        writer.queryName("named").start(table_path).awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert (tmp_path / "all" / "named" / "commits" / "0").exists()
    assert snapshot(spark, table_path) == [row(1)]


def test_wrong_calls_are_typed_errors_before_anything_is_written(
    spark: Any, feed: Feed, table_path: str, checkpoint: Path
) -> None:
    feed.put(row(1))

    def writer(options: dict[str, Any]) -> Any:
        return make_writer(feed.stream(spark), checkpoint, options)

    with pytest.raises(OptionError, match="output mode 'sometimes' is not known; use append, update, complete"):
        writer(TRIPS).outputMode("sometimes").start(table_path)
    with pytest.raises(OptionError, match="'path' must be set"):
        writer(TRIPS).start()
    with pytest.raises(OptionError, match="retry.count"):
        writer({**TRIPS, RETRIES: "none"}).start(table_path)
    with pytest.raises(OptionError, match=f"'{IDENTIFIER}' must be set"):
        writer(TWO_WRITERS).start(table_path)
    with pytest.raises(Unsupported, match="toTable"):
        writer(TRIPS).toTable("no_such_table")
    assert not Path(table_path).exists()
    assert not checkpoint.exists()


def test_to_table_writes_to_the_path_under_the_name(spark: Any, feed: Feed, table_path: str, checkpoint: Path) -> None:
    feed.put(row(1))
    options = {key: value for key, value in TRIPS.items() if key != "hoodie.table.name"}
    query = make_writer(feed.stream(spark), checkpoint, options).option("path", table_path).toTable("db.rides")
    query.awaitTermination()
    assert penstock.Table.open(table_path).name == "rides"


@pytest.mark.skipif(ON_CONNECT, reason="the validator is called in a process of the server, and this one cannot count its calls")
def test_a_failed_batch_is_tried_again(spark: Any, feed: Feed, table_path: str, checkpoint: Path) -> None:
    calls = []

    @penstock.validator("third_time_lucky")
    def third_time_lucky(preview: Any) -> None:
        calls.append(preview)
        if len(calls) < 3:
            raise ValueError("not yet")

    feed.put(row(1))
    run_stream(feed.stream(spark), table_path, checkpoint, {**TRIPS, "hoodie.precommit.validators": "third_time_lucky", PAUSE: 1})
    assert len(calls) == 3
    assert snapshot(spark, table_path) == [row(1)]


def test_a_batch_that_cannot_be_written_ends_the_query_with_its_error(
    spark: Any, feed: Feed, table_path: str, checkpoint: Path
) -> None:
    feed.put(row(1))
    feed.put((None, "berlin", 2, 1.0))
    with pytest.raises(Exception, match="RecordKeyError.*recordKey value"):
        run_stream(feed.stream(spark), table_path, checkpoint, {**TRIPS, RETRIES: 2, PAUSE: 1})
    assert snapshot(spark, table_path) == [row(1)]


def test_a_batch_that_is_given_up_is_recorded(spark: Any, feed: Feed, table_path: str, checkpoint: Path) -> None:
    feed.put(row(1))
    feed.put((None, "berlin", 2, 1.0))
    feed.put(row(3))
    run_stream(feed.stream(spark), table_path, checkpoint, {**TRIPS, RETRIES: 1, IGNORE: "true"})
    assert snapshot(spark, table_path) == [row(1), row(3)]
    (given_up,) = penstock.Table.open(table_path).given_up_batches()
    assert (given_up.batch, given_up.attempts, given_up.checkpoint_location) == (1, 1, str(checkpoint))
    assert given_up.error.startswith("RecordKeyError: recordKey value")


def test_two_streams_with_one_identifier_are_told_apart(
    spark: Any, feed: Feed, table_path: str, checkpoint: Path, tmp_path: Path
) -> None:
    other = Feed(tmp_path / "other-feed")
    feed.put(row(1))
    run_stream(feed.stream(spark), table_path, checkpoint, TRIPS)
    query = make_writer(other_stream(other, spark), tmp_path / "other", {**TRIPS, IDENTIFIER: "second"}).start(table_path)
    query.awaitTermination()
    other.put(row(3))
    # The second stream now takes the identifier of the first, with a checkpoint that is in use.
    with pytest.raises(Exception, match="another stream, with another checkpoint"):
        run_stream(other_stream(other, spark), table_path, tmp_path / "other", TRIPS)
    assert snapshot(spark, table_path) == [row(1), row(2)]


def other_stream(feed: Feed, spark: Any) -> Any:
    """Return a stream whose first batch is a row of its own."""
    if not feed.folder.exists():
        feed.put(row(2))
    return feed.stream(spark)


def test_streams_with_their_own_identifiers_write_together(
    spark: Any, feed: Feed, table_path: str, checkpoint: Path, tmp_path: Path
) -> None:
    other = Feed(tmp_path / "other-feed")
    for number in range(3):
        feed.put(row(number), row(number + 100))
        other.put(row(number + 200, "paris"))
    queries = []
    for name, rows in (("first", feed), ("second", other)):
        options = {**TWO_WRITERS, IDENTIFIER: name, PAUSE: 10}
        queries.append(make_writer(rows.stream(spark), tmp_path / name, options).start(table_path))
    for query in queries:
        query.awaitTermination()
    expected = [row(n) for n in (0, 1, 2, 100, 101, 102)] + [row(n, "paris") for n in (200, 201, 202)]
    assert snapshot(spark, table_path) == expected
    wanted = [f'{{"{name}":"{n}"}}' for name in ("first", "second") for n in range(3)]
    assert sorted(committed_batches(table_path)) == wanted


def test_the_output_mode_decides_what_becomes_of_earlier_rows(
    spark: Any, feed: Feed, table_path: str, checkpoint: Path, tmp_path: Path
) -> None:
    feed.put(row(1, "berlin"), row(2, "paris"))
    feed.put(row(3, "paris"))
    counts = {"hoodie.table.name": "counts", "hoodie.datasource.write.recordkey.field": "city", ORDERING: "count"}
    for mode in ("complete", "update"):
        rows = feed.stream(spark).groupBy("city").count()
        path = f"{table_path}-{mode}"
        make_writer(rows, tmp_path / mode, counts).outputMode(mode).start(path).awaitTermination()
        found = spark.read.format("hudi").load(path).select("city", "count").orderBy("city").collect()
        assert [tuple(each) for each in found] == [("berlin", 1), ("paris", 2)]
        assert len(committed_batches(path)) == (1 if mode == "complete" else 2)


def instants(path: str, ending: str) -> list[Path]:
    return sorted(Path(path, ".hoodie").glob(f"*.{ending}"))


def test_services_run_in_the_background_of_a_stream(spark: Any, feed: Feed, table_path: str, checkpoint: Path) -> None:
    options = {
        **MERGE_ON_READ,
        "hoodie.compact.inline.max.delta.commits": 2,
        "hoodie.clean.async": "true",
        "hoodie.cleaner.commits.retained": 1,
        "hoodie.clustering.async.enabled": "true",
        "hoodie.clustering.async.max.commits": 3,
    }
    for number in range(6):
        feed.put(*(row(n, fare=float(number)) for n in range(4)))
    writer = feed.stream(spark).writeStream.format("hudi").options(**options).option("checkpointLocation", str(checkpoint))
    query = writer.start(table_path)
    try:
        query.processAllAvailable()
        wait_until(lambda: bool(instants(table_path, "commit")) and bool(instants(table_path, "clean")))
    finally:
        query.stop()
    assert snapshot(spark, table_path) == [row(n, fare=5.0) for n in range(4)]
    assert len(committed_batches(table_path)) == 6


@pytest.mark.skipif(ON_CONNECT, reason="on Connect the services of a stream begin with its first batch")
def test_a_plan_that_a_stream_left_is_run_when_the_stream_starts_again(
    spark: Any, feed: Feed, table_path: str, checkpoint: Path
) -> None:
    options = {**MERGE_ON_READ, "hoodie.compact.inline": "false", "hoodie.compact.schedule.inline": "true"}
    off = {**options, "hoodie.datasource.write.streaming.disable.compaction": "true"}
    for number in range(2):
        feed.put(row(1, fare=float(number)))
    run_stream(feed.stream(spark), table_path, checkpoint, off)
    planned = penstock.Table.open(table_path).schedule_compaction()
    assert planned is not None
    assert instants(table_path, "commit") == []
    query = make_writer(feed.stream(spark), checkpoint, MERGE_ON_READ).trigger(processingTime="1 hour").start(table_path)
    try:
        wait_until(lambda: bool(instants(table_path, "commit")))
    finally:
        query.stop()
    assert snapshot(spark, table_path) == [row(1, fare=1.0)]


def test_other_formats_of_a_stream_are_sparks(spark: Any, feed: Feed, tmp_path: Path) -> None:
    feed.put(row(1, "berlin"))
    writer = feed.stream(spark).writeStream.format("parquet").partitionBy("city").outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    writer.start(str(tmp_path / "files")).awaitTermination()
    assert (tmp_path / "files" / "city=berlin").is_dir()


def test_a_callback_has_one_message_per_batch_also_after_a_restart(
    spark: Any, feed: Feed, table_path: str, checkpoint: Path
) -> None:
    feed.put(row(1))
    feed.put(row(2))
    with running_server() as server:
        callback = {"penstock.commit.callbacks": "http", "hoodie.write.commit.callback.http.url": server.url}
        run_stream(feed.stream(spark), table_path, checkpoint, {**TRIPS, **callback})
        feed.put(row(3))
        run_stream(feed.stream(spark), table_path, checkpoint, {**TRIPS, **callback})
    messages = [request.json for request in server.received]
    assert [message["commitTime"] for message in messages] == [
        entry.instant for entry in reversed(penstock.Table.open(table_path).history())
    ]
    assert [message["extraMetadata"][BATCH_KEY] for message in messages] == committed_batches(table_path)
    assert len(messages) == 3
