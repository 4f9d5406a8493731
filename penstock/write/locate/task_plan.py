"""`TaskPlan`: what planning returns, and what the store stage, the commit and the reports use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.timeline.commit_file import CommitMetadata
from penstock.write.tasks.task import UpsertTask


@dataclass(frozen=True)
class TaskPlan:
    """The tasks of an upsert, and what they are expected to do."""

    tasks: tuple[UpsertTask, ...]
    #: The counts of the inflight file.
    profile: CommitMetadata
    #: What the index did, for reports: files opened, keys compared, …
    index_counts: Mapping[str, int] = field(default_factory=dict)
    #: The index that was used and, if it was chosen by `penstock.index=auto`, the reason.
    index: str = ""
    why: str = ""

    def figures(self) -> str:
        """Return the text that a commit keeps under `INDEX_FIGURES`."""
        reason = {"why": self.why} if self.why else {}
        return json.dumps({"index": self.index, **reason, **self.index_counts})

    @property
    def touched(self) -> set[tuple[str, str]]:
        """(partition path, file id) of the existing file groups that are changed, or may be."""
        return {(task.partition_path, task.file_slice.file_id) for task in self.tasks if task.file_slice}
