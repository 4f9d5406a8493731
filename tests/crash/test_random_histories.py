"""Random histories leave the same rows in a copy-on-write table, a merge-on-read table and a dictionary after every step.

Steps are writes, deletes, overwritten and deleted partitions; cleans, archiving, compactions planned, run and unscheduled,
clusterings, savepoints, restores and rollbacks; crashes of writes and services at any storage call. After each step files and
timeline agree, and time travel to the oldest commit that can still be read returns the rows of that time.
Ordering values only increase: with the default payload the two kinds of table differ for rows that come late, as Hudi's do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from penstock.filegroup.log.scan import scan_slice, touched_positions
from penstock.filegroup.slice_rows import read_log_rows, read_merged_rows, read_touched_rows
from penstock.options import read_options
from penstock.progress import Stages
from penstock.read.time_travel import earliest_kept
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.services.clustering.service import CLUSTERING
from penstock.services.compaction.service import COMPACTION
from penstock.services.compaction.unschedule import unschedule
from penstock.services.file_check import check_files
from penstock.services.log_compaction.service import LOG_COMPACTION
from penstock.services.planned import schedule, schedule_and_run
from penstock.services.restore import restore
from penstock.services.rollback.requested import roll_back_to
from penstock.services.savepoint import create_savepoint, delete_savepoint
from penstock.table.listing import list_base_slices, list_merged_slices
from penstock.table.merge_rules import build_merge_rules
from penstock.table.savepoints import list_savepoint_times
from penstock.table.state import TableState, open_table, read_table_schema
from penstock.timeline.instant import Action
from tests.crash.scenes import MERGE_ON_READ, Runner, Step
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.plain import leftovers, plain_rows

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

KEYS = [f"k{n}" for n in range(8)]
COLUMNS = ("id", "city", "ts", "fare")
#: Base files stay as they are when new rows come, or are filled up; logs have blocks of either kind.
SIZES: tuple[dict[str, Any], ...] = ({"hoodie.parquet.small.file.limit": 0}, {"hoodie.logfile.data.block.format": "parquet"})
#: Services after each write have something to do: two commits stay readable, and three or four on the timeline.
KEEP = {"hoodie.cleaner.commits.retained": 2, "hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4}
KEEP_LESS = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
VERSIONS = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": 1}
NOTHING: Any = None  # no Spark: the work is little and runs in this process
QUIET = Stages("", "off")
SERVICES: dict[str, Callable[[TableState], object]] = {
    "clean": lambda table: clean(NOTHING, table, QUIET, due=True),
    "archive": archive,
    "cluster": lambda table: schedule_and_run(NOTHING, table, CLUSTERING, QUIET, due=True),
    "compact": lambda table: schedule_and_run(NOTHING, table, COMPACTION, QUIET, due=True) if table.is_merge_on_read else None,
    "restore": lambda table: restore(NOTHING, table, list_savepoint_times(table)[0], QUIET),
}

Rows = dict[str, tuple[Any, ...]]
batches = st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True)


class History(RuleBasedStateMachine):
    """One history, applied to both tables."""

    def __init__(self, runner: Runner, folder: Path, sizes: dict[str, Any]) -> None:
        super().__init__()
        self._folder = TemporaryDirectory(dir=folder)
        root = Path(self._folder.name)
        self._tables = {root / "cow": {**sizes, **KEEP}, root / "mor": {**sizes, **KEEP, **MERGE_ON_READ}}
        self._runner, self._time, self._faults = runner, 0, 0
        #: The newest state last. A rollback returns to the one before it.
        self._states: list[Rows] = [{}]
        #: By table and commit, the rows of commits that may still be read.
        self._past: dict[Path, dict[str, Rows]] = {path: {} for path in self._tables}
        #: The rows of the savepoint, if there is one.
        self._saved: Rows | None = None
        #: Whether a service may have left something for the next write to tidy up.
        self._is_untidy = False
        self._write("insert", KEYS[:4])
        self._forget()

    def teardown(self) -> None:
        self._folder.cleanup()

    @property
    def _mor(self) -> Path:
        return next(path for path, options in self._tables.items() if "hoodie.compact.inline" in options)

    def _step(self, operation: str, keys: list[str]) -> tuple[Step, Rows]:
        """Return a write, and the rows that the table holds after it."""
        self._time += 1
        rows = {key: (key, "xy"[int(key[1:]) % 2], self._time, float(self._time)) for key in keys}
        cities, now = {row[1] for row in rows.values()}, self._states[-1]
        if operation in ("insert_overwrite", "delete_partition"):
            now = {k: v for k, v in now.items() if v[1] not in cities}
        elif operation == "delete":
            now = {k: v for k, v in now.items() if k not in rows}
        after = now if operation.startswith("delete") else {**now, **rows}
        return Step(operation, tuple(rows.values())), after

    def _forget(self) -> None:
        """Drop the earlier states: a rollback past this step is not possible, or differs between the tables."""
        self._states = self._states[-1:]

    def _write(self, operation: str, keys: list[str]) -> None:
        step, after = self._step(operation, keys)
        for path, options in self._tables.items():
            self._runner.run(Step(step.operation, step.rows, options=options), str(path))
        self._states, self._is_untidy = [self._states[-1], after], False
        self._remember()

    def _remember(self) -> None:
        """Record the newest state under the newest commit of each table."""
        for path, past in self._past.items():
            newest = open_table(str(path)).timeline.last_write
            assert newest
            past[newest.time] = self._states[-1]

    def _lose_past(self) -> None:
        """Drop the record of earlier commits: their files may be gone without a trace on the timeline."""
        self._past = {path: {} for path in self._tables}

    def _serve(self, service: Callable[[TableState], object], options: dict[str, Any]) -> None:
        for path, mine in self._tables.items():
            service(open_table(str(path), read_options(mine | options)))

    def _open(self, **options: str) -> TableState:
        return open_table(str(self._mor), read_options(options))

    @property
    def _waits(self) -> list[str]:
        return [i.time for i in self._open().timeline.filter(Action.COMPACTION) if not i.is_completed]

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

    @rule(keys=batches)
    def insert_overwrite(self, keys: list[str]) -> None:
        self._write("insert_overwrite", keys)

    @precondition(lambda self: not self._waits)
    @rule(key=st.sampled_from(KEYS[:2]))
    def delete_partition(self, key: str) -> None:
        self._write("delete_partition", [key])

    @rule(
        keys=batches,
        operation=st.sampled_from(["upsert", "delete", "insert_overwrite"]),
        at=st.integers(0, 60),
        fault=st.sampled_from([Fault.BEFORE, Fault.TORN, Fault.AFTER]),
    )
    def crash(self, keys: list[str], operation: str, at: int, fault: Fault) -> None:
        """Let a write die. The table is the old one or the new one, and the same write again makes it the new one."""
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
        self._states, self._is_untidy = [after], False  # what the newest commit is differs now
        self._remember()

    @rule(keep=st.sampled_from([KEEP, KEEP_LESS, VERSIONS]))
    def clean(self, keep: dict[str, Any]) -> None:
        self._serve(SERVICES["clean"], keep)
        self._forget()
        if keep is VERSIONS:
            self._lose_past()

    @rule()
    def archive(self) -> None:
        self._serve(SERVICES["archive"], KEEP_LESS)

    @rule()
    def cluster(self) -> None:
        self._serve(SERVICES["cluster"], {})
        self._forget()

    @precondition(lambda self: self._saved is None)
    @rule()
    def save(self) -> None:
        self._serve(create_savepoint, {})
        self._forget()
        self._saved = self._states[-1]

    @precondition(lambda self: self._saved is not None)
    @rule()
    def let_go(self) -> None:
        self._serve(lambda table: delete_savepoint(table, list_savepoint_times(table)[0]), {})
        self._saved = None

    @precondition(lambda self: self._saved is not None)
    @rule()
    def restore(self) -> None:
        self._serve(SERVICES["restore"], {})
        assert self._saved is not None
        self._states = [self._saved]

    @rule(
        name=st.sampled_from(list(SERVICES)),
        at=st.integers(0, 25),
        fault=st.sampled_from([Fault.BEFORE, Fault.TORN, Fault.AFTER]),
    )
    def crash_service(self, name: str, at: int, fault: Fault) -> None:
        """Let a service die. The next writer finishes cleaning and archiving; the other services are run again here."""
        if name == "restore" and self._saved is None:
            return
        after = self._saved if name == "restore" and self._saved is not None else self._states[-1]
        for path, options in self._tables.items():
            self._faults += 1
            plan = FaultPlan(f"{self._folder.name}/fault-{self._faults}", at, fault)
            Path(plan.folder).mkdir()
            with injected(plan), suppress(Crash):
                SERVICES[name](open_table(f"crash:{path}", read_options(options | KEEP_LESS)))
            assert plain_rows(path) in (rows_of(self._states[-1]), rows_of(after))
            if name not in ("clean", "archive"):
                SERVICES[name](open_table(str(path), read_options(options)))
        self._states, self._is_untidy = [after], True
        self._lose_past()

    @precondition(lambda self: not self._waits)
    @rule()
    def plan_compaction(self) -> None:
        schedule(self._open(), COMPACTION, due=True)

    @rule()
    def compact(self) -> None:
        schedule_and_run(NOTHING, self._open(), COMPACTION, QUIET, due=True)
        self._forget()
        bases = [s.base_file for its in list_base_slices(self._open()).values() for s in its]
        found = [row for f in bases if f for row in pq.ParquetFile(f.path).read(columns=list(COLUMNS)).to_pylist()]
        assert sorted((tuple(row.values()) for row in found), key=repr) == rows_of(self._states[-1])

    @precondition(lambda self: self._waits and self._saved is None)
    @rule()
    def take_plan_back(self) -> None:
        unschedule(self._open(), self._waits[0])

    @precondition(lambda self: not self._waits)
    @rule()
    def join_logs(self) -> None:
        schedule_and_run(NOTHING, self._open(**{"hoodie.log.compaction.blocks.threshold": "2"}), LOG_COMPACTION, QUIET)
        self._forget()

    @precondition(lambda self: len(self._states) > 1)
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
            assert check_files(open_table(str(path))) == [], path.name
            self._check_past(path)
        assert by_position(self._open()) == expected
        assert self._is_untidy or leftovers(next(iter(self._tables))) == []

    def _check_past(self, path: Path) -> None:
        """Check time travel to the oldest commit that can still be read."""
        table = open_table(str(path))
        kept = earliest_kept(table) or ""
        past = {time: rows for time, rows in self._past[path].items() if time in table.timeline.completed_times and time >= kept}
        self._past[path] = past
        if past:
            assert plain_rows(path, as_of=min(past)) == rows_of(past[min(past)]), (path.name, min(past))


def rows_of(state: Rows) -> list[Any]:
    """Return a state in the shape of a table's rows."""
    return sorted(state.values(), key=repr)


