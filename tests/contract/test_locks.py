"""One suite for every lock, with real servers: exclusion of threads and processes, waits, leases, holders, take-overs, errors.

A new lock joins by a line in `KINDS` and a branch in `make_spec`. Sessions and leases are short here, so that tests need not wait long.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import options as o
from penstock.commit.locks import LockContext, LockProvider, choose_lock, hold_lock, make_lock
from penstock.errors import LockTimeout, OptionError, StorageError, Unsupported
from penstock.options import Options, read_options
from penstock.options.lock_names import HUDI_LOCKS, LOCKS
from penstock.storage import LocalStorage
from tests.kit.dynamodb import DynamoDb
from tests.kit.lock_process import LockProcess, LockSpec, increment
from tests.kit.metastore import RunningMetastore
from tests.kit.servers import ServerUnavailable, free_port
from tests.kit.zookeeper import CuratorMutex, ZooKeeper

KINDS = ("in_process", "filesystem", "storage", "zookeeper", "hive_metastore", "dynamodb")
#: Locks that exclude other processes.
SHARED = KINDS[1:]
#: Locks that are granted in the order of requests.
FAIR = ("in_process", "zookeeper", "hive_metastore")
#: Seconds after which the lock of a dead holder must be free, with much room for a slow machine.
FREED_S = 40
#: Seconds in which each lease would have ended without renewal.
RENEWED_S = {"filesystem": 3.8, "storage": 4.8, "hive_metastore": 5.0, "dynamodb": 3.8}
_numbers = itertools.count()


@pytest.fixture
def make_spec(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], LockSpec]:
    """Describes a lock of a kind, on a table and a lock name of its own. The server that it needs is started."""

    def make(kind: str) -> LockSpec:
        name = f"trips_{os.getpid()}_{next(_numbers)}"
        path = str(tmp_path / "table")
        if kind == "filesystem":
            return LockSpec(path, {"penstock.lock": kind}, expire_s=3)
        if kind == "storage":
            lease = {"hoodie.write.lock.storage.validity.timeout.secs": "4", "hoodie.write.lock.storage.renew.interval.secs": "1"}
            return LockSpec(path, {"penstock.lock": kind, **lease})
        if kind == "zookeeper":
            zookeeper: ZooKeeper = request.getfixturevalue("zookeeper")
            return LockSpec(path, zookeeper.options(f"/hudi/{name}"))
        if kind == "hive_metastore":
            metastore: RunningMetastore = request.getfixturevalue("metastore")
            metastore.create_table(name)
            return LockSpec(path, {**metastore.lock_options(name), "hoodie.write.lock.heartbeat_interval_ms": "500"})
        if kind == "dynamodb":
            dynamodb: DynamoDb = request.getfixturevalue("dynamodb")
            return LockSpec(path, {**dynamodb.options("locks", name), "hoodie.write.lock.wait_time_ms": "3000"})
        return LockSpec(path, {"penstock.lock": kind})

    return make


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """Closes locks and processes at the end of a test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def locks(closing: ExitStack) -> Callable[..., LockProvider]:
    """Makes locks that are closed at the end of the test."""

    def make(spec: LockSpec, **more: str) -> LockProvider:
        lock = spec.make(**more)
        closing.callback(lock.close)
        return lock

    return make


@pytest.fixture
def processes(closing: ExitStack) -> Callable[[LockSpec], LockProcess]:
    """Starts processes with a lock that are killed at the end of the test."""

    def start(spec: LockSpec) -> LockProcess:
        process = LockProcess(spec)
        closing.callback(process.kill)
        return process

    return start


