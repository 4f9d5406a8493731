"""`enable`, `disable` and `session`: add Penstock to a Spark session, and remove it.

`enable` replaces `SparkSession.read` and `DataFrame.write` by properties that return Penstock's readers and writers. This patches
the classes, for all sessions. A flag on each session decides whether its readers and writers call Penstock. `writeStream` is
replaced in the same way (`streaming.py`); `table` and `sql` to read tables of a Hive catalog (`catalog_tables.py`); `readStream`,
`writeTo`, and `sql` again, to say what Penstock does not have yet (`not_yet.py`).
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, wraps
from typing import Any

from pyspark.sql import SparkSession

from penstock.options import forget_shown_warnings
from penstock.spark.catalog_tables import read_table, replace_catalog_tables
from penstock.spark.compat import frame_classes, session_classes
from penstock.spark.datasource import HudiReader, HudiWriter, wrap_spark_object
from penstock.spark.hudi_settings import settle_hudi_settings
from penstock.spark.not_yet import NoCatalog, NoStreamReader, NoTableWriter, is_unknown_provider, refused_statement
from penstock.spark.streaming import HudiStreamWriter
from penstock.storage import use_session_settings
from penstock.workers.prepare import use_driver_python
from penstock.workers.session_settings import read_storage_settings

_ENABLED: weakref.WeakSet[Any] = weakref.WeakSet()
_ORIGINAL = "_penstock_original"
_FLAG = "penstock.enabled"

#: Settings of a session that `session` creates. The caller's settings override them.
DEFAULTS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.python.worker.reuse": "true",
    "spark.ui.showConsoleProgress": "false",
}


def enable(spark: SparkSession) -> SparkSession:
    """Add `format("hudi")` to a session, classic or Spark Connect, and return the session.

    Afterwards Penstock handles `df.write.format("hudi")` and `spark.read.format("hudi")`; every other format stays Spark's.
    On a local master the Python workers run the Python of this program, unless PYSPARK_PYTHON or `spark.pyspark.python` names
    another one. A second call has no effect. `disable` undoes it.

    Example:
        >>> import penstock
        >>> spark = penstock.enable(spark)  # doctest: +SKIP
    """
    settle_hudi_settings(spark)
    for kind, name, replacement in _replacements():
        _patch(kind, name, replacement)
    if not is_enabled(spark):
        forget_shown_warnings()
    use_driver_python(spark)
    use_session_settings(_read_active_settings)
    spark.conf.set(_FLAG, "true")
    _ENABLED.add(spark)
    return spark


def disable(spark: SparkSession) -> None:
    """Remove `format("hudi")` from a session: Penstock no longer handles its reads and writes."""
    _ENABLED.discard(spark)
    with suppress(Exception):  # a stopped session raises, and the type of the error depends on the Spark release
        spark.conf.unset(_FLAG)
    if not _ENABLED:
        for kind, name, _ in _replacements():
            _restore(kind, name)


def session(**conf: Any) -> SparkSession:
    """Create a Spark session, or take the running one, and enable Penstock on it.

    Keyword arguments are Spark settings with `_` for `.`, except `master`, `app_name` and `config` (a dict of settings
    under their own names).

    Example:
        >>> spark = penstock.session(master="local[2]", app_name="trips")  # doctest: +SKIP
    """
    from penstock.spark.java import use_java

    use_java()
    builder = SparkSession.builder
    settings = {**DEFAULTS, "spark.pyspark.python": sys.executable, **(conf.pop("config", None) or {})}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = builder.appName(str(conf.pop("app_name", "penstock")))
    if master := conf.pop("master", None):
        builder = builder.master(str(master))
    settings |= {f"spark.{k.removeprefix('spark_').replace('_', '.')}": v for k, v in conf.items()}
    for key, value in settings.items():
        builder = builder.config(key, str(value).lower() if isinstance(value, bool) else str(value))
    return enable(builder.getOrCreate())


def _read_active_settings() -> dict[str, str]:
    """Return the storage settings of the active Spark session as key → value; an empty dict if no session is active."""
    active: Any = SparkSession.getActiveSession()
    if active is None:
        active = next(iter(_ENABLED), None)
    return read_storage_settings(active) if active is not None else {}


def is_enabled(spark: Any) -> bool:
    """Whether Penstock is enabled on a session.

    Several Python objects may stand for one session, so the flag is also kept in the session's own configuration.
    """
    return spark in _ENABLED or spark.conf.get(_FLAG, "false") == "true"


def _replacements() -> Iterator[tuple[type, str, Callable[[Any], Any]]]:
    """Yield (class, name, replacement) for each property and method that `enable` replaces, such as `SparkSession.read`.

    The replacement is a function: it is called with Spark's own property or method, and returns Penstock's.
    """
    for kind in session_classes():
        yield kind, "read", _read
        yield kind, "readStream", _read_stream
        yield kind, "catalog", _catalog
        yield kind, "table", _table
        yield kind, "sql", _sql
    for kind in frame_classes():
        yield kind, "write", _write
        yield kind, "writeStream", _write_stream
        yield kind, "writeTo", _write_to


def _patch(kind: type, name: str, replacement: Callable[[Any], Any]) -> None:
    """Replace the property or method `name` of a class by Penstock's, unless it is replaced already.

    Args:
        replacement: a function that is called with Spark's property or method, and returns the getter or method to use instead.
    """
    current = kind.__dict__.get(name)
    if current is None or hasattr(getattr(current, "fget", current), _ORIGINAL):
        return
    taken = replacement(current)
    setattr(taken, _ORIGINAL, current)
    is_property = isinstance(current, property | cached_property)
    setattr(kind, name, property(taken, doc=current.__doc__) if is_property else taken)


def _restore(kind: type, name: str) -> None:
    """Put Spark's own property or method `name` back on a class, if Penstock has replaced it."""
    current = kind.__dict__.get(name)
    original = getattr(getattr(current, "fget", current), _ORIGINAL, None)
    if original is not None:
        setattr(kind, name, original)


