"""Counts the requests to an object store of Penstock and of real Hudi: the same table, the same S3 server, the same steps.

    python -m bench.requests [--partitions 10] [--no-hudi] [--page docs/benchmarks/requests.md]

A proxy before moto's S3 counts every request. Hudi goes through s3a, with its defaults. The table has 100 rows in each of its
partitions, or 20,000 rows in all if that is more. Counts do not depend on the machine. `--page` writes the tables to a page.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import penstock
from tests.interop.sides import OPERATION, TRIPS_AND_METADATA, Penstock
from tests.kit.counting_proxy import CountingProxy, Request
from tests.kit.object_stores import ObjectStore, running_moto
from tests.kit.oracle import Oracle, OracleError
from tests.kit.sessions import make_session

#: For PySpark 3.5, whose Hadoop is 3.3.4.
HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.3.4"
IN_PROCESS_LOCK = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
KINDS = {"COPY_ON_WRITE": "copy-on-write", "MERGE_ON_READ": "merge-on-read"}
KIND = "hoodie.datasource.write.table.type"
ROWS_PER_PARTITION, LEAST_ROWS = 100, 20_000
BATCH_ROWS = 1_000
#: Columns of the published table, and the kinds of requests in each.
GROUPS = {
    "GET": ("get",),
    "HEAD": ("head",),
    "LIST": ("list",),
    "PUT": ("put", "put_new", "copy", "upload_begin", "upload_part", "upload_complete"),
    "DELETE": ("delete", "delete_many", "upload_abort"),
}


@dataclass
class Counts:
    """The requests of one step."""

    total: int = 0
    kinds: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, requests: Sequence[Request]) -> Counts:
        """Count requests by kind."""
        kinds = {name: sum(request.kind in members for request in requests) for name, members in GROUPS.items()}
        return cls(len(requests), kinds)

    def __str__(self) -> str:
        return " + ".join(f"{count} {name}" for name, count in self.kinds.items() if count)


class PenstockSide:
    """Penstock in this process."""

    name = "Penstock"

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self._writer = Penstock(spark, folder)

    def write(self, path: str, rows: pa.Table, options: dict[str, str]) -> None:
        """Write rows."""
        self._writer.write(path, rows, options)

    def plan(self, path: str, where: str) -> None:
        """Plan a snapshot."""
        self.spark.read.format("hudi").load(path).where(where).explain()

    def query(self, path: str, where: str) -> None:
        """Read the rows of a snapshot."""
        self.spark.read.format("hudi").load(path).where(where).collect()

    def compact(self, path: str) -> None:
        """Compact all file groups."""
        penstock.Table.open(path).compact()

    def clean(self, path: str) -> None:
        """Delete all file versions but the newest."""
        penstock.Table.open(path).clean({"hoodie.cleaner.commits.retained": 1})


class HudiSide:
    """Real Hudi, in a process of its own."""

    name = "Hudi 0.15"

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def write(self, path: str, rows: pa.Table, options: dict[str, str]) -> None:
        """Write rows."""
        self._oracle.write(path, rows, options)

    def plan(self, path: str, where: str) -> None:
        """Plan a snapshot."""
        self._open(path)
        self._oracle.sql(f"explain select * from snapshot where {where}")

    def query(self, path: str, where: str) -> None:
        """Read the rows of a snapshot."""
        self._open(path)
        self._oracle.sql(f"select id, fare from snapshot where {where}")

    def _open(self, path: str) -> None:
        self._oracle.sql(f"create or replace temporary view snapshot using hudi options (path '{path}')")

    def compact(self, path: str) -> None:
        """Compact all file groups."""
        options = f"options => 'hoodie.write.lock.provider={IN_PROCESS_LOCK}'"  # the procedure's own choice fails on s3a
        self._oracle.sql(f"call run_compaction(op => 'scheduleAndExecute', path => '{path}', {options})")

    def clean(self, path: str) -> None:
        """Delete all file versions but the newest."""
        self._oracle.sql(f"create table if not exists {_name(path)} using hudi location '{path}'")
        self._oracle.sql(f"call run_clean(table => '{_name(path)}', retain_commits => 1)")


Side = PenstockSide | HudiSide


def _name(path: str) -> str:
    return "t_" + path.rpartition("/")[2].replace("-", "_")


def rows_of(partitions: int, ts: int) -> pa.Table:
    """Return all rows of the table."""
    numbers = pa.array(range(max(LEAST_ROWS, ROWS_PER_PARTITION * partitions)))
    cities = pa.array([f"p{number % partitions:04}" for number in numbers.to_pylist()])
    return pa.table(
        {
            "id": pc.cast(numbers, pa.string()),
            "city": cities,
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "fare": pc.cast(numbers, pa.float64()),
        }
    )


def of_one_partition(partitions: int, ts: int) -> pa.Table:
    """Return 1,000 rows of the partition p0001: changes, and new rows if the partition has fewer."""
    rows = rows_of(partitions, ts)
    rows = rows.filter(pc.equal(rows["city"], "p0001")).slice(0, BATCH_ROWS)
    more = BATCH_ROWS - rows.num_rows
    new = {"id": [f"new-{n}" for n in range(more)], "city": ["p0001"] * more, "ts": [ts] * more, "fare": [1.0] * more}
    return pa.concat_tables([rows, pa.table(new, schema=rows.schema)])


def a_tenth(partitions: int, ts: int) -> pa.Table:
    """Return a tenth of the rows, of all partitions."""
    rows = rows_of(partitions, ts)
    return rows.filter(pa.array([number // partitions % 10 == 0 for number in range(rows.num_rows)]))


def steps_of(side: Side, path: str, partitions: int, kind: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the steps, each with its name."""
    one = "city = 'p0001'"
    options = {**TRIPS_AND_METADATA, KIND: kind}
    bulk = {
        **options,
        OPERATION: "bulk_insert",
        "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT",
        "hoodie.bulkinsert.shuffle.parallelism": "2",
    }
    yield "bulk_insert of all rows", lambda: side.write(path, rows_of(partitions, 1), bulk)
    yield "upsert of 10 %", lambda: side.write(path, a_tenth(partitions, 2), options)
    yield "upsert of 1,000 rows in one partition", lambda: side.write(path, of_one_partition(partitions, 3), options)
    yield "the same again", lambda: side.write(path, of_one_partition(partitions, 4), options)
    yield "planning a snapshot of one partition", lambda: side.plan(path, one)
    yield "planning a snapshot of all", lambda: side.plan(path, "true")
    yield "snapshot of one partition, with its rows", lambda: side.query(path, one)
    yield "snapshot of all, with its rows", lambda: side.query(path, "true")
    if kind == "MERGE_ON_READ":
        yield "compaction", lambda: side.compact(path)
    yield "clean", lambda: side.clean(path)