@pytest.mark.parametrize("kind", KINDS)
def test_threads_exclude_each_other_with_one_lock_object_and_with_several(
    kind: str, make_spec: Any, locks: Any, tmp_path: Path
) -> None:
    spec = make_spec(kind)
    shared = locks(spec)
    counter = tmp_path / "counter"
    counter.write_text("0")
    threads = [threading.Thread(target=increment, args=(lock, counter, 3)) for lock in (shared, shared, locks(spec), locks(spec))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == "12"
    assert shared.holder() is None


@pytest.mark.parametrize("kind", SHARED)
def test_processes_exclude_each_other(kind: str, make_spec: Any, processes: Any, tmp_path: Path) -> None:
    spec = make_spec(kind)
    counter = tmp_path / "counter"
    counter.write_text("0")
    contenders = [processes(spec) for _ in range(3)]
    for contender in contenders:
        contender.send("increment", str(counter), 4)
    assert [contender.answer() for contender in contenders] == ["done"] * 3
    assert counter.read_text() == "12"


@pytest.mark.parametrize("kind", SHARED)
def test_the_holder_is_shown_and_can_be_broken(kind: str, make_spec: Any, locks: Any, processes: Any) -> None:
    spec = make_spec(kind)
    lock = locks(spec)
    assert lock.holder() is None
    assert lock.break_lock() is None
    other = processes(spec)
    before = int(time.time() * 1000)
    assert other.ask("acquire", 10)
    holder = lock.holder()
    assert holder is not None
    assert (holder.pid, holder.instant, holder.is_gone) == (other.pid, "20260101000000000", False)
    assert holder.host == os.uname().nodename
    assert before - 1000 <= holder.since_ms <= int(time.time() * 1000) + 1000
    assert not lock.acquire(0.2)
    assert other.ask("is_held")

    broken = lock.break_lock()
    assert broken is not None
    assert broken.pid == other.pid
    assert lock.acquire(10)
    assert not other.ask("is_held")
    other.ask("release")  # of a lock that it does not have any more
    assert lock.is_held()
    assert lock.holder().pid == os.getpid()


@pytest.mark.parametrize("kind", SHARED)
def test_the_lock_of_a_killed_process_is_free_after_its_lease(kind: str, make_spec: Any, locks: Any, processes: Any) -> None:
    spec = make_spec(kind)
    other = processes(spec)
    assert other.ask("acquire", 10)
    other.kill()
    lock = locks(spec)
    assert lock.acquire(FREED_S)
    assert lock.holder().pid == os.getpid()


@pytest.mark.parametrize("kind", SHARED)
def test_a_process_that_is_stopped_for_longer_than_its_lease_has_lost_the_lock(
    kind: str, make_spec: Any, locks: Any, processes: Any
) -> None:
    spec = make_spec(kind)
    other = processes(spec)
    assert other.ask("acquire", 10)
    other.pause()
    lock = locks(spec)
    assert lock.acquire(FREED_S)
    other.resume()
    assert not other.ask("is_held")
    assert not other.ask("release")
    assert lock.is_held()
    lock.release()
    assert other.ask("acquire", 10)  # and begins again
    assert other.ask("is_held")


@pytest.mark.parametrize("kind", RENEWED_S)
def test_a_lease_is_renewed_while_its_holder_lives(kind: str, make_spec: Any, locks: Any) -> None:
    spec = make_spec(kind)
    lock = locks(spec)
    assert lock.acquire(10)
    assert not locks(spec).acquire(RENEWED_S[kind])
    assert lock.renew()
    assert lock.is_held()


@pytest.mark.parametrize("kind", KINDS)
def test_a_timeout_names_the_holder_and_the_option(kind: str, make_spec: Any, locks: Any) -> None:
    spec = make_spec(kind)
    retries = {o.LOCK_CLIENT_RETRIES.key: "2", o.LOCK_CLIENT_RETRY_MS.key: "10"}
    waits = {**retries, o.LOCK_WAIT_MS.key: "100"}
    held = locks(spec, **{o.LOCK_WAIT_MS.key: "60000"})  # also the lease of a DynamoDB lock
    with hold_lock(held, "20260202000000000") as acquired:
        assert acquired.attempts == 1
        assert acquired.is_held()
        with pytest.raises(LockTimeout) as error, hold_lock(locks(spec, **waits)):
            pass
    text = str(error.value)
    assert f"process {os.getpid()} on {os.uname().nodename}" in text
    assert "for instant 20260202000000000" in text
    assert "3 attempts" in text
    assert f"{o.LOCK_WAIT_MS.key}=100" in text
    assert f"{o.LOCK_CLIENT_RETRIES.key}=2" in text
    assert held.holder() is None


@pytest.mark.parametrize("kind", KINDS)
def test_release_is_idempotent_and_leaves_other_holders_alone(kind: str, make_spec: Any, locks: Any) -> None:
    spec = make_spec(kind)
    first = locks(spec)
    second = locks(spec)
    first.release()
    assert first.acquire(10)
    second.release()
    assert first.is_held()
    with pytest.raises(RuntimeError, match="holds .* already"):
        first.acquire(0.1)
    first.release()
    first.release()
    assert not first.is_held()
    assert second.acquire(10)
    first.release()
    first.close()
    assert second.is_held()
    assert first.acquire(0.1) is False


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_leaves_nothing_behind(kind: str, make_spec: Any, locks: Any) -> None:
    spec = make_spec(kind)
    lock = locks(spec)

    def interrupt_the_block() -> None:
        with hold_lock(lock):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt_the_block()
    assert lock.holder() is None

    assert lock.acquire(10)
    waiting = locks(spec)
    timer = threading.Timer(0.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        waiting.acquire(30)
    lock.release()
    assert lock.holder() is None
    assert lock.acquire(10)


@pytest.mark.parametrize("kind", FAIR)
def test_the_lock_is_granted_in_the_order_of_requests(kind: str, make_spec: Any, locks: Any) -> None:
    spec = make_spec(kind)
    first = locks(spec)
    assert first.acquire(10)
    order: list[int] = []

    def take(number: int, lock: LockProvider) -> None:
        assert lock.acquire(60)
        order.append(number)
        lock.release()

    threads = []
    for number in range(4):
        thread = threading.Thread(target=take, args=(number, locks(spec)))
        thread.start()
        threads.append(thread)
        time.sleep(0.4)  # so that the requests come one after the other
    first.release()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["storage", "zookeeper", "hive_metastore"])
def test_every_holder_has_a_greater_fencing_number(kind: str, make_spec: Any, locks: Any) -> None:
    spec = make_spec(kind)
    numbers = []
    for _ in range(3):
        lock = locks(spec)
        with hold_lock(lock):
            numbers.append(lock.fencing_number)
        assert lock.fencing_number is None
    assert numbers == sorted(set(numbers))


# -- ZooKeeper -------------------------------------------------------------------------------------------------------------


def test_curators_mutex_and_the_zookeeper_lock_exclude_each_other(
    zookeeper: ZooKeeper, make_spec: Any, locks: Any, closing: Any
) -> None:
    spec = make_spec("zookeeper")
    base_path = spec.options[o.LOCK_ZOOKEEPER_BASE_PATH.key]
    try:
        curator = CuratorMutex(zookeeper.address, f"{base_path}/trips")
    except ServerUnavailable as reason:
        pytest.skip(str(reason))
    closing.callback(curator.stop)
    lock = locks(spec)

    assert curator.ask("acquire 5000") == "yes"
    assert not lock.acquire(0.3)
    holder = lock.holder()
    assert holder is not None
    assert holder.owner.startswith("a writer of Hudi at ")
    assert curator.ask("release") == "released"

    assert lock.acquire(10)
    assert curator.ask("acquire 300") == "no"
    curator.send("acquire 30000")  # waits in the queue
    time.sleep(0.3)
    late = locks(spec)
    thread = threading.Thread(target=late.acquire, args=(30,))
    thread.start()
    time.sleep(0.3)
    lock.release()
    assert curator.answer() == "yes"  # it came first
    assert not late.is_held()
    curator.send("release")
    thread.join()
    assert late.is_held()


def test_the_zookeeper_lock_is_not_held_while_the_server_is_down(tmp_path: Path, closing: Any) -> None:
    server = ZooKeeper.start(tmp_path)
    closing.callback(server.stop)
    answers = {"hoodie.write.lock.zookeeper.connection_timeout_ms": "1500", "hoodie.write.lock.num_retries": "1"}
    lock = LockSpec(str(tmp_path), {**server.options("/hudi"), **answers}).make()
    closing.callback(lock.close)
    assert lock.acquire(10)
    server.stop()
    assert not lock.is_held()
    with pytest.raises(StorageError, match=rf"ZooKeeper does not answer at 127.0.0.1:{server.port} .*zookeeper.url"):
        lock.holder()
    server.restart()
    lock.release()
    assert lock.acquire(20)
    assert lock.is_held()


@pytest.mark.parametrize(
    ("url", "port", "hosts"),
    [
        ("zk", "", "zk:2181"),
        ("zk", "2182", "zk:2182"),
        ("zk:2183", "2182", "zk:2183"),
        ("a, b:1/root", "2", "a:2,b:1/root"),
        ("[::1]", "2", "[::1]:2"),
    ],
)
def test_the_port_may_stand_in_either_option(url: str, port: str, hosts: str) -> None:
    from penstock.commit.locks.zookeeper import make_hosts

    assert make_hosts(url, int(port) if port else None) == hosts


# -- bad input -------------------------------------------------------------------------------------------------------------


def make(options: dict[str, str], tmp_path: Path) -> LockProvider:
    return make_lock(LockContext(str(tmp_path), "trips", Options(options), LocalStorage()))


def test_a_provider_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match="'hoodie.write.lock.provider' is 'org.example.Lock', which is no lock provider; use .*zookeeper"
    ):
        make({"hoodie.write.lock.provider": "org.example.Lock"}, tmp_path)
    with pytest.raises(OptionError, match="no lock is set: set penstock.lock"):
        make({}, tmp_path)
    with pytest.raises(OptionError, match="name different locks; leave one out"):
        make({"penstock.lock": "storage", "hoodie.write.lock.provider": next(iter(HUDI_LOCKS))}, tmp_path)


