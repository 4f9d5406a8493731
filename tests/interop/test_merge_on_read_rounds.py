"""One merge-on-read table: Penstock and real Hudi 0.15 write, die, schedule and compact in turn.

A model in plain Python says after every round which rows a snapshot has and which the base files alone have; both engines must
find exactly these by both views. In the end Hudi 1.2 and hudi-rs find the same, and Hudi 1.2 runs a plan of ours. The ordering
values go up, so that every reader means the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from tests.interop.sides import INDEX, OPERATION, TRIPS, Penstock, Row, timeline, trips, trips_of
from tests.kit.faults import Crash, FaultPlan, injected
from tests.kit.oracle import TABLE_VERSION_6, Oracle
from tests.kit.plain import pending
from tests.kit.readers import hudi_rs_rows

pytestmark = pytest.mark.oracle

MOR = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
    INDEX: "SIMPLE",
}
BLOCKS = "hoodie.logfile.data.block.format"
VIEWS = ("snapshot", "read_optimized")


def found_by(read: Callable[[dict[str, str]], pa.Table], view: str) -> list[Row]:
    return trips_of(read({"hoodie.datasource.query.type": view}))


@dataclass
class Shared:
    """A table that both engines write, and the rows that must be in it."""

    path: str
    us: Penstock
    hudi: Oracle
    rows: dict[str, Row] = field(default_factory=dict)
    #: What base files hold, and what they will hold when the plan that waits has run.
    base: dict[str, Row] = field(default_factory=dict)
    planned: dict[str, Row] | None = None

    def write(self, who: str, operation: str, *rows: Row, blocks: str = "avro", **more: str) -> None:
        """Write rows: new keys go to base files, all others to logs."""
        options = {**TRIPS, **MOR, OPERATION: operation, BLOCKS: blocks, **more}
        side = self.us if who == "us" else self.hudi
        side.write(self.path, trips(*rows), options)
        for row in rows:
            if operation == "delete":
                self.rows.pop(row[0], None)
                continue
            if row[0] not in self.rows and row[0] not in self.base:
                self.base[row[0]] = row
                if self.planned is not None:
                    self.planned[row[0]] = row
            self.rows[row[0]] = row

    def break_off(self, who: str, *rows: Row) -> None:
        """Let a write die before it is published, when all its files exist."""
        options = {**TRIPS, **MOR, OPERATION: "upsert"}
        if who == "us":
            plan = FaultPlan(f"{self.path}-plan-{len(timeline(self.path))}", match=r"^write_new .*\.deltacommit$")
            with injected(plan), pytest.raises(Crash):
                self.us.write(f"crash:{self.path}", trips(*rows), options)
        else:
            self.hudi.write(self.path, trips(*rows), options)
            last = max(name for name in timeline(self.path) if name.endswith(".deltacommit"))
            for name in (last, f".{last}.crc"):  # as if it had died right before; its markers are gone by then
                Path(self.path, ".hoodie", name).unlink(missing_ok=True)

    def plan(self, who: str) -> None:
        before = len(self.plans())
        if who == "us":
            self.table().schedule_compaction()
        else:
            self.call("schedule")
        assert len(self.plans()) == before + 1
        self.planned = dict(self.rows)

    def run_plan(self, who: str) -> None:
        if who == "us":
            self.table().compact(self.plans()[0])
        else:
            self.call("execute")
        assert self.plans() == []
        assert self.planned is not None
        self.base, self.planned = self.planned, None

    def plans(self) -> list[str]:
        return [plan.instant for plan in self.table().pending_compactions()]

    def table(self) -> penstock.Table:
        return penstock.Table.open(self.path, self.us.spark)

    def call(self, op: str) -> None:
        options = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"
        if self.hudi.hudi.startswith("1."):
            options += "".join(f",{key}={value}" for key, value in TABLE_VERSION_6.items())
        self.hudi.sql(f"CALL run_compaction(op => '{op}', path => '{self.path}', options => '{options}')")

    def agree(self, when: str) -> None:
        """Check that both engines find the model's rows in both views."""
        expected = {"snapshot": sorted(self.rows.values()), "read_optimized": sorted(self.base.values())}
        for view in VIEWS:
            assert found_by(self.read_by_us, view) == expected[view], f"{when}: we, {view}"
            assert found_by(lambda o: self.hudi.read(self.path, o), view) == expected[view], f"{when}: Hudi, {view}"

    def read_by_us(self, options: dict[str, str]) -> pa.Table:
        found: pa.Table = self.us.spark.read.format("hudi").options(**options).load(self.path).toArrow()
        return found


