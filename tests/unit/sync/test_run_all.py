"""The check of a catalog before a commit, and a metastore that accepts the connection and never answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.errors import CatalogError
from penstock.hive_metastore import Metastore
from penstock.options import read_options
from penstock.sync import run_all
from penstock.sync.metastore_client import MetastoreClient
from penstock.timeline.commit_file import CommitMetadata
from tests.unit.services.histories import History

SYNC = "hoodie.datasource.hive_sync."
SCHEMA = '{"type":"record","name":"r","fields":[{"name":"id","type":"string"}]}'


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"thrift://127.0.0.1:{server.getsockname()[1]}"


def test_a_metastore_that_never_answers_is_given_up_after_the_time_out(silent: str) -> None:
    client = MetastoreClient(Metastore.connect(silent, answer_s=0.2))
    with pytest.raises(CatalogError, match=f"the Hive metastore {silent} failed in has_database: .*timed out"):
        client.has_database("default")


def test_a_metastore_that_never_answers_stops_no_commit(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def connect(uris: str, option: str, answer_s: float) -> Metastore:
        waited.append(answer_s)
        return plain(uris, option, 0.2)

    plain = Metastore.connect
    monkeypatch.setattr(Metastore, "connect", connect)
    options = {f"{SYNC}mode": "hms", f"{SYNC}metastore.uris": silent, f"{SYNC}partition_fields": "p"}
    table = replace(History().commit(1, ["p/g"]).table(), options=read_options(options))
    run_all.check_tools_before_commit(table, CommitMetadata((), "UPSERT", {"schema": SCHEMA}))
    assert waited == [20]
