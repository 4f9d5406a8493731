"""Each living writer has a heartbeat file of its own, also if several writers begin in the same millisecond."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest

from penstock import clock
from penstock.commit.begin import begin_run
from penstock.commit.heartbeat import Heartbeat, Owner, check_alive, heartbeat_path, is_alive, list_heartbeats
from penstock.errors import AlreadyExists
from penstock.options import Options
from penstock.storage import LocalStorage, MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.state import TableState
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import request_instant


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> TableState:
    """A table whose writers all begin in one millisecond."""
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    monkeypatch.setattr(clock, "utc_now", lambda: now)
    return TableState(MemoryStorage(uuid.uuid4().hex), "/t", TableConfig({"hoodie.table.name": "t"}), Options({}))


def take(table: TableState, announce: Callable[[str], bool]) -> str:
    return request_instant(table.storage, "/t", Action.COMMIT, utc=True, announce=announce).time


def owner_of(table: TableState, time: str) -> Owner | None:
    return Owner.decode(table.storage.read(heartbeat_path("/t", time)))


def check_each_has_its_own(table: TableState, writers: dict[str, Heartbeat]) -> None:
    """Check that the heartbeat files are those of the writers, which are given by instant time, and that no other is left."""
    assert [file.name for file in list_heartbeats(table)] == sorted(writers)
    for time, heartbeat in writers.items():
        assert owner_of(table, time) == heartbeat._owner
        assert is_alive(table, time)
        heartbeat.end()
    assert list_heartbeats(table) == []


def test_a_writer_that_loses_an_instant_leaves_the_heartbeat_of_the_winner(table: TableState) -> None:
    first = Heartbeat(table)
    second = Heartbeat(table)
    taken: dict[str, Heartbeat] = {}

    def announce_first(time: str) -> bool:
        """Announce the first writer. The second one takes an instant before the first one can take this."""
        is_announced = first.announce(time)
        if not taken:
            taken[take(table, second.announce)] = second
        return is_announced

    taken[take(table, announce_first)] = first
    assert len(taken) == 2
    check_each_has_its_own(table, taken)


def test_threads_that_begin_in_one_millisecond_have_a_heartbeat_each(table: TableState) -> None:
    writers = [Heartbeat(table) for _ in range(3)]
    with ThreadPoolExecutor(len(writers)) as pool:
        times = list(pool.map(lambda writer: take(table, writer.announce), writers))
    check_each_has_its_own(table, dict(zip(times, writers, strict=True)))


def test_a_heartbeat_file_that_a_dead_writer_left_stops_no_writer(table: TableState) -> None:
    dead = Heartbeat(table)
    time = take(table, dead.announce)
    dead.stop()
    table.storage.delete(f"/t/.hoodie/{time}.commit.requested")
    later = Heartbeat(table)
    assert take(table, later.announce) > time
    later.end()
    assert [file.name for file in list_heartbeats(table)] == [time]


def test_a_second_runner_of_a_plan_does_not_make_the_first_one_look_dead(table: TableState) -> None:
    plan = Instant("5", Action.COMPACTION, State.REQUESTED)
    table.storage.write_new(f"/t/.hoodie/{plan.file_name}", b"")
    with begin_run(table, plan) as run:
        assert owner_of(table, "5") == run._heartbeat._owner
        with pytest.raises(AlreadyExists), begin_run(table, plan):
            pass
        assert is_alive(table, "5")
        run._heartbeat.beat()
        assert owner_of(table, "5") == run._heartbeat._owner


def make_beating(folder: Path, mode: str) -> tuple[TableState, Heartbeat]:
    """Return a table on disk, and a heartbeat that has just begun."""
    options = Options({"hoodie.write.concurrency.mode": mode, "penstock.lock": "in_process"})
    table = TableState(LocalStorage(), str(folder), TableConfig({"hoodie.table.name": "t"}), options)
    heartbeat = Heartbeat(table)
    assert heartbeat.announce("1")
    return table, heartbeat


@pytest.mark.parametrize("mode", ["single_writer", "optimistic_concurrency_control"])
@pytest.mark.parametrize("ahead_s", [3600, 121, -3600, 10**7])
def test_a_clock_that_is_wrong_makes_no_living_writer_dead_and_no_dead_one_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, ahead_s: int
) -> None:
    table, heartbeat = make_beating(tmp_path, mode)
    now = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda: now() + 1000 * ahead_s)
    assert is_alive(table, "1")
    check_alive(table, "1")
    beat = heartbeat_path(str(tmp_path), "1")
    old_s = os.stat(beat).st_mtime - 200
    os.utime(beat, (old_s, old_s))
    assert not is_alive(table, "1")
    heartbeat.stop()


def test_a_clock_that_is_set_back_during_a_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, heartbeat = make_beating(tmp_path, "optimistic_concurrency_control")
    heartbeat.beat()
    now = clock.now_ms
    for ahead_s in (7200, 0, -7200):
        monkeypatch.setattr(clock, "now_ms", lambda ahead_s=ahead_s: now() + 1000 * ahead_s)
        check_alive(table, "1")
    heartbeat.stop()
