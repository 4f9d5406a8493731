"""The checks of a write that run before any data file is written: of the table, the options and the incoming columns.

Two other modules check earlier: `settings.py` refuses options that contradict the table, and `rows/schema.py` refuses columns
that cannot be stored.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock import options as o
from penstock.errors import OptionError, SchemaError, Unsupported, WriteConflict
from penstock.merge.kernels.gather import find_column
from penstock.merge.make_merger import is_known_payload
from penstock.merge.merger import Merger
from penstock.options.payload_names import PENSTOCK_PAYLOADS
from penstock.registered.functions import MERGE_FUNCTIONS
from penstock.table.pending import find_pending_groups
from penstock.table.state import TableState
from penstock.write.context import WriteContext
from penstock.write.tasks.task_rows import missing_ordering


def check_keys_are_stored(write: WriteContext, what: str) -> None:
    """Raise Unsupported if `hoodie.populate.meta.fields` is false: the table's base files then hold no record keys.

    Args:
        what: the operation or option that needs the keys. The error message begins with it.
    """
    if not write.options[o.POPULATE_META_FIELDS]:
        raise Unsupported(
            f"{what} looks for record keys in the base files, and {write.table.base_path} keeps none there "
            f"({o.POPULATE_META_FIELDS.key}=false); use insert or bulk_insert, or write a table with that option true"
        )


def check_ordering_column(write: WriteContext) -> None:
    """Raise SchemaError if the incoming rows lack the ordering column, and the write needs it to pick the newest row of a key."""
    if not write.settings.picks_newest:
        return
    column = write.settings.ordering_field or write.options[o.PRECOMBINE_FIELD]
    schema = write.prepared.stored_schema
    if find_column(schema.empty_table(), column) is None:
        raise SchemaError(missing_ordering(column, schema.names))


def check_payload_of_logs(table: TableState, payload: str) -> None:
    """Raise OptionError if the write's payload must not be mixed with the payload by which readers merge the table's logs.

    Two different payloads of Hudi may be mixed. Any other payload (of Penstock, a registered function, or unknown) must equal the
    payload of the table, `hoodie.compaction.payload.class`. A copy-on-write table has no logs and passes.

    Args:
        payload: the payload class of the write.
    """
    stored = table.config.raw.get(o.STORED_PAYLOAD_CLASS.key, o.STORED_PAYLOAD_CLASS.default)
    if not table.is_merge_on_read or payload == stored:
        return
    for name in (payload, stored):
        if name in PENSTOCK_PAYLOADS or MERGE_FUNCTIONS.has(name) or not is_known_payload(name):
            raise OptionError(
                f"{o.PAYLOAD_CLASS.key}={payload} cannot write to {table.base_path}, whose log files are merged by {stored} "
                f"({o.STORED_PAYLOAD_CLASS.key}); leave the option out, or make a new table"
            )


def check_merger_can_move_rows(write: WriteContext, merger: Merger) -> None:
    """Raise Unsupported if the merger is a user's function and the index may move rows to logs of other partitions.

    A row that moves is merged with its stored row, and the result is written to the log of its new partition. The log cannot mark
    the result as already merged. So readers of the log would call the user's function once more for it, as for the first row of a
    new key, and could get other values.
    """
    index = write.index
    if index.moves_rows and index.store is not None and write.table.is_merge_on_read and merger.is_user_function:
        raise Unsupported(
            f"{o.PAYLOAD_CLASS.key}={write.settings.payload_class} would treat a row that {index.name} moves to a log of another "
            f"partition as the first row of its key, each time that log is read; set {index.moves_option}=false, or use a GLOBAL "
            "index"
        )


def check_no_pending_services(table: TableState, partitions: Collection[str]) -> None:
    """Raise WriteConflict if a pending table service will rewrite file groups of one of these partitions.

    Args:
        partitions: the partition paths that a delete_partition is about to take out of the table.
    """
    planned = sorted((path, instant) for (path, _), instant in find_pending_groups(table).items())
    for path, instant in planned:
        if path in partitions:
            raise WriteConflict(
                f"Failed to drop partitions. Please ensure that there are no pending table service actions: {instant} of "
                f"{table.base_path} is to rewrite files of partition {path!r}. Run or unschedule it first"
            )
