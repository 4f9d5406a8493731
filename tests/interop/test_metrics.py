"""Metrics of real Hudi and of Penstock, for the same writes: the same names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import pytest

from tests.interop.test_callbacks import PLAIN, ROWS, arrow_rows
from tests.kit.oracle import Oracle
from tests.table.tables import OPERATION, trips, write

LATER = (("a", "oslo", 2, 9.0), ("d", "oslo", 2, 4.0))
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
SEVERAL = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
CASES: dict[str, list[dict[str, str]]] = {
    "cow": [
        {OPERATION: "bulk_insert"},
        {OPERATION: "upsert"},
        {OPERATION: "upsert", "hoodie.cleaner.commits.retained": "1"},
        {OPERATION: "insert_overwrite"},
        {OPERATION: "upsert", "hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"},
    ],
    "mor": [MERGE_ON_READ, {**MERGE_ON_READ, "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}],
    "occ": [SEVERAL, SEVERAL],
}
#: The parts of a name that Dropwizard adds to a counter, and to a timer.
STATISTICS = re.compile(r"\.(count|m\d+_rate|max|mean|mean_rate|min|p\d+|stddev)$")
#: Names that Hudi alone has, as `docs/metrics.md` says.
HUDI_ONLY = re.compile(r"(timer|HoodieWrapperFileSystem\w*|TimelineService)\.")
FOR_ONE_WRITER = re.compile(r"lock\.|counter\.conflict_resolution\.")
#: Names that Penstock alone has.
OURS_ONLY = re.compile(r"index\.\w+\.duration|counter\.conflict_resolution\.failure")


@contextmanager
def running_graphite() -> Iterator[tuple[int, set[str]]]:
    """Run a Graphite until the block ends. Yield its port, and the names that it receives: all of them when the block has ended."""
    names: set[str] = set()

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            names.update(line.decode().split(" ")[0] for line in self.rfile)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server.server_address[1], names
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("case", CASES)
def test_both_report_under_the_same_names(spark: Any, hudi015: Oracle, tmp_path: Path, case: str) -> None:
    with running_graphite() as (port, names):
        reporter = {
            **PLAIN,
            "hoodie.metrics.on": "true",
            "hoodie.metrics.reporter.type": "GRAPHITE",
            "hoodie.metrics.graphite.host": "127.0.0.1",
            "hoodie.metrics.graphite.port": str(port),
        }
        for number, options in enumerate(CASES[case]):
            for side in ("theirs", "ours"):
                rows = ROWS if number == 0 else LATER
                named = {**reporter, **options, "hoodie.metrics.reporter.metricsname.prefix": side}
                if side == "theirs":
                    hudi015.write(str(tmp_path / side), arrow_rows(*rows), named)
                else:
                    write(trips(spark, *rows).coalesce(1), str(tmp_path / side), named)
    theirs = {STATISTICS.sub("", name.removeprefix("theirs.")) for name in names if name.startswith("theirs.")}
    ours = {name.removeprefix("ours.") for name in names if name.startswith("ours.")}
    theirs = {name for name in theirs if not HUDI_ONLY.match(name)}
    if case != "occ":
        theirs = {name for name in theirs if not FOR_ONE_WRITER.match(name)}
    ours = {name for name in ours if not OURS_ONLY.fullmatch(name)}
    assert "finalize.duration" in theirs
    assert sorted(ours) == sorted(theirs)
