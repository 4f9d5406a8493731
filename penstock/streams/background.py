"""Table services in the background of a stream: compaction, clustering, cleaning and archiving, as the options say.

After its commit a batch only stores a plan, if one is due. A thread of the process that writes the batches runs stored plans, so
that no batch waits for them. The thread begins with what an earlier run of the stream left, and ends with the stream. The run of
a plan that is under way at that moment is finished; if the process ends before, the next run of the stream, or any other run of
the service, resumes the plan.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from penstock import options as o
from penstock.commit.open_finished import open_finished
from penstock.door.async_services import is_asynchronous
from penstock.door.follow_ups import describe_error
from penstock.door.services import make_stages
from penstock.errors import TableNotFound, WriteConflict
from penstock.options import Options
from penstock.progress import Stages
from penstock.services.archive.service import ARCHIVE
from penstock.services.clean.service import CLEAN
from penstock.services.clustering.service import CLUSTERING
from penstock.services.compaction.service import COMPACTION
from penstock.services.planned import PlannedService, describe_runs, run_pending
from penstock.services.table_service import TableService
from penstock.table.state import TableState
from penstock.user_warning import warn_user

#: How often the thread looks whether the stream has ended, if no batch wakes it.
_LOOK_EVERY_S = 0.5
_ALLOW_UPDATES = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"


def compacts_in_background(options: Options) -> bool:
    """Whether a stream compacts in the background, as `hoodie.datasource.compaction.async.enable` says.

    It does not if `hoodie.compact.inline` or `hoodie.datasource.write.streaming.disable.compaction` is true.
    """
    is_inline = options.is_set(o.COMPACT_INLINE) and options[o.COMPACT_INLINE]
    return options[o.COMPACTION_ASYNC] and not is_inline and not options[o.STREAMING_DISABLE_COMPACTION]


def clusters_in_background(options: Options) -> bool:
    """Whether a stream clusters in the background.

    True if `hoodie.clustering.async.enabled` is true and `hoodie.clustering.inline` is false.
    """
    return options[o.CLUSTERING_ASYNC] and not options[o.CLUSTERING_INLINE]


def batch_options(options: Options) -> Options:
    """Return the options with which a stream writes a batch. Services that run in the background do not also run after the batch.

    Plans of compactions and clusterings are made after each batch all the same, because no write is under way then. The
    background thread runs them.
    """
    more: dict[str, str | None] = {}
    if compacts_in_background(options):
        more |= {o.COMPACT_INLINE.key: "false", o.COMPACT_SCHEDULE_INLINE.key: "true"}
    elif options[o.STREAMING_DISABLE_COMPACTION]:
        more |= {o.COMPACT_INLINE.key: "false", o.COMPACT_SCHEDULE_INLINE.key: "false"}
    if clusters_in_background(options):
        more[o.CLUSTERING_SCHEDULE_INLINE.key] = "true"
        if not options.is_set(o.CLUSTERING_UPDATES_STRATEGY):
            more[o.CLUSTERING_UPDATES_STRATEGY.key] = _ALLOW_UPDATES  # a batch must not wait for the clustering
    if is_asynchronous(CLEAN, options):
        more[o.CLEAN_AUTOMATIC.key] = "false"
    if is_asynchronous(ARCHIVE, options):
        more[o.ARCHIVE_AUTOMATIC.key] = "false"
    return options.replace(more)


class BackgroundServices:
    """The thread that runs the table services of one stream.

    Args:
        spark: the session whose jobs the services start.
        path: the path of the table, which need not exist yet.
        options: the options of the stream.
        is_active: returns whether the stream runs. When it returns False, the thread ends.
    """

    def __init__(self, spark: Any, path: str, options: Options, is_active: Callable[[], bool]) -> None:
        self._spark = spark
        self._path = path
        self._options = options
        self._is_active = is_active
        self._work = threading.Event()
        self._work.set()  # an earlier run of the stream may have left plans
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"services of {path}")

    def start(self) -> None:
        """Start the thread, unless the options let no service run in the background."""
        if self._options[o.TABLE_SERVICES_ENABLED] and self._list_services():
            self._thread.start()

    def wake(self) -> None:
        """Wake the thread after a batch was committed, so that it runs the services that are due."""
        self._work.set()

    def wait(self, timeout_s: float) -> None:
        """Wait until the thread has ended, but not longer than `timeout_s` seconds."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _list_services(self) -> list[TableService]:
        """Return the services that the options let run in the background, in the order in which they run."""
        chosen: list[TableService] = []
        if is_asynchronous(CLEAN, self._options):
            chosen.append(CLEAN)
        if is_asynchronous(ARCHIVE, self._options):
            chosen.append(ARCHIVE)
        if compacts_in_background(self._options):
            chosen.append(COMPACTION)
        if clusters_in_background(self._options):
            chosen.append(CLUSTERING)
        return chosen

    def _run(self) -> None:
        """Run the services after each call of `wake`, until the stream ends. Runs in the thread."""
        while self._is_running():
            if not self._work.wait(_LOOK_EVERY_S):
                continue
            self._work.clear()
            for service in self._list_services():
                if not self._is_running():
                    return
                self._run_service(service)

    def _is_running(self) -> bool:
        """Whether the stream runs. False also if the Spark session cannot be reached, for example because it was stopped."""
        try:
            return self._is_active()
        except Exception:  # the JVM has ended, or the connection to it
            return False

    def _run_service(self, service: TableService) -> None:
        """Run one service. A failure is a warning: the service runs again after the next batch."""
        try:
            table = open_finished(self._path, self._options)
            if service is COMPACTION and not table.is_merge_on_read:
                return
            with make_stages(service.title, table, self._spark) as stages:
                self._run_stored(service, table, stages)
        except TableNotFound:
            return  # the first batch creates it
        except WriteConflict:
            return  # a batch withdrew the plan, or another process runs it
        except Exception as e:  # of Penstock, of Spark, or of a storage
            if self._is_running():
                warn_user(f"{service.failure_noun} failed in the background of the stream to {self._path}: {describe_error(e)}")

    def _run_stored(self, service: TableService, table: TableState, stages: Stages) -> str | None:
        """Run the stored plans of compaction or clustering; for cleaning and archiving, do what is due.

        Return what was done, in words; None if nothing was done.
        """
        if isinstance(service, PlannedService):
            return describe_runs(run_pending(self._spark, table, service, stages))
        return service.run_due(self._spark, table, stages)
