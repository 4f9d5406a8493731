"""Checks combinations of options that contradict each other.

The checks need nothing but options. `check_combinations` is called with the properties of the table, overridden by the options of
the write. So a record key in `hoodie.properties` counts as set. Each check returns the text of a problem, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.errors import OptionError
from penstock.options.clean import CLEANER_POLICY, cleaning_policy, retentions_given
from penstock.options.clustering import CLUSTERING_INLINE, CLUSTERING_SCHEDULE_INLINE
from penstock.options.compaction import COMPACT_INLINE, COMPACT_SCHEDULE_INLINE
from penstock.options.concurrency import (
    CONCURRENCY_MODE,
    EARLY_CONFLICT_DETECTION,
    EARLY_CONFLICT_STRATEGY,
    LOCK_CONFLICT_STRATEGY,
)
from penstock.options.index import BUCKET_COUNT, BUCKET_ENGINE, BUCKET_HASH_FIELDS, INDEX_TYPE, MOST_BUCKETS
from penstock.options.keys import KEY_GENERATOR_CLASS, KEY_GENERATOR_TYPE, RECORD_KEY_FIELD
from penstock.options.layout import STORAGE_LAYOUT_PARTITIONER, STORAGE_LAYOUT_TYPE
from penstock.options.operation import Operation
from penstock.options.option import Option, Options, to_raw, words
from penstock.options.table import POPULATE_META_FIELDS, STORED_PRECOMBINE_FIELD, STORED_RECORD_KEY_FIELDS, STORED_TABLE_TYPE
from penstock.options.timeline import FAILED_WRITES_POLICY, KEEP_MAX_COMMITS, KEEP_MIN_COMMITS
from penstock.options.write import (
    BULK_INSERT_SORT_MODE,
    COMBINE_BEFORE_INSERT,
    INSERT_DROP_DUPLICATES,
    INSERT_DUP_POLICY,
    MERGE_ALLOW_DUPLICATE_ON_INSERTS,
    OPERATION,
    PAYLOAD_DELETE_FIELD,
    PAYLOAD_DELETE_MARKER,
    PRECOMBINE_FIELD,
    ROW_WRITER_ENABLE,
    TABLE_TYPE,
)

#: Key generators, by class name and by type, whose record keys can be computed from the columns if the meta columns are empty.
_WITHOUT_META_FIELDS: Final = ("Simple", "Nonpartitioned", "Complex")
_TYPES_WITHOUT_META_FIELDS: Final = ("SIMPLE", "NON_PARTITION", "COMPLEX")
#: Strategies of early conflict detection, and of conflicts at the commit, by class name.
_EARLY_CONFLICT_STRATEGIES: Final = (
    "SimpleDirectMarkerBasedDetectionStrategy",
    "SimpleTransactionDirectMarkerBasedDetectionStrategy",
    "AsyncTimelineServerBasedDetectionStrategy",
)
_BUCKET_STRATEGY: Final = "BucketIndexConcurrentFileWritesConflictResolutionStrategy"
_CONFLICT_STRATEGIES: Final = (
    "SimpleConcurrentFileWritesConflictResolutionStrategy",
    _BUCKET_STRATEGY,
    "PreferWriterConflictResolutionStrategy",
)


def check_combinations(options: Options) -> None:
    """Raise OptionError if options contradict each other. The message lists all contradictions."""
    problems = []
    for check in _CHECKS:
        problem = check(options)
        if problem is not None:
            problems.append(problem)
    if problems:
        raise OptionError("; ".join(problems))


def _commits_to_keep(options: Options) -> str | None:
    """Check that hoodie.keep.max.commits is greater than hoodie.keep.min.commits. Returns the problem; None if there is none.

    Other cleaning policies than KEEP_LATEST_COMMITS are not checked.
    """
    most = options[KEEP_MAX_COMMITS]
    least = options[KEEP_MIN_COMMITS]
    if cleaning_policy(options) != "KEEP_LATEST_COMMITS" or most > least:
        return None
    return f"{KEEP_MAX_COMMITS.key}={most} must be greater than {KEEP_MIN_COMMITS.key}={least}: raise the first"


def _two_retentions(options: Options) -> str | None:
    """Check that at most one retention option is set, if no cleaning policy is. Returns the problem; None if there is none.

    Retention options say how much a clean keeps, such as hoodie.cleaner.commits.retained.
    """
    given = [f"{option.key}={options[option]}" for option, _ in retentions_given(options)]
    if options.is_set(CLEANER_POLICY) or len(given) < 2:
        return None
    return f"{' and '.join(given)} ask for different policies of cleaning: give one of them, or {CLEANER_POLICY.key}"


def _two_compactions(options: Options) -> str | None:
    """Check that a write does not both run and only schedule a compaction. Returns the problem; None if there is none."""
    if options[COMPACT_INLINE] and options[COMPACT_SCHEDULE_INLINE]:
        return f"{COMPACT_INLINE.key} and {COMPACT_SCHEDULE_INLINE.key} are both true: choose one"
    return None


def _two_clusterings(options: Options) -> str | None:
    """Check that a write does not both run and only schedule a clustering. Returns the problem; None if there is none."""
    if options[CLUSTERING_INLINE] and options[CLUSTERING_SCHEDULE_INLINE]:
        return f"{CLUSTERING_INLINE.key} and {CLUSTERING_SCHEDULE_INLINE.key} are both true: choose one"
    return None


def _early_conflicts(options: Options) -> str | None:
    """Check that early conflict detection is only set with several writers. Returns the problem; None if there is none."""
    if not options[EARLY_CONFLICT_DETECTION]:
        return None
    if options[CONCURRENCY_MODE] == "SINGLE_WRITER":
        return f"{EARLY_CONFLICT_DETECTION.key}=true needs {CONCURRENCY_MODE.key}=OPTIMISTIC_CONCURRENCY_CONTROL"
    strategy = options[EARLY_CONFLICT_STRATEGY]
    if strategy is None or strategy.rpartition(".")[2] in _EARLY_CONFLICT_STRATEGIES:
        return None
    return f"{EARLY_CONFLICT_STRATEGY.key}={strategy} is not supported: leave it out, and the kind of markers decides"


def _eager_rollback(options: Options) -> str | None:
    """Check that several writers do not roll back failed writes eagerly. Returns the problem; None if there is none.

    An eager rollback would also undo the pending writes of the other writers.
    """
    is_eager = options.is_set(FAILED_WRITES_POLICY) and options[FAILED_WRITES_POLICY].upper() == "EAGER"
    if is_eager and options[CONCURRENCY_MODE].upper() == "OPTIMISTIC_CONCURRENCY_CONTROL":
        return (
            f"{FAILED_WRITES_POLICY.key}=EAGER would roll back the other writers of {CONCURRENCY_MODE.key}="
            "OPTIMISTIC_CONCURRENCY_CONTROL: set it to LAZY, or leave it out"
        )
    return None


def _index_of_several_writers(options: Options) -> str | None:
    """Check that several writers do not use the HBase index. Returns the problem; None if there is none.

    If a write lost a conflict, the entries that it put in HBase would stay.
    """
    if options[CONCURRENCY_MODE].upper() != "OPTIMISTIC_CONCURRENCY_CONTROL" or options[INDEX_TYPE].upper() != "HBASE":
        return None
    return (
        f"{INDEX_TYPE.key}=HBASE cannot be used by several writers, because entries of a write that loses a conflict would stay: "
        f"use another index, or {CONCURRENCY_MODE.key}=SINGLE_WRITER"
    )


def _conflict_strategy(options: Options) -> str | None:
    """Check that Penstock has the conflict strategy that is set. Returns the problem; None if there is none.

    The strategy for buckets also needs the bucket index. With a single writer nothing is checked.
    """
    strategy = options[LOCK_CONFLICT_STRATEGY]
    if strategy is None or options[CONCURRENCY_MODE].upper() != "OPTIMISTIC_CONCURRENCY_CONTROL":
        return None
    name = strategy.rpartition(".")[2]
    if name == _BUCKET_STRATEGY and options[INDEX_TYPE].upper() != "BUCKET":
        return f"{LOCK_CONFLICT_STRATEGY.key}={strategy} needs {INDEX_TYPE.key}=BUCKET: leave it out, and the index decides"
    if name in _CONFLICT_STRATEGIES:
        return None
    return f"{LOCK_CONFLICT_STRATEGY.key}={strategy} is not supported: leave it out, and the index decides"


def _generated_keys(options: Options) -> str | None:
    """Check that no option needs record key columns if the writer generates keys. Returns the problem; None if there is none."""
    if _record_key(options):
        return None
    clashes = [option.key + "=true" for option in (COMBINE_BEFORE_INSERT, INSERT_DROP_DUPLICATES) if options[option]]
    if not options[POPULATE_META_FIELDS]:
        clashes.append(f"{POPULATE_META_FIELDS.key}=false")
    if not clashes:
        return None
    return f"without {RECORD_KEY_FIELD.key} keys are generated, and {' and '.join(clashes)} needs real ones: name the key"


def _drop_duplicates_in_bulk_insert(options: Options) -> str | None:
    """Check that a bulk insert with the row writer does not drop duplicates. Returns the problem; None if there is none."""
    if options[OPERATION] is not Operation.BULK_INSERT or not options[INSERT_DROP_DUPLICATES] or not options[ROW_WRITER_ENABLE]:
        return None
    return (
        f"{INSERT_DROP_DUPLICATES.key}=true does not work with {OPERATION.key}=bulk_insert: "
        f"use insert, or set {ROW_WRITER_ENABLE.key}=false"
    )


def _sort_mode(options: Options) -> str | None:
    """Check that a sorted bulk insert is into a table with meta columns. Returns the problem; None if there is none.

    The meta columns are needed because the rows are sorted by them.
    """
    mode = options[BULK_INSERT_SORT_MODE]
    if options[OPERATION] is not Operation.BULK_INSERT or mode == "NONE" or options[POPULATE_META_FIELDS]:
        return None
    return f"{BULK_INSERT_SORT_MODE.key}={mode} sorts by meta columns and needs {POPULATE_META_FIELDS.key}=true"


def _key_generator_without_meta_fields(options: Options) -> str | None:
    """Check that a table without meta columns has a key generator that needs none. Returns the problem; None if there is none.

    Only simple, non-partitioned and complex key generators need none.
    """
    if options[POPULATE_META_FIELDS]:
        return None
    name = options[KEY_GENERATOR_CLASS]
    kind = options[KEY_GENERATOR_TYPE]
    if name:
        short = name.rpartition(".")[2].replace("AvroKeyGenerator", "").replace("KeyGenerator", "")
        is_allowed = short in _WITHOUT_META_FIELDS
    else:
        is_allowed = kind is None or kind in _TYPES_WITHOUT_META_FIELDS
    if is_allowed:
        return None
    return f"{POPULATE_META_FIELDS.key}=false works with simple, non-partitioned and complex keys only, not {name or kind}"


def _bucket_hash_fields(options: Options) -> str | None:
    """Check that the bucket index hashes columns of the record key. Returns the problem; None if there is none."""
    fields = options[BUCKET_HASH_FIELDS]
    key = _record_key(options)
    if options[INDEX_TYPE] != "BUCKET" or not key or set(fields) <= set(key):
        return None
    return f"{BUCKET_HASH_FIELDS.key}={to_raw(fields)} must be columns of the record key {to_raw(key)}"


def _buckets(options: Options) -> str | None:
    """Check that a bucket index has a record key and not too many buckets. Returns the problem; None if there is none."""
    if options[INDEX_TYPE] != "BUCKET":
        return None
    if not _record_key(options):
        return f"{INDEX_TYPE.key}=BUCKET needs {RECORD_KEY_FIELD.key}: buckets are chosen by the key"
    if options[BUCKET_COUNT] > MOST_BUCKETS:
        return (
            f"{BUCKET_COUNT.key}={options[BUCKET_COUNT]} are too many, each is a file group of every partition: {MOST_BUCKETS} "
            "at most; a bucket of 1 GB is a good size"
        )
    return None


def _consistent_hashing(options: Options) -> str | None:
    """Check that consistent hashing is only used for merge-on-read tables. Returns the problem; None if there is none."""
    if options[INDEX_TYPE] != "BUCKET" or options[BUCKET_ENGINE] != "CONSISTENT_HASHING":
        return None
    if options[TABLE_TYPE] != "COPY_ON_WRITE":
        return None
    return f"{BUCKET_ENGINE.key}=CONSISTENT_HASHING needs a merge-on-read table: use SIMPLE"


def _bucket_layout(options: Options) -> str | None:
    """Check that the bucket layout is only set with the bucket index. Returns the problem; None if there is none.

    The layout is set by hoodie.storage.layout.type=BUCKET, or by naming a partitioner of that layout.
    """
    if options[INDEX_TYPE] == "BUCKET":
        return None
    if options[STORAGE_LAYOUT_TYPE] == "BUCKET":
        given = f"{STORAGE_LAYOUT_TYPE.key}=BUCKET"
    elif options[STORAGE_LAYOUT_PARTITIONER]:
        given = f"{STORAGE_LAYOUT_PARTITIONER.key}={options[STORAGE_LAYOUT_PARTITIONER]}"
    else:
        return None
    return f"{given} is for the bucket index: set {INDEX_TYPE.key}=BUCKET, or leave it out"


def _duplicate_policy(options: Options) -> str | None:
    """Check that the two options for duplicate keys in an insert agree. Returns the problem; None if there is none.

    The options are hoodie.datasource.insert.dup.policy and hoodie.merge.allow.duplicate.on.inserts. In Hudi an insert with
    another policy than `fail` appends rows to small files, even if the second option is false.
    """
    policy = options[INSERT_DUP_POLICY]
    if options[OPERATION] is not Operation.INSERT or not options.is_set(INSERT_DUP_POLICY) or policy == "fail":
        return None
    if options[MERGE_ALLOW_DUPLICATE_ON_INSERTS]:
        return None
    return f"{INSERT_DUP_POLICY.key}={policy} contradicts {MERGE_ALLOW_DUPLICATE_ON_INSERTS.key}=false: leave one out"


def _delete_marker(options: Options) -> str | None:
    """Check that the payload's delete field has a delete marker. Returns the problem; None if there is none."""
    if options[PAYLOAD_DELETE_FIELD] is None or options[PAYLOAD_DELETE_MARKER] is not None:
        return None
    return f"{PAYLOAD_DELETE_FIELD.key} needs {PAYLOAD_DELETE_MARKER.key}: the value that means delete"


