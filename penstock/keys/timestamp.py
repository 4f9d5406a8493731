"""TimestampBasedKeyGenerator: the partition path is a moment in time, printed by a pattern; the key is one field.

Where a number or a timestamp has no zone to be shown in, it is shown in the session's; Hudi takes that of the JVM.
A null value gives the partition of one unit after 1970 (one second, one millisecond, ...), not the default partition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.errors import OptionError, Unsupported
from penstock.keys.column import Field, find_field
from penstock.keys.generator import CONSISTENT_TIMESTAMP_OPTION, PARTITION_PATH_OPTION, TIMEBASED_PREFIX, KeyColumns, KeySettings
from penstock.keys.joda_parsing import TextReader
from penstock.keys.joda_pattern import Reading, Token, print_tokens, reading_of
from penstock.keys.moment import MILLIS_MAX, moment_in, printed
from penstock.keys.names import TIMESTAMP
from penstock.keys.partition_path import DEFAULT_PARTITION
from penstock.keys.simple import single_field, single_key
from penstock.keys.text import TEXT_TYPES, fail, joined, micros_of, refused_type
from penstock.keys.time_zone import UTC, Zone, zone_named

_INTEGER_TYPES = (ByteType, ShortType, IntegerType, LongType)
_FRACTION_TYPES = (FloatType, DoubleType, DecimalType)
_LONG_MAX = 9_000_000_000_000_000_000
_PARSERS = ("HoodieDateTimeParser", "HoodieDateTimeParserImpl")

_UNITS_PER_MS = {"NANOSECONDS": 1_000_000, "MICROSECONDS": 1_000}
_MS_PER_UNIT = {
    "MILLISECONDS": 1,
    "SECONDS": 1_000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": 86_400_000,
}


class InputType(str, Enum):
    """Values of `timestamp.type`."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    SCALAR = "SCALAR"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"

    @property
    def reads_text(self) -> bool:
        return self in (InputType.DATE_STRING, InputType.MIXED)


@dataclass(frozen=True)
class TimeFormat:
    """How a value becomes the text of a moment: the `hoodie.keygen.timebased.*` options, checked."""

    input_type: InputType
    unit: str | None
    """Of numbers; none when texts are read."""
    readings: tuple[Reading, ...]
    first_pattern: tuple[Token, ...]
    output: tuple[Token, ...]
    input_zone: Zone | None
    output_zone: Zone | None


@dataclass(frozen=True)
class TimestampBasedKeyGenerator:
    settings: KeySettings
    java_class: ClassVar[str] = TIMESTAMP

    def columns(self, schema: StructType) -> KeyColumns:
        key, plain_key = single_key(schema, self.settings)
        name = single_field(self.settings.partition_path_fields, "partition-path")
        return KeyColumns(
            record_key=key,
            partition_path=joined([time_folder(schema, name, self.settings)]),
            plain_record_key=plain_key,
            plain_partition_path=None,
            record_key_fields=self.settings.record_key_fields,
            partition_path_fields=(name,),
        )


def time_folder(schema: StructType, name: str, settings: KeySettings) -> Column:
    """Give the folder of a time-based field; a pattern with slashes makes several of it, unless they are escaped."""
    field = find_field(schema, name, option=PARTITION_PATH_OPTION)
    text = _time_text(field, read_time_format(settings.timebased), settings)
    return F.concat(F.lit(f"{name}="), text) if settings.hive_style else text


def read_time_format(options: Mapping[str, str]) -> TimeFormat:
    """Check the options of the time-based generator.

    Raises:
        OptionError: one is missing or has a wrong value.
    """
    _check_parser(options)
    input_type = _choice("timestamp.type", _required(options, "timestamp.type"), [kind.value for kind in InputType])
    kind = InputType(input_type)
    input_zone, output_zone = _zones(options)
    patterns = _input_patterns(options) if kind.reads_text else []
    option = f"{TIMEBASED_PREFIX}input.dateformat"
    return TimeFormat(
        input_type=kind,
        unit=_unit(kind, options),
        readings=tuple(reading_of(pattern, option=option) for pattern in patterns),
        first_pattern=print_tokens(patterns[0], option=option) if patterns else (),
        output=print_tokens(_required(options, "output.dateformat"), option=f"{TIMEBASED_PREFIX}output.dateformat"),
        input_zone=input_zone,
        output_zone=output_zone,
    )


# --- options


def _required(options: Mapping[str, str], key: str) -> str:
    value = options.get(key, "")
    if not value.strip():
        raise OptionError(f"{TIMEBASED_PREFIX}{key} is missing: the time-based key generator needs it.")
    return value


def _choice(key: str, value: str, allowed: list[str]) -> str:
    if value.strip().upper() not in allowed:
        raise OptionError(f"{TIMEBASED_PREFIX}{key}={value}: use one of {', '.join(allowed)}.")
    return value.strip().upper()


def _unit(kind: InputType, options: Mapping[str, str]) -> str | None:
    if kind.reads_text:
        return None
    if kind is InputType.SCALAR:
        key = "timestamp.scalar.time.unit"
        return _choice(key, options.get(key, "SECONDS"), [*_UNITS_PER_MS, *_MS_PER_UNIT])
    return {
        InputType.UNIX_TIMESTAMP: "SECONDS",
        InputType.EPOCHMILLISECONDS: "MILLISECONDS",
        InputType.EPOCHMICROSECONDS: "MICROSECONDS",
    }[kind]


def _input_patterns(options: Mapping[str, str]) -> list[str]:
    text = _required(options, "input.dateformat")
    key = "input.dateformat.list.delimiter.regex"
    delimiter = options.get(key) or ","
    try:
        patterns = re.split(delimiter, text)
    except re.error as problem:
        raise OptionError(f"{TIMEBASED_PREFIX}{key}={delimiter}: not a regular expression ({problem}).") from None
    return [pattern.strip() for pattern in patterns if pattern.strip()]


