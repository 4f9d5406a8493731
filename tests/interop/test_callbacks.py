"""Callbacks and validators of real Hudi and of Penstock, for the same writes: the same messages at the same time, the same verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import ValidationFailed
from tests.kit.http_servers import Recorder, answer_with, running_server
from tests.kit.oracle import Oracle, OracleError
from tests.table.tables import OPERATION, TRIPS, timeline, trips, write

TRIP_SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
PLAIN = {**TRIPS, "hoodie.metadata.enable": "false"}
COMPACTED = {
    **PLAIN,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
}
ROWS = (("a", "oslo", 1, 1.0), ("b", "oslo", 1, 2.0), ("c", "paris", 1, 3.0))
#: Differ in each write: names, times and the bytes of files.
VOLATILE = {"hoodieWriteStat", "fileId", "path", "commitTime", "basePath", "runtimeStats", "logFiles", "baseFile", "prevCommit"}
SIZES = {"totalWriteBytes", "fileSizeInBytes", "logOffset"}
VALIDATORS = "hoodie.precommit.validators"
CLASSES = "org.apache.hudi.client.validator.SqlQuery{}PreCommitValidator"


@pytest.fixture
def server() -> Iterator[Recorder]:
    with running_server() as recorder:
        yield recorder


def arrow_rows(*rows: tuple[str, str, int, float]) -> pa.Table:
    """Return rows of trips as an Arrow table."""
    return pa.table([pa.array([row[i] for row in rows], field.type) for i, field in enumerate(TRIP_SCHEMA)], schema=TRIP_SCHEMA)


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return key and both values for each field of two messages that differs, or that one of them lacks. Sizes need only exist."""
    found = _compare(ours, theirs)
    stats = [sorted(message["hoodieWriteStat"], key=lambda stat: str(stat["partitionPath"])) for message in (ours, theirs)]
    for one, other in zip(*stats, strict=True):
        found += _compare(one, other)
    return found


def _compare(ours: dict[str, Any], theirs: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return key and both values for each field that differs."""
    found = []
    for key in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(key, "missing"), theirs.get(key, "missing")
        if key in SIZES:
            one, other = one > 0, other > 0
        if one != other and (key not in VOLATILE or "missing" in (one, other)):
            found.append((key, one, other))
    return found


def test_both_send_the_same_messages_after_the_table_services(
    spark: Any, hudi015: Oracle, server: Recorder, tmp_path: Path
) -> None:
    callback = {
        **COMPACTED,
        "hoodie.write.commit.callback.on": "true",
        "hoodie.write.commit.callback.http.url": server.url,
        "penstock.callback.message": "hudi",
    }
    paths = {"theirs": str(tmp_path / "theirs"), "ours": str(tmp_path / "ours")}
    timelines: list[list[str]] = []
    respond = answer_with(200)

    def answer(handler: Any) -> None:
        names = timeline(server.received[-1].json["basePath"].removeprefix("file:"))
        timelines.append(sorted(name.partition(".")[2] for name in names))
        respond(handler)

    server.answer = answer
    for rows in (ROWS, (("a", "oslo", 2, 9.0), ("d", "rome", 2, 4.0))):
        hudi015.write(paths["theirs"], arrow_rows(*rows), callback)
        write(trips(spark, *rows).coalesce(1), paths["ours"], callback)
    first_theirs, first_ours, second_theirs, second_ours = server.received
    for theirs, ours in ((first_theirs, first_ours), (second_theirs, second_ours)):
        assert differences(ours.json, theirs.json) == []
        below = [each.json["basePath"].replace(paths[side], "<table>") for each, side in ((ours, "ours"), (theirs, "theirs"))]
        assert below[0] == below[1]
        for name in ("HUDI-CALLBACK-KEY", "Content-Type"):
            headers = [{key.lower(): value for key, value in each.headers.items()}[name.lower()] for each in (ours, theirs)]
            assert headers[0] == headers[1]
    assert timelines[1] == timelines[0]
    assert timelines[3] == timelines[2]
    assert "commit" in timelines[2]  # the compaction has run


def test_hudi_reads_and_writes_a_table_with_an_outbox(spark: Any, hudi015: Oracle, server: Recorder, tmp_path: Path) -> None:
    server.answer = answer_with(500)
    path = str(tmp_path / "table")
    callback = {
        "penstock.commit.callbacks": "http",
        "hoodie.write.commit.callback.http.url": server.url,
        "penstock.callback.retries": "0",
    }
    with pytest.warns(RuntimeWarning, match="the server answered 500"):
        write(trips(spark, *ROWS).coalesce(1), path, {**PLAIN, OPERATION: "bulk_insert", **callback})
    (message,) = list(Path(path, ".hoodie", ".penstock", "outbox").iterdir())
    hudi015.write(path, arrow_rows(("a", "oslo", 2, 9.0)), PLAIN)
    assert sorted((row["id"], row["fare"]) for row in hudi015.read(path).to_pylist()) == [("a", 9.0), ("b", 2.0), ("c", 3.0)]
    assert message.exists()
    server.answer = answer_with(200)
    write(trips(spark, ("d", "oslo", 3, 4.0)).coalesce(1), path, {**PLAIN, **callback})
    assert [request.json["commitTime"] for request in server.received[1:]][0] == message.name.partition(".")[0]
    assert not message.exists()


@pytest.mark.parametrize(
    ("kind", "query", "accepted"),
    [
        ("Equality", "select count(*) from <TABLE_NAME> where fare < 0", True),
        ("Equality", "select max(fare) from <TABLE_NAME>", False),
        ("Inequality", "select max(fare) from <TABLE_NAME>", True),
        ("Inequality", "select count(*) from <TABLE_NAME> where fare < 0", False),
        ("SingleResult", "select count(*) from <TABLE_NAME> where fare < 0#0", True),
        ("SingleResult", "select count(*) from <TABLE_NAME> where fare > 5#0", False),
        ("Equality", "select distinct city from <TABLE_NAME>", True),
        ("Inequality", "select distinct city from <TABLE_NAME>", False),
    ],
)
def test_both_have_the_same_verdict(spark: Any, hudi015: Oracle, tmp_path: Path, kind: str, query: str, accepted: bool) -> None:
    option = {"Equality": "equality", "Inequality": "inequality", "SingleResult": "single.value"}[kind]
    checks = {VALIDATORS: CLASSES.format(kind), f"{VALIDATORS}.{option}.sql.queries": query}
    table = {**PLAIN, "hoodie.datasource.write.partitionpath.field": ""}
    later = (("a", "oslo", 2, 9.0), ("d", "rome", 2, 4.0))
    path = str(tmp_path / "theirs")
    hudi015.write(path, arrow_rows(*ROWS), table, mode="overwrite")
    theirs = ours = True
    try:
        hudi015.write(path, arrow_rows(*later), {**table, **checks})
    except OracleError as e:
        theirs = "validation failed" not in str(e).lower()
    path = str(tmp_path / "ours")
    write(trips(spark, *ROWS), path, {**table, OPERATION: "bulk_insert"})
    try:
        write(trips(spark, *later), path, {**table, **checks})
    except ValidationFailed:
        ours = False
    assert (theirs, ours) == (accepted, accepted)
