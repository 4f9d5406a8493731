"""A small table of taxi trips: created, changed, read back and inspected. `make demo` runs it in a temporary folder.

`tell` is the demo itself and needs a Spark session and a folder; the other functions set both up and hide Spark's messages.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table as RichTable

import penstock

COLUMNS = "id string, city string, driver string, fare double, ts long"
TRIPS = [
    ("t1", "berlin", "Ada", 19.10, 100),
    ("t2", "berlin", "Bo", 27.70, 101),
    ("t3", "berlin", "Cleo", 33.90, 102),
    ("t4", "paris", "Dora", 93.50, 103),
    ("t5", "paris", "Emil", 17.85, 104),
    ("t6", "tokyo", "Fumi", 41.00, 105),
]
CHANGES = [
    ("t2", "berlin", "Bo", 25.00, 200),  # a fare put right
    ("t6", "tokyo", "Fumi", 44.50, 201),  # another
    ("t7", "paris", "Gil", 12.30, 202),  # a trip that is new
]


def tell(spark: Any, folder: Path, out: Console) -> None:
    """Run the demo: create, upsert, delete, travel back in time, inspect."""
    path = str(folder / "trips")

    step(out, "1  Create", "An empty table: a row per id, a folder per city, and the newest ts wins.")
    table = penstock.Table.create(path, COLUMNS, name="trips", record_key="id", partition_by="city", ordering="ts", spark=spark)
    out.print(f"{table.name}: {table.schema.simpleString()}")

    step(out, "2  Bulk insert", "Six trips go straight to new files, in one commit.")
    first = table.bulk_insert(spark.createDataFrame(TRIPS, COLUMNS), sort_mode="GLOBAL_SORT")
    out.print(first, soft_wrap=True)
    before = rows_of(table.read())
    show_rows(out, "Trips", before)

    step(
        out,
        "3  Plan an upsert",
        "Three rows are to come, one of them new. What would that cost?",
    )
    changes = spark.createDataFrame(CHANGES, COLUMNS)
    out.print(str(table.plan_upsert(changes)), highlight=False, soft_wrap=True)

    step(
        out,
        "4  Upsert",
        "Touched files are read once, merged, and written as new versions.",
    )
    out.print(table.upsert(changes), soft_wrap=True)
    after = rows_of(table.read())
    show_rows(out, "Before and after", before, after)

    step(out, "5  Delete", "All trips in Paris go, by their keys.")
    out.print(table.delete(table.read().where("city = 'paris'")))
    before, after = after, rows_of(table.read())
    show_rows(out, "Before and after", before, after)

    step(out, "6  Time travel", "Old versions are still there: the table as the first commit left it.")
    then, now = table.read(as_of=first).count(), table.read().count()
    out.print(f"{then} trips as of {first.instant}, {now} now")

    step(out, "7  History", "Everything that happened, from the timeline in .hoodie.")
    out.print(table.history())

    step(out, "8  Files", "What a read of the table opens now, one file for each file group.")
    out.print(table.files())

    step(out, "9  Plain Spark", "The same table through spark.read.format('hudi'), with an aggregate.")
    cities = spark.read.format("hudi").load(path).groupBy("city").agg({"id": "count", "fare": "sum"}).orderBy("city")
    show_cities(out, cities.collect())


def step(out: Console, title: str, says: str) -> None:
    """Print the title of a step."""
    out.print()
    out.print(Rule(f"[bold]{title}", align="left", style="dim"))
    out.print(says, style="italic")


def rows_of(frame: Any) -> dict[str, tuple[Any, ...]]:
    """Return the trips of a DataFrame by id."""
    rows = frame.select("id", "city", "driver", "fare", "ts").orderBy("id").collect()
    return {row.id: tuple(row) for row in rows}


def show_rows(out: Console, title: str, before: dict[str, Any], after: dict[str, Any] | None = None) -> None:
    """Print trips as a table; with `after`, with the change of each."""
    table = RichTable(title=title, title_justify="left")
    for name in ("id", "city", "driver", "fare", "ts"):
        table.add_column(name, justify="right" if name in ("fare", "ts") else "left")
    if after is not None:
        table.add_column("")
    for key in sorted({**before, **(after or {})}):
        old, new = before.get(key), (before if after is None else after).get(key)
        what, style = ("", None) if old == new else NEWS[old is None, new is None]
        if what == "updated":
            table.add_row(*texts(old, new), what, style=style)
        else:
            table.add_row(*texts(new or old), *([what] if after is not None else []), style=style)
    out.print(table)


#: (was not there, is not there) → what happened, and its colour.
NEWS = {(True, False): ("inserted", "green"), (False, True): ("deleted", "red strike"), (False, False): ("updated", "yellow")}


def texts(row: Any, changed: Any = None) -> list[str]:
    """Return a trip's cells; where `changed` differs, both values."""
    both = zip(row, changed or row, strict=True)
    return [cell(old) if old == new else f"{cell(old)} → {cell(new)}" for old, new in both]


def cell(value: Any) -> str:
    """Return a value as people write it."""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def show_cities(out: Console, rows: list[Any]) -> None:
    """Print the sums of each city."""
    table = RichTable()
    table.add_column("city")
    table.add_column("trips", justify="right")
    table.add_column("fares", justify="right")
    for row in rows:
        table.add_row(row["city"], str(row["count(id)"]), cell(row["sum(fare)"]))
    out.print(table)


@contextmanager
def messages_to(log: Path) -> Iterator[None]:
    """Redirect the messages of the block to a file, those of the JVM too, which a demo should not show."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)


def start(log: Path) -> Any:
    """Start a local Spark session with Penstock. Its messages are shown only if it does not start."""
    config = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "2"}
    try:
        with messages_to(log):
            spark = penstock.session(master="local[2]", app_name="penstock demo", config=config)
    except Exception:
        sys.stderr.write(log.read_text(errors="replace"))
        raise
    ours = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("penstock:")]
    sys.stderr.writelines(f"{line}\n" for line in ours)
    return spark


def main() -> None:
    """Set up, run the demo, clean up."""
    began, out = time.monotonic(), Console()
    out.print("[bold]Penstock[/bold]: Apache Hudi tables in Python, on Spark, without a Hudi jar.")
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        with out.status("Starting a local Spark session"):
            spark = start(Path(folder, "spark.log"))
        out.print(f"PySpark {spark.version}, table in {folder}")
        try:
            tell(spark, Path(folder), out)
        finally:
            spark.stop()
    out.print(f"\nDone in {time.monotonic() - began:.0f} s; the folder is gone again. The README goes on from here.")


if __name__ == "__main__":
    main()
