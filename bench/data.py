"""The input that every engine reads, and the answers that every engine must return.

`generate(folder, rows, sections)` writes one Parquet folder per batch, and next to them the checksum of every state of the
tables, computed with numpy and no engine. A section is the input of one or two tables; it is made when a step needs it, and
kept. Everything comes from fixed seeds: the same size has the same bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

CITIES = ["berlin", "chennai", "delhi", "london", "nairobi", "paris", "san_francisco", "sao_paulo", "sydney", "tokyo"]
ONE_CITY = "paris"
RIDERS = 100_000
TINY = 1_000
ROWS_PER_PARTITION_OF_MANY = 100
GROUPS = 40
WIDE_COLUMNS = 200
#: The table of very many columns.
COLUMNS = 1_000
COLUMNS_ROWS = 3_000
#: The table of very many partitions.
PARTITIONS = 5_000
ROWS_PER_PARTITION = 20
MODULUS = 9973

#: One row per city. Exact in every engine: integers, decimals, counts and string bounds, no float sums.
CHECKSUM_COLUMNS = ["city", "uuid", "seq", "ts", "amount", "note", "rider", "fare"]
CHECKSUM_SQL = f"""
    city, count(*) AS n, sum(seq) AS seq, sum(ts) AS ts, sum(amount) AS amount,
    sum((seq % {MODULUS}) * (ts % {MODULUS})) AS bound, count(note) AS notes,
    sum(length(rider)) AS riders, sum(CAST(floor(fare) AS bigint)) AS fares, min(uuid) AS low, max(uuid) AS high"""

Checksum = list[list[Any]]
Truth = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """One more number per city, for the columns that only one table has."""

    column: str
    spark: str
    datafusion: str
    of: Callable[[pa.ChunkedArray], int]


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


def _items(column: pa.ChunkedArray) -> int:
    return _sum(pc.list_value_length(column))


MORE_CHECKS: dict[str, tuple[Check, ...]] = {
    "wide": (
        Check("c012", "sum(c012)", "sum(c012)", _sum),
        Check("c196", "sum(c196)", "sum(c196)", _sum),
    ),
    "columns": (
        Check("c012", "sum(c012)", "sum(c012)", _sum),
        Check("c996", "sum(c996)", "sum(c996)", _sum),
    ),
    "nested": (
        Check("address", "sum(address.zip)", "sum(address['zip'])", lambda c: _sum(pc.struct_field(c, "zip"))),
        Check("scores", "sum(size(scores))", "sum(coalesce(array_length(scores), 0))", _items),
        Check("stops", "sum(size(stops))", "sum(coalesce(array_length(stops), 0))", _items),
    ),
}


def checksum_columns(table: str) -> list[str]:
    """Return the columns that a table's checksum needs."""
    return [*CHECKSUM_COLUMNS, *(c.column for c in MORE_CHECKS.get(table, ()))]


def checksum_sql(table: str, dialect: str) -> str:
    """Return what to select, grouped by city."""
    return ", ".join([CHECKSUM_SQL, *(getattr(c, dialect) for c in MORE_CHECKS.get(table, ()))])


def plain(row: Iterable[Any]) -> list[Any]:
    """Return a checksum row of any engine as values of JSON; decimals become cents."""
    city, n, seq, ts, amount, *rest = row
    return [city, int(n), int(seq), int(ts), int(amount * 100), *(x if isinstance(x, str) else int(x) for x in rest)]


def checksum_of(rows: pa.Table, table: str = "") -> list[Any]:
    """Return the checksum of rows of one city."""
    seq, ts = rows["seq"].to_numpy(), rows["ts"].to_numpy()
    bounds = pc.min_max(rows["uuid"]).as_py()
    return plain(
        [
            rows["city"][0].as_py(),
            len(rows),
            seq.sum(),
            ts.sum(),
            pc.sum(rows["amount"]).as_py(),
            ((seq % MODULUS) * (ts % MODULUS)).sum(),
            len(rows) - rows["note"].null_count,
            pc.sum(pc.utf8_length(rows["rider"])).as_py(),
            np.floor(rows["fare"].to_numpy()).astype(np.int64).sum(),
            bounds["min"],
            bounds["max"],
            *(check.of(rows[check.column]) for check in MORE_CHECKS.get(table, ())),
        ]
    )


