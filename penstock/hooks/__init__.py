"""Hooks: code that runs before and after each commit of a write or table service.

`commit_hook.py` defines the interface of hooks and their contract. This module registers hooks in `HOOKS`.
`commit/run_hooks.py` calls them.

A new hook is one file in this folder and one line in `HOOKS`.
"""

from __future__ import annotations

from penstock.hooks.commit_hook import Hook, HookContext, HookFactory, HookOutcome, PendingCommit, PublishedCommit

__all__ = [
    "HOOKS",
    "Hook",
    "HookContext",
    "HookFactory",
    "HookOutcome",
    "PendingCommit",
    "PublishedCommit",
]

#: Name of a hook → function that returns the hook, or None if the options do not ask for it. Hooks run in this order.
HOOKS: dict[str, HookFactory] = {}
