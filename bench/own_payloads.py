"""Measures the cost of merge functions of users: the numbers of `docs/payloads.md`.

    python -m bench.own_payloads

One rule, the newer row with the sum of one column, as a row-wise payload, as a columnar merger and as `penstock.aggregate`,
over pairs of rows of a narrow table and a wide one, in this process. Prints seconds of CPU time per million pairs, the best of
several rounds; a write spends them on as many cores as it has. Checks first that all three return the same rows.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock
from penstock.merge.make_merger import make_merger
from penstock.merge.merger import Merger
from penstock.merge.payload_settings import PayloadSettings

PAIRS = 100_000
ROUNDS = 3
#: Columns besides key and ordering column, half of them text.
WIDTHS = {"narrow": 4, "wide": 40}


@penstock.payload("bench.by_row")
def by_row(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Merge one pair of rows."""
    return new if old is None else {**new, "c0": old["c0"] + new["c0"]}


@penstock.merger("bench.by_column")
def by_column(old: pa.Table, new: pa.Table) -> pa.Table:
    """Merge many pairs of rows."""
    return new.set_column(new.column_names.index("c0"), "c0", pc.add(old["c0"], new["c0"]))


MERGERS = ("bench.by_row", "bench.by_column", "penstock.aggregate")


def main() -> None:
    """Print a table of seconds per million pairs."""
    print(f"{'table':8}{'columns':>9}" + "".join(f"{name:>20}" for name in MERGERS) + "   s of CPU time per million pairs")
    settings = PayloadSettings("ts", own={"aggregate": "c0:sum"}, fixed=("id",), timeout_s=300)
    for kind, width in WIDTHS.items():
        old, new = rows(width, 1), rows(width, 2)
        mergers = [make_merger(name, settings=settings) for name in MERGERS]
        first = merged(mergers[0], old, new)
        assert all(merged(one, old, new).equals(first) for one in mergers)
        cells = [min(seconds(one, old, new) for _ in range(ROUNDS)) * 1_000_000 / PAIRS for one in mergers]
        print(f"{kind:8}{width + 2:>9}" + "".join(f"{cell:>20.2f}" for cell in cells))


def rows(width: int, ts: int) -> pa.Table:
    """Return rows with the same keys for every time."""
    random = np.random.default_rng(ts)
    columns: dict[str, Any] = {"id": [f"key-{i:08d}" for i in range(PAIRS)], "ts": np.full(PAIRS, ts)}
    for i in range(width):
        numbers = random.integers(0, 1000, PAIRS)
        columns[f"c{i}"] = numbers.astype(float) if i % 2 == 0 else [f"value {n}" for n in numbers]
    return pa.table(columns)


def merged(merger: Merger, old: pa.Table, new: pa.Table) -> pa.Table:
    """Return one row of each pair, merged as files are merged."""
    meeting = merger.merge(old, np.arange(PAIRS), new)
    return meeting.rows(meeting.choices)


def seconds(merger: Merger, old: pa.Table, new: pa.Table) -> float:
    """Return the CPU time of one round."""
    began = time.process_time()
    merged(merger, old, new)
    return time.process_time() - began


if __name__ == "__main__":
    main()
