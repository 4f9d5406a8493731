"""The catalogue of options is complete and consistent, and `read_options` accepts only what Penstock supports."""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from collections import Counter
from enum import Enum
from typing import Any

import pytest

import penstock.options as package
from penstock.errors import OptionError, Unsupported
from penstock.options import (
    AREAS,
    CATALOGUE,
    INSERT_DROP_DUPLICATES,
    OPERATION,
    PARTITION_PATH_FIELD,
    QUERY_TYPE,
    READ_PARTITION_VALUES,
    RECORD_KEY_FIELD,
    SMALL_FILE_LIMIT,
    STREAMING_START_OFFSET,
    TABLE_TYPE,
    TIMESTAMP_OUTPUT_FORMAT,
    Family,
    IgnoredOptionWarning,
    Option,
    UnknownOptionWarning,
    forget_shown_warnings,
    lookup,
    read_options,
    status,
)
from penstock.options.option import boolean, looks_secret, to_raw

ALL = list(CATALOGUE.values())

# Options that users of Hudi set, with the defaults of Hudi 0.15 on Spark; "-" where there is none.
HUDI = """
hoodie.datasource.write.recordkey.field -
hoodie.datasource.write.partitionpath.field -
hoodie.datasource.write.precombine.field ts
hoodie.datasource.write.payload.class org.apache.hudi.common.model.OverwriteWithLatestAvroPayload
hoodie.datasource.write.keygenerator.class -
hoodie.datasource.write.hive_style_partitioning false
hoodie.datasource.write.operation upsert
hoodie.datasource.write.table.type COPY_ON_WRITE
hoodie.datasource.write.insert.drop.duplicates false
hoodie.datasource.write.commitmeta.key.prefix _
hoodie.datasource.write.streaming.retry.count 3
hoodie.datasource.write.streaming.retry.interval.ms 2000
hoodie.datasource.write.streaming.ignore.failed.batch false
hoodie.table.name -
path -
hoodie.insert.shuffle.parallelism 0
hoodie.upsert.shuffle.parallelism 0
hoodie.bulkinsert.shuffle.parallelism 0
hoodie.delete.shuffle.parallelism 0
hoodie.combine.before.upsert true
hoodie.combine.before.insert false
hoodie.combine.before.delete true
hoodie.datasource.hive_sync.enable false
hoodie.datasource.hive_sync.database default
hoodie.datasource.hive_sync.table unknown
hoodie.datasource.hive_sync.username hive
hoodie.datasource.hive_sync.password hive
hoodie.datasource.hive_sync.jdbcurl jdbc:hive2://localhost:10000
hoodie.datasource.hive_sync.partition_fields -
hoodie.datasource.hive_sync.partition_extractor_class org.apache.hudi.hive.MultiPartKeysValueExtractor
hoodie.index.hbase.zkquorum -
hoodie.index.hbase.zkport -
hoodie.index.hbase.zknode.path -
hoodie.index.hbase.table -
hoodie.index.hbase.get.batch.size 100
hoodie.hbase.index.update.partition.path false
hoodie.index.hbase.put.batch.size.autocompute false
hoodie.index.hbase.rollback.sync false
hoodie.simple.index.update.partition.path true
hoodie.bloom.index.filter.type DYNAMIC_V0
hoodie.parquet.small.file.limit 104857600
hoodie.copyonwrite.record.size.estimate 1024
hoodie.record.size.estimation.threshold 1.0
hoodie.parquet.max.file.size 125829120
hoodie.copyonwrite.insert.split.size 500000
hoodie.copyonwrite.insert.auto.split true
hoodie.memory.spillable.map.path -
hoodie.memory.merge.max.size 1073741824
hoodie.logfile.max.size 1073741824
hoodie.logfile.data.block.max.size 268435456
hoodie.keep.max.commits 30
hoodie.keep.min.commits 20
hoodie.commits.archival.batch 10
hoodie.clean.automatic true
hoodie.clean.async false
hoodie.cleaner.policy KEEP_LATEST_COMMITS
hoodie.cleaner.commits.retained 10
hoodie.cleaner.fileversions.retained 3
hoodie.cleaner.policy.failed.writes EAGER
hoodie.compact.inline false
hoodie.compact.inline.trigger.strategy NUM_COMMITS
hoodie.compact.inline.max.delta.commits 5
hoodie.compact.inline.max.delta.seconds 3600
hoodie.write.commit.callback.on false
hoodie.write.commit.callback.class org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback
hoodie.write.commit.callback.http.url -
hoodie.write.commit.callback.http.api.key hudi_write_commit_http_callback
hoodie.write.commit.callback.http.timeout.seconds 30
hoodie.write.commit.callback.http.custom.headers -
hoodie.write.commit.callback.kafka.bootstrap.servers -
hoodie.write.commit.callback.kafka.topic -
hoodie.write.commit.callback.kafka.partition -
hoodie.write.commit.callback.kafka.acks all
hoodie.write.commit.callback.kafka.retries 3
hoodie.clustering.inline false
hoodie.clustering.inline.max.commits 4
hoodie.clustering.plan.strategy.target.file.max.bytes 1073741824
hoodie.clustering.plan.strategy.small.file.limit 314572800
hoodie.clustering.plan.strategy.sort.columns -
hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions 0
hoodie.clustering.plan.strategy.max.num.groups 30
hoodie.clustering.async.enabled false
hoodie.clustering.async.max.commits 4
payload.class -
hoodie.is.update.record.for.mor -
hoodie.archivelog.folder archived
hoodie.timeline.layout.version 1
hoodie.table.type COPY_ON_WRITE
hoodie.allow.empty.commit true
hoodie.allow.operation.metadata.field false
hoodie.avro.schema.validate false
hoodie.auto.commit true
hoodie.bulkinsert.sort.mode NONE
hoodie.bulkinsert.user.defined.partitioner.class -
hoodie.bulkinsert.user.defined.partitioner.sort.columns -
hoodie.datasource.write.row.writer.enable true
hoodie.datasource.write.drop.partition.columns false
hoodie.datasource.write.partitionpath.urlencode false
hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled false
hoodie.datasource.write.partitions.to.delete -
hoodie.datasource.write.reconcile.schema false
hoodie.write.set.null.for.missing.columns false
hoodie.datasource.write.schema.allow.auto.evolution.column.drop false
hoodie.schema.on.read.enable false
hoodie.datasource.insert.dup.policy none
hoodie.spark.sql.insert.into.operation insert
hoodie.spark.sql.optimized.writes.enable true
hoodie.datasource.overwrite.mode -
hoodie.merge.allow.duplicate.on.inserts true
hoodie.merge.small.file.group.candidates.limit 1
hoodie.merge.data.validation.enabled false
hoodie.write.num.retries.on.conflict.failures 0
hoodie.write.markers.type TIMELINE_SERVER_BASED
hoodie.embed.timeline.server true
hoodie.rollback.using.markers true
hoodie.rollback.instant.backup.enabled false
hoodie.rollback.instant.backup.dir .rollback_backup
hoodie.client.heartbeat.interval_in_ms 60000
hoodie.client.heartbeat.tolerable.misses 2
hoodie.fail.writes.on.inline.table.service.exception true
hoodie.fail.on.timeline.archiving true
hoodie.table.services.enabled true
hoodie.populate.meta.fields true
hoodie.parquet.compression.codec gzip
hoodie.parquet.outputtimestamptype TIMESTAMP_MICROS
hoodie.parquet.writelegacyformat.enabled false
hoodie.logfile.to.parquet.compression.ratio 0.35
hoodie.logfile.data.block.format -
hoodie.memory.merge.fraction 0.6
hoodie.memory.compaction.fraction 0.6
hoodie.common.spillable.diskmap.type BITCASK
hoodie.common.diskmap.compression.enabled true
hoodie.metadata.enable true
hoodie.skip.default.partition.validation false
hoodie.index.type SIMPLE
hoodie.index.class -
hoodie.index.bloom.num_entries 60000
hoodie.index.bloom.fpp 0.000000001
hoodie.bloom.index.filter.dynamic.max.entries 100000
hoodie.bloom.index.parallelism 0
hoodie.bloom.index.prune.by.ranges true
hoodie.bloom.index.use.caching true
hoodie.bloom.index.use.treebased.filter true
hoodie.bloom.index.bucketized.checking true
hoodie.bloom.index.keys.per.bucket 10000000
hoodie.bloom.index.update.partition.path true
hoodie.bloom.index.use.metadata false
hoodie.bloom.index.input.storage.level MEMORY_AND_DISK_SER
hoodie.simple.index.parallelism 0
hoodie.simple.index.use.caching true
hoodie.global.simple.index.parallelism 100
hoodie.global.index.reconcile.parallelism 60
hoodie.record.index.update.partition.path false
hoodie.record.index.use.caching true
hoodie.bucket.index.num.buckets 256
hoodie.bucket.index.hash.field -
hoodie.index.bucket.engine SIMPLE
hoodie.bucket.index.max.num.buckets -
hoodie.bucket.index.min.num.buckets -
hoodie.bucket.index.split.threshold 2.0
hoodie.bucket.index.merge.threshold 0.2
hoodie.index.hbase.put.batch.size 100
hoodie.index.hbase.qps.allocator.class org.apache.hudi.index.hbase.DefaultHBaseQPSResourceAllocator
hoodie.index.hbase.qps.fraction 0.5
hoodie.index.hbase.max.qps.per.region.server 1000
hoodie.index.hbase.dynamic_qps false
hoodie.index.hbase.desired_puts_time_in_secs 600
hoodie.index.hbase.min.qps.fraction -
hoodie.index.hbase.max.qps.fraction -
hoodie.index.hbase.sleep.ms.for.put.batch -
hoodie.index.hbase.sleep.ms.for.get.batch -
hoodie.index.hbase.zkpath.qps_root /QPS_ROOT
hoodie.index.hbase.zk.session_timeout_ms 60000
hoodie.index.hbase.zk.connection_timeout_ms 15000
hoodie.index.hbase.bucket.number 8
hoodie.index.hbase.security.authentication simple
hoodie.datasource.write.storage.type COPY_ON_WRITE
"""


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def by_key(option: Option[Any]) -> str:
    return option.key


