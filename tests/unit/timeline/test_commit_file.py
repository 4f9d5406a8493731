"""Commit metadata: what real commits hold comes back, what is damaged is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import CorruptFile
from penstock.options.operation import Operation
from penstock.timeline.commit_file import (
    CommitMetadata,
    WriteStat,
    make_workload_profile,
    read_commit,
    read_stat_fields,
    write_commit,
)
from tests.kit.golden import golden_names, unpack_golden


def real_commits(folder: Path) -> dict[str, bytes]:
    found = {}
    for name in golden_names():
        base = unpack_golden(name, folder / name)
        paths = [p for p in (base / ".hoodie").iterdir() if p.suffix in (".commit", ".deltacommit", ".replacecommit")]
        found |= {f"{name}/{p.name}": p.read_bytes() for p in paths}
    return found


def without_nulls(value: Any) -> Any:
    """JSON without null fields: the older writers leave out what the newer ones give as null."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


def test_commits_of_hudi_are_written_again_with_every_field(tmp_path: Path) -> None:
    commits = real_commits(tmp_path)
    assert len(commits) == 14
    for name, data in commits.items():
        again = json.loads(write_commit(read_commit(data, name)))
        assert without_nulls(again) == without_nulls(json.loads(data)), name


def test_a_commit_of_hudi_is_read_with_its_schema_and_counts(tmp_path: Path) -> None:
    base = unpack_golden("cow_v6_nonpartitioned", tmp_path)
    commit = read_commit((base / ".hoodie" / "20240418173551906.commit").read_bytes(), "x")
    assert commit.schema is not None
    assert json.loads(commit.schema)["name"] == "v6_nonpartitioned_record"
    assert (commit.operation, sum(stat.num_writes for stat in commit.stats)) == ("UPSERT", 4)
    assert list(commit.by_partition()) == [""]


def test_an_overwrite_of_hudi_names_the_groups_it_replaced(tmp_path: Path) -> None:
    base = unpack_golden("mor_parquet_v6_simplekeygen_nonhivestyle_overwritetable", tmp_path)
    commit = read_commit((base / ".hoodie" / "20250121000702475.replacecommit").read_bytes(), "x")
    assert commit.replaced is not None
    assert sorted(commit.replaced) == ["10", "20", "30"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"partitionToWriteStats" : { "p" : [ {',
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b'"text"',
        b'{"partitionToWriteStats": {"p": [1]}}',
        b'{"partitionToWriteStats": {"p": [{}]}}',
        b'{"partitionToWriteStats": [1]}',
        b'{"extraMetadata": ["schema"]}',
        b'{"partitionToReplaceFileIds": 5}',
    ],
    ids=lambda data: data[:24].decode("latin-1") or "zero bytes",
)
def test_a_commit_that_is_empty_torn_or_something_else_is_corrupt_and_named(data: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"20240101000000000\.commit"):
        read_commit(data, "20240101000000000.commit")


def test_a_commit_torn_anywhere_is_corrupt() -> None:
    whole = write_commit(CommitMetadata(stats=(WriteStat("f-0", "p", "p/f.parquet"),), operation="INSERT"))
    for end in range(len(whole)):
        with pytest.raises(CorruptFile):
            read_commit(whole[:end], "torn.commit")
    assert read_commit(whole, "whole.commit").operation == "INSERT"


def test_a_partition_path_in_any_script_survives() -> None:
    stat = WriteStat("f-0", 'Zürich/東京 "x"', 'Zürich/東京 "x"/f-0_0-0-0_1.parquet', num_writes=3, num_inserts=3)
    metadata = CommitMetadata(stats=(stat,), operation="INSERT", extra={"schema": '{"a":"\\"é"}'})
    assert read_commit(write_commit(metadata), "x") == CommitMetadata(
        stats=(stat,), operation="INSERT", extra=metadata.extra, partitions=('Zürich/東京 "x"',)
    )


def test_a_workload_profile_has_inserts_first_then_updates_and_no_partition_paths() -> None:
    profile = make_workload_profile(Operation.UPSERT, {"p": 5}, [("p", "f-0", "20240101000000000", 2)])
    content = json.loads(write_commit(profile, profile=True))
    stats = content["partitionToWriteStats"]["p"]
    assert [(s["fileId"], s["prevCommit"], s["numInserts"], s["numUpdateWrites"]) for s in stats] == [
        ("", "null", 5, 0),
        ("f-0", "20240101000000000", 0, 2),
    ]
    assert [(s["path"], s["partitionPath"]) for s in stats] == [(None, None), (None, None)]
    assert content["extraMetadata"] == {}


def test_a_write_stat_has_every_field_that_hudi_reads() -> None:
    content = json.loads(write_commit(CommitMetadata(stats=(WriteStat("f-0", "p", "p/f"),), operation="INSERT")))
    assert sorted(content) == ["compacted", "extraMetadata", "operationType", "partitionToWriteStats"]
    assert set(content["partitionToWriteStats"]["p"][0]) == {
        "fileId", "path", "cdcStats", "prevCommit", "numWrites", "numDeletes", "numUpdateWrites", "numInserts",
        "totalWriteBytes", "fileSizeInBytes", "totalWriteErrors", "tempPath", "partitionPath", "totalLogRecords",
        "totalLogFilesCompacted", "totalLogSizeCompacted", "totalUpdatedRecordsCompacted", "totalLogBlocks",
        "totalCorruptLogBlock", "totalRollbackBlocks", "minEventTime", "maxEventTime", "runtimeStats",
    }  # fmt: skip


def test_a_commit_is_formatted_as_one_json_document_whatever_its_write_stats_hold() -> None:
    stats = (
        WriteStat("f1", "p", "p/a.parquet", num_writes=3),
        WriteStat("f2", "p", "p/.b.log.1", log={"logVersion": 1, "logFiles": [".b.log.1", "line\nbreak"], "recordsStats": {}}),
        WriteStat("f3", 'köln/x"y', "c.parquet", runtime_stats={"totalScanTime": 1}, cdc_stats={}),
    )
    for metadata in (CommitMetadata(stats, extra={"schema": "{}"}, partitions=("empty", "p")), CommitMetadata()):
        for profile in (False, True):
            data = write_commit(metadata, profile=profile)
            parsed = json.loads(data)
            assert list(parsed) == ["partitionToWriteStats", "compacted", "extraMetadata", "operationType"]
            assert data == json.dumps(parsed, indent=2, separators=(",", " : "), ensure_ascii=False).encode()
            assert read_commit(data, "x").stats == metadata.stats


def test_some_fields_of_all_write_stats_are_read_without_the_others() -> None:
    stats = (WriteStat("f1", "p", "a.parquet", num_writes=3), WriteStat("f2", "q", None))
    data = write_commit(CommitMetadata(stats))
    assert read_stat_fields(data, "x", ["fileId", "numWrites", "unknown"]) == [("f1", 3, None), ("f2", 0, None)]
    assert read_stat_fields(b"{}", "x", ["fileId"]) == []
    for damaged in (b"", b"{", b"[]", b'{"partitionToWriteStats": {"p": [1]}}'):
        with pytest.raises(CorruptFile, match="x"):
            read_stat_fields(damaged, "x", ["fileId"])
