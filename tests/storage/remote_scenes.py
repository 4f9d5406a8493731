"""Copies of small tables on an object store, and work on them with a fault at one of their requests.

A table is written once to a local folder, and uploaded for every run. After the work it is downloaded, so that the checks of the
crash tests look at it without the network.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from penstock.commit.swap_tables import finish_overwrite
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.compaction.service import COMPACTION
from penstock.services.planned import schedule_and_run
from penstock.storage import open_storage
from penstock.table.state import open_table
from tests.crash.scenes import (
    HEARTBEATS_EXPIRED,
    LATER,
    MERGE_ON_READ,
    SCENES,
    Runner,
    Scene,
    Stage,
    Step,
)
from tests.kit.counting_proxy import CountingProxy, Fault, Request
from tests.kit.object_stores import ObjectStore, s3_client
from tests.table.tables import Trip

#: An answer within this time, and requests that are repeated for this long: enough for one repeat.
IMPATIENT = {"penstock.storage.timeout.ms": "1500", "penstock.storage.retry.ms": "400"}
STALL_SECONDS = 2.0

#: What may happen to a request. All but the first five may end a write.
FAULTS = {
    "500": Fault.answer(500),
    "503": Fault.answer(503),
    "429": Fault.answer(429),
    "dropped before": Fault.DROP_BEFORE,
    "dropped after": Fault.DROP_AFTER,
    "403": Fault.answer(403),
    "412": Fault.answer(412),
    "truncated": Fault.TRUNCATE,
    "corrupt": Fault.CORRUPT,
    "stalled": Fault.stall(STALL_SECONDS),
    "expired": Fault.EXPIRED,
    "500 after": Fault.answer_after(500),
    "old listing": Fault.STALE,
}

_COMPACTED: tuple[Trip, ...] = (("a", "berlin", 9, 9.5), ("c", "paris", 9, 9.5), ("d", "paris", 9, 9.5), ("b", "berlin", 2, 2.5))


def _named(name: str) -> Scene:
    return next(scene for scene in SCENES if scene.name == name)


#: The write that fails in the scene "compaction" is replaced: the work of a scene without rows to write is a rollback.
_LOGGED = _named("logs")
COMPACT = "compaction"
REMOTE_SCENES = {
    "create": _named("create"),
    "insert": _named("insert"),
    "upsert": _named("upsert of several file groups"),
    "delete": _named("delete"),
    "logs": _named("logs and base files"),
    "rollback": _named("rollback of a commit"),
    "rollback and upsert": _named("rollback and upsert"),
    COMPACT: Scene(
        COMPACT, (*_LOGGED.before, Step("upsert", _COMPACTED[:3], options=MERGE_ON_READ)), None, _COMPACTED, _COMPACTED, 1
    ),
    "overwrite": _named("overwrite"),
}


@dataclass
class RemoteStage:
    """A scene whose table is uploaded for every run, behind a proxy."""

    name: str
    stage: Stage
    store: ObjectStore
    proxy: CountingProxy
    folder: Path

    @property
    def scene(self) -> Scene:
        """The scene."""
        return self.stage.scene

    def upload(self) -> str:
        """Upload the table as it is before the work. Return its path on the store."""
        path = self.store.path(f"{self.name.replace(' ', '-')}/{uuid.uuid4().hex}/table")
        client = s3_client(self.store)
        for file in sorted(self.stage.template.rglob("*")):
            if file.is_file() and not file.name.endswith(".crc"):
                key = f"{_key_of(path)}/{file.relative_to(self.stage.template)}"
                client.put_object(Bucket=self.store.authority, Key=key, Body=file.read_bytes())
        return path

    def download(self, path: str) -> AbstractContextManager[Path]:
        """Download a table, and what lies next to it, to a local folder until the block ends.

        An overwrite that was decided is finished first, as every reader does.
        """
        finish_overwrite(*open_storage(path, self.store.settings), read_options(HEARTBEATS_EXPIRED))
        return downloaded(self.store, path, self.folder)

    def work(self, path: str) -> None:
        """Do what may fail, through the proxy."""
        with self._through_proxy():
            if self.name == COMPACT:
                compact(path)
            else:
                self.stage.runner.run(self.scene.write, path)

    def run_later(self, path: str) -> None:
        """Run the next write, by a process that knows nothing of the failed one; and after a compaction the next compaction."""
        with self._through_proxy():
            self.stage.runner.run(Step("upsert", LATER, options=HEARTBEATS_EXPIRED), path)
            if self.name == COMPACT:
                compact(path)

    @contextmanager
    def _through_proxy(self) -> Iterator[None]:
        settings = {**self.store.through(self.proxy.port), **IMPATIENT}
        with (
            patch("penstock.storage.schemes._read_session_settings", lambda: settings),
            patch("penstock.workers.run_kernels._WAITING_THREADS", 1),
        ):
            yield

    def requests(self) -> list[Request]:
        """Do the work without a fault. Return its requests."""
        path = self.upload()
        self.proxy.reset()
        self.work(path)
        return list(self.proxy.requests)

    def fail(self, path: str, fault: Fault, at: int, *, lasting: bool) -> tuple[Exception | None, Request]:
        """Do the work with a fault at a request, and at all later ones if it is lasting. Return the error, and the request."""
        self.proxy.reset()
        self.proxy.inject(fault, skip=at, times=100_000 if lasting else 1)
        error: Exception | None = None
        try:
            self.work(path)
        except Exception as e:
            error = e
        finally:
            self.proxy.heal()
        return error, self.proxy.requests[min(at, len(self.proxy.requests) - 1)]


@contextmanager
def downloaded(store: ObjectStore, path: str, into: Path) -> Iterator[Path]:
    """Download a table, and what lies next to it, to a new local folder until the block ends. Yield the table's folder."""
    folder = into / uuid.uuid4().hex
    client = s3_client(store)
    above, _, name = _key_of(path).rpartition("/")
    prefix = f"{above}/" if above else ""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=store.authority, Prefix=prefix or name):
        for found in page.get("Contents", []):
            file = folder / found["Key"][len(prefix) :]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(client.get_object(Bucket=store.authority, Key=found["Key"])["Body"].read())
    try:
        yield folder / name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compact(path: str) -> None:
    """Schedule a compaction and run it, or the one that waits."""
    nothing: Any = None  # no Spark: what there is to do is little, and done in this process
    table = open_table(path, read_options(HEARTBEATS_EXPIRED))
    with patch("penstock.workers.run_kernels._DRIVER_THREADS", 1):
        schedule_and_run(nothing, table, COMPACTION, Stages("", "off"), due=True)


def make_stage(name: str, runner: Runner, store: ObjectStore, proxy: CountingProxy, folder: Path) -> RemoteStage:
    """Write the table of a scene to a local folder."""
    made = folder / uuid.uuid4().hex
    return RemoteStage(name, Stage(REMOTE_SCENES[name], runner, made / "stage"), store, proxy, made / "found")


def _key_of(path: str) -> str:
    return path.split("/", 3)[3]
