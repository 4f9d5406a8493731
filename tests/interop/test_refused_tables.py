"""Tables of real Hudi that Penstock refuses, because it would return wrong values or leave out what Hudi needs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import Unsupported
from tests.interop.sides import KEY, NAME, ORDERING, Penstock
from tests.kit.oracle import Oracle

ON_READ = "hoodie.schema.on.read.enable"
OPTIONS = {
    NAME: "renamed",
    KEY: "id",
    ORDERING: "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.metadata.enable": "false",
}


def rows(ts: int, *columns: str) -> pa.Table:
    numbers = {column: [1.0 * ts, 2.0 * ts] for column in columns}
    return pa.table({"id": ["a", "b"], "ts": pa.array([ts, ts], pa.int64()), **numbers})


def test_a_table_whose_column_was_renamed_is_neither_read_nor_written(us: Penstock, hudi015: Oracle, table_path: str) -> None:
    hudi015.write(table_path, rows(1, "fare"), OPTIONS)
    first = penstock.Table.open(table_path).history(limit=1)[0].instant
    hudi015.sql(f"SET {ON_READ}=true")
    hudi015.sql(f"CREATE TABLE renamed USING hudi LOCATION '{table_path}'")
    try:
        hudi015.sql("ALTER TABLE renamed ADD COLUMNS (tip double)")
        assert us.read(table_path).num_rows == 2  # every column still has its name
        hudi015.sql("ALTER TABLE renamed RENAME COLUMN fare TO price")
    finally:
        hudi015.sql("DROP TABLE renamed")
        hudi015.sql(f"RESET {ON_READ}")
    renamed = r"'price' was 'fare' before.*use Hudi for this table"
    for _ in range(2):
        with pytest.raises(Unsupported, match=renamed):
            us.read(table_path)
        with pytest.raises(Unsupported, match=renamed):
            us.write(table_path, rows(2, "price"), OPTIONS)
        with pytest.raises(Unsupported, match=renamed):
            penstock.Table.open(table_path).to_arrow()
        hudi015.write(table_path, rows(3, "price", "tip"), OPTIONS)
    assert penstock.Table.open(table_path).to_arrow(as_of=first)["fare"].to_pylist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_with_change_logs_is_read_but_not_written(kind: str, us: Penstock, hudi015: Oracle, table_path: str) -> None:
    options = {**OPTIONS, "hoodie.datasource.write.table.type": kind, "hoodie.table.cdc.enabled": "true"}
    hudi015.write(table_path, rows(1, "fare"), options)
    hudi015.write(table_path, rows(2, "fare"), options)
    assert us.read(table_path)["fare"].to_pylist() == [2.0, 4.0]
    before = sorted(path for path in Path(table_path).rglob("*"))
    with pytest.raises(Unsupported, match=r"hoodie\.table\.cdc\.enabled=true.*Write to this table with Hudi"):
        us.write(table_path, rows(3, "fare"), OPTIONS)
    assert sorted(path for path in Path(table_path).rglob("*")) == before
