"""What a write is asked to do: the options of the call, filled up from the table, by inference, and by defaults.

An option of the call wins over the table's property, that over what can be inferred, that over the default. What
contradicts an existing table is refused before anything happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock import options as o
from penstock.errors import OptionError, TableExists, Unsupported
from penstock.keys import KeySettings, infer_generator
from penstock.keys.names import SQL, class_named, partition_columns
from penstock.options import Option, Options
from penstock.options.operation import Operation
from penstock.options.option import to_raw
from penstock.table import TableConfig

_WITHOUT_PARTITIONS = ("Nonpartitioned", "Global")
_WITHOUT_META = ("Simple", "Nonpartitioned", "Complex")


@dataclass(frozen=True)
class WriteSettings:
    """One write, fully decided."""

    operation: Operation
    table_name: str
    keys: KeySettings
    ordering_field: str | None
    payload_class: str
    options: Options

    @property
    def auto_keys(self) -> bool:
        """Whether record keys are made up by the writer."""
        return not self.keys.record_key_fields

    @property
    def picks_newest(self) -> bool:
        """Whether the newest of the incoming rows of a key counts, by ordering value. Otherwise the last one counts."""
        if self.operation is Operation.UPSERT:
            return self.options[o.COMBINE_BEFORE_UPSERT]
        return self.operation is Operation.INSERT


def resolve(options: Options, config: TableConfig | None, columns: frozenset[str]) -> WriteSettings:
    """Decide everything about a write from its options and the table it goes to, if there is one."""
    options = _with_table(options, config) if config else options
    keys = _key_settings(options)
    name = options[o.TABLE_NAME]
    if not name or not name.strip():
        raise OptionError("'hoodie.table.name' must be set: give the table a name")
    settings = WriteSettings(
        operation=_operation(options, keys, columns),
        table_name=name.strip(),
        keys=keys,
        ordering_field=_ordering_field(options, columns),
        payload_class=_payload_class(options),
        options=options,
    )
    if config is None:
        _check_stored_names(settings)
    _check(settings)
    return settings


def _with_table(options: Options, config: TableConfig) -> Options:
    """The table's own properties under the write options' names, where the call says nothing."""
    raw = config.raw
    from_table: dict[str, str | None] = {k: v for k, v in raw.items() if not k.startswith("hoodie.table.metadata")}
    from_table |= {
        o.RECORD_KEY_FIELD.key: raw.get("hoodie.table.recordkey.fields"),
        o.PARTITION_PATH_FIELD.key: raw.get("hoodie.table.partition.fields"),
        o.KEY_GENERATOR_CLASS.key: raw.get("hoodie.table.keygenerator.class"),
        o.PRECOMBINE_FIELD.key: raw.get("hoodie.table.precombine.field"),
        o.PAYLOAD_CLASS.key: raw.get("hoodie.compaction.payload.class"),
        o.TABLE_TYPE.key: raw.get("hoodie.table.type"),
    }
    return options.replace({k: v for k, v in from_table.items() if v is not None and k not in options.raw})


def _key_settings(options: Options) -> KeySettings:
    """What the options say about keys; a generator without partitions has no partition columns, whatever is named."""
    settings = KeySettings(
        record_key_fields=split_fields(options[o.RECORD_KEY_FIELD]),
        partition_path_fields=split_fields(options[o.PARTITION_PATH_FIELD]),
        generator_class=options[o.KEY_GENERATOR_CLASS],
        generator_type=options[o.KEY_GENERATOR_TYPE],
        hive_style=options[o.HIVE_STYLE_PARTITIONING],
        url_encode=options[o.URL_ENCODE_PARTITIONING],
        consistent_logical_timestamp=options[o.CONSISTENT_LOGICAL_TIMESTAMP],
        timebased=timebased_settings(options),
    )
    if infer_generator(settings).rpartition(".")[2].startswith(_WITHOUT_PARTITIONS):
        return replace(settings, partition_path_fields=())
    return settings


def timebased_settings(options: Options) -> Mapping[str, str]:
    """The time-based key generator's settings, by the part of their key that says which."""
    prefix = "hoodie.keygen.timebased."
    return {k[len(prefix) :]: v for k, v in options.prefixed(prefix).items()}


