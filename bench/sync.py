"""Measures the sync of a table with many partitions: the first time, and with one partition more.

    python -m bench.sync [--partitions 150000] [--catalog memory] [--catalog metastore] [--batch 1000]

Makes a table without data files, whose commits name 5,000 partitions each. It needs no Spark. `memory` is a catalog in this
process and shows the time that Penstock needs itself; `metastore` is a real Hive metastore with its tables in Derby.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import penstock
from penstock.api.table import Table
from penstock.filegroup.names import PARTITION_METAFILE, base_file_name, partition_metafile
from penstock.hive_metastore import Metastore
from penstock.storage import LocalStorage
from penstock.table.config import write_config
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from tests.kit.memory_catalog import MemoryCatalog
from tests.kit.metastore import running_metastore

#: Partitions that one commit writes.
PER_COMMIT = 5_000
_SCHEMA = """{"type": "record", "name": "t", "fields": [
  {"name": "id", "type": "string"}, {"name": "n", "type": "long"},
  {"name": "day", "type": "string"}, {"name": "hour", "type": "string"}
]}"""


def main() -> None:
    """Print the times."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--partitions", type=int, default=150_000)
    p.add_argument("--catalog", action="append", choices=["memory", "metastore"])
    p.add_argument("--batch", type=int, default=1_000)
    args = p.parse_args()
    folder = tempfile.mkdtemp(prefix="penstock-sync-")
    try:
        print(f"{args.partitions:,} partitions in batches of {args.batch:,}\n")
        print("| catalog | sync | seconds | of them in this process | requests to add partitions | all requests |")
        print("|---|---|---:|---:|---:|---:|")
        for catalog in args.catalog or ["memory", "metastore"]:
            path = make_table(Path(folder, catalog), args.partitions)
            options = {"hoodie.datasource.hive_sync.batch_num": args.batch}
            if catalog == "memory":
                report_memory(path, args.partitions, options)
            else:
                report_metastore(path, args.partitions, options)
            shutil.rmtree(path)
        print(f"\npeak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10:,} MiB")
    finally:
        shutil.rmtree(folder)


def report_memory(path: Path, partitions: int, options: dict[str, object]) -> None:
    """Time the syncs to a catalog in this process."""
    catalog = MemoryCatalog()
    penstock.sync_tool("memory")(lambda settings: catalog)
    options = {**options, "hoodie.meta.sync.client.tool.class": "memory"}
    for name in syncs(path, partitions):
        catalog.calls.clear()
        seconds = time_sync(path, options)
        report("memory", name, seconds, catalog.calls, "add_partitions")


def report_metastore(path: Path, partitions: int, options: dict[str, object]) -> None:
    """Time the syncs to a Hive metastore."""
    calls: Counter[str] = Counter()
    plain = Metastore.call

    def count(metastore: Metastore, function: str, *arguments: object) -> object:
        calls[function] += 1
        return plain(metastore, function, *arguments)

    with running_metastore() as server, patch.object(Metastore, "call", count):
        options = {**options, **server.options("bench")}
        for name in syncs(path, partitions):
            calls.clear()
            seconds = time_sync(path, options)
            report("metastore", name, seconds, calls, "add_partitions_req")


def syncs(path: Path, partitions: int) -> Iterator[str]:
    """Yield the name of each sync, once the table is as that sync finds it."""
    yield "first"
    yield "nothing new"
    add_commit(path, partitions // PER_COMMIT + 1, [partition_path(partitions)])
    yield "one new partition"
    add_commit(path, partitions // PER_COMMIT + 2, [partition_path(number) for number in range(partitions + 1)])
    yield "all partitions written, none new"


def time_sync(path: Path, options: Mapping[str, object]) -> tuple[float, float]:
    """Sync once. Return the seconds that it took, and those in which this process had a core: on a busy machine they differ."""
    begin = time.perf_counter(), time.process_time()
    Table.open(path).sync(options)
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def report(catalog: str, sync: str, seconds: tuple[float, float], calls: Counter[str], add: str) -> None:
    """Print the line of one sync."""
    wall, core = seconds
    print(f"| {catalog} | {sync} | {wall:.2f} | {core:.2f} | {calls[add]:,} | {sum(calls.values()):,} |", flush=True)


def make_table(path: Path, partitions: int) -> Path:
    """Make a table with the folders of its partitions, and with commits that name them."""
    config = {
        "hoodie.table.name": "trips",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "6",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "day,hour",
    }
    write_config(LocalStorage(), str(path), config, new=True)
    paths = [partition_path(number) for number in range(partitions)]
    for number, start in enumerate(range(0, partitions, PER_COMMIT)):
        add_commit(path, number, paths[start : start + PER_COMMIT])
    return path


def add_commit(path: Path, number: int, partitions: Sequence[str]) -> None:
    """Add a commit that writes partitions, and their folders."""
    instant = f"20240101{number // 60:02}{number % 60:02}00000"
    stats = []
    for partition in partitions:
        folder = path / partition
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PARTITION_METAFILE).write_bytes(partition_metafile(instant, partition, "now"))
        stats.append(WriteStat("f-0", partition, f"{partition}/{base_file_name('f-0', '0-0-0', instant)}", num_writes=1))
    content = write_commit(CommitMetadata(tuple(stats), operation="UPSERT", extra={"schema": _SCHEMA}))
    for end, data in ((".requested", b""), (".inflight", b""), ("", content)):
        (path / ".hoodie" / f"{instant}.commit{end}").write_bytes(data)


def partition_path(number: int) -> str:
    """Return the path of a partition: 24 hours of each day."""
    return f"{number // 24:06}/{number % 24:02}"


if __name__ == "__main__":
    main()
