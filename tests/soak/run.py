"""A soak run: writer processes on one table, killed, stopped and started again at random, while the lock server goes down and comes back.

    python -m tests.soak.run [--writers 16] [--commits 200] [--lock storage] [--store local] [--kind COPY_ON_WRITE] [--minutes 60]

The processes are forks of one that has asked Spark for the form of the rows (`without_spark.py`): sixteen Spark sessions would not fit into the memory of a
small machine. Everything that decides about a commit (instants, claims, locks, heartbeats, conflict checks, tasks) runs in the process that is killed. At the end
every acknowledged write must be in the table once, and the recorded reads and writes must be a history of snapshot isolation (`history.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import penstock
from penstock.storage import use_session_settings
from tests.kit.dynamodb import running_dynamodb
from tests.kit.metastore import RunningMetastore
from tests.kit.object_stores import running_seaweedfs
from tests.kit.sessions import make_session
from tests.kit.zookeeper import ZooKeeper
from tests.soak.history import Anomaly, History, find_anomalies
from tests.soak.without_spark import Engine
from tests.soak.writer import INLINE_SERVICES, NO_SERVICES, TABLE, Spec, run_process

LOCKS = ("storage", "zookeeper", "hive_metastore", "dynamodb", "filesystem", "in_process")
STORES = ("local", "s3")
#: Seconds for which a process is stopped: longer than every lease, session and heartbeat of the run.
STOPPED_S = 7.0


@dataclass(frozen=True)
class Soak:
    """What runs, and how long."""

    writers: int = 16
    commits: int = 200
    lock: str = "storage"
    store: str = "local"
    kind: str = "COPY_ON_WRITE"
    minutes: float = 60.0
    #: Seconds between two disturbances, on average; 0: none.
    disturb_s: float = 4.0
    #: Whether a process of its own runs table services.
    services: bool = True


@dataclass
class Outcome:
    """What a run found."""

    history: History
    anomalies: list[Anomaly]
    #: How many writes ended how, how many disturbances of each kind there were, and how many services ran.
    counts: Counter[str]
    #: The errors of failed writes, reads and services, without repetitions.
    reasons: Counter[str]
    #: Tracebacks of processes that ended by an error that is not Penstock's.
    crashes: list[str]
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        return not self.anomalies and not self.crashes


@dataclass
class LockServer:
    """The options of a lock, and how its server is killed and started again."""

    options: dict[str, str]
    restart: Callable[[], None] | None = None


@dataclass
class Crew:
    """The processes of a run."""

    specs: list[Spec]
    engine: Engine
    log: Path
    #: Process ids by the number of the spec.
    running: dict[int, int] = field(default_factory=dict)
    #: How each process ended: 0, or the negative number of a signal.
    ended: dict[int, int] = field(default_factory=dict)

    def start(self, spec: Spec) -> None:
        """Start a process, or start it again."""
        self.ended.pop(spec.number, None)
        child = os.fork()
        if child:
            self.running[spec.number] = child
            return
        code = 1
        try:
            out = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(out, 1)
            os.dup2(out, 2)
            run_process(spec, self.engine)
            code = 0
        finally:
            os._exit(code)  # a fork must not go on with what its parent does

    def poll(self, number: int, *, wait: bool = False) -> int | None:
        """Return how a process ended; None if it runs."""
        if number in self.running:
            ended, status = os.waitpid(self.running[number], 0 if wait else os.WNOHANG)
            if ended:
                del self.running[number]
                self.ended[number] = os.waitstatus_to_exitcode(status)
        return self.ended.get(number)

    def start_ended(self) -> bool:
        """Start processes again that were killed. Return whether a writer has work left."""
        has_work = False
        for spec in self.specs:
            code = self.poll(spec.number)
            if code == -signal.SIGKILL:
                self.start(spec)
                code = None
            if spec.role == "writer" and code is None:
                has_work = True
        return has_work

    def signal(self, number: int, how: signal.Signals) -> None:
        """Send a signal to a process, if it runs."""
        if self.poll(number) is None and number in self.running:
            os.kill(self.running[number], how)

    def end(self) -> None:
        """End all processes."""
        for number in list(self.running):
            self.signal(number, signal.SIGKILL)
            self.poll(number, wait=True)


def run_soak(soak: Soak, folder: Path, engine: Engine) -> Outcome:
    """Run the processes until all writes are made or the time is over; return what was found."""
    began = time.monotonic()
    with ExitStack() as stack:
        path = stack.enter_context(_storage(soak, folder))
        lock = stack.enter_context(_lock_server(soak, folder))
        options = {**TABLE, **lock.options, "hoodie.datasource.write.table.type": soak.kind}
        crew = Crew(_make_specs(soak, folder, path, options), engine, folder / "processes.log")
        stack.callback(crew.end)
        first = crew.specs[0]
        _await_first_write(crew, first)
        counts: Counter[str] = Counter()
        for spec in crew.specs[1:]:
            crew.start(spec)
        _disturb(soak, crew, lock, counts, deadline=began + soak.minutes * 60)
        crew.end()
        reader = replace(first, number=99, role="reader", ledger=str(folder / "ledger-99"))
        crew.start(reader)
        crew.poll(reader.number, wait=True)
        history = History.load(sorted(folder.glob("ledger-*")))
        return _report(history, folder, counts, time.monotonic() - began)


def _make_specs(soak: Soak, folder: Path, path: str, options: dict[str, str]) -> list[Spec]:
    """Describe the processes. The first writer runs services inline, the others none."""
    specs = []
    for number in range(soak.writers):
        services = INLINE_SERVICES if number == 0 else NO_SERVICES
        specs.append(Spec(number, path, str(folder / f"ledger-{number:02d}"), soak.commits, {**options, **services}))
    if soak.services:
        specs.append(Spec(98, path, str(folder / "ledger-98"), 0, options, "services"))
    return specs


def _await_first_write(crew: Crew, spec: Spec) -> None:
    """Start the first writer and wait until it has created the table."""
    crew.start(spec)
    ledger = Path(spec.ledger)
    while '"ok"' not in (ledger.read_text() if ledger.exists() else ""):
        if crew.poll(spec.number) not in (None, 0):
            raise RuntimeError(f"the first writer failed: {ledger.read_text()[-3000:]}")
        time.sleep(0.05)


def _disturb(soak: Soak, crew: Crew, lock: LockServer, counts: Counter[str], deadline: float) -> None:
    """Kill and stop processes and the lock server at random, until all writers are through."""
    last = -math.inf  # the first disturbance comes at once
    while crew.start_ended() and time.monotonic() < deadline:
        time.sleep(0.05)
        if not soak.disturb_s or time.monotonic() - last < soak.disturb_s * random.uniform(0.5, 1.5):
            continue
        how = random.choice(("kill", "kill", "stop", "restart")) if counts else "kill"
        victim = random.choice(list(crew.running))
        if how == "kill":
            crew.signal(victim, signal.SIGKILL)
        elif how == "stop":
            crew.signal(victim, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            crew.signal(victim, signal.SIGCONT)
        elif lock.restart is not None:
            lock.restart()
        else:
            continue
        counts[how] += 1
        last = time.monotonic()


@contextmanager
def _storage(soak: Soak, folder: Path) -> Iterator[str]:
    """Yield the path of a new table. The settings of its storage are those of this process, which its forks inherit."""
    if soak.store == "local":
        yield str(folder / "table")
        return
    with running_seaweedfs() as store:
        use_session_settings(lambda: store.settings)
        try:
            yield store.path()
        finally:
            use_session_settings(dict)


@contextmanager
def _lock_server(soak: Soak, folder: Path) -> Iterator[LockServer]:
    """Yield the options of the lock, with its server running."""
    if soak.lock == "zookeeper":
        zookeeper = ZooKeeper.start(folder)

        def restart_zookeeper() -> None:
            zookeeper.stop()
            time.sleep(1)
            zookeeper.restart()

        try:
            yield LockServer(zookeeper.options("/soak"), restart_zookeeper)
        finally:
            zookeeper.stop()
    elif soak.lock == "hive_metastore":
        metastore = [RunningMetastore.start(folder)]

        def restart_metastore() -> None:
            metastore[0].stop()
            metastore[0] = metastore[0].restart()

        try:
            metastore[0].create_table("soak")
            options = {**metastore[0].lock_options("soak"), "hoodie.write.lock.heartbeat_interval_ms": "1000"}
            yield LockServer(options, restart_metastore)
        finally:
            metastore[0].stop()
    elif soak.lock == "dynamodb":
        with running_dynamodb() as dynamodb:
            # The lease is the time of one attempt.
            yield LockServer({**dynamodb.options("soak", "soak"), "hoodie.write.lock.wait_time_ms": "4000"})
    else:
        lease = {"hoodie.write.lock.storage.validity.timeout.secs": "4", "hoodie.write.lock.storage.renew.interval.secs": "1"}
        yield LockServer({"penstock.lock": soak.lock, **(lease if soak.lock == "storage" else {})})


def _report(history: History, folder: Path, counts: Counter[str], seconds: float) -> Outcome:
    """Check the history, and collect how operations ended."""
    reasons: Counter[str] = Counter()
    crashes = []
    for ledger in sorted(folder.glob("ledger-*")):
        for line in ledger.read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "crash":
                crashes.append(f"{ledger.name}: {event['reason']}")
            elif event.get("reason"):
                reasons[f"{event['event']}: {_without_numbers(event['reason'])}"] += 1
            if event["event"] == "service":
                counts["services"] += 1
    for append in history.appends.values():
        counts[append.outcome] += 1
    counts["reads"] = len(history.reads)
    anomalies = find_anomalies(history)
    if not history.reads or history.reads[-1].began < max(append.began for append in history.appends.values()):
        anomalies.append(Anomaly("no last read", "the table could not be read at the end"))
    return Outcome(history, anomalies, counts, reasons, crashes, seconds)


def _without_numbers(text: str) -> str:
    """Return the begin of a message without what differs between writes."""
    return "".join("#" if c.isdigit() else c for c in text[:300])


def main() -> None:
    """Run a soak as the arguments say, and print what it found. The exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = Soak()
    parser.add_argument("--writers", type=int, default=defaults.writers)
    parser.add_argument("--commits", type=int, default=defaults.commits)
    parser.add_argument("--lock", choices=LOCKS, default=defaults.lock)
    parser.add_argument("--store", choices=STORES, default=defaults.store)
    parser.add_argument("--kind", choices=("COPY_ON_WRITE", "MERGE_ON_READ"), default=defaults.kind)
    parser.add_argument("--minutes", type=float, default=defaults.minutes)
    parser.add_argument("--disturb-s", type=float, default=defaults.disturb_s)
    parser.add_argument("--no-services", action="store_true")
    parser.add_argument("--keep", help="a folder to keep the table and the ledgers in")
    arguments: Any = vars(parser.parse_args())
    keep = arguments.pop("keep")
    soak = Soak(services=not arguments.pop("no_services"), **arguments)
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as temporary:
        folder = Path(keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with make_session("classic", Path(temporary)) as spark:
            engine = Engine(penstock.enable(spark), Path(temporary), TABLE)
            outcome = run_soak(soak, folder, engine)
    print(f"{soak}\n{outcome.seconds:.0f} s: {dict(outcome.counts)}")
    for reason, count in outcome.reasons.most_common(15):
        print(f"{count} x {reason}")
    for text in [*outcome.crashes[:5], *(f"{a.kind}: {a.text[:300]}" for a in outcome.anomalies[:20])]:
        print(f"WRONG: {text}")
    sys.exit(0 if outcome.is_right else 1)


if __name__ == "__main__":
    main()
