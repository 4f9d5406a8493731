"""Functions of the user on their way to the process of a Connect server that writes the batches of a stream."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import penstock
from penstock.options import read_options
from penstock.registered.functions import MERGE_FUNCTIONS
from penstock.registered.hooks import COMMIT_CALLBACKS, VALIDATORS, find_commit_callback
from penstock.registered.locks import LOCK_PROVIDERS
from penstock.registered.registry import Kind
from penstock.registered.sync_tools import SYNC_TOOLS
from penstock.streams.carried import collect_functions

REGISTRIES = (MERGE_FUNCTIONS, COMMIT_CALLBACKS, VALIDATORS, LOCK_PROVIDERS, SYNC_TOOLS)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty all registries, as they are in another process."""
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "registered", {})


def test_a_stream_takes_the_functions_that_its_options_name_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)

    @penstock.commit_callback("audit")
    class Audit:
        def __call__(self, notice: Any) -> str:
            return f"audited {notice}"

    for kind in (Kind.PAYLOAD, Kind.COMMIT_CALLBACK, Kind.VALIDATOR, Kind.LOCK_PROVIDER, Kind.SYNC_TOOL):
        getattr(penstock, kind.value)(f"my_{kind.value}")(lambda *arguments, kind=kind: kind.value)
        getattr(penstock, kind.value)("another")(lambda *arguments: None)
    options = read_options(
        {
            "hoodie.datasource.write.payload.class": "my_payload",
            "penstock.commit.callbacks": "my_commit_callback, audit",
            "hoodie.precommit.validators": "my_validator",
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "penstock.lock": "my_lock_provider",
            "hoodie.meta.sync.client.tool.class": "my_sync_tool",
        }
    )
    pickled = pickle.dumps(collect_functions(options))
    forget(monkeypatch)
    pickle.loads(pickled).register()
    assert [registry.list_names() for registry in REGISTRIES] == [
        ("my_payload",),
        ("audit", "my_commit_callback"),
        ("my_validator",),
        ("my_lock_provider",),
        ("my_sync_tool",),
    ]
    for registry in REGISTRIES:
        for name, registered in registry.registered.items():
            if name != "audit":
                assert registered.function() == registered.kind.value == name.removeprefix("my_")
    assert find_commit_callback("audit")("trips") == "audited trips"
