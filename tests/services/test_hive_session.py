"""A Spark session with a Hive catalog reads synced tables by their names, classic and Connect, on a real metastore."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.metastore import RunningMetastore
from tests.kit.servers import ROOT
from tests.table.tables import SIX


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_tables_of_the_hive_catalog_are_read_by_name(metastore: RunningMetastore, tmp_path: Path, kind: str) -> None:
    """The job is `tests/kit/hive_session.py`."""
    folder = tmp_path / f"job-{kind}"
    folder.mkdir()
    command = [sys.executable, "-W", "ignore", "-m", "tests.kit.hive_session", kind, metastore.uri, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(lines[0].removeprefix("FOUND "))

    six = [list(trip) for trip in SIX]
    assert found["table"] == found["read_table"] == found["sql"] == six
    assert found["self_join"] == [["c", 3.5], ["d", 4.5]]
    assert found["snapshot"] == [["a", "berlin", 9, 9.5], *six[1:]]
    assert found["read_optimized"] == six
    assert found["both_views"] == 9.5 - 1.5
    assert found["current_database"] == 6
    assert found["temporary_view_first"] == 1
    assert found["other_tables"] == 1
    assert found["after_a_write"] == [7, 7]
    assert found["other_catalog"] == [None, None]
    assert found["hive_catalog"] == 7
    assert found["insert"].startswith("Unsupported: ")
    assert "TABLE_OR_VIEW_NOT_FOUND" in found["missing"]
    assert "data source: hudi" in found["disabled"]
