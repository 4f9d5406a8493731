"""Multipart uploads that a dead writer left are aborted by the rollback that removes its files, and no others are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import StorageError
from penstock.storage import ObjectStorage, abort_uploads
from tests.crash.scenes import Runner
from tests.kit.counting_proxy import CountingProxy, Fault
from tests.kit.object_stores import ObjectStore, s3_client, unfinished_uploads
from tests.storage.remote_scenes import make_stage

pytestmark = pytest.mark.server

SERVERS = ("moto", "seaweedfs")
ODD_NAMES = ("a b", "50%", "x+y", "é", "city=São Paulo", "q?x=1")


def begin(store: ObjectStore, path: str) -> None:
    """Begin an upload of a file, send a part, and go away."""
    client, key = s3_client(store), path.lstrip("/")
    upload = client.create_multipart_upload(Bucket=store.authority, Key=key)["UploadId"]
    client.upload_part(Bucket=store.authority, Key=key, UploadId=upload, PartNumber=1, Body=b"x" * 1000)


@pytest.mark.parametrize("server", SERVERS)
def test_a_rollback_aborts_the_uploads_of_the_write_it_removes(
    request: pytest.FixtureRequest, runner: Runner, tmp_path: Path, server: str
) -> None:
    store: ObjectStore = request.getfixturevalue(server)
    with CountingProxy.before(store.port) as proxy:
        stage = make_stage("rollback and upsert", runner, store, proxy, tmp_path)
        path = stage.upload()
        base = "/" + path.split("/", 3)[3]
        time = max(file.name.partition(".")[0] for file in (stage.stage.template / ".hoodie").glob("*.requested"))
        dead = {
            f"{base}/berlin/7c6fcd39-4f4d-4b52-b463-0c0f1a4e0f11-0_0-1-0_{time}.parquet",
            f"{base}/.hoodie/.temp/penstock-{time}/staged/0-1-0.arrow",
        }
        others = {
            f"{base}/berlin/7c6fcd39-4f4d-4b52-b463-0c0f1a4e0f11-0_0-1-0_20990101000000000.parquet",
            f"{base}/berlin/.7c6fcd39-4f4d-4b52-b463-0c0f1a4e0f11-0_{time}.log.1_0-1-0",  # a later write on a compaction
            f"{base}-other/berlin/7c6fcd39-4f4d-4b52-b463-0c0f1a4e0f11-0_0-1-0_{time}.parquet",
        }
        for file in dead | others:
            begin(store, file)
        stage.run_later(path)
        assert unfinished_uploads(store, base) == others


@pytest.mark.parametrize("server", SERVERS)
def test_names_may_hold_any_character(request: pytest.FixtureRequest, server: str) -> None:
    store: ObjectStore = request.getfixturevalue(server)
    storage, base = store.open("odd +% é/" + server)
    for name in ODD_NAMES:
        begin(store, f"{base}/{name}")
    assert abort_uploads(storage, base, lambda path: path.endswith(ODD_NAMES)) == len(ODD_NAMES)
    assert unfinished_uploads(store, base) == set()


def test_other_storages_have_no_uploads(tmp_path: Path, azurite: ObjectStore) -> None:
    storage, base = azurite.open()
    assert abort_uploads(storage, base, lambda path: True) == 0


def test_a_store_that_refuses_is_a_warning_without_secrets(moto: ObjectStore) -> None:
    with CountingProxy.before(moto.port) as proxy:
        storage, base = moto.open(**moto.through(proxy.port))
        proxy.fail_all(Fault.answer(403))
        with pytest.warns(RuntimeWarning, match=r"s3:AbortMultipartUpload.*lifecycle") as caught:
            assert abort_uploads(storage, base, lambda path: True) == 0
        assert isinstance(storage, ObjectStorage)
        assert not [secret for secret in storage.settings.secrets if secret in str(caught[0].message)]


def test_a_straggler_cannot_complete_an_aborted_upload(moto: ObjectStore) -> None:
    storage, base = moto.open()
    sink = storage.create(f"{base}/file")
    for _ in range(20):
        sink.write(b"x" * (1 << 20))
    assert abort_uploads(storage, base, lambda path: True) == 1
    with pytest.raises((StorageError, FileNotFoundError)):
        sink.close()
    assert storage.stat(f"{base}/file") is None


def test_keys_of_a_role_come_from_boto3(moto: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, base = moto.open()
    assert isinstance(storage, ObjectStorage)
    keys = dict(storage.settings.credentials)
    by_role = replace(storage, settings=replace(storage.settings, credentials=()))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys["secret_access_key"])
    begin(moto, f"{base}/file")
    assert abort_uploads(by_role, base, lambda path: True) == 1
