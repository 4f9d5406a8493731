"""Runs the hooks of `HOOKS` before and after a commit.

`Change` in `commit/change.py` calls both functions. There is one exception: after the commit of a new table of save mode
`overwrite`, `door/write.py` runs the after-commit hooks, because the new table must be in place first.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.hooks import HOOKS, HookContext, HookOutcome, PendingCommit, PublishedCommit
from penstock.user_warning import warn_user


def run_before_hooks(context: HookContext, commit: PendingCommit) -> None:
    """Call `before_commit` of every hook. An error of a hook is raised, and later hooks are not called."""
    for factory in HOOKS.values():
        hook = factory(context)
        if hook is not None:
            hook.before_commit(commit)


def run_after_hooks(context: HookContext, commit: PublishedCommit) -> PublishedCommit:
    """Call `after_commit` of every hook; return a copy of the commit with one `HookOutcome` per hook.

    An error of a hook becomes a warning and an outcome with that error. Later hooks are still called.
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
            warn_user(
                f"commit {commit.instant} of {context.table.base_path} is done, do not run it again; but hook {name!r} failed "
                f"after it: {error}"
            )
            outcomes.append(HookOutcome(name, error))
        else:
            outcomes.append(HookOutcome(name))
    return replace(commit, outcomes=tuple(outcomes))


def _describe(error: Exception) -> str:
    """Return an error's class name and the first line of its message. Further lines of a Spark error are a stack trace."""
    first_line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}"
