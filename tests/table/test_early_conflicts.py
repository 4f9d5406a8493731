"""Early conflict detection in whole writes: the loser merges nothing, and runs again when the winner is finished."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import WriteConflict
from penstock.workers.session_settings import cancel_tagged_jobs, tag_jobs
from tests.table.tables import SIX, TRIPS, base_files, snapshot, trips, write

EARLY = {
    **TRIPS,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "penstock.lock": "storage",
    "hoodie.write.concurrency.early.conflict.detection.enable": "true",
}
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": "3"}


@pytest.fixture
def at_commit() -> Any:
    """Return a list. The first write with the validator `at_commit` calls the functions in it before it commits."""
    actions: list[Any] = []

    @penstock.validator("at_commit")
    def act(preview: Any) -> None:
        while actions:
            actions.pop()()

    return actions


@pytest.mark.parametrize("markers", ["DIRECT", "TIMELINE_SERVER_BASED"])
def test_the_loser_stops_before_it_writes_a_file(spark: Any, table_path: str, at_commit: list[Any], markers: str) -> None:
    options = {**EARLY, "hoodie.write.markers.type": markers}
    write(trips(spark, *SIX), table_path, EARLY)
    files = []

    def lose() -> None:
        files.extend([base_files(table_path)])
        with pytest.raises(WriteConflict, match="stopped early.*of partition 'berlin'.*has been writing to it since") as raised:
            write(trips(spark, ("a", "berlin", 8, 8.5), SIX[4]), table_path, options)
        assert raised.value.other_instant is not None
        files.extend([base_files(table_path)])
        write(trips(spark, ("c", "paris", 8, 8.5)), table_path, options)  # another partition: no conflict

    at_commit.append(lose)
    write(trips(spark, ("a", "berlin", 9, 9.5)), table_path, {**options, "hoodie.precommit.validators": "at_commit"})
    assert files[0] == files[1]
    fares = {row[0]: row[3] for row in snapshot(spark, table_path)}
    assert (fares["a"], fares["c"]) == (9.5, 8.5)
    assert not list(Path(table_path, ".hoodie", ".heartbeat").iterdir())


def test_the_loser_waits_for_the_winner_and_then_merges_on_top_of_it(spark: Any, table_path: str, at_commit: list[Any]) -> None:
    options = {**EARLY, **RETRIES}
    write(trips(spark, *SIX), table_path, EARLY)
    errors: list[BaseException] = []

    def upsert() -> None:
        try:
            write(trips(spark, ("a", "berlin", 10, 10.5)), table_path, options)
        except BaseException as e:  # the test looks at it
            errors.append(e)

    loser = threading.Thread(target=upsert)

    def start_loser() -> None:
        loser.start()
        loser.join(3)
        assert loser.is_alive()

    at_commit.append(start_loser)
    write(
        trips(spark, ("a", "berlin", 9, 9.5), ("b", "berlin", 9, 9.5)),
        table_path,
        {**options, "hoodie.precommit.validators": "at_commit"},
    )
    loser.join(60)
    assert not errors
    fares = {row[0]: row[3] for row in snapshot(spark, table_path)}
    assert (fares["a"], fares["b"]) == (10.5, 9.5)
    assert len(list(Path(table_path, ".hoodie").glob("*.commit"))) == 3


def test_only_the_jobs_with_the_tag_are_cancelled(spark: Any) -> None:
    def sleep(batches: Any) -> Any:
        for batch in batches:
            time.sleep(60)
            yield batch

    failed = threading.Event()

    def run() -> None:
        try:
            with tag_jobs(spark, "slow"):
                spark.range(0, 1, 1, 1).mapInArrow(sleep, "id long").collect()
        except Exception:  # each kind of session has its own
            failed.set()

    thread = threading.Thread(target=run)
    thread.start()
    with tag_jobs(spark, "other"):
        for _ in range(60):
            cancel_tagged_jobs(spark, "slow")
            if failed.wait(0.5):
                break
        assert failed.is_set()
        assert spark.range(3).count() == 3
    thread.join()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"hoodie.write.concurrency.mode": "single_writer"}, "needs hoodie.write.concurrency.mode"),
        ({"hoodie.write.concurrency.early.conflict.detection.strategy": "com.acme.Early"}, "com.acme.Early is not supported"),
    ],
)
def test_a_contradiction_is_named_before_anything_is_written(
    spark: Any, table_path: str, options: dict[str, str], match: str
) -> None:
    with pytest.raises(penstock.errors.OptionError, match=match):
        write(trips(spark, *SIX), table_path, {**EARLY, **options})
    assert not Path(table_path).exists()
