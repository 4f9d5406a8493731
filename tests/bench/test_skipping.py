"""The measurement of data skipping after clustering counts the right files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.skipping import files_with


def test_files_whose_statistics_overlap_the_range_are_counted(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{number}.parquet") for number in range(4)]
    for number, path in enumerate(paths):
        values = pa.table({"id": ["x"] * 10, "ts": list(range(number * 10, number * 10 + 10))})
        pq.write_table(values, path, row_group_size=5)
    assert files_with(paths, "ts", 12, 18) == (1, 4)
    assert files_with(paths, "ts", 19, 20) == (2, 4)
    assert files_with(paths, "ts", 40, 50) == (0, 4)
    pq.write_table(pa.table({"ts": [1]}), paths[0], write_statistics=False)
    assert files_with(paths, "ts", 40, 50) == (1, 4)
