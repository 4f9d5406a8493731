"""How files are named to Spark's reader."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.options import Options
from penstock.read.base_files import _name_by_patterns, _name_files
from penstock.storage import LocalStorage
from penstock.table.config import TableConfig
from penstock.table.state import TableState

TABLE = TableState(LocalStorage(), "/t", TableConfig({}), Options({}))


@pytest.mark.parametrize(("count", "patterns"), [(1, 1), (2, 2), (33, 2), (256, 2), (257, 3)])
def test_many_files_are_a_few_patterns_and_never_one_alone(count: int, patterns: int) -> None:
    """Of a single pattern Spark warns with a page of its stack, with every query."""
    files = [f"/t/p/f{number}_0-0-0_1.parquet" for number in range(count)]
    found = _name_by_patterns(TABLE, files)
    assert len(found) == patterns
    names: list[str] = []
    for pattern in found:
        names += pattern.partition("{")[2].rstrip("}").split(",")
    assert names == [file[3:] for file in files]


def test_a_path_with_pattern_characters_is_named_by_itself() -> None:
    assert _name_by_patterns(TABLE, ["/t/p/a.parquet", "/t/q{1}/b.parquet"]) == [
        "file:/t/{p/a.parquet}",
        r"file:/t/q\{1\}/b.parquet",
    ]


def test_a_connect_session_gets_every_name_because_a_pattern_hides_a_missing_file() -> None:
    class Classic:
        pass

    class Connect:
        __module__ = "pyspark.sql.connect.session"

    classic: Any = Classic()
    connect: Any = Connect()
    files = [f"/t/p/f{number}.parquet" for number in range(40)]
    assert _name_files(connect, TABLE, files) == [f"file:{file}" for file in files]
    assert _name_files(classic, TABLE, files) == _name_by_patterns(TABLE, files)
