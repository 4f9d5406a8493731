"""Measures ideas for a faster merge, each against the current code: `docs/decisions/0010-ideas-for-a-faster-merge.md`.

    python -m bench.ideas --rows 5000000

The input is one base file of the benchmark's table and its rows of the batch of W2. All variants run in turns, in this process
and without Spark. The output is the medians of wall and CPU seconds.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.data import generate
from penstock.filegroup.base_read import open_base_file, read_ahead, read_row_groups
from penstock.filegroup.fill_meta_columns import KEY_COLUMN, add_file_columns, stamp_rows
from penstock.formats.dictionaries import repetitive_columns
from penstock.formats.parquet import ROW_GROUP_ROWS, open_writer
from penstock.merge.kernels.by_key import find_positions
from penstock.merge.kernels.gather import take_rows
from penstock.storage import LocalStorage

Way = Callable[[], object]
CITY, KEY, FILES, NAME = "berlin", "uuid", 40, "base.parquet"
#: Columns that an upsert without inserts and deletes does not change, in every row group.
UNCHANGED = (KEY_COLUMN, "_hoodie_partition_path", "uuid", "city", "seq")


def main() -> None:
    """Print a table for each idea."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=1_000_000)
    p.add_argument("--repeat", type=int, default=7)
    p.add_argument("--data", default="bench/out/data")
    a = p.parse_args()
    data = f"{os.path.abspath(a.data)}/{a.rows}"
    generate(data, a.rows, ["core"], 0)
    pa.set_cpu_count(1)  # as in a Spark task
    with tempfile.TemporaryDirectory() as folder:
        bench = Merge(Path(data), Path(folder))
        for title, ways in bench.ideas().items():
            print(f"\n| {title} | seconds | of the first | CPU s |\n|---|---:|---:|---:|")
            for line in compare(ways, a.repeat):
                print(line, flush=True)


def compare(ways: dict[str, Way], repeat: int) -> Iterator[str]:
    """Run all variants in turns, and yield a line of the table for each."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(repeat + 1):
        for name, way in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            way()
            if turn:  # the first warms up
                found[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    first = statistics.median(wall for wall, _ in found[next(iter(ways))])
    for name, samples in found.items():
        wall, cpu = (statistics.median(values) for values in zip(*samples, strict=True))
        yield f"| {name} | {wall:.3f} | {wall / first:.2f} | {cpu:.3f} |"


class Merge:
    """A base file, and the incoming rows that are merged into it."""

    def __init__(self, data: Path, folder: Path) -> None:
        rows = pq.read_table(next(f for f in sorted((data / "base").iterdir()) if CITY in f.name))
        batch = pq.read_table(data / "up1")
        self.folder = folder
        self.base = self._stamped(rows, "20260101000000000")
        known = find_positions(batch[KEY], rows[KEY].combine_chunks()) >= 0
        self.share = self._stamped(batch.filter(pa.array(known)).select(rows.column_names), "20260102000000000")
        self.path = str(folder / NAME)
        self._write(self._groups(self.base), self.path)

    def _stamped(self, rows: pa.Table, instant: str) -> pa.Table:
        return stamp_rows(rows, rows[KEY], instant=instant, task=0, numbers=np.arange(rows.num_rows))

    def ideas(self) -> dict[str, dict[str, Way]]:
        """Return the variants of each idea by title. The first variant is the base of the ratios."""
        out = str(self.folder / "out.parquet")
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        plain, written = self._read(), self._merged()
        few = written.select([name for name in written.column_names if name not in UNCHANGED])
        coded = self._read(repetitive_columns(self.base))
        for number in range(FILES):
            shutil.copy(self.path, self.folder / f"{number}.parquet")
        paths = [str(self.folder / f"{number}.parquet") for number in range(FILES)]
        ways: dict[str, dict[str, Way]] = {
            "Merge: decode the next row group while one is encoded": {
                "one after another": lambda: self._write(self._merge(self._old()), out),
                "one ahead, in a thread (current)": lambda: self._write(self._merge(read_ahead(self._old())), out),
            },
            "Keep the dictionaries of the old file": {
                "decode and encode, dictionaries built again (current)": lambda: self._write([self._read()], out),
                "decode to dictionaries, encode these": lambda: self._write([self._read(repetitive_columns(self.base))], out),
                "encode only, dictionaries built again": lambda: self._write([plain], out),
                "encode only, dictionaries kept": lambda: self._write([coded], out),
            },
            "Copy the columns that an update does not change (the most it could save)": {
                "encode all columns (current)": lambda: self._write([written], out),
                "encode the changed columns": lambda: self._write([few], out),
            },
            f"Footers of {FILES} files": {
                "one after another, in each task (current)": lambda: [_footer(path) for path in paths],
                "eight at once": lambda: list(_EIGHT.map(_footer, paths)),
            },
        }
        if shared:
            ways["Stage rows (Arrow IPC) on disk or in shared memory"] = {
                "next to the table (current)": lambda: self._stage(str(self.folder / "stage.arrow")),
                "in shared memory": lambda: self._stage(f"{shared}/penstock-ideas-{os.getpid()}.arrow"),
            }
        return ways

    def _old(self) -> Iterator[pa.Table]:
        return read_row_groups(open_base_file(LocalStorage(), self.path), self.path, self.base.schema)

    def _read(self, dictionaries: Sequence[str] = ()) -> pa.Table:
        file = pq.ParquetFile(self.path, read_dictionary=list(dictionaries), pre_buffer=False)
        return file.read(columns=self.base.column_names, use_threads=False)

    def _merged(self) -> pa.Table:
        return pa.concat_tables(add_file_columns(rows, CITY, NAME) for rows in self._merge(self._old()))

    def _merge(self, groups: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the row groups with newer rows in the place of older ones, as the default payload merges them."""
        keys = self.share[KEY_COLUMN].combine_chunks()
        for old in groups:
            at = find_positions(old[KEY_COLUMN], keys)
            order = np.where(at >= 0, old.num_rows + at, np.arange(old.num_rows))
            yield take_rows(pa.concat_tables([old, self.share]), order)

    def _groups(self, rows: pa.Table) -> Iterator[pa.Table]:
        yield from (rows.slice(at, ROW_GROUP_ROWS) for at in range(0, rows.num_rows, ROW_GROUP_ROWS))

    def _write(self, groups: Iterator[pa.Table] | Sequence[pa.Table], path: str) -> None:
        writer: pq.ParquetWriter | None = None
        with pa.OSFile(path, "wb") as sink:
            for rows in groups:
                rows = rows if "_hoodie_file_name" in rows.column_names else add_file_columns(rows, CITY, NAME)
                writer = writer or open_writer(sink, rows, "snappy")
                writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
            assert writer is not None
            writer.close()

    def _stage(self, path: str) -> None:
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, self.share.schema) as writer:
            for _ in range(10):  # what two tasks stage of the whole batch
                writer.write_table(self.share)
        with pa.memory_map(path) as source:
            take_rows(pa.ipc.open_file(source).read_all(), np.arange(0, 10 * self.share.num_rows, 3))
        Path(path).unlink()


_EIGHT = ThreadPoolExecutor(8)


def _footer(path: str) -> pq.FileMetaData:
    return pq.ParquetFile(io.FileIO(path)).metadata


if __name__ == "__main__":
    main()
