"""A table at one moment: its path, configuration and timeline, as a frozen value without verbs.

This module reads and writes `hoodie.properties`. Which properties a new table gets is decided in `write/create_table.py`.
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
    """`hoodie.properties`, typed. `raw` keeps every property, known or not."""

    raw: Mapping[str, str]

    @property
    def name(self) -> str:
        """The table's name."""
        return self.raw["hoodie.table.name"]

    @property
    def table_type(self) -> str:
        """COPY_ON_WRITE or MERGE_ON_READ."""
        return self.raw.get("hoodie.table.type", COPY_ON_WRITE)

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        """Columns of the record key; empty when keys are generated."""
        return _split(self.raw.get("hoodie.table.recordkey.fields"))

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Columns of the partition path; empty when the table is not partitioned."""
        return _split(self.raw.get("hoodie.table.partition.fields"))

    @property
    def precombine_field(self) -> str | None:
        """The ordering field, if the table has one."""
        return self.raw.get("hoodie.table.precombine.field") or None

    @property
    def key_generator_class(self) -> str | None:
        """The Java name of the key generator."""
        return self.raw.get("hoodie.table.keygenerator.class") or None

    @property
    def hive_style(self) -> bool:
        """Whether partition folders are `column=value`."""
        return _flag(self.raw, "hoodie.datasource.write.hive_style_partitioning", False)

    @property
    def url_encode(self) -> bool:
        """Whether partition values are escaped."""
        return _flag(self.raw, "hoodie.datasource.write.partitionpath.urlencode", False)

    @property
    def populate_meta_fields(self) -> bool:
        """Whether rows carry the five meta columns."""
        return _flag(self.raw, "hoodie.populate.meta.fields", True)

    @property
    def drop_partition_columns(self) -> bool:
        """Whether partition columns are left out of the data files."""
        return _flag(self.raw, "hoodie.datasource.write.drop.partition.columns", False)

    @property
    def timeline_utc(self) -> bool:
        """Whether instants are in UTC, not in the writer's zone."""
        return self.raw.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC"

    @property
    def create_schema(self) -> str | None:
        """The Avro schema the table was created with, if it was recorded."""
        return self.raw.get("hoodie.table.create.schema") or None

    @property
    def archive_folder(self) -> str:
        """Where the archived timeline is, below `.hoodie`."""
        return self.raw.get("hoodie.archivelog.folder") or "archived"

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """Partitions of the metadata table that readers trust."""
        return _split(self.raw.get("hoodie.table.metadata.partitions"))

    @property
    def metadata_partitions_inflight(self) -> tuple[str, ...]:
        """Partitions of the metadata table that are being built."""
        return _split(self.raw.get("hoodie.table.metadata.partitions.inflight"))


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _flag(raw: Mapping[str, str], key: str, default: bool) -> bool:
    return raw.get(key, str(default)).strip().lower() == "true"


@dataclass(frozen=True)
class TableState:
    """Everything that an operation needs to know about a table."""

    storage: Storage
    base_path: str
    config: TableConfig
    options: Options
    timeline: Timeline = field(default_factory=Timeline)

    @property
    def is_merge_on_read(self) -> bool:
        """Whether updates go to log files."""
        return self.config.table_type == MERGE_ON_READ


#: Operations, as commit files spell them, that move rows and never change the schema. Their commits may lack a schema.
KEEPS_SCHEMA = frozenset(
    operation.stored for operation in (Operation.COMPACT, Operation.CLUSTER, Operation.LOG_COMPACT, Operation.INDEX)
)


def read_table_schema(table: TableState, as_of: str | None = None) -> str | None:
    """Return the table's Avro schema as JSON, without meta columns; None for a table that never had one.

    The newest write with a schema decides. If all writes are archived, the schema in a commit of a service that only moved rows
    counts; then the schema that the table was created with.

    Args:
        as_of: return the schema at this time; None if the active timeline does not know it. The schema that the table was
            created with is not returned then: archived writes may have changed it.
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
    """Whether a write may be the last one at a time.

    Before the start of the active timeline there may be writes that a savepoint kept. Later ones were archived, so such a write
    is known to be the last one only at its own time.
    """
    is_before_start = timeline.start is not None and as_of < timeline.start
    return write.time == as_of if is_before_start else write.time <= as_of


def table_exists(storage: Storage, base_path: str) -> bool:
    """Whether there is a Hudi table at this path, possibly a damaged one.

    A path is a table if it has properties, or the backup that an interrupted update left, or a timeline without either.
    """
    folder = join(base_path, FOLDER)
    if any(storage.stat(join(folder, name)) is not None for name in (PROPERTIES, BACKUP)):
        return True
    return bool(load_timeline(storage, base_path).instants)


def reload_timeline(table: TableState) -> TableState:
    """Return the table with its current timeline. Its configuration stays as it was loaded."""
    return replace(table, timeline=load_timeline(table.storage, table.base_path))


def reload_table(table: TableState) -> TableState:
    """Return the table with its current configuration and timeline."""
    return replace(reload_timeline(table), config=read_config(table.storage, table.base_path))


def open_table(path: str, options: Options | None = None) -> TableState:
    """Load a table.

    Raises:
        TableNotFound: there is no table at the path.
        CorruptFile: its properties cannot be read, or their checksum is wrong.
        Unsupported: a table version that Penstock does not know.
    """
    storage, base_path = open_storage(path)
    config = read_config(storage, base_path)
    return TableState(storage, base_path, config, options or Options({}), load_timeline(storage, base_path))


def read_config(storage: Storage, base_path: str) -> TableConfig:
    """Read and check `hoodie.properties`; while an update is under way, its backup.

    Raises:
        TableNotFound: there is no table at the path.
        CorruptFile: the properties cannot be read, or their checksum is wrong.
        Unsupported: a table version, timeline layout or base file format that Penstock does not know.
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
    """Return the properties as a configuration. Raise CorruptFile or Unsupported if they cannot be used."""
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
    """Write `hoodie.properties`, with its checksum, in one step.

    Args:
        new: whether the table is created. Otherwise the file is replaced, and the backup of an interrupted update is deleted.

    Raises:
        AlreadyExists: another process created the table first.
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
