"""The program that runs services of a merge-on-read table, concurrently with a writer, until Ctrl-C in the middle of its work."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import penstock
from penstock.services.file_check import check_files
from penstock.table.state import open_table
from penstock.timeline.instant import Action
from tests.kit.plain import pending, plain_rows
from tests.table.tables import OPERATION, TRIPS, timeline, trips, write
from tests.unit.cli.test_services import penstock as program
from tests.unit.cli.test_services import run_penstock as run_program

OPTIONS = {
    **TRIPS,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
}
SERVED = {
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
SECONDS_MAX = 240


def rows(number: int) -> list[tuple[Any, ...]]:
    return [("a", "berlin", number, 1.5 * number), ("b", "paris", number, 2.5 * number)]


def test_services_run_concurrently_with_a_writer_until_ctrl_c(spark: Any, table_path: str) -> None:
    def upsert(number: int) -> None:
        write(trips(spark, *rows(number)), table_path, {**OPTIONS, OPERATION: "upsert"})
        assert plain_rows(table_path) == rows(number)

    def is_done() -> bool:
        names = timeline(table_path)
        archived = Path(table_path, ".hoodie", "archived")
        compacted = [i for i in open_table(table_path).timeline.filter(Action.COMMIT) if i.is_completed]
        return any(n.endswith(".clean") for n in names) and bool(compacted) and archived.is_dir() and any(archived.iterdir())

    upsert(1)
    given = [word for key, value in SERVED.items() for word in ("-o", f"{key}={value}")]
    process = program("services", "run", table_path, "--interval", "0.1", *given)
    try:
        number, deadline = 1, time.monotonic() + SECONDS_MAX
        while not is_done() and time.monotonic() < deadline and process.poll() is None:
            number += 1
            upsert(number)
        assert is_done(), process.communicate(timeout=5) if process.poll() is not None else number
        upsert(number + 1)  # so that there is something to do when the signal comes
    finally:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode in (0, 130), "stopped" in said) == (True, True), said
    assert "plans run" in said
    upsert(number + 2)  # rolls back what a write might have left; a service's plan waits for the next service
    ran = penstock.Table.open(table_path, spark).run_due(SERVED)
    assert [run.error for run in ran] == [None] * len(ran)
    assert (plain_rows(table_path), pending(table_path)) == (rows(number + 2), [])
    assert check_files(open_table(table_path)) == []


def test_the_program_repairs_a_table_with_a_damaged_log(spark: Any, table_path: str) -> None:
    for number in (1, 2):
        write(trips(spark, *rows(number)), table_path, {**OPTIONS, OPERATION: "upsert"})
    (log,) = Path(table_path, "berlin").glob(".*.log.*[0-9]")
    log.write_bytes(log.read_bytes()[:-30])
    code, text = run_program("services", "repair", table_path)
    assert (code, "up to 1" in text, "compact: " in text) == (0, True, True), text
    assert plain_rows(table_path) == [rows(1)[0], rows(2)[1]]
    code, text = run_program("services", "repair", table_path, "--dry-run")
    assert (code, "no log file is damaged" in text) == (0, True), text
