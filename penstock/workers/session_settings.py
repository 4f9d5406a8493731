"""Reads and changes settings of a Spark session: number of cores, Arrow batch sizes, tags of jobs, settings of storages.

Works on Spark Connect too.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
#: The value of maxBytesPerBatch that means "no limit". With it, Spark does not compute the bytes of a batch.
_UNLIMITED = 2**31 - 1
_MOST_ROWS = 16_384
_HADOOP = "spark.hadoop."
#: Beginnings of the keys that concern storages.
_STORAGE_KEYS = ("fs.", "dfs.", "google.cloud.", "hadoop.security.", "hadoop.rpc.", "penstock.storage.")
_changing_settings = threading.Lock()
_LOCAL = re.compile(r"^local(?:-cluster)?(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*,\s*\d+\s*)?\])?$")


def count_cores(conf: Any) -> int | None:
    """Return how many tasks Spark can run concurrently; None if neither `spark.default.parallelism` nor a local master is set.

    Args:
        conf: the runtime configuration of the session, `spark.conf`.
    """
    parallelism = conf.get("spark.default.parallelism", None)
    if parallelism:
        return int(parallelism)
    local_master = _LOCAL.match(conf.get("spark.master", None) or "")
    if local_master is None:
        return None
    if local_master[1] == "*":
        return os.cpu_count() or 1
    # local-cluster[workers, cores, memory] has two numbers to multiply, local[cores] one.
    return int(local_master[1] or 1) * int(local_master[2] or 1)


def read_storage_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings of a session that concern storages, by key, with secrets such as passwords unmasked.

    These are the settings of Hadoop's storages, with `spark.hadoop.` removed from their keys, and Penstock's options for
    storages. If a key is set with and without `spark.hadoop.`, the value without it wins, as in Spark
    (`spark.conf.set("fs.s3a.endpoint", …)`).

    Two kinds of setting are missing. Settings in the cluster's `core-site.xml` are known to the JVM only. A Connect server does
    not send keys, tokens and passwords: they must be in the client's environment or files, or in options.
    """
    conf = spark.conf
    prefixed: dict[str, str] = {}
    plain: dict[str, str] = {}
    for key in _list_keys(spark):
        name = key.removeprefix(_HADOOP)
        if not name.startswith(_STORAGE_KEYS):
            continue
        # One by one: Spark masks secrets in lists of settings.
        value = conf.get(key, None)
        if value is not None:
            (plain if name == key else prefixed)[name] = value
    return {**prefixed, **plain}


def _list_keys(spark: SparkSession) -> list[str]:
    """Return the keys of all settings of a session."""
    if hasattr(spark.conf, "getAll"):
        return list(spark.conf.getAll)
    # PySpark 3.5 has no list of settings in Python.
    return [row["key"] for row in spark.sql("SET").collect()]


def is_connect(spark: SparkSession) -> bool:
    """Whether `spark` is a Spark Connect session. Connect analyzes a plan only when a result is requested."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def cancel_jobs(spark: SparkSession) -> None:
    """Cancel all jobs of a session, as PySpark does at Ctrl-C.

    On a classic session all jobs of the SparkContext are cancelled, also those of other sessions.
    """
    if is_connect(spark):
        spark.interruptAll()
    else:
        _active_context().cancelAllJobs()


def _active_context() -> Any:
    """Return the SparkContext of this process. Raise RuntimeError if it was stopped."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        raise RuntimeError("the Spark session was stopped")
    return context


@contextmanager
def name_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Tag with `name` the Spark jobs that the `with` block starts. Spark's REST interface shows the tag.

    Do nothing on a classic session of PySpark 3, which has tags only on Connect.
    """
    import pyspark

    if not is_connect(spark) and int(pyspark.__version__.split(".")[0]) < 4:
        yield
        return
    tag = name.replace(",", ";")  # Spark separates tags by commas
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


@contextmanager
def tag_jobs(spark: SparkSession, tag: str) -> Iterator[None]:
    """Tag the Spark jobs that this thread starts in the `with` block, so that `cancel_tagged_jobs` can cancel them alone.

    Args:
        tag: text without commas.
    """
    if is_connect(spark):
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    # Not the tags of the session: a classic session finds them again only in the thread that added them.
    context = _active_context()
    context.addJobTag(tag)
    try:
        yield
    finally:
        context.removeJobTag(tag)


def cancel_tagged_jobs(spark: SparkSession, tag: str) -> None:
    """Cancel the running jobs that have a tag. May be called in any thread."""
    if is_connect(spark):
        spark.interruptTag(tag)
    else:
        _active_context().cancelJobsWithTag(tag)


@contextmanager
def limit_batches_by_rows(rows: DataFrame) -> Iterator[None]:
    """Within the `with` block, let Spark limit the Arrow batches that it sends to workers by rows, not by bytes.

    Spark 4.1 and later compute the bytes of a batch after each row. That doubles the cost of sending rows to the workers, and
    takes quadratic time for null lists. A limit of bytes that the user has set stays. If `rows` has a binary column, Spark's
    default limit of bytes stays too, because a binary value may have any size.

    Args:
        rows: the DataFrame whose rows are sent. The settings of its session are changed, and reset after the block.
    """
    conf = rows.sparkSession.conf
    # Two threads may share a session. The second finds the limit that the first has set, and neither sets nor unsets it.
    with _changing_settings:
        keeps_limit = not conf.isModifiable(_BATCH_BYTES) or conf.get(_BATCH_BYTES, None) or _has_binary(rows.schema)
        rows_before = conf.get(_BATCH_ROWS, None)
        if not keeps_limit:
            conf.set(_BATCH_BYTES, str(_UNLIMITED))
            conf.set(_BATCH_ROWS, str(_rows_per_batch(rows_before)))
    if keeps_limit:
        yield
        return
    try:
        yield
    finally:
        conf.unset(_BATCH_BYTES)
        if rows_before is None:
            conf.unset(_BATCH_ROWS)
        else:
            conf.set(_BATCH_ROWS, rows_before)


def _rows_per_batch(session_limit: str | None) -> int:
    """Return how many rows a batch may have: the session's limit, but at most `_MOST_ROWS`.

    Args:
        session_limit: the value of the session's setting; None if it is not set. For Spark, 0 or less means no limit.
    """
    rows = int(session_limit or 0)
    return min(rows, _MOST_ROWS) if rows > 0 else _MOST_ROWS


def _has_binary(schema: Any) -> bool:
    """Whether a Spark schema has a binary column, also inside a struct, list or map."""
    return "binary" in schema.simpleString()
