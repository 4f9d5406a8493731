"""By which rules a table's slices are merged, as its properties say; and tables that real Hudi wrote, merged by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import OptionError, Unsupported
from penstock.filegroup.slice_rows import MergeRules, read_merged_rows
from penstock.merge.operation_column import WithOperation
from penstock.merge.overwrite import EventTimeOrdering, OverwriteWithLatest
from penstock.merge.partial import OverwriteNonDefaults
from penstock.options import Options
from penstock.schema import META_COLUMNS, OPERATION_COLUMN, arrow_to_avro, avro_text
from penstock.storage import MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.listing import list_merged_slices
from penstock.table.merge_rules import build_merge_rules
from penstock.table.state import TableState, open_table, read_table_schema
from penstock.timeline.timeline import Timeline
from tests.kit.golden import unpack_golden
from tests.kit.readers import hudi_rs_rows, rows_of

MODEL = "org.apache.hudi.common.model."
COLUMNS = [("id", pa.string()), ("ts", pa.int64()), ("s", pa.struct([("at", pa.int64())]))]
SCHEMA = avro_text(arrow_to_avro(pa.schema(COLUMNS), "t"))


def rules(options: dict[str, str] | None = None, schema: str = SCHEMA, **properties: str) -> MergeRules:
    raw = {"hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ"} | {
        k.replace("__", "."): v for k, v in properties.items()
    }
    timeline = Timeline.from_names(["1.deltacommit", "2.deltacommit.inflight"])
    return build_merge_rules(TableState(MemoryStorage("m"), "/t", TableConfig(raw), Options(options or {}), timeline), schema)


def test_the_payload_is_that_of_the_table_and_overwrites_by_default() -> None:
    assert rules().merger == OverwriteWithLatest()
    named = {"hoodie__compaction__payload__class": f"{MODEL}DefaultHoodieRecordPayload", "hoodie__table__precombine__field": "ts"}
    assert rules(**named).merger == EventTimeOrdering("ts")
    ignored = {"hoodie.datasource.write.payload.class": f"{MODEL}EmptyHoodieRecordPayload"}
    assert rules(ignored, **named).merger == EventTimeOrdering("ts")


def test_a_payload_that_is_not_known_is_refused() -> None:
    with pytest.raises(OptionError, match=r"my\.Payload"):
        rules(hoodie__compaction__payload__class="my.Payload")


def test_log_records_are_ordered_by_a_column_of_the_table_and_only_with_our_payloads_by_a_field_inside_a_struct() -> None:
    payload = f"{MODEL}DefaultHoodieRecordPayload"
    assert rules().ordering is None
    assert rules(hoodie__table__precombine__field="ts").ordering == "ts"
    assert rules(hoodie__table__precombine__field="gone").ordering is None
    inside = rules(hoodie__table__precombine__field="s.at", hoodie__compaction__payload__class=payload)
    assert inside.ordering is None
    assert inside.merger == EventTimeOrdering("s.at")
    assert rules(hoodie__table__precombine__field="s.at", hoodie__compaction__payload__class="penstock.masked").ordering == "s.at"
    assert rules(hoodie__table__precombine__field="s.no", hoodie__compaction__payload__class="penstock.masked").ordering is None


def test_the_options_name_the_ordering_column_only_if_the_table_has_none() -> None:
    given = {"hoodie.datasource.write.precombine.field": "ts"}
    assert rules(given).ordering == "ts"
    assert rules(given, hoodie__table__precombine__field="id").ordering == "id"


def test_only_committed_instants_are_seen() -> None:
    times = rules().times
    assert [times.sees(at) for at in ("0", "1", "2", "3")] == [True, True, False, False]


def test_rows_have_the_meta_columns_and_the_sixth_one_where_the_table_has_it() -> None:
    assert rules().arrow.names == [*META_COLUMNS, "id", "ts", "s"]
    more = avro_text(arrow_to_avro(pa.schema([(OPERATION_COLUMN, pa.string()), *COLUMNS]), "t"))
    found = rules(schema=more)
    assert found.arrow.names == [*META_COLUMNS, OPERATION_COLUMN, "id", "ts", "s"]
    assert found.merger == WithOperation(OverwriteWithLatest())


def test_a_payload_that_needs_defaults_of_columns_gets_them() -> None:
    schema = '{"type":"record","name":"r","fields":[{"name":"a","type":"int","default":7},{"name":"b","type":["null","int"],"default":null}]}'
    payload = f"{MODEL}OverwriteNonDefaultsWithLatestAvroPayload"
    assert rules(schema=schema, hoodie__compaction__payload__class=payload).merger == OverwriteNonDefaults((("a", 7),))


def test_a_table_that_keeps_no_record_keys_is_merged_by_the_column_they_are_made_of() -> None:
    bare = {"hoodie__populate__meta__fields": "false"}
    assert rules().key == "_hoodie_record_key"
    assert [rules(**bare, hoodie__table__recordkey__fields=name).key for name in ("id", "ts")] == ["id", "ts"]


@pytest.mark.parametrize("fields", ["id,ts", "s", "s.at", "gone", ""])
def test_a_table_that_keeps_no_record_keys_is_refused_where_they_are_not_the_texts_of_one_column(fields: str) -> None:
    with pytest.raises(Unsupported, match=r"populate\.meta\.fields=false.*read_optimized"):
        rules(hoodie__populate__meta__fields="false", hoodie__table__recordkey__fields=fields)


def snapshot(table: TableState) -> list[dict[str, Any]]:
    schema = read_table_schema(table)
    assert schema is not None
    given = build_merge_rules(table, schema)
    slices = [one for its in list_merged_slices(table).values() for one in its]
    return rows_of(pa.concat_tables(t for one in slices for t in read_merged_rows(table.storage, one, given)), meta=True)


@pytest.mark.parametrize(
    ("name", "rows", "log_files"),
    [
        ("mor_parquet_v6_nonpartitioned", 4, 1),
        ("mor_parquet_v6_simplekeygen_nonhivestyle_overwritetable", 1, 0),
        ("trips_mor_avro_v6_trips_8i1u", 8, 1),
    ],
)
def test_the_slices_of_a_real_table_give_the_rows_that_hudi_rs_reads(
    tmp_path: Path, name: str, rows: int, log_files: int
) -> None:
    path = str(unpack_golden(name, tmp_path))
    table = open_table(path)
    assert sum(len(one.log_files) for its in list_merged_slices(table).values() for one in its) == log_files
    found = snapshot(table)
    assert len(found) == rows
    assert found == rows_of(hudi_rs_rows(path), meta=True)