def _zones(options: Mapping[str, str]) -> tuple[Zone | None, Zone | None]:
    if "timezone" in options:
        both = zone_named(options["timezone"], option=f"{TIMEBASED_PREFIX}timezone")
        return both, both
    first, second = (
        zone_named(options.get(key, ""), option=TIMEBASED_PREFIX + key) for key in ("input.timezone", "output.timezone")
    )
    return first, second


def _check_parser(options: Mapping[str, str]) -> None:
    parser = options.get("datetime.parser.class", "")
    if parser and parser.rpartition(".")[2] not in _PARSERS:
        raise Unsupported(f"hoodie.keygen.datetime.parser.class={parser}: Java classes cannot run here. Leave it out.")


# --- values


def _time_text(field: Field, form: TimeFormat, settings: KeySettings) -> Column:
    """Give the text of the field's moment, escaped if paths are.

    Raises:
        OptionError: the column's type does not fit `timestamp.type`.
    """
    if form.unit is None and isinstance(field.type, (*TEXT_TYPES, NullType)):
        return _printed_text(field.column.cast("string"), form, escape=settings.url_encode)
    if form.unit is not None and isinstance(field.type, TEXT_TYPES):
        raise OptionError(
            f"Missing input formatter for the text column {field.name!r}. Ensure {TIMEBASED_PREFIX}input.dateformat is "
            f"set and {TIMEBASED_PREFIX}timestamp.type is DATE_STRING or MIXED, not {form.input_type.value}!"
        )
    if isinstance(field.type, (TimestampType, TimestampNTZType)) and settings.consistent_logical_timestamp:
        millis = F.coalesce(F.unix_millis(field.column.cast("timestamp")), F.lit(1).cast("long"))
    else:
        millis = _millis_of_number(field, form)
    return printed(moment_in(form.output_zone, millis), form.output, escape=settings.url_encode)


def _printed_text(text: Column, form: TimeFormat, *, escape: bool) -> Column:
    one_ms = moment_in(form.input_zone or form.output_zone or UTC, F.lit(1).cast("long"))
    # the placeholder itself comes back in rows that were read from a table
    given = F.coalesce(F.nullif(text, F.lit(DEFAULT_PARTITION)), printed(one_ms, form.first_pattern))
    patterns = ", ".join(reading.pattern for reading in form.readings)
    failure = (
        "Unable to parse input partition field: {}. "
        f"Fix: let {TIMEBASED_PREFIX}input.dateformat ({patterns}) list a pattern that fits it, or correct the value."
    )
    reader = TextReader(form.readings, zone=form.input_zone, failure=failure)
    return reader.print_as(form.output, given, shown_in=form.output_zone, escape=escape)


def _millis_of_number(field: Field, form: TimeFormat) -> Column:
    """Give milliseconds since 1970, cut toward 1970 like Java's TimeUnit; null counts as one unit."""
    if form.unit is None:
        raise OptionError(
            f"{TIMEBASED_PREFIX}timestamp.scalar.time.unit is not specified but the column {field.name!r} holds "
            f"{field.type.simpleString()}, and {form.input_type.value} reads text. "
            f"Fix: {TIMEBASED_PREFIX}timestamp.type=SCALAR with that unit."
        )
    number = F.coalesce(_number(field, form), F.lit(1).cast("long"))
    per_ms, ms_per = _UNITS_PER_MS.get(form.unit), _MS_PER_UNIT.get(form.unit, 1)
    in_range = number.between(-(MILLIS_MAX // ms_per), MILLIS_MAX // ms_per)
    # the number is null beyond the range, or PySpark 3.5 would multiply literals before it looks at the condition
    millis = F.when(in_range, number) * F.lit(ms_per).cast("long")
    if per_ms is not None:
        in_range = number.between(max(-MILLIS_MAX * per_ms, -_LONG_MAX), min(MILLIS_MAX * per_ms, _LONG_MAX))
        millis = ((number - number % per_ms) / F.lit(per_ms)).cast("long")
    return F.when(in_range, millis).otherwise(fail(_out_of_range(form), number.cast("string")))


def _number(field: Field, form: TimeFormat) -> Column:
    column = field.column
    if isinstance(field.type, _INTEGER_TYPES):
        return column.cast("long")
    if isinstance(field.type, NullType):
        return F.lit(None).cast("long")
    if isinstance(field.type, _FRACTION_TYPES):
        in_range = column.isNull() | column.between(-_LONG_MAX, _LONG_MAX)
        return F.when(in_range, column.cast("long")).otherwise(fail(_out_of_range(form), column.cast("string")))
    if isinstance(field.type, DateType):
        return F.unix_date(column).cast("long")
    if isinstance(field.type, (TimestampType, TimestampNTZType)):
        if form.unit != "MICROSECONDS":
            raise OptionError(
                f"the partition column {field.name!r} is a timestamp: set {CONSISTENT_TIMESTAMP_OPTION}=true, or set "
                f"{TIMEBASED_PREFIX}timestamp.type=SCALAR with timestamp.scalar.time.unit=MICROSECONDS."
            )
        return micros_of(column, field.type)
    raise refused_type(field, PARTITION_PATH_OPTION)


def _out_of_range(form: TimeFormat) -> str:
    return (
        f"Unable to parse input partition field: {{}} {form.unit} are beyond any date. "
        f"Fix: {TIMEBASED_PREFIX}timestamp.type (with SCALAR: timestamp.scalar.time.unit) must be the column's unit."
    )
