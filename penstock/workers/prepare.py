"""Prepares Spark's Python workers for kernels: they run a Python that can import Penstock.

On a local master the workers run the driver's Python, unless the user has chosen another one. On a cluster, over Spark Connect,
and with a chosen Python, one small Spark job per session asks a worker whether it can import Penstock. If it cannot, the package
is sent to all executors as a zip. Every function that runs a kernel in Spark calls `prepare_workers` before it builds its
DataFrame, because Spark decides at that moment which Python runs the kernel and which files it can import.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import clock
from penstock.errors import ExecutorError
from penstock.package_zip import PACKAGE, package_version, zip_package
from penstock.storage import LocalStorage, join, temporary_folder
from penstock.workers.session_settings import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHOSEN_PYTHON = "spark.pyspark.python"
_READY = "penstock.workers.ready"
_NEEDS = "They need the driver's Python {python}, pyarrow and numpy"
_CHOOSE = "set PYSPARK_PYTHON, or spark.pyspark.python for spark-submit, to a Python on every executor that has them"

_prepared: weakref.WeakSet[Any] = weakref.WeakSet()
_preparing = threading.Lock()


def prepare_workers(spark: SparkSession) -> None:
    """Make sure that the Python workers of a session can import Penstock. Only the first call for a session does anything.

    If a worker finds no Penstock, or another version, the package is sent to all executors.

    Raises:
        ExecutorError: the workers cannot run Penstock, for example because their Python has no pyarrow.
    """
    if spark in _prepared:
        return
    with _preparing:
        if not _use_same_python(spark) and not _is_marked_ready(spark):
            _send_if_missing(spark)
            spark.conf.set(_READY, "true")
        _prepared.add(spark)


def use_driver_python(spark: SparkSession) -> None:
    """Let the workers of a classic session on a local master run the driver's Python, unless the user has chosen another one.

    Without this call Spark starts the `python3` of the PATH, which is another Python if the driver's environment is not
    activated. Spark obeys the setting `spark.pyspark.python` only if `spark-submit` starts the program; this function always
    obeys it.
    """
    context = _find_context(spark)
    if context is None or not context.master.startswith("local") or os.environ.get("PYSPARK_PYTHON"):
        return
    context.pythonExec = spark.conf.get(_CHOSEN_PYTHON, None) or sys.executable


@dataclass(frozen=True)
class _Answer:
    """What `_ask_worker` found out about the Python of a worker."""

    #: The path of the worker's Python.
    python: str
    #: The version of Penstock that the worker finds: None if it finds none, "0" if the version is unknown.
    version: str | None
    #: Why the worker cannot import Penstock's kernels; None if it can, or finds no Penstock.
    error: str | None

    @property
    def is_ready(self) -> bool:
        """Whether the worker can import Penstock in the version that the driver has."""
        return self.error is None and self.version is not None and self.version in ("0", package_version())


def _use_same_python(spark: SparkSession) -> bool:
    """Call `use_driver_python`; return whether all workers run on this machine with the driver's Python, and so with Penstock."""
    use_driver_python(spark)
    context = _find_context(spark)
    if context is None:
        return False
    # The executors of a local-cluster are processes of their own: they may have another path of packages.
    is_local = context.master.startswith("local") and not context.master.startswith("local-cluster")
    return bool(is_local and context.pythonExec == sys.executable)


def _find_context(spark: SparkSession) -> Any:
    """Return the SparkContext of a classic session; None for Spark Connect, which has none."""
    if is_connect(spark):
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def _is_marked_ready(spark: SparkSession) -> bool:
    """Whether the workers were prepared for this session already, according to a setting of the session.

    The setting is needed besides `_prepared`, which lists Python objects of prepared sessions: several objects may stand for
    one session.
    """
    return bool(spark.conf.get(_READY, "false") == "true")


