"""`enable`, `disable` and `session`: add Penstock to a Spark session, and remove it.

`enable` replaces `SparkSession.read` and `DataFrame.write` by properties that return Penstock's readers and writers. This patches
the classes, for all sessions. A flag on each session decides whether its readers and writers call Penstock.
"""

from __future__ import annotations

import os
import sys
import weakref
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from penstock.options import forget_shown_warnings
from penstock.spark.compat import frame_classes, session_classes
from penstock.spark.datasource import HudiReader, HudiWriter, wrap_spark_object
from penstock.spark.hudi_settings import settle_hudi_settings

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
    A second call has no effect. `disable` undoes it.

    Example:
        >>> import penstock
        >>> spark = penstock.enable(spark)  # doctest: +SKIP
    """
    settle_hudi_settings(spark)
    for kind in session_classes():
        _patch(kind, "read", _read)
    for kind in frame_classes():
        _patch(kind, "write", _write)
    if not is_enabled(spark):
        forget_shown_warnings()
    spark.conf.set(_FLAG, "true")
    _ENABLED.add(spark)
    return spark


def disable(spark: SparkSession) -> None:
    """Remove `format("hudi")` from a session: Penstock no longer handles its reads and writes."""
    _ENABLED.discard(spark)
    with suppress(Exception):  # a stopped session raises, and the type of the error depends on the Spark release
        spark.conf.unset(_FLAG)
    if not _ENABLED:
        for kind in session_classes():
            _restore(kind, "read")
        for kind in frame_classes():
            _restore(kind, "write")


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


def is_enabled(spark: Any) -> bool:
    """Whether Penstock is enabled on a session.

    Several Python objects may stand for one session, so the flag is also kept in the session's own configuration.
    """
    return spark in _ENABLED or spark.conf.get(_FLAG, "false") == "true"


def _patch(kind: type, name: str, replacement: Any) -> None:
    """Replace the property `name` of a class by Penstock's, unless it is replaced already.

    Args:
        replacement: a function that is called with Spark's property and returns the getter of the new one.
    """
    current = kind.__dict__.get(name)
    if current is None or hasattr(getattr(current, "fget", None), _ORIGINAL):
        return
    taken = replacement(current)
    setattr(taken, _ORIGINAL, current)
    setattr(kind, name, property(taken, doc=current.__doc__))


def _restore(kind: type, name: str) -> None:
    """Put Spark's own property `name` back on a class, if Penstock has replaced it."""
    current = kind.__dict__.get(name)
    original = getattr(getattr(current, "fget", None), _ORIGINAL, None)
    if original is not None:
        setattr(kind, name, original)


def _read(original: Any) -> Any:
    """Return the getter for `SparkSession.read` that wraps Spark's reader. `original` is Spark's own property."""

    def read(self: Any) -> Any:
        reader = original.__get__(self, type(self))
        notes = {"format": None, "options": {}, "schema": None, "session": self, "enabled": is_enabled}
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


__all__ = ["disable", "enable", "is_enabled", "session"]
