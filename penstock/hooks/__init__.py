"""Hooks: code that runs before and after each commit of a write or table service: validators, callbacks, catalog sync, metrics.

`commit_hook.py` defines the interface of hooks and their contract. `hook_factories.py` lists them. `commit/run_hooks.py` calls
them. A new hook is one file in this folder and one line in `HOOKS`; a new commit callback is one file and one line in `CALLBACKS`
(`registered/hooks.py`).
"""

from penstock.hooks.commit_hook import (
    Hook,
    HookContext,
    HookFactory,
    HookOutcome,
    LockUse,
    PendingCommit,
    PublishedCommit,
    ServiceOutcome,
    TableReader,
)
from penstock.hooks.hook_factories import HOOKS

__all__ = [
    "HOOKS",
    "Hook",
    "HookContext",
    "HookFactory",
    "HookOutcome",
    "LockUse",
    "PendingCommit",
    "PublishedCommit",
    "ServiceOutcome",
    "TableReader",
]
