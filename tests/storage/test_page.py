"""`docs/storage.md`: its five lines run for a user with keys in the environment, and its settings reach the stores."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.storage import explain_storage, open_storage
from tests.docs.pages import ROOT, blocks_of
from tests.kit.object_stores import ACCESS_KEY, AZURE_ACCOUNT, AZURE_KEY, CANARY, ObjectStore
from tests.storage.test_doctor import keys_of

pytestmark = pytest.mark.server

PAGE = ROOT / "docs" / "storage.md"


def five_lines() -> str:
    """Return the first example of the page."""
    return next(block.text for block in blocks_of(PAGE) if block.text.startswith("import penstock"))


def settings_of(heading: str) -> dict[str, str]:
    """Return the settings below a comment of the page that begins with this text."""
    block = next(block.text for block in blocks_of(PAGE) if f"# {heading}" in block.text)
    part = block[block.index(f"# {heading}") :].split("\n\n")[0]
    found = re.findall(r"^(spark\.hadoop\.\S+) +(\S+)", part, re.MULTILINE)
    assert found, part
    return dict(found)


def test_five_lines_are_an_upsert_for_a_user_with_keys_in_the_environment(moto: ObjectStore, tmp_path: Path) -> None:
    program = five_lines()
    assert len(program.splitlines()) == 5
    path = moto.path()
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environment = {**inherited, **keys_of(moto), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    again = program + program.splitlines()[-1]  # the first write creates the table, the second one changes it
    command = [sys.executable, "-c", again.replace("s3a://my-bucket/trips", path)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert CANARY not in ran.stdout + ran.stderr
    storage, base = open_storage(path, moto.settings)
    assert len([file for file in storage.list(f"{base}/.hoodie") if file.name.endswith(".commit")]) == 2


@pytest.mark.parametrize("server", ["moto", "seaweedfs"])
def test_the_settings_of_stores_with_the_protocol_of_s3_reach_them(request: pytest.FixtureRequest, server: str) -> None:
    store: ObjectStore = request.getfixturevalue(server)
    settings = settings_of("MinIO, SeaweedFS, Ceph")
    values = {"endpoint": f"http://127.0.0.1:{store.port}", "access.key": ACCESS_KEY, "secret.key": CANARY}
    settings |= {key: values[key.removeprefix("spark.hadoop.fs.s3a.")] for key in settings if not key.endswith("style.access")}
    write_and_read(store.path(), settings)


def test_the_settings_of_azure_reach_it(azurite: ObjectStore) -> None:
    (key,) = settings_of("Azure with an account key")
    settings = {key.replace("<account>", AZURE_ACCOUNT): AZURE_KEY}
    write_and_read(
        azurite.path(), {**settings, "penstock.storage.azure.endpoint": azurite.settings["penstock.storage.azure.endpoint"]}
    )


def write_and_read(path: str, settings: dict[str, str]) -> None:
    storage, base = open_storage(path, settings)
    storage.write_new(f"{base}/file", b"content")
    assert storage.read(f"{base}/file") == b"content"


def test_every_other_setting_of_the_page_is_found(tmp_path: Path) -> None:
    key_file = tmp_path / "key.json"
    key_file.write_text("{}")
    explained = {
        "Amazon S3 with keys": (
            "s3a://lake/t",
            {},
            ["s3 region = eu-central-1", "s3 access key = ***", "s3 session token = ***"],
        ),
        "another store for one bucket": ("s3a://lake/t", {"<bucket>": "lake"}, ["s3 endpoint = http://other:9000"]),
        "public data": ("s3a://lake/t", {"endpoint": ""}, ["s3 anonymous = true"]),
        "Google Cloud Storage with a key file": (
            "gs://lake/t",
            {"/path/key.json": str(key_file)},
            [f"{key_file} (from the setting"],
        ),
        "HDFS with high availability": ("hdfs://lake/t", {}, ["name services = lake"]),
    }
    for heading, (path, replaced, lines) in explained.items():
        settings = settings_of(heading)
        for old, new in replaced.items():
            settings = {key.replace(old, new): value.replace(old, new) for key, value in settings.items()}
        text = explain_storage(path, {"fs.s3a.endpoint.region": "eu-central-1", **settings})
        assert [line for line in lines if line not in text] == [], (heading, text)
