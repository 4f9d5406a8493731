"""Random histories on a copy-on-write table, a merge-on-read table and a dictionary: after every step all three say the same.

Writes, deletes, crashes at any storage call, compactions planned, run and taken back, rollbacks. Ordering values go up, because
with the default payload the two kinds of table differ, as Hudi's do, for rows that come late.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from penstock.filegroup.log_scan import positions_touched
from penstock.filegroup.merged import log_rows, merged_rows
from penstock.metadata.listing import latest_slices, merged_slices
from penstock.metadata.merging import merged_rules
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.compaction.join_logs import join_logs
from penstock.services.compaction.run import compact
from penstock.services.compaction.schedule import schedule, unschedule
from penstock.services.rollback import roll_back_to
from penstock.table import TableState, open_table, table_schema
from tests.crash.scenes import MERGE_ON_READ, Runner, Step
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.plain import orphans, plain_rows

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

KEYS = [f"k{n}" for n in range(8)]
COLUMNS = ("id", "city", "ts", "fare")
#: Base files stay as they are when new rows come, or are filled up.
SIZES: tuple[dict[str, Any], ...] = ({"hoodie.parquet.small.file.limit": 0}, {})
NOTHING: Any = None  # no Spark: what there is to do is little, and done here

Rows = dict[str, tuple[Any, ...]]
batches = st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True)


class History(RuleBasedStateMachine):
    """One history on both tables."""

    def __init__(self, runner: Runner, folder: Path, sizes: dict[str, Any]) -> None:
        super().__init__()
        self._folder = TemporaryDirectory(dir=folder)
        root = Path(self._folder.name)
        self._tables = {root / "cow": {**sizes}, root / "mor": {**sizes, **MERGE_ON_READ}}
        self._runner, self._time, self._faults = runner, 0, 0
        self._states: list[Rows] = [{}]
        self._write("insert", KEYS[:4])

    def teardown(self) -> None:
        self._folder.cleanup()

    @property
    def _mor(self) -> Path:
        return next(path for path, options in self._tables.items() if "hoodie.compact.inline" in options)

    def _step(self, operation: str, keys: list[str]) -> tuple[Step, Rows]:
        """A write, and what the table holds after it."""
        self._time += 1
        rows = {key: (key, "xy"[int(key[1:]) % 2], self._time, float(self._time)) for key in keys}
        now = self._states[-1]
        after = {k: v for k, v in now.items() if k not in rows} if operation == "delete" else {**now, **rows}
        return Step(operation, tuple(rows.values())), after

    def _write(self, operation: str, keys: list[str]) -> None:
        step, after = self._step(operation, keys)
        for path, options in self._tables.items():
            self._runner.run(Step(step.operation, step.rows, options=options), str(path))
        self._states.append(after)

    def _open(self, **options: str) -> TableState:
        return open_table(str(self._mor), read_options(options))

    @property
    def _waits(self) -> list[str]:
        return [i.time for i in self._open().timeline.pending]

    @rule(keys=batches)
    def upsert(self, keys: list[str]) -> None:
        self._write("upsert", keys)

    @rule(keys=batches)
    def insert(self, keys: list[str]) -> None:
        if new := [key for key in keys if key not in self._states[-1]]:
            self._write("insert", new)

    @rule(keys=batches)
    def delete(self, keys: list[str]) -> None:
        if any(key in self._states[-1] for key in keys):
            self._write("delete", keys)

    @rule(
        keys=batches,
        operation=st.sampled_from(["upsert", "delete"]),
        at=st.integers(0, 60),
        fault=st.sampled_from([Fault.BEFORE, Fault.TORN, Fault.AFTER]),
    )
    def crash(self, keys: list[str], operation: str, at: int, fault: Fault) -> None:
        """A write dies; the table is the old one or the new one, and the same write again makes it the new one."""
        if operation == "delete" and not any(key in self._states[-1] for key in keys):
            return
        step, after = self._step(operation, keys)
        for path, options in self._tables.items():
            mine, self._faults = Step(step.operation, step.rows, options=options), self._faults + 1
            plan = FaultPlan(f"{self._folder.name}/fault-{self._faults}", at, fault)
            Path(plan.folder).mkdir()
            with injected(plan), suppress(Crash):
                self._runner.run(mine, f"crash:{path}")
            assert plain_rows(path) in (rows_of(self._states[-1]), rows_of(after))
            self._runner.run(mine, str(path))
        self._states = [after]  # what the newest commit is differs now

    @precondition(lambda self: not self._waits)
    @rule()
    def plan_compaction(self) -> None:
        schedule(self._open(), due=True)

    @rule()
    def compact(self) -> None:
        compact(NOTHING, self._open(), Stages("", "off"), due=True)
        self._states = self._states[-1:]
        bases = [s.base_file for its in latest_slices(self._open()).values() for s in its]
        found = [row for f in bases if f for row in pq.ParquetFile(f.path).read(columns=list(COLUMNS)).to_pylist()]
        assert sorted((tuple(row.values()) for row in found), key=repr) == rows_of(self._states[-1])

    @precondition(lambda self: self._waits)
    @rule()
    def take_plan_back(self) -> None:
        unschedule(self._open(), self._waits[0])

    @precondition(lambda self: not self._waits)
    @rule()
    def join_logs(self) -> None:
        join_logs(NOTHING, self._open(**{"hoodie.log.compaction.blocks.threshold": "2"}), Stages("", "off"))
        self._states = self._states[-1:]

    @precondition(lambda self: len(self._states) > 2 and not self._waits)
    @rule()
    def roll_back(self) -> None:
        self._states.pop()
        for path in self._tables:
            table = open_table(str(path))
            assert table.timeline.last_write
            roll_back_to(table, table.timeline.last_write.time)

    @invariant()
    def all_agree(self) -> None:
        expected = rows_of(self._states[-1])
        for path in self._tables:
            assert plain_rows(path) == expected, path.name
        assert by_position(self._open()) == expected
        assert orphans(next(iter(self._tables))) == []


def rows_of(state: Rows) -> list[Any]:
    """A state in the shape of a table's rows."""
    return sorted(state.values(), key=repr)


def by_position(table: TableState) -> list[Any]:
    """The rows of a merge-on-read table, base rows left out where logs say they stand."""
    schema = table_schema(table)
    assert schema
    rules, found = merged_rules(table, schema), []
    for one in (one for its in merged_slices(table).values() for one in its):
        touched = positions_touched(table.storage, one, rules.times)
        if touched is None or one.base_file is None:
            parts = list(merged_rows(table.storage, one, rules, COLUMNS))
        else:
            base = pq.ParquetFile(one.base_file.path).read(columns=list(COLUMNS))
            kept = [at not in set(touched.tolist()) for at in range(base.num_rows)]
            parts = [base.filter(pa.array(kept, pa.bool_())), *log_rows(table.storage, one, rules, COLUMNS)]
        found += [tuple(row.values()) for part in parts for row in part.to_pylist()]
    return sorted(found, key=repr)


@pytest.mark.parametrize("sizes", SIZES, ids=["new groups", "small files"])
def test_both_kinds_of_table_and_a_dictionary_agree(spark: Any, folder: Path, sizes: dict[str, Any]) -> None:
    runner = Runner(spark)
    run_state_machine_as_test(
        lambda: History(runner, folder, sizes),
        settings=settings(
            max_examples=12, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
        ),
    )
