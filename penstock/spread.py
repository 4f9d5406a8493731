"""Runs kernels: in Spark's Python workers, or here on the driver when the batch is small.

What travels to a worker is a module-level function and frozen dataclasses. What comes back is text: a result, or an
error of ours, so that a user sees the error and not a worker's traceback (and a task that cannot succeed is not retried).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from penstock import errors
from penstock.errors import PenstockError
from penstock.keys.failures import typed_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

#: A kernel over one task's rows. It yields JSON-able results.
RowKernel = Callable[[Iterator[pa.RecordBatch]], Iterable[Any]]

RESULT_SCHEMA = "result string"
_DRIVER_THREADS = 4


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
    return _collect(rows.mapInArrow(partial(_over_rows, kernel), RESULT_SCHEMA))


def run_tasks(spark: SparkSession, kernel: Callable[[T], Any], tasks: Sequence[T], *, here: bool = False) -> list[Any]:
    """Run a kernel once per task description; gives the results in order."""
    if not tasks:
        return []
    if here:
        return _on_driver(kernel, tasks)
    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(partial(_over_tasks, kernel, tasks), RESULT_SCHEMA)
    found: list[tuple[int, Any]] = _collect(frame)
    return [result for _, result in sorted(found, key=lambda pair: pair[0])]


def _on_driver(kernel: Callable[[T], Any], tasks: Sequence[T]) -> list[Any]:
    def run(numbered: tuple[int, T]) -> Any:
        number, task = numbered
        _local.identity = TaskIdentity(number, f"{number}-0-0")
        try:
            return kernel(task)
        finally:
            _local.identity = None

    if len(tasks) == 1:
        return [run((0, tasks[0]))]
    with ThreadPoolExecutor(_DRIVER_THREADS) as pool:
        return list(pool.map(run, enumerate(tasks)))


def _over_rows(kernel: RowKernel, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _answers(lambda: kernel(batches))


def _over_tasks(kernel: Callable[[T], Any], tasks: Sequence[T], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():  # task numbers, not records
            yield _answers(partial(_numbered, kernel, tasks, number))


def _numbered(kernel: Callable[[T], Any], tasks: Sequence[T], number: int) -> list[Any]:
    return [[number, kernel(tasks[number])]]


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