@pytest.mark.parametrize("line", HUDI.split("\n")[1:-1])
def test_a_key_of_hudi_is_known_with_its_default(line: str) -> None:
    key, default = line.split(" ")
    option = lookup(key)
    assert option is not None
    if default == "-":
        assert option.default_raw == ""
    else:
        assert option.read(default) == option.default


@pytest.mark.parametrize("option", ALL, ids=by_key)
def test_an_option_is_documented_and_its_default_parses(option: Option[Any]) -> None:
    assert re.fullmatch(r"[A-Z`_].*[.]", option.doc), "a sentence"
    assert "|" not in option.doc
    if option.default is not None:
        assert option.read(option.default_raw) == option.default


@pytest.mark.parametrize("option", ALL, ids=by_key)
def test_the_values_an_option_supports_are_values_it_allows(option: Option[Any]) -> None:
    for value in option.supported or ():
        assert option.supports(value)
    if option.supported is not None:
        assert bool(option.lacks) != bool(option.ignored), "a refusal has a feature that is missing"
        assert (option.accepted, option.waits_for) == (False, "")


@pytest.mark.parametrize("option", ALL, ids=by_key)
def test_the_default_of_an_option_is_what_penstock_does(option: Option[Any]) -> None:
    if option.supported is not None and option.default is not None and not option.ignored:
        assert option.supports(option.default_raw)


