"""Options of record keys and partition paths: columns, key generator, form of the partition path."""

from __future__ import annotations

from typing import Final

from penstock.options.features import JAVA_CLASSES
from penstock.options.key_generator_names import GENERATOR_CLASSES, GENERATOR_TYPES
from penstock.options.option import Option, boolean, comma_list, filled, text, word

_KEYGEN: Final = "org.apache.hudi.keygen"
_TIME: Final = "hoodie.keygen.timebased."
_OLD_TIME: Final = "hoodie.deltastreamer.keygen.timebased."


def key_generator_class(raw: str) -> str:
    """Return the full Java class name of a key generator. A name without a package gets Hudi's package of key generators."""
    name = filled(raw)
    return name if "." in name or ":" in name else f"{_KEYGEN}.{name}"


RECORD_KEY_FIELD: Final[Option[str | None]] = Option(
    "hoodie.datasource.write.recordkey.field",
    comma_list,
    None,
    "Columns of the record key; a dot selects a field of a struct. If not set, each row gets a generated key.",
)
PARTITION_PATH_FIELD: Final[Option[str | None]] = Option(
    "hoodie.datasource.write.partitionpath.field",
    comma_list,
    None,
    "Partition columns. `partitionBy` sets them if this option is not set. The custom key generator takes `name:SIMPLE` and "
    "`name:TIMESTAMP`.",
)
KEY_GENERATOR_CLASS: Final[Option[str | None]] = Option(
    "hoodie.datasource.write.keygenerator.class",
    key_generator_class,
    None,
    "Key generator. If not set, `hoodie.datasource.write.keygenerator.type` decides; if neither is set, the number of key and "
    "partition columns.",
    supported=GENERATOR_CLASSES,
    blank_is_unset=True,
    case_sensitive=True,
    lacks=JAVA_CLASSES,
    instead="choose a key generator of Hudi, or compute a key column in the DataFrame",
)
KEY_GENERATOR_TYPE: Final[Option[str | None]] = Option(
    "hoodie.datasource.write.keygenerator.type",
    word,
    None,
    "Short name of the key generator. The class has precedence.",
    allowed=GENERATOR_TYPES,
    blank_is_unset=True,
)
HIVE_STYLE_PARTITIONING: Final = Option(
    "hoodie.datasource.write.hive_style_partitioning",
    boolean,
    False,
    "Name partition folders `column=value`. Cannot change after the table is created.",
)
URL_ENCODE_PARTITIONING: Final = Option(
    "hoodie.datasource.write.partitionpath.urlencode",
    boolean,
    False,
    "Escape special characters of partition values. If false, a `/` in a value creates nested folders. Cannot change after the "
    "table is created.",
)
CONSISTENT_LOGICAL_TIMESTAMP: Final = Option(
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
    boolean,
    False,
    "Write timestamps in keys as date and time, instead of as microseconds.",
)
TIMESTAMP_TYPE: Final[Option[str | None]] = Option(
    f"{_TIME}timestamp.type",
    word,
    None,
    "Kind of values in the partition column of a timestamp-based key generator.",
    aliases=(f"{_OLD_TIME}timestamp.type",),
    allowed=("UNIX_TIMESTAMP", "EPOCHMILLISECONDS", "SCALAR", "DATE_STRING", "MIXED"),
)
TIMESTAMP_SCALAR_UNIT: Final = Option(
    f"{_TIME}timestamp.scalar.time.unit",
    word,
    "SECONDS",
    "Unit of the partition column's values for the timestamp type SCALAR.",
    aliases=(f"{_OLD_TIME}timestamp.scalar.time.unit",),
    allowed=("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"),
)
TIMESTAMP_INPUT_FORMAT: Final = Option(
    f"{_TIME}input.dateformat",
    text,
    "",
    "Patterns of incoming date strings, in Joda's notation. The first pattern that matches is used.",
    aliases=(f"{_OLD_TIME}input.dateformat",),
)
TIMESTAMP_INPUT_FORMAT_DELIMITER: Final = Option(
    f"{_TIME}input.dateformat.list.delimiter.regex",
    text,
    ",",
    "Regular expression that separates input patterns.",
    aliases=(f"{_OLD_TIME}input.dateformat.list.delimiter.regex",),
)
TIMESTAMP_OUTPUT_FORMAT: Final = Option(
    f"{_TIME}output.dateformat",
    text,
    "",
    "Pattern of the partition path, in Joda's notation. Timestamp-based key generators require it.",
    aliases=(f"{_OLD_TIME}output.dateformat",),
)
TIMESTAMP_TIMEZONE: Final = Option(
    f"{_TIME}timezone",
    word,
    "",
    "Time zone of input and output. It has precedence over the two separate time zones.",
    aliases=(f"{_OLD_TIME}timezone",),
)
TIMESTAMP_INPUT_TIMEZONE: Final = Option(
    f"{_TIME}input.timezone",
    word,
    "",
    "Time zone of date strings without one. Empty: the offset in the string.",
    aliases=(f"{_OLD_TIME}input.timezone",),
)
TIMESTAMP_OUTPUT_TIMEZONE: Final = Option(
    f"{_TIME}output.timezone",
    word,
    "",
    "Time zone of the partition path. Empty: the time zone of the input; for numbers, that of the session.",
    aliases=(f"{_OLD_TIME}output.timezone",),
)
TIMESTAMP_PARSER_CLASS: Final = Option(
    "hoodie.keygen.datetime.parser.class",
    word,
    "org.apache.hudi.keygen.parser.HoodieDateTimeParser",
    "Class that reads the input and output patterns.",
    aliases=("hoodie.deltastreamer.keygen.datetime.parser.class",),
    supported=("org.apache.hudi.keygen.parser.HoodieDateTimeParser",),
    case_sensitive=True,
    lacks=JAVA_CLASSES,
    instead="leave it out",
)