def commit_of(requests: Sequence[Request]) -> list[Request]:
    """Return the requests of a write from its sealing to its completed file: its commit."""
    last = max(at for at, request in enumerate(requests) if request.path.endswith((".commit", ".deltacommit")))
    seal = max(at for at, request in enumerate(requests[:last]) if request.kind.startswith("delete"))
    return list(requests[seal - 1 : last + 1])


def measure(side: Side, store: ObjectStore, proxy: CountingProxy, partitions: int, kind: str) -> dict[str, Counts | None]:
    """Run all steps on a new table. Return the requests of each; None if the engine refused the step."""
    path = store.path(f"{side.name[0].lower()}{partitions}{kind[0].lower()}")
    found: dict[str, Counts | None] = {}
    for name, step in steps_of(side, path, partitions, kind):
        proxy.reset()
        try:
            step()
        except OracleError as e:
            print(f"{side.name}: {name}: {str(e).partition(chr(10))[0]}", flush=True)
            found[name] = None
            continue
        requests = list(proxy.requests)
        found[name] = Counts.of(requests)
        print(f"{side.name}, {partitions} partitions, {KINDS[kind]}: {name}: {len(requests)} ({found[name]})", flush=True)
        if name == "the same again" and isinstance(side, PenstockSide):
            found["- of it the commit"] = Counts.of(commit_of(requests))
    return found


def to_markdown(title: str, ours: dict[str, Counts | None], theirs: dict[str, Counts | None]) -> str:
    """Return a table of the requests of both engines."""
    lines = [f"### {title}", "", "| | Penstock | Hudi 0.15 | ratio | Penstock by kind |", "|---|---:|---:|---:|---|"]
    for name, counts in ours.items():
        if counts is None:
            continue
        other = theirs.get(name)
        ratio = f"{counts.total / other.total:.2f}" if other and other.total else ""
        lines.append(f"| {name} | {counts.total:,} | {other.total if other else '-'} | {ratio} | {counts} |")
    return "\n".join(lines)


@contextmanager
def open_sides(store: ObjectStore, proxy: CountingProxy, folder: Path, *, hudi: bool) -> Iterator[list[Side]]:
    """Start the engines, which reach the store through the proxy."""
    settings = store.through(proxy.port)
    with ExitStack() as stack:
        spark = stack.enter_context(make_session("classic", folder))
        penstock.enable(spark)
        for key, value in settings.items():
            spark.conf.set(key, value)
        rows = folder / "rows"
        rows.mkdir()
        sides: list[Side] = [PenstockSide(spark, rows)]
        if hudi:
            sides.append(HudiSide(stack.enter_context(Oracle.start("0.15.0", [HADOOP_AWS], settings))))
        yield sides


def main() -> None:
    """Count, and print the tables."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--partitions", default="10,1000", help="numbers of partitions, with commas")
    p.add_argument("--kinds", default=",".join(KINDS))
    p.add_argument("--no-hudi", action="store_true")
    p.add_argument("--page", help="also write the tables to this page")
    a = p.parse_args()
    tables: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        store = stack.enter_context(running_moto())
        proxy = stack.enter_context(CountingProxy.before(store.port))
        sides = stack.enter_context(open_sides(store, proxy, folder, hudi=not a.no_hudi))
        for partitions in map(int, a.partitions.split(",")):
            for kind in a.kinds.split(","):
                found = [measure(side, store, proxy, partitions, kind) for side in sides]
                theirs = found[1] if len(found) > 1 else {}
                tables.append(to_markdown(f"{partitions:,} partitions, {KINDS[kind]}", found[0], theirs))
                print(f"\n{tables[-1]}\n", flush=True)
                if a.page:
                    Path(a.page).write_text(_PAGE.format(tables="\n\n".join(tables)))


_PAGE = """# Requests to an object store

`make bench-requests` writes this page. A proxy before an S3 server counts the requests of Penstock and of Apache Hudi 0.15
(through s3a, with its defaults, its metadata table included) on tables of the same rows. Requests are what a store bills besides
bytes, and their number does not depend on the machine. `bench/requests.py` has the steps. Penstock has no jar of Hadoop for S3.

{tables}
"""


if __name__ == "__main__":
    main()