def test_every_option_is_a_constant_of_the_package_under_one_name() -> None:
    constants = [value for value in vars(package).values() if isinstance(value, Option)]
    assert Counter(option.key for option in constants) == Counter(list(CATALOGUE))


def test_every_module_that_declares_options_is_an_area_of_the_catalogue() -> None:
    declared = set()
    for module_info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(module_info.name)
        declared |= {value.key for value in vars(module).values() if isinstance(value, Option)}
    assert declared == set(CATALOGUE)


def test_no_key_or_alias_names_two_options() -> None:
    names: Counter[str] = Counter()
    for area in AREAS:
        for option in area.options:
            names.update(name.lower() for name in (option.key, *option.aliases))
    assert [name for name, times in names.items() if times > 1] == []


def test_the_old_prefix_of_timestamp_keys_is_an_alias() -> None:
    options = read_options({"hoodie.deltastreamer.keygen.timebased.output.dateformat": "yyyy/MM"})
    assert options[TIMESTAMP_OUTPUT_FORMAT] == "yyyy/MM"
    assert options.raw == {"hoodie.keygen.timebased.output.dateformat": "yyyy/MM"}


def test_values_become_text_as_spark_spells_it() -> None:
    class Mode(str, Enum):
        INSERT = "insert"

    given = {
        INSERT_DROP_DUPLICATES.key: True,
        SMALL_FILE_LIMIT.key: 0,
        "hoodie.record.size.estimation.threshold": 0.5,
        PARTITION_PATH_FIELD.key: None,
        OPERATION.key: Mode.INSERT,
        "path": "/t",
    }
    assert read_options(given).raw == {
        INSERT_DROP_DUPLICATES.key: "true",
        SMALL_FILE_LIMIT.key: "0",
        "hoodie.record.size.estimation.threshold": "0.5",
        OPERATION.key: "insert",
        "path": "/t",
    }


