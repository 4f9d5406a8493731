"""`TableState`, a table at one moment: its path, configuration, options and timeline, as a frozen value.

The class `penstock.Table`, which users call, is in `api/table.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.options import Options
from penstock.options.operation import Operation
from penstock.storage import Storage, join, open_storage
from penstock.table.config import BACKUP, MERGE_ON_READ, PROPERTIES, TableConfig, read_config
from penstock.timeline.instant import Instant
from penstock.timeline.store import FOLDER, load_timeline, read_schema
from penstock.timeline.timeline import Timeline


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
