"""The same history by Penstock and by Hudi 0.15 leaves the same properties, timeline, commit metadata and counts, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats.properties import read_properties
from tests.interop.sides import (
    GENERATOR,
    HIVE_STYLE,
    INDEX,
    KEY,
    NAME,
    OPERATION,
    ORDERING,
    PARTITION,
    TRIPS,
    URL_ENCODE,
    Penstock,
    assert_all_read,
    assert_rows,
    assert_same_files,
    commit_json,
    deletable_trips,
    rows_of,
    timeline,
)
from tests.kit.oracle import Oracle
from tests.kit.readers import META_COLUMNS

#: (operation, index, rows)
HISTORY: list[tuple[str, str, pa.Table]] = [
    ("bulk_insert", "SIMPLE", deletable_trips(*((f"k{i}", "xyz"[i % 3], 1, float(i), False) for i in range(9)))),
    # Into a small file, into a new partition, and a key that is there already.
    ("insert", "SIMPLE", deletable_trips(("n1", "x", 2, 1.0, False), ("n2", "new", 2, 2.0, False), ("k1", "y", 2, 3.0, False))),
    # An update, inserts, the same key twice, deletes of a known and of an unknown key.
    (
        "upsert",
        "SIMPLE",
        deletable_trips(
            ("k0", "x", 3, 1.0, False),
            ("k3", "x", 3, None, True),
            ("no", "x", 3, None, True),
            ("n3", "x", 3, 1.0, False),
            ("n4", "other", 3, 1.0, False),
            ("n4", "other", 4, 2.0, False),
        ),
    ),
    # k2 moves from z to x, k5 stays, n5 is new.
    (
        "upsert",
        "GLOBAL_SIMPLE",
        deletable_trips(("k2", "x", 5, 1.0, False), ("k5", "z", 5, 1.0, False), ("n5", "z", 5, 1.0, False)),
    ),
    ("delete", "SIMPLE", deletable_trips(("k5", "z", 6, None, False), ("k8", "z", 6, None, False), ("no", "z", 6, None, False))),
    ("delete", "SIMPLE", deletable_trips(("no", "z", 6, None, False))),
    ("upsert", "SIMPLE", deletable_trips()),
]
#: What differs between two writes of the same engine.
MEASURED = "runtimeStats"
FREE = {"fileId", "path", "totalWriteBytes", "fileSizeInBytes", MEASURED}


@pytest.fixture(scope="module")
def twins(spark: Any, hudi015: Oracle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two tables with the same history: one written by Penstock, one by Hudi."""
    root = tmp_path_factory.mktemp("twins")
    (root / "rows").mkdir()
    for name, side in (("us", Penstock(spark, root / "rows")), ("hudi", hudi015)):
        for number, (operation, index, batch) in enumerate(HISTORY):
            options = {**TRIPS, OPERATION: operation, INDEX: index, "hoodie.metadata.enable": "false"}
            side.write(root / name, batch, options, mode="append" if number else "overwrite")
    return {name: root / name for name in ("us", "hudi")}


def test_the_timelines_have_the_same_files(twins: Mapping[str, Path]) -> None:
    assert _numbered(twins["us"]) == _numbered(twins["hudi"])


def _numbered(path: Path) -> list[str]:
    """Return the timeline's files, with numbers instead of times."""
    names = timeline(path)
    times = sorted({name.partition(".")[0] for name in names})
    return [f"{times.index(name.partition('.')[0])}.{name.partition('.')[2]}" for name in names]


@pytest.mark.parametrize("number", range(len(HISTORY)), ids=[f"{i} {each[0]}" for i, each in enumerate(HISTORY)])
def test_the_commits_have_the_same_metadata(twins: Mapping[str, Path], number: int) -> None:
    ours, theirs = (_commit(twins[who], number) for who in ("us", "hudi"))
    assert {**ours, "extraMetadata": None, "partitionToWriteStats": None} == {
        **theirs,
        "extraMetadata": None,
        "partitionToWriteStats": None,
    }
    assert json.loads(ours["extraMetadata"]["schema"]) == json.loads(theirs["extraMetadata"]["schema"])
    assert all(isinstance(value, str) for value in ours["extraMetadata"].values())
    assert _stats(twins["us"], ours) == _stats(twins["hudi"], theirs)


