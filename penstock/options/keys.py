"""Options of record keys and partition paths: which columns, which generator, how a path is spelled."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, boolean, comma_list, filled, text, word

_KEYGEN: Final = "org.apache.hudi.keygen"
_TIME: Final = "hoodie.keygen.timebased."
_OLD_TIME: Final = "hoodie.deltastreamer.keygen.timebased."


def key_generator_class(raw: str) -> str:
    """The Java name of a key generator; a short name gets the package of Hudi's own."""
    name = filled(raw)
    return name if "." in name or ":" in name else f"{_KEYGEN}.{name}"


RECORD_KEY_FIELD: Final[Option[str | None]] = Option(
    "hoodie.datasource.write.recordkey.field",
    comma_list,
    None,
    "Key columns; dots reach into structs. Without them each row gets a generated key.",
)
PARTITION_PATH_FIELD: Final[Option[str | None]] = Option(
    "hoodie.datasource.write.partitionpath.field",
    comma_list,
    None,
    "Partition columns. `partitionBy` sets them where the option does not. The custom generator takes `name:SIMPLE` "
    "and `name:TIMESTAMP`.",
)
KEY_GENERATOR_CLASS: Final[Option[str | None]] = Option(
    "hoodie.datasource.write.keygenerator.class",
    key_generator_class,
    None,
    "Key generator. Without it the type below decides, and without both the number of key and partition columns.",
    supported=(
        f"{_KEYGEN}.SimpleKeyGenerator",
        f"{_KEYGEN}.ComplexKeyGenerator",
        f"{_KEYGEN}.NonpartitionedKeyGenerator",
        f"{_KEYGEN}.TimestampBasedKeyGenerator",
        f"{_KEYGEN}.CustomKeyGenerator",
        f"{_KEYGEN}.GlobalDeleteKeyGenerator",
        f"{_KEYGEN}.SimpleAvroKeyGenerator",
        f"{_KEYGEN}.ComplexAvroKeyGenerator",
        f"{_KEYGEN}.NonpartitionedAvroKeyGenerator",
        f"{_KEYGEN}.TimestampBasedAvroKeyGenerator",
        f"{_KEYGEN}.CustomAvroKeyGenerator",
        f"{_KEYGEN}.GlobalAvroDeleteKeyGenerator",
        "org.apache.spark.sql.hudi.command.SqlKeyGenerator",
    ),
    instead="choose one of these; for anything else compute a key column in the DataFrame",
    case_sensitive=True,
)
KEY_GENERATOR_TYPE: Final[Option[str | None]] = Option(
    "hoodie.datasource.write.keygenerator.type",
    word,
    None,
    "Short name of the key generator; the class wins over it.",
    allowed=("SIMPLE", "COMPLEX", "TIMESTAMP", "CUSTOM", "NON_PARTITION", "GLOBAL_DELETE"),
)
HIVE_STYLE_PARTITIONING: Final = Option(
    "hoodie.datasource.write.hive_style_partitioning",
    boolean,
    False,
    "Name partition folders `column=value`. Fixed when the table is made.",
)
URL_ENCODE_PARTITIONING: Final = Option(
    "hoodie.datasource.write.partitionpath.urlencode",
    boolean,
    False,
    "Escape special characters of partition values. Without it a `/` in a value makes folders. Fixed with the table.",
)
CONSISTENT_LOGICAL_TIMESTAMP: Final = Option(
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
    boolean,
    False,
    "Spell timestamps in keys as date and time in place of a count of microseconds.",
)
TIMESTAMP_TYPE: Final[Option[str | None]] = Option(
    f"{_TIME}timestamp.type",
    word,
    None,
    "What the partition column of a timestamp-based generator holds.",
    aliases=(f"{_OLD_TIME}timestamp.type",),
    allowed=("UNIX_TIMESTAMP", "EPOCHMILLISECONDS", "SCALAR", "DATE_STRING", "MIXED"),
)
TIMESTAMP_SCALAR_UNIT: Final = Option(
    f"{_TIME}timestamp.scalar.time.unit",
    word,
    "SECONDS",
    "Unit of SCALAR values.",
    aliases=(f"{_OLD_TIME}timestamp.scalar.time.unit",),
    allowed=("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"),
)
TIMESTAMP_INPUT_FORMAT: Final = Option(
    f"{_TIME}input.dateformat",
    text,
    "",
    "Patterns of incoming strings, in Joda's notation; the first that fits is used.",
    aliases=(f"{_OLD_TIME}input.dateformat",),
)
TIMESTAMP_INPUT_FORMAT_DELIMITER: Final = Option(
    f"{_TIME}input.dateformat.list.delimiter.regex",
    text,
    ",",
    "Regular expression between two input patterns.",
    aliases=(f"{_OLD_TIME}input.dateformat.list.delimiter.regex",),
)
TIMESTAMP_OUTPUT_FORMAT: Final = Option(
    f"{_TIME}output.dateformat",
    text,
    "",
    "Pattern of the partition path, in Joda's notation. Required by timestamp-based generators.",
    aliases=(f"{_OLD_TIME}output.dateformat",),
)
TIMESTAMP_TIMEZONE: Final = Option(
    f"{_TIME}timezone",
    word,
    "",
    "Time zone of both input and output; wins over the two below.",
    aliases=(f"{_OLD_TIME}timezone",),
)
TIMESTAMP_INPUT_TIMEZONE: Final = Option(
    f"{_TIME}input.timezone",
    word,
    "",
    "Time zone of input without one. Empty: the offset in the string.",
    aliases=(f"{_OLD_TIME}input.timezone",),
)
TIMESTAMP_OUTPUT_TIMEZONE: Final = Option(
    f"{_TIME}output.timezone",
    word,
    "",
    "Time zone of the partition path. Empty: the input's, for numbers the session's.",
    aliases=(f"{_OLD_TIME}output.timezone",),
)
TIMESTAMP_PARSER_CLASS: Final = Option(
    "hoodie.keygen.datetime.parser.class",
    word,
    "org.apache.hudi.keygen.parser.HoodieDateTimeParser",
    "Class that reads the patterns above.",
    aliases=("hoodie.deltastreamer.keygen.datetime.parser.class",),
    supported=("org.apache.hudi.keygen.parser.HoodieDateTimeParser",),
    instead="leave it out",
    case_sensitive=True,
)