def _send_if_missing(spark: SparkSession) -> None:
    """Ask a worker whether it can import Penstock, and send the package if it finds no Penstock or another version.

    Raises:
        ExecutorError: the worker cannot import Penstock, also after the package was sent.
    """
    answer = _ask_worker(spark)
    if answer.is_ready:
        return
    if answer.error is None:
        _send_package(spark)
        answer = _ask_worker(spark)
    if not answer.is_ready:
        found = answer.error or f"they find version {answer.version} of Penstock"
        raise _not_ready(f"{found} (in {answer.python})")


def _ask_worker(spark: SparkSession) -> _Answer:
    """Run one Spark task that looks for Penstock in its Python, and return what it finds.

    Raises:
        ExecutorError: the worker does not start, or has no pyarrow.
    """
    frame = spark.range(0, 1, 1, 1).mapInArrow(_make_question(PACKAGE, package_version()), "result string")
    try:
        return _Answer(**json.loads(frame.collect()[0][0]))
    except Exception as e:  # py4j's, PySpark's or Connect's
        reason = _find_reason(str(e))
        if reason is None:
            raise
        raise _not_ready(reason) from None  # Spark's own error is a page of Java around the same reason


def _make_question(package: str, wanted: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that `_ask_worker` runs in a worker: it looks for Penstock and reports what it finds.

    The function is nested, because nested functions are pickled by value. So a worker without Penstock can run it.

    Args:
        package: the name of the package to look for.
        wanted: the driver's version of the package. A worker that finds another version does not import it: its process could not
            import the driver's version afterwards.
    """

    def answer(batches: Iterator[Any]) -> Iterator[Any]:
        import importlib.metadata
        import importlib.util
        import json
        import sys

        import pyarrow as pa

        importlib.invalidate_caches()
        version = error = None
        if importlib.util.find_spec(package) is not None:
            try:
                version = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                version = "0"
            if version in ("0", wanted):
                try:
                    import penstock.workers.run_kernels  # noqa: F401
                except Exception as e:
                    error = type(e).__name__ + ": " + str(e)
        text = json.dumps({"python": sys.executable, "version": version, "error": error})
        for _ in batches:
            yield pa.record_batch([pa.array([text])], names=["result"])

    return answer


#: What Spark's text says if a worker does not start, or starts and has no pyarrow.
_REASONS = (
    re.compile(r"Python in worker has different version[^\n]*?(?=, PySpark cannot|\n|$)"),
    re.compile(r"ModuleNotFoundError: No module named '[\w.]+'"),
    re.compile(r"Cannot run program \"[^\n]*"),
    re.compile(r"\w+ (?:occurred while reading the port number from|data in) pyspark\.daemon's [^\n.]*"),
    re.compile(r"PyArrow >= [^\n]* must be installed[^\n]*"),
)


def _find_reason(message: str) -> str | None:
    """Return the part of Spark's error message that says why a worker cannot run; None if the message has another cause."""
    for pattern in _REASONS:
        if found := pattern.search(message):
            return found.group(0)
    return None


def _not_ready(reason: str) -> ExecutorError:
    """Return the error for workers that cannot run Penstock."""
    needs = _NEEDS.format(python=f"{sys.version_info.major}.{sys.version_info.minor}")
    return ExecutorError(f"Spark's Python workers cannot run Penstock: {reason}. {needs}: {_CHOOSE}")


def _send_package(spark: SparkSession) -> None:
    """Send the package to all executors of a session as a zip.

    The zip file is deleted when this process ends, not earlier, because executors that start later load it too.
    """
    content = zip_package()
    folder = join(temporary_folder(), f"penstock-{clock.new_uuid()}")
    # The name is unlike that of a zip that the user has sent: Spark refuses a second file of the same name.
    path = join(folder, f"penstock_{package_version().replace('.', '_')}_{zlib.crc32(content):08x}.zip")
    storage = LocalStorage()
    storage.replace(path, content)
    atexit.register(storage.delete_tree, folder)
    context = _find_context(spark)
    if context is None:
        spark.addArtifacts(path, pyfile=True)
    else:
        context.addPyFile(path)
