"""A short soak: writer processes that are killed and stopped lose and double nothing, and their reads are of snapshots. `make soak` is the long one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.soak.run import Soak, run_soak
from tests.soak.without_spark import Engine
from tests.soak.writer import TABLE


@pytest.fixture(scope="module")
def engine(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(spark, tmp_path_factory.mktemp("engine"), TABLE)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_every_acknowledged_write_of_killed_and_stopped_processes_is_there_once(engine: Engine, folder: Path, kind: str) -> None:
    place = folder / kind
    place.mkdir()
    outcome = run_soak(Soak(writers=3, commits=6, kind=kind, disturb_s=1.5, minutes=3), place, engine)
    assert (outcome.anomalies, outcome.crashes) == ([], [])
    assert outcome.counts["ok"] >= 9
    assert outcome.counts["kill"] > 0
