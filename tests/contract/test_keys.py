"""Every key generator: the keys and paths it makes of rows. The expected texts are those of real Hudi 0.15."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.errors import OptionError, RecordKeyError, SchemaError, Unsupported
from penstock.keys import KeySettings, make_key_generator, typed_error
from penstock.keys.partition_path import DEFAULT_PARTITION, ESCAPED_CHARACTERS, escape_path_value
from penstock.options.key_generator_names import (
    COMPLEX,
    CUSTOM,
    GENERATORS,
    GLOBAL_DELETE,
    NONPARTITIONED,
    SIMPLE,
    SQL,
    TIMESTAMP,
)

SPECIAL = "a/b c:d=e%é"
ROW = (
    f"select 7 as i, cast(null as string) as n, '' as e, named_struct('f', 'nested') as st, true as b, '{SPECIAL}' as s, "
    "date'2024-02-29' as d, cast(12.34 as decimal(10, 2)) as dec"
)


@contextmanager
def conf(spark: Any, **settings: str) -> Iterator[None]:
    """Set configuration of the session (dots written as `__`) while the block runs."""
    before = {key.replace("__", "."): spark.conf.get(key.replace("__", ".")) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key.replace("__", "."), value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def keys_of(rows: Any, settings: KeySettings) -> list[str | None]:
    return [row[0] for row in rows.select(make_key_generator(settings).make_columns(rows.schema).record_key).collect()]


def paths_of(rows: Any, settings: KeySettings) -> list[str | None]:
    return [row[0] for row in rows.select(make_key_generator(settings).make_columns(rows.schema).partition_path).collect()]


def all_keys(rows: Any, cases: Sequence[KeySettings]) -> list[str]:
    """Return the keys that several settings make of the one row, in one job."""
    return list(rows.select(*(make_key_generator(case).make_columns(rows.schema).record_key for case in cases)).first())


def all_paths(rows: Any, cases: Sequence[KeySettings]) -> list[str]:
    """Return the paths that several settings make of the one row, in one job."""
    return list(rows.select(*(make_key_generator(case).make_columns(rows.schema).partition_path for case in cases)).first())


def error_of(rows: Any, settings: KeySettings, column: str = "record_key") -> Exception | None:
    """Return the typed error that evaluating the rows raises."""
    with pytest.raises(Exception) as caught:
        rows.select(getattr(make_key_generator(settings).make_columns(rows.schema), column)).collect()
    return typed_error(str(caught.value))


def by_time(
    field: str = "v", *, hive_style: bool = False, url_encode: bool = False, flag: bool = False, **options: str
) -> KeySettings:
    """Return settings of the time-based generator; `timestamp_type` stands for `timestamp.type`, and so on."""
    return KeySettings(
        partition_path_fields=(field,),
        generator_class=TIMESTAMP,
        hive_style=hive_style,
        url_encode=url_encode,
        consistent_logical_timestamp=flag,
        timebased={key.replace("_", "."): value for key, value in options.items()},
    )


def values(spark: Any, sql_type: str, *literals: str) -> Any:
    rows = " union all ".join(
        f"select {number} as at, cast({literal} as {sql_type}) as v" for number, literal in enumerate(literals)
    )
    return spark.sql(rows).orderBy("at")


# --- the forms of keys


KEY_FORMS = [
    (SIMPLE, ("i",), "7"),
    (COMPLEX, ("i", "n", "e", "st.f"), "i:7,n:__null__,e:__empty__,st.f:nested"),
    (COMPLEX, ("i",), "7"),
    (NONPARTITIONED, ("i", "s"), f"i:7,s:{SPECIAL}"),
    (NONPARTITIONED, ("s",), SPECIAL),
    (GLOBAL_DELETE, ("i",), "i:7"),
    (GLOBAL_DELETE, ("i", "b"), "i:7,b:true"),
    (CUSTOM, ("i",), "7"),
    (CUSTOM, ("i", "b"), "i:7,b:true"),
    (SIMPLE, ("d",), "2024-02-29"),
    (SIMPLE, ("dec",), "12.34"),
    (SIMPLE, ("st.f",), "nested"),
]


def test_the_record_key_has_the_form_of_its_generator(spark: Any) -> None:
    partitions = {SIMPLE: ("b",), COMPLEX: ("b",), CUSTOM: ("b:SIMPLE",)}
    cases = [KeySettings(fields, partitions.get(generator, ()), generator_class=generator) for generator, fields, _ in KEY_FORMS]
    assert all_keys(spark.sql(ROW), cases) == [expected for _, _, expected in KEY_FORMS]


def test_a_complex_key_of_one_field_can_carry_its_name(spark: Any) -> None:
    settings = KeySettings(("i",), ("b",), generator_class=COMPLEX, encode_single_complex_key=True)
    assert keys_of(spark.sql(ROW), settings) == ["i:7"]


@pytest.mark.parametrize("generator", [SIMPLE, COMPLEX, TIMESTAMP, CUSTOM, NONPARTITIONED])
def test_a_generator_without_key_fields_leaves_the_keys_to_the_writer(spark: Any, generator: str) -> None:
    time = {"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy"}
    partition = "i:SIMPLE" if generator == CUSTOM else "i"
    settings = KeySettings((), (partition,), generator_class=generator, timebased=time)
    columns = make_key_generator(settings).make_columns(spark.sql(ROW).schema)
    assert columns.record_key is None
    assert columns.plain_record_key is None


# --- the forms of paths


PATH_FORMS = [
    (SIMPLE, ("s",), True, True, "s=a%2Fb c%3Ad%3De%25é"),
    (SIMPLE, ("s",), False, True, "a%2Fb c%3Ad%3De%25é"),
    (SIMPLE, ("s",), False, False, SPECIAL),
    (SIMPLE, ("n",), False, True, DEFAULT_PARTITION),
    (SIMPLE, ("e",), True, False, f"e={DEFAULT_PARTITION}"),
    (SIMPLE, ("st.f",), True, False, "st.f=nested"),
    (COMPLEX, ("i", "n", "e"), True, False, f"i=7/n={DEFAULT_PARTITION}/e={DEFAULT_PARTITION}"),
    (COMPLEX, ("d", "dec", "b"), False, False, "2024-02-29/12.34/true"),
    (COMPLEX, (), False, False, ""),
    (NONPARTITIONED, (), True, True, ""),
    (NONPARTITIONED, ("i",), True, True, ""),
    (GLOBAL_DELETE, ("i",), True, True, ""),
    (CUSTOM, (), True, True, ""),
    (CUSTOM, ("i:simple", "s:SIMPLE"), True, True, "i=7/s=a%2Fb c%3Ad%3De%25é"),
]


def test_the_partition_path_has_the_form_of_its_generator(spark: Any) -> None:
    cases = [
        KeySettings(("i",), fields, generator_class=generator, hive_style=hive_style, url_encode=url_encode)
        for generator, fields, hive_style, url_encode, _ in PATH_FORMS
    ]
    assert all_paths(spark.sql(ROW), cases) == [form[-1] for form in PATH_FORMS]


def test_expressions_escape_as_the_plain_function_does(spark: Any) -> None:
    texts = ["a/b c:d=e%é\t{x}[y]^~", "", "%2F", "plain", *(f"x{character}y" for character in ESCAPED_CHARACTERS), "a\n/\x00"]
    rows = spark.createDataFrame(list(enumerate(texts)), "at int, v string").orderBy("at")
    assert paths_of(rows, KeySettings((), ("v",), url_encode=True)) == [escape_path_value(text) for text in texts]


def test_custom_paths_mix_values_and_times(spark: Any) -> None:
    settings = KeySettings(
        ("i",),
        ("b:simple", "i:Timestamp"),
        generator_class=CUSTOM,
        hive_style=True,
        timebased={
            "timestamp.type": "SCALAR",
            "timestamp.scalar.time.unit": "days",
            "output.dateformat": "yyyy-MM-dd",
            "timezone": "UTC",
        },
    )
    rows = spark.sql(ROW)
    assert paths_of(rows, settings) == ["b=true/i=1970-01-08"]
    assert make_key_generator(settings).make_columns(rows.schema).partition_path_fields == ("b", "i")


@pytest.mark.parametrize(
    ("generator", "java_class"), [(SIMPLE, SIMPLE), (f"{COMPLEX[:-12]}AvroKeyGenerator", COMPLEX), (None, SIMPLE)]
)
def test_a_generator_knows_the_class_name_that_tables_store(generator: str | None, java_class: str) -> None:
    assert make_key_generator(KeySettings(("i",), ("b",), generator_class=generator)).java_class == java_class


def test_every_name_has_a_generator() -> None:
    for entry in GENERATORS:
        for java_class in filter(None, (entry.java_class, entry.avro_class)):
            made = make_key_generator(KeySettings(("i",), ("b",), generator_class=java_class))
            assert made.java_class == (COMPLEX if entry.java_class == SQL else entry.java_class)
        if entry.type_name:
            assert make_key_generator(KeySettings(("i",), ("b",), generator_type=entry.type_name)).java_class == entry.java_class


# --- columns that need no expression


@pytest.mark.parametrize(
    ("generator", "keys", "partitions", "more", "plain_key", "plain_path"),
    [
        (SIMPLE, ("s",), ("e",), {}, "s", "e"),
        (SIMPLE, ("i",), ("i",), {}, None, None),
        (SIMPLE, ("st.f",), ("st.f",), {}, None, None),
        (SIMPLE, ("s",), ("e",), {"hive_style": True}, "s", None),
        (SIMPLE, ("s",), ("e",), {"url_encode": True}, "s", None),
        (COMPLEX, ("s",), ("e",), {}, "s", "e"),
        (COMPLEX, ("s",), ("e", "n"), {"encode_single_complex_key": True}, None, None),
        (COMPLEX, ("s", "n"), ("e",), {}, None, "e"),
        (NONPARTITIONED, ("s",), ("e",), {}, "s", None),
        (GLOBAL_DELETE, ("s",), (), {}, None, None),
        (CUSTOM, ("s",), ("e:SIMPLE",), {}, "s", "e"),
        (TIMESTAMP, ("s",), ("i",), {}, "s", None),
    ],
)
def test_a_string_column_that_is_used_unchanged_is_named(
    spark: Any, generator: str, keys: Any, partitions: Any, more: Any, plain_key: str | None, plain_path: str | None
) -> None:
    time = {"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy"}
    settings = KeySettings(keys, partitions, generator_class=generator, timebased=time, **more)
    columns = make_key_generator(settings).make_columns(spark.sql(ROW).schema)
    assert (columns.plain_record_key, columns.plain_partition_path) == (plain_key, plain_path)


# --- values as text

TEXTS = {
    "cast(7 as tinyint)": "7",
    "cast(-7 as smallint)": "-7",
    "9223372036854775807": "9223372036854775807",
    "cast(1.5 as float)": "1.5",
    "cast(0.1 as float)": "0.1",
    "1e10D": "1.0E10",
    "1.0E-5D": "1.0E-5",
    "100D": "100.0",
    "cast('NaN' as double)": "NaN",
    "false": "false",
    "cast(12.3 as decimal(10, 2))": "12.30",
    "cast('0.0000000001' as decimal(20, 10))": "1E-10",
    "cast(0 as decimal(20, 10))": "0E-10",
    "cast('12345678901234567890.12' as decimal(38, 2))": "12345678901234567890.12",
    "date'0099-01-01'": "0099-01-01",
    "timestamp'2016-12-29 09:54:00 UTC'": "1483005240000000",
    "timestamp_ntz'2016-12-29 09:54:00.000001'": "1483005240000001",
    "timestamp_ntz'1969-12-31 23:59:59.5'": "-500000",
}


@pytest.mark.everywhere
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize(("ansi", "policy"), [("true", "CORRECTED"), ("false", "LEGACY")])
def test_values_have_the_same_text_in_every_session(spark: Any, zone: str, ansi: str, policy: str) -> None:
    fields = {f"c{number}": literal for number, literal in enumerate(TEXTS)}
    settings = {
        "spark__sql__session__timeZone": zone,
        "spark__sql__ansi__enabled": ansi,
        "spark__sql__legacy__timeParserPolicy": policy,
    }
    with conf(spark, **settings):
        rows = spark.sql("select " + ", ".join(f"{literal} as {name}" for name, literal in fields.items()))
        key = keys_of(rows, KeySettings(tuple(fields), ()))[0]
    assert key == ",".join(f"c{number}:{text}" for number, text in enumerate(TEXTS.values()))


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("timestamp'2016-12-29 09:54:00'", "2016-12-29 09:54:00.0"),
        ("timestamp'2016-12-29 09:54:00.120'", "2016-12-29 09:54:00.12"),
        ("timestamp_ntz'2016-12-29 09:54:00'", "2016-12-29 09:54:00.0"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_consistent_timestamps_are_texts_of_the_session_zone(spark: Any, zone: str, literal: str, text: str) -> None:
    settings = KeySettings(("v",), ("v",), consistent_logical_timestamp=True, url_encode=True)
    with conf(spark, spark__sql__session__timeZone=zone):
        rows = spark.sql(f"select {literal} as v")
        assert keys_of(rows, settings) == [text]
        assert paths_of(rows, settings) == [escape_path_value(text)]


@pytest.mark.parametrize("literal", ["X'616263'", "array(1)", "map(1, 2)", "named_struct('a', 1)"])
def test_values_without_a_text_form_are_refused_with_the_column_name(spark: Any, literal: str) -> None:
    rows = spark.sql(f"select {literal} as blob, 1 as p")
    for settings in (KeySettings(("blob",), ("p",)), KeySettings(("p",), ("blob",))):
        with pytest.raises(SchemaError, match="blob"):
            make_key_generator(settings).make_columns(rows.schema)


# --- finding columns


def test_a_column_whose_name_has_a_dot_wins_over_a_field_of_a_struct(spark: Any) -> None:
    rows = spark.sql("select named_struct('b', 'inner', 'c.d', 'deep') as a, 'outer' as `a.b`")
    assert keys_of(rows, KeySettings(("a.b",), ())) == ["outer"]
    assert keys_of(rows, KeySettings(("a.c.d",), ())) == ["deep"]
    assert make_key_generator(KeySettings(("a.b",), ())).make_columns(rows.schema).plain_record_key == "a.b"


def test_odd_column_names_are_found(spark: Any) -> None:
    rows = spark.sql("select 1 as `a``b`, 2 as `ä ö`, 3 as `x,y:z`, 4 as `{}`")
    assert keys_of(rows, KeySettings(("a`b", "ä ö", "x,y:z", "{}"), ())) == ["a`b:1,ä ö:2,x,y:z:3,{}:4"]


def test_a_null_struct_has_null_fields(spark: Any) -> None:
    rows = spark.sql("select cast(null as struct<f: string>) as st, 1 as i")
    assert keys_of(rows, KeySettings(("i", "st.f"), ())) == ["i:1,st.f:__null__"]
    assert paths_of(rows, KeySettings(("i",), ("st.f",))) == [DEFAULT_PARTITION]


@pytest.mark.parametrize(
    ("name", "near"), [("ident", "'idents'"), ("IDENTS", "'idents'"), ("st.ff", "'st.f'"), ("qqq", "Columns: idents, st")]
)
def test_a_missing_column_is_named_with_similar_columns(spark: Any, name: str, near: str) -> None:
    schema = spark.sql("select 1 as idents, named_struct('f', 1) as st").schema
    for settings in (KeySettings((name,), ()), KeySettings(("idents",), (name,))):
        with pytest.raises(SchemaError, match=name) as refusal:
            make_key_generator(settings).make_columns(schema)
        assert near in str(refusal.value)


def test_a_column_that_is_there_twice_is_refused(spark: Any) -> None:
    with pytest.raises(SchemaError, match="more than one column 'id'"):
        make_key_generator(KeySettings(("id",), ())).make_columns(spark.sql("select 1 as id, 2 as id").schema)


@pytest.mark.parametrize("settings", [KeySettings(("a", "a"), ()), KeySettings(("a",), ("b", "b"))])
def test_a_field_that_is_named_twice_is_refused(settings: KeySettings) -> None:
    with pytest.raises(OptionError, match="named twice"):
        make_key_generator(settings)


# --- rows without keys


@pytest.mark.parametrize(("literal", "shown"), [("cast(null as string)", "null"), ("''", ""), ("cast(null as bigint)", "null")])
@pytest.mark.parametrize("generator", [SIMPLE, COMPLEX, NONPARTITIONED])
def test_a_null_or_empty_key_fails_with_hudis_message(spark: Any, generator: str, literal: str, shown: str) -> None:
    error = error_of(spark.sql(f"select {literal} as id, 1 as p"), KeySettings(("id",), ("p",), generator_class=generator))
    assert isinstance(error, RecordKeyError)
    assert str(error).startswith(f'recordKey value: "{shown}" for field: "id" cannot be null or empty. Fix:')


@pytest.mark.parametrize("generator", [COMPLEX, NONPARTITIONED, GLOBAL_DELETE])
def test_a_key_of_nulls_and_empty_texts_alone_fails(spark: Any, generator: str) -> None:
    rows = spark.sql("select cast(null as int) as a, '' as b, 1 as p")
    error = error_of(rows, KeySettings(("a", "b"), ("p",), generator_class=generator))
    assert isinstance(error, RecordKeyError)
    assert 'recordKey values: "a:__null__,b:__empty__" for fields: [a, b] cannot be entirely null or empty.' in str(error)


def test_the_check_for_null_keys_leaves_rows_with_keys_unchanged(spark: Any) -> None:
    rows = spark.sql("select * from values (1, 'a'), (2, 'b') as t(at, id) order by at")
    assert keys_of(rows, KeySettings(("id",), ())) == ["a", "b"]


# --- misuse


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (KeySettings(("i", "b"), ("s",), generator_class=SIMPLE), r"Single record-key field is expected; provided \(i, b\)"),
        (KeySettings(("i",), ("s", "b"), generator_class=SIMPLE), r"Single partition-path field is expected; provided \(s, b\)"),
        (KeySettings(("i",), (), generator_class=SIMPLE), r"Single partition-path field is expected; provided \(\)"),
        (KeySettings((), (), generator_class=GLOBAL_DELETE), "recordkey.field"),
        (KeySettings(("i",), ("s",), generator_class=CUSTOM), "Unable to find field names for partition path in proper format"),
        (
            KeySettings(("i",), ("s:FANCY",), generator_class=CUSTOM),
            "Unable to find field names for partition path in proper format",
        ),
        (KeySettings(("i",), ("s",), generator_class=SQL, sql_origin_class=SQL), "cannot wrap itself"),
        (by_time("i", output_dateformat="yyyy"), "timestamp.type must be set .*one of UNIX_TIMESTAMP, EPOCHMILLISECONDS"),
        (by_time("i", timestamp_type="SCALAR"), "output.dateformat must be set .*such as yyyy"),
        (by_time("i", timestamp_type="SOON", output_dateformat="yyyy"), "timestamp.type=SOON: use one of"),
        (
            by_time("i", timestamp_type="SCALAR", timestamp_scalar_time_unit="WEEKS", output_dateformat="yyyy"),
            "WEEKS: use one of",
        ),
        (by_time("i", timestamp_type="SCALAR", output_dateformat="yyyy", timezone="Mars"), "timezone=Mars"),
        (
            by_time("s", timestamp_type="DATE_STRING", output_dateformat="yyyy"),
            "input.dateformat must be set .*such as yyyy-MM-dd",
        ),
        (by_time("s", timestamp_type="EPOCHMILLISECONDS", output_dateformat="yyyy"), "Missing input formatter"),
        (by_time("i", timestamp_type="MIXED", input_dateformat="yyyy", output_dateformat="yyyy"), "time.unit is not specified"),
        (
            by_time(
                "s",
                timestamp_type="DATE_STRING",
                input_dateformat="yyyy",
                input_dateformat_list_delimiter_regex="(",
                output_dateformat="yyyy",
            ),
            "not a regular expression",
        ),
    ],
)
def test_settings_that_do_not_fit_the_generator_are_refused(spark: Any, settings: KeySettings, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_key_generator(settings).make_columns(spark.sql(ROW).schema)


def test_another_date_parser_is_refused(spark: Any) -> None:
    own = by_time("i", timestamp_type="SCALAR", output_dateformat="yyyy", datetime_parser_class="com.example.Parser")
    with pytest.raises(Unsupported, match=r"com.example.Parser"):
        make_key_generator(own).make_columns(spark.sql(ROW).schema)
    hudis = by_time(
        "i",
        timestamp_type="SCALAR",
        output_dateformat="yyyy",
        datetime_parser_class="org.apache.hudi.keygen.parser.HoodieDateTimeParser",
    )
    assert paths_of(spark.sql(ROW), hudis) == ["1970"]


# --- times: numbers

MILLIS = "1709168523456"


NUMBERS = [
    (
        "bigint",
        MILLIS,
        {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy/MM/dd/HH", "timezone": "UTC"},
        "2024/02/29/01",
    ),
    (
        "bigint",
        MILLIS,
        {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy-MM-dd HH", "timezone": "GMT+8:00", "hive_style": True},
        "v=2024-02-29 09",
    ),
    (
        "int",
        "1709168523",
        {"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "yyyyMMdd", "output_timezone": "UTC"},
        "20240229",
    ),
    (
        "bigint",
        "1709168523456789",
        {
            "timestamp_type": "SCALAR",
            "timestamp_scalar_time_unit": "microseconds",
            "output_dateformat": "yyyy-MM-dd",
            "timezone": "UTC",
        },
        "2024-02-29",
    ),
    (
        "date",
        "date'2024-02-29'",
        {"timestamp_type": "SCALAR", "timestamp_scalar_time_unit": "DAYS", "output_dateformat": "yyyy-MM", "timezone": "UTC"},
        "2024-02",
    ),
    (
        "bigint",
        "null",
        {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy-MM-dd HH:mm:ss.SSS", "timezone": "UTC"},
        "1970-01-01 00:00:00.001",
    ),
    ("bigint", "null", {"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "ss.SSS", "timezone": "UTC"}, "01.000"),
    (
        "date",
        "null",
        {"timestamp_type": "SCALAR", "timestamp_scalar_time_unit": "HOURS", "output_dateformat": "HH", "timezone": "UTC"},
        "01",
    ),
    ("double", "1709168523.9D", {"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "ss.S", "timezone": "UTC"}, "03.0"),
    ("float", "-1.5", {"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "ss", "timezone": "UTC"}, "59"),
    ("decimal(12, 2)", "90.75", {"timestamp_type": "SCALAR", "output_dateformat": "mm:ss", "timezone": "UTC"}, "01:30"),
    (
        "bigint",
        "-1",
        {"timestamp_type": "SCALAR", "timestamp_scalar_time_unit": "NANOSECONDS", "output_dateformat": "yyyy", "timezone": "UTC"},
        "1970",
    ),
    (
        "bigint",
        "60",
        {"timestamp_type": "SCALAR", "timestamp_scalar_time_unit": "MINUTES", "output_dateformat": "HHmm", "timezone": "UTC"},
        "0100",
    ),
    ("smallint", "-1", {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy SSS", "timezone": "UTC"}, "1969 999"),
    (
        "bigint",
        "1709168523456789",
        {"timestamp_type": "EPOCHMICROSECONDS", "output_dateformat": "ss.SSSSSS", "timezone": "UTC"},
        "03.456000",
    ),
    (
        "bigint",
        MILLIS,
        {
            "timestamp_type": "EPOCHMILLISECONDS",
            "output_dateformat": "yyyy/MM",
            "timezone": "UTC",
            "hive_style": True,
            "url_encode": True,
        },
        "v=2024%2F02",
    ),
    (
        "bigint",
        "1711843200000",
        {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "HH ZZ", "timezone": "Europe/Berlin"},
        "01 +01:00",
    ),
    (
        "bigint",
        "1711846800000",
        {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "HH Z", "timezone": "Europe/Berlin"},
        "03 +0200",
    ),
    (
        "timestamp",
        "timestamp'2016-12-29 09:54:00 UTC'",
        {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy/MM/dd HH", "timezone": "UTC", "flag": True},
        "2016/12/29 09",
    ),
    (
        "timestamp",
        "timestamp'2016-12-29 09:54:00 UTC'",
        {
            "timestamp_type": "SCALAR",
            "timestamp_scalar_time_unit": "MICROSECONDS",
            "output_dateformat": "yyyy/MM/dd HH",
            "timezone": "UTC",
        },
        "2016/12/29 09",
    ),
]


@pytest.mark.parametrize("session_zone", ["UTC", "America/New_York"])
def test_numbers_become_the_same_times_in_every_session_zone(spark: Any, session_zone: str) -> None:
    columns = ", ".join(f"cast({literal} as {sql_type}) as c{at}" for at, (sql_type, literal, _, _) in enumerate(NUMBERS))
    cases = [by_time(f"c{at}", **options) for at, (_, _, options, _) in enumerate(NUMBERS)]
    with conf(spark, spark__sql__session__timeZone=session_zone):
        paths = all_paths(spark.sql(f"select {columns}"), cases)
    assert paths == [expected.replace("v=", f"c{at}=") for at, (*_, expected) in enumerate(NUMBERS)]


@pytest.mark.parametrize(("session_zone", "expected"), [("UTC", "2024-02-29 01 UTC"), ("Asia/Tokyo", "2024-02-29 10 Asia/Tokyo")])
def test_numbers_without_a_zone_are_shown_in_that_of_the_session(spark: Any, session_zone: str, expected: str) -> None:
    settings = by_time(timestamp_type="EPOCHMILLISECONDS", output_dateformat="yyyy-MM-dd HH ZZZ")
    with conf(spark, spark__sql__session__timeZone=session_zone):
        assert paths_of(values(spark, "bigint", MILLIS), settings) == [expected]


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    ("sql_type", "literal"),
    [("bigint", "9223372036854775807"), ("bigint", "-9223372036854775808"), ("double", "'NaN'"), ("double", "1e30D")],
)
def test_a_number_beyond_any_date_fails_with_the_unit_as_the_likely_reason(
    spark: Any, ansi: str, sql_type: str, literal: str
) -> None:
    settings = by_time(timestamp_type="UNIX_TIMESTAMP", output_dateformat="yyyy", timezone="UTC")
    with conf(spark, spark__sql__ansi__enabled=ansi):
        error = error_of(values(spark, sql_type, literal), settings, "partition_path")
    assert isinstance(error, RecordKeyError)
    assert "Unable to parse input partition field" in str(error)
    assert "SECONDS" in str(error)


def test_a_timestamp_needs_the_flag_or_microseconds(spark: Any) -> None:
    rows = values(spark, "timestamp", "timestamp'2016-12-29 09:54:00'")
    with pytest.raises(OptionError, match=r"consistent.logical.timestamp.enabled=true"):
        make_key_generator(by_time(timestamp_type="EPOCHMILLISECONDS", output_dateformat="yyyy")).make_columns(rows.schema)


def test_a_boolean_column_is_refused_as_a_time(spark: Any) -> None:
    with pytest.raises(SchemaError, match="boolean"):
        make_key_generator(by_time("b", timestamp_type="SCALAR", output_dateformat="yyyy")).make_columns(spark.sql(ROW).schema)


PRINTED = {
    "G C CC": "AD 20 20",
    "y yy yyy yyyy yyyyy": "2024 24 2024 2024 02024",
    "Y YY YYYY": "2024 24 2024",
    "x xx xxxx-'W'ww-e": "2024 24 2024-W09-4",
    "M MM MMM MMMM": "2 02 Feb February",
    "d dd D DDD": "29 29 60 060",
    "E EEE EEEE e": "Thu Thu Thursday 4",
    "H HH k kk K KK h hh a": "13 13 13 13 1 01 1 01 PM",
    "m mm s ss": "2 02 3 03",
    "S SS SSS SSSS SSSSSSSSS": "4 45 456 4560 456000000",
    "Z ZZ ZZZ": "+0530 +05:30 Asia/Kolkata",
    "'yyyy' '' yyyy''MM": "yyyy ' 2024'02",
}


@pytest.mark.everywhere
@pytest.mark.parametrize("policy", ["CORRECTED", "LEGACY"])
def test_every_letter_prints_as_joda_does(spark: Any, policy: str) -> None:
    rows = values(spark, "bigint", "1709191923456")  # 13:02:03.456 in Kolkata
    columns = [
        make_key_generator(by_time(timestamp_type="EPOCHMILLISECONDS", output_dateformat=pattern, timezone="Asia/Kolkata"))
        .make_columns(rows.schema)
        .partition_path
        for pattern in PRINTED
    ]
    with conf(spark, spark__sql__legacy__timeParserPolicy=policy):
        assert list(rows.select(*columns).first()) == list(PRINTED.values())


EDGES = [
    ("0", "HH kk KK hh a", "00 24 00 12 AM"),
    ("43200000", "HH kk KK hh a", "12 12 00 12 PM"),
    ("-62135596800001", "yyyy YYYY G", "0000 0001 BC"),
    ("-62167219200001", "yyyy YYYY G", "-0001 0002 BC"),
    ("253402300800000", "yyyy", "10000"),
    ("1735516800000", "xxxx ww", "2025 01"),
    ("1609459200000", "xxxx ww", "2020 53"),
]


def test_the_edges_of_clock_and_calendar_print_as_joda_does(spark: Any) -> None:
    rows = spark.sql("select " + ", ".join(f"cast({millis} as bigint) as c{at}" for at, (millis, _, _) in enumerate(EDGES)))
    options = {"timestamp_type": "EPOCHMILLISECONDS", "timezone": "UTC"}
    cases = [by_time(f"c{at}", output_dateformat=pattern, **options) for at, (_, pattern, _) in enumerate(EDGES)]
    assert all_paths(rows, cases) == [expected for *_, expected in EDGES]


# --- times: texts

ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSZ"


ZONED = [
    ({}, "2024/02/29/01"),
    ({"output_timezone": "UTC"}, "2024/02/28/19"),
    ({"timezone": "GMT+8:00"}, "2024/02/29/03"),
    ({"input_timezone": "Europe/Berlin"}, "2024/02/28/20"),
    ({"input_timezone": "Europe/Berlin", "output_timezone": "UTC"}, "2024/02/28/19"),
]


@pytest.mark.parametrize("session_zone", ["UTC", "America/New_York"])
def test_a_text_with_an_offset_is_shown_in_the_output_zone_or_its_own(spark: Any, session_zone: str) -> None:
    options = {"timestamp_type": "DATE_STRING", "input_dateformat": ISO, "output_dateformat": "yyyy/MM/dd/HH"}
    with conf(spark, spark__sql__session__timeZone=session_zone):
        rows = values(spark, "string", "'2024-02-29T01:02:03.456+0530'")
        assert all_paths(rows, [by_time(**options, **zones) for zones, _ in ZONED]) == [expected for _, expected in ZONED]


UNZONED = [
    ({}, "2024-07-01 01 -0400"),
    ({"output_timezone": "UTC"}, "2024-07-01 05 +0000"),
    ({"input_timezone": "Asia/Tokyo", "output_timezone": "UTC"}, "2024-06-30 16 +0000"),
    ({"timezone": "Asia/Tokyo"}, "2024-07-01 01 +0900"),
    ({"timezone": "GMT"}, "2024-07-01 01 +0000"),
]


def test_a_text_without_an_offset_is_read_in_the_input_zone_or_the_session_zone(spark: Any) -> None:
    options = {"timestamp_type": "MIXED", "input_dateformat": "yyyy-MM-dd HH:mm", "output_dateformat": "yyyy-MM-dd HH Z"}
    with conf(spark, spark__sql__session__timeZone="America/New_York"):
        rows = values(spark, "string", "'2024-07-01 01:30'")
        assert all_paths(rows, [by_time(**options, **zones) for zones, _ in UNZONED]) == [expected for _, expected in UNZONED]


READ = [
    ("yyyy-MM-dd", "2024-02-29", "2024-02-29T00:00:00.000"),
    ("yyyy-MM-dd", "2024-2-9", "2024-02-09T00:00:00.000"),
    ("yyyy-MM-dd", "12024-02-09", "12024-02-09T00:00:00.000"),
    ("yyyy-MM-dd", "-0044-03-15", "-0044-03-15T00:00:00.000"),
    ("yyyyMMdd", "20240229", "2024-02-29T00:00:00.000"),
    ("yyyyMMddHHmmss", "20240229010203", "2024-02-29T01:02:03.000"),
    ("yyyy-MM-dd'T'HH:mm:ss.SSSSSS", "2024-02-29t01:02:03.123456", "2024-02-29T01:02:03.123"),
    ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2024-02-29T01:02:03.4", "2024-02-29T01:02:03.400"),
    ("d MMM yyyy hh:mm a", "9 feb 2024 12:05 am", "2024-02-09T00:05:00.000"),
    ("d MMM yyyy hh:mm a", "9 February 2024 12:05 PM", "2024-02-09T12:05:00.000"),
    ("EEE, dd MMMM yyyy KK a", "Thu, 29 Feb 2024 00 PM", "2024-02-29T12:00:00.000"),
    ("yyyy-DDD", "2024-366", "2024-12-31T00:00:00.000"),
    ("xxxx-'W'ww-e", "2020-W53-5", "2021-01-01T00:00:00.000"),
    ("xxxx-ww", "2024-09", "2024-02-26T00:00:00.000"),
    ("MM/dd", "02/29", "2000-02-29T00:00:00.000"),
    ("HH:mm", "23:59", "1970-01-01T23:59:00.000"),
    ("kk:mm", "24:10", "1970-01-01T00:10:00.000"),
    ("yyyy", "2024", "2024-01-01T00:00:00.000"),
    ("yyyy-MM-dd HH ZZ", "2024-02-29 01 -03:30", "2024-02-29T01:00:00.000"),
    ("Y M d", "2024 2 29", "2024-02-29T00:00:00.000"),
]


@pytest.mark.everywhere
@pytest.mark.parametrize(("ansi", "policy"), [("true", "CORRECTED"), ("false", "EXCEPTION")])
def test_texts_are_read_as_leniently_as_joda_does(spark: Any, ansi: str, policy: str) -> None:
    rows = spark.createDataFrame([tuple(text for _, text, _ in READ)], ", ".join(f"c{at} string" for at in range(len(READ))))
    options = {
        "timestamp_type": "DATE_STRING",
        "input_dateformat_list_delimiter_regex": ";",
        "output_dateformat": "yyyy-MM-dd'T'HH:mm:ss.SSS",
    }
    cases = [by_time(f"c{at}", input_dateformat=pattern, **options) for at, (pattern, _, _) in enumerate(READ)]
    with conf(spark, spark__sql__ansi__enabled=ansi, spark__sql__legacy__timeParserPolicy=policy):
        assert all_paths(rows, cases) == [expected for *_, expected in READ]


def test_two_digit_years_lie_in_the_hundred_years_around_now(spark: Any) -> None:
    rows = values(spark, "string", "'24-01'", "'99-01'", "'1850-01'")
    assert paths_of(rows, by_time(timestamp_type="DATE_STRING", input_dateformat="yy-MM", output_dateformat="yyyy")) == [
        str(dt.date.today().year - 80 + (year - (dt.date.today().year - 80)) % 100) for year in (24, 99)
    ] + ["1850"]


def test_a_zone_name_in_the_text_sets_its_zone(spark: Any) -> None:
    settings = by_time(
        timestamp_type="DATE_STRING",
        input_dateformat="yyyy-MM-dd HH ZZZ",
        output_dateformat="yyyy-MM-dd HH",
        output_timezone="UTC",
    )
    assert paths_of(values(spark, "string", "'2024-07-01 00 Europe/Berlin'"), settings) == ["2024-06-30 22"]


def test_the_first_pattern_that_fits_the_whole_text_is_taken(spark: Any) -> None:
    settings = by_time(
        timestamp_type="DATE_STRING",
        input_dateformat="yyyyMMdd, yyyy-MM-dd, yyyyDDDHH,yyyy-MM-dd HH:mm",
        output_dateformat="yyyy/MM/dd",
    )
    rows = values(spark, "string", "'20240109'", "'2024-01-09'", "'202400112'", "'2024-01-09 10:11'", "'2024-1-9'")
    assert paths_of(rows, settings) == ["2024/01/09", "2024/01/09", "2024/01/01", "2024/01/09", "2024/01/09"]


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        ({}, "1970-01-01 00:00:00.001"),
        ({"timezone": "Asia/Tokyo"}, "1970-01-01 09:00:00.001"),
        ({"output_timezone": "UTC"}, "1970-01-01 00:00:00.001"),
    ],
)
def test_a_null_text_is_read_as_the_first_millisecond_of_1970(spark: Any, zones: dict[str, str], expected: str) -> None:
    settings = by_time(timestamp_type="DATE_STRING", input_dateformat=ISO, output_dateformat="yyyy-MM-dd HH:mm:ss.SSS", **zones)
    rows = values(spark, "string", "null", f"'{DEFAULT_PARTITION}'")
    with conf(spark, spark__sql__session__timeZone="America/New_York"):
        assert paths_of(rows, settings) == [expected, expected]


@pytest.mark.parametrize(("zones", "ansi"), [({}, "true"), ({"output_timezone": "Asia/Tokyo"}, "false")])
@pytest.mark.parametrize(
    "text", ["2024-13-01", "2024-02-30", "2023-02-29", "2024-02", "tomorrow", "", "2024-02-01 ", "999999999-01-01"]
)
def test_a_text_that_is_no_date_fails_with_the_text_in_the_message(
    spark: Any, zones: dict[str, str], ansi: str, text: str
) -> None:
    settings = by_time(timestamp_type="DATE_STRING", input_dateformat="yyyy-MM-dd", output_dateformat="yyyy/MM/dd", **zones)
    with conf(spark, spark__sql__ansi__enabled=ansi):
        error = error_of(values(spark, "string", f"'{text}'"), settings, "partition_path")
    assert isinstance(error, RecordKeyError)
    assert str(error).startswith(f"Unable to parse input partition field: {text}. Fix:")
    assert "yyyy-MM-dd" in str(error)


# --- SQL


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("origin", [SIMPLE, None])
def test_sql_writes_timestamps_of_the_path_in_words(spark: Any, zone: str, origin: str | None) -> None:
    settings = KeySettings(("id",), ("ts",), generator_class=SQL, sql_origin_class=origin, hive_style=True)
    with conf(spark, spark__sql__session__timeZone=zone):
        rows = spark.sql(
            "select 1 as at, '1' as id, timestamp'2016-12-29 09:54:00.123' as ts union all select 2, '2', null order by at"
        )
        assert paths_of(rows, settings) == ["ts=2016-12-29 09%3A54%3A00", f"ts={DEFAULT_PARTITION}"]
        assert keys_of(rows, settings) == ["1", "2"]


def test_sql_leaves_other_columns_and_generators_alone(spark: Any) -> None:
    rows = spark.sql(ROW)
    plain = KeySettings(("i",), ("s",), generator_class=SQL, sql_origin_class=SIMPLE)
    assert paths_of(rows, plain) == [SPECIAL]
    assert make_key_generator(plain).make_columns(rows.schema).plain_partition_path == "s"
    time = {"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "DAYS", "output.dateformat": "yyyy", "timezone": "UTC"}
    timed = KeySettings(("i",), ("d",), generator_class=SQL, sql_origin_class=TIMESTAMP, timebased=time)
    assert paths_of(rows, timed) == ["2024"]
    assert make_key_generator(timed).java_class == TIMESTAMP
