"""A table that is created, taken back or replaced as a whole while another process writes to it, in many orders of storage calls."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from penstock.commit import heartbeat
from penstock.commit.begin import begin
from penstock.commit.swap_tables import finish_overwrite, new_table_path, swap_tables
from penstock.errors import CommitUnknown, PenstockError, TableNotFound, WriteConflict
from penstock.options import read_options
from penstock.table.config import read_config, write_config
from penstock.table.state import TableState, has_properties, reload_timeline
from penstock.timeline.instant import Action
from penstock.write.create_table import withdraw_table
from tests.model import table as model
from tests.model.check import still_world
from tests.model.schedule import Deviation, Run, explore
from tests.model.store import ModelStorage
from tests.model.table import BASE, Write

EVERY = 1 if os.environ.get("PENSTOCK_TEST_MODEL") == "1" else 10
UPSERT = Write("upsert", "a", "x")
OPTIONS = read_options(model.OPTIONS)


def start(world: dict[str, Any], run: Run, storage: ModelStorage, processes: int) -> None:
    """Make the storage and the replaced world those of a run."""
    heartbeat._BEATING.clear()
    world["run"] = run
    world["ids"] = {number: itertools.count() for number in (None, *range(processes))}
    storage.runs[:] = [run]


def open_and_upsert(storage: ModelStorage) -> None:
    """Open the table, and write a row to it."""
    table = TableState(storage, BASE, read_config(storage, BASE), OPTIONS)
    model.write(table, UPSERT)


def test_a_creation_that_fails_takes_no_row_of_another_writer_with_it() -> None:
    def create_and_fail(storage: ModelStorage) -> None:
        table = model.make_table(storage)
        with suppress(RuntimeError), begin(table, Action.COMMIT):
            raise RuntimeError("the rows cannot be read")
        withdraw_table(table, keep_folder=False)

    with still_world() as world:

        def play(deviations: Sequence[Deviation]) -> Run:
            storage = ModelStorage()
            run = Run(deviations, lambda: storage.sums[0])
            start(world, run, storage, 2)
            run.play([partial(create_and_fail, storage), partial(open_and_upsert, storage)])
            storage.runs.clear()
            world["run"] = None
            assert 0 not in run.errors, run.errors
            if 1 in run.errors:
                assert isinstance(run.errors[1], PenstockError | model.Slow), run.errors
                return run
            assert has_properties(storage, BASE), deviations
            table = TableState(storage, BASE, read_config(storage, BASE), OPTIONS)
            assert model.read_rows(table) == [("a", ["x"])], deviations
            return run

        runs = list(explore(play, switches=2, every=EVERY))
    assert any(1 not in run.errors for run in runs)
    assert any(isinstance(run.errors.get(1), TableNotFound) for run in runs)


def test_an_overwrite_of_the_table_loses_no_row_that_is_written_after_it() -> None:
    with still_world() as world:
        before = ModelStorage()
        start(world, Run((), lambda: 0), before, 0)
        old = model.make_table(before)
        model.write(old, Write("upsert", "a", "a0"))
        new_path = new_table_path(BASE)
        write_config(before, new_path, {**old.config.raw}, new=True)
        first = before.list(f"{BASE}/p")[-1]
        commit = reload_timeline(old).timeline.writes[0]
        for name in (f".hoodie/{commit.file_name}", f".hoodie/{commit.time}.commit.requested", f"p/{first.name}"):
            before.write_new(f"{new_path}/{name}", before.read(f"{BASE}/{name}").replace(b"a0", b"new"))
        before.write_new(f"{new_path}/p/.hoodie_partition_metadata", b"")

        def play(deviations: Sequence[Deviation]) -> Run:
            storage = ModelStorage(files=dict(before.files))
            run = Run(deviations, lambda: storage.sums[0])
            order: list[str] = []

            def note(path: str) -> None:
                if path.startswith(f"{BASE}/.hoodie/") and path.count("/") == 3 and path.endswith(".commit"):
                    order.append(path)
                if path.startswith("/.t.penstock-old") and "moved" not in order:
                    order.append("moved")

            storage.watchers.append(note)
            start(world, run, storage, 2)
            table = replace(old, storage=storage)
            run.play([partial(swap_tables, table, new_path, commit.time), partial(open_and_upsert, storage)])
            storage.runs.clear()
            world["run"] = None
            assert isinstance(run.errors.get(0), WriteConflict | None), run.errors
            finish_overwrite(storage, BASE)
            rows = model.read_rows(TableState(storage, BASE, read_config(storage, BASE), OPTIONS))
            if 1 in run.errors:
                assert isinstance(run.errors[1], PenstockError | FileNotFoundError | model.Slow), run.errors
                expected = [[("a", ["new"])], [("a", ["a0"])]]
                if isinstance(run.errors[1], CommitUnknown):
                    expected += [[("a", ["a0", "x"])], [("a", ["new", "x"])]]
            elif 0 in run.errors:
                expected = [[("a", ["a0", "x"])]]
            else:
                is_first = "moved" in order and any(path.endswith(".commit") for path in order[: order.index("moved")])
                expected = [[("a", ["new"])]] if is_first else [[("a", ["new", "x"])]]
            assert rows in expected, (deviations, rows, order, run.errors)
            return run

        runs = list(explore(play, switches=2, every=EVERY))
    assert any(0 in run.errors for run in runs)
    assert any(1 in run.errors for run in runs)


def test_an_overwrite_names_the_writer_that_is_at_work() -> None:
    with still_world() as world:
        storage = ModelStorage()
        start(world, Run((), lambda: 0), storage, 0)
        table = model.make_table(storage)
        with begin(table, Action.COMMIT), pytest.raises(WriteConflict, match=r"has another writer: process 1 on here.*overwrite"):
            swap_tables(table, new_table_path(BASE), "1")
