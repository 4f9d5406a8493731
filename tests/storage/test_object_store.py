"""Object stores beyond the contract: races of processes, keys, Hadoop's folders, memory, the probe for conditional puts."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import Pool

import pytest

from penstock.errors import AlreadyExists, OptionError, StorageError, Unsupported
from penstock.storage import ObjectStorage, Storage, bucket_region, check_conditional_put, explain_storage, open_storage
from penstock.storage.conditional_put import forget_conditional_puts
from penstock.table.listing import _walk_folders, walk_partitions
from tests.kit.counting_proxy import CountingProxy
from tests.kit.hdfs import Hdfs
from tests.kit.object_stores import CANARY, ObjectStore, s3_client
from tests.kit.race import race, start_racers

pytestmark = pytest.mark.server

PROCESSES = 8
FILES = 6


@pytest.fixture(scope="module")
def racers() -> Iterator[Pool]:
    with start_racers(PROCESSES) as pool:
        yield pool


@pytest.mark.parametrize("server", ["seaweedfs", "azurite", "hdfs"])
def test_one_of_eight_processes_creates_each_file(request: pytest.FixtureRequest, racers: Pool, server: str) -> None:
    store: ObjectStore | Hdfs = request.getfixturevalue(server)
    path = store.path()
    settings = store.settings if isinstance(store, ObjectStore) else {"dfs.replication": "1"}
    winners = racers.starmap(race, [(path, settings, FILES, number) for number in range(PROCESSES)], chunksize=1)
    owners = {file: number for number, files in enumerate(winners) for file in files}
    assert sum(map(len, winners)) == FILES
    storage, base = open_storage(path, settings)
    for file, number in owners.items():
        assert storage.read(f"{base}/{file}") == str(number).encode()


KEYS = ["a b", "50%", "p%2Fq", "x+y", "é/ü", "city=São Paulo", "a:b", "#hash", "q?x=1", "it's", "star*", "~tilde", "[1]", "日本"]


@pytest.mark.parametrize("server", ["moto", "seaweedfs", "azurite", "hdfs"])
def test_keys_hold_any_character(request: pytest.FixtureRequest, server: str) -> None:
    storage, base = request.getfixturevalue(server).open()
    keys = [key for key in KEYS if server != "hdfs" or ":" not in key]  # HDFS allows no colon
    for key in keys:
        storage.write_new(f"{base}/{key}", key.encode())
    assert {info.path for info in storage.list_tree(base)} == {f"{base}/{key}" for key in keys}
    for key in keys:
        assert storage.read(f"{base}/{key}") == key.encode()
        assert storage.stat(f"{base}/{key}") is not None
    if server == "moto":
        pages = s3_client(request.getfixturevalue("moto")).list_objects_v2(
            Bucket=request.getfixturevalue("moto").authority, Prefix=base[1:]
        )
        assert {content["Key"] for content in pages["Contents"]} == {f"{base[1:]}/{key}" for key in keys}
    storage.delete_tree(base)
    assert storage.stat(base) is None


def test_slashes_that_are_too_many_are_left_out(moto: ObjectStore) -> None:
    storage, base = open_storage(f"s3a://{moto.authority}//a///b/", moto.settings)
    assert base == "/a/b"
    assert storage.uri(f"{base}/c") == f"s3a://{moto.authority}/a/b/c"


@pytest.mark.parametrize("server", ["moto", "seaweedfs"])
def test_hadoops_objects_for_folders_are_no_files(request: pytest.FixtureRequest, server: str) -> None:
    store: ObjectStore = request.getfixturevalue(server)
    storage, base = store.open()
    client = s3_client(store)
    for key in ("", "empty/", "full/", "full/deep/"):
        client.put_object(Bucket=store.authority, Key=f"{base[1:]}/{key}", Body=b"")
    storage.write_new(f"{base}/full/1.commit.requested", b"")
    storage.write_new(f"{base}/full/heartbeat", b"")
    assert {info.path for info in storage.list_tree(base)} == {f"{base}/full/1.commit.requested", f"{base}/full/heartbeat"}
    assert {(info.name, info.is_dir) for info in storage.list(base)} == {("empty", True), ("full", True)}
    assert storage.list(f"{base}/empty") == []


def test_more_files_than_a_page_are_all_listed_and_deleted(seaweedfs: ObjectStore) -> None:
    storage, base = seaweedfs.open()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: storage.replace(f"{base}/{i % 7}/{i:04}.parquet", b"x"), range(1100)))
    assert len(list(storage.list_tree(base))) == 1100
    storage.delete_tree(base)
    assert storage.stat(base) is None


# --- as a value


@pytest.mark.parametrize("server", ["moto", "azurite"])
def test_no_secret_is_in_a_text_of_the_storage(request: pytest.FixtureRequest, server: str) -> None:
    store: ObjectStore = request.getfixturevalue(server)
    storage, _ = store.open()
    assert isinstance(storage, ObjectStorage)
    secrets = storage.settings.secrets
    assert secrets
    for text in (repr(storage), str(storage), repr(storage.settings), str(storage.settings), f"{storage.settings.found}"):
        assert not [secret for secret in secrets if secret in text]


def test_a_storage_is_small_when_pickled_and_finds_its_client_again(moto: ObjectStore) -> None:
    storage, base = moto.open()
    storage.write_new(f"{base}/file", b"x")
    pickled = pickle.dumps(storage)
    assert len(pickled) < 2000
    again = pickle.loads(pickled)
    assert again == storage
    assert hash(again) == hash(storage)
    assert again.read(f"{base}/file") == b"x"


def test_keys_of_the_session_do_not_go_with_a_token_of_the_environment(
    moto: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token of the environment")
    storage, _ = moto.open()
    assert isinstance(storage, ObjectStorage)
    assert dict(storage.settings.credentials) == {"access_key_id": "testkey", "secret_access_key": CANARY}


FORKED = """
import os, sys, pickle
storage = pickle.loads(bytes.fromhex(sys.argv[1]))
if sys.argv[2] == "after":
    storage.read(sys.argv[3])