def test_a_value_that_is_no_text_number_or_boolean_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"'hoodie\.datasource\.write\.recordkey\.field' is of type list"):
        read_options({RECORD_KEY_FIELD.key: ["id"]})


def test_known_keys_match_in_any_case() -> None:
    options = read_options({"HOODIE.Parquet.Small.File.Limit": "7", "hoodie.datasource.streaming.startoffset": "latest"})
    assert options[SMALL_FILE_LIMIT] == 7
    assert options[STREAMING_START_OFFSET] == "latest"


def test_words_are_changed_to_the_spelling_of_the_catalogue() -> None:
    options = read_options({OPERATION.key: "UPSERT", TABLE_TYPE.key: "copy_on_write", "hoodie.clean.automatic": "False"})
    assert options.raw == {OPERATION.key: "upsert", TABLE_TYPE.key: "COPY_ON_WRITE", "hoodie.clean.automatic": "false"}


def test_an_alias_and_its_key_may_agree() -> None:
    options = read_options({"hoodie.datasource.write.storage.type": "copy_on_write", TABLE_TYPE.key: "COPY_ON_WRITE"})
    assert options.raw == {TABLE_TYPE.key: "COPY_ON_WRITE"}


def test_an_alias_and_its_key_with_different_values_are_an_error() -> None:
    new = "hoodie.keygen.timebased.output.dateformat"
    old = "hoodie.deltastreamer.keygen.timebased.output.dateformat"
    with pytest.raises(OptionError, match=rf"{old}='yyyy' and {new}='MM'"):
        read_options({old: "yyyy", new: "MM"})


@pytest.mark.parametrize(("old", "new"), [("read_optimized", "snapshot"), ("REALTIME", "snapshot")])
def test_the_old_view_type_is_translated(old: str, new: str) -> None:
    assert read_options({"hoodie.datasource.view.type": old})[QUERY_TYPE] == new


def test_the_values_of_an_alias_are_not_translated_under_the_key_itself() -> None:
    assert read_options({QUERY_TYPE.key: "read_optimized"})[QUERY_TYPE] == "read_optimized"
    with pytest.raises(OptionError, match="allowed: snapshot"):
        read_options({QUERY_TYPE.key: "realtime"})


@pytest.mark.parametrize(("flag", "source"), [(True, "path"), (False, "stored")])
def test_hudis_switch_for_partition_values_is_accepted(flag: bool, source: str) -> None:
    options = read_options({"hoodie.datasource.read.extract.partition.values.from.path": flag})
    assert options[READ_PARTITION_VALUES] == source


def test_an_unknown_key_warns_with_the_most_similar_known_one() -> None:
    with pytest.warns(UnknownOptionWarning, match=r"did you mean 'hoodie\.datasource\.write\.recordkey\.field'\?") as caught:
        options = read_options({"hoodie.datasource.write.recordkey.fields": "id"})
    assert options.raw == {"hoodie.datasource.write.recordkey.fields": "id"}
    assert not options[RECORD_KEY_FIELD]
    assert caught[0].filename == __file__


