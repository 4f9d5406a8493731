"""Runs kernels in Spark's Python workers, or on threads of the driver.

A kernel is a module-level function. Its argument is a task description (a frozen dataclass), or the batches of rows of one Spark
task. Kernels and task descriptions are pickled to the workers. `results.py` sends the results back. Code outside this folder
uses `Runner` for task descriptions and `run_over_rows` for rows. Inside a kernel, `this_task` returns the number and write token
of the running task.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from penstock.error_text import typed_error
from penstock.workers.part_scope import Part, enter_part
from penstock.workers.prepare import prepare_workers
from penstock.workers.results import decode_result, encode_results, from_json
from penstock.workers.session_settings import count_cores, limit_batches_by_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")

#: A kernel that is called once per Spark task with that task's batches of rows. All its results have one type.
RowKernel = Callable[[Iterator[pa.RecordBatch]], Iterable[Result]]

RESULT_SCHEMA = "result string"
_DRIVER_THREADS = 4
#: The same for tasks that mostly wait for an object store.
_WAITING_THREADS = 12
#: If more tasks than this run on the driver, their files are synced together.
_MOST_SYNCS_ON_DRIVER = 32
#: Spark tasks per core. More tasks cost more time to start; with fewer, a slow task leaves the other cores idle.
_PARTS_PER_CORE = 4


@dataclass(frozen=True)
class TaskIdentity:
    """The number and write token of a running task.

    Rows contain the number in `_hoodie_commit_seqno`, and file names contain the write token.
    """

    number: int
    write_token: str


_local = threading.local()


def this_task() -> TaskIdentity:
    """Return the number and write token of the task that calls this function, in a Spark worker or on a thread of the driver.

    Outside a task, return number 0 and write token `0-0-0`.
    """
    identity: TaskIdentity | None = getattr(_local, "identity", None)
    if identity is not None:
        return identity
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return TaskIdentity(0, "0-0-0")
    number = context.partitionId()
    return TaskIdentity(number, f"{number}-{context.stageId()}-{context.taskAttemptId()}")


def run_over_rows(rows: DataFrame, kernel: RowKernel[Result], returns: type[Result]) -> list[Result]:
    """Run a kernel once per Spark partition of `rows`, in one Spark job; return the results of all partitions in one list.

    Each row is sent from the JVM to Python once.

    Args:
        kernel: a function that is called with the Arrow batches of one Spark partition and returns its results.
        returns: the type of each result.
    """
    prepare_workers(rows.sparkSession)
    with limit_batches_by_rows(rows):
        texts = _collect_texts(rows.mapInArrow(partial(_run_over_batches, kernel), RESULT_SCHEMA))
    return [decode_result(text, returns) for text in texts]


def run_in_spark(
    spark: SparkSession, kernel: Callable[[Task], Result], tasks: Sequence[Task], returns: type[Result]
) -> list[Result]:
    """Run a kernel once per task description, in one Spark job; return the results in the order of `tasks`.

    Args:
        kernel: a module-level function that is called with one task description.
        tasks: the task descriptions. Fewer Spark tasks may be started, each for several descriptions.
        returns: the type of each result.
    """
    prepare_workers(spark)
    parts = _parts(spark, len(tasks))
    pickled = _pickle_parts(tasks, parts)
    frame = spark.range(0, parts, 1, parts).mapInArrow(partial(_run_parts, kernel, pickled), RESULT_SCHEMA)
    numbered = [decode_result(text, _Numbered) for text in _collect_texts(frame)]
    numbered.sort(key=lambda result: result.number)
    return [from_json(result.value, returns) for result in numbered]


def run_on_driver(kernel: Callable[[Task], Result], tasks: Sequence[Task], *, waits: bool = False) -> list[Result]:
    """Run a kernel once per task description, on threads of this process; return the results in the order of `tasks`.

    Args:
        waits: whether the tasks mostly wait for an object store, so that more of them run at the same time.
    """
    # Few tasks sync their own files: that is parallel.
    part = Part() if len(tasks) > _MOST_SYNCS_ON_DRIVER else None

    def run_numbered(number: int, task: Task) -> Result:
        """Run the kernel for one task description, with `number` as task number."""
        _local.identity = TaskIdentity(number, f"{number}-0-0")
        try:
            with enter_part(part):
                return kernel(task)
        finally:
            _local.identity = None

    if len(tasks) <= 1:
        return [run_numbered(number, task) for number, task in enumerate(tasks)]
    with ThreadPoolExecutor(_WAITING_THREADS if waits else _DRIVER_THREADS) as pool:
        results = list(pool.map(run_numbered, range(len(tasks)), tasks))
    if part is not None:
        part.sync()
    return results


def _parts(spark: SparkSession, tasks: int) -> int:
    """Return how many Spark tasks to start for `tasks` task descriptions: four per core, but not more than `tasks`.

    If the number of cores is unknown, return `tasks`.
    """
    cores = count_cores(spark.conf)
    return min(tasks, _PARTS_PER_CORE * cores) if cores else tasks


@dataclass(frozen=True)
class _Numbered:
    """The result of one task description, with the number of that description.

    Spark returns results in any order; the driver sorts them by this number.
    """

    number: int
    value: Any


def _run_over_batches(kernel: RowKernel[Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a kernel over the rows of one Spark partition, in a worker; yield one batch with the kernel's results as JSON."""
    yield _as_batch(encode_results(partial(kernel, batches)))