def split_fields(text: str | None) -> tuple[str, ...]:
    """Column names from a comma list."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _ordering_field(options: Options, columns: frozenset[str]) -> str | None:
    """The ordering column; the default `ts` only counts where there is such a column."""
    field = options[o.PRECOMBINE_FIELD]
    return field if field and (options.is_set(o.PRECOMBINE_FIELD) or field in columns) else None


_MODEL = "org.apache.hudi.common.model."
#: The payloads that a mode may come along with. The first one is what a merge-on-read table keeps: by it the last row wins in a
#: log too, whatever its ordering value, for Hudi's readers of this table version as for ours.
_PAYLOADS_OF_MODE = {
    "COMMIT_TIME_ORDERING": (f"{_MODEL}HoodieAvroPayload", f"{_MODEL}OverwriteWithLatestAvroPayload"),
    "EVENT_TIME_ORDERING": (f"{_MODEL}DefaultHoodieRecordPayload",),
}


def _payload_class(options: Options) -> str:
    """The payload class, which a merge mode may stand for; it is what readers of the table's logs go by."""
    named, mode = options[o.PAYLOAD_CLASS], options[o.RECORD_MERGE_MODE]
    merger = options[o.RECORD_MERGER_IMPLS]
    if merger != o.RECORD_MERGER_IMPLS.default and options.is_set(o.RECORD_MERGER_IMPLS):
        return _own_merger(options, merger)
    if mode == "CUSTOM" and not options.is_set(o.PAYLOAD_CLASS):
        raise OptionError(
            f"{o.RECORD_MERGE_MODE.key}=CUSTOM does not say how rows are merged: set {o.PAYLOAD_CLASS.key} too, or "
            f"{o.RECORD_MERGER_IMPLS.aliases[0]} for a merger of your own"
        )
    meant = _PAYLOADS_OF_MODE.get(mode or "", (named,))
    if named not in meant and options.is_set(o.PAYLOAD_CLASS):
        raise OptionError(
            f"{o.RECORD_MERGE_MODE.key}={mode} and {o.PAYLOAD_CLASS.key}={named}, of the call or of the table, say different "
            f"things; leave one of them out, or set {o.RECORD_MERGE_MODE.key}=CUSTOM to go by the payload class"
        )
    return meant[0]


def _own_merger(options: Options, name: str) -> str:
    """A merger of the user's own, which the table is to remember as its payload class."""
    named, mode = options[o.PAYLOAD_CLASS], options[o.RECORD_MERGE_MODE]
    if mode in _PAYLOADS_OF_MODE or (options.is_set(o.PAYLOAD_CLASS) and named != name):
        other = f"{o.RECORD_MERGE_MODE.key}={mode}" if mode in _PAYLOADS_OF_MODE else f"{o.PAYLOAD_CLASS.key}={named}"
        raise OptionError(
            f"{o.RECORD_MERGER_IMPLS.key}={name} and {other}, of the call or of the table, say different things; leave one of "
            f"them out, or set {o.RECORD_MERGE_MODE.key}=CUSTOM"
        )
    return name


def _operation(options: Options, keys: KeySettings, columns: frozenset[str]) -> Operation:
    """The operation as Hudi deduces it."""
    if not keys.record_key_fields and not options.is_set(o.OPERATION) and "_hoodie_record_key" not in columns:
        return Operation.BULK_INSERT
    operation = options[o.OPERATION]
    if operation is Operation.UPSERT and options[o.INSERT_DROP_DUPLICATES]:
        return Operation.INSERT
    return operation


def _check(settings: WriteSettings) -> None:
    options = settings.options
    o.check_combinations(options)
    if settings.auto_keys and settings.operation in (Operation.UPSERT, Operation.DELETE):
        raise Unsupported(
            f"operation '{settings.operation}' needs record keys: set {o.RECORD_KEY_FIELD.key}, or use insert or bulk_insert"
        )
    if not options[o.POPULATE_META_FIELDS]:
        generator = infer_generator(settings.keys).rpartition(".")[2]
        if not generator.startswith(_WITHOUT_META):
            raise OptionError(
                f"{o.POPULATE_META_FIELDS.key}=false works with the simple, complex and non-partitioned key generators, "
                f"not with {generator}"
            )
        if settings.auto_keys:
            raise OptionError(f"{o.POPULATE_META_FIELDS.key}=false is not supported with generated record keys")