child = os.fork()
if child == 0:
    try:
        storage.read(sys.argv[3])
    except Exception as e:
        print(type(e).__name__, e, flush=True)
        os._exit(1)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("server", ["moto", "hdfs"])
@pytest.mark.parametrize(("moment", "code"), [("before", 0), ("after", 1)])
def test_a_process_forked_before_the_first_use_works_and_a_later_one_gets_an_error(
    request: pytest.FixtureRequest, server: str, moment: str, code: int
) -> None:
    """Spark's daemon forks its workers before they use a storage. A later fork would wait forever for threads that are gone."""
    storage, base = request.getfixturevalue(server).open()
    storage.write_new(f"{base}/file", b"x")
    command = [sys.executable, "-c", FORKED, pickle.dumps(storage).hex(), moment, f"{base}/file"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == code, ran.stderr
    assert ("spawn" in ran.stdout) is (code == 1)


MEASURED = """
import sys, pickle, resource
storage = pickle.loads(bytes.fromhex(sys.argv[1]))
piece = bytes(1 << 20)
sizes = []
for number, mib in enumerate((24, 240)):
    with storage.create(f"{sys.argv[2]}/{number}") as sink:
        for _ in range(mib):
            sink.write(piece)
    sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print((sizes[1] - sizes[0]) // 1024)
"""


def test_memory_of_an_upload_does_not_grow_with_the_file(seaweedfs: ObjectStore) -> None:
    storage, base = seaweedfs.open()
    command = [sys.executable, "-c", MEASURED, pickle.dumps(storage).hex(), base]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 64  # MiB more for a file that is 216 MiB larger
    info = storage.stat(f"{base}/1")
    assert info is not None
    assert info.size_bytes == 240 << 20
    storage.delete_tree(base)


# --- stores that are not there or not usable


def test_a_store_that_ignores_conditions_is_refused(rclone: ObjectStore) -> None:
    forget_conditional_puts()
    storage, base = rclone.open()
    for _ in range(2):
        with pytest.raises(Unsupported, match=r"If-None-Match.*penstock.lock=zookeeper"):
            check_conditional_put(storage, base)
    assert storage.list(base) == []


@pytest.mark.parametrize("server", ["moto", "seaweedfs", "azurite"])
def test_a_store_that_honours_conditions_passes_and_is_asked_once(request: pytest.FixtureRequest, server: str) -> None:
    forget_conditional_puts()
    storage, base = request.getfixturevalue(server).open()
    check_conditional_put(storage, base)
    assert storage.list(base) == []
    other, _ = open_storage("s3a://no-such-bucket/x", request.getfixturevalue(server).settings)
    if server != "azurite":
        check_conditional_put(other, "/x")  # the same endpoint: nothing is asked


def test_a_bucket_that_does_not_exist_is_named(moto: ObjectStore) -> None:
    storage, _ = open_storage("s3a://no-such-bucket/table", moto.settings)
    for action in (lambda: storage.list("/table"), lambda: storage.stat("/table"), lambda: storage.write_new("/table/x", b"")):
        with pytest.raises(StorageError, match=r"no bucket 'no-such-bucket' at http.*fs.s3a.endpoint"):
            action()


def test_a_wrong_secret_key_is_named_and_not_shown(seaweedfs: ObjectStore) -> None:
    settings = {**seaweedfs.settings, "spark.hadoop.fs.s3a.secret.key": "wrong"}
    storage, base = open_storage(seaweedfs.path(), settings)
    with pytest.raises(StorageError, match=r"fs.s3a.access.key.*(not accepted|no permission)"):
        storage.list(base)


def test_the_region_of_a_bucket_of_amazon_is_asked_for_once_if_no_setting_names_it(
    moto: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    bucket = f"far-{uuid.uuid4().hex[:8]}"
    s3_client(moto).create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "ap-south-1"})
    keys = {"fs.s3a.access.key": "k", "fs.s3a.secret.key": CANARY}
    with CountingProxy.before(moto.port) as proxy:
        monkeypatch.setattr(bucket_region, "_ADDRESS", f"http://127.0.0.1:{proxy.port}")
        for _ in range(2):
            assert "s3 region = ap-south-1 (from the bucket)" in explain_storage(f"s3a://{bucket}/t", keys)
        assert proxy.counts == {"head": 1}
        assert "s3 region = eu-west-1" in explain_storage(f"s3a://{bucket}/t", {**keys, "fs.s3a.endpoint.region": "eu-west-1"})
        assert "s3 region = us-east-1 (from the default)" in explain_storage(f"s3a://not-{bucket}/t", keys)
        assert proxy.counts == {"head": 2}


