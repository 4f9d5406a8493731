"""What Penstock asks of a Spark session and sets on it: cores, batch sizes, names of jobs. Nothing that Connect lacks."""

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
#: Spark's value for "no limit of bytes". With it, Spark does not compute the bytes of a batch.
_UNLIMITED = 2**31 - 1
_MOST_ROWS = 16_384
_changing_settings = threading.Lock()
_LOCAL = re.compile(r"^local(?:-cluster)?(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*,\s*\d+\s*)?\])?$")


def count_cores(conf: Any) -> int | None:
    """Return how many tasks Spark runs at once, or None if its settings do not say."""
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


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which analyzes a plan only when a result is asked for."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def name_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Tag the Spark jobs of this block with a name, which Spark's REST interface shows. PySpark 3.5 has tags on Connect only."""
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
def limit_batches_by_rows(rows: DataFrame) -> Iterator[None]:
    """Let Spark end the batches for workers after a number of rows, not after a number of bytes.

    Spark 4.1 and later compute the bytes of a batch after each of its rows: that doubles the cost of handing rows over, and is
    quadratic where lists are null. A limit of bytes that the user has set stays. Rows with binary columns keep the limit of
    bytes too, because a binary value may have any size.
    """
    conf = rows.sparkSession.conf
    # Of two threads with one session the second finds the first one's limit, and leaves setting and unsetting to the first.
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
    """Return the session's limit, but at most `_MOST_ROWS`. To Spark 0 and less mean no limit."""
    rows = int(session_limit or 0)
    return min(rows, _MOST_ROWS) if rows > 0 else _MOST_ROWS


def _has_binary(schema: Any) -> bool:
    return "binary" in schema.simpleString()