def test_ten_rounds_by_both_engines_in_turn_leave_the_same_rows_in_both_views(
    us: Penstock, hudi015: Oracle, hudi12: Oracle, table_path: str
) -> None:
    one = Shared(table_path, us, hudi015)
    one.write("us", "bulk_insert", *((f"k{i}", "xyz"[i % 3], 1, float(i)) for i in range(9)))
    one.write("hudi", "upsert", ("k0", "x", 2, 2.0), ("k1", "y", 2, 2.0), ("n1", "x", 2, 2.0))
    one.agree("1: Hudi appends Avro to our files")
    one.write("us", "upsert", ("k0", "x", 3, 3.0), ("k2", "z", 3, 3.0), ("n1", "x", 3, 3.0), blocks="parquet")
    one.agree("2: we append Parquet behind it")
    one.write("hudi", "delete", ("k3", "x", 0, 0.0), ("k2", "z", 0, 0.0), ("no", "z", 0, 0.0), blocks="parquet")
    one.agree("3: Hudi deletes")
    one.plan("hudi")
    one.write("us", "upsert", ("k3", "x", 5, 5.0), ("k4", "y", 5, 5.0), ("n2", "w", 5, 5.0))
    one.agree("4: we append while a compaction that Hudi planned is pending; a deleted key comes back")
    one.run_plan("us")
    one.write("hudi", "upsert", ("k0", "x", 6, 6.0), ("n2", "w", 6, 6.0), blocks="parquet")
    one.agree("5: we ran it, and Hudi goes on")
    one.break_off("us", ("k0", "x", 7, -7.0), ("k5", "z", 7, -7.0), ("lost", "x", 7, -7.0))
    with pytest.warns(RuntimeWarning, match="is under way, or died"):
        assert one.table().schedule_compaction() is None
    one.call("schedule")
    assert one.plans() == [], "neither plans a compaction while an earlier write is not finished"
    one.agree("6: a write of ours died")
    one.write("hudi", "upsert", ("k5", "z", 8, 8.0), ("k6", "x", 8, 8.0))
    one.write("us", "delete", ("k1", "y", 0, 0.0), blocks="parquet")
    one.agree("7: Hudi undid it, and we delete")
    one.plan("us")
    one.break_off("hudi", ("k7", "y", 9, -9.0), ("k0", "x", 9, -9.0), ("lost", "x", 9, -9.0))
    one.agree("8: a compaction of ours is planned, and a write of Hudi died on top of it")
    one.write("us", "upsert", ("k7", "y", 10, 10.0), blocks="parquet", **{"hoodie.rollback.using.markers": "false"})
    one.run_plan("hudi")
    one.agree("9: we undid it, and Hudi ran our plan")
    one.write("hudi", "upsert", ("k8", "z", 11, 11.0), ("k7", "y", 11, 11.0), ("n3", "w", 11, 11.0))
    one.table().compact_logs({"hoodie.log.compaction.blocks.threshold": 2})
    one.agree("10: we joined log blocks, and base files of both are below them")
    assert pending(table_path) == []
    assert found_by(lambda _: hudi_rs_rows(table_path), "snapshot") == sorted(one.rows.values()), "hudi-rs"
    one.plan("us")
    one.write("us", "delete", ("k8", "z", 0, 0.0))
    newer = Shared(table_path, us, hudi12, one.rows, one.base, one.planned)
    newer.agree("in the end: Hudi 1.2")
    newer.run_plan("hudi")
    newer.agree("in the end: Hudi 1.2 has run a plan of ours")
    one.base = newer.base
    one.agree("in the end: and Hudi 0.15 goes on with that")
    assert list(one.table().check_files()) == []


@pytest.mark.parametrize("more", [{BLOCKS: "hfile"}, {"hoodie.populate.meta.fields": "false"}], ids=["HFile blocks", "no meta"])
def test_logs_that_only_hudi_writes_are_read_and_compacted(us: Penstock, hudi015: Oracle, table_path: str, more: Any) -> None:
    one = Shared(table_path, us, hudi015)
    one.write("hudi", "bulk_insert", *((f"k{i}", "xy"[i % 2], 1, float(i)) for i in range(4)), **more)
    one.write("hudi", "upsert", ("k0", "x", 2, 2.0), ("k1", "y", 2, 2.0), ("k2", "x", 2, 2.0), **more)
    one.write("hudi", "delete", ("k2", "x", 0, 0.0), ("k3", "y", 0, 0.0), **more)
    one.agree("logs of Hudi")
    one.plan("us")
    one.run_plan("us")
    one.agree("compacted by us")
