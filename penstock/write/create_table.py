"""Creates a table: its folders and its `hoodie.properties`. Called by the first write (`door/write.py`) and by `Table.create`."""

from __future__ import annotations

from contextlib import suppress

from penstock import options as o
from penstock.commit.table_properties import change_properties
from penstock.errors import AlreadyExists, OptionError
from penstock.index import make_index
from penstock.keys import infer_generator_class
from penstock.keys.partition_fields import partition_columns
from penstock.merge.make_merger import PAYLOAD_OPTION_PREFIX
from penstock.storage import Storage, is_file, join
from penstock.table.config import LAYOUT_VERSION, MERGE_ON_READ, PROPERTIES, TABLE_VERSION, TableConfig, write_config
from penstock.table.foreign_files import find_parquet_file
from penstock.table.state import TableState, table_exists
from penstock.timeline.store import FOLDER, load_timeline
from penstock.write.settings import WriteSettings

#: The folders in `.hoodie` of a new table. Hudi creates the same ones.
_FOLDERS = (".schema", "archived", ".temp", ".aux", ".aux/.bootstrap/.partitions", ".aux/.bootstrap/.fileids")
#: The id of Hudi's default strategy, `HoodieRecordMerger.DEFAULT_MERGER_STRATEGY_UUID`.
_MERGER_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"


def create_table(storage: Storage, base_path: str, settings: WriteSettings, create_schema: str | None = None) -> TableState:
    """Create an empty table: its folders and its `hoodie.properties`. Return its state.

    Args:
        create_schema: the table's Avro schema, which readers use until there is a commit with a schema; None if a write follows
            at once.

    Raises:
        AlreadyExists: another process created the table first.
        OptionError: the path, or a folder above it, is a file; or the folder has Parquet files, and `penstock.other.files` does
            not allow it.
    """
    folder_exists = storage.stat(base_path) is not None
    _refuse_file(storage, base_path)
    if folder_exists and settings.options[o.OTHER_FILES] == "refuse":
        _refuse_parquet(storage, base_path)
    for folder in _FOLDERS:
        storage.make_dirs(join(base_path, FOLDER, folder))
    raw = table_properties(settings)
    if create_schema:
        raw["hoodie.table.create.schema"] = create_schema
    config = write_config(storage, base_path, raw, new=True)
    return TableState(storage, base_path, config, settings.options)


def withdraw_table(table: TableState, *, keep_folder: bool) -> None:
    """Take back a new table whose first write failed, unless another process has begun to write to it.

    This function deletes `hoodie.properties` first, then loads the timeline. If an instant of another process is on it, this
    function writes the properties again and stops. A write works in the other order: it creates its instant, then looks for the
    properties (`commit/change.py`). So it either finds no properties and fails, or this function finds its instant.

    Another process may create the table again at once. Therefore only empty folders are deleted, and no file that it may need.

    Args:
        keep_folder: whether the folder at the base path existed before the table.
    """
    storage = table.storage
    storage.delete(join(table.base_path, FOLDER, PROPERTIES))
    if load_timeline(storage, table.base_path).instants:
        with suppress(AlreadyExists):
            write_config(storage, table.base_path, table.config.raw, new=True)
        return
    _delete_empty_folders(storage, join(table.base_path, FOLDER))
    if not keep_folder:
        storage.remove_empty(table.base_path)


def _delete_empty_folders(storage: Storage, folder: str) -> None:
    """Delete a folder and the folders in it, as far as there are no files in them."""
    for entry in storage.list(folder):
        if entry.is_dir:
            _delete_empty_folders(storage, entry.path)
    storage.remove_empty(folder)


def store_ordered_deletes(table: TableState) -> TableState:
    """Write `penstock.deletes.follow.ordering=true` to a table's properties, if the write has this option and the table does not.

    Return the table with the new properties, or the table unchanged.
    """
    if not table.options[o.ORDERED_DELETES] or table.config.ordered_deletes:
        return table
    return change_properties(table, lambda properties: {**properties, o.ORDERED_DELETES.key: "true"})


def _refuse_file(storage: Storage, base_path: str) -> None:
    """Raise OptionError if the path of a new table, or a folder above it, is a file."""
    path = base_path
    while path and storage.stat(path) is None:
        path = path.rpartition("/")[0]
    if path and is_file(storage, path):
        raise OptionError(f"{path} is a file, and a table is a folder; choose another path")


def _refuse_parquet(storage: Storage, base_path: str) -> None:
    """Raise OptionError if the folder of a new table has Parquet files: a query of the table would not return their rows.

    Raises:
        AlreadyExists: the files are those of a table that another process has just created.
    """
    file = find_parquet_file(storage, base_path)
    if file is not None and table_exists(storage, base_path):
        raise AlreadyExists(f"another process has just created {base_path}")
    if file is not None:
        raise OptionError(
            f"{base_path} is not a Hudi table and has Parquet files, such as {file}, whose rows a new table would not have; "
            f"choose another path, or set {o.OTHER_FILES.key}=allow to create the table among them"
        )


def preview_table(storage: Storage, base_path: str, settings: WriteSettings) -> TableState:
    """Return the state of the table that `create_table` would create. Nothing is written."""
    return TableState(storage, base_path, TableConfig(table_properties(settings)), settings.options)


def table_properties(settings: WriteSettings) -> dict[str, str]:
    """Return the properties of a new table, as `hoodie.properties` will hold them, without the checksum."""
    options = settings.options
    keys = settings.keys
    generator = infer_generator_class(keys)
    raw = {
        "hoodie.table.name": settings.table_name,
        "hoodie.database.name": options[o.DATABASE_NAME] or "",
        "hoodie.table.type": options[o.TABLE_TYPE],
        "hoodie.table.version": str(TABLE_VERSION),
        "hoodie.timeline.layout.version": str(LAYOUT_VERSION),
        "hoodie.archivelog.folder": "archived",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.populate.meta.fields": _flag(options[o.POPULATE_META_FIELDS]),
        "hoodie.table.partition.fields": ",".join(partition_columns(keys.partition_path_fields)),
        "hoodie.table.keygenerator.class": generator,
        "hoodie.datasource.write.hive_style_partitioning": _flag(keys.hive_style),
        "hoodie.datasource.write.partitionpath.urlencode": _flag(keys.url_encode),
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.datasource.write.drop.partition.columns": _flag(options[o.DROP_PARTITION_COLUMNS]),
        "hoodie.table.timeline.timezone": options[o.TIMELINE_TIMEZONE],
    }
    if options.is_set(o.PRECOMBINE_FIELD) and options[o.PRECOMBINE_FIELD]:
        raw["hoodie.table.precombine.field"] = options[o.PRECOMBINE_FIELD]
    if keys.record_key_fields:
        raw["hoodie.table.recordkey.fields"] = ",".join(keys.record_key_fields)
    if "Timestamp" in generator or "Custom" in generator:
        raw |= options.prefixed("hoodie.keygen.timebased.")
    raw |= make_index(options).table_properties
    if raw["hoodie.table.type"] == MERGE_ON_READ:
        raw["hoodie.compaction.payload.class"] = settings.payload_class
        raw["hoodie.compaction.record.merger.strategy"] = _MERGER_STRATEGY
        raw |= options.prefixed(PAYLOAD_OPTION_PREFIX)  # readers of the logs must merge with the settings of the writer
    if options[o.ORDERED_DELETES]:
        raw[o.ORDERED_DELETES.key] = "true"
    return raw


def _flag(value: bool) -> str:
    """Return a boolean as the string `true` or `false`."""
    return "true" if value else "false"
