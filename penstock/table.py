"""`TableState`, a table at one moment: its path, configuration, options and timeline, as a frozen value.

This module reads and writes `hoodie.properties`. `write/create_table.py` decides which properties a new table gets. The class
`penstock.Table`, which users call, is in `api/table.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock import clock
from penstock.errors import CorruptFile, TableNotFound, Unsupported
from penstock.formats.properties import read_properties, table_checksum, write_properties
from penstock.options import Options
from penstock.options.operation import Operation
from penstock.storage import Storage, join, open_storage
from penstock.timeline.instant import Instant
from penstock.timeline.store import FOLDER, load_timeline, read_schema
from penstock.timeline.timeline import Timeline

PROPERTIES = "hoodie.properties"
BACKUP = "hoodie.properties.backup"
TABLE_VERSION = 6
LAYOUT_VERSION = 1
COPY_ON_WRITE = "COPY_ON_WRITE"
MERGE_ON_READ = "MERGE_ON_READ"


@dataclass(frozen=True)
class TableConfig:
    """The properties in `hoodie.properties`, with types. `raw` has all of them as strings, also those that Penstock ignores."""

    raw: Mapping[str, str]

    @property
    def name(self) -> str:
        """The table's name."""
        return self.raw["hoodie.table.name"]

    @property
    def table_type(self) -> str:
        """The table type: COPY_ON_WRITE or MERGE_ON_READ."""
        return self.raw.get("hoodie.table.type", COPY_ON_WRITE)

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        """The columns of the record key; empty if record keys are generated, not taken from columns."""
        return _split(self.raw.get("hoodie.table.recordkey.fields"))

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """The columns of the partition path; empty if the table is nonpartitioned."""
        return _split(self.raw.get("hoodie.table.partition.fields"))

    @property
    def precombine_field(self) -> str | None:
        """The ordering field; None if the table has none."""
        return self.raw.get("hoodie.table.precombine.field") or None

    @property
    def key_generator_class(self) -> str | None:
        """The Java class name of the key generator; None if the table does not name one."""
        return self.raw.get("hoodie.table.keygenerator.class") or None

    @property
    def hive_style(self) -> bool:
        """Whether partition folders are named `column=value`."""
        return _flag(self.raw, "hoodie.datasource.write.hive_style_partitioning", False)

    @property
    def url_encode(self) -> bool:
        """Whether partition values are URL-encoded in the names of folders."""
        return _flag(self.raw, "hoodie.datasource.write.partitionpath.urlencode", False)

    @property
    def populate_meta_fields(self) -> bool:
        """Whether the five meta columns of the rows are filled."""
        return _flag(self.raw, "hoodie.populate.meta.fields", True)

    @property
    def drop_partition_columns(self) -> bool:
        """Whether partition columns are left out of the data files."""
        return _flag(self.raw, "hoodie.datasource.write.drop.partition.columns", False)

    @property
    def timeline_utc(self) -> bool:
        """Whether instant times are in UTC; otherwise they are in the local zone of each writer."""
        return self.raw.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC"

    @property
    def create_schema(self) -> str | None:
        """The Avro schema that the table was created with; None if `hoodie.properties` does not have it."""
        return self.raw.get("hoodie.table.create.schema") or None

    @property
    def archive_folder(self) -> str:
        """The name of the folder in `.hoodie` that holds the archived timeline."""
        return self.raw.get("hoodie.archivelog.folder") or "archived"

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """The partitions of the metadata table that are complete, so that readers may use them."""
        return _split(self.raw.get("hoodie.table.metadata.partitions"))

    @property
    def metadata_partitions_inflight(self) -> tuple[str, ...]:
        """The partitions of the metadata table that are being built."""
        return _split(self.raw.get("hoodie.table.metadata.partitions.inflight"))


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _flag(raw: Mapping[str, str], key: str, default: bool) -> bool:
    return raw.get(key, str(default)).strip().lower() == "true"


@dataclass(frozen=True)
class TableState:
    """A table at one moment: storage, path, configuration, options and timeline. Writes, queries and services receive it."""

    storage: Storage
    base_path: str
    config: TableConfig
    options: Options
    timeline: Timeline = field(default_factory=Timeline)

    @property
    def is_merge_on_read(self) -> bool:
        """Whether the table is merge-on-read, with updates in log files."""
        return self.config.table_type == MERGE_ON_READ


#: The operations (as commit files spell them) that only move rows and never change the schema. Their commits may lack a schema.
KEEPS_SCHEMA = frozenset(
    operation.stored for operation in (Operation.COMPACT, Operation.CLUSTER, Operation.LOG_COMPACT, Operation.INDEX)
)


def read_table_schema(table: TableState, as_of: str | None = None) -> str | None:
    """Return the table's Avro schema as JSON, without meta columns; None if no schema is found.

    The schema is taken from the newest commit of the active timeline that has one. Commits of services that only move rows
    (`KEEPS_SCHEMA`) count only if no other commit has a schema. If no commit has one, the schema that the table was created
    with is returned.

    Args:
        as_of: an instant time; return the schema of that time. Then None means that the active timeline does not have it. The
            schema that the table was created with is not returned, because archived writes may have changed it.
    """
    schema_of_service: str | None = None
    for instant in reversed(table.timeline.writes):
        if as_of is None or _may_be_last_before(table.timeline, instant, as_of):
            operation, schema = read_schema(table.storage, table.base_path, instant)
            if schema and operation not in KEEPS_SCHEMA:
                return schema
            schema_of_service = schema_of_service or schema
    if schema_of_service:
        return schema_of_service
    return table.config.create_schema if as_of is None else None


