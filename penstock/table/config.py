"""`TableConfig`: the properties of a table. This module also reads, checks and writes `hoodie.properties`, which holds them.

`write/create_table.py` decides which properties a new table gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock import clock
from penstock.errors import CorruptFile, TableNotFound, Unsupported
from penstock.formats.properties import java_date, read_properties, table_checksum, write_properties
from penstock.report_table import list_properties
from penstock.storage import Storage, is_file, join
from penstock.timeline.store import FOLDER, load_timeline

PROPERTIES = "hoodie.properties"
BACKUP = "hoodie.properties.backup"
TABLE_VERSION = 6
LAYOUT_VERSION = 1
COPY_ON_WRITE = "COPY_ON_WRITE"
MERGE_ON_READ = "MERGE_ON_READ"


@dataclass(frozen=True)
class TableConfig:
    """The properties in `hoodie.properties`. `raw` has all of them as strings; Python properties return the parsed values."""

    raw: Mapping[str, str]

    def _repr_html_(self) -> str:
        """Return the properties as an HTML table, for notebooks."""
        return list_properties(PROPERTIES, sorted(self.raw.items())).to_html()

    @property
    def name(self) -> str:
        """The table's name, `hoodie.table.name`."""
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
        """The ordering field: the column that decides which of two rows with one key is newer. None if the table has none."""
        return self.raw.get("hoodie.table.precombine.field") or None

    @property
    def key_generator_class(self) -> str | None:
        """The Java class name of the key generator; None if `hoodie.properties` does not name a class."""
        return self.raw.get("hoodie.table.keygenerator.class") or None

    @property
    def hive_style(self) -> bool:
        """Whether partition folders are named `column=value` instead of `value`."""
        return _flag(self.raw, "hoodie.datasource.write.hive_style_partitioning", False)

    @property
    def url_encode(self) -> bool:
        """Whether partition values are URL-encoded in the names of folders."""
        return _flag(self.raw, "hoodie.datasource.write.partitionpath.urlencode", False)

    @property
    def populate_meta_fields(self) -> bool:
        """Whether the five meta columns (`_hoodie_record_key` and so on) are filled in the data files."""
        return _flag(self.raw, "hoodie.populate.meta.fields", True)

    @property
    def drop_partition_columns(self) -> bool:
        """Whether partition columns are left out of the data files."""
        return _flag(self.raw, "hoodie.datasource.write.drop.partition.columns", False)

    @property
    def ordered_deletes(self) -> bool:
        """Whether deletes are compared by ordering value, also in logs (`penstock.deletes.follow.ordering`)."""
        return _flag(self.raw, "penstock.deletes.follow.ordering", False)

    @property
    def records_changes(self) -> bool:
        """Whether writers store the rows before and after each change in change logs (`hoodie.table.cdc.enabled`)."""
        return _flag(self.raw, "hoodie.table.cdc.enabled", False)

    @property
    def timeline_utc(self) -> bool:
        """Whether instant times are in UTC; otherwise they are in the local time zone of each writer."""
        return self.raw.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC"

    @property
    def create_schema(self) -> str | None:
        """The Avro schema that the table was created with; None if `hoodie.properties` has no schema."""
        return self.raw.get("hoodie.table.create.schema") or None

    @property
    def archive_folder(self) -> str:
        """The name of the folder in `.hoodie` that holds the archived timeline."""
        return self.raw.get("hoodie.archivelog.folder") or "archived"

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """The names of the metadata table's complete partitions, which readers may use."""
        return _split(self.raw.get("hoodie.table.metadata.partitions"))

    @property
    def metadata_partitions_inflight(self) -> tuple[str, ...]:
        """The names of the metadata table's partitions that are still being built."""
        return _split(self.raw.get("hoodie.table.metadata.partitions.inflight"))


def _split(text: str | None) -> tuple[str, ...]:
    """Return the values in a comma-separated property, without spaces and empty values; an empty tuple for None."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _flag(raw: Mapping[str, str], key: str, default: bool) -> bool:
    """Return the value of the boolean property `key`; `default` if the property is not set."""
    return raw.get(key, str(default)).strip().lower() == "true"


def read_config(storage: Storage, base_path: str) -> TableConfig:
    """Read and check `hoodie.properties`. If that file is missing or damaged, read `hoodie.properties.backup` instead.

    When Hudi updates the properties, it writes the backup before it replaces the file.

    Raises:
        TableNotFound: there is no table at the path.
        CorruptFile: one file is damaged, and the other is damaged or missing; or both are missing, but there is a timeline.
        Unsupported: the table has a table version, timeline layout or base file format that Penstock does not know.
    """
    config = find_config(storage, base_path)
    if config is not None:
        return config
    if is_file(storage, base_path):
        raise TableNotFound(f"{base_path} is a file, not a Hudi table; pass the folder of a table")
    raise TableNotFound(f"{base_path} is not a Hudi table: it has no {FOLDER}/{PROPERTIES}. Check the path, or write to it first")


def find_config(storage: Storage, base_path: str) -> TableConfig | None:
    """Read and check `hoodie.properties`, or its backup if that file is missing or damaged. Return None if there is no table.

    Raises:
        CorruptFile: one file is damaged, and the other is damaged or missing; or both are missing, but there is a timeline.
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
    return None


def _check_properties(raw: dict[str, str], base_path: str) -> TableConfig:
    """Check the properties, and return them as a `TableConfig`.

    Raises:
        CorruptFile: the table name is missing, or the checksum is wrong.
        Unsupported: the table version, timeline layout or base file format is one that Penstock does not know.
    """
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
        raw: all properties. An old checksum among them is replaced.
        new: whether the table is being created. If false, the existing file is replaced, and `hoodie.properties.backup`, which an
            interrupted update may have left, is deleted.

    Raises:
        AlreadyExists: `new` is true, and another process created the table first.
    """
    checksum = table_checksum(raw.get("hoodie.database.name"), raw["hoodie.table.name"])
    values = {**raw, "hoodie.table.checksum": str(checksum)}
    now = clock.utc_now()
    comment = f"{'Properties saved on' if new else 'Updated at'} {now.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}"
    data = write_properties(values, comment, java_date(now))
    path = join(base_path, FOLDER, PROPERTIES)
    if new:
        storage.write_new(path, data)
    else:
        storage.replace(path, data)
        storage.delete(join(base_path, FOLDER, BACKUP))
    return TableConfig(values)