def _check_stored_names(settings: WriteSettings) -> None:
    """Refuse a property of a new table that says something else than the write's own options, which the table is made from."""
    options, keys = settings.options, settings.keys
    ordering = options[o.PRECOMBINE_FIELD] if options.is_set(o.PRECOMBINE_FIELD) else None
    made: tuple[tuple[Option[Any], Option[Any], object], ...] = (
        (o.STORED_RECORD_KEY_FIELDS, o.RECORD_KEY_FIELD, keys.record_key_fields),
        (o.STORED_PARTITION_FIELDS, o.PARTITION_PATH_FIELD, partition_columns(keys.partition_path_fields)),
        (o.STORED_PRECOMBINE_FIELD, o.PRECOMBINE_FIELD, ordering),
        (o.STORED_TABLE_TYPE, o.TABLE_TYPE, options[o.TABLE_TYPE]),
        (o.STORED_KEY_GENERATOR_CLASS, o.KEY_GENERATOR_CLASS, infer_generator(keys)),
        (o.STORED_PAYLOAD_CLASS, o.PAYLOAD_CLASS, settings.payload_class),
    )
    for stored, written, value in made:
        raw, given = options.raw.get(stored.key), options[stored]
        if given and stored is o.STORED_KEY_GENERATOR_CLASS:
            given = class_named(given, option=stored.key)
        if raw is not None and (given or None) != (value or None):
            raise OptionError(
                f"option '{stored.key}' is '{raw}', but a new table takes it from {written.key}, by which it is "
                f"'{to_raw(value)}': set that option to '{raw}', or leave out the first"
            )


def check_against_table(options: Options, config: TableConfig, path: str) -> None:
    """Refuse options that contradict the table's own configuration.

    Raises:
        TableExists: the table at this path has another name.
        OptionError: all conflicting keys at once, with both values.
    """
    name = options[o.TABLE_NAME]
    if name and name.strip().lower() != config.name.lower():
        raise TableExists(
            f"hoodie table with name {config.name} already exists at {path}, can not append data to the table with "
            f"another name {name.strip()}; use that name, or another path"
        )
    if not config.populate_meta_fields and options.is_set(o.POPULATE_META_FIELDS) and options[o.POPULATE_META_FIELDS]:
        raise OptionError(
            "hoodie.populate.meta.fields is already disabled for the table. Can't be re-enabled back; leave the option out"
        )
    conflicts = list(_conflicts(options, config))
    if conflicts:
        lines = "\n".join(f"{key}:\t{given}\t{existing}" for key, given, existing in conflicts)
        raise OptionError(
            f"Config conflict(key\tcurrent value\texisting value):\n{lines}\n"
            f"Leave these options out, or give the values of the table at {path}"
        )


def _conflicts(options: Options, config: TableConfig) -> list[tuple[str, str, str]]:
    raw = config.raw
    found = [
        (key, given, raw[key])
        for key, given in options.raw.items()
        if key in raw and key != o.TABLE_NAME.key and given.strip().lower() != raw[key].strip().lower()
    ]
    given_keys, table_keys = options.raw.get(o.RECORD_KEY_FIELD.key), ",".join(config.record_key_fields)
    if given_keys and split_fields(given_keys) != config.record_key_fields:
        found.append(("RecordKey", given_keys, table_keys))
    ordering = options.raw.get(o.PRECOMBINE_FIELD.key)
    if ordering and config.precombine_field and ordering != config.precombine_field:
        found.append(("PreCombineKey", ordering, config.precombine_field))
    generator, stored = options[o.KEY_GENERATOR_CLASS], config.key_generator_class
    if generator and stored and class_named(generator) not in (SQL, class_named(stored)):
        found.append(("KeyGenerator", generator, stored))
    if options.is_set(o.TABLE_TYPE) and options[o.TABLE_TYPE] != config.table_type:
        found.append((o.TABLE_TYPE.key, options[o.TABLE_TYPE], config.table_type))
    partition = options.raw.get(o.PARTITION_PATH_FIELD.key)
    if partition and config.partition_fields:
        plain = partition_columns(split_fields(partition))
        if plain != config.partition_fields:
            found.append(("PartitionPath", partition, ",".join(config.partition_fields)))
    return found
