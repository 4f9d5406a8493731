"""Tables of the published benchmark in other pages, between two marks, rendered from `docs/benchmarks/results.json`.

    python -m bench.figures

Run it after a benchmark was published. A test fails if a page says something else than the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.report import Results, ratio

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "benchmarks" / "results.json"

#: The size that the pages name; results of another size do not belong there.
ROWS, PARTITIONS = 5_000_000, 1_000
SPEED = {
    "W1": "bulk insert of 5 million rows",
    "W2": "upsert of 10 % over all files",
    "W17": "the same in one partition of 40 files",
    "W5": "upsert of 1,000 rows in one partition",
    "W13": "delete of 1 % over all files",
    "W14": "clustering with a sort",
    "W6": "merge-on-read upsert of 10 %",
    "W8": "query over its logs, after a second one",
    "W10": "compaction of everything",
    "W12": "incremental read of one commit",
    "W11a": "query over all rows, copy-on-write",
    "W15a": "bulk insert into 1,000 partitions",
    "W15c": "count of one of these partitions",
}
#: The lines that are also shown for rows out of a Spark plan, and what the second line says. The other engines read their input
#: through a Spark plan in every case, so both lines show the same run of them.
THROUGH_SPARK = {
    "W1": "bulk insert, rows out of a Spark plan",
    "W2": "upsert of 10 %, rows out of a Spark plan",
    "W6": "merge-on-read upsert, rows out of a Spark plan",
}
#: The engine that was measured with rows out of a Spark plan, by the column of the table.
THROUGH_SPARK_ENGINES = {"penstock": None, "penstock43": "penstockjvm"}
SPEED_ENGINES = {
    "penstock": "Penstock, Spark 3.5",
    "penstock43": "Penstock, Spark 4.3",
    "hudi015": "Hudi 0.15",
    "hudi12": "Hudi 1.2",
    "delta": "Delta 3.3",
    "iceberg": "Iceberg 1.10",
}
#: What is done, on a copy-on-write table and on a merge-on-read one.
KINDS = {
    "upsert of 10 % of the rows, over all files": ("W3", "W6"),
    "upsert of 1,000 rows, over all files": ("", "W16"),
    "aggregation over all rows, after two such upserts": ("W11a", "W8"),
    "the same, read-optimized: without the newest rows": ("", "W9"),
    "compaction of everything": ("", "W10"),
}


def speed(results: Results) -> str:
    """Return a table of times divided by the limit's, one line per workload."""
    lines = [f"| | {' | '.join(SPEED_ENGINES.values())} |", "| --- |" + " ---: |" * len(SPEED_ENGINES)]
    for step, what in SPEED.items():
        lines.append(_speed_line(results, step, what, list(SPEED_ENGINES)))
        if step in THROUGH_SPARK:
            engines = [THROUGH_SPARK_ENGINES.get(engine, engine) for engine in SPEED_ENGINES]
            lines.append(_speed_line(results, step, THROUGH_SPARK[step], engines))
    return "\n".join(lines)


def _speed_line(results: Results, step: str, what: str, engines: Sequence[str | None]) -> str:
    """Return a line of the speed table. A cell is empty for None, and for an engine that was not measured."""
    found = (ratio(results, engine, "limit", step) if engine else None for engine in engines)
    return f"| {what} | {' | '.join('' if r is None else f'{r:.1f}' for r in found)} |"


def kinds(results: Results) -> str:
    """Return a table of seconds on both kinds of table, and Hudi's on merge-on-read."""
    lines = ["| | copy-on-write | merge-on-read | Hudi 0.15, merge-on-read |", "| --- | ---: | ---: | ---: |"]
    for what, steps in KINDS.items():
        cells = [_seconds(results, "penstock43", step) for step in steps] + [_seconds(results, "hudi015", steps[1])]
        lines.append(f"| {what} ({', '.join(filter(None, steps))}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def _seconds(results: Results, engine: str, step: str) -> str:
    found = results.get(engine, {}).get(step, {})
    return f"{found['s']:.1f}" if found.get("status") == "ok" else ""


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "README.md": ("speed", speed),
    "docs/table-types.md": ("kinds of table", kinds),
}


def refreshed(page: str, text: str, results: Results) -> str:
    """Return a page with its table rendered again."""
    name, make = TABLES[page]
    begin, end = f"<!-- {name}, by bench.figures: begin -->", f"<!-- {name}, by bench.figures: end -->"
    found, times = re.subn(f"(?s){re.escape(begin)}.*{re.escape(end)}", lambda _: f"{begin}\n{make(results)}\n{end}", text)
    if times != 1:
        raise ValueError(f"{page} has no place for the table: {begin} and {end}")
    return found


def published() -> Results:
    """Return the results that are in the documentation.

    Raises:
        ValueError: the results are of another size than the pages name.
    """
    content = json.loads(RESULTS.read_text())
    if (content["conditions"]["rows"], content["conditions"]["partitions"]) != (ROWS, PARTITIONS):
        raise ValueError(f"{RESULTS} is not of {ROWS:,} rows and {PARTITIONS:,} partitions, which README.md and docs name")
    found: Results = content["results"]
    return found


def main() -> None:
    """Write the tables of all pages again."""
    results = published()
    for page in TABLES:
        text = (ROOT / page).read_text()
        new = refreshed(page, text, results)
        (ROOT / page).write_text(new)
        print(f"{page}: {'unchanged' if new == text else 'written again'}")


if __name__ == "__main__":
    main()