def test_hudis_class_names_and_short_names_choose_the_same_locks() -> None:
    assert set(HUDI_LOCKS.values()) == set(LOCKS) == set(KINDS)
    for name, short in HUDI_LOCKS.items():
        assert choose_lock(Options({"hoodie.write.lock.provider": name})) == short
        assert choose_lock(Options({"hoodie.write.lock.provider": name, "penstock.lock": short})) == short
    assert choose_lock(Options({})) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penstock.lock": "zookeeper"}, "needs hoodie.write.lock.zookeeper.url"),
        ({"penstock.lock": "zookeeper", "hoodie.write.lock.zookeeper.url": "zk"}, "needs hoodie.write.lock.zookeeper.base_path"),
        (
            {
                "penstock.lock": "zookeeper",
                "hoodie.write.lock.zookeeper.url": "zk",
                "hoodie.write.lock.zookeeper.base_path": "hudi",
            },
            "'hoodie.write.lock.zookeeper.base_path' is 'hudi'; it must begin with /",
        ),
        ({"penstock.lock": "hive_metastore"}, "needs hoodie.write.lock.hivemetastore.database"),
        (
            {"penstock.lock": "hive_metastore", "hoodie.write.lock.hivemetastore.database": "d"},
            "needs hoodie.write.lock.hivemetastore.table",
        ),
        (
            {
                "penstock.lock": "hive_metastore",
                "hoodie.write.lock.hivemetastore.database": "d",
                "hoodie.write.lock.hivemetastore.table": "t",
            },
            "needs hoodie.write.lock.hivemetastore.uris",
        ),
        (
            {
                "penstock.lock": "hive_metastore",
                "hoodie.write.lock.hivemetastore.database": "d",
                "hoodie.write.lock.hivemetastore.table": "t",
                "hoodie.write.lock.hivemetastore.uris": "http://x",
            },
            "'hoodie.write.lock.hivemetastore.uris' is 'http://x'; expected thrift://host:9083",
        ),
        (
            {"penstock.lock": "storage", "hoodie.write.lock.storage.validity.timeout.secs": "5"},
            "renew.interval.secs=30 must be at most a third",
        ),
    ],
)
def test_a_missing_or_wrong_option_is_named(options: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=message):
        make(options, tmp_path)


