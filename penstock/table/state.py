"""`TableState`, a table at one moment: its path, configuration, options and timeline, as a frozen value.

The class `penstock.Table`, which users call, is in `api/table.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.errors import Unsupported
from penstock.options import SCHEMA_ON_READ, Options
from penstock.options.operation import Operation
from penstock.options.storage import STORAGE_OPTIONS
from penstock.storage import Storage, join, open_storage
from penstock.table.column_history import HISTORY, check_columns_keep_names, has_column_history
from penstock.table.config import BACKUP, MERGE_ON_READ, PROPERTIES, TableConfig, read_config
from penstock.timeline.instant import Action, Instant
from penstock.timeline.store import FOLDER, load_timeline, read_schema
from penstock.timeline.timeline import Timeline


@dataclass(frozen=True)
class TableState:
    """A table at one moment: storage, path, configuration, options and timeline. The argument of writes, queries and services."""

    storage: Storage
    base_path: str
    config: TableConfig
    options: Options
    timeline: Timeline = field(default_factory=Timeline)

    @property
    def uri(self) -> str:
        """The path of the table with its scheme, as users and other engines write it; a plain path for a local table."""
        return self.storage.uri(self.base_path)

    @property
    def is_merge_on_read(self) -> bool:
        """Whether the table type is MERGE_ON_READ: updates are written to log files."""
        return self.config.table_type == MERGE_ON_READ

    def is_final(self, instant: Instant) -> bool:
        """Whether the file of an instant never changes, so that its content may be kept in memory.

        True for completed commits of copy-on-write tables and completed delta commits of merge-on-read tables. False for
        compactions and replace commits: if the run of a plan is rolled back, it runs again under the same instant. A log
        compaction, which is a delta commit, runs again too, but its file then has the same schema and file groups.
        """
        writes = Action.DELTA_COMMIT if self.is_merge_on_read else Action.COMMIT
        return instant.is_completed and instant.action is writes


#: The operations (as commit files spell them) that only move rows and never change the schema. Their commits may lack a schema.
KEEPS_SCHEMA = frozenset(
    operation.stored for operation in (Operation.COMPACT, Operation.CLUSTER, Operation.LOG_COMPACT, Operation.INDEX)
)


def read_table_schema(table: TableState, as_of: str | None = None) -> str | None:
    """Return the table's Avro schema as JSON, without meta columns; None if no schema is found.

    The newest commit of the active timeline that has a schema decides. Commits of services that only move rows (`KEEPS_SCHEMA`)
    are considered only if no other commit has a schema. If no commit has one, the schema that the table was created with is
    returned.

    Args:
        as_of: return the schema at this instant time; None for the latest. With `as_of`, None is returned if the active timeline
            does not have that schema. The schema that the table was created with is then not returned, because archived writes
            may have changed it.

    Raises:
        Unsupported: Hudi's full schema evolution has renamed or dropped a column.
    """
    if table.timeline.may_have_folder(HISTORY):
        check_columns_keep_names(table.storage, table.base_path, as_of)
    schema_of_service: str | None = None
    for instant in reversed(table.timeline.writes):
        if as_of is None or _may_be_last_before(table.timeline, instant, as_of):
            operation, schema = read_schema(table.storage, table.base_path, instant, is_final=table.is_final(instant))
            if schema and operation not in KEEPS_SCHEMA:
                return schema
            schema_of_service = schema_of_service or schema
    if schema_of_service:
        return schema_of_service
    return table.config.create_schema if as_of is None else None


def _may_be_last_before(timeline: Timeline, write: Instant, as_of: str) -> bool:
    """Whether `write` may be the last write up to the instant time `as_of`.

    If `as_of` is before the start of the active timeline, true only for a write at exactly `as_of`: a savepoint can keep an
    older write on the timeline while writes between it and `as_of` are archived.
    """
    is_before_start = timeline.start is not None and as_of < timeline.start
    return write.time == as_of if is_before_start else write.time <= as_of


def table_exists(storage: Storage, base_path: str) -> bool:
    """Whether there is a Hudi table at `base_path`, even a damaged one.

    True if `.hoodie` has `hoodie.properties`, or `hoodie.properties.backup` from an interrupted update, or any instant.
    """
    return has_properties(storage, base_path) or bool(load_timeline(storage, base_path).instants)


def has_properties(storage: Storage, base_path: str) -> bool:
    """Whether there is a `hoodie.properties` at `base_path`, or its backup from an interrupted update."""
    folder = join(base_path, FOLDER)
    return any(storage.stat(join(folder, name)) is not None for name in (PROPERTIES, BACKUP))


def reload_timeline(table: TableState) -> TableState:
    """Read the timeline from storage again; return a copy of the table with it. Configuration and options stay the same."""
    return replace(table, timeline=load_timeline(table.storage, table.base_path))


def reload_table(table: TableState) -> TableState:
    """Read configuration and timeline from storage again; return a copy of the table with them. Options stay the same."""
    return replace(reload_timeline(table), config=read_config(table.storage, table.base_path))


def open_table(path: str, options: Options | None = None, config: TableConfig | None = None) -> TableState:
    """Open the table at `path`: read its configuration and its timeline.

    Args:
        options: the options of the write, query or service; None for defaults.
        config: the table's properties, if they were read just now.

    Raises:
        TableNotFound: there is no table at the path.
        CorruptFile: `hoodie.properties` cannot be read, or its checksum is wrong.
        Unsupported: the table has a table version, timeline layout or base file format that Penstock does not know, or a schema
            history that the options ask for.
    """
    storage, base_path = open_storage(path, options.prefixed(STORAGE_OPTIONS) if options is not None else None)
    config = config or read_config(storage, base_path)
    if options is not None and options[SCHEMA_ON_READ]:
        _refuse_schema_history(storage, base_path)
    return TableState(storage, base_path, config, options or Options({}), load_timeline(storage, base_path))


def _refuse_schema_history(storage: Storage, base_path: str) -> None:
    """Raise Unsupported if Hudi's full schema evolution has changed the table's columns.

    Hudi then keeps a history of schemas below `.hoodie/.schema`, and matches the columns of older files by column ids from it.
    Penstock does not read this history.
    """
    if has_column_history(storage, base_path):
        raise Unsupported(
            f"option '{SCHEMA_ON_READ.key}' is 'true', and the table at {base_path} has columns that were changed by it, which "
            "Penstock does not support: use Hudi for this table"
        )