def _pickle_parts(tasks: Sequence[Any], parts: int) -> list[bytes]:
    """Divide the task descriptions into parts, one for each Spark task; return each part pickled.

    Part p has the descriptions p, p + `parts`, p + 2 * `parts` … Spark sends all parts to every Spark task, which unpickles
    only its own.
    """
    from pyspark import cloudpickle  # as Spark itself pickles functions

    pickler: Any = cloudpickle
    numbers = (range(part, len(tasks), parts) for part in range(parts))
    return [pickler.dumps([(number, tasks[number]) for number in of_part]) for of_part in numbers]


def _run_parts(
    kernel: Callable[[Task], Any], pickled_parts: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run the kernel for the task descriptions of one Spark task, in a worker; yield one batch of encoded results per part.

    Args:
        pickled_parts: the task descriptions of the whole job, divided into parts, as `_pickle_parts` returns them.
        batches: the input of the Spark task. Column 0 holds the numbers of the parts to run.
    """
    spark_task = this_task()
    for batch in batches:
        for part_number in batch.column(0).to_pylist():
            texts: list[str] = []
            part = Part(shared={})
            with enter_part(part):
                for number, task in pickle.loads(pickled_parts[part_number]):
                    texts += encode_results(partial(_run_numbered, kernel, task, number, spark_task))
            yield _as_batch(texts + encode_results(partial(_sync_part, part)))


def _sync_part(part: Part) -> list[_Numbered]:
    """Sync the files of all task descriptions of a part (those that one Spark task runs in turn). Return an empty list.

    The caller runs this function as it runs a kernel, so that an error of the sync is sent to the driver.
    """
    part.sync()
    return []


def _run_numbered(kernel: Callable[[Task], Any], task: Task, number: int, spark_task: TaskIdentity) -> list[_Numbered]:
    """Run the kernel for one task description, in a Spark worker. Return a list with one item: its numbered result.

    One Spark task runs several descriptions, each under its own task number. So `this_task`, called by the kernel, returns
    `number` instead of the number of the Spark task, and a write token that begins with `number`.

    Args:
        number: the position of the task description among all descriptions of the job.
        spark_task: the number and write token of the Spark task. Its stage id and attempt id become part of the new write token.
    """
    _local.identity = TaskIdentity(number, f"{number}-{spark_task.write_token.partition('-')[2]}")
    try:
        return [_Numbered(number, kernel(task))]
    finally:
        _local.identity = None


def _as_batch(texts: list[str]) -> pa.RecordBatch:
    """Return a record batch with these JSON strings in the column `result`."""
    return pa.record_batch([pa.array(texts, pa.string())], names=["result"])


def _collect_texts(frame: DataFrame) -> list[str]:
    """Run the Spark job of `frame`; return the JSON strings in its only column.

    If a Spark expression of `frame` raised a `PenstockError` for a row, raise that error instead of Spark's exception.
    """
    try:
        return [row[0] for row in frame.collect()]
    except Exception as e:  # PySpark 3.5 raises an error of py4j, newer versions their own
        typed = typed_error(str(e))
        if typed is None:
            raise
        raise typed from e