def same_rows(some: list[pa.Table], others: list[pa.Table]) -> bool:
    """Return whether tables hold the same rows, in any order."""
    one, other = (sorted((row for part in parts for row in part.to_pylist()), key=repr) for parts in (some, others))
    return one == other


def by_position(table: TableState) -> list[Any]:
    """Return the rows of a merge-on-read table, without the base rows at the positions that logs name."""
    schema = read_table_schema(table)
    assert schema
    rules, found = build_merge_rules(table, schema), []
    for one in (one for its in list_merged_slices(table).values() for one in its):
        touched = touched_positions(one, scan_slice(table.storage, one, rules.times))
        if touched is None or one.base_file is None:
            parts = list(read_merged_rows(table.storage, one, rules, COLUMNS))
        else:
            base = pq.ParquetFile(one.base_file.path).read(columns=list(COLUMNS))
            kept = [at not in set(touched.tolist()) for at in range(base.num_rows)]
            others = base.filter(pa.array(kept, pa.bool_()))
            parts = [others, *read_log_rows(table.storage, one, rules, COLUMNS)]
            assert same_rows(parts, [others, *read_touched_rows(table.storage, one, rules, COLUMNS)])
        found += [tuple(row.values()) for part in parts for row in part.to_pylist()]
    return sorted(found, key=repr)


@pytest.mark.parametrize("sizes", SIZES, ids=["new groups", "small files"])
def test_both_kinds_of_table_and_a_dictionary_agree(spark: Any, folder: Path, sizes: dict[str, Any]) -> None:
    runner = Runner(spark)
    run_state_machine_as_test(
        lambda: History(runner, folder, sizes),
        settings=settings(
            max_examples=12,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to make a history smaller takes too long
        ),
    )
