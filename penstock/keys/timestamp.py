"""TimestampBasedKeyGenerator: the partition path is a time, printed by a date pattern. The record key is one field.

If no option names an output zone, numbers and timestamps are printed in the session's zone; Hudi takes that of the JVM. As in
Hudi, a row with a null value does not go to the default partition. It goes to the partition of the time one unit (one second, one
millisecond, ...) after the beginning of 1970.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final

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
from penstock.keys.field import Field, find_field
from penstock.keys.generator import CONSISTENT_TIMESTAMP_OPTION, PARTITION_PATH_OPTION, TIMEBASED_PREFIX, KeyColumns, KeySettings
from penstock.keys.joda_parsing import TextReader
from penstock.keys.joda_pattern import Reading, Token, parse_print_pattern, parse_read_pattern
from penstock.keys.moment import MILLIS_MAX, moment_in, print_moment
from penstock.keys.partition_path import DEFAULT_PARTITION
from penstock.keys.partition_path_column import join_folders
from penstock.keys.simple import check_single_field, key_of_single_field
from penstock.keys.time_zone import UTC, Zone, parse_zone
from penstock.keys.value_text import TEXT_TYPES, fail, micros_of, unsupported_type
from penstock.options.key_generator_names import TIMESTAMP

_INTEGER_TYPES = (ByteType, ShortType, IntegerType, LongType)
_FRACTION_TYPES = (FloatType, DoubleType, DecimalType)
#: A round number below the greatest long, which a double cannot hold exactly.
_LONG_MAX = 9_000_000_000_000_000_000
#: Hudi's own parsers, which do what this module does.
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
    """The values of `hoodie.keygen.timebased.timestamp.type`: what the partition column holds.

    UNIX_TIMESTAMP, EPOCHMILLISECONDS and EPOCHMICROSECONDS: seconds, milliseconds and microseconds since 1970. SCALAR: numbers in
    the unit that another option names. DATE_STRING and MIXED: date strings.
    """

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    SCALAR = "SCALAR"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"

    @property
    def reads_text(self) -> bool:
        """Whether the partition column holds date strings that have to be parsed, not numbers."""
        return self in (InputType.DATE_STRING, InputType.MIXED)


@dataclass(frozen=True)
class TimeFormat:
    """The parsed and checked `hoodie.keygen.timebased.*` options: how to read a partition value and how to print its time.

    `unit` is the unit of numbers, `readings` has the input patterns of date strings. A column holds one or the other, so `unit`
    is None or `readings` is empty. `output` is the pattern to print by. A zone is None if no option names it.
    """

    input_type: InputType
    #: The unit of numbers; None if text is read.
    unit: str | None
    #: How text is read, one per input pattern; empty if numbers are read.
    readings: tuple[Reading, ...]
    #: The first input pattern, by which the value that stands for null is printed.
    first_pattern: tuple[Token, ...]
    output: tuple[Token, ...]
    input_zone: Zone | None
    output_zone: Zone | None


@dataclass(frozen=True)
class TimestampBasedKeyGenerator:
    """A key generator for one record key field and one partition path field, which holds a time. A date pattern prints it."""

    settings: KeySettings
    java_class: ClassVar[str] = TIMESTAMP

    def make_columns(self, schema: StructType) -> KeyColumns:
        """Return the Spark expressions for the record key, the value of one field, and for the partition path, a printed time.

        Raises:
            SchemaError: a field is missing, occurs twice, or has a type that cannot be part of a key.
            OptionError: an option of the time format is missing or wrong, or the settings name several fields of a kind.
        """
        key, plain_key = key_of_single_field(schema, self.settings)
        name = check_single_field(self.settings.partition_path_fields, "partition-path")
        return KeyColumns(
            record_key=key,
            partition_path=join_folders([make_time_folder(schema, name, self.settings)]),
            plain_record_key=plain_key,
            plain_partition_path=None,
            record_key_fields=self.settings.record_key_fields,
            partition_path_fields=(name,),
        )


def make_time_folder(schema: StructType, name: str, settings: KeySettings) -> Column:
    """Return an expression for the folder name of a time-based partition path field: its time, printed by the output pattern.

    In hive style `name=` is put in front. The result is several folders if the output pattern has slashes that are not escaped.

    Args:
        name: the partition path field.
    """
    field = find_field(schema, name, option=PARTITION_PATH_OPTION)
    text = _print_field(field, parse_time_format(settings.timebased), settings)
    return F.concat(F.lit(f"{name}="), text) if settings.hive_style else text


def parse_time_format(options: Mapping[str, str]) -> TimeFormat:
    """Parse and check the options of the time-based key generator.

    Args:
        options: the `hoodie.keygen.timebased.*` options without that prefix.

    Raises:
        OptionError: an option is missing or has a wrong value.
    """
    _check_parser(options)
    type_names = [kind.value for kind in InputType]
    input_type = InputType(_check_choice("timestamp.type", _require(options, "timestamp.type"), type_names))
    input_zone, output_zone = _parse_zones(options)
    patterns = _parse_input_patterns(options) if input_type.reads_text else []
    option = f"{TIMEBASED_PREFIX}input.dateformat"
    output_pattern = _require(options, "output.dateformat")
    return TimeFormat(
        input_type=input_type,
        unit=_find_unit(input_type, options),
        readings=tuple(parse_read_pattern(pattern, option=option) for pattern in patterns),
        first_pattern=parse_print_pattern(patterns[0], option=option) if patterns else (),
        output=parse_print_pattern(output_pattern, option=f"{TIMEBASED_PREFIX}output.dateformat"),
        input_zone=input_zone,
        output_zone=output_zone,
    )


# --- options

#: What the options have that must be set.
_FORMS: Final = {
    "timestamp.type": f"one of {', '.join(kind.value for kind in InputType)}",
    "input.dateformat": "the pattern of the column's text, such as yyyy-MM-dd HH:mm:ss",
    "output.dateformat": "the pattern of the partition path, such as yyyy/MM/dd",
}


def _require(options: Mapping[str, str], key: str) -> str:
    """Return the value of the option `key`. Raise OptionError if the option is missing or blank."""
    value = options.get(key, "")
    if not value.strip():
        raise OptionError(f"{TIMEBASED_PREFIX}{key} must be set for the time-based key generator: {_FORMS[key]}.")
    return value


def _check_choice(key: str, value: str, allowed: list[str]) -> str:
    """Return the value of the option `key` in upper case. Raise OptionError if it is not one of `allowed`."""
    if value.strip().upper() not in allowed:
        raise OptionError(f"{TIMEBASED_PREFIX}{key}={value}: use one of {', '.join(allowed)}.")
    return value.strip().upper()


def _find_unit(kind: InputType, options: Mapping[str, str]) -> str | None:
    """Return the unit of the numbers in the partition column, such as SECONDS; None if the column holds date strings."""
    if kind.reads_text:
        return None
    if kind is InputType.SCALAR:
        key = "timestamp.scalar.time.unit"
        return _check_choice(key, options.get(key, "SECONDS"), [*_UNITS_PER_MS, *_MS_PER_UNIT])
    return {
        InputType.UNIX_TIMESTAMP: "SECONDS",
        InputType.EPOCHMILLISECONDS: "MILLISECONDS",
        InputType.EPOCHMICROSECONDS: "MICROSECONDS",
    }[kind]


def _parse_input_patterns(options: Mapping[str, str]) -> list[str]:
    """Return the date patterns of `input.dateformat`, split at the delimiter. Raise OptionError if there is none."""
    text = _require(options, "input.dateformat")
    key = "input.dateformat.list.delimiter.regex"
    delimiter = options.get(key) or ","
    try:
        patterns = re.split(delimiter, text)
    except re.error as problem:
        raise OptionError(f"{TIMEBASED_PREFIX}{key}={delimiter}: not a regular expression ({problem}).") from None
    return [pattern.strip() for pattern in patterns if pattern.strip()]


def _parse_zones(options: Mapping[str, str]) -> tuple[Zone | None, Zone | None]:
    """Return the input zone and the output zone. Each is None if no option names it."""
    if "timezone" in options:
        both = parse_zone(options["timezone"], option=f"{TIMEBASED_PREFIX}timezone")
        return both, both
    input_zone = parse_zone(options.get("input.timezone", ""), option=f"{TIMEBASED_PREFIX}input.timezone")
    output_zone = parse_zone(options.get("output.timezone", ""), option=f"{TIMEBASED_PREFIX}output.timezone")
    return input_zone, output_zone


def _check_parser(options: Mapping[str, str]) -> None:
    """Raise Unsupported if the options name a date parser class that is not Hudi's own."""
    parser = options.get("datetime.parser.class", "")
    if parser and parser.rpartition(".")[2] not in _PARSERS:
        raise Unsupported(f"hoodie.keygen.datetime.parser.class={parser}: Java classes cannot run here. Leave it out.")


