"""One process of a soak run: a writer that appends tokens, a reader, or a process that runs table services. It is a fork that never asks the JVM.

A writer appends its token to the lists of some keys, by an upsert with `penstock.aggregate`. Before and after each write it adds a line to its ledger, which lies
outside of the table and survives the process. Now and then it reads the whole table and adds what it found. A process that is started again goes on after
the last write that it began.
"""

from __future__ import annotations

import json
import os
import random
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import CommitUnknown, PenstockError
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.services.clustering.service import CLUSTERING
from penstock.services.compaction.service import COMPACTION
from penstock.services.planned import schedule_and_run
from penstock.table.state import TableState, open_table
from tests.soak.history import FAILED, OK, UNKNOWN
from tests.soak.without_spark import NOTHING, Engine, Row

#: The greatest number of writes of one writer, so that tokens of writers differ.
TOKENS_OF_WRITER = 100_000
SHARED_KEYS = 12
HOT_KEYS = 2
TABLE = {
    "hoodie.table.name": "soak",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.payload.class": "penstock.aggregate",
    "penstock.payload.aggregate": "tokens:collect",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.num.retries.on.conflict.failures": "100",
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.client.heartbeat.tolerable.misses": "4",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.client.num_retries": "300",
    "hoodie.keep.min.commits": "150",
    "hoodie.keep.max.commits": "180",
}
INLINE_SERVICES = {
    "hoodie.cleaner.commits.retained": "5",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "5",
    "hoodie.clustering.inline": "false",
    "hoodie.clustering.async.max.commits": "4",
    "hoodie.clustering.inline.max.commits": "4",
}
NO_SERVICES = {"hoodie.table.services.enabled": "false", "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
QUIET = Stages("", "off")
SERVICES: dict[str, Callable[[TableState], object]] = {
    "clean": lambda table: clean(NOTHING, table, QUIET, due=True),
    "archive": archive,
    "cluster": lambda table: schedule_and_run(NOTHING, table, CLUSTERING, QUIET, due=True),
    "compact": lambda table: schedule_and_run(NOTHING, table, COMPACTION, QUIET, due=True) if table.is_merge_on_read else None,
}


@dataclass(frozen=True)
class Spec:
    """What a process does."""

    #: The number of the writer; tokens and its own partition are made from it.
    number: int
    path: str
    ledger: str
    commits: int
    options: dict[str, str]
    #: `writer`, `reader` (one read of the table) or `services`.
    role: str = "writer"


class Process:
    """A running process of the soak."""

    def __init__(self, spec: Spec, engine: Engine) -> None:
        self.spec, self._engine = spec, engine
        self._random = random.Random()
        self._ledger = os.open(spec.ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, **event: Any) -> None:
        """Add a line to the ledger, in one call: a killed process leaves no half line."""
        os.write(self._ledger, (json.dumps(event) + "\n").encode())

    def write_all(self) -> None:
        """Make the writes that are left."""
        begun = Path(self.spec.ledger).read_text().count('"begin"')
        for number in range(begun, self.spec.commits):
            self.append(number)
            if self._random.random() < 0.3:
                self.read()

    def append(self, number: int) -> None:
        """Append a token to the lists of some keys, and record the outcome."""
        token = self.spec.number * TOKENS_OF_WRITER + number
        rows = self._choose_rows(number, token)
        self.note(event="begin", token=token, keys=[row[0] for row in rows], at=time.monotonic())
        outcome = OK
        reason = ""
        try:
            self._engine.write(rows, self.spec.path, self.spec.options)
        except CommitUnknown as e:
            outcome, reason = UNKNOWN, str(e)
        except PenstockError as e:
            outcome, reason = FAILED, f"{type(e).__name__}: {e}"
        self.note(event=outcome, token=token, at=time.monotonic(), reason=reason)

    def _choose_rows(self, number: int, token: int) -> list[Row]:
        """Return the rows of one write: keys of this writer alone, shared keys, hot keys, and a key that all writers insert at about the same time."""
        own = f"own-{self.spec.number}"
        keys = {(f"{own}-{number % 3}", own)}
        kind = self._random.choice(("disjoint", "shared", "hot", "new"))
        if kind == "shared":
            shared = self._random.randrange(SHARED_KEYS)
            keys |= {
                (f"shared-{shared}", f"shared-{shared % 3}"),
                (f"shared-{(shared + 1) % SHARED_KEYS}", f"shared-{(shared + 1) % 3}"),
            }
        elif kind == "hot":
            keys |= {(f"hot-{self._random.randrange(HOT_KEYS)}", "hot")}
        elif kind == "new":
            keys |= {(f"new-{number}", f"shared-{number % 3}")}
        return [(key, part, 0, [token]) for key, part in sorted(keys)]

    def read(self) -> None:
        """Read the whole table twice in one query, and record what was found."""
        began = time.monotonic()
        try:
            found = self._engine.read(self.spec.path)
        except PenstockError as e:
            self.note(event="unread", at=time.monotonic(), reason=f"{type(e).__name__}: {e}")
            return
        scans: list[dict[str, list[list[int]]]] = [defaultdict(list), defaultdict(list)]
        for scan, rows in zip(scans, found, strict=True):
            for key, tokens in rows:
                scan[key].append(tokens)
        self.note(event="read", began=began, ended=time.monotonic(), scans=scans)

    def serve(self) -> None:
        """Run table services next to the writers until this process is ended."""
        while True:
            name = self._random.choice(sorted(SERVICES))
            reason = ""
            try:
                SERVICES[name](open_table(self.spec.path, read_options({**self.spec.options, **INLINE_SERVICES})))
            except (PenstockError, FileNotFoundError) as e:
                reason = f"{name}: {type(e).__name__}: {e}"
            self.note(event="service", at=time.monotonic(), reason=reason)
            time.sleep(self._random.random())


def run_process(spec: Spec, engine: Engine) -> None:
    """Do what the spec says."""
    process = Process(spec, engine)
    try:
        {"writer": process.write_all, "reader": process.read, "services": process.serve}[spec.role]()
    except BaseException as e:
        process.note(event="crash", at=time.monotonic(), reason="".join(traceback.format_exception(e))[-3000:])
        raise