@pytest.mark.parametrize("number", range(len(HISTORY)), ids=[f"{i} {each[0]}" for i, each in enumerate(HISTORY)])
def test_a_write_stat_has_the_same_fields_of_the_same_types(twins: Mapping[str, Path], number: int) -> None:
    ours, theirs = (
        {
            frozenset((key, type(value).__name__) for key, value in stat.items() if key != MEASURED)
            for stats in _commit(twins[who], number)["partitionToWriteStats"].values()
            for stat in stats
        }
        for who in ("us", "hudi")
    )
    assert ours == theirs


#: Writes that find out which rows are updates while they merge: beforehand they know what came for which partition.
IN_ONE_READ = (2, 4, 5)


def test_the_workload_profiles_are_the_same(twins: Mapping[str, Path]) -> None:
    for number in range(len(HISTORY)):
        ours, theirs = (_profile(twins[who], number) for who in ("us", "hudi"))
        if number in IN_ONE_READ:
            assert ours["operationType"] == theirs["operationType"]
            came, known = _rows_by_partition(ours), _rows_by_partition(theirs)
            assert all(came[partition] >= rows for partition, rows in known.items()), number
            assert sum(came.values()) == HISTORY[number][2].num_rows
        else:
            assert _settled_profile(twins["us"], ours) == _settled_profile(twins["hudi"], theirs), number


def _rows_by_partition(profile: Mapping[str, Any]) -> dict[str, int]:
    return {
        partition: sum(stat["numInserts"] + stat["numUpdateWrites"] for stat in stats)
        for partition, stats in profile["partitionToWriteStats"].items()
    }


def _settled_profile(path: Path, profile: Mapping[str, Any] | None) -> Any:
    return profile and {**profile, "partitionToWriteStats": _stats(path, profile)}


def test_hudi_counts_the_same_rows_in_both_tables(twins: Mapping[str, Path], hudi015: Oracle) -> None:
    procedures = ("show_commits", "show_commits_metadata")
    free = {"commit_time", "state_transition_time", "file_id", "previous_commit", "total_bytes_written"}
    for name, path in twins.items():
        hudi015.sql(f"create table twin_{name} using hudi location '{path}'")
    for procedure in procedures:
        ours, theirs = (
            sorted(
                repr({k: v for k, v in row.items() if k not in free})
                for row in hudi015.sql(f"call {procedure}(table => 'twin_{who}', limit => 100)")
            )
            for who in ("us", "hudi")
        )
        assert ours == theirs, procedure


def test_the_rows_are_the_same_in_number_order_and_place(twins: Mapping[str, Path], us: Penstock, hudi015: Oracle) -> None:
    ours, theirs = us.read(twins["us"]), hudi015.read(twins["hudi"])
    assert_rows(ours.drop_columns(list(META_COLUMNS)), rows_of(theirs.drop_columns(list(META_COLUMNS))), "rows")
    for who, found in (("us", ours), ("hudi", theirs)):
        times = [_instants(twins[who]).index(time) for time in found["_hoodie_commit_time"].to_pylist()]
        keys = zip(found["_hoodie_record_key"].to_pylist(), found["_hoodie_partition_path"].to_pylist(), times, strict=True)
        twins_keys = sorted(keys)
        if who == "us":
            expected = twins_keys
    assert twins_keys == expected


def test_all_readers_read_both_tables(twins: Mapping[str, Path], us: Penstock, hudi015: Oracle, hudi12: Oracle) -> None:
    for path in twins.values():
        assert_all_read(path, us, hudi015, hudi12)
        assert_same_files(path, hudi015)


def test_we_write_no_empty_file_for_the_delete_of_an_unknown_row_where_hudi_does(
    us: Penstock, hudi015: Oracle, tmp_path: Path
) -> None:
    """In a partition that has no file: the rows are the same."""
    first, second = HISTORY[0][2], deletable_trips(("k0", "x", 3, 1.0, False), ("no", "void", 3, None, True))
    for who, side in (("us", us), ("hudi", hudi015)):
        side.write(tmp_path / who, first, {**TRIPS, OPERATION: "bulk_insert"}, mode="overwrite")
        side.write(tmp_path / who, second, {**TRIPS, OPERATION: "upsert"})
    assert rows_without_meta(us.read(tmp_path / "us")) == rows_without_meta(hudi015.read(tmp_path / "hudi"))
    ours, theirs = (_commit(tmp_path / who, 1)["partitionToWriteStats"] for who in ("us", "hudi"))
    assert set(ours) == {"x"}
    assert set(theirs) == {"x", "void"}
    assert [(stat["numWrites"], stat["numDeletes"]) for stat in theirs["void"]] == [(0, 1)]


