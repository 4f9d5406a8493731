"""`HOOKS`, the map of all hooks. To add a hook, write a module in this folder and add one line to `HOOKS`."""

from __future__ import annotations

from penstock.hooks.catalog_sync import make_catalog_sync
from penstock.hooks.commit_hook import HookFactory
from penstock.hooks.http_callback import make_http_callback
from penstock.hooks.kafka_callback import make_kafka_callback
from penstock.hooks.metrics import make_metrics
from penstock.hooks.own_callbacks import make_own_callbacks
from penstock.hooks.validators import make_validators

#: Name of a hook → function that returns the hook, or None if the options do not ask for it. Hooks run in this order.
HOOKS: dict[str, HookFactory] = {
    "validators": make_validators,
    "http_callback": make_http_callback,
    "kafka_callback": make_kafka_callback,
    "own_callbacks": make_own_callbacks,
    "metrics": make_metrics,
    # Catalog sync is the last, as in Hudi: a callback that fails or is slow must not see a catalog ahead of it.
    "catalog sync": make_catalog_sync,
}