def checksum(rows: pa.Table, table: str = "") -> Checksum:
    """Return the checksum of rows of several cities."""
    cities = pc.unique(rows["city"]).to_pylist()
    return sorted(checksum_of(rows.filter(pc.equal(rows["city"], c)), table) for c in cities)


def combined(parts: Iterable[Sequence[Any]]) -> Checksum:
    """Combine checksums of parts of a table to that of the whole: one row per city."""
    found: dict[str, list[Any]] = {}
    for row in parts:
        known = found.get(row[0])
        if known is None:
            found[row[0]] = list(row)
            continue
        low, high = min(known[9], row[9]), max(known[10], row[10])
        sums = [a if isinstance(a, str) else a + b for a, b in zip(known, row, strict=True)]
        found[row[0]] = [*sums[:9], low, high, *sums[11:]]
    return sorted(found.values())


class Maker:
    """Makes rows of 12 columns: uuid key, longs, doubles, decimal, timestamp, strings, a nullable one, and the city."""

    def __init__(self, folder: Path, seed: int = 7) -> None:
        self.folder, self.random = folder, np.random.default_rng(seed)
        self.seqs, self.batches = 0, 0

    def keys(self, n: int, first: int) -> pa.Array:
        """Return random keys of 36 characters; `first` is the number of rows made before."""
        text = self._key_text(n)
        offsets = (np.arange(n + 1) * 36).astype(np.int32)
        return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1)))

    def _key_text(self, n: int) -> Any:
        digits = np.frombuffer(b"0123456789abcdef", np.uint8)
        text = np.full((n, 36), ord("-"), np.uint8)
        letters = [i for i in range(36) if i not in (8, 13, 18, 23)]
        text[:, letters] = digits[self.random.integers(0, 16, (n, 32), np.uint8)]
        return text

    def values(self, n: int) -> dict[str, Any]:
        """Return every column except uuid, seq and city. Later batches have later `ts`."""
        r = self.random
        cents = np.zeros((n, 2), np.int64)
        cents[:, 0] = r.integers(0, 10**7, n)
        self.batches += 1
        ts = 1_000_000_000 + self.batches * 10_000_000 + r.integers(0, 10_000_000, n)
        return {
            "ts": pa.array(ts),
            "at": pa.array(ts * 1_000_000 + r.integers(0, 10**6, n)).cast(pa.timestamp("us", "UTC")),
            "rider": _named("rider-", r.integers(0, RIDERS, n)),
            "driver": _named("driver-", r.integers(0, 50_000, n)),
            "lat": pa.array(r.random(n)),
            "lon": pa.array(r.random(n)),
            "fare": pa.array(r.random(n) * 100),
            "amount": pa.Array.from_buffers(pa.decimal128(10, 2), n, [None, pa.py_buffer(cents)]),
            "note": pc.if_else(pa.array(r.random(n) < 0.3), None, _named("note-", r.integers(0, 10**6, n))),
        }

    def new(self, n: int, city: Any) -> pa.Table:
        """Return rows with new keys."""
        first = self.seqs
        self.seqs += n
        seq = np.arange(first, first + n)
        return pa.table({"uuid": self.keys(n, first), "seq": pa.array(seq), **self.values(n), "city": city})

    def update(self, table: pa.Table, part: float, cities: Sequence[str] = CITIES) -> pa.Table:
        """Return new values for a random share of `table`'s rows (`part` < 1) or for a number of them, spread over `cities`."""
        of = table.filter(pc.is_in(table["city"], pa.array(cities)))
        n = int(part) if part >= 1 else int(len(of) * part)
        chosen = np.sort(self.random.choice(len(of), n, replace=False))
        keys = of.take(pa.array(chosen)).select(["uuid", "seq", "city"])
        return pa.table({"uuid": keys["uuid"], "seq": keys["seq"], **self.values(n), "city": keys["city"]})

    def insert(self, n: int, cities: Sequence[str] = CITIES) -> pa.Table:
        """Return new rows, spread over `cities`."""
        return self.new(n, pa.array(cities).take(pa.array(self.random.integers(0, len(cities), n))))

    def write(self, name: str, table: pa.Table, files: int) -> None:
        """Write `files` Parquet files of shuffled rows."""
        if files > 1:
            table = table.take(pa.array(self.random.permutation(len(table))))
        size = -(-len(table) // files)
        self.write_files(name, {f"part-{i}": table.slice(i * size, size) for i in range(files)})

    def write_files(self, name: str, tables: dict[str, pa.Table]) -> None:
        """Write these Parquet files, and delete others in the folder."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / name).mkdir(parents=True)
        for stem, table in tables.items():
            pq.write_table(table, self.folder / name / f"{stem}.parquet", compression="snappy")


class OrderedMaker(Maker):
    """Makes keys that begin with the row's number: later rows have greater keys."""

    def keys(self, n: int, first: int) -> pa.Array:
        text = self._key_text(n)
        numbers = np.arange(first, first + n)
        for place in range(12):
            text[:, 11 - place] = ord("0") + (numbers // 10**place) % 10
        text[:, 12] = ord("-")
        offsets = (np.arange(n + 1) * 36).astype(np.int32)
        return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1)))


