"""Callbacks of users: Python functions that are called after each commit of a write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.hooks.commit_hook import Hook, HookContext, PublishedCommit
from penstock.hooks.notice import CommitNotice, is_announced, make_notice
from penstock.hooks.send_notices import list_callbacks
from penstock.registered.hooks import HTTP, KAFKA, find_commit_callback
from penstock.table.state import TableState


@dataclass(frozen=True)
class OwnCallback(Hook):
    """Calls one function of the user after each commit of a write."""

    table: TableState
    function: Callable[[CommitNotice], object]

    def after_commit(self, commit: PublishedCommit) -> None:
        """Call the function with the notice of the commit. What the function raises is reported by the caller."""
        if is_announced(commit):
            self.function(make_notice(self.table, commit))


def make_own_callbacks(context: HookContext) -> Mapping[str, Hook]:
    """Return a hook for each callback of the user that the options name, in the order of the options.

    Raises:
        OptionError: no callback is registered under a name.
    """
    hooks: dict[str, Hook] = {}
    for name in list_callbacks(context.table.options):
        if name not in (HTTP, KAFKA):
            hooks[name] = OwnCallback(context.table, find_commit_callback(name))
    return hooks
