"""Runs kernels: in Spark's Python workers, or here on the driver when the batch is small.

What travels to a worker is a module-level function and frozen dataclasses. What comes back is text: a result, or an
error of ours, so that a user sees the error and not a worker's traceback (and a task that cannot succeed is not retried).
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from penstock import errors
from penstock.error_text import typed_error
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

#: A kernel over one task's rows. It yields JSON-able results.
RowKernel = Callable[[Iterator[pa.RecordBatch]], Iterable[Any]]

RESULT_SCHEMA = "result string"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
#: Spark's word for no limit of bytes; it then does not ask for them.
_UNLIMITED = 2**31 - 1
_MOST_ROWS = 16_384
_DRIVER_THREADS = 4
_settling = threading.Lock()
_PARTS_PER_CORE = 4
_LOCAL = re.compile(r"^local(?:-cluster)?(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*,\s*\d+\s*)?\])?$")


@dataclass(frozen=True)
class TaskIdentity:
    """Which task this is, for sequence numbers and write tokens."""

    number: int
    write_token: str


_local = threading.local()


def this_task() -> TaskIdentity:
    """The Spark task that runs us, or the numbered piece of driver work."""
    identity: TaskIdentity | None = getattr(_local, "identity", None)
    if identity is not None:
        return identity
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return TaskIdentity(0, "0-0-0")
    number = context.partitionId()
    return TaskIdentity(number, f"{number}-{context.stageId()}-{context.taskAttemptId()}")


def run_over_rows(rows: DataFrame, kernel: RowKernel) -> list[Any]:
    """Run a kernel once per partition of `rows`; gives all results. One Spark job, each row crosses once."""
    with _batches_by_rows(rows):
        return _collect(rows.mapInArrow(partial(_over_rows, kernel), RESULT_SCHEMA))


@contextmanager
def _batches_by_rows(rows: DataFrame) -> Iterator[None]:
    """Batches for the workers end after so many rows, not after so many bytes.

    Spark 4.1 and later ask for the bytes of a batch after each of its rows: that doubles the cost of handing over, and is
    quadratic where lists are null. Who has set the limit of bytes keeps it; rows with binary columns, of any size, keep it too.
    """
    conf = rows.sparkSession.conf
    with _settling:  # of two threads with one session the second finds a limit, and leaves it to the first
        is_given = not conf.isModifiable(_BATCH_BYTES) or conf.get(_BATCH_BYTES, None) or _has_binary(rows.schema)
        before = conf.get(_BATCH_ROWS, None)
        if not is_given:
            conf.set(_BATCH_BYTES, str(_UNLIMITED))
            conf.set(_BATCH_ROWS, str(_rows_per_batch(before)))
    if is_given:
        yield
        return
    try:
        yield
    finally:
        conf.unset(_BATCH_BYTES)
        conf.unset(_BATCH_ROWS) if before is None else conf.set(_BATCH_ROWS, before)


def _rows_per_batch(given: str | None) -> int:
    """What the session says, but never so many that a batch of usual rows gets large; 0 and less are no limit to Spark."""
    rows = int(given or 0)
    return min(rows, _MOST_ROWS) if rows > 0 else _MOST_ROWS


def _has_binary(schema: Any) -> bool:
    return "binary" in schema.simpleString()


def run_tasks(spark: SparkSession, kernel: Callable[[T], Any], tasks: Sequence[T], *, here: bool = False) -> list[Any]:
    """Run a kernel once per task description; gives the results in order."""
    if not tasks:
        return []
    if here:
        return _on_driver(kernel, tasks)
    parts = _parts(spark, len(tasks))
    frame = spark.range(0, parts, 1, parts).mapInArrow(partial(_over_tasks, kernel, tasks, parts), RESULT_SCHEMA)
    found: list[tuple[int, Any]] = _collect(frame)
    return [result for _, result in sorted(found, key=lambda pair: pair[0])]


@contextmanager
def named_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Spark's jobs in this block carry a tag, which its REST interface shows. PySpark 3.5 has tags on Connect only."""
    import pyspark

    if not is_connect(spark) and int(pyspark.__version__.split(".")[0]) < 4:
        yield
        return
    tag = name.replace(",", ";")  # a comma stands between tags
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which looks at a plan only when it is asked for something."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _parts(spark: SparkSession, tasks: int) -> int:
    """How many Spark tasks share the work: starting one costs as much as some of the work itself, and a few per core balance."""
    at_once = cores(spark.conf)
    return min(tasks, _PARTS_PER_CORE * at_once) if at_once else tasks


def cores(conf: Any) -> int | None:
    """How many tasks Spark runs side by side, where its settings say so."""
    if given := conf.get("spark.default.parallelism", None):
        return int(given)
    local = _LOCAL.match(conf.get("spark.master", None) or "")
    if local is None:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1) * int(local[2] or 1)


def run_here(kernel: Callable[[T], Any], tasks: Sequence[T]) -> list[Any]:
    """Run a kernel once per task on threads of this process; gives the results in order."""
    return _on_driver(kernel, tasks)


def _on_driver(kernel: Callable[[T], Any], tasks: Sequence[T]) -> list[Any]:
    def run(numbered: tuple[int, T]) -> Any:
        number, task = numbered
        _local.identity = TaskIdentity(number, f"{number}-0-0")
        try:
            return kernel(task)
        finally:
            _local.identity = None

    if len(tasks) <= 1:
        return [run(one) for one in enumerate(tasks)]
    with ThreadPoolExecutor(_DRIVER_THREADS) as pool:
        return list(pool.map(run, enumerate(tasks)))


def _over_rows(kernel: RowKernel, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _answers(lambda: kernel(batches))


def _over_tasks(
    kernel: Callable[[T], Any], tasks: Sequence[T], parts: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    spark_task = this_task()
    for batch in batches:
        for part in batch.column(0).to_pylist():  # numbers of parts, not records
            for number in range(part, len(tasks), parts):
                yield _answers(partial(_numbered, kernel, tasks[number], number, spark_task))


def _numbered(kernel: Callable[[T], Any], task: T, number: int, spark_task: TaskIdentity) -> list[Any]:
    """One task's result. It goes by its own number, whichever Spark task runs it."""
    _local.identity = TaskIdentity(number, f"{number}-{spark_task.write_token.partition('-')[2]}")
    try:
        return [[number, kernel(task)]]
    finally:
        _local.identity = None


def _answers(work: Callable[[], Iterable[Any]]) -> pa.RecordBatch:
    try:
        texts = [json.dumps({"ok": result}) for result in work()]
    except PenstockError as e:
        texts = [json.dumps({"error": type(e).__name__, "message": str(e)})]
    return pa.record_batch([pa.array(texts, pa.string())], names=["result"])


def _collect(frame: DataFrame) -> list[Any]:
    results = []
    for row in _rows(frame):
        answer = json.loads(row[0])
        if "error" in answer:
            raise _error(answer["error"], answer["message"])
        results.append(answer["ok"])
    return results


def _rows(frame: DataFrame) -> list[Any]:
    """One small text per task; an error that a row caused inside a Spark expression comes out typed."""
    try:
        return frame.collect()
    except Exception as e:  # PySpark 3.5 hands on an error of py4j here, newer ones have their own
        typed = typed_error(str(e))
        if typed is None:
            raise
        raise typed from e


def _error(name: str, message: str) -> PenstockError:
    kind = getattr(errors, name, PenstockError)
    error: PenstockError = kind(message)
    return error
