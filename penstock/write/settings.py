"""Resolves the settings of a write from the options of the call, the table's properties, and defaults, in this order.

The first source that has a value wins. Some settings are inferred from others: for example, the operation is bulk_insert if
neither an operation nor record keys are set. Options that contradict the properties of an existing table are refused before any
file is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock import options as o
from penstock.errors import OptionError, TableExists, Unsupported
from penstock.keys import KeySettings, infer_generator_class
from penstock.keys.make_generator import find_generator_class
from penstock.keys.partition_fields import partition_columns
from penstock.merge.ordered_deletes import check_ordered_deletes
from penstock.options import Option, Options
from penstock.options.key_generator_names import SQL
from penstock.options.operation import Operation
from penstock.options.option import to_raw
from penstock.table.config import MERGE_ON_READ, TableConfig

#: Prefixes of the class names of key generators that ignore partition columns.
_WITHOUT_PARTITIONS = ("Nonpartitioned", "Global")
#: Prefixes of the class names of key generators that work in a table without meta columns.
_WITHOUT_META_COLUMNS = ("Simple", "Nonpartitioned", "Complex")


@dataclass(frozen=True)
class WriteSettings:
    """The settings of one write, resolved from the options of the call, the table's properties and defaults."""

    operation: Operation
    table_name: str
    keys: KeySettings
    ordering_field: str | None
    payload_class: str
    options: Options

    @property
    def auto_keys(self) -> bool:
        """Whether the writer generates the record keys, because no record key columns are set."""
        return not self.keys.record_key_fields

    @property
    def picks_newest(self) -> bool:
        """Whether only the incoming row with the greatest ordering value of each key is written.

        If false, the last row of the key to arrive is written, or all its rows are (`keeps_repeats`).
        """
        if self.operation is Operation.UPSERT:
            return self.options[o.COMBINE_BEFORE_UPSERT]
        return self.operation is Operation.INSERT

    @property
    def keeps_repeats(self) -> bool:
        """Whether an upsert writes all incoming rows of a key to a log or a new file group, as in Hudi, not only the last one.

        True for an upsert with `hoodie.combine.before.upsert=false`, unless `penstock.upsert.last.row.wins` is true.
        """
        is_combined = self.picks_newest or self.options[o.LAST_ROW_WINS]
        return self.operation is Operation.UPSERT and not is_combined


def resolve_settings(options: Options, config: TableConfig | None, columns: frozenset[str]) -> WriteSettings:
    """Return the settings of a write. Options of the call take precedence over the table's properties, and these over defaults.

    Args:
        options: the options of the call.
        config: the table's properties; None for a new table.
        columns: the names of the incoming columns. Two defaults depend on them: the operation and the ordering column.

    Raises:
        OptionError: an option is missing, or options contradict each other.
        Unsupported: the options ask for something that Penstock does not do.
    """
    if config is not None:
        options = _with_table_properties(options, config)
    keys = _key_settings(options)
    name = options[o.TABLE_NAME]
    if not name or not name.strip():
        raise OptionError("'hoodie.table.name' must be set: give the table a name")
    settings = WriteSettings(
        operation=_infer_operation(options, keys, columns),
        table_name=name.strip(),
        keys=keys,
        ordering_field=_ordering_field(options, columns),
        payload_class=_payload_class(options),
        options=options,
    )
    if config is None:
        _check_stored_names(settings)
    _check_settings(settings)
    if options[o.ORDERED_DELETES]:
        stored_ordering = _named_ordering(options) if config is None else config.precombine_field
        check_ordered_deletes(settings.payload_class, stored_ordering)
    return settings


def _with_table_properties(options: Options, config: TableConfig) -> Options:
    """Return the options of the call, completed by the table's properties for options that the call does not set.

    A property whose key differs from that of its write option, such as `hoodie.table.recordkey.fields`, is added under the key of
    the write option.
    """
    raw = config.raw
    # The properties about the metadata table are left out: Penstock does not write it.
    properties: dict[str, str | None] = {key: value for key, value in raw.items() if not key.startswith("hoodie.table.metadata")}
    properties |= {
        o.RECORD_KEY_FIELD.key: raw.get("hoodie.table.recordkey.fields"),
        o.PARTITION_PATH_FIELD.key: raw.get("hoodie.table.partition.fields"),
        o.KEY_GENERATOR_CLASS.key: raw.get("hoodie.table.keygenerator.class"),
        o.PRECOMBINE_FIELD.key: raw.get("hoodie.table.precombine.field"),
        o.PAYLOAD_CLASS.key: raw.get("hoodie.compaction.payload.class"),
        o.TABLE_TYPE.key: raw.get("hoodie.table.type"),
    }
    return options.replace({key: value for key, value in properties.items() if value is not None and key not in options.raw})


