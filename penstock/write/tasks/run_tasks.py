"""Stage 6 of a write: runs the tasks that write data files, markers first, and collects their write stats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.commit.change import Change
from penstock.commit.markers import read_markers
from penstock.progress import StageNotes, TaskProgress
from penstock.timeline.commit_file import WriteStat
from penstock.workers.runner import Runner
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
        kernel: writes the files of one task.
        tasks: the task descriptions, one call of the kernel for each.
        activity: what the tasks do, in words. The progress report shows it.
    """
    table = write.table

    def count_begun() -> int:
        """Return how many data files the tasks of this write have begun: the number of markers on storage.

        The progress report calls it.
        """
        # Each task creates the marker of its file before the file.
        return len(read_markers(table.storage, table.base_path, change.time))

    with write.stages.run("store", activity, TaskProgress(len(tasks), count_begun)) as notes:
        stats = runner.collect(kernel, tasks, WriteStat)
        _note_stats(notes, stats)
    return stats


def store_incoming(
    write: WriteContext, rows: PreparedRows, kernel: Callable[[Any], list[WriteStat]], activity: str
) -> list[WriteStat]:
    """Run a kernel over incoming rows that are not staged (bulk_insert), and return its write stats.

    Spark, or the number of input files, decides how many tasks there are.

    Args:
        kernel: writes the rows of one task. Its argument is an iterator over record batches.
        activity: what the kernel does, in words. The progress report shows it.
    """
    with write.stages.run("store", activity) as notes:
        stats = run_over_incoming(write.spark, rows, kernel, WriteStat)
        _note_stats(notes, stats)
    return stats


def _note_stats(notes: StageNotes, stats: Sequence[WriteStat]) -> None:
    """Set the rows and bytes of the stage, which reports show, to the sums over the write stats."""
    notes.rows = sum(stat.num_writes for stat in stats)
    notes.size_bytes = sum(stat.total_write_bytes for stat in stats)
