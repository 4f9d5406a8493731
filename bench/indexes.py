"""Measures the cost of indexes: the figures of `docs/indexes.md`.

    python -m bench.indexes [--rows 1000000] [--rounds 3] [--hbase] [--out bench/out/indexes]

Three tables, printed and kept as `indexes.json`:

* the cost of building a bloom filter compared with writing its file;
* how often a filter that grows is wrong, up to a million keys;
* one upsert of the same batch by every index of Penstock, of a small and a large batch, with the figures of the index.

With `--hbase` a real HBase is started on this machine, as tests do, and HBASE is measured too.

Seconds are the median of the rounds. Every index has a table of its own with the same rows; indexes take turns, round by round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock
from penstock.commit.markers import open_write
from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.key_footer import BloomSettings
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.formats.bloom import BloomFilter
from penstock.storage import LocalStorage
from tests.kit.hbase import running_hbase

FILE_ROWS = (100_000, 1_000_000)
CODECS = ("gzip", "snappy")
GROWN = (60_000, 250_000, 500_000, 1_000_000)
ERROR_RATE = 0.001
PARTITIONS, FILES_PER_PARTITION = 10, 8
#: A batch holds one row out of this many.
SHARES = {"0.1 %": 1_000, "10 %": 10}


@dataclass(frozen=True)
class Kind:
    """An index, and the keys that it is measured with."""

    name: str
    index: str
    ordered: bool = False
    options: dict[str, str] = field(default_factory=dict)


KINDS = (
    Kind("SIMPLE", "SIMPLE"),
    Kind("BLOOM, random keys", "BLOOM"),
    Kind("BLOOM, ordered keys", "BLOOM", ordered=True),
    Kind("GLOBAL_SIMPLE", "GLOBAL_SIMPLE"),
    Kind("GLOBAL_BLOOM", "GLOBAL_BLOOM"),
    Kind("BUCKET", "BUCKET", options={"hoodie.bucket.index.num.buckets": str(FILES_PER_PARTITION)}),
)
#: Larger batches than Hudi's default, which is also a limit of rows per second: the index is measured, not the limit.
BATCHES = {"hoodie.index.hbase.get.batch.size": "1000", "hoodie.index.hbase.put.batch.size": "20000"}


def main() -> None:
    """Measure, print, keep."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=1_000_000, help="of each table that is upserted to")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--hbase", action="store_true", help="measure HBASE too")
    p.add_argument("--out", default="bench/out/indexes")
    args = p.parse_args()
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-indexes-") as folder:
        found["filter_cost"] = filter_cost(Path(folder), args.rounds)
        show("Building the filter of a file", found["filter_cost"])
        found["growth"] = filter_growth()
        show(f"A filter that grows, made for {GROWN[0]:,} keys and an error rate of {ERROR_RATE} a row", found["growth"])
        with hbase_kind() if args.hbase else nullcontext(()) as more:
            found["upserts"] = upserts(folder, args.rows, args.rounds, (*KINDS, *more))
        show(f"Upserts into {args.rows:,} rows, {PARTITIONS} partitions of {FILES_PER_PARTITION} files", found["upserts"])
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "indexes.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"\nkept in {out / 'indexes.json'}")


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Return a table in Markdown."""
    print(f"\n{title}\n\n| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}")
    for row in rows:
        print(f"| {' | '.join(_cell(one) for one in row.values())} |")


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


# Bloom filters


def filter_cost(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Return the CPU seconds of writing a file with its filter, and of the filter alone."""
    found = []
    for rows in FILE_ROWS:
        table = trips(rows)
        for codec in CODECS:
            places = (folder / f"{rows}-{codec}-{number}" for number in range(rounds))
            whole = min(cpu_seconds(partial(write_file, place, table, codec)) for place in places)
            alone = min(cpu_seconds(partial(build_filter, table["id"])) for _ in range(rounds))
            found.append({"rows": rows, "codec": codec, "file s": whole, "filter s": alone, "share %": 100 * alone / whole})
    return found


def trips(rows: int) -> pa.Table:
    """Return rows of ten columns with random keys."""
    random = np.random.default_rng(7)
    texts = pa.array([f"driver number {n}" for n in range(1_000)])
    columns: dict[str, Any] = {"id": random_keys(rows), "ts": np.arange(rows)}
    columns |= {f"amount{i}": random.random(rows).round(2) for i in range(4)}
    columns |= {f"name{i}": texts.take(pa.array(random.integers(0, 1_000, rows))) for i in range(4)}
    return pa.table(columns)


def random_keys(rows: int) -> pa.Array:
    """Return keys of 32 hexadecimal digits."""
    data = np.random.default_rng(1).integers(0, 256, rows * 16, dtype=np.uint8).tobytes().hex()
    return pa.StringArray.from_buffers(
        rows, pa.py_buffer(np.arange(0, 32 * rows + 1, 32, dtype=np.int32)), pa.py_buffer(data.encode())
    )