def _key_settings(options: Options) -> KeySettings:
    """Return how record keys and partition paths are made. A non-partitioned key generator has no partition columns."""
    settings = KeySettings(
        record_key_fields=split_fields(options[o.RECORD_KEY_FIELD]),
        partition_path_fields=split_fields(options[o.PARTITION_PATH_FIELD]),
        generator_class=options[o.KEY_GENERATOR_CLASS],
        generator_type=options[o.KEY_GENERATOR_TYPE],
        hive_style=options[o.HIVE_STYLE_PARTITIONING],
        url_encode=options[o.URL_ENCODE_PARTITIONING],
        consistent_logical_timestamp=options[o.CONSISTENT_LOGICAL_TIMESTAMP],
        timebased=_timebased_settings(options),
    )
    if _class_name(infer_generator_class(settings)).startswith(_WITHOUT_PARTITIONS):
        return replace(settings, partition_path_fields=())
    return settings


def _class_name(java_class: str) -> str:
    """Return the name of a Java class without its package."""
    return java_class.rpartition(".")[2]


def _timebased_settings(options: Options) -> Mapping[str, str]:
    """Return the options of the timestamp-based key generator by their keys without the prefix `hoodie.keygen.timebased.`."""
    prefix = "hoodie.keygen.timebased."
    return {key[len(prefix) :]: value for key, value in options.prefixed(prefix).items()}


