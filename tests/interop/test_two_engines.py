"""Real Hudi and Penstock write to one table at the same time, under ZooKeeper's lock and under the Hive metastore's.

Each round has one write of each engine. A ledger outside of the table records which writes were acknowledged. After every round the rows and the
timeline must be those of the ledger. `PENSTOCK_TEST_ROUNDS` is the number of rounds per lock; `make test-two-engines` runs fifty.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.commit.table_lock import locked
from penstock.errors import WriteConflict
from penstock.options import read_options
from penstock.table.state import open_table
from tests.interop.sides import TRIPS, Penstock, Row, trips, trips_of
from tests.kit.oracle import Oracle, OracleError
from tests.kit.plain import plain_rows

ROUNDS = int(os.environ.get("PENSTOCK_TEST_ROUNDS") or 7)
LOCKS = ("zookeeper", "hive_metastore")
CITIES = ("berlin", "oslo", "paris", "rome")
WAIT_SECONDS_MAX = 60
RETRIES = "hoodie.write.num.retries.on.conflict.failures"
CONFLICT = "org.apache.hudi.exception.HoodieWriteConflictException"
ROLLBACK = "org.apache.hudi.exception.HoodieRollbackException"
SEVERAL = {
    **TRIPS,
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    # A write that lost stays pending in Hudi. It is rolled back when its heartbeat has expired, which happens within fifty rounds.
    "hoodie.client.heartbeat.interval_in_ms": "15000",
    "hoodie.client.heartbeat.tolerable.misses": "4",
    # All commits stay on the timeline, so that they can be counted.
    "hoodie.keep.min.commits": "200",
    "hoodie.keep.max.commits": "210",
    # Hudi does not wait in the metastore's queue: it asks again after a pause.
    "hoodie.write.lock.client.wait_time_ms_between_retry": "300",
    "hoodie.write.lock.client.num_retries": "200",
}


@dataclass
class Ledger:
    """The acknowledged writes, outside of the table."""

    rows: dict[str, Row]
    #: How many writes of each engine were acknowledged.
    commits: dict[str, int] = field(default_factory=lambda: {"us": 1, "hudi": 0})

    def record(self, engine: str, rows: list[Row]) -> None:
        """Record an acknowledged write."""
        self.rows.update({row[0]: row for row in rows})
        self.commits[engine] += 1


@dataclass
class Table:
    """The table that both engines write to."""

    path: Path
    us: Penstock
    hudi: Oracle
    options: dict[str, str]

    def write(self, rows: list[Row], **more: str) -> bool:
        """Write rows with Penstock. Return whether the write was acknowledged."""
        try:
            self.us.write(self.path, trips(*rows), {**self.options, **more})
        except WriteConflict:
            return False
        return True

    def write_with_hudi(self, rows: list[Row]) -> bool:
        """Write rows with Hudi. Return whether the write was acknowledged."""
        try:
            self.hudi.write(self.path, trips(*rows), {**self.options, RETRIES: "0"})
        except OracleError as e:
            names = [name for name, _ in e.causes]
            if ROLLBACK in names:  # both engines rolled back one dead write at once: Hudi may have committed before that
                return rows[-1] in plain_rows(self.path)
            if CONFLICT not in names:
                raise
            return False
        return True

    @contextmanager
    def hudi_at_its_commit(self, rows: list[Row]) -> Iterator[list[bool]]:
        """Run the block under the lock, after Hudi has written a file: it cannot commit. The list has its outcome afterwards."""
        table = open_table(str(self.path), read_options(self.options))
        known = self.inflight()
        outcome: list[bool] = []
        thread = threading.Thread(target=lambda: outcome.append(self.write_with_hudi(rows)))
        thread.start()
        try:
            # Hudi holds the lock when it begins, too. It is past that when its inflight file is there.
            _wait_until(lambda: bool(self.inflight() - known))
            with locked(table):
                instant = max(self.inflight() - known)
                _wait_until(lambda: any(self.path.rglob(f"*_{instant}.parquet")))
                assert not (self.path / ".hoodie" / f"{instant}.commit").exists(), "Hudi was faster than this process"
                yield outcome
        finally:
            thread.join()

    def inflight(self) -> set[str]:
        """Return the times of all instants of writes that have located their rows."""
        return {file.name.partition(".")[0] for file in (self.path / ".hoodie").glob("*.inflight")}

    def commits(self) -> dict[str, int]:
        """Return how many completed commits of each engine the timeline has. Penstock's have the times of their stages."""
        found = {"us": 0, "hudi": 0}
        for file in (self.path / ".hoodie").glob("*.commit"):
            ours = "penstock.stages" in json.loads(file.read_bytes())["extraMetadata"]
            found["us" if ours else "hudi"] += 1
        return found


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.fixture(params=LOCKS)
def table(request: pytest.FixtureRequest, us: Penstock, hudi015: Oracle, tmp_path: Path) -> Table:
    if request.param == "zookeeper":
        zookeeper = request.getfixturevalue("zookeeper")
        lock = zookeeper.options(f"/{tmp_path.name}")
        lock["hoodie.write.lock.zookeeper.url"] = zookeeper.address  # Hudi takes the port from here
        lock["hoodie.write.lock.zookeeper.lock_key"] = "trips"
    else:
        metastore = request.getfixturevalue("metastore")
        metastore.create_table("two_engines")
        lock = metastore.lock_options("two_engines")
    return Table(tmp_path / "table", us, hudi015, {**SEVERAL, **lock})