# --- values


def _print_field(field: Field, form: TimeFormat, settings: KeySettings) -> Column:
    """Return an expression that prints the time in a field by the output pattern, escaped if `url_encode` is set.

    Args:
        form: how to read the field's value, and how to print its time.

    Raises:
        OptionError: the column's type does not fit `timestamp.type`.
    """
    if form.unit is None and isinstance(field.type, (*TEXT_TYPES, NullType)):
        return _print_text_field(field.column.cast("string"), form, escape=settings.url_encode)
    if form.unit is not None and isinstance(field.type, TEXT_TYPES):
        raise OptionError(
            f"Missing input formatter for the text column {field.name!r}. Ensure {TIMEBASED_PREFIX}input.dateformat is "
            f"set and {TIMEBASED_PREFIX}timestamp.type is DATE_STRING or MIXED, not {form.input_type.value}!"
        )
    if isinstance(field.type, (TimestampType, TimestampNTZType)) and settings.consistent_logical_timestamp:
        millis = F.coalesce(F.unix_millis(field.column.cast("timestamp")), F.lit(1).cast("long"))
    else:
        millis = _millis_of_number(field, form)
    return print_moment(moment_in(form.output_zone, millis), form.output, escape=settings.url_encode)


def _print_text_field(text: Column, form: TimeFormat, *, escape: bool) -> Column:
    """Return an expression that parses a date string and prints its time by the output pattern.

    A null is printed as the time one millisecond after the beginning of 1970. A date string that no input pattern fits raises an
    error.

    Args:
        text: the column of date strings.
        form: how to read the date strings, and how to print their times.
        escape: whether to escape the result as a folder name.
    """
    one_ms = moment_in(form.input_zone or form.output_zone or UTC, F.lit(1).cast("long"))
    # Rows that were read from a table may hold the default partition's name for null.
    value = F.coalesce(F.nullif(text, F.lit(DEFAULT_PARTITION)), print_moment(one_ms, form.first_pattern))
    patterns = ", ".join(reading.pattern for reading in form.readings)
    failure = (
        "Unable to parse input partition field: {}. "
        f"Fix: let {TIMEBASED_PREFIX}input.dateformat ({patterns}) list a pattern that fits it, or correct the value."
    )
    reader = TextReader(form.readings, zone=form.input_zone, failure=failure)
    return reader.print_as(form.output, value, shown_in=form.output_zone, escape=escape)


