"""Stage 6 of a write: runs the tasks that write data files, on workers or on the driver, and collects their write stats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from penstock.commit.change import Change
from penstock.commit.early_conflicts import detects_early
from penstock.commit.markers import read_markers
from penstock.progress import StageNotes, TaskProgress
from penstock.timeline.commit_file import WriteStat
from penstock.workers.runner import Runner
from penstock.workers.session_settings import cancel_tagged_jobs, tag_jobs
from penstock.write.context import WriteContext
from penstock.write.rows.input_files import run_over_incoming
from penstock.write.rows.schema import PreparedRows


def store_tasks(
    write: WriteContext,
    change: Change,
    runner: Runner,
    kernel: Callable[[Any], list[WriteStat]],
    tasks: Sequence[Any],
    activity: str,
) -> list[WriteStat]:
    """Run the planned tasks of a write and return their write stats.

    Args:
        runner: runs the tasks on workers or on the driver.
        kernel: the function that writes the files of one task. It is called once per task description.
        tasks: the task descriptions.
        activity: what the tasks do, in words, such as "merging into 3 file groups". The progress report shows it.
    """
    table = write.table

    def count_begun() -> int:
        """Return how many data files the tasks of this write have begun: the number of markers on storage.

        The progress report calls it.
        """
        # Each task creates the marker of its file before the file.
        return len(read_markers(table.storage, table.base_path, change.time))

    with write.stages.run("store", activity, TaskProgress(len(tasks), count_begun)) as notes:
        with _stop_at_conflict(write, change):
            stats = runner.collect(kernel, tasks, WriteStat)
        _note_stats(notes, stats)
    return stats


@contextmanager
def _stop_at_conflict(write: WriteContext, change: Change) -> Iterator[None]:
    """Let early conflict detection cancel the Spark jobs that the `with` block starts, and no other jobs.

    The block runs the tasks of the write.
    """
    if not detects_early(write.table):
        yield
        return
    tag = f"penstock write {change.time}"
    with tag_jobs(write.spark, tag), change.stop_at_conflict(partial(cancel_tagged_jobs, write.spark, tag)):
        yield


def store_incoming(
    write: WriteContext, rows: PreparedRows, kernel: Callable[[Any], list[WriteStat]], activity: str
) -> list[WriteStat]:
    """Write incoming rows that are not staged (bulk_insert), and return the write stats.

    There is one task per Spark partition of the rows. If workers read Parquet input files themselves, the files are split into
    tasks.

    Args:
        kernel: the function that writes the rows of one task. Its argument is an iterator over record batches.
        activity: what the tasks do, in words. The progress report shows it.
    """
    with write.stages.run("store", activity) as notes:
        stats = run_over_incoming(write.spark, rows, kernel, WriteStat)
        _note_stats(notes, stats)
    return stats


def _note_stats(notes: StageNotes, stats: Sequence[WriteStat]) -> None:
    """Set the numbers of rows and bytes that reports show for this stage: the sums over the write stats."""
    notes.rows = sum(stat.num_writes for stat in stats)
    notes.size_bytes = sum(stat.total_write_bytes for stat in stats)
