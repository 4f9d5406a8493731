"""Overwritten and deleted partitions with real Hudi: each engine replaces what the other wrote, and both see the same rows and files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.services.file_check import check_files
from penstock.table.state import open_table
from tests.interop.sides import OPERATION, TRIPS, Penstock, assert_all_read, assert_same_files
from tests.kit.oracle import Oracle

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
TO_DELETE = {"hoodie.datasource.write.partitions.to.delete": "o*"}


def rows(*cities: str, ts: int = 1) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"{c}{i}", "city": c, "ts": ts, "fare": float(i)} for c in cities for i in range(3)], SCHEMA
    )


@pytest.mark.parametrize("kind", [{}, MOR], ids=["copy-on-write", "merge-on-read"])
def test_each_engine_replaces_what_the_other_wrote(us: Penstock, hudi015: Oracle, table_path: str, kind: dict[str, str]) -> None:
    options = {**TRIPS, "hoodie.metadata.enable": "false", **kind}

    def step(side: Any, operation: str, batch: pa.Table, seen: int, **more: str) -> None:
        side.write(table_path, batch, {**options, OPERATION: operation, **more}, mode="append")
        found = assert_all_read(table_path, us, hudi015, hudi_rs=not kind)
        assert found.num_rows == seen, (side, operation)
        assert_same_files(table_path, hudi015, hudi_rs=False)
        assert check_files(open_table(table_path)) == [], (side, operation)

    step(us, "bulk_insert", rows("rome", "oslo", "bern"), 9)
    step(hudi015, "upsert", rows("rome", "oslo", ts=2), 9)
    step(us, "insert_overwrite", rows("rome", ts=3).slice(0, 1), 7)
    step(hudi015, "insert_overwrite", rows("bern", "rome", ts=4).slice(0, 4), 7)
    step(us, "upsert", rows("bern", "rome", ts=5), 9)
    step(hudi015, "upsert", rows("bern", "oslo", ts=6), 9)
    step(us, "delete_partition", rows(), 6, **TO_DELETE)
    step(hudi015, "insert_overwrite_table", rows("oslo", ts=7), 3)
    step(us, "insert_overwrite_table", rows("bern", "rome", ts=8), 6)
    step(hudi015, "delete_partition", rows("bern"), 3)
    step(us, "upsert", rows("rome", "bern", ts=9), 6)
