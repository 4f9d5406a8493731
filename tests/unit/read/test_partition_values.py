"""What folders say of the rows in them, as a kernel."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.read.partition_values import PartitionColumns

NULLS = "__HIVE_DEFAULT_PARTITION__"
ROWS = pa.table({"id": ["a", "b", "c", "d"], "city": ["oslo", "", None, NULLS], "n": pa.array([1, 2, None, 4], pa.int32())})


@pytest.mark.parametrize("rows", [ROWS, pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(1)])], ids=["whole", "in slices"])
@pytest.mark.parametrize(
    ("columns", "path", "city", "n"),
    [
        (PartitionColumns({"city": 0, "n": 1}, 2), "rome/7", ["rome"] * 4, ["7"] * 4),
        (PartitionColumns({"city": 0, "n": 1}, 2, hive_style=True), "city=rome/n=7", ["rome"] * 4, ["7"] * 4),
        (PartitionColumns({"city": 0}, 1, url_encode=True), "a%2Fb", ["a/b"] * 4, [1, 2, None, 4]),
        (PartitionColumns({"city": None}, 2), "2024/02", ["2024/02"] * 4, [1, 2, None, 4]),
        (PartitionColumns({"city": 0, "n": 1}, 2), f"{NULLS}/7", [None, "", None, NULLS], ["7"] * 4),
        (PartitionColumns({"city": 0, "n": 1}, 2), f"rome/{NULLS}", ["rome"] * 4, [None] * 4),
        (PartitionColumns(), "rome/7", ["oslo", "", None, NULLS], [1, 2, None, 4]),
    ],
    ids=["plain", "hive", "encoded", "all folders", "null text", "null number", "none"],
)
def test_partition_columns_get_the_texts_of_their_folders(
    rows: pa.Table, columns: PartitionColumns, path: str, city: list[str], n: list[object]
) -> None:
    found = columns.with_texts(rows, path)
    assert found.column_names == rows.column_names
    assert found.to_pydict() == {"id": ["a", "b", "c", "d"], "city": city, "n": n}
