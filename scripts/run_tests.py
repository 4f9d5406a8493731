"""Runs the test suites, each with the environment and the kind of Spark session that it is for.

`make test` runs them all, some at a time, goes on after a failure, and ends with one table: a line for each suite, the reason
of every skip, and the sum. A suite that runs alone shows the output of pytest at once; of several,
the output of each is shown when it ends. The exit code is 0 only when nothing failed. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / ".cache" / "tests"
#: Suites that run concurrently. Each is a Spark session, which mostly waits.
MOST_AT_ONCE = 3
NEWEST, SPARK35 = ".venv", ".venv-spark35"
#: The folder of tables while tests run, if it has enough space: a disk would only add the time of syncs.
MEMORY, ROOM_BYTES = "/dev/shm", 4 << 30


@dataclass(frozen=True)
class Suite:
    """Some tests, and the environment and session that they run on."""

    name: str
    paths: tuple[str, ...]
    environment: str = NEWEST
    session: str = "classic"
    #: The share of Hypothesis' examples that run: less than 1 where another suite runs them all.
    examples: float = 1.0
    #: One in this many parameters of each test runs: more than 1 where another suite runs them all.
    parameters: int = 1
    #: One in this many parameters runs if all suites run. A suite that is named on the command line runs all of them.
    sample: int = 1
    #: The modules that fetch the largest downloads of the suite, while other suites run.
    fetches: tuple[str, ...] = ()
    #: An expression of pytest's marks. Tests that start an object store or HDFS run in the suite `storage` only.
    marks: str = "not server"


@dataclass
class Outcome:
    """The result of a suite."""

    suite: str
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    skips: Counter[str] = field(default_factory=Counter)

    @property
    def skipped(self) -> int:
        """The number of skipped tests."""
        return sum(self.skips.values())


ON_EVERY_SESSION = ("tests/table/test_sessions.py",)
CONTRACT_WITH_SERVERS = ("tests/contract/test_locks.py",)
CONTRACT_ON_SPARK = (
    "tests/contract/test_catalogs.py",
    "tests/contract/test_hive_statements.py",
    "tests/contract/test_hooks.py",
    "tests/contract/test_indexes.py",
    "tests/contract/test_keys.py",
)
#: The longest suites first, so that the last ones to end are short.
SUITES = (
    Suite("interop", ("tests/interop",), sample=2),
    Suite(
        "services",
        ("tests/crash", "tests/bench", "tests/services"),
        fetches=("tests.kit.hbase", "tests.kit.kafka", "tests.kit.trino"),
    ),
    Suite(
        "spark35",
        ("tests/unit", *CONTRACT_ON_SPARK, "tests/contract/test_storage.py", "tests/table", "tests/corpus"),
        environment=SPARK35,
        examples=0.2,
        parameters=4,
    ),
    Suite("table", ("tests/table",)),
    Suite("contract", (*CONTRACT_ON_SPARK, "tests/docs", "tests/corpus")),
    Suite("servers", CONTRACT_WITH_SERVERS),
    Suite(
        "storage", ("tests/contract/test_storage.py", "tests/storage"), fetches=("tests.kit.hdfs",), marks="server and not apart"
    ),
    Suite("cluster", ("tests/storage/test_cluster.py",), session="apart", marks="server"),
    Suite("unit", ("tests/unit", "tests/model", "tests/contract/test_storage.py", "tests/packaging")),
    Suite("standalone", ON_EVERY_SESSION, session="standalone"),
    Suite("local-cluster", ON_EVERY_SESSION, session="local-cluster"),
    Suite(
        "connect",
        (
            *ON_EVERY_SESSION,
            "tests/table/test_stream_sink.py",
            "tests/table/test_not_yet.py",
            "tests/docs/test_pages.py::test_the_examples_of_a_page_run_as_pasted[executors.md]",
        ),
        session="connect",
    ),
)
#: What runs when no suite is named.
BY_DEFAULT = tuple(suite.name for suite in SUITES)


@contextmanager
def folder_for_tables() -> Iterator[str]:
    """Yield a folder for temporary files of all suites, in memory if there is enough space. It is deleted afterwards."""
    has_room = os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free >= ROOM_BYTES
    with tempfile.TemporaryDirectory(
        prefix="penstock-tests-", dir=MEMORY if has_room else None, ignore_cleanup_errors=True
    ) as folder:
        yield folder


@contextmanager
def fetching(suites: list[Suite]) -> Iterator[None]:
    """Let suites download what they need while others run: a suite that waits for a download blocks another."""
    modules: list[str] = []
    for suite in suites:
        modules += suite.fetches
    processes = [_start(ROOT / NEWEST / "bin" / "python", "-m", module) for module in modules]
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def _start(*command: str | Path) -> subprocess.Popen[bytes]:
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, stdout=nowhere, stderr=nowhere, start_new_session=True)


def run(suite: Suite, arguments: list[str], folder: str, *, alone: bool, whole: bool) -> Outcome:
    """Run one suite, with temporary files in a folder: all its parameters, or the sample for a run of every suite."""
    python = ROOT / suite.environment / "bin" / "python"
    outcome = Outcome(suite.name)
    if not (ROOT / suite.environment / ".ready").exists():
        outcome.skips[f"the environment {suite.environment} is not built (make setup says why)"] += 1
        return outcome
    report, log = REPORTS / f"{suite.name}.xml", REPORTS / f"{suite.name}.log"
    report.unlink(missing_ok=True)
    print(f"===== {suite.name}: {suite.environment}, {suite.session} session", flush=True)
    began = time.monotonic()
    command = [str(python), "-m", "pytest", *suite.paths, "-m", suite.marks, f"--junitxml={report}", *arguments]
    environment = {
        **os.environ,
        "PENSTOCK_TEST_SESSION": suite.session,
        "PENSTOCK_TEST_EXAMPLES": str(suite.examples),
        "PENSTOCK_TEST_PARAMETERS": str(suite.parameters if whole else max(suite.parameters, suite.sample)),
        "TMPDIR": folder,
    }
    with log.open("wb") as sink:
        output = None if alone else sink
        code = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=output, check=False).returncode
    outcome.seconds = time.monotonic() - began
    read_report(report, outcome)
    if code != 0 and outcome.failed == 0:
        outcome.failed = 1  # no report: nothing was collected, or the run was interrupted
    if not alone:
        show_log(log, outcome)
    return outcome


def show_log(log: Path, outcome: Outcome) -> None:
    """Print the whole output of a failed suite, and the last line of one that passed."""
    lines = log.read_text(errors="replace").splitlines()
    last = next((line for line in reversed(lines) if " in " in line and ("passed" in line or "failed" in line)), "")
    text = "\n".join(lines) if outcome.failed else last
    print(
        f"\n===== {outcome.suite}: {'FAILED' if outcome.failed else 'passed'} after {outcome.seconds:.0f} s\n{text}", flush=True
    )


def read_report(report: Path, outcome: Outcome) -> None:
    """Count what pytest reported, and collect the reasons of skips."""
    if not report.exists():
        return
    for case in ElementTree.parse(report).iter("testcase"):
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        elif skip is not None:
            outcome.skips[skip.get("message") or "no reason given"] += 1
        else:
            outcome.passed += 1


def show(outcomes: list[Outcome]) -> None:
    """Print the table, the reasons of skips, and the sum."""
    print(f"\n{'suite':<15}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for each in outcomes:
        print(f"{each.suite:<15}{each.passed:>8}{each.failed:>8}{each.skipped:>9}{each.seconds:>9.0f}")
    for each in outcomes:
        for reason, count in each.skips.most_common():
            print(f"skipped in {each.suite}: {count} x {reason}")
    passed, failed, skipped = (sum(getattr(each, name) for each in outcomes) for name in ("passed", "failed", "skipped"))
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped in {sum(each.seconds for each in outcomes):.0f} s")


def check_nothing_is_left_out() -> None:
    """Stop when a folder of tests belongs to no suite, or a suite names a path that does not exist: its tests would never run."""
    missing = {path for suite in SUITES for path in suite.paths if not (ROOT / path.partition("::")[0]).exists()}
    if missing:
        sys.exit(f"a suite names {', '.join(sorted(missing))}, which does not exist: correct SUITES in {Path(__file__).name}")
    covered = {Path(path).parts[1] for suite in SUITES for path in suite.paths}
    left_out = {test.relative_to(ROOT / "tests").parts[0] for test in (ROOT / "tests").rglob("test_*.py")} - covered
    if left_out:
        sys.exit(f"no suite runs tests/{', tests/'.join(sorted(left_out))}: add it to SUITES in {Path(__file__).name}")


def main() -> None:
    """Run the suites named on the command line (all by default); what follows `--` goes to pytest."""
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    names, arguments = given[:cut], given[cut + 1 :]
    unknown = set(names) - {suite.name for suite in SUITES}
    if unknown:
        sys.exit(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(suite.name for suite in SUITES)}")
    check_nothing_is_left_out()
    REPORTS.mkdir(parents=True, exist_ok=True)
    chosen = [suite for suite in SUITES if suite.name in (names or BY_DEFAULT)]
    at_once = min(len(chosen), MOST_AT_ONCE, 1 + (os.cpu_count() or 1))
    alone = len(chosen) == 1
    with fetching(chosen), folder_for_tables() as folder, ThreadPoolExecutor(at_once) as pool:
        outcomes = list(pool.map(partial(run, arguments=arguments, folder=folder, alone=alone, whole=bool(names)), chosen))
    show(outcomes)
    sys.exit(1 if any(outcome.failed for outcome in outcomes) else 0)


if __name__ == "__main__":
    main()