def write_file(folder: Path, rows: pa.Table, codec: str) -> None:
    """Write one base file, as a write does."""
    storage = LocalStorage()
    open_write(storage, str(folder), "001")
    settings = FileSettings(storage, str(folder), "001", rows.schema, "{}", codec=codec, max_file_bytes=1 << 40)
    writer = RollingWriter(TaskOutput(settings, 0, "0-0-0"), "")
    writer.write(rows, rows["id"])
    writer.close()


def build_filter(keys: pa.ChunkedArray) -> None:
    """Build the filter of such a file."""
    size = BloomSettings()
    made = BloomFilter.create(size.kind, size.entries, size.error_rate, size.max_entries)
    made.add(keys)
    made.to_text()


def cpu_seconds(work: Callable[[], None]) -> float:
    """Return the CPU time of all threads of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def filter_growth() -> list[dict[str, Any]]:
    """Return how often a filter reports keys that it does not hold."""
    keys, others = random_keys(max(GROWN)), pa.array(np.arange(1_000_000)).cast(pa.string())
    made, held, found = BloomFilter.create("DYNAMIC_V0", GROWN[0], ERROR_RATE, max(GROWN)), 0, []
    for size in GROWN:
        made.add(keys.slice(held, size - held))
        held, parts = size, -(-size // GROWN[0])
        wrong = float(made.might_contain(others).mean())
        found.append({"keys": size, "rows of the filter": parts, "promised": parts * ERROR_RATE, "measured": wrong})
    return found


# Upserts


@contextmanager
def hbase_kind() -> Iterator[tuple[Kind]]:
    """Yield the kind HBASE while its server runs."""
    with running_hbase() as hbase:
        hbase.create("trips")
        yield (Kind("HBASE", "HBASE", options={**hbase.our_options("trips"), **BATCHES}),)


@dataclass
class Runs:
    """The upserts of one batch by one index."""

    seconds: list[float] = field(default_factory=list)
    use: Any = None


def upserts(folder: str, rows: int, rounds: int, kinds: Sequence[Kind]) -> list[dict[str, Any]]:
    """Return the seconds of an upsert and the figures of the index, for every batch and kind."""
    spark = penstock.session(**{"spark.ui.enabled": "false", "spark.driver.memory": "4g"})
    runs = {(share, kind.name): Runs() for share in SHARES for kind in kinds}
    try:
        for kind in kinds:
            write(spark, kind, folder, "bulk_insert", batch(spark, kind, rows, 1, ts=1))
        for number in range(rounds + 1):
            first = number % len(kinds)
            for kind in (*kinds[first:], *kinds[:first]):
                for share, step in SHARES.items():
                    changes = batch(spark, kind, rows, step, ts=number + 2)
                    run = runs[share, kind.name]
                    run.seconds.append(write(spark, kind, folder, "upsert", changes))
                    run.use = penstock.Table.open(where(folder, kind)).index_report(limit=1)[0]
    finally:
        spark.stop()
    return [line(share, name, run) for (share, name), run in runs.items()]


def batch(spark: Any, kind: Kind, rows: int, step: int, *, ts: int) -> Any:
    """Return one row out of `share` of the table: the last ones if keys are ordered, otherwise spread over the table."""
    if kind.ordered:
        frame = spark.range(rows - rows // step, rows, 1, FILES_PER_PARTITION)
    else:
        frame = spark.range(0, rows, step, FILES_PER_PARTITION)
    key = "lpad(cast(id as string), 32, '0')" if kind.ordered else "md5(cast(id as string))"
    amounts = [f"cast(id % {n} as double) as amount{n}" for n in (7, 11, 13, 17)]
    names = [f"concat('driver number ', id % {n}) as name{n}" for n in (100, 300, 700, 900)]
    city = f"concat('city', pmod(hash(id), {PARTITIONS})) as city"
    return frame.selectExpr(f"{key} as id", city, f"cast({ts} as bigint) as ts", *amounts, *names)


def write(spark: Any, kind: Kind, folder: str, operation: str, rows: Any) -> float:
    """Run one write, and return its seconds."""
    options = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": operation,
        "hoodie.index.type": kind.index,
        "hoodie.parquet.small.file.limit": "0",
        **kind.options,
    }
    began = time.perf_counter()
    rows.write.format("hudi").options(**options).mode("append").save(where(folder, kind))
    return time.perf_counter() - began


def where(folder: str, kind: Kind) -> str:
    """Return the path of the table of an index."""
    return f"{folder}/{kind.name.replace(', ', '-').replace(' ', '-')}"


def line(share: str, name: str, run: Runs) -> dict[str, Any]:
    """Return a line of the table. The first run was to warm up."""
    use, looked = run.use, run.use.index not in ("BUCKET", "HBASE")
    return {
        "batch": share,
        "index": name,
        "seconds": statistics.median(run.seconds[1:]),
        "files that could hold keys": use.files if looked else None,
        "files opened": use.opened if looked else 0,
        "rows compared": use.compared if looked else 0,
        "opened for nothing %": 100 * use.false_positive_rate if use.false_positive_rate is not None else None,
    }


if __name__ == "__main__":
    main()
