"""Ctrl-C during a write or a table service: a real signal, to a program in a process of its own or to this one."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.spark.java import use_java
from penstock.storage import LocalStorage
from tests.kit.plain import pending
from tests.table.tables import OPERATION, TRIPS, trips, write
from tests.table.test_worker_python import OWN_SESSION, WRITE_AND_READ, run_program

#: A second write whose rows never come: the file `begun` says that its task runs.
SLOW_WRITE = """
def slow(batches):
    import time
    for batch in batches:
        open("begun", "w").close()
        time.sleep(600)
        yield batch
rows.mapInArrow(slow, rows.schema).write.format("hudi").options(**options).mode(mode).save("table")
"""


#: A compaction whose tasks never end. Two rows of a key are merged by a function that sleeps once `begun` may be created.
SLOW_COMPACTION = """
@penstock.payload("slow")
def slow(old, new):
    import os, time
    if os.path.exists("slow"):
        open("begun", "w").close()
        time.sleep(600)
    return new
penstock.enable(spark)
options = {
    "hoodie.table.name": "trips", "hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.datasource.write.payload.class": "slow",
    "hoodie.compact.inline": "false", "penstock.small.batch.bytes": "0",
}
for ts in (1, 2):
    spark.sql(f"select 'a' as id, {ts} as ts").write.format("hudi").options(**options).mode("append").save("table")
open("slow", "w").close()
penstock.Table.open("table", spark, options={"penstock.small.batch.bytes": "0"}).compact()
"""


def interrupt(program: str, folder: Path) -> str:
    """Run a program, send it Ctrl-C when the file `begun` is there, and return the line of its KeyboardInterrupt."""
    use_java()
    log = folder / "log"
    with log.open("w") as err:
        job = subprocess.Popen([sys.executable, "-c", program], cwd=folder, stdout=subprocess.DEVNULL, stderr=err)
    try:
        while not (folder / "begun").exists():
            assert job.poll() is None, log.read_text()
            time.sleep(0.1)
        job.send_signal(signal.SIGINT)
        assert job.wait(timeout=120) == -signal.SIGINT, log.read_text()
    finally:
        job.kill()
        job.wait()
    said = log.read_text()
    assert said.count("Traceback") == 1, said
    assert "py4j" not in said, said
    (line,) = [line for line in said.splitlines() if line.startswith("KeyboardInterrupt")]  # Spark's log may follow
    return line


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_ctrl_c_ends_a_write_in_a_keyboard_interrupt_that_says_what_became_of_it(tmp_path: Path, mode: str) -> None:
    program = OWN_SESSION + WRITE_AND_READ.replace("(1, 2)", "(1,)")
    program += "\nimport pathlib\nfiles = sorted(map(str, pathlib.Path('table').rglob('*.parquet')))\n"
    program += "open('files', 'w').write(repr(files))\n"
    line = interrupt(program + f"mode = {mode!r}" + SLOW_WRITE, tmp_path)
    assert line.endswith("table is as it was before")
    assert [file.name for file in (tmp_path / "table" / ".hoodie").glob("*.inflight")] != []
    assert len(list((tmp_path / "table" / ".hoodie").glob("*.requested"))) == 1
    files = sorted(str(file.relative_to(tmp_path)) for file in (tmp_path / "table").rglob("*.parquet"))
    assert repr(files) == (tmp_path / "files").read_text()
    assert [file.name for file in tmp_path.iterdir() if "table" in file.name] == ["table"]


def test_ctrl_c_in_the_first_write_of_a_table_leaves_no_table_and_the_write_can_be_repeated(tmp_path: Path) -> None:
    """The table is created by the write that is interrupted."""
    first = WRITE_AND_READ.replace("(1, 2)", "()").partition("print(")[0]
    rows = "rows = spark.sql(\"select 'a' as id, 1 as ts\")\n"
    line = interrupt(OWN_SESSION + first + rows + "mode = 'append'" + SLOW_WRITE, tmp_path)
    assert "was interrupted" in line
    assert not (tmp_path / "table" / ".hoodie" / "hoodie.properties").exists(), line
    assert list(tmp_path.rglob("*.parquet")) == []
    again = "rows.write.format('hudi').options(**options).mode('append').save('table')\n"
    again += "print(spark.read.format('hudi').load('table').count())\n"
    done = run_program(OWN_SESSION + first + rows + again, tmp_path)
    assert done.stdout.splitlines()[-1:] == ["1"], done.stderr


def test_ctrl_c_ends_a_compaction_in_a_keyboard_interrupt_and_its_plan_stays(tmp_path: Path) -> None:
    line = interrupt(OWN_SESSION + SLOW_COMPACTION, tmp_path)
    assert "run of compaction plan" in line
    assert line.endswith("was interrupted and rolled back. The plan stays, and the next run of the service resumes it")
    names = [file.name for file in (tmp_path / "table" / ".hoodie").iterdir()]
    assert len([name for name in names if name.endswith(".compaction.requested")]) == 1
    assert not any(name.endswith(".compaction.inflight") for name in names)
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 1


@pytest.fixture
def table(spark: Any, table_path: str) -> penstock.Table:
    """Five commits and a savepoint of the third."""
    for ts in range(1, 6):
        write(
            trips(spark, ("a", "berlin", ts, 1.0)), table_path, {**TRIPS, OPERATION: "upsert", "hoodie.clean.automatic": "false"}
        )
        if ts == 3:
            penstock.Table.open(table_path, spark).savepoint()
    return penstock.Table.open(table_path, spark)


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Returns a function that makes the next call of a storage's method for a path with this ending press Ctrl-C first."""

    def arm(method: str, ending: str) -> None:
        call = getattr(LocalStorage, method)
        pressed: list[bool] = []

        def press(self: Any, path: str, *arguments: Any) -> Any:
            if path.endswith(ending) and not pressed:
                pressed.append(True)
                signal.raise_signal(signal.SIGINT)
            return call(self, path, *arguments)

        monkeypatch.setattr(LocalStorage, method, press)

    return arm


