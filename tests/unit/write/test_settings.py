"""The settings of a write: a new table is made from write options, and table properties in the options must agree with them."""

from __future__ import annotations

import re

import pytest

from penstock.errors import OptionError, Unsupported
from penstock.options import read_options
from penstock.table.config import TableConfig
from penstock.write.create_table import table_properties
from penstock.write.settings import WriteSettings, resolve_settings

COLUMNS = frozenset({"id", "city", "ts"})
KEYED = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "insert",
}
KEYGEN = "org.apache.hudi.keygen."
#: Table properties, a value that contradicts the write options, and the write option that decides.
CONTRADICTIONS = [
    ("hoodie.table.recordkey.fields", "city", "hoodie.datasource.write.recordkey.field"),
    ("hoodie.table.recordkey.fields", "id,city", "hoodie.datasource.write.recordkey.field"),
    ("hoodie.table.partition.fields", "id", "hoodie.datasource.write.partitionpath.field"),
    ("hoodie.table.precombine.field", "city", "hoodie.datasource.write.precombine.field"),
    ("hoodie.table.type", "MERGE_ON_READ", "hoodie.datasource.write.table.type"),
    ("hoodie.table.keygenerator.class", f"{KEYGEN}ComplexKeyGenerator", "hoodie.datasource.write.keygenerator.class"),
    ("hoodie.compaction.payload.class", "DefaultHoodieRecordPayload", "hoodie.datasource.write.payload.class"),
]
#: Table properties with the value that the new table gets, in several spellings.
REPETITIONS = [
    ("hoodie.table.recordkey.fields", " id "),
    ("hoodie.table.partition.fields", "city"),
    ("hoodie.table.precombine.field", "ts"),
    ("hoodie.table.type", "copy_on_write"),
    ("hoodie.table.keygenerator.class", f"{KEYGEN}SimpleAvroKeyGenerator"),
    ("hoodie.compaction.payload.class", "OverwriteWithLatestAvroPayload"),
]


def new_table(options: dict[str, str]) -> WriteSettings:
    return resolve_settings(read_options(options), None, COLUMNS)


@pytest.mark.parametrize(("key", "value", "decides"), CONTRADICTIONS)
def test_a_property_that_contradicts_the_write_options_is_refused(key: str, value: str, decides: str) -> None:
    with pytest.raises(
        OptionError, match=f"'{re.escape(key)}' is '{value}'.* {re.escape(decides)}.* set that option to '{value}'"
    ):
        new_table({**KEYED, key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.recordkey.fields", "id"),
        ("hoodie.table.partition.fields", "city"),
        ("hoodie.table.precombine.field", "ts"),
        ("hoodie.table.keygenerator.class", f"{KEYGEN}SimpleKeyGenerator"),
    ],
)
def test_a_table_property_alone_is_refused_for_a_new_table(key: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"'{re.escape(key)}' is '{value}', but a new table takes it from hoodie.datasource"):
        new_table({"hoodie.table.name": "trips", key: value})


@pytest.mark.parametrize(("key", "value"), REPETITIONS)
def test_a_property_that_repeats_what_a_new_table_gets_is_accepted(key: str, value: str) -> None:
    assert table_properties(new_table({**KEYED, key: value})) == table_properties(new_table(KEYED))


def test_the_stored_partition_columns_have_no_type_suffix() -> None:
    options = {
        **KEYED,
        "hoodie.datasource.write.keygenerator.class": f"{KEYGEN}CustomKeyGenerator",
        "hoodie.datasource.write.partitionpath.field": "city:SIMPLE",
        "hoodie.table.partition.fields": "city",
    }
    assert table_properties(new_table(options))["hoodie.table.partition.fields"] == "city"


def test_a_write_to_a_table_may_repeat_its_properties() -> None:
    stored = table_properties(new_table(KEYED))
    given = {key: stored[key] for key, _ in REPETITIONS if key in stored}
    settings = resolve_settings(read_options({"hoodie.table.name": "trips", **given}), TableConfig(stored), COLUMNS)
    assert (settings.keys.record_key_fields, settings.ordering_field) == (("id",), "ts")


def test_another_folder_for_the_archive_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"'hoodie\.archivelog\.folder' is 'old', which .*: leave it out, a table"):
        new_table({**KEYED, "hoodie.archivelog.folder": "old"})
    assert table_properties(new_table({**KEYED, "hoodie.archivelog.folder": "archived"})) == table_properties(new_table(KEYED))
