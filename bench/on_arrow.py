"""Engines without Spark: the limit of this machine, delta-rs and pyiceberg."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.data import Checksum, checksum, checksum_columns, checksum_of, checksum_sql, combined, plain
from bench.workload import TABLES, Engine, file_cap, rows_below

# -- the limit: the same bytes, no engine --------------------------------------------------------------------------------

#: Dictionary-encoded; on the others it costs more than it saves.
LOW = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name", "city"]
KEY = "_hoodie_record_key"
COMMIT_TIME = "_hoodie_commit_time"


def with_meta(t: pa.Table, commit: str, name: str) -> pa.Table:
    """Add the five meta columns of every Hudi file."""
    n = len(t)
    seqno = pc.binary_join_element_wise(f"{commit}_0_", pa.array(np.arange(n)).cast(pa.string()), "")
    meta = [pa.repeat(commit, n), seqno, t["uuid"], t["city"], pa.repeat(name, n)]
    names = [COMMIT_TIME, "_hoodie_commit_seqno", KEY, "_hoodie_partition_path", "_hoodie_file_name"]
    return pa.table([*meta, *t.columns], names=[*names, *t.column_names])


def store(t: pa.Table, folder: str, name: str, codec: str) -> None:
    """Write one file, with Penstock's row groups."""
    os.makedirs(folder, exist_ok=True)
    pq.write_table(t, f"{folder}/{name}.parquet", compression=codec, use_dictionary=LOW, row_group_size=125_000)


def read(path: str | Path, columns: list[str] | None = None) -> pa.Table:
    """One file, or some columns of it, on one thread."""
    return pq.ParquetFile(path).read(columns=columns, use_threads=False)


def newest(folder: str, kind: str = "base") -> list[str]:
    """Return files of one kind, oldest first. Names end in a growing number."""
    return sorted(e.path for e in os.scandir(folder) if e.name.startswith(kind))


def minus(t: pa.Table, keys: pa.Array, column: str = KEY) -> pa.Table:
    """Return the rows of `t` without these keys. The hash is built on the smaller side, the keys."""
    return t.filter(pc.invert(pc.is_in(t[column], value_set=keys)))


def merged(folder: str, columns: list[str] | None = None) -> pa.Table:
    """Return the base file merged with its logs: the newest row of each key."""
    wanted = columns and list(dict.fromkeys([*columns, KEY]))
    parts: list[pa.Table] = []
    seen: list[pa.Array] = []
    for path in [*newest(folder, "log")[::-1], newest(folder)[-1]]:
        t = read(path, wanted)
        for keys in seen:
            t = minus(t, keys)
        parts.append(t)
        seen.append(t[KEY].combine_chunks())
    return pa.concat_tables(parts)


def t_load(src: Path, root: str, commit: str, codec: str) -> None:
    """Write one input file as one file group."""
    store(with_meta(read(src), commit, "base"), f"{root}/{src.stem}", f"base-{commit}", codec)


def t_load_many(src: Path, root: str, commit: str, codec: str) -> None:
    """Write a file clustered by city: one output file per run of rows."""
    t_store_runs(read(src), root, commit, codec)


def t_store_runs(rows: pa.Table, root: str, commit: str, codec: str) -> None:
    """Write rows that are sorted by city: one new file per city."""
    cities = pc.run_end_encode(rows["city"].combine_chunks())
    start = 0
    for city, end in zip(cities.values.to_pylist(), cities.run_ends.to_pylist(), strict=True):
        store(with_meta(rows.slice(start, end - start), commit, "base"), f"{root}/{city}", f"base-{commit}", codec)
        start = end


def t_upsert(batch: pa.Table, folder: str, commit: str, codec: str, delete: bool) -> None:
    """Write the old file without the batch's keys, then the batch."""
    old = minus(read(newest(folder)[-1]), batch["uuid"].combine_chunks())
    new = old if delete else pa.concat_tables([old, with_meta(batch, commit, "base")])
    store(new, folder, f"base-{commit}", codec)


def t_append(batch: pa.Table, folder: str, commit: str, codec: str) -> None:
    """Look up the keys, then write the batch as a log."""
    known = read(newest(folder)[-1], [KEY])[KEY]
    assert pc.sum(pc.is_in(known, value_set=batch["uuid"].combine_chunks())).as_py() == len(batch)
    store(with_meta(batch, commit, "log"), folder, f"log-{commit}", codec)


def t_rewrite(folder: str, commit: str, codec: str, sort: str | None) -> None:
    """Rewrite base file and logs to one new base file."""
    t = merged(folder)
    store(t.sort_by(sort) if sort else t, folder, f"base-{commit}", codec)
    for p in newest(folder, "log"):
        os.remove(p)


