"""Runs the hooks of `HOOKS` before and after a commit.

`Change` in `commit/change.py` calls both functions for the commit of a table service. For a write it calls the first one only:
`door/follow_ups.py` runs the after-commit hooks when the table services that follow the write have run, as Hudi does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from penstock import clock
from penstock.hooks import HOOKS, Hook, HookContext, HookFactory, HookOutcome, PendingCommit, PublishedCommit
from penstock.progress import Stages
from penstock.user_warning import warn_user


def check_hooks(context: HookContext) -> None:
    """Create every hook that the options ask for, and call none. Writes do this first, so that wrong options are found early.

    Raises:
        OptionError: the options of a hook are missing or wrong.
    """
    for name, factory in HOOKS.items():
        _make_hooks(name, factory, context)


def run_before_hooks(context: HookContext, commit: PendingCommit) -> None:
    """Call `before_commit` of every hook. An error of a hook is raised, and later hooks are not called."""
    for name, factory in HOOKS.items():
        for hook_name, hook in _make_hooks(name, factory, context).items():
            with _shown(context.stages, f"{hook_name} before the commit"):
                hook.before_commit(commit)


def run_after_hooks(context: HookContext, commit: PublishedCommit, shown: Stages | None = None) -> PublishedCommit:
    """Call `after_commit` of every hook; return a copy of the commit with one more `HookOutcome` per hook.

    An error of a hook becomes a warning and an outcome with that error. Later hooks are still called.

    Args:
        shown: shows each hook as a stage; None: the stages of the context do, if there are any.
    """
    outcomes: list[HookOutcome] = []
    shown = shown or context.stages
    for name, factory in HOOKS.items():
        try:
            hooks = _make_hooks(name, factory, context)
        except Exception as e:  # the commit is part of the table: no error of a hook may look like a failed write
            outcomes.append(HookOutcome(name, _warn(context, commit, name, e)))
            continue
        for hook_name, hook in hooks.items():
            outcomes.append(_run_after_hook(context, commit, hook_name, hook, shown))
    return replace(commit, follow_ups=(*commit.follow_ups, *outcomes))


def _make_hooks(name: str, factory: HookFactory, context: HookContext) -> Mapping[str, Hook]:
    """Call a factory; return its hooks by name. There are none if the options do not ask for them.

    Args:
        name: the name of the factory in `HOOKS`, which is the name of its hook if it returns a single one.
    """
    hooks = factory(context)
    if hooks is None:
        return {}
    return {name: hooks} if isinstance(hooks, Hook) else hooks


def _run_after_hook(context: HookContext, commit: PublishedCommit, name: str, hook: Hook, shown: Stages | None) -> HookOutcome:
    """Call `after_commit` of one hook and return the outcome. An error becomes a warning."""
    began = clock.monotonic_s()
    error = None
    try:
        with _shown(shown, f"{name} after the commit"):
            hook.after_commit(commit)
    except Exception as e:  # as above
        error = _warn(context, commit, name, e)
    return HookOutcome(name, error, clock.monotonic_s() - began)


@contextmanager
def _shown(stages: Stages | None, doing: str) -> Iterator[None]:
    """Show the `with` block as a stage, if `stages` is not None."""
    if stages is None:
        yield
        return
    with stages.run(doing, f"running {doing}"):
        yield


def _warn(context: HookContext, commit: PublishedCommit, name: str, error: Exception) -> str:
    """Warn that a hook failed after the commit; return class name and first line of the error."""
    text = _describe(error)
    warn_user(
        f"commit {commit.instant} of {context.path} is done, do not run it again; but hook {name!r} failed after it: {text}"
    )
    return text


def _describe(error: Exception) -> str:
    """Return an error's class name and the first line of its message. Further lines of a Spark error are a stack trace."""
    first_line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}"
