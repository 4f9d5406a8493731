"""`HOOKS`, the map of all hooks. To add a hook, write a module in this folder and add one line to `HOOKS`."""

from __future__ import annotations

from penstock.hooks.callbacks import make_callbacks
from penstock.hooks.catalog_sync import make_catalog_sync
from penstock.hooks.commit_hook import HookFactory
from penstock.hooks.metrics import make_metrics
from penstock.hooks.validators import make_validators

#: Name of a hook → function that returns the hook, several hooks by name, or None if the options do not ask for it. Hooks run in
#: this order.
HOOKS: dict[str, HookFactory] = {
    "validators": make_validators,
    # After a commit, in Hudi's order.
    "metrics": make_metrics,
    "callbacks": make_callbacks,
    "catalog sync": make_catalog_sync,
}
