"""`TaskPlan`: the planned tasks of a write, after its keys are located. Stage 6 runs the tasks; the commit stores the counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.filegroup.model import FileSlice
from penstock.timeline.commit_file import CommitMetadata
from penstock.write.tasks.task import UpsertTask


@dataclass(frozen=True)
class TaskPlan:
    """The tasks of a write that assigns rows to file groups by key, its workload profile, and the counts of the index.

    These writes are upserts, deletes, inserts that drop duplicates, and inserts into buckets. The workload profile says how many
    rows are expected to go to which file group.
    """

    tasks: tuple[UpsertTask, ...]
    #: The workload profile, which the inflight file holds.
    profile: CommitMetadata
    #: What the jobs that locate keys did, for reports: files opened, keys compared, …
    index_counts: Mapping[str, int] = field(default_factory=dict)
    #: The name of the index that located the keys, and the reason for it if `penstock.index=auto` is set.
    index: str = ""
    why: str = ""
    #: The file slices among which keys were located, by partition path.
    slices: Mapping[str, Sequence[FileSlice]] = field(default_factory=dict)

    def figures(self) -> str:
        """Return the name of the index, why it was chosen, and its counts, as JSON, for reports about the commit.

        The commit stores the JSON in its extra metadata, under the key `INDEX_FIGURES`.
        """
        reason = {"why": self.why} if self.why else {}
        return json.dumps({"index": self.index, **reason, **self.index_counts})

    @property
    def touched(self) -> set[tuple[str, str]]:
        """The existing file groups that the tasks may change, as (partition path, file id), for conflict checks."""
        return {(task.partition_path, task.file_slice.file_id) for task in self.tasks if task.file_slice}