class WideMaker(Maker):
    """Makes the requested number of columns, of four kinds in turn: long, double, repeated text, nullable int."""

    columns = WIDE_COLUMNS

    def values(self, n: int) -> dict[str, Any]:
        found, r = super().values(n), self.random
        for i in range(len(found) + 3, self.columns):
            kind = i % 4
            if kind == 0:
                found[f"c{i:03d}"] = pa.array(r.integers(0, 10**6, n))
            elif kind == 1:
                found[f"c{i:03d}"] = pa.array(r.random(n))
            elif kind == 2:
                found[f"c{i:03d}"] = _named("value-", r.integers(0, 1000, n))
            else:
                found[f"c{i:03d}"] = pc.if_else(pa.array(r.random(n) < 0.3), None, pa.array(r.integers(0, 100, n, np.int32)))
        return found


class NestedMaker(Maker):
    """Makes structs in structs, arrays of numbers and of structs, a nullable map."""

    def values(self, n: int) -> dict[str, Any]:
        found, r = super().values(n), self.random
        geo = pa.StructArray.from_arrays([found.pop("lat"), found.pop("lon")], ["lat", "lon"])
        street, code = _named("street-", r.integers(0, 5000, n)), pa.array(r.integers(10_000, 100_000, n))
        found["address"] = pa.StructArray.from_arrays([street, code, geo], ["street", "zip", "geo"])
        offsets, items = self._lists(n, 6)
        found["scores"] = pa.ListArray.from_arrays(offsets, pa.array(r.integers(0, 100, items)))
        offsets, items = self._lists(n, 4)
        stops = [_named("stop-", r.integers(0, 500, items)), pa.array(r.integers(0, 60, items))]
        found["stops"] = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(stops, ["name", "minutes"]))
        offsets = pa.array(np.arange(n + 1, dtype=np.int32))
        found["extras"] = pa.MapArray.from_arrays(offsets, pa.repeat("source", n), _named("app-", r.integers(0, 20, n)))
        return found

    def _lists(self, n: int, most: int) -> tuple[pa.Array, int]:
        lengths = self.random.integers(0, most, n)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.array(offsets), int(offsets[-1])


def _named(prefix: str, numbers: Any) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")


def without(table: pa.Table, batch: pa.Table) -> pa.Table:
    """Return the rows of `table` whose key is not in `batch`."""
    hit = np.zeros(int(pc.max(table["seq"]).as_py()) + 1, bool)
    known = batch["seq"].to_numpy()
    hit[known[known < len(hit)]] = True
    return table.filter(pa.array(~hit[table["seq"].to_numpy()]))