def _two_names_for_one_thing(options: Options) -> str | None:
    """Check that a write option and its table property agree if both are set. Returns the problem; None if there is none.

    An example is hoodie.datasource.write.recordkey.field and hoodie.table.recordkey.fields.
    """
    pairs: tuple[tuple[Option[Any], Option[Any]], ...] = (
        (RECORD_KEY_FIELD, STORED_RECORD_KEY_FIELDS),
        (PRECOMBINE_FIELD, STORED_PRECOMBINE_FIELD),
        (TABLE_TYPE, STORED_TABLE_TYPE),
    )
    for write_option, stored_option in pairs:
        text = options.raw.get(write_option.key)
        stored_text = options.raw.get(stored_option.key)
        if text is not None and stored_text is not None and words(text) != words(stored_text):
            return f"{write_option.key}={text} and {stored_option.key}={stored_text} contradict each other: leave out the second"
    return None


def _record_key(options: Options) -> tuple[str, ...]:
    """Return the columns of the record key; empty if keys are generated.

    They are in `hoodie.datasource.write.recordkey.field` if the write sets it, otherwise in `hoodie.table.recordkey.fields`.
    """
    return words(options[RECORD_KEY_FIELD] or "") or options[STORED_RECORD_KEY_FIELDS]


_CHECKS: Final[tuple[Callable[[Options], str | None], ...]] = (
    _commits_to_keep,
    _two_retentions,
    _two_compactions,
    _two_clusterings,
    _early_conflicts,
    _eager_rollback,
    _conflict_strategy,
    _index_of_several_writers,
    _generated_keys,
    _drop_duplicates_in_bulk_insert,
    _sort_mode,
    _key_generator_without_meta_fields,
    _bucket_hash_fields,
    _buckets,
    _consistent_hashing,
    _bucket_layout,
    _duplicate_policy,
    _delete_marker,
    _two_names_for_one_thing,
)