def _may_be_last_before(timeline: Timeline, write: Instant, as_of: str) -> bool:
    """Whether `write` may be the last write at the time `as_of`.

    A write that a savepoint keeps may lie before the start of the active timeline, and later writes may be archived. So if
    `as_of` is before the start, only a write at exactly that time is known to be the last one.
    """
    is_before_start = timeline.start is not None and as_of < timeline.start
    return write.time == as_of if is_before_start else write.time <= as_of


def table_exists(storage: Storage, base_path: str) -> bool:
    """Whether there is a Hudi table at this path, even a damaged one.

    True if `.hoodie` has `hoodie.properties`, or the backup that an interrupted update of the properties left, or any instant.
    """
    folder = join(base_path, FOLDER)
    if any(storage.stat(join(folder, name)) is not None for name in (PROPERTIES, BACKUP)):
        return True
    return bool(load_timeline(storage, base_path).instants)


def reload_timeline(table: TableState) -> TableState:
    """Return the table with the timeline read from storage again. Configuration and options stay the same."""
    return replace(table, timeline=load_timeline(table.storage, table.base_path))


def reload_table(table: TableState) -> TableState:
    """Return the table with configuration and timeline read from storage again. Options stay the same."""
    return replace(reload_timeline(table), config=read_config(table.storage, table.base_path))


def open_table(path: str, options: Options | None = None) -> TableState:
    """Read the configuration and the timeline of the table at `path`; return the table.

    Raises:
        TableNotFound: there is no table at the path.
        CorruptFile: `hoodie.properties` cannot be read, or its checksum is wrong.
        Unsupported: the table has a table version, timeline layout or base file format that Penstock does not know.
    """
    storage, base_path = open_storage(path)
    config = read_config(storage, base_path)
    return TableState(storage, base_path, config, options or Options({}), load_timeline(storage, base_path))


def read_config(storage: Storage, base_path: str) -> TableConfig:
    """Read and check `hoodie.properties`; if it is missing or damaged, `hoodie.properties.backup`.

    An update of the properties, by Hudi, writes the backup before it replaces the file.

    Raises:
        TableNotFound: there is no table at the path.
        CorruptFile: neither file can be used, or there is a timeline but neither file.
        Unsupported: the table has a table version, timeline layout or base file format that Penstock does not know.
    """
    problem: CorruptFile | None = None
    for name in (PROPERTIES, BACKUP):
        try:
            return _check_properties(read_properties(storage.read(join(base_path, FOLDER, name))), base_path)
        except FileNotFoundError:
            continue
        except CorruptFile as e:
            problem = problem or e
    if problem:
        raise problem
    if load_timeline(storage, base_path).instants:
        raise CorruptFile(
            f"{base_path} has a timeline but no {FOLDER}/{PROPERTIES}; restore that file from a copy, or remove the folder"
        )
    raise TableNotFound(f"{base_path} is not a Hudi table: it has no {FOLDER}/{PROPERTIES}. Check the path, or write to it first")


def _check_properties(raw: dict[str, str], base_path: str) -> TableConfig:
    """Return the properties as a `TableConfig`. Raise CorruptFile if damaged, Unsupported for an unknown version or format."""
    where = f"{FOLDER}/{PROPERTIES} of {base_path}"
    if not raw.get("hoodie.table.name"):
        raise CorruptFile(f"{where} does not name the table (hoodie.table.name); restore it from {BACKUP} or a copy")
    checksum = raw.get("hoodie.table.checksum")
    expected = table_checksum(raw.get("hoodie.database.name"), raw["hoodie.table.name"])
    if checksum is not None and checksum.strip() != str(expected):
        raise CorruptFile(f"{where} is damaged: hoodie.table.checksum is {checksum}, its content says {expected}")
    version = raw.get("hoodie.table.version", "0")
    if version != str(TABLE_VERSION):
        raise Unsupported(
            f"{base_path} has table version {version}; Penstock reads and writes version {TABLE_VERSION} "
            "(Hudi 0.14 and 0.15). Upgrade or downgrade the table with Hudi first"
        )
    layout = raw.get("hoodie.timeline.layout.version", str(LAYOUT_VERSION))
    if layout != str(LAYOUT_VERSION):
        raise Unsupported(f"{base_path} has timeline layout {layout}; Penstock knows layout {LAYOUT_VERSION}")
    base_format = raw.get("hoodie.table.base.file.format", "PARQUET")
    if base_format.upper() != "PARQUET":
        raise Unsupported(f"{base_path} has base files of format {base_format}; Penstock knows PARQUET")
    return TableConfig(raw)


def write_config(storage: Storage, base_path: str, raw: Mapping[str, str], *, new: bool = False) -> TableConfig:
    """Write `hoodie.properties` atomically, with a new checksum; return the properties as a `TableConfig`.

    Args:
        raw: all properties. The checksum among them is replaced.
        new: whether the table is being created. Otherwise an existing file is replaced, and a backup that an interrupted
            update left is deleted.

    Raises:
        AlreadyExists: `new` is set, and another process created the table first.
    """
    checksum = table_checksum(raw.get("hoodie.database.name"), raw["hoodie.table.name"])
    values = {**raw, "hoodie.table.checksum": str(checksum)}
    now = clock.utc_now()
    comment = f"{'Properties saved on' if new else 'Updated at'} {now.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}"
    data = write_properties(values, comment, now.strftime("%a %b %d %H:%M:%S UTC %Y"))
    path = join(base_path, FOLDER, PROPERTIES)
    if new:
        storage.write_new(path, data)
    else:
        storage.replace(path, data)
        storage.delete(join(base_path, FOLDER, BACKUP))
    return TableConfig(values)