@pytest.mark.parametrize(
    ("kind", "module"), [("zookeeper", "kazoo.client"), ("hive_metastore", "thriftpy2"), ("dynamodb", "boto3.session")]
)
def test_a_missing_package_is_named_with_its_extra(
    kind: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.hive_metastore import metastore_types

    metastore_types.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    options = {
        "penstock.lock": kind,
        "hoodie.write.lock.zookeeper.url": "zk",
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
        "hoodie.write.lock.hivemetastore.database": "d",
        "hoodie.write.lock.hivemetastore.table": "t",
        "hoodie.write.lock.hivemetastore.uris": "thrift://x",
    }
    with pytest.raises(OptionError, match=rf"pip install 'penstock\[{kind.replace('hive_metastore', 'hive')}\]'"):
        make(options, tmp_path)


def test_a_zookeeper_that_does_not_answer_is_named(tmp_path: Path) -> None:
    options = {
        "penstock.lock": "zookeeper",
        "hoodie.write.lock.zookeeper.url": f"127.0.0.1:{free_port()}",
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
        "hoodie.write.lock.zookeeper.connection_timeout_ms": "500",
    }
    with pytest.raises(StorageError, match="ZooKeeper does not answer at 127.0.0.1.*connection_timeout_ms=500"):
        make(options, tmp_path).check()


def test_a_zookeeper_that_demands_authentication_is_named(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    from kazoo.client import KazooClient
    from kazoo.security import make_digest_acl

    client = KazooClient(zookeeper.address)
    client.start()
    client.create("/closed", acl=[make_digest_acl("ann", "secret", all=True)])
    client.stop()
    lock = make(zookeeper.options("/closed"), tmp_path)
    try:
        for call in (lock.check, lambda: lock.acquire(1)):
            with pytest.raises(OptionError, match="demands authentication for /closed/trips .*zookeeper.base_path"):
                call()
    finally:
        lock.close()


def test_a_metastore_without_the_table_is_named(metastore: RunningMetastore, tmp_path: Path) -> None:
    lock = make(metastore.lock_options("nowhere"), tmp_path)
    with pytest.raises(OptionError, match=r"has no table default.nowhere, which .*database and .*table name: create it"):
        lock.check()
    lock.close()
    lock = make({**metastore.lock_options("nowhere"), "hoodie.datasource.hive_sync.enable": "true"}, tmp_path)
    lock.check()  # the sync will register it
    lock.close()


def test_a_metastore_that_does_not_answer_is_named(tmp_path: Path) -> None:
    options = {
        "penstock.lock": "hive_metastore",
        "hoodie.write.lock.hivemetastore.database": "d",
        "hoodie.write.lock.hivemetastore.table": "t",
        "hoodie.write.lock.hivemetastore.uris": f"thrift://127.0.0.1:{free_port()}",
        "hoodie.write.lock.num_retries": "2",
        "hoodie.write.lock.wait_time_ms_between_retry": "10",
    }
    with pytest.raises(StorageError, match="Hive metastore at thrift://127.0.0.1:.*hivemetastore.uris"):
        make(options, tmp_path).check()


def test_a_dynamodb_that_does_not_answer_is_named(dynamodb: DynamoDb, tmp_path: Path) -> None:
    options = {
        **dynamodb.options("locks", "trips"),
        "hoodie.write.lock.dynamodb.endpoint_url": f"http://127.0.0.1:{free_port()}",
        "hoodie.write.lock.wait_time_ms": "1000",
    }
    with pytest.raises(StorageError, match="DynamoDB .*endpoint_url=http://127.0.0.1"):
        make(options, tmp_path).check()


def test_dynamodb_without_credentials_is_named(dynamodb: DynamoDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(OptionError, match="needs credentials"):
        make(dynamodb.options("locks", "trips"), tmp_path).check()


def test_the_lock_file_of_a_stranger_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / ".hoodie"
    folder.mkdir()
    (folder / "lock").write_text("")  # as Hudi's is, mostly
    quick = {"hoodie.write.lock.wait_time_ms": "100", "hoodie.write.lock.client.num_retries": "0"}
    lock = make({"penstock.lock": "filesystem", **quick}, tmp_path)
    with (
        pytest.raises(LockTimeout, match=r"file .*/.hoodie/lock.* held by a writer of Hudi, or another program .* since 20"),
        hold_lock(lock),
    ):
        pass
    assert (folder / "lock").exists()
    broken = lock.break_lock()
    assert broken is not None
    assert lock.acquire(1)


def test_the_lock_file_of_a_stranger_is_taken_over_when_it_has_expired(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "lock"
    file.parent.mkdir()
    file.write_text("")
    os.utime(file, (time.time() - 90, time.time() - 90))
    options = {"penstock.lock": "filesystem", "hoodie.write.lock.filesystem.path": str(file.parent)}
    assert not make(options, tmp_path).acquire(0.1)
    assert not make({**options, "hoodie.write.lock.filesystem.expire": "2"}, tmp_path).acquire(0.1)
    lock = make({**options, "hoodie.write.lock.filesystem.expire": "1"}, tmp_path)
    assert lock.acquire(1)
    assert json.loads(file.read_text())["pid"] == os.getpid()
    assert [path.name for path in file.parent.iterdir()] == ["lock"]
    lock.release()
    assert list(file.parent.iterdir()) == []


def test_a_lock_file_that_hudi_deletes_is_lost(tmp_path: Path) -> None:
    lock = make({"penstock.lock": "filesystem"}, tmp_path)
    assert lock.acquire(1)
    (tmp_path / ".hoodie" / "lock").unlink()
    assert not lock.is_held()


def test_a_folder_in_the_place_of_the_lock_file_is_named(tmp_path: Path) -> None:
    (tmp_path / ".hoodie" / "lock").mkdir(parents=True)
    lock = make({"penstock.lock": "filesystem"}, tmp_path)
    with pytest.raises(OptionError, match="is a folder, not a lock file: set hoodie.write.lock.filesystem.path"):
        lock.check()


def test_a_table_with_the_storage_lock_of_hudi_1_is_refused(tmp_path: Path) -> None:
    file = tmp_path / ".hoodie" / ".locks" / "table_lock.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    with pytest.raises(Unsupported, match="storage lock of Hudi 1.x .* use another lock for both"):
        make({"penstock.lock": "storage"}, tmp_path).check()


# -- DynamoDB --------------------------------------------------------------------------------------------------------------


def test_a_dynamodb_item_has_the_form_of_the_lock_client_of_aws(dynamodb: DynamoDb, tmp_path: Path) -> None:
    options = {
        **dynamodb.options("made", "trips"),
        "hoodie.write.lock.dynamodb.billing_mode": "PROVISIONED",
        "hoodie.write.lock.dynamodb.read_capacity": "3",
        "hoodie.write.lock.dynamodb.write_capacity": "4",
    }
    lock = make(options, tmp_path)
    client = dynamodb.client()
    with hold_lock(lock):
        made = client.describe_table(TableName="made")["Table"]
        assert made["KeySchema"] == [{"AttributeName": "key", "KeyType": "HASH"}]
        assert made["ProvisionedThroughput"]["ReadCapacityUnits"] == 3
        assert made["ProvisionedThroughput"]["WriteCapacityUnits"] == 4
        item = client.get_item(TableName="made", Key={"key": {"S": "trips"}})["Item"]
        assert set(item) == {"key", "ownerName", "leaseDuration", "recordVersionNumber", "data"}
        assert item["leaseDuration"] == {"S": "60000"}
    assert "Item" not in client.get_item(TableName="made", Key={"key": {"S": "trips"}})


def test_an_item_of_hudi_is_waited_for_and_a_released_one_is_taken(dynamodb: DynamoDb, tmp_path: Path) -> None:
    lock = make(dynamodb.options("hudi", "trips"), tmp_path)
    lock.check()
    item = {
        "key": {"S": "trips"},
        "ownerName": {"S": "host1234"},
        "leaseDuration": {"S": "60000"},
        "recordVersionNumber": {"S": "one"},
    }
    client = dynamodb.client()
    client.put_item(TableName="hudi", Item=item)
    assert not lock.acquire(0.2)
    holder = lock.holder()
    assert holder is not None
    assert holder.owner == "a writer of Hudi named host1234"
    client.put_item(TableName="hudi", Item={**item, "isReleased": {"S": "1"}})
    assert lock.holder() is None
    assert lock.acquire(5)
    lock.release()


# -- locks of the user -----------------------------------------------------------------------------------------------------


def test_a_registered_function_makes_a_lock(tmp_path: Path) -> None:
    calls = []
    one_lock = threading.Lock()

    @penstock.lock_provider("one_lock")
    def make_one_lock(context: LockContext) -> threading.Lock:
        calls.append(context.table_name)
        return one_lock

    lock = make({"penstock.lock": "one_lock"}, tmp_path)
    assert calls == ["trips"]
    with hold_lock(lock) as held:
        assert held.is_held()
        assert one_lock.locked()
        assert not make({"hoodie.write.lock.provider": "one_lock"}, tmp_path).acquire(0.1)
    assert not one_lock.locked()
    with pytest.raises(OptionError, match="cannot be broken"):
        lock.break_lock()


def test_a_function_that_makes_no_lock_is_named(tmp_path: Path) -> None:
    penstock.lock_provider("no_lock")(lambda context: 7)
    with pytest.raises(OptionError, match="'no_lock' returned a int; return a LockProvider"):
        make({"penstock.lock": "no_lock"}, tmp_path)
    penstock.lock_provider("fails")(lambda context: 1 / 0)
    with pytest.raises(OptionError, match="'fails' failed: ZeroDivisionError"):
        make({"penstock.lock": "fails"}, tmp_path)
    with pytest.raises(OptionError, match="cannot name a lock provider"):
        penstock.lock_provider("penstock.mine")


def test_single_writers_are_warned_that_lock_options_have_no_effect() -> None:
    from penstock.options import IgnoredOptionWarning, forget_shown_warnings

    forget_shown_warnings()
    with pytest.warns(IgnoredOptionWarning, match="penstock.lock has no effect: one writer at a time needs no lock"):
        read_options({"penstock.lock": "storage"})
