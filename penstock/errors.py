"""Every error that Penstock raises.

There is a class for each way in which a caller can react. Each line shows the class, what to do, and when the error is raised::

    PenstockError
    ├── OptionError          fix the call: an option has a wrong, missing or conflicting value
    │   ├── Unsupported      leave the option out, or use Hudi: Penstock does not support it (yet)
    │   └── ChangesLost      start again from a snapshot, or let the query scan the table: changes cannot be found any more
    ├── SchemaError          fix the data: a column is missing, has a wrong type, or occurs twice
    │   └── RecordKeyError   fix the data: a row has no record key or partition path
    ├── PayloadError         fix the merge function: it raised, did not return, or returned a value that cannot be stored
    ├── ValidationFailed     fix the data, or the validator: it refused the commit. The write was undone
    ├── TableNotFound        fix the path, or create the table
    ├── TableExists          choose another path or save mode
    ├── WriteConflict        run the whole write, or the query, again: a concurrent commit changed the same file groups
    │   └── TableChanged     the same, found before anything was written
    ├── LockTimeout          wait, or break the lock of a dead writer: another writer holds the lock of the table
    ├── CommitUnknown        look at the timeline before deleting anything: the commit may have completed or not
    ├── CallbackFailed       repair the other system: a message about a commit was not delivered. The commit is published
    ├── CorruptFile          stop: a file of the table is damaged
    ├── CatalogError         run the sync again when the catalog works: it cannot be reached, or refuses a change
    │   └── CatalogConflict  the same, but the catalog holds what a sync may not change: another table, another type of a column
    ├── ExecutorError        prepare the executors: their Python cannot run Penstock
    └── StorageError         repair the storage, then try again: disk full, network, permissions
        └── AlreadyExists    another process created a file that had to be new

Messages name the option or column, its value and the fix.
"""

from __future__ import annotations


class PenstockError(Exception):
    """Base class of all errors that Penstock raises on purpose. Catch it to catch all of them."""


class OptionError(PenstockError, ValueError):
    """Raised if an option or argument has a wrong, missing or conflicting value. Fix the call."""


class Unsupported(OptionError):
    """Raised if an option, a table or a file uses a feature of Hudi that Penstock does not have. Nothing was written.

    Leave the option out, or use Hudi for this table.
    """


class ChangesLost(OptionError):
    """Raised by an incremental query if changes in its range cannot be found any more.

    Files of the range were cleaned, or neither the timeline nor its archive knows the commit of a file. Start again from a
    snapshot, query a later range, or let the query scan the whole table.
    """


class SchemaError(PenstockError, ValueError):
    """Raised if the data does not fit the table: a column is missing, occurs twice, or has a type that cannot be cast.

    Fix the data, or allow the change of schema with an option that the message names.
    """


class RecordKeyError(SchemaError):
    """Raised if a row has no usable record key or partition path. Fix the data."""


class PayloadError(PenstockError):
    """Raised if a payload or merger of the user fails. Nothing was written.

    The message names the function, a record key and the function's own error. Fix the function.
    """


class ValidationFailed(PenstockError):
    """Raised if a validator refuses a commit. The write was undone, the table is as it was before. Fix the data.

    If the validator runs an SQL query from the options, the attributes hold the query, the expected result and the result that it
    would return, as texts. Otherwise they are None.
    """

    query: str | None = None
    expected: str | None = None
    found: str | None = None


class TableNotFound(PenstockError, FileNotFoundError):
    """Raised if there is no Hudi table at a path. Fix the path, or create the table."""


class TableExists(PenstockError, FileExistsError):
    """Raised if a table is to be created at a path that has one, or a table of another name is to be written.

    Choose another path, save mode or name.
    """


class WriteConflict(PenstockError):
    """Raised if a concurrent commit changed the same file groups, or removed files that a query was planned with.

    Run the whole write, or the query, again.

    Attributes:
        other_instant: the instant time of the write or plan that this one lost to; None if there is no single one.
    """

    def __init__(self, message: str = "", *, other_instant: str | None = None) -> None:
        super().__init__(message)
        self.other_instant = other_instant


class TableChanged(WriteConflict):
    """Raised if another write began or completed between the moment when a write loaded the table and its own beginning.

    Nothing was written. `df.write` and `Table` load the table again by themselves and raise this only after several attempts.
    """


class LockTimeout(PenstockError):
    """Raised if the lock of a table cannot be acquired in time, because another writer holds it.

    Nothing was published. The message names the lock, its holder and since when the holder has it. Wait, raise the option that
    the message names, or break the lock if the holder is dead.
    """


class CommitUnknown(PenstockError):
    """Raised if the storage failed while a commit was published, so that the commit may have completed or not.

    Look at the timeline before deleting anything or writing again.
    """


class CallbackFailed(PenstockError):
    """Raised by a callback whose message about a commit was not delivered. The commit is published, do not write again.

    A write never raises it: it becomes a warning. Repair the other system; the next write sends the message again.
    """


class MessageTooLarge(CallbackFailed):
    """Raised by a callback whose receiver does not accept messages of this size. Later messages are sent all the same."""


class CorruptFile(PenstockError):
    """Raised if the content of a table's file is damaged or not what its name says. Stop, and restore the file or the table."""


class CatalogError(PenstockError):
    """Raised if a catalog (Hive metastore, HiveServer2, Glue) cannot be reached, or holds or refuses what a sync needs.

    The table itself is complete. Correct what the message names, then run `Table.sync()` or `penstock sync`.
    """


class CatalogConflict(CatalogError):
    """Raised if a catalog holds what a sync may not change: another table under the name, or a column of another type.

    A write that is to sync raises it before its commit, and is taken back. Drop the entry in the catalog, or choose another name.
    """


class ExecutorError(PenstockError):
    """Raised if Spark's Python workers cannot run Penstock: another Python version, no pyarrow, no such program.

    Nothing was written. Let the executors run a Python that has what the message names.
    """


class StorageError(PenstockError, OSError):
    """Raised if the storage fails: disk full, network, permissions. Repair the storage, then try again."""


class AlreadyExists(StorageError, FileExistsError):
    """Raised by a storage if a file that must be new exists: another process created the file first."""
