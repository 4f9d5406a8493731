"""Every storage call of letting old partitions go goes wrong: the partition is there or gone, and a second run finishes."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from penstock import spread
from penstock.errors import PenstockError
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.files import check_files
from penstock.services.rollback import roll_back_failed
from penstock.table import open_table
from penstock.write.expire import expire_partitions
from tests.crash.test_clean_and_archive import ROWS, make_table
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.plain import leftovers, pending, plain_rows

OPTIONS = {"hoodie.partition.ttl.strategy.days.retain": 1, "hoodie.partition.ttl.strategy.partition.selected": "berlin"}
LEFT = ROWS[1:]


def expire(path: str) -> None:
    expire_partitions(roll_back_failed(open_table(path, read_options(OPTIONS))), Stages("", "off"))


def play(folder: Path, plan: FaultPlan) -> Path:
    path = folder / "table"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(folder / "made", path)
    shutil.rmtree(plan.folder, ignore_errors=True)
    with injected(plan):
        expire(f"crash:{path}")
    return path


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_fault_at_any_call_leaves_what_a_second_run_finishes(tmp_path: Path) -> None:
    make_table(tmp_path / "made")
    with patch.object(spread, "_DRIVER_THREADS", 1):
        plan = FaultPlan(str(tmp_path / "count"))
        assert plain_rows(play(tmp_path, plan)) == LEFT
        calls = len(plan.calls)
        assert calls >= 6
        for fault in (f for f in Fault if f not in (Fault.KILLED, Fault.EXECUTOR_KILLED)):
            for at in range(calls):
                plan = FaultPlan(str(tmp_path / "plan"), at, fault)
                with suppress(PenstockError, Crash, KeyboardInterrupt):
                    play(tmp_path, plan)
                what, path = f"{fault.value} {plan.calls[at]}", tmp_path / "table"
                assert plain_rows(path) in (ROWS, LEFT), what
                expire(str(path))
                assert (plain_rows(path), pending(path), leftovers(path)) == (LEFT, [], []), what
                assert check_files(open_table(str(path))) == [], what
