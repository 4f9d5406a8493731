"""An option's text becomes a value, or an error that says what was expected."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from penstock.errors import OptionError, Unsupported
from penstock.options import (
    ALLOW_EMPTY_COMMIT,
    BLOOM_FPP,
    CALLBACK_HTTP_API_KEY,
    COMMIT_METADATA_KEY_PREFIX,
    COMPRESSION_CODEC,
    HEARTBEAT_INTERVAL_MS,
    HIVE_SYNC_PARTITION_FIELDS,
    MAX_FILE_SIZE,
    OPERATION,
    PAYLOAD_CLASS,
    READ_EQUALS,
    RECORD_KEY_FIELD,
    SMALL_FILE_LIMIT,
    SPILLABLE_MAP_PATH,
    TABLE_NAME,
    TABLE_TYPE,
    TIMESTAMP_INPUT_FORMAT,
    Option,
    Options,
)
from penstock.options.operation import Operation
from penstock.options.option import fraction, number, to_raw, whole

SOME = Options({SMALL_FILE_LIMIT.key: "0", RECORD_KEY_FIELD.key: " id, st.f ", "_hello": "world", "path": "/t"})


@pytest.mark.parametrize(
    ("option", "raw", "value"),
    [
        (SMALL_FILE_LIMIT, "-1", -1),
        (SMALL_FILE_LIMIT, " 1048576 ", 1048576),
        (ALLOW_EMPTY_COMMIT, "FALSE", False),
        (BLOOM_FPP, "1e-3", 0.001),
        (BLOOM_FPP, ".5", 0.5),
        (RECORD_KEY_FIELD, " a,b.c ", "a,b.c"),
        (HIVE_SYNC_PARTITION_FIELDS, "a, b.c,", ("a", "b.c")),
        (HIVE_SYNC_PARTITION_FIELDS, "", ()),
        (READ_EQUALS, '{"id": "a,b", "n": 7, "late": true}', (("id", "a,b"), ("n", 7), ("late", True))),
        (READ_EQUALS, "", ()),
        (TABLE_NAME, " trips ", "trips"),
        (TIMESTAMP_INPUT_FORMAT, " yyyy", " yyyy"),
        (OPERATION, "Bulk_Insert", Operation.BULK_INSERT),
        (TABLE_TYPE, "copy_on_write", "COPY_ON_WRITE"),
        (PAYLOAD_CLASS, "DefaultHoodieRecordPayload", "org.apache.hudi.common.model.DefaultHoodieRecordPayload"),
        (PAYLOAD_CLASS, "debezium.MySqlDebeziumAvroPayload", "org.apache.hudi.common.model.debezium.MySqlDebeziumAvroPayload"),
        (PAYLOAD_CLASS, "MySqlDebeziumAvroPayload", "org.apache.hudi.common.model.debezium.MySqlDebeziumAvroPayload"),
        (PAYLOAD_CLASS, "penstock.ogg", "penstock.ogg"),
    ],
)
def test_text_becomes_a_value_of_the_options_type(option: Option[Any], raw: str, value: object) -> None:
    read = option.read(raw)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("option", "raw", "expected"),
    [
        (SMALL_FILE_LIMIT, "10MB", "a whole number, without a unit"),
        (MAX_FILE_SIZE, "1.5 g", "a whole number, 1 or more, without a unit"),
        (SMALL_FILE_LIMIT, "1_000", "a whole number"),
        (SMALL_FILE_LIMIT, "", "a whole number"),
        (SMALL_FILE_LIMIT, str(2**63), "a whole number"),
        (SMALL_FILE_LIMIT, "٣", "a whole number"),
        (MAX_FILE_SIZE, "0", "1 or more"),
        (ALLOW_EMPTY_COMMIT, "yes", "true or false"),
        (BLOOM_FPP, "1", "both excluded"),
        (BLOOM_FPP, "nan", "both excluded"),
        (BLOOM_FPP, "1e999", "both excluded"),
        (HEARTBEAT_INTERVAL_MS, "999", "1000 or more"),
        (READ_EQUALS, "id=a", 'as JSON, such as {"id": "a"}'),
        (READ_EQUALS, '{"id": ["a"]}', "columns and their values"),
        (TABLE_NAME, " ", "not empty"),
        (PAYLOAD_CLASS, "", "a class name"),
        (OPERATION, "merge", "allowed: upsert, insert"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_key_value_and_form(option: Option[Any], raw: str, expected: str) -> None:
    with pytest.raises(OptionError) as caught:
        option.read(raw)
    message = str(caught.value)
    assert f"'{option.key}'" in message
    assert f"'{raw}'" in message
    assert expected in message


def test_the_value_of_a_secret_is_not_in_messages() -> None:
    secret = Option("hoodie.x.password", whole, 0, "A secret number.", secret=True, supported=("0",))
    with pytest.raises(OptionError) as unreadable:
        secret.read("hunter2")
    with pytest.raises(Unsupported) as refused:
        secret.require_support("4711")
    assert "hunter2" not in str(unreadable.value)
    assert "4711" not in str(refused.value)


def test_support_depends_on_the_value_not_on_its_spelling() -> None:
    flag = Option("k", whole, 0, "A number.", supported=("0",))
    assert flag.supports(" 00 ")
    assert not flag.supports("1")


def test_support_of_class_names_depends_on_case() -> None:
    assert PAYLOAD_CLASS.supports("EmptyHoodieRecordPayload")
    assert not PAYLOAD_CLASS.supports("emptyhoodierecordpayload")
    assert not PAYLOAD_CLASS.supports("com.acme.EmptyHoodieRecordPayload")


def test_a_refusal_names_the_value_what_is_supported_and_what_to_do_instead() -> None:
    with pytest.raises(Unsupported, match=r"'lz4', which .*: use uncompressed, snappy, gzip, zstd or lz4_raw$"):
        COMPRESSION_CODEC.require_support("lz4")


def test_an_option_that_supports_nothing_is_refused_with_any_value() -> None:
    refused = Option("k", whole, 0, "A number.", supported=(), instead="do without")
    with pytest.raises(Unsupported, match=r"support: do without$"):
        refused.require_support("0")


@pytest.mark.parametrize("value", [None, True, False, 7, 0.5, "x", (), ("a", "b")])
def test_a_value_becomes_text_as_spark_spells_it(value: object) -> None:
    expected = {None: "", True: "true", False: "false", 7: "7", 0.5: "0.5", "x": "x", (): "", ("a", "b"): "a,b"}
    assert to_raw(value) == expected[value]  # type: ignore[index]


@pytest.mark.parametrize("raw", ["1.5", "-0.1"])
def test_a_fraction_is_between_zero_and_one(raw: str) -> None:
    with pytest.raises(ValueError):
        fraction(raw)


@pytest.mark.parametrize("raw", ["1f", "0x10", "infinity", "1_0.5", "."])
def test_a_number_is_what_java_and_python_both_read(raw: str) -> None:
    with pytest.raises(ValueError):
        number(raw)


def test_options_return_the_value_or_the_default() -> None:
    assert SOME[SMALL_FILE_LIMIT] == 0
    assert SOME[RECORD_KEY_FIELD] == "id, st.f"
    assert SOME[MAX_FILE_SIZE] == 120 * 1024 * 1024
    assert SOME[SPILLABLE_MAP_PATH] is None


def test_an_option_set_to_its_default_counts_as_set() -> None:
    options = Options({OPERATION.key: "upsert"})
    assert options.is_set(OPERATION)
    assert OPERATION in options
    assert not options.is_set(TABLE_TYPE)


def test_replace_adds_changes_and_removes_without_touching_the_original() -> None:
    changed = SOME.replace({"path": None, SMALL_FILE_LIMIT.key: "1", "new": "x"})
    assert changed.raw == {SMALL_FILE_LIMIT.key: "1", RECORD_KEY_FIELD.key: " id, st.f ", "_hello": "world", "new": "x"}
    assert SOME[SMALL_FILE_LIMIT] == 0


def test_prefixed_returns_the_raw_options_below_a_prefix() -> None:
    assert SOME.prefixed(SOME[COMMIT_METADATA_KEY_PREFIX]) == {"_hello": "world"}


def test_options_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        SOME.raw["path"] = "/elsewhere"  # type: ignore[index]
    with pytest.raises(AttributeError):
        SOME._raw = {}
    with pytest.raises(AttributeError):
        del SOME._raw


def test_options_do_not_see_later_changes_of_the_map_they_were_made_from() -> None:
    raw = {"a": "1"}
    options = Options(raw)
    raw["a"] = "2"
    assert options.raw == {"a": "1"}


def test_options_can_be_pickled_and_copied() -> None:
    for other in (pickle.loads(pickle.dumps(SOME)), copy.deepcopy(SOME)):
        assert other == SOME
        assert hash(other) == hash(SOME)
        assert other[RECORD_KEY_FIELD] == "id, st.f"


def test_options_are_equal_by_content() -> None:
    assert Options({"a": "1", "b": "2"}) == Options({"b": "2", "a": "1"})
    assert Options({"a": "1"}) != Options({"a": "2"})
    assert Options({"a": "1"}) != {"a": "1"}


def test_the_printed_form_of_options_hides_secrets() -> None:
    shown = repr(Options({CALLBACK_HTTP_API_KEY.key: "s3cret", "hoodie.datasource.hive_sync.password": "hunter2"}))
    assert "s3cret" not in shown
    assert "hunter2" not in shown
    assert CALLBACK_HTTP_API_KEY.key in shown