def rows_without_meta(table: pa.Table) -> list[str]:
    """Return rows as sorted texts."""
    return sorted(repr(sorted(row.items())) for row in rows_of(table.drop_columns(list(META_COLUMNS))))


def _instants(path: Path) -> list[str]:
    return [name.partition(".")[0] for name in timeline(path) if name.endswith(".commit")]


def _commit(path: Path, number: int) -> dict[str, Any]:
    return commit_json(path, _instants(path)[number])


def _stats(path: Path, commit: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return write stats by partition, without fields that may differ; earlier commits by their number."""
    order = _instants(path)
    return {
        partition: sorted(repr(sorted(_settled(stat, order).items())) for stat in stats)
        for partition, stats in commit["partitionToWriteStats"].items()
    }


def _settled(stat: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    previous = stat["prevCommit"]
    settled = {key: value for key, value in stat.items() if key not in FREE}
    return {**settled, "prevCommit": order.index(previous) if previous in order else previous}


def _profile(path: Path, number: int) -> Any:
    """Return the content of an inflight file."""
    content = (path / ".hoodie" / f"{_instants(path)[number]}.inflight").read_bytes()
    return json.loads(content) if content else None


#: Hudi does not store this property. Penstock does, so that the next writer need not set it.
KIND_OF_TIME = "hoodie.keygen.timebased.timestamp.type"
TIMED = {
    GENERATOR: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    PARTITION: "ts",
    KIND_OF_TIME: "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
    "hoodie.keygen.timebased.timezone": "UTC",
}
PROPERTIES = {
    "plain": TRIPS,
    "no partitions": {NAME: "t", KEY: "id"},
    "generated keys, no partitions": {NAME: "t", OPERATION: "bulk_insert"},
    "generated keys": {NAME: "t", PARTITION: "city", OPERATION: "bulk_insert"},
    "complex, hive style, encoded": {
        NAME: "t",
        KEY: "id,ts",
        PARTITION: "city,ts",
        ORDERING: "ts",
        HIVE_STYLE: "true",
        URL_ENCODE: "true",
    },
    "no partitions, by name": {NAME: "t", KEY: "id", GENERATOR: "org.apache.hudi.keygen.NonpartitionedKeyGenerator"},
    "by time": {**TRIPS, **TIMED},
    "no meta fields": {**TRIPS, "hoodie.populate.meta.fields": "false", OPERATION: "bulk_insert"},
    "dropped columns, database, UTC": {
        **TRIPS,
        "hoodie.datasource.write.drop.partition.columns": "true",
        "hoodie.database.name": "db",
        "hoodie.table.timeline.timezone": "UTC",
    },
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_new_table_has_the_same_properties(us: Penstock, hudi015: Oracle, tmp_path: Path, name: str) -> None:
    batch = HISTORY[0][2]
    for who, side in (("us", us), ("hudi", hudi015)):
        side.write(tmp_path / who, batch, {"hoodie.metadata.enable": "false", **PROPERTIES[name]}, mode="overwrite")
    ours, theirs = (read_properties((tmp_path / who / ".hoodie" / "hoodie.properties").read_bytes()) for who in ("us", "hudi"))
    kept = {key: value for key, value in PROPERTIES[name].items() if key == KIND_OF_TIME}
    assert ours == {**theirs, **kept}
    assert hudi015.table_config(tmp_path / "us") == {**hudi015.table_config(tmp_path / "hudi"), **kept}
    folders = [{p.name for p in (tmp_path / who / ".hoodie").iterdir() if p.is_dir()} for who in ("us", "hudi")]
    assert folders[0] == folders[1] | {".heartbeat"}  # Hudi creates it under the lazy policy for failed writes