def rows_of(engine: str, number: int, cities: tuple[str, ...]) -> list[Row]:
    """Return the rows of one write: an update of a common key and a new key, in each of some partitions."""
    fare = number + (0.25 if engine == "us" else 0.5)
    updates = [(f"{city}-common", city, number, fare) for city in cities]
    return updates + [(f"{city}-{engine}-{number}", city, number, fare) for city in cities]


def hudi_between_ours(table: Table, ledger: Ledger, number: int, cities: tuple[str, str], retries: int) -> None:
    """Let Hudi write and commit after Penstock has written its files and before it commits."""
    ours, theirs = rows_of("us", number, (cities[0],)), rows_of("hudi", number, (cities[1],))
    outcomes: list[bool] = []

    @penstock.validator("two_engines")
    def write_with_hudi(preview: Any) -> None:
        if not outcomes:
            outcomes.append(table.write_with_hudi(theirs))

    is_done = table.write(ours, **{"hoodie.precommit.validators": "two_engines", RETRIES: str(retries)})
    assert outcomes == [True]
    ledger.record("hudi", theirs)
    assert is_done == (cities[0] != cities[1] or retries > 0)
    if is_done:
        ledger.record("us", ours)


def ours_between_hudi(table: Table, ledger: Ledger, number: int, cities: tuple[str, str]) -> None:
    """Let Penstock write and commit after Hudi has written its files and before it commits."""
    ours, theirs = rows_of("us", number, (cities[0],)), rows_of("hudi", number, (cities[1],))
    with table.hudi_at_its_commit(theirs) as outcome:
        assert table.write(ours)
        ledger.record("us", ours)
    assert outcome == [cities[0] != cities[1]]
    if outcome[0]:
        ledger.record("hudi", theirs)


def both_at_once(table: Table, ledger: Ledger, number: int, cities: tuple[str, ...]) -> None:
    """Let both write to the same partitions at the same moment, in whatever order.

    Penstock begins when Hudi has located its rows. Hudi takes its instant time before it holds the lock and before it reads the
    table: a commit with a later instant in between would hide Hudi's files, and Hudi would not notice.
    """
    ours, theirs = rows_of("us", number, cities), rows_of("hudi", number, cities)
    outcome: list[bool] = []
    known = table.inflight()
    thread = threading.Thread(target=lambda: outcome.append(table.write_with_hudi(theirs)))
    thread.start()
    _wait_until(lambda: bool(table.inflight() - known) or bool(outcome))
    assert table.write(ours, **{RETRIES: "10"})
    thread.join()
    # Both may have succeeded. Then the last commit of the common keys decides, for all of them.
    order = [("us", ours)]
    if outcome[0]:
        last = {row[3] for row in plain_rows(table.path) if row[0] == f"{cities[0]}-common"}
        order.insert(0 if last == {ours[0][3]} else 1, ("hudi", theirs))
    for engine, rows in order:
        ledger.record(engine, rows)


KINDS: tuple[Callable[[Table, Ledger, int], None], ...] = (
    lambda table, ledger, n: hudi_between_ours(table, ledger, n, ("oslo", "oslo"), 0),
    lambda table, ledger, n: ours_between_hudi(table, ledger, n, ("oslo", "oslo")),
    lambda table, ledger, n: hudi_between_ours(table, ledger, n, ("rome", "rome"), 3),
    lambda table, ledger, n: hudi_between_ours(table, ledger, n, ("oslo", "paris"), 0),
    lambda table, ledger, n: ours_between_hudi(table, ledger, n, ("paris", "rome")),
    lambda table, ledger, n: both_at_once(table, ledger, n, CITIES),
    lambda table, ledger, n: both_at_once(table, ledger, n, ("berlin",)),
)


def test_no_row_of_either_engine_is_lost_or_doubled(table: Table) -> None:
    first: list[Row] = [(f"{city}-common", city, 0, 0.0) for city in CITIES]
    assert table.write(first)
    ledger = Ledger({row[0]: row for row in first})
    for number in range(1, ROUNDS + 1):
        kind = (number - 1) % len(KINDS)
        KINDS[kind](table, ledger, number)
        assert plain_rows(table.path) == sorted(ledger.rows.values(), key=repr), f"round {number}, kind {kind}"
        assert table.commits() == ledger.commits, f"round {number}, kind {kind}"
    expected = sorted(ledger.rows.values())
    assert trips_of(table.us.read(table.path)) == expected
    assert trips_of(table.hudi.read(table.path)) == expected
