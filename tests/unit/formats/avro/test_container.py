"""Avro files of the timeline, against files that Hudi wrote."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CorruptFile
from penstock.formats.avro.container import read_container, write_container
from penstock.formats.avro.timeline_schemas import NAMESPACE, SCHEMAS
from tests.unit.golden import golden_files

FOLDER = Path(__file__).resolve().parents[3] / "data" / "timeline"
REPLACE = "20250121000702475.replacecommit.requested"


def real_file(name: str) -> bytes:
    if name == REPLACE:
        return next(iter(golden_files("mor_parquet_v6_simplekeygen_nonhivestyle_overwritetable", REPLACE).values()))
    return (FOLDER / name).read_bytes()


def bare(schema: Any) -> Any:
    """Return a schema without comments, with references to other records by full name."""
    if isinstance(schema, list):
        return [bare(part) for part in schema]
    if isinstance(schema, dict):
        return {key: bare(part) for key, part in schema.items() if key != "doc"}
    return f"{NAMESPACE}.{schema}" if schema in SCHEMAS and schema != "name" else schema


def filled(kind: Any, named: dict[str, Any]) -> Any:
    """Return a value of an Avro type in which every field is set."""
    if isinstance(kind, list):
        return filled(next(branch for branch in kind if branch != "null"), named)
    if isinstance(kind, str):
        simple = {"string": "text é", "int": -7, "long": 1 << 40, "double": 0.5, "boolean": True}
        return simple[kind] if kind in simple else filled(named[kind.rpartition(".")[2]], named)
    if kind["type"] == "record":
        named[kind["name"]] = kind
        return {field["name"]: filled(field["type"], named) for field in kind["fields"]}
    if kind["type"] == "array":
        return [filled(kind["items"], named)] * 2
    if kind["type"] == "map":
        return {"": filled(kind["values"], named), "p=1/é": filled(kind["values"], named)}
    return filled(kind["type"], named)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_record_with_every_field_is_read_back(name: str) -> None:
    record = filled(SCHEMAS[name], {})

    assert read_container(write_container(name, record)) == record


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_record_with_only_required_fields_is_read_back_with_its_defaults(name: str) -> None:
    fields = {field["name"]: field for field in SCHEMAS[name]["fields"]}
    needed = {key: filled(field["type"], {}) for key, field in fields.items() if "default" not in field}

    record = read_container(write_container(name, needed))

    assert record == {key: needed.get(key, field.get("default")) for key, field in fields.items()}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_same_record_is_always_written_as_the_same_bytes(name: str) -> None:
    record = filled(SCHEMAS[name], {})

    assert write_container(name, record) == write_container(name, record)


@pytest.mark.parametrize("name", [REPLACE, "20250126040936578.rollback", "20250126040936578.rollback.requested"])
def test_our_schema_is_the_one_in_a_file_of_hudi(name: str) -> None:
    theirs = json.loads(fastavro.reader(io.BytesIO(real_file(name))).metadata["avro.schema"])

    assert bare(SCHEMAS[theirs["name"]]) == bare(theirs)


def test_an_insert_overwrite_request_of_hudi_is_all_null() -> None:
    assert read_container(real_file(REPLACE)) == {
        "operationType": None,
        "clusteringPlan": None,
        "extraMetadata": None,
        "version": None,
    }


def test_a_rollback_plan_of_hudi_is_read() -> None:
    plan = read_container(real_file("20250126040936578.rollback.requested"))

    assert plan["instantToRollback"] == {"commitTime": "20250126040826878", "action": "deltacommit"}
    assert [request["fileId"] for request in plan["RollbackRequests"]] == ["", "0712b9f9-d2d5-4cae-bcf4-8fd7146af503-0"]
    assert plan["version"] == 1


def test_a_rollback_result_of_hudi_is_read() -> None:
    result = read_container(real_file("20250126040936578.rollback"))

    assert result["commitsRollback"] == ["20250126040826878"]
    assert result["totalFilesDeleted"] == 1
    assert list(result["partitionMetadata"]) == [""]
    assert len(result["partitionMetadata"][""]["rollbackLogFiles"]) == 1


def test_a_plan_of_hudi_is_the_same_after_penstock_wrote_it() -> None:
    plan = read_container(real_file("20250126040936578.rollback.requested"))

    assert read_container(write_container("HoodieRollbackPlan", plan)) == plan


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("20251220210129235.compaction.requested", ["missingSchedulePartitions"]),
        ("20251220210117766.indexing.requested", ["indexPartitionInfos", 0, "extraMetadata"]),
        ("20260307162454799.clustering.requested", ["clusteringPlan", "missingSchedulePartitions"]),
    ],
)
def test_fields_of_a_newer_writer_are_kept(name: str, path: list[Any]) -> None:
    value: Any = read_container(real_file(name))

    for step in path[:-1]:
        value = value[step]
    assert path[-1] in value


def test_fields_that_an_older_writer_did_not_know_get_their_defaults_at_every_depth() -> None:
    def without(schema: Any, name: str) -> Any:
        return {**schema, "fields": [field for field in schema["fields"] if field["name"] != name]}

    old = without(without(SCHEMAS["HoodieCleanMetadata"], "extraMetadata"), "bootstrapPartitionMetadata")
    fields = {field["name"]: dict(field) for field in old["fields"]}
    partition = without(SCHEMAS["HoodieCleanPartitionMetadata"], "isPartitionDeleted")
    fields["partitionMetadata"]["type"] = {"type": "map", "values": partition}
    record = filled(old, {})
    out = io.BytesIO()
    fastavro.writer(out, {**old, "fields": list(fields.values())}, [record])

    read = read_container(out.getvalue())

    assert read["extraMetadata"] is None
    assert read["bootstrapPartitionMetadata"] is None
    assert {part["isPartitionDeleted"] for part in read["partitionMetadata"].values()} == {None}


def test_two_reads_do_not_share_their_defaults() -> None:
    data = write_container("HoodieRestorePlan", {})
    read_container(data)["instantsToRollback"].append("changed")

    assert read_container(data)["instantsToRollback"] == []


def test_a_compressed_file_is_read() -> None:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMAS["HoodieInstantInfo"], [{"commitTime": "1", "action": "commit"}], codec="deflate")

    assert read_container(out.getvalue()) == {"commitTime": "1", "action": "commit"}


def test_a_misspelt_field_is_not_written() -> None:
    with pytest.raises(ValueError, match="rollbackRequests"):
        write_container("HoodieRollbackPlan", {"rollbackRequests": []})


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_without_exactly_one_record_is_a_corrupt_file(count: int) -> None:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMAS["HoodieInstantInfo"], [{"commitTime": "1", "action": "commit"}] * count)

    with pytest.raises(CorruptFile, match=f"holds {count}"):
        read_container(out.getvalue())


@pytest.mark.parametrize("data", [b"", b"{}", b"Obj\x01", b"\x00" * 100])
def test_bytes_that_are_not_avro_are_a_corrupt_file(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        read_container(data)


def test_a_truncated_file_is_a_corrupt_file() -> None:
    data = write_container("HoodieRollbackPlan", filled(SCHEMAS["HoodieRollbackPlan"], {}))

    for length in range(len(data)):
        with pytest.raises(CorruptFile):
            read_container(data[:length])


@given(st.data())
def test_a_damaged_file_is_read_or_raises_corrupt_file(data: st.DataObject) -> None:
    good = bytearray(write_container("HoodieInstantInfo", {"commitTime": "1", "action": "commit"}))
    good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))

    try:
        record = read_container(bytes(good))
    except CorruptFile:
        return
    assert isinstance(record, dict)