def test_an_endpoint_that_does_not_answer_is_named() -> None:
    settings = {
        "fs.s3a.endpoint": "http://127.0.0.1:9",
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": CANARY,
        "penstock.storage.retry.ms": "300",
    }
    storage, base = open_storage("s3a://bucket/table", settings)
    with pytest.raises(StorageError, match=r"no answer at http://127.0.0.1:9 \(from the setting fs.s3a.endpoint\)") as caught:
        storage.list(base)
    assert CANARY not in str(caught.value)


def test_a_name_node_that_does_not_answer_is_named() -> None:
    with pytest.raises(OptionError, match="fs.defaultFS"):
        open_storage("hdfs:///table", {})


def test_a_default_file_system_is_used(hdfs: Hdfs) -> None:
    storage, base = open_storage(
        "hdfs:///" + os.urandom(8).hex(), {"spark.hadoop.fs.defaultFS": hdfs.url, "dfs.replication": "1"}
    )
    storage.write_new(f"{base}/file", b"x")
    assert storage.uri(base) == f"{hdfs.url}{base}"
    assert open_storage(f"{hdfs.url}{base}", {"dfs.replication": "1"})[0].read(f"{base}/file") == b"x"


def test_a_name_service_is_used(hdfs: Hdfs) -> None:
    """Two name nodes, of which the first is not there: a name service as in a cluster with high availability."""
    settings = {
        "dfs.nameservices": "lake",
        "dfs.ha.namenodes.lake": "nn1,nn2",
        "dfs.namenode.rpc-address.lake.nn1": "127.0.0.1:9",
        "dfs.namenode.rpc-address.lake.nn2": f"127.0.0.1:{hdfs.port}",
        "dfs.client.failover.proxy.provider.lake": "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
        "dfs.replication": "1",
    }
    storage, base = open_storage("hdfs://lake/" + os.urandom(8).hex(), settings)
    storage.write_new(f"{base}/file", b"x")
    assert [info.path for info in storage.list_tree(base)] == [f"{base}/file"]
    assert storage.uri(base) == f"hdfs://lake{base}"