def _millis_of_number(field: Field, form: TimeFormat) -> Column:
    """Return an expression for the field's number as milliseconds since 1970, rounded toward zero like Java's TimeUnit.

    A null value counts as the number 1, as in Hudi. A number beyond any date raises an error when Spark evaluates the row.

    Args:
        form: the options of the time-based key generator, with the unit of the numbers.

    Raises:
        OptionError: `timestamp.type` says that the column holds date strings.
    """
    if form.unit is None:
        raise OptionError(
            f"{TIMEBASED_PREFIX}timestamp.scalar.time.unit is not specified but the column {field.name!r} holds "
            f"{field.type.simpleString()}, and {form.input_type.value} reads text. "
            f"Fix: {TIMEBASED_PREFIX}timestamp.type=SCALAR with that unit."
        )
    number = F.coalesce(_number(field, form), F.lit(1).cast("long"))
    units_per_ms = _UNITS_PER_MS.get(form.unit)
    if units_per_ms is None:
        ms_per_unit = _MS_PER_UNIT[form.unit]
        in_range = number.between(-(MILLIS_MAX // ms_per_unit), MILLIS_MAX // ms_per_unit)
        # Beyond the range the number is null: PySpark 3.5 would multiply literals before it evaluates the condition.
        millis = F.when(in_range, number) * F.lit(ms_per_unit).cast("long")
    else:
        in_range = number.between(max(-MILLIS_MAX * units_per_ms, -_LONG_MAX), min(MILLIS_MAX * units_per_ms, _LONG_MAX))
        millis = ((number - number % units_per_ms) / F.lit(units_per_ms)).cast("long")
    return F.when(in_range, millis).otherwise(fail(_out_of_range(form), number.cast("string")))


def _number(field: Field, form: TimeFormat) -> Column:
    """Return an expression for the field as a long: a number unchanged, a date as days, a timestamp as microseconds.

    A number beyond any date raises an error when Spark evaluates the row. Null stays null.

    Args:
        form: the options of the time-based key generator.

    Raises:
        OptionError: the field is a timestamp, and the options do not set the unit to microseconds.
        SchemaError: the field is neither a number nor a date or timestamp.
    """
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
    raise unsupported_type(field, PARTITION_PATH_OPTION)


def _out_of_range(form: TimeFormat) -> str:
    """Return the message about a number beyond any date, with `{}` in place of the number."""
    return (
        f"Unable to parse input partition field: {{}} {form.unit} are beyond any date. "
        f"Fix: {TIMEBASED_PREFIX}timestamp.type (with SCALAR: timestamp.scalar.time.unit) must be the column's unit."
    )
