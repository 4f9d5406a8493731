"""Avro log blocks by columns and by rows: the numbers of `docs/decisions/0008-avro-blocks-by-columns.md`.

    python -m bench.avro_blocks

Decodes and encodes blocks of three kinds of table and several sizes in this process, best of several rounds each: by
columns (`penstock.formats.avro.block`), and record by record with fastavro and Arrow's conversion of Python objects.
Checks that both return the same rows before it measures.
"""

from __future__ import annotations

import io
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from penstock.formats.avro import block as avro_columns
from penstock.formats.avro.block import decode_avro_content, encode_avro_content, find_records
from penstock.formats.avro.layout import compile_layout
from penstock.formats.avro.rows import decode_rows
from penstock.schema import META_COLUMNS, arrow_to_avro, with_meta_columns

SIZES = (1, 10, 30, 100, 1_000, 10_000, 100_000)
MOST_OF_OTHERS = 10_000
MOST_SECONDS = 0.4
DATA_COLUMNS_OF_WIDE = 100
KEY_AND_ORDERING = ["_hoodie_record_key", "ts"]


def main() -> None:
    """Print a table of microseconds per record."""
    print(f"{'':25}  decode{'':22}  encode")
    print(f"{'table':8}{'records':>9}{'bytes':>8}  {'rows':>8}{'columns':>9}{'2 columns':>11}  {'rows':>8}{'columns':>9}")
    for kind, make in TABLES.items():
        for count in SIZES:
            if kind == "flat" or count <= MOST_OF_OTHERS:
                print(line(kind, make(count)), flush=True)


def line(kind: str, rows: pa.Table) -> str:
    """Return one line of the table."""
    schema = with_meta_columns(arrow_to_avro(rows.schema, "bench"))
    rows = avro_columns.fit_to_schema(rows, compile_layout(schema).schema)
    content = encode_avro_content(rows, schema)
    writer, raw = fastavro.parse_schema(dict(schema)), rows.to_pylist(maps_as_pydicts="strict")
    assert bytes(content) == encode_by_rows(raw, writer)
    assert by_rows(content, schema).equals(rows)
    assert by_columns(content, schema).equals(rows)
    count = rows.num_rows
    times = [
        best(lambda: by_rows(content, schema)),
        best(lambda: by_columns(content, schema)),
        best(lambda: by_columns(content, schema, KEY_AND_ORDERING)),
        best(lambda: encode_by_rows(rows.to_pylist(maps_as_pydicts="strict"), writer)),
        best(lambda: encode_avro_content(rows, schema)),
    ]
    r, c, two, er, ec = (f"{seconds / count * 1e6:.2f}" for seconds in times)
    return f"{kind:8}{count:9,}{content.size // count:8,}  {r:>8}{c:>9}{two:>11}  {er:>8}{ec:>9}"


def by_rows(content: Any, schema: Mapping[str, Any]) -> pa.Table:
    """Decode record by record, for any size."""
    layout = compile_layout(schema)
    return decode_rows(pa.py_buffer(content), *find_records(content), layout, layout.schema)


def by_columns(content: Any, schema: Mapping[str, Any], columns: list[str] | None = None) -> pa.Table:
    """Decode by columns, for any size."""
    fewest, avro_columns.FEWEST_FOR_COLUMNS = avro_columns.FEWEST_FOR_COLUMNS, 0
    try:
        return decode_avro_content(content, schema, columns=columns)
    finally:
        avro_columns.FEWEST_FOR_COLUMNS = fewest


def encode_by_rows(rows: list[dict[str, Any]], schema: Any) -> bytes:
    """Encode a block from Python objects."""
    out = [struct.pack(">ii", 3, len(rows))]
    for row in rows:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, row)
        out += [struct.pack(">i", body.tell()), body.getvalue()]
    return b"".join(out)


def best(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the fastest of several rounds: other processes on the machine do not count."""
    fastest, began = float("inf"), time.process_time()
    while time.process_time() - began < MOST_SECONDS:
        start = time.process_time()
        work()
        fastest = min(fastest, time.process_time() - start)
    return fastest


def trips(count: int) -> pa.Table:
    """Return rows of a flat table: texts, two numbers, a decimal, a timestamp; every eighth note is null."""
    number = np.arange(count)
    keys = [f"{n * 2654435761 % 2**32:08x}-2d15-4d3d-8ec9-{n:012x}" for n in number.tolist()]
    return pa.table(
        {
            **meta(keys),
            "ts": 1_695_046_462_179 + number * 997,
            "uuid": keys,
            "rider": [f"rider-{n % 1000}" for n in number],
            "driver": [f"driver-{n % 300}" for n in number],
            "fare": number * 0.37,
            "amount": pa.array((number % 100_000).astype(np.int32)).cast(pa.decimal128(12, 2)),
            "at": pa.array(1_700_000_000_000_000 + number, pa.timestamp("us", "UTC")),
            "note": [None if n % 8 == 1 else "a note of some words" for n in number.tolist()],
            "city": ["san_francisco"] * count,
        }
    )


def wide(count: int) -> pa.Table:
    """Return rows of many numbers and texts."""
    narrow = trips(count)
    for at in range(DATA_COLUMNS_OF_WIDE // 2):
        narrow = narrow.append_column(f"n{at}", [np.arange(count) * (at + 1)]).append_column(f"s{at}", narrow["rider"])
    return narrow


def nested(count: int) -> pa.Table:
    """Return rows with a struct, a list and a map."""
    flat = trips(count)
    numbers = range(count)
    place = [{"lat": n * 0.1, "lon": n * 0.2, "name": f"stop {n % 50}"} for n in numbers]
    tags = [[f"tag{t}" for t in range(n % 4)] for n in numbers]
    prices = [[(f"k{t}", t) for t in range(n % 3)] for n in numbers]
    more = {
        "place": pa.array(place),
        "tags": pa.array(tags, pa.list_(pa.string())),
        "prices": pa.array(prices, pa.map_(pa.string(), pa.int64())),
    }
    for name, column in more.items():
        flat = flat.append_column(name, column)
    return flat


def meta(keys: list[str]) -> dict[str, list[str]]:
    """Return the meta columns of rows of one commit."""
    times = ["20250331030645735"] * len(keys)
    seqnos = [f"20250331030645735_0_{n}" for n in range(len(keys))]
    file_ids = ["d0304c53-6fd2-4b7a-a9d6-5ff632f79224-0"] * len(keys)
    return dict(zip(META_COLUMNS, (times, seqnos, keys, ["city=san_francisco"] * len(keys), file_ids), strict=True))


TABLES: dict[str, Callable[[int], pa.Table]] = {"flat": trips, "wide": wide, "nested": nested}

if __name__ == "__main__":
    main()
