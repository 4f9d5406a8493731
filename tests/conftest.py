"""Fixtures and marks for all tests. A fixture that starts a process starts it at its first use, once."""

from __future__ import annotations

import os
import signal
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings

import penstock
from tests.crash.scenes import Runner
from tests.kit.dynamodb import DynamoDb, running_dynamodb
from tests.kit.hbase import HBase, running_hbase
from tests.kit.hdfs import Hdfs, running_hdfs
from tests.kit.hive_server import RunningHiveServer, running_hive_server
from tests.kit.kafka import Kafka, running_kafka
from tests.kit.metastore import RunningMetastore, running_metastore
from tests.kit.object_stores import (
    ObjectStore,
    running_azurite,
    running_gcs,
    running_moto,
    running_rclone,
    running_seaweedfs,
)
from tests.kit.oracle import Oracle, OracleUnavailable
from tests.kit.servers import ServerUnavailable
from tests.kit.sessions import SessionUnavailable, make_session
from tests.kit.templates import Templates
from tests.kit.zookeeper import ZooKeeper, running_zookeeper

MARKS = {
    "oracle": "uses real Hudi, in a process of its own",
    "connect": "only on a Spark Connect session (PENSTOCK_TEST_SESSION=connect)",
    "cluster": "only where executors are separate processes (PENSTOCK_TEST_SESSION=local-cluster or standalone)",
    "server": "starts an object store or HDFS (the suite `storage`)",
    "apart": "only in a run without a session of its own (PENSTOCK_TEST_SESSION=apart)",
    "slow": "takes more than half a minute",
    "everywhere": "with all its parameters on every PySpark, because Spark itself decides what comes out",
}
LEAST_EXAMPLES = 20
T = TypeVar("T")
ORACLES = {"hudi015": "0.15.0", "hudi12": "1.2.0"}


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # a shell starts background jobs with it; tests of Ctrl-C send the signal
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that use the oracle, skip tests of other kinds of session, and leave out examples and parameters as configured."""
    _scale_examples(items, float(os.environ.get("PENSTOCK_TEST_EXAMPLES") or 1))
    _leave_out_parameters(config, items, int(os.environ.get("PENSTOCK_TEST_PARAMETERS") or 1))
    kind = _session_kind()
    for item in items:
        if ORACLES.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.oracle)
        if item.get_closest_marker("connect") and kind != "connect":
            item.add_marker(pytest.mark.skip(reason=MARKS["connect"]))
        if item.get_closest_marker("apart") and kind != "apart":
            item.add_marker(pytest.mark.skip(reason=MARKS["apart"]))
        if item.get_closest_marker("cluster") and kind not in ("local-cluster", "standalone"):
            item.add_marker(pytest.mark.skip(reason=MARKS["cluster"]))


def _scale_examples(items: list[pytest.Item], share: float) -> None:
    """Run properties with a share of their examples. Profiles of Hypothesis do not reach tests that set their own number."""
    tests: set[Any] = {getattr(item, "obj", None) for item in items} if share != 1 else set()  # once for all parameters of a test
    for test in tests:
        wanted = getattr(test, "_hypothesis_internal_use_settings", None)
        if wanted is not None and wanted.max_examples > LEAST_EXAMPLES:
            fewer = max(LEAST_EXAMPLES, round(share * wanted.max_examples))
            test._hypothesis_internal_use_settings = settings(wanted, max_examples=fewer)


def _leave_out_parameters(config: pytest.Config, items: list[pytest.Item], step: int) -> None:
    """Keep one in `step` parameters of each test, and at least one. Which ones depends on its name, so that tests differ."""
    by_test: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("everywhere"):
            by_test[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for name, cases in by_test.items():
        every = min(step, len(cases))
        left_out |= {case for at, case in enumerate(cases) if at % every != zlib.crc32(name.encode()) % every}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def session_kind() -> str:
    """The kind of Spark session that this run uses."""
    return _session_kind()


@pytest.fixture(scope="session")
def spark(session_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session of this run, with Penstock enabled on it."""
    with ExitStack() as stack:
        try:
            session = stack.enter_context(make_session(session_kind, tmp_path_factory.mktemp("spark")))
        except SessionUnavailable as reason:
            pytest.skip(str(reason))
        if hasattr(penstock, "enable"):
            penstock.enable(session)
        yield session


@pytest.fixture
def table_path(tmp_path: Path) -> str:
    """A path for a table. It does not exist yet."""
    return str(tmp_path / "table")


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    """Tables that are written once and copied."""
    return Templates(tmp_path_factory.mktemp("templates"))


@pytest.fixture(scope="session")
def runner(spark: Any) -> Runner:
    """Runs writes without Spark tasks, within tens of milliseconds."""
    return Runner(spark)


@pytest.fixture(scope="session")
def hudi015() -> Iterator[Oracle]:
    """Real Hudi 0.15.0."""
    yield from _oracle("hudi015")


@pytest.fixture(scope="session")
def hudi12() -> Iterator[Oracle]:
    """Real Hudi 1.2.0. It writes table version 6 by default."""
    yield from _oracle("hudi12")


@pytest.fixture(scope="module")
def hbase() -> Iterator[HBase]:
    """A real HBase. It ends with the module because it uses much memory."""
    try:
        with running_hbase() as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """A real Kafka."""
    try:
        with running_kafka() as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """A real ZooKeeper."""
    try:
        with running_zookeeper() as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def metastore() -> Iterator[RunningMetastore]:
    """A real Hive metastore."""
    try:
        with running_metastore() as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[DynamoDb]:
    """A DynamoDB of moto."""
    try:
        with running_dynamodb() as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def hive_server(metastore: RunningMetastore) -> Iterator[RunningHiveServer]:
    """A real server of HiveServer2's protocol: Spark's Thrift Server."""
    try:
        with running_hive_server(metastore) as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def glue() -> Iterator[dict[str, str]]:
    """Environment variables of a running Glue Data Catalog: moto's."""
    moto = pytest.importorskip("moto.server", reason="Glue needs the package moto (make setup)")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    _, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
    yield {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", **keys}
    server.stop()


@pytest.fixture(scope="session")
def moto() -> Iterator[ObjectStore]:
    """A light S3."""
    yield from _server(running_moto)


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[ObjectStore]:
    """A real S3: SeaweedFS."""
    yield from _server(running_seaweedfs)


@pytest.fixture(scope="session")
def rclone() -> Iterator[ObjectStore]:
    """An S3 that ignores the conditions of puts."""
    yield from _server(running_rclone)


@pytest.fixture(scope="session")
def azurite() -> Iterator[ObjectStore]:
    """Azure's own emulator of Blob Storage."""
    yield from _server(running_azurite)


@pytest.fixture(scope="session")
def gcs() -> Iterator[ObjectStore]:
    """What stands for Google Cloud Storage: see `running_gcs`."""
    yield from _server(running_gcs)


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    """A real HDFS."""
    yield from _server(running_hdfs)


def _server(running: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
    """Yield a running server, or skip the test with the reason why there is none."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running())
        except (ServerUnavailable, RuntimeError) as reason:
            pytest.skip(str(reason))
        yield server


def _oracle(name: str) -> Iterator[Oracle]:
    try:
        oracle = Oracle.start(ORACLES[name])
    except OracleUnavailable as reason:
        pytest.skip(str(reason))
    with oracle:
        yield oracle


def _session_kind() -> str:
    return os.environ.get("PENSTOCK_TEST_SESSION") or "classic"
