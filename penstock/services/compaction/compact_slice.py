"""The kernel of a compaction, which each task runs: merge one file slice and write its rows as a base file.

Runs in workers or on the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock import clock
from penstock.filegroup.base_write import open_successor
from penstock.filegroup.fill_meta_columns import body_schema
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeCounts, MergeRules, read_merged_rows
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.formats.cast import fit_to_schema
from penstock.timeline.commit_file import WriteStat
from penstock.workers.run_kernels import this_task


@dataclass(frozen=True)
class CompactTask:
    """Task description: the file slice that `compact_slice` merges into a new base file. Pickled to a worker."""

    file_slice: FileSlice
    rules: MergeRules
    settings: FileSettings
    #: Bytes of the slice's log files when the plan was made, for the write stat.
    log_bytes: int

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        """The file slices that the task reads: a tuple with the only slice, the one to compact."""
        return (self.file_slice,)


def compact_slice(task: CompactTask) -> list[WriteStat]:
    """Merge a file slice into a new base file; return the file's write stat. Rows keep their commit time and sequence number.

    If all rows were deleted, an empty base file is written. Then the next plan finds nothing to do, and log files that were added
    since the plan was made have a base file below them.
    """
    began_s = clock.monotonic_s()
    file_slice = task.file_slice
    counts = MergeCounts(event_time=task.settings.event_time)
    body = body_schema(task.settings.schema)
    parts = read_merged_rows(task.settings.storage, file_slice, task.rules, body.names, counts=counts)
    # The first part is read before the file is created: a damaged slice then leaves neither marker nor file.
    rows = next(parts, None)
    identity = this_task()
    output = TaskOutput(task.settings, identity.number, identity.write_token)
    writer = open_successor(output, file_slice)
    while rows is not None:
        # Rows that are only in the log come last. So after the first inserted row, all keys are missing in the old bloom filter.
        writer.keep(fit_to_schema(rows, body), new=counts.inserts > 0)
        del rows  # free this part before the next one is read
        if writer.waiting_bytes > task.rules.memory_bytes // 2:
            writer.flush()
        rows = next(parts, None)
    stat = writer.stat(
        writer.close(),
        prev_commit=file_slice.base_instant if file_slice.base_file else "null",
        num_update_writes=counts.updates,
        num_deletes=counts.deletes,
        num_inserts=counts.inserts,
        total_log_records=counts.log_records,
        total_log_files_compacted=counts.scan.files,
        total_log_size_compacted=task.log_bytes,
        total_updated_records_compacted=counts.keys,
        total_log_blocks=counts.scan.blocks,
        total_corrupt_log_block=counts.scan.corrupt_blocks,
        total_rollback_blocks=counts.scan.rollback_blocks,
    )
    output.finish()
    took_ms = int((clock.monotonic_s() - began_s) * 1000)
    runtime = {"totalScanTime": 0, "totalUpsertTime": took_ms, "totalCreateTime": 0}
    times = counts.times
    return [replace(stat, runtime_stats=runtime, min_event_time=times.least_ms, max_event_time=times.greatest_ms)]