def t_checksum(folder: str, table: str, mode: str, commit: str) -> list[Any]:
    """Return the checksum of one file group."""
    columns = checksum_columns(table)
    if mode == "merged" and newest(folder, "log"):
        return checksum_of(merged(folder, columns), table)
    t = read(newest(folder)[-1], columns + [COMMIT_TIME] * (mode == "since"))
    return checksum_of(t.filter(pc.equal(t[COMMIT_TIME], commit)) if mode == "since" else t, table)


class Limit(Engine):
    """Two bare pyarrow processes, one file group at a time each, with Hudi's meta columns; no index, no commit, no bloom filter.

    Where a partition has several file groups, it receives the group of each row, by the rows' numbers.
    """

    def __init__(self, name: str, root: str, codec: str) -> None:
        super().__init__(name, root, codec)
        self.pool = multiprocessing.get_context("spawn").Pool(int(os.environ.get("BENCH_PROCESSES", "2")))
        self.commits = 20240101000000000
        self.group_rows: dict[str, int] = {}

    def close(self) -> None:
        self.pool.terminate()

    def each(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run the tasks, spread over the processes."""
        return self.pool.starmap(work, tasks, chunksize=1)

    def commit(self) -> str:
        """Return the next commit's name."""
        self.commits += 1
        return str(self.commits)

    def folders(self, table: str) -> list[str]:
        """Return the file groups of a table."""
        return sorted(e.path for e in os.scandir(self.path(table)))

    def split(self, table: str, src: str) -> dict[str, pa.Table]:
        """Split a batch by file group."""
        batch = pq.read_table(src)
        if not self.groups(table):
            return {c: batch.filter(pc.equal(batch["city"], c)) for c in pc.unique(batch["city"]).to_pylist()}
        groups, seq = self.groups(table), batch["seq"].to_numpy()
        fresh = groups - 1 if TABLES[table].ordered else seq % groups
        of = np.where(seq < groups * self.group_rows[table], seq // self.group_rows[table], fresh)
        order = np.argsort(of, kind="stable")
        bounds = np.searchsorted(of[order], np.arange(groups + 1))
        # take, not slice: a slice travels to its process with all rows
        parts = {f"g{i:04d}": order[bounds[i] : bounds[i + 1]] for i in range(groups)}
        return {name: batch.take(pa.array(rows)) for name, rows in parts.items() if len(rows)}

    def groups(self, table: str) -> int:
        """Return how many file groups a partition has; 0: a partition is one."""
        return TABLES[table].groups

    def bulk_insert(self, table: str, src: str) -> None:
        work = t_load_many if table == "many" else t_load
        commit, files = self.commit(), rows_below(src)
        self.group_rows[table] = pq.read_metadata(files[0]).num_rows
        self.each(work, [(Path(p), self.path(table), commit, self.codec) for p in files])

    def upsert(self, table: str, src: str, index: str = "", cities: list[str] | None = None, delete: bool = False) -> None:
        commit = self.commit()
        if not os.path.exists(self.path(table)):
            self._store_new(table, src, commit)
            return
        tasks = [(t, f"{self.path(table)}/{g}", commit, self.codec) for g, t in self.split(table, src).items()]
        if TABLES[table].merge_on_read:
            self.each(t_append, tasks)
        else:
            self.each(t_upsert, [(*t, delete) for t in tasks])

    def _store_new(self, table: str, src: str, commit: str) -> None:
        """Write a batch to new folders. Each process gets about half of the cities."""
        batch = pq.read_table(src)
        batch = batch.take(pc.sort_indices(batch["city"])).combine_chunks()
        cities = batch["city"].to_numpy(zero_copy_only=False)
        middle = int(np.searchsorted(cities, cities[len(cities) // 2])) if len(cities) else 0
        # take, not slice: a slice travels to its process with all rows
        halves = [batch.take(pa.array(np.arange(*bounds))) for bounds in ((0, middle), (middle, len(batch)))]
        self.each(t_store_runs, [(half, self.path(table), commit, self.codec) for half in halves if len(half)])

    def delete(self, table: str, src: str) -> None:
        self.upsert(table, src, delete=True)

    def compact(self, table: str, src: str) -> None:
        self._rewrite(table, src)

    def cluster(self, table: str, src: str) -> None:
        self._rewrite(table, src, "rider")

    def _rewrite(self, table: str, src: str, sort: str | None = None) -> None:
        self.upsert(table, src)
        commit = self.commit()
        self.each(t_rewrite, [(f, commit, self.codec, sort) for f in self.folders(table)])

    def _sum(self, table: str, mode: str) -> Checksum:
        return combined(self.each(t_checksum, [(f, table, mode, str(self.commits)) for f in self.folders(table)]))

    def checksum(self, table: str) -> Checksum:
        return self._sum(table, "merged")

    def read_optimized(self, table: str) -> Checksum:
        return self._sum(table, "base")

    def incremental(self, table: str) -> Checksum:
        return self._sum(table, "since")

    def count(self, table: str, condition: str) -> int:
        column, _, value = condition.split()
        folders = self.folders(table)
        if column == "city":
            folders = [f"{self.path(table)}/{value.strip(chr(39))}"]
        files = ds.dataset([newest(f)[-1] for f in folders], format="parquet")
        found: int = files.count_rows(filter=pc.field("rider") == value.strip("'") if column == "rider" else None)
        return found

    plain_checksum, plain_count = checksum, count


# -- peers ---------------------------------------------------------------------------------------------------------------


class DeltaRs(Engine):
    """delta-rs with its own merge; it writes no deletion vectors, so there is no MOR."""

    def bulk_insert(self, table: str, src: str) -> None:
        from deltalake import write_deltalake

        if TABLES[table].merge_on_read:
            raise NotImplementedError
        rows = ds.dataset(src).scanner(batch_size=50_000).to_reader()
        write_deltalake(
            self.path(table),
            rows,
            partition_by=["city"],
            writer_properties=self.properties(),
            target_file_size=file_cap(table, src),
        )

    def properties(self) -> Any:
        """Return the settings of its files."""
        from deltalake import WriterProperties

        return WriterProperties(compression=self.codec.upper())

    def open(self, table: str) -> Any:
        """Return the current table."""
        from deltalake import DeltaTable

        return DeltaTable(self.path(table))

    def merge(self, table: str, src: str, cities: list[str] | None = None) -> Any:
        """Return a merge without its actions."""
        only = "".join(f" AND t.city = '{c}'" for c in cities or ())
        return self.open(table).merge(
            pq.read_table(src),
            f"t.city = s.city AND t.uuid = s.uuid{only}",
            source_alias="s",
            target_alias="t",
            writer_properties=self.properties(),
        )

    def upsert(self, table: str, src: str, index: str = "", cities: list[str] | None = None) -> None:
        if not os.path.exists(self.path(table)):
            raise NotImplementedError
        self.merge(table, src, cities).when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, table: str, src: str) -> None:
        self.merge(table, src).when_matched_delete().execute()

    def cluster(self, table: str, src: str) -> None:
        self.upsert(table, src)
        self.open(table).optimize.z_order(["rider"], writer_properties=self.properties())

    def query(self, table: str, sql: str) -> pa.Table:
        """Run SQL over the table `t`."""
        from deltalake import QueryBuilder

        return pa.table(QueryBuilder().register("t", self.open(table)).execute(sql).read_all())

    def checksum(self, table: str) -> Checksum:
        rows = self.query(table, f"SELECT {checksum_sql(table, 'datafusion')} FROM t GROUP BY city").to_pydict()
        return sorted(plain(r) for r in zip(*rows.values(), strict=True))

    def count(self, table: str, condition: str) -> int:
        return int(self.query(table, f"SELECT count(*) AS n FROM t WHERE {condition}")["n"][0].as_py())


class PyIceberg(Engine):
    """pyiceberg's upsert and delete, in a SQLite catalog."""

    @property
    def catalog(self) -> Any:
        """Return a catalog of this run's tables."""
        from pyiceberg.catalog.sql import SqlCatalog

        folder = f"{self.root}/{self.run}"
        os.makedirs(folder, exist_ok=True)
        catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)
        catalog.create_namespace_if_not_exists("db")
        return catalog

    def open(self, table: str) -> Any:
        """Return the current table."""
        return self.catalog.load_table(f"db.{table}")

    def bulk_insert(self, table: str, src: str) -> None:
        from pyiceberg.transforms import IdentityTransform

        if TABLES[table].merge_on_read:
            raise NotImplementedError
        rows = pq.read_table(src)
        properties = {"write.parquet.compression-codec": self.codec}
        if TABLES[table].groups:
            properties["write.target-file-size-bytes"] = str(rows.nbytes // TABLES[table].groups)
        made = self.catalog.create_table(f"db.{table}", rows.schema, location=self.path(table), properties=properties)
        with made.update_spec() as spec:
            spec.add_field("city", IdentityTransform(), "city")
        made.append(rows)

    def upsert(self, table: str, src: str, index: str = "", cities: list[str] | None = None) -> None:
        if not os.path.exists(self.path(table)):
            raise NotImplementedError
        self.open(table).upsert(pq.read_table(src), join_cols=["uuid"])

    def delete(self, table: str, src: str) -> None:
        from pyiceberg.expressions import In

        self.open(table).delete(In("uuid", pq.read_table(src, columns=["uuid"])["uuid"].to_pylist()))

    def checksum(self, table: str) -> Checksum:
        return checksum(self.open(table).scan(selected_fields=tuple(checksum_columns(table))).to_arrow(), table)

    def count(self, table: str, condition: str) -> int:
        return int(self.open(table).scan(row_filter=condition).count())