def test_an_unknown_key_without_a_similar_one_warns_without_a_suggestion() -> None:
    with pytest.warns(UnknownOptionWarning, match=r"'penstock\.zzz' has no effect$"):
        read_options({"penstock.zzz": "1"})


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("datasource.write.operation", "hoodie.datasource.write.operation"),
        ("recordkey.field", "hoodie.datasource.write.recordkey.field"),
        ("write.recordkey.field", "hoodie.datasource.write.recordkey.field"),
        ("hodie.table.name", "hoodie.table.name"),
        ("table.name", "hoodie.table.name"),
        ("timestampAsOf", "as.of.instant"),
        ("versionAsOf", "as.of.instant"),
        ("startingTimestamp", "hoodie.datasource.read.begin.instanttime"),
        ("partitionOverwriteMode", "hoodie.datasource.write.operation"),
        ("as.of.instants", "as.of.instant"),
    ],
)
def test_an_unknown_key_without_hudis_prefix_warns_with_the_nearest_one(key: str, nearest: str) -> None:
    with pytest.warns(UnknownOptionWarning) as caught:
        assert read_options({key: "1"}).raw == {key: "1"}
    assert [str(warning.message) for warning in caught] == [f"unknown option '{key}' has no effect; did you mean '{nearest}'?"]
    assert caught[0].filename == __file__


def test_keys_of_other_libraries_are_kept_with_a_warning_that_they_have_no_effect() -> None:
    given = {"spark.sql.shuffle.partitions": "4", "mergeSchema": "true"}
    with pytest.warns(UnknownOptionWarning) as caught:
        assert read_options(given).raw == given
    assert [str(warning.message) for warning in caught] == [f"unknown option '{key}' has no effect" for key in given]


def test_keys_that_the_commit_stores_do_not_warn() -> None:
    prefix = "hoodie.datasource.write.commitmeta.key.prefix"
    for given in ({"_My.Key": " Value "}, {prefix: "run.", "run.id": "7"}):
        assert read_options(given).raw == given
    with pytest.warns(UnknownOptionWarning, match="'_id'"):
        read_options({prefix: "run.", "_id": "7"})


def all_families() -> list[Family]:
    families: list[Family] = []
    for area in AREAS:
        families += area.families
    return families


@pytest.mark.parametrize("family", all_families(), ids=lambda family: family.prefix)
def test_keys_of_a_known_family_do_not_warn(family: Family) -> None:
    assert read_options({f"{family.prefix}some.thing": "1"}).raw == {f"{family.prefix}some.thing": "1"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.logfile.data.block.format", "hfile"),
        ("hoodie.datasource.write.storage.type", "mor"),
        ("hoodie.datasource.write.operation", "insert_prepped"),
        ("hoodie.datasource.write.operation", "bulk_insert_prepped"),
        ("hoodie.index.type", "record_index"),
        ("hoodie.index.hbase.security.authentication", "kerberos"),
        ("hoodie.index.class", "com.acme.Index"),
        ("hoodie.table.base.file.format", "ORC"),
        ("hoodie.table.ro.file.format", "HFILE"),
        ("hoodie.table.cdc.enabled", True),
        ("hoodie.write.commit.callback.class", "com.acme.Callback"),
        ("hoodie.write.concurrency.mode", "non_blocking_concurrency_control"),
        ("hoodie.clustering.plan.strategy.class", "com.acme.Plans"),
        ("hoodie.clustering.updates.strategy", "com.acme.Updates"),
        ("hoodie.datasource.query.incremental.format", "cdc"),
        ("hoodie.read.timeline.holes.resolution.policy", "USE_TRANSITION_TIME"),
        ("hoodie.datasource.write.payload.class", "org.apache.hudi.common.model.RewriteAvroPayload"),
        ("hoodie.datasource.write.keygenerator.class", "com.acme.Keys"),
        ("hoodie.parquet.compression.codec", "lzo"),
    ],
)
def test_unsupported_values_are_refused(key: str, value: object) -> None:
    if value == "mor":
        with pytest.raises(OptionError, match="allowed: COPY_ON_WRITE, MERGE_ON_READ"):
            read_options({key: value})
        return
    option = lookup(key)
    assert option is not None
    with pytest.raises(Unsupported, match=re.escape(f"'{option.key}'")) as caught:
        read_options({**turned_on(option)[0], key: value})
    assert str(caught.value).endswith(f", which Penstock does not support: {option.way_out}")


