"""`penstock doctor`, run as a user runs it: what it finds, where it found it, and what is to be done."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.storage import open_storage
from tests.kit.golden import golden_names, unpack_golden
from tests.kit.object_stores import ACCESS_KEY, AZURE_KEY, CANARY, ObjectStore

pytestmark = pytest.mark.server

ROOT = Path(__file__).resolve().parents[2]
#: A module of this name cannot be imported: a machine on which the package is not installed.
WITHOUT = "import sys; sys.modules.update({name: None for name in %r}); from penstock.cli.main import main; main()"


def doctor(*words: str, environment: Mapping[str, str] | None = None, without: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run `penstock doctor` in a process whose environment has no settings of a cloud but these. Return exit code and output."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "AZURE_", "GOOGLE_"))}
    settings = {**inherited, "PYTHONPATH": str(ROOT), "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}
    program = ["-c", WITHOUT % (without,)] if without else ["-m", "penstock.cli.main"]
    command = [sys.executable, *program, "doctor", *words]
    ran = subprocess.run(
        command, capture_output=True, text=True, env={**settings, **(environment or {})}, timeout=120, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


def keys_of(store: ObjectStore, secret: str = CANARY) -> dict[str, str]:
    """Return the environment of a user of an S3 store."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{store.port}",
        "AWS_REGION": "us-east-1",
    }


def test_a_local_table_is_well(tmp_path: Path) -> None:
    path = str(unpack_golden(golden_names()[0], tmp_path))
    code, text = doctor(path)
    assert code == 0, text
    assert [line.split()[1] for line in text.splitlines() if line[0] != " "] == ["ok"] * 7
    assert "COPY_ON_WRITE" in text


def test_settings_are_shown_with_their_place_and_secrets_masked(moto: ObjectStore) -> None:
    path = moto.path()
    code, text = doctor(path, "-o", "penstock.storage.s3.path.style=true", environment=keys_of(moto))
    assert code == 0, text
    assert "s3 secret key = *** (from the environment variable AWS_SECRET_ACCESS_KEY)" in text
    assert "s3 region = us-east-1 (from the environment variable AWS_REGION)" in text
    assert "(from the option penstock.storage.s3.path.style)" in text
    assert "honours conditional puts" in text
    assert CANARY not in text
    storage, base = open_storage(path, moto.settings)
    assert storage.list(base) == []


def test_a_store_without_conditions_is_found_out(rclone: ObjectStore) -> None:
    code, text = doctor(rclone.path(), environment=keys_of(rclone))
    assert code == 1
    assert "commits   FAIL" in text
    assert "penstock.lock=zookeeper" in text


def test_a_store_is_not_written_to_if_it_is_not_probed(rclone: ObjectStore) -> None:
    code, text = doctor(rclone.path(), "--no-probe", environment=keys_of(rclone))
    assert (code, "commits" in text) == (0, False), text


def test_a_key_that_is_not_accepted_is_a_failure(seaweedfs: ObjectStore) -> None:
    wrong = "wrong0secret0that0must0never0be0shown"
    code, text = doctor(seaweedfs.path(), environment=keys_of(seaweedfs, wrong))
    assert code == 1
    assert "AWS_ACCESS_KEY_ID" in text
    assert wrong not in text


def test_a_key_of_azure_is_masked(azurite: ObjectStore) -> None:
    options = [word for key, value in azurite.settings.items() for word in ("-o", f"{key}={value}")]
    code, text = doctor(azurite.path(), *options)
    assert code == 0, text
    assert "***" in text
    assert AZURE_KEY not in text


@pytest.mark.parametrize(
    ("path", "missing", "fix"),
    [("s3a://bucket/table", "obstore", "penstock[s3]"), ("hdfs://host/table", "hdfs_native", "penstock[hdfs]")],
)
def test_a_missing_package_is_named_with_the_fix(path: str, missing: str, fix: str) -> None:
    code, text = doctor(path, without=(missing, "pyspark"))
    assert code == 1
    assert fix in text
