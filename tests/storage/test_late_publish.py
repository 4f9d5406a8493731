"""A writer without concurrent writers whose commit reaches the store so late that another process takes it for dead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from penstock.commit.begin import begin
from penstock.commit.change import Change
from penstock.commit.claims import mark_undone
from penstock.errors import CommitUnknown, PenstockError, TableChanged, WriteConflict
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.services.rollback.run import roll_back
from penstock.storage import join, open_storage
from penstock.table.config import TableConfig
from penstock.table.state import TableState
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import Action
from penstock.timeline.store import load_timeline
from tests.kit.counting_proxy import CountingProxy, Fault
from tests.kit.object_stores import ObjectStore

pytestmark = pytest.mark.server

#: A heartbeat lives for a second, and the put of a commit is repeated for a quarter of it.
BEATS = {"hoodie.client.heartbeat.interval_in_ms": "1000", "hoodie.client.heartbeat.tolerable.misses": "1"}
LIFE_S = 1.0
SECONDS_MAX = 60.0


@pytest.fixture
def proxy(moto: ObjectStore) -> Iterator[CountingProxy]:
    with CountingProxy.before(moto.port) as proxy:
        yield proxy


@pytest.fixture
def path(moto: ObjectStore) -> str:
    path = moto.path()
    storage, base = open_storage(path, moto.settings)
    storage.write_new(join(base, ".hoodie/hoodie.properties"), b"hoodie.table.name=t\n")
    return path


def open_state(path: str, settings: dict[str, str], options: dict[str, str]) -> TableState:
    storage, base = open_storage(path, settings)
    return TableState(storage, base, TableConfig({"hoodie.table.name": "t"}), read_options(options), load_timeline(storage, base))


class Writer:
    """A process that writes and publishes a data file through a proxy, in a thread."""

    def __init__(self, table: TableState) -> None:
        self.table = table
        self.changes: list[Change] = []
        self.errors: list[PenstockError] = []
        self._may_publish = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        wait_until(lambda: bool(self.changes))

    @property
    def change(self) -> Change:
        return self.changes[0]

    def _run(self) -> None:
        try:
            with begin(self.table, Action.COMMIT) as change:
                change.start()
                path = f"p/f_0-0-0_{change.time}.parquet"
                self.table.storage.write_new(join(self.table.base_path, path), b"rows")
                self.changes.append(change)
                self._may_publish.wait()
                change.complete([WriteStat("f", "p", path)], operation=Operation.UPSERT, schema="{}")
        except PenstockError as e:
            self.errors.append(e)

    def publish(self) -> None:
        """Let it publish its commit."""
        self._may_publish.set()

    def end(self) -> PenstockError | None:
        """Wait for its end. Return its error."""
        self.publish()
        self._thread.join()
        return self.errors[0] if self.errors else None


@pytest.fixture
def writer(path: str, moto: ObjectStore, proxy: CountingProxy) -> Iterator[Writer]:
    writer = Writer(open_state(path, moto.through(proxy.port), BEATS))
    yield writer
    proxy.heal()
    proxy.release()
    writer.end()


@pytest.fixture
def other(path: str, moto: ObjectStore, writer: Writer) -> TableState:
    """The table as another process sees it, after the writer has begun."""
    return open_state(path, moto.settings, BEATS)


def names(table: TableState) -> list[str]:
    return [file.name for file in table.storage.list(join(table.base_path, ".hoodie")) if not file.is_dir]


def hold_commit(writer: Writer, proxy: CountingProxy) -> None:
    """Let the put of the commit be under way until the writer's heartbeat has expired."""
    proxy.inject(Fault.HOLD, kind="put_new", path=f"{writer.change.time}.commit")
    proxy.inject(Fault.answer(403), path=".heartbeat", times=1000)
    writer.publish()
    wait_until(lambda: any(r.kind == "put_new" and r.path.endswith(".commit") for r in list(proxy.requests)))
    time.sleep(LIFE_S)


def test_a_commit_that_arrives_after_its_rollback_is_taken_back(writer: Writer, other: TableState, proxy: CountingProxy) -> None:
    hold_commit(writer, proxy)
    roll_back(other, other.timeline.pending[0])
    proxy.release()
    error = writer.end()
    assert isinstance(error, CommitUnknown)
    assert "the instant is gone" in str(error)
    assert f"{writer.change.time}.commit" not in names(other)


def test_a_commit_that_arrives_during_its_rollback_is_taken_back(writer: Writer, other: TableState, proxy: CountingProxy) -> None:
    hold_commit(writer, proxy)
    mark_undone(other, writer.change.time)  # the first step of a rollback
    proxy.release()
    assert isinstance(writer.end(), WriteConflict)
    assert f"{writer.change.time}.commit" not in names(other)


def test_a_rollback_that_finds_the_commit_deletes_nothing(writer: Writer, other: TableState, proxy: CountingProxy) -> None:
    hold_commit(writer, proxy)
    proxy.release()
    assert writer.end() is None
    before = sorted(file.path for file in other.storage.list_tree(other.base_path))
    with pytest.raises(TableChanged, match="completed just now"):
        roll_back(other, other.timeline.pending[0])
    assert sorted(file.path for file in other.storage.list_tree(other.base_path)) == before


def test_a_commit_is_not_put_for_longer_than_the_heartbeat_lives(writer: Writer, proxy: CountingProxy) -> None:
    proxy.inject(Fault.answer(503), kind="put_new", path=f"{writer.change.time}.commit", times=5)
    error = writer.end()
    assert isinstance(error, CommitUnknown)


def test_a_commit_that_arrives_in_time_takes_no_look_for_a_rollback(path: str, moto: ObjectStore, proxy: CountingProxy) -> None:
    writer = Writer(open_state(path, moto.through(proxy.port), {}))
    proxy.reset()
    assert writer.end() is None
    assert not [request for request in proxy.requests if "/undone/" in request.path]
    after = proxy.requests[[request.path.endswith(".commit") for request in proxy.requests].index(True) + 1 :]
    assert [request.kind for request in after if request.path.endswith(".commit.requested")] == []


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