@pytest.mark.parametrize(
    "given",
    [
        {"hoodie.datasource.write.operation": "bulk_insert"},
        {"hoodie.index.type": "GLOBAL_BLOOM"},
        {"hoodie.write.markers.type": "DIRECT"},
        {"hoodie.write.markers.type": "timeline_server_based"},
        {"hoodie.metadata.enable": False},
        {"hoodie.datasource.hive_sync.enable": False, "hoodie.datasource.hive_sync.password": "x"},
        {"hoodie.cleaner.policy.failed.writes": "LAZY"},
        {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": 3},
        {"hoodie.compact.schedule.inline": "true", "hoodie.compaction.target.io": 100},
        {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.blocks.threshold": 3},
        {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"},
        {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"},
        {"hoodie.index.class": ""},
    ],
)
def test_supported_values_pass_without_a_warning(given: dict[str, object]) -> None:
    assert len(read_options(given)) == len(given)


def test_every_option_has_a_status_that_the_page_explains() -> None:
    words = {status(one).partition(":")[0].partition(" `")[0] for one in ALL}
    assert words == {"yes", "only", "refused", "refused, if", "idle", "used if", "no effect", "no effect, warns"}


def refused_value(option: Option[Any]) -> str:
    """Return a value that Penstock does not support."""
    if option.parse is boolean:
        return to_raw(not option.default)
    if option.allowed:
        return next(value for value in option.allowed if not option.supports(value))
    return "8" if isinstance(option.default, int) else "com.acme.Unheard"


def turned_on(option: Option[Any]) -> list[dict[str, str]]:
    """Return, for each feature that uses the option, the option that turns the feature on; one empty map if it is always used."""
    return [{key: value} for key, value in option.refused_if] or [{}]


@pytest.mark.usefixtures("new_session")
@pytest.mark.parametrize("option", [option for option in ALL if option.lacks], ids=by_key)
def test_a_refusal_is_one_sentence_with_one_way_out(option: Option[Any]) -> None:
    value = refused_value(option)
    for feature in turned_on(option):
        with pytest.raises(Unsupported) as caught:
            read_options({**feature, option.key: value})
        message = str(caught.value)
        if "bootstrap" in feature.values():
            continue  # the operation itself is refused
        assert message.count(f"'{option.key}'") == 1
        assert message.count(f"'{value}'") == 1
        assert not re.search(r"[.;] ", message)
        assert message.count("leave it out") <= 1
        assert message.count(": ") == 1


@pytest.mark.usefixtures("new_session")
@pytest.mark.parametrize("option", [option for option in ALL if option.refused_if], ids=by_key)
def test_an_option_whose_feature_is_off_is_accepted_with_one_warning_per_session(option: Option[Any]) -> None:
    """As in Hudi, where nothing reads it. A feature that is used all the same refuses the value when it reads the option."""
    assert option.lacks
    for key, value in option.refused_if:
        assert CATALOGUE[key].default_raw.lower() != value.lower(), "the feature is off by default"
        assert CATALOGUE[key].allowed is None or value in CATALOGUE[key].allowed
    given = {option.key: refused_value(option)}
    with pytest.warns(IgnoredOptionWarning) as caught:
        options = read_options(given)
    conditions = " or ".join(f"{key}={value}" for key, value in option.refused_if[-2:])
    assert [str(warning.message) for warning in caught][0].startswith(f"{option.key} has no effect: it is used only with ")
    assert str(caught[0].message).endswith(conditions)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_options(given)
    for reading in (lambda: options[option], lambda: options.require_support(option)):
        with pytest.raises(Unsupported, match=re.escape(f"'{option.key}'")):
            reading()


def test_an_empty_key_generator_is_none() -> None:
    for key in ("hoodie.datasource.write.keygenerator.class", "hoodie.datasource.write.keygenerator.type"):
        assert key not in read_options({key: ""})


def test_an_operation_that_does_not_exist_is_answered_with_those_that_work() -> None:
    with pytest.raises(OptionError) as caught:
        read_options({"hoodie.datasource.write.operation": "merge"})
    assert str(caught.value) == (
        "option 'hoodie.datasource.write.operation' is 'merge'; allowed: upsert, insert, bulk_insert, delete, insert_overwrite, "
        "insert_overwrite_table, delete_partition"
    )


# --- options that change no rows


@pytest.fixture
def new_session() -> None:
    """Begins a session in which no warning was shown yet."""
    forget_shown_warnings()


IGNORED: list[tuple[str, object, str]] = [
    ("hoodie.write.lock.provider", "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider", "needs no lock"),
    ("hoodie.write.lock.dynamodb.region", "eu-central-1", "needs no lock"),
    ("hoodie.write.lock.wait_time_ms", 12000, "needs no lock"),
    ("hoodie.schema.on.read.enable", True, "columns are added"),
    ("hoodie.partition.metafile.use.base.format", True, "is a properties file"),
    ("hoodie.metadata.enable", "true", "no metadata table"),
    ("hoodie.metadata.index.column.stats.enable", "TRUE", "no metadata table"),
    ("hoodie.rollback.instant.backup.enabled", True, "copy .hoodie"),
    ("hoodie.table.service.manager.enabled", True, "penstock services run"),
    ("hoodie.metadata.record.index.enable", True, "no metadata table"),
    ("hoodie.datasource.insert.dup.policy", "drop", "SQL INSERT only"),
    ("hoodie.datasource.overwrite.mode", "dynamic", "SQL INSERT OVERWRITE only"),
    ("hoodie.write.auto.upgrade", True, "stays at version 6"),
    ("hoodie.merge.data.validation.enabled", True, "does not count"),
    ("hoodie.errortable.enable", True, "fails the write"),
    ("hoodie.cleaner.delete.bootstrap.base.file", True, "bootstrapped tables only"),
    ("hoodie.index.hbase.qps.allocator.class", "com.acme.Quota", "qps.fraction"),
    ("hoodie.is.update.record.for.mor", True, "Hudi sets it itself"),
    ("hoodie.table.checksum", "1234", "is computed"),
    ("payload.class", "org.apache.hudi.common.model.EventTimeAvroPayload", "payload.class decides"),
]


@pytest.mark.usefixtures("new_session")
@pytest.mark.parametrize(("key", "value", "instead"), IGNORED)
def test_an_option_that_changes_no_rows_is_accepted_with_one_warning_per_session(key: str, value: object, instead: str) -> None:
    with pytest.warns(IgnoredOptionWarning) as caught:
        options = read_options({key: value})
    assert options.is_set(CATALOGUE[key])
    assert len(caught) == 1
    assert str(caught[0].message).startswith(f"{key} has no effect: ")
    assert instead in str(caught[0].message)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_options({key: value})
    forget_shown_warnings()
    with pytest.warns(IgnoredOptionWarning):
        read_options({key: value})


@pytest.mark.usefixtures("new_session")
def test_the_options_of_a_lock_are_named_by_one_warning() -> None:
    given = {"hoodie.write.lock.provider": "x.Lock", "hoodie.write.lock.zookeeper.url": "zoo", "hoodie.write.lock.num_retries": 3}
    with pytest.warns(IgnoredOptionWarning) as caught:
        read_options(given)
    assert [str(warning.message) for warning in caught] == [
        f"{', '.join(given)} have no effect: one writer at a time needs no lock, and a second one is refused while the first is at work"
    ]


@pytest.mark.usefixtures("new_session")
@pytest.mark.parametrize("option", [option for option in ALL if option.ignored], ids=by_key)
def test_the_default_of_an_option_that_may_be_ignored_does_not_warn(option: Option[Any]) -> None:
    if option.supported and option.key != "hoodie.metadata.enable":
        read_options({option.key: option.default_raw})


@pytest.mark.usefixtures("new_session")
def test_an_ignored_value_of_a_wrong_form_is_an_error() -> None:
    with pytest.raises(OptionError, match="a whole number, 1 or more"):
        read_options({"hoodie.write.lock.wait_time_ms": "soon"})
    with pytest.raises(OptionError, match="allowed: none, drop, fail"):
        read_options({"hoodie.datasource.insert.dup.policy": "merge"})


@pytest.mark.usefixtures("new_session")
def test_a_lock_is_used_by_several_writers_and_has_no_effect_on_one() -> None:
    lock = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_options({**lock, "hoodie.write.concurrency.mode": "optimistic_concurrency_control"})
    with pytest.warns(IgnoredOptionWarning, match="hoodie.write.lock.provider has no effect"):
        read_options(lock)


@pytest.mark.parametrize("option", [option for option in ALL if option.secret], ids=by_key)
def test_the_value_of_a_secret_option_is_not_shown_among_the_options(option: Option[Any]) -> None:
    assert looks_secret(option.key)