def split_fields(text: str | None) -> tuple[str, ...]:
    """Return the column names of a comma-separated list; an empty tuple for None."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _ordering_field(options: Options, columns: frozenset[str]) -> str | None:
    """Return the name of the ordering column; None if there is none.

    If `hoodie.datasource.write.precombine.field` is not set, its default `ts` is used only if the rows have a column `ts`.

    Args:
        columns: the names of the incoming columns.
    """
    field = options[o.PRECOMBINE_FIELD]
    if field and (options.is_set(o.PRECOMBINE_FIELD) or field in columns):
        return field
    return None


def _named_ordering(options: Options) -> str | None:
    """Return the ordering column if the options name one explicitly; otherwise None, although the option has the default `ts`."""
    return options[o.PRECOMBINE_FIELD] if options.is_set(o.PRECOMBINE_FIELD) else None


_MODEL = "org.apache.hudi.common.model."
#: The payloads that a merge mode may be combined with. A merge-on-read table stores the first one as its payload class: with it
#: the last row wins in a log too, whatever its ordering value, both for Hudi's readers of this table version and for Penstock's.
_PAYLOADS_OF_MODE = {
    "COMMIT_TIME_ORDERING": (f"{_MODEL}HoodieAvroPayload", f"{_MODEL}OverwriteWithLatestAvroPayload"),
    "EVENT_TIME_ORDERING": (f"{_MODEL}DefaultHoodieRecordPayload",),
}


def _payload_class(options: Options) -> str:
    """Return the payload class of the write.

    This is the user's merger if set, otherwise the payload of the merge mode if set, otherwise the payload class in the options.

    Raises:
        OptionError: payload class, merge mode and merger contradict each other.
    """
    named = options[o.PAYLOAD_CLASS]
    mode = options[o.RECORD_MERGE_MODE]
    merger = options[o.RECORD_MERGER_IMPLS]
    if merger != o.RECORD_MERGER_IMPLS.default and options.is_set(o.RECORD_MERGER_IMPLS):
        return _user_merger(options, merger)
    if mode == "CUSTOM" and not options.is_set(o.PAYLOAD_CLASS):
        raise OptionError(
            f"{o.RECORD_MERGE_MODE.key}=CUSTOM does not say how rows are merged: set {o.PAYLOAD_CLASS.key} too, or "
            f"{o.RECORD_MERGER_IMPLS.aliases[0]} for a merger of your own"
        )
    payloads = _PAYLOADS_OF_MODE.get(mode or "", (named,))
    if named not in payloads and options.is_set(o.PAYLOAD_CLASS):
        raise OptionError(
            f"{o.RECORD_MERGE_MODE.key}={mode} and {o.PAYLOAD_CLASS.key}={named}, of the call or of the table, say different "
            f"things; leave one of them out, or set {o.RECORD_MERGE_MODE.key}=CUSTOM to go by the payload class"
        )
    return payloads[0]


def _user_merger(options: Options, name: str) -> str:
    """Check the user's merger against the other options, and return its name. The table stores it as its payload class.

    Args:
        name: the value of `hoodie.datasource.write.record.merger.impls`.

    Raises:
        OptionError: the merge mode or the payload class contradicts the merger.
    """
    named = options[o.PAYLOAD_CLASS]
    mode = options[o.RECORD_MERGE_MODE]
    contradiction = None
    if mode in _PAYLOADS_OF_MODE:
        contradiction = f"{o.RECORD_MERGE_MODE.key}={mode}"
    elif options.is_set(o.PAYLOAD_CLASS) and named != name:
        contradiction = f"{o.PAYLOAD_CLASS.key}={named}"
    if contradiction is not None:
        raise OptionError(
            f"{o.RECORD_MERGER_IMPLS.key}={name} and {contradiction}, of the call or of the table, say different things; leave "
            f"one of them out, or set {o.RECORD_MERGE_MODE.key}=CUSTOM"
        )
    return name


def _infer_operation(options: Options, keys: KeySettings, columns: frozenset[str]) -> Operation:
    """Return the operation of the write: the one in the options, by default upsert. There are two exceptions, as in Hudi.

    - bulk_insert, if the options name no operation and no record key columns, and the rows have no column `_hoodie_record_key`.
    - insert, if the operation is upsert and `hoodie.datasource.write.insert.drop.duplicates` is true.

    Args:
        columns: the names of the incoming columns, among which `_hoodie_record_key` is looked for.
    """
    if not keys.record_key_fields and not options.is_set(o.OPERATION) and "_hoodie_record_key" not in columns:
        return Operation.BULK_INSERT
    operation = options[o.OPERATION]
    if operation is Operation.UPSERT and options[o.INSERT_DROP_DUPLICATES]:
        return Operation.INSERT
    return operation


def _check_settings(settings: WriteSettings) -> None:
    """Raise OptionError or Unsupported if the resolved settings contradict each other, or lack record keys that they need."""
    options = settings.options
    o.check_combinations(options)
    if settings.auto_keys and settings.operation in (Operation.UPSERT, Operation.DELETE):
        raise Unsupported(
            f"operation '{settings.operation}' needs record keys: set {o.RECORD_KEY_FIELD.key}, or use insert or bulk_insert"
        )
    if options[o.POPULATE_META_FIELDS]:
        return
    generator = _class_name(infer_generator_class(settings.keys))
    if not generator.startswith(_WITHOUT_META_COLUMNS):
        raise OptionError(
            f"{o.POPULATE_META_FIELDS.key}=false works with the simple, complex and non-partitioned key generators, "
            f"not with {generator}"
        )
    if settings.auto_keys:
        raise OptionError(f"{o.POPULATE_META_FIELDS.key}=false is not supported with generated record keys")


def _check_stored_names(settings: WriteSettings) -> None:
    """Raise OptionError if the call sets a property of the new table to another value than its write options imply.

    For example, `hoodie.table.recordkey.fields` (property) and `hoodie.datasource.write.recordkey.field` (write option) name
    different columns.
    """
    options = settings.options
    keys = settings.keys
    ordering = _named_ordering(options)
    values: tuple[tuple[Option[Any], Option[Any], object], ...] = (
        (o.STORED_RECORD_KEY_FIELDS, o.RECORD_KEY_FIELD, keys.record_key_fields),
        (o.STORED_PARTITION_FIELDS, o.PARTITION_PATH_FIELD, partition_columns(keys.partition_path_fields)),
        (o.STORED_PRECOMBINE_FIELD, o.PRECOMBINE_FIELD, ordering),
        (o.STORED_TABLE_TYPE, o.TABLE_TYPE, options[o.TABLE_TYPE]),
        (o.STORED_KEY_GENERATOR_CLASS, o.KEY_GENERATOR_CLASS, infer_generator_class(keys)),
        (o.STORED_PAYLOAD_CLASS, o.PAYLOAD_CLASS, settings.payload_class),
    )
    for stored_option, write_option, value in values:
        raw = options.raw.get(stored_option.key)
        if raw is None:
            continue
        given = options[stored_option]
        if given and stored_option is o.STORED_KEY_GENERATOR_CLASS:
            given = find_generator_class(given, option=stored_option.key)
        if (given or None) != (value or None):
            raise OptionError(
                f"option '{stored_option.key}' is '{raw}', but a new table takes it from {write_option.key}, by which it is "
                f"'{to_raw(value)}': set that option to '{raw}', or leave out the first"
            )


def check_against_table(options: Options, config: TableConfig, path: str) -> None:
    """Raise an error if options of the call contradict the properties of the table.

    Args:
        path: the base path of the table, for error messages.

    Raises:
        TableExists: the table at this path has another name.
        Unsupported: the table's writers must store change logs, which Penstock does not write; or the table is merge-on-read, and
            `hoodie.logfile.data.block.format` is a format that Penstock refuses.
        OptionError: options conflict with properties. The message lists all of them, with both values.
    """
    if config.table_type == MERGE_ON_READ:
        options.require_support(o.LOG_BLOCK_FORMAT)
    name = options[o.TABLE_NAME]
    if name and name.strip().lower() != config.name.lower():
        raise TableExists(
            f"hoodie table with name {config.name} already exists at {path}, can not append data to the table with "
            f"another name {name.strip()}; use that name, or another path"
        )
    if config.records_changes:
        raise Unsupported(
            f"{path} has the property {o.CDC_ENABLED.key}=true, and Penstock writes no change logs: Hudi's change-data queries "
            "would fail after this write. Write to this table with Hudi, or set the property to false in its hoodie.properties"
        )
    if not config.populate_meta_fields and options.is_set(o.POPULATE_META_FIELDS) and options[o.POPULATE_META_FIELDS]:
        raise OptionError(
            "hoodie.populate.meta.fields is already disabled for the table. Can't be re-enabled back; leave the option out"
        )
    conflicts = _find_conflicts(options, config)
    if conflicts:
        lines = "\n".join(f"{key}:\t{given}\t{existing}" for key, given, existing in conflicts)
        raise OptionError(
            f"Config conflict(key\tcurrent value\texisting value):\n{lines}\n"
            f"Leave these options out, or give the values of the table at {path}"
        )


def _find_conflicts(options: Options, config: TableConfig) -> list[tuple[str, str, str]]:
    """Return (name, value of the call, value of the table) for each option that contradicts the table.

    The name is the option's key, or the word that Hudi's error message has for it, such as `RecordKey`.
    """
    conflicts: list[tuple[str, str, str]] = []
    for key, given in options.raw.items():
        existing = config.raw.get(key)
        option = o.CATALOGUE.get(key)
        if existing is None or key == o.TABLE_NAME.key or (option is not None and option.ignores(given)):
            continue
        if given.strip().lower() != existing.strip().lower():
            conflicts.append((key, given, existing))
    record_key = options.raw.get(o.RECORD_KEY_FIELD.key)
    if record_key and split_fields(record_key) != config.record_key_fields:
        conflicts.append(("RecordKey", record_key, ",".join(config.record_key_fields)))
    ordering = options.raw.get(o.PRECOMBINE_FIELD.key)
    if ordering and config.precombine_field and ordering != config.precombine_field:
        conflicts.append(("PreCombineKey", ordering, config.precombine_field))
    generator = options[o.KEY_GENERATOR_CLASS]
    stored_generator = config.key_generator_class
    if generator and stored_generator and find_generator_class(generator) not in (SQL, find_generator_class(stored_generator)):
        conflicts.append(("KeyGenerator", generator, stored_generator))
    if options.is_set(o.TABLE_TYPE) and options[o.TABLE_TYPE] != config.table_type:
        conflicts.append((o.TABLE_TYPE.key, options[o.TABLE_TYPE], config.table_type))
    partition_path = options.raw.get(o.PARTITION_PATH_FIELD.key)
    if partition_path and config.partition_fields:
        columns = partition_columns(split_fields(partition_path))
        if columns != config.partition_fields:
            conflicts.append(("PartitionPath", partition_path, ",".join(config.partition_fields)))
    return conflicts
