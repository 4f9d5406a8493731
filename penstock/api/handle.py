"""What the verbs of `Table` have in common: a path, the session and options that go with it, the table as it is now."""

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
class Opened:
    """A table that verbs are called on."""

    path: str
    _spark: SparkSession | None = field(default=None, compare=False)
    #: Options of every write through this object; those of a call are laid over them.
    options: Mapping[str, object] = field(default_factory=dict, compare=False)

    def _state(self, options: Mapping[str, object] | None = None) -> TableState:
        """The table as it is now; with its own options and those of the call where these are given, else with none."""
        return open_table(self.path, read_options({**self.options, **own_options(options, {})}) if options is not None else None)

    def _reader(self) -> SparkSession:
        """The session that reads and runs tasks."""
        return self._spark or session_of(None)

    def _given(self, operation: Operation, options: Mapping[str, object] | None) -> dict[str, object]:
        """All options of a write. Raises TableNotFound, because a write would make the table anew."""
        if not table_exists(*open_storage(self.path)):
            raise TableNotFound(f"there is no table at {self.path} any more; make it with Table.create")
        return {**self.options, **own_options(options, {}), o.OPERATION.key: operation.value}


def session_of(spark: SparkSession | None) -> SparkSession:
    """A session with Penstock on it: the given one, or the active one."""
    found = spark or SparkSession.getActiveSession()
    if found is None:
        raise OptionError("there is no active Spark session: make one with penstock.session(), or give one as spark=")
    return penstock.enable(found)


def own_options(options: Mapping[str, object] | None, more: Mapping[str, object]) -> dict[str, object]:
    """Options under their catalogue keys, so that those of a call replace those of the table whatever their spelling."""
    if unknown := [k for k in more if "." not in k]:
        raise OptionError(f"{unknown[0]!r} is neither an argument of Table.create nor the key of an option; check its spelling")
    found: dict[str, object] = {}
    for key, value in {**(options or {}), **more}.items():
        option = lookup(key)
        found[option.key if option else key] = value
    if o.OPERATION.key in found:
        raise OptionError(f"{o.OPERATION.key} is decided by the verb: call insert, bulk_insert, upsert or delete instead")
    return found


def checked_partition(path: str) -> str:
    """A partition path without slashes around it. Raises OptionError if it leads out of the table's data."""
    clean = path.strip("/")
    if any(part in (".", "..") or part.startswith(".hoodie") or "\0" in part for part in clean.split("/")):
        raise OptionError(f"partition {path!r} is not a partition path: it leads out of the table's data")
    return clean