def _read(original: Any) -> Any:
    """Return the getter for `SparkSession.read` that wraps Spark's reader. `original` is Spark's own property."""

    def read(self: Any) -> Any:
        reader = original.__get__(self, type(self))
        notes = {"format": None, "options": {}, "schema": None, "session": self, "enabled": is_enabled, "read_table": read_table}
        return wrap_spark_object(reader, HudiReader, notes)

    return read


def _write(original: Any) -> Any:
    """Return the getter for `DataFrame.write` that wraps Spark's writer. `original` is Spark's own property."""

    def write(self: Any) -> Any:
        writer = original.__get__(self, type(self))
        notes: dict[str, Any] = {"format": None, "options": {}, "mode": None, "partition_by": [], "buckets": None}
        notes |= {"frame": self, "session": self.sparkSession, "enabled": is_enabled}
        return wrap_spark_object(writer, HudiWriter, notes)

    return write


def _write_stream(original: Any) -> Any:
    """Return the getter for `DataFrame.writeStream` that wraps Spark's writer. `original` is Spark's own property."""

    def write_stream(self: Any) -> Any:
        writer = original.__get__(self, type(self))
        notes: dict[str, Any] = {"format": None, "options": {}, "output_mode": None, "partition_by": [], "name": None}
        notes |= {"session": self.sparkSession, "enabled": is_enabled}
        return wrap_spark_object(writer, HudiStreamWriter, notes)

    return write_stream


def _read_stream(original: Any) -> Any:
    """Return the getter for `SparkSession.readStream` that wraps Spark's reader, which then refuses Hudi's format."""

    def read_stream(self: Any) -> Any:
        return wrap_spark_object(original.__get__(self, type(self)), NoStreamReader, {"session": self, "enabled": is_enabled})

    return read_stream


def _catalog(original: Any) -> Any:
    """Return the getter for `SparkSession.catalog` that wraps Spark's catalog, which then creates no table of Hudi's format."""

    def catalog(self: Any) -> Any:
        return wrap_spark_object(original.__get__(self, type(self)), NoCatalog, {"session": self, "enabled": is_enabled})

    return catalog


def _write_to(original: Any) -> Any:
    """Return the method for `DataFrame.writeTo` that wraps Spark's writer, which then refuses Hudi's format."""

    @wraps(original)
    def write_to(self: Any, table: str) -> Any:
        return wrap_spark_object(original(self, table), NoTableWriter, {"session": self.sparkSession, "enabled": is_enabled})

    return write_to


def _table(original: Any) -> Any:
    """Return the method for `SparkSession.table` that calls Spark's, and reads Hudi tables of a Hive catalog."""

    @wraps(original)
    def table(self: Any, tableName: str) -> Any:
        if not is_enabled(self):
            return original(self, tableName)
        return read_table(self, tableName, lambda: original(self, tableName))

    return table


def _sql(original: Any) -> Any:
    """Return a method in place of `SparkSession.sql`.

    It passes every statement to Spark's own method. If Spark does not know the format `hudi`, a query of Hudi tables of a Hive
    catalog runs on temporary views of them, and any other statement raises an error that says what to do instead.

    Args:
        original: Spark's own method.
    """

    @wraps(original)
    def sql(self: Any, sqlQuery: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, sqlQuery, *args, **kwargs)
        except Exception as e:  # Spark's own errors, and those of py4j for a Java exception that PySpark does not know
            if not isinstance(sqlQuery, str) or not is_enabled(self):
                raise
            query = replace_catalog_tables(self, sqlQuery) if is_unknown_provider(e) else None
            refused = refused_statement(sqlQuery, e) if query is None else None
            if refused is not None:
                raise refused from None
            if query is None:
                raise
        return original(self, query, *args, **kwargs)

    return sql


__all__ = ["disable", "enable", "is_enabled", "session"]
