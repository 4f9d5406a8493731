"""Every kind of table that Penstock writes: Hudi 0.15, Hudi 1.2 and hudi-rs read it, and Hudi 0.15 writes to it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.interop.sides import (
    GENERATOR,
    HIVE_STYLE,
    INDEX,
    KEY,
    NAME,
    OPERATION,
    ORDERING,
    PARTITION,
    SMALL_FILTERS,
    URL_ENCODE,
    Penstock,
    assert_all_read,
    assert_rows,
    assert_same_files,
    rows_of,
)
from tests.kit.oracle import Oracle
from tests.kit.readers import META_COLUMNS

KEYGEN = "org.apache.hudi.keygen."
TIMEBASED = "hoodie.keygen.timebased."
NO_META = "hoodie.populate.meta.fields"
DROP_COLUMNS = "hoodie.datasource.write.drop.partition.columns"
UTC = dt.timezone.utc


ALL_READERS = ("0.15.0", "1.2.0", "hudi-rs")


@dataclass(frozen=True)
class Kind:
    """A kind of table: how we write it, and what others can do with it afterwards."""

    options: Mapping[str, str]
    #: What we write, in order; the first creates the table.
    writes: Sequence[tuple[str, pa.Table]]
    key: tuple[str, ...] = ("id",)
    #: The engines that can read it. One that is missing cannot read such a table of Hudi's own either.
    readers: tuple[str, ...] = ALL_READERS
    #: Columns that Hudi takes from the partition path, whatever was stored.
    unlike: tuple[str, ...] = ()
    #: The indexes by which Hudi 0.15 upserts afterwards, and the operation where it cannot upsert. The second reads keys alone.
    indexes: tuple[str, ...] = ("BLOOM",)
    operation: str = "upsert"
    #: Whether Hudi makes its metadata table of what we wrote, which is almost half of its work for a small write.
    metadata: bool = False

    @property
    def has_meta(self) -> bool:
        """Whether rows carry meta columns."""
        return self.options.get(NO_META) != "false"


def rows(**columns: Any) -> pa.Table:
    """Return four rows: an id, a city, a time, a number, and the given columns."""
    plain = {
        "id": ["a", "b", "c", "d"],
        "city": ["x", "y", "x", "z"],
        "ts": pa.array([1, 1, 1, 1], pa.int64()),
        "fare": [1.5, None, -2.5, 0.0],
    }
    return pa.table({**plain, **columns})


PLAIN = {NAME: "t", KEY: "id", PARTITION: "city", ORDERING: "ts"}
UNPARTITIONED = {NAME: "t", KEY: "id", ORDERING: "ts", GENERATOR: f"{KEYGEN}NonpartitionedKeyGenerator"}


def plain(options: Mapping[str, str], **more: Any) -> Kind:
    """Return the plain table, written by a bulk_insert with further options."""
    return Kind({**PLAIN, **options}, [("bulk_insert", rows())], **more)


def timed(kind: str, times: Any, output: str, **settings: str) -> Kind:
    """Return a table with partitions by time."""
    chosen = {"timestamp.type": kind, "output.dateformat": output, "timezone": "UTC", **settings}
    options = {GENERATOR: f"{KEYGEN}TimestampBasedKeyGenerator", PARTITION: "at"}
    timebased = {f"{TIMEBASED}{k.replace('_', '.')}": v for k, v in chosen.items()}
    return Kind({**PLAIN, **options, **timebased}, [("bulk_insert", rows(at=times))], unlike=("at",))


BOTH = ("BLOOM", "SIMPLE")
POINT = pa.struct({"x": pa.int32(), "label": pa.string()})
TYPES = pa.schema(
    {
        "id": pa.string(),
        "city": pa.string(),
        "ts": pa.int64(),
        "flag": pa.bool_(),
        "tiny": pa.int8(),
        "small": pa.int16(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "money": pa.decimal128(7, 2),
        "more": pa.decimal128(18, 6),
        "most": pa.decimal128(38, 10),
        "text": pa.string(),
        "bytes": pa.binary(),
        "day": pa.date32(),
        "moment": pa.timestamp("us", "UTC"),
        "numbers": pa.list_(pa.int32()),
        "words": pa.list_(pa.string()),
        "grid": pa.list_(pa.list_(pa.int64())),
        "points": pa.list_(POINT),
        "single": pa.list_(pa.struct({"only": pa.string()})),
        # Of another type than decimal: two maps with named Avro types as values are more than Hudi can rewrite ("Can't redefine").
        "prices": pa.map_(pa.string(), pa.float64()),
        "places": pa.map_(pa.string(), POINT),
        "point": POINT,
        "deep": pa.struct({"inner": pa.struct({"when": pa.timestamp("us", "UTC"), "list": pa.list_(pa.float64())})}),
    }
)
MOMENT = dt.datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC)
BEFORE_1970 = dt.datetime(1901, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
FULL = {
    "id": "a", "city": "x", "ts": 1, "flag": True, "tiny": 7, "small": -300, "int": 70_000, "long": 5_000_000_000, "float": 0.5,
    "double": 1e300, "money": Decimal("12345.67"), "more": Decimal("-1.000001"), "most": Decimal("1234567890123456789012345678.0123456789"),
    "text": "text", "bytes": b"\x00\xff", "day": dt.date(2024, 2, 29), "moment": MOMENT, "numbers": [1, 2], "words": ["p", "q"],
    "grid": [[1], [2, 3]], "points": [{"x": 1, "label": "one"}], "single": [{"only": "s"}], "prices": [("p", 1.25)],
    "places": [("home", {"x": 1, "label": "here"})], "point": {"x": 1, "label": "one"},
    "deep": {"inner": {"when": MOMENT, "list": [1.5]}},
}  # fmt: skip
EDGES = {
    **FULL, "id": "e", "flag": False, "tiny": -128, "small": 32767, "int": -(2**31), "long": 2**63 - 1, "float": float("inf"),
    "double": -0.0, "money": Decimal("-99999.99"), "most": Decimal("-9999999999999999999999999999.9999999999"), "text": "é\u4e2d\U0001f600\x00",
    "bytes": b"", "day": dt.date(1900, 1, 1), "moment": BEFORE_1970, "numbers": [], "words": [""], "grid": [[], [1]],
    "points": [{"x": None, "label": "no x"}, {"x": 2, "label": None}], "single": [{"only": None}], "prices": [("none", None)],
    "places": [("nowhere", None), ("", {"x": None, "label": None})], "point": {"x": None, "label": None},
    "deep": {"inner": None},
}  # fmt: skip
NULLS = {**dict.fromkeys(TYPES.names), "id": "n", "city": "x", "ts": 1}
ALL_TYPES = pa.Table.from_pylist(
    [FULL, EDGES, NULLS, {**FULL, "id": "o", "city": "y", "deep": {"inner": {"when": None, "list": None}}}], TYPES
)

NTZ = pa.array(
    [dt.datetime(2024, 2, 29, 1, 2, 3, 456789), None, dt.datetime(1900, 1, 1), dt.datetime(1970, 1, 1)], pa.timestamp("us")
)
DAYS = pa.array([19_782, 0, -1, None], pa.date32())
SECONDS = pa.array([1_709_168_523, 0, 86_400, 1_709_168_523], pa.int64())
TEXTS = pa.array(["2024-02-29 01:02:03", "1970-01-01 00:00:00", "2024-03-01 00:00:00", "2024-02-29 23:59:59"])
NUMBERS = pa.array([1, 2, 3, 4], pa.int32())
COMPLEX = {KEY: "id,n", PARTITION: "city,n", HIVE_STYLE: "true"}
CUSTOM = {
    GENERATOR: f"{KEYGEN}CustomKeyGenerator",
    PARTITION: "city:SIMPLE,at:TIMESTAMP",
    f"{TIMEBASED}timestamp.type": "DATE_STRING",  # of a number Hudi cannot read such a table, even if it is its own
    f"{TIMEBASED}input.dateformat": "yyyy-MM-dd HH:mm:ss",
    f"{TIMEBASED}output.dateformat": "yyyy-MM",
    f"{TIMEBASED}timezone": "UTC",
}
MISSING = pa.table({"id": ["b", "e"], "city": ["y", "y"], "ts": pa.array([2, 2], pa.int64())})
KEYED = rows(day=pa.array([0, 1, 2, 3], pa.date32()), n=pa.array([Decimal("1.50"), Decimal("-2.25")] * 2, pa.decimal128(9, 2)))
GLOBAL = {INDEX: "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
MOVED_AND_GONE = rows(city=["z", "new", "x", "x"]).slice(3)
ONE_ROW_GROUPS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.copyonwrite.insert.split.size": "1",
}
DAY_NUMBERS = pa.array([19_782, 0, 1, 19_782], pa.int64())
USUAL_FILTERS = {"hoodie.index.bloom.num_entries": "60000", "hoodie.bloom.index.filter.dynamic.max.entries": "100000"}
#: Each codec once, each sort mode once.
SORTED = {
    "gzip": "NONE",
    "snappy": "GLOBAL_SORT",
    "zstd": "PARTITION_SORT",
    "uncompressed": "PARTITION_PATH_REPARTITION",
    "lz4_raw": "PARTITION_PATH_REPARTITION_AND_SORT",
}

KINDS = {
    "all types": Kind(
        PLAIN, [("bulk_insert", ALL_TYPES.slice(3)), ("bulk_insert", ALL_TYPES.slice(0, 3))], indexes=BOTH, metadata=True
    ),
    "all types, merged by us": Kind(PLAIN, [("insert", ALL_TYPES), ("upsert", ALL_TYPES)], indexes=BOTH),
    "wall-clock times": Kind(PLAIN, [("bulk_insert", rows(t=NTZ)), ("upsert", rows(t=NTZ))], readers=("1.2.0",), indexes=()),
    "a date as partition": Kind({**PLAIN, PARTITION: "day"}, [("bulk_insert", rows(day=DAYS))]),
    "complex keys": Kind({**PLAIN, **COMPLEX}, [("bulk_insert", rows(n=NUMBERS))], key=("id", "n"), indexes=BOTH),
    "a complex key of one field": plain({GENERATOR: f"{KEYGEN}ComplexKeyGenerator"}),
    "no partitions": Kind(UNPARTITIONED, [("insert", rows()), ("upsert", rows())], indexes=BOTH, metadata=True),
    "keys for global deletes": plain({GENERATOR: f"{KEYGEN}GlobalDeleteKeyGenerator"}),
    "seconds as partition": replace(timed("UNIX_TIMESTAMP", SECONDS, "yyyy/MM/dd"), metadata=True),
    "text dates as partition": timed("DATE_STRING", TEXTS, "yyyy-MM-dd", input_dateformat="yyyy-MM-dd HH:mm:ss"),
    "a custom key generator": Kind({**PLAIN, **CUSTOM}, [("bulk_insert", rows(at=TEXTS))], unlike=("at",)),
    "hive-style and encoded": plain({HIVE_STYLE: "true", URL_ENCODE: "true"}, indexes=BOTH, metadata=True),
    "filters of the usual size": plain(USUAL_FILTERS),
    "generated keys": Kind({NAME: "t", PARTITION: "city"}, [("bulk_insert", rows()), ("insert", rows())], operation="insert"),
    "no meta fields": plain({NO_META: "false"}, indexes=("SIMPLE",)),
    "no partition columns": plain({DROP_COLUMNS: "true", HIVE_STYLE: "true"}, readers=("0.15.0", "1.2.0")),
    "a new column": Kind(PLAIN, [("bulk_insert", rows()), ("upsert", rows(tip=[1.0, 2.0, None, 4.0]).slice(1))]),
    "a wider column": Kind(
        PLAIN,
        [
            ("bulk_insert", rows(n=pa.array([1, 2, 3, None], pa.int32()))),
            ("upsert", rows(n=pa.array([2**40, None, 5, 6], pa.int64())).slice(1)),
        ],
    ),
    "a column left out": Kind(
        {**PLAIN, "hoodie.write.set.null.for.missing.columns": "true"}, [("bulk_insert", rows()), ("upsert", MISSING)]
    ),
    "numbers as keys": Kind(
        {**PLAIN, KEY: "n"}, [("bulk_insert", rows(n=NUMBERS)), ("upsert", rows(n=NUMBERS))], key=("n",), indexes=BOTH
    ),
    "days and decimals as keys": Kind(
        {**PLAIN, KEY: "id,day,n"}, [("insert", KEYED), ("upsert", KEYED)], key=("id", "day", "n"), indexes=BOTH
    ),
    "no ordering": Kind({NAME: "t", KEY: "id", PARTITION: "city"}, [("bulk_insert", rows())]),
    "rows that moved": Kind(
        {**PLAIN, **GLOBAL},
        [("bulk_insert", rows()), ("upsert", rows(city=["z", "new", "x", "x"])), ("delete", MOVED_AND_GONE)],
        indexes=("GLOBAL_SIMPLE", "GLOBAL_BLOOM"),
        metadata=True,
    ),
    "many file groups": Kind(
        {**PLAIN, **ONE_ROW_GROUPS}, [("insert", rows(city=["x"] * 4)), ("upsert", rows(city=["x"] * 4))], indexes=BOTH
    ),
    "odd column names": Kind(
        PLAIN, [("bulk_insert", rows(**dict.fromkeys(("select", "Order", "_x", "key", "path", "file_path"), NUMBERS)))]
    ),
    "milliseconds as partition": timed("EPOCHMILLISECONDS", pc.multiply(SECONDS, 1000), "yyyy/MM/dd"),
    "days as partition": timed("SCALAR", DAY_NUMBERS, "yyyy/MM", timestamp_scalar_time_unit="DAYS"),
    "a timeline in UTC": plain({"hoodie.table.timeline.timezone": "UTC"}),
    "an empty batch": Kind(PLAIN, [("bulk_insert", rows()), ("upsert", rows().slice(0, 0))]),
    "nothing at all": Kind(PLAIN, [("bulk_insert", rows().slice(0, 0))]),
    "everything deleted": Kind(PLAIN, [("bulk_insert", rows()), ("delete", rows())], metadata=True),
    **{
        f"{codec}, {mode}": plain({"hoodie.parquet.compression.codec": codec, "hoodie.bulkinsert.sort.mode": mode})
        for codec, mode in SORTED.items()
    },
}


@pytest.mark.parametrize("name", KINDS)
def test_hudi_reads_our_table_and_writes_to_it(us: Penstock, hudi015: Oracle, hudi12: Oracle, table_path: str, name: str) -> None:
    kind = KINDS[name]
    options = {**SMALL_FILTERS, **kind.options}
    for number, (operation, batch) in enumerate(kind.writes):
        us.write(table_path, batch, {**options, OPERATION: operation}, mode="append" if number else "overwrite")
    expected = after(kind, kind.writes)
    _assert_all_readers_see(expected, kind, us, [hudi015, hudi12], table_path)
    written = list(kind.writes)
    for number, index in enumerate(kind.indexes):  # each changes rows of its own: what one does wrong stays to be seen
        batch = changed(kind.writes[-1][1], number)
        settings = {OPERATION: kind.operation, INDEX: index, "hoodie.metadata.enable": str(kind.metadata).lower()}
        hudi015.write(table_path, batch, {**options, **settings})
        written.append((kind.operation, batch))
    if kind.indexes:
        _assert_all_readers_see(after(kind, written), kind, us, [hudi015], table_path)


def _assert_all_readers_see(expected: list[dict[str, Any]], kind: Kind, us: Penstock, hudis: Sequence[Oracle], path: str) -> None:
    able = [each for each in hudis if each.hudi in kind.readers]
    hudi_rs = "hudi-rs" in kind.readers
    found = assert_all_read(path, us, *able, hudi_rs=hudi_rs, meta=kind.has_meta, unlike=kind.unlike)
    assert_rows(found.drop_columns(list(META_COLUMNS)), expected, "us")
    assert_same_files(path, hudis[0], hudi_rs=hudi_rs)


def changed(batch: pa.Table, at: int) -> pa.Table:
    """Return one row of the batch with a later time, and one with a new key."""
    if batch.num_rows < at + 2:
        batch = rows()
    old = batch.slice(at, 1)
    new = batch.slice(at + 1, 1)
    new = new.set_column(new.column_names.index("id"), "id", pa.array([f"new{at}"]))
    both = pa.concat_tables([old, new])
    return both.set_column(both.column_names.index("ts"), "ts", pa.array([10 + at, 10 + at], pa.int64()))


def after(kind: Kind, writes: Sequence[tuple[str, pa.Table]]) -> list[dict[str, Any]]:
    """Return the rows that the table must hold after these writes."""
    names: dict[str, None] = {}
    found: dict[Any, dict[str, Any]] = {}
    for operation, batch in writes:
        names |= dict.fromkeys(batch.column_names)
        for row in rows_of(batch):
            key = tuple(row[name] for name in kind.key) if KEY in kind.options else len(found)
            if operation == "delete":
                found.pop(key, None)
            else:
                found[key] = row
    return [{**dict.fromkeys(names), **row} for row in found.values()]
