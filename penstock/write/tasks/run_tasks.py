"""Stage 6 of a write: tasks write the data files, markers first, and return write stats. The kernels are in `tasks/`."""

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
    """Run the tasks of a planned write and return their write stats.

    Args:
        activity: what the tasks do, in words. The progress report shows it.
    """
    table = write.table

    def count_begun() -> int:
        # Each task creates the marker of its file before the file.
        return len(read_markers(table.storage, table.base_path, change.time))

    with write.stages.run("store", activity, TaskProgress(len(tasks), count_begun)) as notes:
        stats = runner.collect(kernel, tasks, WriteStat)
        _note_stats(notes, stats)
    return stats


def store_incoming(
    write: WriteContext, rows: PreparedRows, kernel: Callable[[Any], list[WriteStat]], activity: str
) -> list[WriteStat]:
    """Run a kernel over incoming rows that are not staged, and return its write stats. Spark decides how many tasks there are.

    Args:
        activity: what the kernel does, in words. The progress report shows it.
    """
    with write.stages.run("store", activity) as notes:
        stats = run_over_incoming(write.spark, rows, kernel, WriteStat)
        _note_stats(notes, stats)
    return stats


def _note_stats(notes: StageNotes, stats: Sequence[WriteStat]) -> None:
    notes.rows = sum(stat.num_writes for stat in stats)
    notes.size_bytes = sum(stat.total_write_bytes for stat in stats)