@pytest.mark.parametrize("change", ["write_new", "replace", "create", "make_dirs"])
def test_a_path_below_a_file_of_hdfs_is_an_error_of_the_storage(hdfs: Hdfs, change: str) -> None:
    storage, base = hdfs.open()
    storage.write_new(f"{base}/file", b"")
    arguments = [b"x"] if change in ("write_new", "replace") else []
    with pytest.raises(StorageError, match="below a file"):
        getattr(storage, change)(f"{base}/file/below", *arguments)


def test_a_name_node_in_safe_mode_is_an_error_with_the_way_out(hdfs: Hdfs) -> None:
    storage, base = hdfs.open()
    storage.write_new(f"{base}/file", b"x")
    hdfs.administer("-safemode", "enter")
    try:
        with pytest.raises(StorageError, match=r"safe mode.*dfsadmin -safemode"):
            storage.write_new(f"{base}/other", b"x")
        assert storage.read(f"{base}/file") == b"x"
    finally:
        hdfs.administer("-safemode", "leave")
    assert [info.name for info in storage.list(base)] == ["file"]


def _fill(storage: Storage, folder: str) -> None:
    for number in range(4):
        storage.write_new(f"{folder}/{number}", bytes(600))


@pytest.mark.parametrize(("command", "quota", "message"), [("-setQuota", "3", "names"), ("-setSpaceQuota", "1000", "space")])
def test_a_quota_that_is_reached_is_an_error_with_the_way_out(hdfs: Hdfs, command: str, quota: str, message: str) -> None:
    storage, base = hdfs.open()
    storage.make_dirs(base)
    hdfs.administer(command, quota, base)
    with pytest.raises(StorageError, match=f"quota of {message} is reached.*{command}"):
        _fill(storage, base)
    for info in storage.list(base):
        assert storage.read(info.path) == bytes(600)


def test_partitions_are_found_by_one_listing_as_folder_by_folder(moto: ObjectStore) -> None:
    storage, base = moto.open()
    partitions = ("-a", "a", "a b", "a-b", "a/b", "a/b-c", "b/1", "b/1/2", "b/10", "é=ü", "table/.hoodie/metadata/files")
    for path in partitions:
        storage.replace(f"{base}/{path}/.hoodie_partition_metadata", b"x")
        storage.replace(f"{base}/{path}/file.parquet", b"x")
    for path in (".hoodie/1.commit", ".hoodie/metadata/files/.hoodie_partition_metadata", "no partition/file.parquet"):
        storage.replace(f"{base}/{path}", b"x")
    found = list(walk_partitions(storage, base))
    assert found == list(_walk_folders(storage, base, ""))
    assert [path for path, _ in found] == ["-a", "a", "a b", "a-b", "b/1", "b/10", "é=ü"]


def test_a_bucket_may_have_dots_in_its_name(moto: ObjectStore) -> None:
    s3_client(moto).create_bucket(Bucket="lake.team.example")
    storage, base = open_storage("s3a://lake.team.example/a table/", moto.settings)
    storage.write_new(f"{base}/file", b"x")
    assert [info.path for info in storage.list_tree(base)] == ["/a table/file"]


def test_nothing_temporary_is_left_on_hdfs(hdfs: Hdfs) -> None:
    storage, base = hdfs.open()
    storage.write_new(f"{base}/file", b"x")
    with pytest.raises(AlreadyExists):
        storage.write_new(f"{base}/file", b"y")
    storage.replace(f"{base}/file", b"z")
    assert [info.name for info in storage.list(base)] == ["file"]