CLEAN = {"hoodie.cleaner.commits.retained": 1}
ARCHIVE = {**CLEAN, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.archive.beyond.savepoint": "true"}
CLUSTER = {"hoodie.clustering.plan.strategy.single.group.clustering.enabled": "true"}


@pytest.mark.parametrize(
    ("service", "method", "ending", "line", "left"),
    [
        (lambda t, saved, last: t.clean(CLEAN), "delete", ".parquet", "Its plan stays, and the next clean finishes it", "clean.inflight"),
        (lambda t, saved, last: t.run_due(CLEAN), "delete", ".parquet", "and the next clean finishes it", "clean.inflight"),
        (lambda t, saved, last: t.rollback(last), "delete", ".parquet", "and the next write finishes it", "rollback.inflight"),
        (lambda t, saved, last: t.restore(saved), "delete", ".parquet", "until then writes are refused", "restore.inflight"),
        (lambda t, saved, last: t.archive(ARCHIVE), "delete", ".commit", "the next run of 'archive' finishes what is left", ""),
        (lambda t, saved, last: t.cluster(options=CLUSTER), "create", ".parquet", "the next run of the service resumes it", "replacecommit.requested"),
    ],
    ids=["clean", "run_due", "rollback", "restore", "archive", "cluster"],
)  # fmt: skip
def test_ctrl_c_ends_a_service_in_a_line_on_what_became_of_it(
    spark: Any,
    table: penstock.Table,
    interrupt_at: Callable[[str, str], None],
    service: Callable[[penstock.Table, str, str], object],
    method: str,
    ending: str,
    line: str,
    left: str,
) -> None:
    instants = [commit.instant for commit in reversed(table.history()) if commit.action == "commit"]
    before = signal.getsignal(signal.SIGINT)
    interrupt_at(method, ending)
    with pytest.raises(KeyboardInterrupt) as raised:
        service(table, instants[2], instants[-1])
    assert str(raised.value).endswith(line)
    assert str(raised.value).count("\n") == 0
    assert signal.getsignal(signal.SIGINT) is before
    assert any(name.endswith(left) for name in pending(table.path)) == bool(left)
    if "rollback" not in left:
        service(table, instants[2], instants[-1])
    table.upsert(trips(spark, ("a", "berlin", 9, 1.0)))  # finishes a rollback
    assert pending(table.path) == []
