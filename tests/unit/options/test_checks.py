"""Options that contradict each other are refused; each alone is not."""

from __future__ import annotations

import pytest

from penstock.errors import OptionError
from penstock.options import (
    BULK_INSERT_SORT_MODE,
    COMBINE_BEFORE_INSERT,
    INSERT_DROP_DUPLICATES,
    KEEP_MAX_COMMITS,
    KEEP_MIN_COMMITS,
    OPERATION,
    POPULATE_META_FIELDS,
    RECORD_KEY_FIELD,
    ROW_WRITER_ENABLE,
    Options,
    check_combinations,
)

KEYED = {RECORD_KEY_FIELD.key: "id"}
BULK = {**KEYED, OPERATION.key: "bulk_insert"}
CLASS = "hoodie.datasource.write.keygenerator.class"
KIND = "hoodie.datasource.write.keygenerator.type"
KEYGEN = "org.apache.hudi.keygen."
LAYOUT = "hoodie.storage.layout.partitioner.class"
POLICY = "hoodie.datasource.insert.dup.policy"
KEEPS_DUPLICATES = "hoodie.merge.allow.duplicate.on.inserts"

REFUSED = [
    ({**KEYED, KEEP_MAX_COMMITS.key: "20"}, "hoodie.keep.max.commits=20 must be greater"),
    ({**KEYED, KEEP_MIN_COMMITS.key: "30"}, "hoodie.keep.min.commits=30"),
    ({**KEYED, "hoodie.compact.inline": "true", "hoodie.compact.schedule.inline": "true"}, "choose one"),
    ({**KEYED, "hoodie.clustering.inline": "true", "hoodie.clustering.schedule.inline": "true"}, "choose one"),
    ({**KEYED, "hoodie.write.concurrency.early.conflict.detection.enable": "true"}, "OPTIMISTIC_CONCURRENCY_CONTROL"),
    (
        {
            **KEYED,
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.cleaner.policy.failed.writes": "EAGER",
        },
        "set it to LAZY, or leave it out",
    ),
    ({COMBINE_BEFORE_INSERT.key: "true"}, "keys are generated"),
    ({INSERT_DROP_DUPLICATES.key: "true"}, "keys are generated"),
    ({POPULATE_META_FIELDS.key: "false"}, "keys are generated"),
    ({**BULK, INSERT_DROP_DUPLICATES.key: "true"}, "use insert, or set"),
    ({**BULK, POPULATE_META_FIELDS.key: "false", BULK_INSERT_SORT_MODE.key: "GLOBAL_SORT"}, "sorts by meta columns"),
    ({**KEYED, POPULATE_META_FIELDS.key: "false", CLASS: f"{KEYGEN}CustomKeyGenerator"}, "CustomKeyGenerator"),
    ({**KEYED, POPULATE_META_FIELDS.key: "false", KIND: "TIMESTAMP"}, "not TIMESTAMP"),
    (
        {**KEYED, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.hash.field": "city"},
        "columns of the record key id",
    ),
    ({**KEYED, "hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, "merge-on-read"),
    (
        {**KEYED, "hoodie.storage.layout.type": "BUCKET"},
        "layout.type=BUCKET is for the bucket index: set hoodie.index.type=BUCKET",
    ),
    ({**KEYED, LAYOUT: "x.SparkBucketIndexPartitioner"}, "is for the bucket index: set hoodie.index.type=BUCKET"),
    ({**KEYED, OPERATION.key: "insert", POLICY: "drop", KEEPS_DUPLICATES: "false"}, "policy=drop contradicts .*: leave one out"),
    ({**KEYED, "hoodie.payload.delete.field": "op"}, "needs hoodie.payload.delete.marker"),
    ({**KEYED, "hoodie.table.recordkey.fields": "uuid"}, "contradict each other: leave out the second"),
    (
        {"hoodie.cleaner.commits.retained": "3", "hoodie.cleaner.hours.retained": "5"},
        r"commits\.retained=3 and hoodie\.cleaner\.hours\.retained=5 ask for different .* or hoodie\.cleaner\.policy",
    ),
]

FINE = [
    {},
    KEYED,
    {**KEYED, "hoodie.index.type": "BUCKET", "hoodie.storage.layout.type": "BUCKET", LAYOUT: "x.SparkBucketIndexPartitioner"},
    {**KEYED, OPERATION.key: "insert", POLICY: "fail", KEEPS_DUPLICATES: "false"},
    {**KEYED, OPERATION.key: "upsert", POLICY: "drop", KEEPS_DUPLICATES: "false"},
    {**KEYED, OPERATION.key: "insert", POLICY: "drop"},
    {**KEYED, KEEP_MAX_COMMITS.key: "20", "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"},
    {**KEYED, KEEP_MAX_COMMITS.key: "20", "hoodie.cleaner.hours.retained": "12"},
    {**KEYED, KEEP_MAX_COMMITS.key: "21"},
    {
        "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
        "hoodie.cleaner.commits.retained": "3",
        "hoodie.cleaner.fileversions.retained": "5",
    },
    {**KEYED, COMBINE_BEFORE_INSERT.key: "true", INSERT_DROP_DUPLICATES.key: "true"},
    {"hoodie.table.recordkey.fields": "id", COMBINE_BEFORE_INSERT.key: "true"},
    {**KEYED, "hoodie.table.recordkey.fields": "id"},
    {**BULK, INSERT_DROP_DUPLICATES.key: "true", ROW_WRITER_ENABLE.key: "false"},
    {**BULK, BULK_INSERT_SORT_MODE.key: "GLOBAL_SORT"},
    {**BULK, POPULATE_META_FIELDS.key: "false"},
    {**KEYED, POPULATE_META_FIELDS.key: "false", CLASS: f"{KEYGEN}ComplexAvroKeyGenerator"},
    {**KEYED, POPULATE_META_FIELDS.key: "false", KIND: "NON_PARTITION"},
    {**KEYED, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.hash.field": "id"},
    {**KEYED, "hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"},
]


@pytest.mark.parametrize(("raw", "message"), REFUSED)
def test_a_contradiction_is_an_error_that_names_both_sides(raw: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_combinations(Options(raw))


@pytest.mark.parametrize("raw", FINE)
def test_options_that_fit_together_pass(raw: dict[str, str]) -> None:
    check_combinations(Options(raw))


def test_all_contradictions_are_reported_at_once() -> None:
    raw = {KEEP_MAX_COMMITS.key: "1", COMBINE_BEFORE_INSERT.key: "true"}
    with pytest.raises(OptionError, match=r"hoodie\.keep\.max\.commits=1 .*; without hoodie\.datasource\.write\.recordkey"):
        check_combinations(Options(raw))
