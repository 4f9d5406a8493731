"""Callbacks of users: Python functions that are called after each commit of a write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.hooks.commit_hook import Hook, PublishedCommit
from penstock.hooks.notice import CommitNotice, is_announced, make_notice
from penstock.table.state import TableState


@dataclass(frozen=True)
class OwnCallback(Hook):
    """Calls one function of the user after each commit of a write."""

    table: TableState
    function: Callable[[CommitNotice], object]

    def after_commit(self, commit: PublishedCommit) -> None:
        """Call the user's function with the notice of a commit. Do nothing after a compaction or clustering.

        If the function raises an error, the caller turns it into a warning.
        """
        if is_announced(commit):
            self.function(make_notice(self.table, commit))
