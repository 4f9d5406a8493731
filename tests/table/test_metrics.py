"""Metrics of real writes and table services."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from tests.table.tables import BULK, SIX, trips, write


def test_writes_compactions_and_cleans_report_what_they_did(
    spark: Any, table_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    console = {"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "CONSOLE"}
    options = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false", **console}
    write(trips(spark, *SIX).coalesce(1), table_path, BULK | options)
    table = penstock.Table.open(table_path, spark, options)
    commit = table.upsert(trips(spark, ("a", "berlin", 9, 9.5), ("n", "oslo", 1, 0.5)))
    assert [step.name for step in commit.follow_ups][-1] == "metrics"
    table.compact()
    table.clean({"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": "1"})
    found = dict(line.split(" = ") for line in capsys.readouterr().out.splitlines() if line.startswith("trips."))
    assert found["trips.deltacommit.totalInsertRecordsWritten"] == "1"
    assert found["trips.deltacommit.totalUpdateRecordsWritten"] == "1"
    assert float(found["trips.deltacommit.duration"]) > 0
    assert float(found["trips.index.UPSERT.duration"]) >= 0
    assert found["trips.compaction.totalLogFilesCompacted"] == "1"
    assert int(found["trips.clean.numFilesDeleted"]) > 0