class State:
    """A table that its batches are applied to; records the truth after each."""

    def __init__(self, make: Maker, rows: pa.Table, truth: Truth, table: str = "") -> None:
        self.make, self.rows, self.truth, self.table = make, rows, truth, table

    def apply(self, name: str, batch: pa.Table, files: int = 4, delete: bool = False) -> None:
        """Write a batch, and record the table after it."""
        self.make.write(name, batch, files)
        rest = without(self.rows, batch)
        self.rows = rest if delete else pa.concat_tables([rest, batch])
        self.truth[name] = checksum(self.rows, self.table)


def load_by_city(make: Maker, name: str, rows: int) -> pa.Table:
    """Write new rows, one file per city, so that a load needs no shuffle."""
    per_city = max(1, rows // len(CITIES))
    parts = {c: make.new(per_city, pa.repeat(c, per_city)) for c in CITIES}
    make.write_files(name, parts)
    return pa.concat_tables(parts.values())


def load_groups(make: Maker, name: str, rows: int, groups: int = GROUPS) -> pa.Table:
    """Write new rows of one city, one file per file group."""
    per_group = max(1, rows // groups)
    parts = {f"g{i:04d}": make.new(per_group, pa.repeat(ONE_CITY, per_group)) for i in range(groups)}
    make.write_files(name, parts)
    return pa.concat_tables(parts.values())


def make_core(folder: Path, rows: int, partitions: int) -> Truth:
    """Make the input of the tables `cow` and `mor`."""
    make, truth = Maker(folder), Truth()
    base = load_by_city(make, "base", rows)
    truth["base"] = checksum(base)
    tiny = min(TINY, max(1, rows // len(CITIES) // 10))
    cow = State(make, base, truth)
    for name in ("up1", "up2"):
        batch = pa.concat_tables([make.update(cow.rows, 0.10), make.insert(rows // 100)])
        truth[f"{name}.batch"] = checksum(batch)
        cow.apply(name, batch)
    cow.apply("city", make.update(cow.rows, rows // 100, [ONE_CITY]))
    for i in (1, 2, 3):
        cow.apply(f"tiny{i}", make.update(cow.rows, tiny, [ONE_CITY]), files=1)
    truth["selective"] = _rows_of_one_rider(cow.rows)
    cow.apply("delete", make.update(cow.rows, 0.01), delete=True)
    cow.apply("one_cow", make.update(cow.rows, 1), files=1)
    truth["selective.clustered"] = _rows_of_one_rider(cow.rows)
    mor = State(make, base, truth)
    for name in ("mor1", "mor2"):
        mor.apply(name, make.update(mor.rows, 0.10))
    mor.apply("one_mor", make.update(mor.rows, 1), files=1)
    for i in (1, 2, 3):
        mor.apply(f"mor_tiny{i}", make.update(mor.rows, tiny), files=1)
    return truth


def _rows_of_one_rider(rows: pa.Table) -> int:
    return int(pc.sum(pc.equal(rows["rider"], "rider-777")).as_py())


def make_many(folder: Path, rows: int, partitions: int) -> Truth:
    """Make the input of the table of many partitions: two files, clustered by partition."""
    make = Maker(folder, seed=11)
    n = partitions * ROWS_PER_PARTITION_OF_MANY
    names = pa.array([f"p{i:05d}" for i in range(partitions)])
    table = make.new(n, names.take(pa.array(np.repeat(np.arange(partitions), ROWS_PER_PARTITION_OF_MANY))))
    make.write_files("many", {f"part-{i}": table.slice(i * (n // 2), n // 2) for i in (0, 1)})
    return {"many": n, "many.one": ROWS_PER_PARTITION_OF_MANY, "many.partitions": partitions}


def make_groups(folder: Path, rows: int, partitions: int) -> Truth:
    """Make the input of one partition with many file groups and random keys."""
    make, truth = Maker(folder, seed=13), Truth()
    base = load_groups(make, "groups", rows)
    truth["groups"] = checksum(base)
    batch = pa.concat_tables([make.update(base, 0.10), make.insert(rows // 100, [ONE_CITY])])
    State(make, base, truth).apply("groups_up", batch)
    return truth


def make_ordered(folder: Path, rows: int, partitions: int) -> Truth:
    """Make the input of one partition with half the rows and time-ordered keys; updates are of the newest tenth."""
    make, truth, n = OrderedMaker(folder, seed=17), Truth(), rows // 2
    base = load_groups(make, "ordered", n)
    truth["ordered"] = checksum(base)
    newest = base.slice(len(base) - len(base) // 10)
    batch = pa.concat_tables([make.update(newest, 0.2), make.insert(n // 100, [ONE_CITY])])
    State(make, base, truth).apply("ordered_up", batch)
    return truth


def make_wide(folder: Path, rows: int, partitions: int) -> Truth:
    """Make the input of a table of 200 columns, with a fiftieth of the rows."""
    return _load_and_upsert(WideMaker(folder, seed=19), "wide", max(1000, rows // 50))


def make_nested(folder: Path, rows: int, partitions: int) -> Truth:
    """Make the input of a table of nested columns, with a tenth of the rows."""
    return _load_and_upsert(NestedMaker(folder, seed=23), "nested", max(1000, rows // 10))


def make_columns(folder: Path, rows: int, partitions: int) -> Truth:
    """Make the input of a table of 1,000 columns, with 3,000 rows at most. Even the smaller input is large enough for workers."""
    make, truth = WideMaker(folder, seed=29), Truth()
    make.columns = COLUMNS
    base = load_by_city(make, "columns", min(COLUMNS_ROWS, rows // 10))
    truth["columns"] = checksum(base, "columns")
    state = State(make, base, truth, "columns")
    state.apply("columns_up", make.update(base, 0.10))
    state.apply("columns_one", make.update(state.rows, 1), files=1)
    return truth


def make_partitions(folder: Path, rows: int, partitions: int) -> Truth:
    """Make the input of a table of 5,000 partitions at most: one batch of all rows in any order, and batches of one row."""
    make, count = Maker(folder, seed=31), min(PARTITIONS, rows // 200)
    names = pa.array([f"p{i:05d}" for i in range(count)])
    table = make.new(count * ROWS_PER_PARTITION, names.take(pa.array(np.repeat(np.arange(count), ROWS_PER_PARTITION))))
    truth: Truth = {"partitions": len(table), "partitions.one": ROWS_PER_PARTITION}
    make.write("partitions", table, files=4)
    for i in (1, 2, 3):
        make.write(f"partitions_one{i}", make.update(table, 1, names.to_pylist()), files=1)
        truth[f"partitions_one{i}"] = len(table)
    return truth


def _load_and_upsert(make: Maker, name: str, rows: int) -> Truth:
    truth: Truth = {}
    base = load_by_city(make, name, rows)
    truth[name] = checksum(base, name)
    batch = pa.concat_tables([make.update(base, 0.10), make.insert(rows // 100)])
    State(make, base, truth, name).apply(f"{name}_up", batch)
    return truth


SECTIONS: dict[str, Callable[[Path, int, int], Truth]] = {
    "core": make_core,
    "many": make_many,
    "groups": make_groups,
    "ordered": make_ordered,
    "wide": make_wide,
    "nested": make_nested,
    "columns": make_columns,
    "partitions": make_partitions,
}


def generate(folder: str | Path, rows: int, sections: Iterable[str], partitions: int = 1000) -> None:
    """Write the batches of these sections and their truth, unless they exist."""
    folder = Path(folder)
    for name in sections:
        file = _truth_file(folder, name)
        if file.exists() and (name != "many" or json.loads(file.read_text())["many.partitions"] == partitions):
            continue
        print(f"generating {name} for {rows:,} rows", flush=True)
        truth = SECTIONS[name](folder, rows, partitions)
        file.write_text(json.dumps(truth))


def read_truth(folder: str | Path) -> Truth:
    """Return the truth of all sections that exist."""
    files = (_truth_file(Path(folder), name) for name in SECTIONS)
    return {k: v for file in files if file.exists() for k, v in json.loads(file.read_text()).items()}


def _truth_file(folder: Path, section: str) -> Path:
    return folder / ("truth.json" if section == "core" else f"truth-{section}.json")
