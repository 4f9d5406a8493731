"""`TableHandle`, the base class of `Table`: its path, Spark session and default options, and how its methods open the table."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import penstock
from penstock import options as o
from penstock.commit.open_finished import open_finished
from penstock.errors import OptionError, TableNotFound
from penstock.options import lookup, read_options
from penstock.options.operation import Operation
from penstock.options.storage import STORAGE_OPTIONS
from penstock.read.plan import QueryPlan
from penstock.read.query import parse_query
from penstock.schema import META_COLUMNS
from penstock.storage import open_storage
from penstock.table.state import TableState, read_table_schema, table_exists

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: How often a write of `Table` runs again after a conflict, if several writers are allowed and the options do not say.
_CONFLICT_RETRIES = 3


def path_text(path: object) -> str:
    """Return a table's path as text. Raise OptionError if it is neither text nor a path object."""
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    raise OptionError(
        f"the path of a table cannot be of the type {type(path).__name__}: pass its folder as a string or a pathlib.Path"
    )


def storage_settings(options: Mapping[str, object]) -> dict[str, str]:
    """Return the options whose keys begin with `penstock.storage.`, as the strings that `open_storage` takes."""
    return {key: str(value) for key, value in options.items() if key.startswith(STORAGE_OPTIONS)}


@dataclass(frozen=True, repr=False)
class TableHandle:
    """The base class of `Table`: a path, a Spark session and default options.

    It caches no state of the table: every method opens the table again.
    """

    path: str
    _spark: SparkSession | None = field(default=None, compare=False)
    #: Default options of every write and table service called on this object. The options of a call override them.
    options: Mapping[str, object] = field(default_factory=dict, compare=False)

    def _state(self, options: Mapping[str, object] | None = None) -> TableState:
        """Open the table and return its current state.

        Args:
            options: the options of the call, which override the options of this object. None: the table is opened without
                options, except those of its storage.
        """
        if options is None:
            return open_finished(self.path, read_options(storage_settings(self.options)))
        return open_finished(self.path, read_options({**self.options, **call_options(options, {})}))

    def _reader(self) -> SparkSession:
        """Return the Spark session of this object if set, otherwise the active Spark session.

        Raises:
            OptionError: there is neither.
        """
        return self._spark or find_session(None)

    def _given(self, operation: Operation, options: Mapping[str, object] | None) -> dict[str, object]:
        """Return the options of a write: those of this object, overridden by those of the call, and the operation.

        Args:
            options: the options of the call; None: no options.

        Raises:
            TableNotFound: the table was deleted. A write would create a new table at its path.
        """
        settings = storage_settings({**self.options, **call_options(options, {})})
        if not table_exists(*open_storage(self.path, settings)):
            raise TableNotFound(f"there is no table at {self.path} any more; create it with Table.create")
        given: dict[str, object] = {**self.options, **call_options(options, {}), o.OPERATION.key: operation.value}
        # Hudi does not repeat a write after a conflict. A method call should: the caller has no other way to go on.
        given.setdefault(o.CONFLICT_RETRIES.key, _CONFLICT_RETRIES)
        return given


def find_session(spark: SparkSession | None) -> SparkSession:
    """Return `spark` if set, otherwise the active Spark session, with `format("hudi")` enabled (`penstock.enable`).

    Raises:
        OptionError: `spark` is None and there is no active session.
    """
    found = spark or active_session()
    if found is None:
        raise OptionError("there is no active Spark session: create one with penstock.session(), or pass one as spark=")
    return penstock.enable(found)


def active_session() -> SparkSession | None:
    """Return the active Spark session, or the one that this process created; None if there is none.

    Each thread has an active session of its own, so a new thread has none. Does not import pyspark: without it there is no
    session.
    """
    sql = sys.modules.get("pyspark.sql")
    if sql is None:
        return None
    from pyspark.errors import PySparkRuntimeError

    try:
        return cast("SparkSession", sql.SparkSession.active())
    except PySparkRuntimeError:
        return None


def table_columns(state: TableState) -> StructType:
    """Return the columns of a table as a Spark schema, without Hudi's meta columns."""
    from pyspark.sql.types import StructType

    from penstock.read.scan import table_struct

    struct = table_struct(QueryPlan(state, parse_query([state.uri], state.options), read_table_schema(state), {}))
    return StructType([field for field in struct if field.name not in META_COLUMNS])


def call_options(options: Mapping[str, object] | None, more: Mapping[str, object]) -> dict[str, object]:
    """Return the options of a call by their main keys. An alias of an option is replaced by its main key.

    Args:
        options: options by their keys or aliases; None: no options.
        more: further options, from keyword arguments. They override `options`.

    Raises:
        OptionError: a key of `more` is not the key of an option, or the operation is among the options.
    """
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
    """Check a partition path that the caller passed, and return it without leading and trailing slashes.

    Raises:
        OptionError: a part of the path is `.` or `..`, begins with `.hoodie`, or holds a null character.
    """
    clean = path.strip("/")
    if any(part in (".", "..") or part.startswith(".hoodie") or "\0" in part for part in clean.split("/")):
        raise OptionError(f"partition {path!r} is not a partition path: it leads out of the table's data")
    return clean
