"""What all methods of `Table` share: the path, the session, the options, and how the current table is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

import penstock
from penstock import options as o
from penstock.errors import OptionError, TableNotFound
from penstock.options import lookup, read_options
from penstock.options.operation import Operation
from penstock.storage import open_storage
from penstock.table import TableState, open_table, table_exists


@dataclass(frozen=True, repr=False)
class TableHandle:
    """A path, a session and default options. It keeps nothing that it read: every method opens the current table."""

    path: str
    _spark: SparkSession | None = field(default=None, compare=False)
    #: Options of every call on this object. The options of a call override them.
    options: Mapping[str, object] = field(default_factory=dict, compare=False)

    def _state(self, options: Mapping[str, object] | None = None) -> TableState:
        """Return the current table.

        Args:
            options: the options of the call, which are added to those of this object; None opens the table without options.
        """
        if options is None:
            return open_table(self.path)
        return open_table(self.path, read_options({**self.options, **call_options(options, {})}))

    def _reader(self) -> SparkSession:
        """Return the session that reads rows and runs tasks."""
        return self._spark or find_session(None)

    def _given(self, operation: Operation, options: Mapping[str, object] | None) -> dict[str, object]:
        """Return all options of a write.

        Raises:
            TableNotFound: the table was deleted. A write with these options would create another table.
        """
        if not table_exists(*open_storage(self.path)):
            raise TableNotFound(f"there is no table at {self.path} any more; create it with Table.create")
        return {**self.options, **call_options(options, {}), o.OPERATION.key: operation.value}


def find_session(spark: SparkSession | None) -> SparkSession:
    """Return the given session, or else the active one, with Penstock enabled."""
    found = spark or SparkSession.getActiveSession()
    if found is None:
        raise OptionError("there is no active Spark session: create one with penstock.session(), or pass one as spark=")
    return penstock.enable(found)


def call_options(options: Mapping[str, object] | None, more: Mapping[str, object]) -> dict[str, object]:
    """Return options under their catalogue keys, so that an alias in a call overrides the same option of the table."""
    unknown = [key for key in more if "." not in key]
    if unknown:
        raise OptionError(f"{unknown[0]!r} is neither an argument of Table.create nor the key of an option; check its spelling")
    found: dict[str, object] = {}
    for key, value in {**(options or {}), **more}.items():
        option = lookup(key)
        found[option.key if option else key] = value
    if o.OPERATION.key in found:
        raise OptionError(f"{o.OPERATION.key} is decided by the method: call insert, bulk_insert, upsert or delete instead")
    return found


def check_partition(path: str) -> str:
    """Return a partition path without slashes around it.

    Raises:
        OptionError: the path leads out of the table's data.
    """
    clean = path.strip("/")
    if any(part in (".", "..") or part.startswith(".hoodie") or "\0" in part for part in clean.split("/")):
        raise OptionError(f"partition {path!r} is not a partition path: it leads out of the table's data")
    return clean
