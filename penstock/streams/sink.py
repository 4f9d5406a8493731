"""Writes the batches of a stream to a table, each exactly once.

    batch → is it committed already? → write (`door/write.py`) → commit with the number of the batch → table services

Spark calls `StreamSink` with each batch, as a function of `foreachBatch`: on a classic session in the program itself, over Spark
Connect in a Python process of the server. Spark repeats a batch if the program died before Spark noted its end. The number of the
batch is in the commit, so the table itself says whether the batch is written. The check belongs to the write: it is made on the
timeline on which the write begins, and with several writers again in the transaction that publishes the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock import clock
from penstock import options as o
from penstock.commit.overlap import ConcurrentCommit
from penstock.door.follow_ups import describe_error
from penstock.door.write import write
from penstock.errors import OptionError, PenstockError
from penstock.options import Options
from penstock.options.storage import STORAGE_OPTIONS
from penstock.storage import open_storage
from penstock.streams.background import BackgroundServices, batch_options
from penstock.streams.carried import CarriedFunctions
from penstock.streams.given_up import GivenUpBatch, record_given_up
from penstock.streams.last_batch import StreamBatch, find_last_batch, read_batch
from penstock.user_warning import warn_user
from penstock.write.context import CommitAddition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class _BatchIsCommitted(Exception):
    """Ends a write whose batch is committed already. Raised by checks of the sink that run inside the write."""


@dataclass(frozen=True)
class StreamSink:
    """The function of `foreachBatch` that writes the batches of one stream to a table. Pickled to a Connect server."""

    #: Tells this start of the stream from others, in the process that writes the batches.
    run_id: str
    path: str
    options: Options
    #: Spark's save mode for each batch.
    mode: str
    identifier: str
    #: The folder and the id of the Spark checkpoint.
    checkpoint_location: str
    checkpoint_id: str
    #: Functions of the user that a process of a Connect server does not have.
    carried: CarriedFunctions = field(default_factory=CarriedFunctions)

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a batch. Return when the batch is committed, or was committed by an earlier call.

        Return also if all attempts failed and `hoodie.datasource.write.streaming.ignore.failed.batch` is true: the batch is
        given up.

        Raises:
            PenstockError: all attempts failed, and the option is false. Spark ends the query with this error.
        """
        run = find_run(self, batch.sparkSession)
        try:
            self._write_with_retries(run, batch, number)
        except Exception as e:
            if not self.options[o.STREAMING_IGNORE_FAILED_BATCH] or not run.is_active():
                raise
            self._give_up(number, e)
        run.services.wake()

    def _write_with_retries(self, run: StreamRun, batch: DataFrame, number: int) -> None:
        """Write a batch. After a failure try again, up to `hoodie.datasource.write.streaming.retry.count` attempts.

        The pauses begin with `hoodie.datasource.write.streaming.retry.interval.ms` and double each time.
        """
        attempts = self.options[o.STREAMING_RETRY_COUNT]
        pause_s = self.options[o.STREAMING_RETRY_INTERVAL_MS] / 1000
        for attempt in range(1, attempts + 1):
            try:
                self._write_once(batch, number)
                return
            except OptionError:
                raise  # the same call fails again
            except Exception as e:
                if attempt == attempts or not run.is_active():
                    raise
                warn_user(
                    f"batch {number} of the stream to {self.path} failed: {describe_error(e)}. Attempt {attempt + 1} of "
                    f"{attempts} follows in {pause_s:g} s"
                )
            clock.sleep_s(pause_s)
            pause_s *= 2

    def _write_once(self, batch: DataFrame, number: int) -> None:
        """Try once to write a batch. If the batch is committed already, return without writing it."""
        stored = StreamBatch(self.identifier, number, self.checkpoint_id)
        addition = CommitAddition(
            stored.encode(),
            check_table=lambda table: self._check_new(stored, find_last_batch(table, self.identifier)),
            check_commits=lambda commits: self._check_commits(stored, commits),
        )
        try:
            write(batch.sparkSession, batch, self.path, batch_options(self.options).raw, self.mode, addition)
        except _BatchIsCommitted:
            return

    def _check_commits(self, batch: StreamBatch, commits: Sequence[ConcurrentCommit]) -> None:
        """Raise `_BatchIsCommitted` if one of `commits`, which completed since the write began, holds the batch or a later one.

        Raises:
            OptionError: a commit is of another stream that uses the identifier.
        """
        for commit in commits:
            self._check_new(batch, read_batch(commit.metadata.extra, self.identifier))

    def _check_new(self, batch: StreamBatch, last: StreamBatch | None) -> None:
        """Raise `_BatchIsCommitted`, which ends the write, if the table holds the batch or a later one already.

        Args:
            last: the last batch that the table holds under the identifier of the stream; None: there is none.

        Raises:
            OptionError: another stream uses the identifier.
        """
        if last is None:
            return
        if last.checkpoint is not None and last.checkpoint != batch.checkpoint:
            raise OptionError(
                f"another stream, with another checkpoint, writes to {self.path} under "
                f"{o.STREAMING_CHECKPOINT_ID.key}={self.identifier}: it committed batch {last.number}. Batches of one stream "
                "would be taken for those of the other. Give each stream an identifier of its own"
            )
        if last.number >= batch.number:
            raise _BatchIsCommitted

    def _give_up(self, number: int, error: Exception) -> None:
        """Store that the stream goes on without a batch, and warn.

        Args:
            number: the number of the batch.
            error: why the last attempt to write the batch failed.
        """
        storage, base_path = open_storage(self.path, self.options.prefixed(STORAGE_OPTIONS))
        attempts = 1 if isinstance(error, OptionError) else self.options[o.STREAMING_RETRY_COUNT]
        described = f"{type(error).__name__}: {error}" if isinstance(error, PenstockError) else describe_error(error)
        given_up = GivenUpBatch(self.identifier, number, clock.now_ms(), attempts, described, self.checkpoint_location)
        place = record_given_up(storage, base_path, given_up)
        warn_user(f"the stream to {self.path} gave up batch {number}; its rows are not in the table. {place} has the reason")


class StreamRun:
    """A stream whose batches this process writes: its Spark query, if this process started it, and its background services."""

    def __init__(self, sink: StreamSink, spark: Any) -> None:
        #: Spark's query, when it has started; None on a Connect server, which ends this process with the query.
        self.query: Any = None
        self.is_starting = False
        self.services = BackgroundServices(spark, sink.path, sink.options, self.is_active)

    def is_active(self) -> bool:
        """Whether the stream runs. Always true in a process that did not start the query: the process ends with the query."""
        return self.is_starting or self.query is None or bool(self.query.isActive)


_RUNS: dict[str, StreamRun] = {}


def find_run(sink: StreamSink, spark: Any) -> StreamRun:
    """Return the run of a stream in this process. The first call makes the run and starts its services in the background.

    Args:
        spark: the session whose jobs the services start.
    """
    if sink.run_id not in _RUNS:
        sink.carried.register()
        _RUNS[sink.run_id] = StreamRun(sink, spark)
        _RUNS[sink.run_id].services.start()
    return _RUNS[sink.run_id]


def forget_run(sink: StreamSink) -> None:
    """Remove the run of a stream whose query did not start."""
    _RUNS.pop(sink.run_id, None)


__all__ = ["StreamRun", "StreamSink", "find_run", "forget_run"]
