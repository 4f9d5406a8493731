"""Every error Penstock raises.

A class exists where a caller would act differently::

    PenstockError
    ├── OptionError          fix the call: an option has a wrong, missing or conflicting value
    │   ├── Unsupported      the option or table is known, but Penstock does not do this (yet)
    │   └── ChangesLost      what changed since then cannot be told any more: take a snapshot, or let the query scan the table
    ├── SchemaError          fix the data: a column is missing, has a wrong type, or is used twice
    │   └── RecordKeyError   a row has no record key
    ├── PayloadError         fix the merge function: it raised, never returned, or gave back what cannot be stored
    ├── TableNotFound        the path holds no Hudi table
    ├── TableExists          the path holds one already, and the save mode says that is an error
    ├── WriteConflict        another commit changed the same file groups: run the whole write, or the query, again
    ├── CommitUnknown        the commit may or may not have happened: look before deleting anything
    ├── CorruptFile          a file of the table cannot be read: stop
    └── StorageError         the world failed: disk full, network, permissions
        └── AlreadyExists    a file that must be new is there already

Messages name the option or column, the value and the fix.
"""

from __future__ import annotations


class PenstockError(Exception):
    """Base of all errors that Penstock raises on purpose."""


class OptionError(PenstockError, ValueError):
    """An option has a wrong, missing or conflicting value. Fix the call."""


class Unsupported(OptionError):
    """Known to Hudi, but not done by Penstock. Nothing was written."""


class ChangesLost(OptionError):
    """An incremental query reaches back to files that were cleaned. Begin anew with a snapshot, or let it scan the table."""


class SchemaError(PenstockError, ValueError):
    """The data does not fit the table: a column is missing, doubled, or of a wrong type."""


class RecordKeyError(SchemaError):
    """A row has no usable record key or partition path."""


class PayloadError(PenstockError):
    """A payload or merger of the user's own failed. The message names it, a key and what it raised; nothing was written."""


class TableNotFound(PenstockError, FileNotFoundError):
    """The path holds no Hudi table."""


class TableExists(PenstockError, FileExistsError):
    """The path holds a Hudi table already, and the save mode makes that an error."""


class WriteConflict(PenstockError):
    """Another commit changed the same file groups. Run the whole write again; or the query, if one was planned meanwhile."""


class CommitUnknown(PenstockError):
    """The outcome of the commit is not known. Look at the timeline before deleting anything."""


class CorruptFile(PenstockError):
    """A file of the table cannot be read as what it should be."""


class StorageError(PenstockError, OSError):
    """The storage failed: disk full, network, permissions."""


class AlreadyExists(StorageError, FileExistsError):
    """A file that had to be new is there already; somebody else created it first."""
