"""Runs the hooks of `HOOKS` before and after a commit.

`Change` in `commit/change.py` is the only caller, except that a table which save mode `overwrite` replaces has its after-hooks
run when the new table is in place (`door/write.py`).
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from penstock.hooks import HOOKS, HookContext, HookOutcome, PendingCommit, PublishedCommit


def run_before_hooks(context: HookContext, commit: PendingCommit) -> None:
    """Call every hook before a commit is published. An error of a hook is raised, and later hooks are not called."""
    for factory in HOOKS.values():
        hook = factory(context)
        if hook is not None:
            hook.before_commit(commit)


def run_after_hooks(context: HookContext, commit: PublishedCommit) -> PublishedCommit:
    """Call every hook after a commit was published, and return the commit with the outcomes.

    A hook that fails becomes a warning and an outcome with the error. Later hooks are called all the same.
    """
    outcomes = []
    for name, factory in HOOKS.items():
        try:
            hook = factory(context)
            if hook is None:
                continue
            hook.after_commit(commit)
        except Exception as e:  # the commit is part of the table: no error of a hook may look like a failed write
            error = _describe(e)
            warnings.warn(
                f"commit {commit.instant} of {context.table.base_path} is done, do not run it again; but hook {name!r} failed "
                f"after it: {error}",
                RuntimeWarning,
                stacklevel=4,
            )
            outcomes.append(HookOutcome(name, error))
        else:
            outcomes.append(HookOutcome(name))
    return replace(commit, outcomes=tuple(outcomes))


def _describe(error: Exception) -> str:
    """Return the class name and the first line of an error. The other lines of a Spark error are a stack trace."""
    first_line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}"
