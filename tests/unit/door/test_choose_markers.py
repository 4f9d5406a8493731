"""Which style of markers a write has on an object store, if the options name none."""

from __future__ import annotations

import pytest

from penstock import options as o
from penstock.door.write import _choose_markers
from penstock.options import read_options
from penstock.storage import ObjectStorage
from penstock.storage.object_store_client import ClientSettings
from penstock.write.settings import resolve_settings

STORE = ObjectStorage("s3", "bucket", ClientSettings("s3", "bucket"))
UPSERT = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
SEVERAL = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control", "penstock.lock": "storage"}


@pytest.mark.parametrize(
    ("more", "style"),
    [
        ({}, "DIRECT"),
        ({"hoodie.write.markers.type": "TIMELINE_SERVER_BASED"}, "TIMELINE_SERVER_BASED"),
        ({"hoodie.datasource.write.operation": "bulk_insert"}, "TIMELINE_SERVER_BASED"),
        ({**SEVERAL, "hoodie.write.concurrency.early.conflict.detection.enable": "true"}, "TIMELINE_SERVER_BASED"),
    ],
)
def test_markers_are_single_files_unless_the_write_needs_them_collected(more: dict[str, str], style: str) -> None:
    """Early conflict detection looks for conflicts in another way with each style: the user chooses."""
    settings = resolve_settings(read_options({**UPSERT, **more}), None, frozenset({"id", "ts"}))
    assert _choose_markers(STORE, settings).options[o.MARKERS_TYPE] == style
