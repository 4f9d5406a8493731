"""What an object store does when requests fail, and how many requests it makes: counted and spoiled by a proxy before a real S3."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import AlreadyExists, CommitUnknown, CorruptFile, StorageError, Unsupported
from penstock.storage import ObjectStorage, Storage, list_tree_without, open_arrow_file, open_storage, write_batch
from penstock.storage.conditional_put import check_conditional_put, forget_conditional_puts
from penstock.timeline.instant import Action
from penstock.timeline.store import request_instant
from tests.kit.counting_proxy import CountingProxy, Fault
from tests.kit.object_stores import CANARY, ObjectStore, unfinished_uploads

pytestmark = pytest.mark.server

#: Long enough for a busy machine. Tests that wait for the end of the time use `impatient`.
PATIENT = {"penstock.storage.timeout.ms": "10000", "penstock.storage.retry.ms": "20000"}
Place = tuple[ObjectStorage, str]


@pytest.fixture
def proxy(moto: ObjectStore) -> Iterator[CountingProxy]:
    with CountingProxy.before(moto.port) as proxy:
        yield proxy


@pytest.fixture
def place(moto: ObjectStore, proxy: CountingProxy) -> Place:
    storage, base = open_storage(moto.path(), {**moto.through(proxy.port), **PATIENT})
    assert isinstance(storage, ObjectStorage)
    return storage, base


def impatient(storage: ObjectStorage) -> ObjectStorage:
    """Return a storage that waits half a second for an answer, and repeats requests for as long."""
    return replace(storage, settings=replace(storage.settings, stall_ms=500, retry_ms=500))


# --- how many requests


def test_a_footer_is_one_request(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    table = pa.table({"a": list(range(200_000)), "b": [f"text {i}" for i in range(200_000)]})
    with storage.create(f"{base}/t.parquet") as sink:
        pq.write_table(table, sink, row_group_size=20_000, compression="none", use_dictionary=False)
    proxy.reset()
    with storage.open(f"{base}/t.parquet") as source:
        footer = pq.read_metadata(source)
    assert footer.num_rows == 200_000
    assert proxy.counts == {"get": 1}


def test_ranges_that_lie_close_together_are_one_request(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    content = bytes(range(256)) * 16_384
    storage.replace(f"{base}/file", content)
    proxy.reset()
    ranges = [(0, 10), (5_000, 10), (100_000, 1_000)]
    assert storage.read_ranges(f"{base}/file", ranges) == [content[at : at + size] for at, size in ranges]
    assert proxy.counts == {"get": 1}


def test_a_tree_is_one_listing(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    for i in range(20):
        storage.write_new(f"{base}/p{i}/q/file.parquet", b"x")
    storage.write_new(f"{base}/.hoodie/1.commit.requested", b"")
    proxy.reset()
    assert len(list(storage.list_tree(base))) == 21
    assert proxy.counts == {"list": 1}


def test_a_tree_is_deleted_with_one_listing_and_one_request(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    for i in range(20):
        storage.write_new(f"{base}/p{i}/file", b"x")
    proxy.reset()
    storage.delete_tree(base)
    assert proxy.counts == {"list": 1, "delete_many": 1}


def test_publishing_is_one_request(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"x")
    assert proxy.counts == {"put_new": 1}


def test_a_small_data_file_is_one_put(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    with storage.create(f"{base}/file") as sink:
        sink.write(b"x" * 1000)
    assert proxy.counts == {"put_new": 1}


@pytest.mark.parametrize("most", [1, None])
def test_a_folder_is_left_out_of_a_listing_of_a_table(place: Place, proxy: CountingProxy, most: int | None) -> None:
    storage, base = place
    for name in ("-first/file", ".hoodie/1.commit", ".hoodie/a/b", ".hoodie0/file", "p/file"):
        storage.replace(f"{base}/{name}", b"x")
    proxy.reset()
    found = list_tree_without(storage, base, ".hoodie", most)
    assert found is not None
    assert [info.path for info in found] == [f"{base}/{name}" for name in ("-first/file", ".hoodie0/file", "p/file")]
    assert proxy.counts == {"list": 1}


def test_pages_in_a_folder_that_is_left_out_are_not_fetched(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: storage.replace(f"{base}/.hoodie/{number:04}", b"x"), range(2_100)))
    storage.replace(f"{base}/p/file", b"x")
    proxy.reset()
    found = list_tree_without(storage, base, ".hoodie")
    assert [info.name for info in found or ()] == ["file"]
    assert proxy.counts == {"list": 2}
    assert list_tree_without(storage, base, ".hoodie", 1) is None


# --- faults of the put that publishes


@pytest.mark.parametrize(
    "fault",
    [
        Fault.DROP_AFTER,
        Fault.DROP_BEFORE,
        Fault.answer(500),
        Fault.answer(503),
        Fault.answer(429),
        Fault.answer_after(500),
        Fault.stall(1),
        Fault.answer(409, "ConditionalRequestConflict"),
    ],
    ids=lambda fault: f"{fault.name}{fault.status or ''}",
)
@pytest.mark.parametrize("content", [b"", b"content"], ids=["empty", "filled"])
def test_a_put_without_an_answer_is_resolved_by_looking(place: Place, proxy: CountingProxy, fault: Fault, content: bytes) -> None:
    storage, base = place
    proxy.inject(fault, kind="put_new")
    if fault.name == "stall":
        storage = replace(storage, settings=replace(storage.settings, stall_ms=500))
    storage.write_new(f"{base}/file", content)
    assert storage.read(f"{base}/file") == content
    assert len(storage.list(base)) == 1


@pytest.mark.parametrize("fault", [Fault.DROP_BEFORE, Fault.answer(500)], ids=lambda fault: fault.name)
def test_the_same_content_of_another_writer_is_not_taken_for_ones_own(place: Place, proxy: CountingProxy, fault: Fault) -> None:
    """Two writers that publish the same empty file: the one whose put was lost must not believe that it has won."""
    storage, base = place
    storage.write_new(f"{base}/file", b"")
    proxy.inject(fault, kind="put_new")
    with pytest.raises(AlreadyExists):
        storage.write_new(f"{base}/file", b"")


def test_a_put_that_cannot_be_resolved_is_of_unknown_outcome(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    storage = impatient(storage)
    proxy.inject(Fault.DROP_AFTER, kind="put_new")
    proxy.inject(Fault.answer(500), kind="get", times=1000)
    with pytest.raises(CommitUnknown, match="timeline"):
        storage.write_new(f"{base}/file", b"x")
    proxy.heal()
    assert storage.read(f"{base}/file") == b"x"


@pytest.mark.parametrize("times", [1, 3])
def test_a_storm_of_failures_within_the_budget_is_survived(place: Place, proxy: CountingProxy, times: int) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"x" * 100_000)
    for kind in ("get", "list", "head", "put"):
        proxy.inject(Fault.answer(503), kind=kind, times=times)
    storage.replace(f"{base}/other", b"y")
    assert storage.read(f"{base}/file") == b"x" * 100_000
    assert len(storage.list(base)) == 2
    assert storage.stat(f"{base}/file") is not None


def test_a_store_that_knows_no_conditional_puts_is_refused_at_once(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    forget_conditional_puts()
    proxy.inject(Fault.answer(501, "NotImplemented"), kind="put_new", times=1000)
    with pytest.raises(Unsupported, match="conditional puts.*or refuses them.*penstock.lock=zookeeper"):
        check_conditional_put(storage, base)
    assert proxy.counts["put_new"] == 1
    with pytest.raises(StorageError, match="does not support the request.*501.*If-None-Match"):
        storage.write_new(f"{base}/file", b"x")
    assert proxy.counts["put_new"] == 2
    forget_conditional_puts()


def test_a_storm_of_conflicts_is_an_error_after_growing_pauses(
    place: Place, proxy: CountingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, base = place
    monkeypatch.setattr("penstock.clock.sleep_s", lambda seconds: None)
    proxy.inject(Fault.answer(412), kind="put_new", times=10_000)
    with pytest.raises(StorageError, match="answers conditional puts wrongly"):
        request_instant(storage, base, Action.COMMIT, utc=True)
    assert proxy.counts["put_new"] < 100


def test_requests_are_not_repeated_for_ever(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    proxy.fail_all(Fault.answer(503))
    with pytest.raises(StorageError, match="503"):
        impatient(storage).read(f"{base}/file")
    assert 2 <= proxy.total <= 20


def test_a_body_that_ends_too_early_is_fetched_again(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    content = bytes(range(256)) * 1000
    storage.replace(f"{base}/file", content)
    proxy.inject(Fault.TRUNCATE, kind="get")
    assert storage.read(f"{base}/file") == content


def test_a_listing_that_ends_too_early_is_fetched_again(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    files = [f"{base}/{i}/file.parquet" for i in range(5)]
    for file in files:
        storage.write_new(file, b"x")
    proxy.reset()
    proxy.inject(Fault.TRUNCATE, kind="list", times=2)
    assert [info.path for info in storage.list_tree(base)] == files
    assert proxy.counts == {"list": 3}
    proxy.inject(Fault.TRUNCATE, kind="list")
    assert len(storage.list(base)) == 5


def test_the_proxy_answers_with_an_old_listing(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    assert storage.list(base) == []
    storage.write_new(f"{base}/file", b"x")
    proxy.inject(Fault.STALE, times=3)
    assert storage.list(base) == []
    storage.write_new(f"{base}/other", b"y")
    assert storage.read(f"{base}/other") == b"y"
    assert len(storage.list(base)) == 2


def test_a_listing_that_always_ends_too_early_is_an_error(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"x")
    proxy.fail_all(Fault.TRUNCATE)
    with pytest.raises(StorageError, match="list response"):
        storage.list(base)
    with pytest.raises(StorageError, match="list response"):
        list(storage.list_tree(base))


# --- uploads


def test_a_large_file_is_uploaded_in_parts(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    piece = bytes(range(256)) * 4096
    with storage.create(f"{base}/file") as sink:
        for _ in range(20):
            sink.write(piece)
    assert proxy.counts == {"head": 1, "upload_begin": 1, "upload_part": 3, "upload_complete": 1}
    assert storage.read(f"{base}/file") == piece * 20


def test_a_large_file_does_not_replace_an_existing_one(place: Place, proxy: CountingProxy) -> None:
    storage, base = place
    storage.replace(f"{base}/file", b"first")
    with pytest.raises(AlreadyExists), storage.create(f"{base}/file") as sink:
        sink.write(bytes(20 << 20))
    assert storage.read(f"{base}/file") == b"first"
    assert "upload_begin" not in proxy.counts


def _write_and_fail(storage: ObjectStorage, path: str, size_mib: int) -> None:
    with storage.create(path) as sink:
        for _ in range(size_mib):
            sink.write(b"x" * (1 << 20))
        raise ZeroDivisionError


@pytest.mark.parametrize("size_mib", [1, 20])
def test_an_aborted_upload_leaves_nothing(place: Place, moto: ObjectStore, size_mib: int) -> None:
    storage, base = place
    with pytest.raises(ZeroDivisionError):
        _write_and_fail(storage, f"{base}/file", size_mib)
    assert storage.stat(f"{base}/file") is None
    assert unfinished_uploads(moto, base) == set()


def test_a_part_that_fails_aborts_the_upload(place: Place, moto: ObjectStore, proxy: CountingProxy) -> None:
    storage, base = place
    proxy.inject(Fault.answer(403), kind="upload_part", times=100)
    with pytest.raises(StorageError, match="permission"):
        _write_and_fail(storage, f"{base}/file", 40)
    assert storage.stat(f"{base}/file") is None
    assert unfinished_uploads(moto, base) == set()


# --- errors without secrets

TROUBLE = {
    "expired": (Fault.EXPIRED, "expired.*fs.s3a.access.key"),
    "denied": (Fault.answer(403), "permission"),
    "wrong key": (Fault.answer(403, "InvalidAccessKeyId"), "not accepted.*InvalidAccessKeyId"),
    "wrong region": (Fault.answer(400, "AuthorizationHeaderMalformed"), "region us-east-1.*fs.s3a.endpoint.region"),
    "no bucket": (Fault.answer(404, "NoSuchBucket"), "no bucket.*create it"),
    "failing": (Fault.answer(500), "failed"),
    "dropped": (Fault.DROP_BEFORE, "no answer at http.*endpoint"),
}


def _create(storage: Storage, path: str) -> None:
    with storage.create(path) as sink:
        sink.write(b"x")


ACTIONS: dict[str, Callable[[Storage, str], object]] = {
    "read": lambda storage, path: storage.read(path),
    "list": lambda storage, path: storage.list(path),
    "list_tree": lambda storage, path: storage.list_tree(path),
    "write_new": lambda storage, path: storage.write_new(path, b"x"),
    "replace": lambda storage, path: storage.replace(path, b"x"),
    "create": _create,
    "stat": lambda storage, path: storage.stat(path),
    "open": lambda storage, path: storage.open(path).read(),
    "delete": lambda storage, path: storage.delete(path),
}
#: The messages of actions that begin with a HEAD, whose answer has no body: the store's code is not known.
OF_HEAD = {"wrong key": "permission.*not accepted.*fs.s3a.access.key"}


@pytest.mark.parametrize("trouble", TROUBLE)
@pytest.mark.parametrize("action", ACTIONS)
def test_an_error_names_path_setting_and_fix_and_no_secret(place: Place, proxy: CountingProxy, trouble: str, action: str) -> None:
    storage, base = place
    storage = impatient(storage)
    fault, message = TROUBLE[trouble]
    proxy.fail_all(fault)
    if (trouble, action) == ("no bucket", "delete"):
        assert storage.delete(f"{base}/file") is False  # nothing is there to delete
        return
    if action in ("stat", "delete"):
        message = OF_HEAD.get(trouble, message)
    with pytest.raises((StorageError, CommitUnknown)) as caught:
        ACTIONS[action](storage, f"{base}/file")
    text = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert CANARY not in text
    assert f"{base}/file" in text
    assert caught.value.__cause__ is None
    if not isinstance(caught.value, CommitUnknown):
        assert caught.match(message)


# --- temporary files of a write

ROWS = pa.table(
    {
        "id": pa.array([f"key {number}" for number in range(60)]),
        "fare": pa.array([None, 2.5, 3.5] * 20),
        "tags": pa.array([["a", None], [], None] * 20),
        "paid": pa.array([True, False, None] * 20),
    }
)


def test_a_byte_of_a_temporary_file_that_changes_on_its_way_changes_no_row(place: Place) -> None:
    storage, base = place
    with storage.create(f"{base}/file") as sink, pa.ipc.new_file(sink, ROWS.schema) as writer:
        for start in (0, 41):  # the second batch is a slice that begins within a byte of its bits
            write_batch(storage, writer, ROWS.slice(start, 19).to_batches()[0])
    content = storage.read(f"{base}/file")
    assert open_arrow_file(storage, f"{base}/file").read_all().to_pylist() == [*ROWS[:19].to_pylist(), *ROWS[41:].to_pylist()]
    damaged = 0
    first = content.index(b"key 0key 1")  # in the values of the first batch: other damage is found by Arrow itself
    for at in range(first, first + 350, 7):
        changed = bytearray(content)
        changed[at] ^= 0xFF
        storage.replace(f"{base}/{at}", bytes(changed))
        try:
            found = open_arrow_file(storage, f"{base}/{at}").read_all()
        except CorruptFile:
            damaged += 1
        else:
            assert found.to_pylist() == [*ROWS[:19].to_pylist(), *ROWS[41:].to_pylist()], at
    assert damaged > 25
