"""Measures the cost of payloads: one upsert with each of the built-in ones, compared with the default one.

    python -m bench.payloads --rows 1000000 --batch 200000 --rounds 3 --out bench/out/payloads

One table is made by bulk_insert. Every upsert goes into a copy of it, whose data files are links, with the same batch: newer
rows of known keys, some of them with nulls, a few deletes, a few new keys. Rounds are interleaved: every payload once, then every
one again, so that a slow minute of the machine affects all payloads. A first upsert, which warms Spark up, does not count. Every
upsert is a line; at the end there is a line for each payload with its median time and the ratio to the default payload; the goal
is at most 1.2. Files are compressed with the benchmark's codec: a slower one would hide what merging costs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import penstock

GOAL = 1.2
DEFAULT = "OverwriteWithLatestAvroPayload"
PAYLOADS: dict[str, dict[str, str]] = {
    DEFAULT: {},
    "DefaultHoodieRecordPayload": {},
    "EventTimeAvroPayload": {},
    "FirstValueAvroPayload": {},
    "HoodieAvroPayload": {},
    "OverwriteNonDefaultsWithLatestAvroPayload": {},
    "PartialUpdateAvroPayload": {},
    "EmptyHoodieRecordPayload": {},
    "AWSDmsAvroPayload": {},
    "debezium.MySqlDebeziumAvroPayload": {},
    "debezium.PostgresDebeziumAvroPayload": {},
    "penstock.aggregate": {"penstock.payload.aggregate": "fare:sum,ts:max"},
    "penstock.first_row": {},
    "penstock.masked": {},
    "penstock.keep_history": {"penstock.payload.history.limit": "3"},
    "penstock.ogg": {"hoodie.datasource.write.precombine.field": "pos"},
}
HOODIE = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "penstock.progress": "off",
}
TABLE = "table"
OPERATION, PAYLOAD = "hoodie.datasource.write.operation", "hoodie.datasource.write.payload.class"
ORDERING = "hoodie.datasource.write.precombine.field"
CODEC = "hoodie.parquet.compression.codec"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. Return 1 if a payload takes more than the goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--batch", type=int, default=200_000, help="rows of the upsert")
    parser.add_argument("--repeat", "--rounds", type=int, default=3, help="upserts that the median is taken of")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--payloads", default=",".join(PAYLOADS), help="which ones, the default one first")
    parser.add_argument("--codec", default="snappy", choices=["snappy", "zstd", "gzip"], help="of the table's files")
    parser.add_argument("--out", type=Path, default=Path("bench/out/payloads"))
    asked = parser.parse_args(arguments)
    spark = penstock.session(master=f"local[{asked.cores}]")
    asked.out.mkdir(parents=True, exist_ok=True)
    table = {**HOODIE, CODEC: asked.codec}
    batch = make_inputs(spark, asked.out, asked.rows, asked.batch, table)
    names = list(dict.fromkeys([DEFAULT, *asked.payloads.split(",")]))
    times = measure(spark, names, batch, asked.out, asked.repeat, table)
    spark.stop()
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    found = {name: {"seconds": round(s, 3), "times_default": round(s / medians[DEFAULT], 2)} for name, s in medians.items()}
    (asked.out / "payloads.json").write_text(json.dumps(found, indent=2) + "\n")
    (asked.out / "payloads.md").write_text(as_table(found))
    _say(f"\nmedian of {asked.repeat}, {asked.rows} rows stored, {asked.batch} upserted, {asked.codec}")
    for name, figures in found.items():
        _say(f"{name:45} {figures['seconds']:8.3f} s  {figures['times_default']:5.2f}x")
    return int(any(figures["times_default"] > GOAL for figures in found.values()))


def as_table(found: Mapping[str, Mapping[str, float]]) -> str:
    """Return the figures as a table of docs/payloads.md."""
    lines = [f"| `{name}` | {figures['seconds']:.2f} s | {figures['times_default']:.2f} |" for name, figures in found.items()]
    return "\n".join(["| payload | upsert | times the default |", "| --- | --- | --- |", *lines]) + "\n"


def make_inputs(spark: Any, folder: Path, rows: int, batch: int, table: Mapping[str, str]) -> str:
    """Make the table that is copied, and a file with the batch. Return the path of the file."""
    stored, incoming = str(folder / "stored"), str(folder / "incoming")
    trips(spark, 0, rows, 1).write.mode("overwrite").parquet(stored)
    first = max(0, rows - batch * 9 // 10)
    trips(spark, first, first + batch, 2).write.mode("overwrite").parquet(incoming)
    shutil.rmtree(folder / TABLE, ignore_errors=True)
    _write(spark, stored, folder / TABLE, {**table, OPERATION: "bulk_insert"})
    return incoming


def trips(spark: Any, first: int, end: int, ts: int) -> Any:
    """Return trips with all columns that any payload reads."""
    return spark.range(first, end).selectExpr(
        "cast(id as string) as id",
        "concat('city-', id % 10) as city",
        f"{ts}L as ts",
        f"if(id % 7 = 0 and {ts} > 1, null, cast(id as double)) as fare",
        "concat('rider ', id) as rider",
        f"if(id % 50 = 0 and {ts} > 1, 'D', 'U') as Op",
        f"if(id % 50 = 0 and {ts} > 1, 'd', 'u') as _change_operation_type",
        f"if(id % 50 = 0 and {ts} > 1, 'D', 'U') as op_type",
        f"concat('{ts}', lpad(id, 19, '0')) as pos",
        f"'00000{ts}.1' as _event_seq",
        f"{ts}L as _event_lsn",
        f"if({ts} > 1, array('fare', 'ts'), null) as _changed_columns",
        "cast(null as array<struct<ts: bigint, fare: double>>) as history",
        f"id % 50 = 0 and {ts} > 1 as _hoodie_is_deleted",
    )


def measure(
    spark: Any, names: Sequence[str], batch: str, folder: Path, repeat: int, table: Mapping[str, str]
) -> dict[str, list[float]]:
    """Return the seconds of upserts with each payload, each into a copy of the table."""
    times: dict[str, list[float]] = {name: [] for name in names}
    _say(f"{'warm-up':9} {DEFAULT:45} {_upsert(spark, DEFAULT, batch, folder, table):8.3f} s")
    for number in range(1, repeat + 1):
        for name in names:
            times[name].append(_upsert(spark, name, batch, folder, table))
            _say(f"round {number:<3} {name:45} {times[name][-1]:8.3f} s")
    return times


def _upsert(spark: Any, payload: str, batch: str, folder: Path, table: Mapping[str, str]) -> float:
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / TABLE, copy, copy_function=_link)
    _order_by(copy, PAYLOADS[payload].get(ORDERING, table[ORDERING]))
    began = time.perf_counter()
    _write(spark, batch, copy, {**table, PAYLOAD: payload, **PAYLOADS[payload], OPERATION: "upsert"})
    return time.perf_counter() - began


def _order_by(copy: Path, column: str) -> None:
    """Change the ordering column in the table's properties, for a payload that needs one of its own."""
    properties = copy / ".hoodie" / "hoodie.properties"
    line = "hoodie.table.precombine.field="
    lines = [f"{line}{column}" if each.startswith(line) else each for each in properties.read_text().splitlines()]
    properties.write_text("\n".join(lines) + "\n")


def _link(source: str, target: str) -> None:
    """Link data files, which are never written to again, and copy others."""
    if source.endswith(".parquet"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _write(spark: Any, source: str, path: Path, options: dict[str, str]) -> None:
    spark.read.parquet(source).write.format("hudi").options(**options).mode("append").save(str(path))


if __name__ == "__main__":
    sys.exit(main())
