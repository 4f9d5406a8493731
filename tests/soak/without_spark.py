"""Writes and reads without Spark, so that sixteen processes need no JVM: what Spark would compute of the rows is computed once, before processes are forked.

A write goes through `door/write.py` and a query through `door/read.py`, unchanged. Only the evaluation of the DataFrame is replaced: a prepared batch of
rows, whose columns are filled with the rows of the write. All tasks run in the writer's process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from penstock.door import read as door_read
from penstock.door import write as door_write
from penstock.filegroup.slice_rows import read_merged_rows
from penstock.options import Options
from penstock.read.plan import QueryPlan
from penstock.read.query import parse_query
from penstock.table.merge_rules import build_merge_rules
from penstock.table.state import open_table, read_table_schema
from penstock.workers import run_kernels
from penstock.workers.results import decode_result, encode_results
from penstock.workers.run_kernels import TaskIdentity
from penstock.write.rows.schema import prepare_rows

SCHEMA = "id string, part string, ts long, tokens array<int>"
#: A row: key, partition, ordering value, tokens.
Row = tuple[str, str, int, list[int]]
NOTHING: Any = None


class Engine:
    """Writes and reads tables of tokens. Made once, before processes are forked, because it asks Spark for the form of the rows."""

    def __init__(self, spark: Any, folder: Path, options: dict[str, str]) -> None:
        self._spark = spark
        self._frame = spark.createDataFrame([("k", "p", 0, [0])], SCHEMA)
        self._prepared: dict[tuple[str, str | None], Any] = {}
        #: The evaluated template row of each prepared DataFrame.
        self._templates: dict[int, pa.Table] = {}
        self._rows: Sequence[Row] = ()
        for number, kind in enumerate(("COPY_ON_WRITE", "MERGE_ON_READ")):
            alone = {key: value for key, value in options.items() if "concurrency" not in key and "lock" not in key}
            for _ in range(2):  # the first write prepares rows for a table without schema, the second for one with
                path = str(folder / f"warm-{number}")
                self.write([("k", "p", 0, [0])], path, {**alone, "hoodie.datasource.write.table.type": kind})

    def write(self, rows: Sequence[Row], path: str, options: dict[str, str]) -> None:
        """Upsert rows."""
        self._rows = rows
        with self._without_tasks():
            door_write.write(self._spark, self._frame, path, options, "append")

    def read(self, path: str) -> tuple[list[tuple[str, list[int]]], ...]:
        """Query the table. Return key and tokens of all rows, as two scans of the query's files found them."""
        query = parse_query([path], Options({}))
        with (
            patch.object(door_read, "scan", _scan_twice),
            patch.object(door_read, "find_frame", lambda *_: None),
            patch.object(door_read, "keep_frame", lambda *_: None),
        ):
            found: Any = door_read.open_query(NOTHING, query, open_table(path))
        scans: tuple[list[tuple[str, list[int]]], ...] = found
        return scans

    def _without_tasks(self) -> ExitStack:
        """Replace what asks the JVM."""
        patches = ExitStack()
        patches.enter_context(patch("penstock.door.write.prepare_rows", self._prepare))
        patches.enter_context(patch("penstock.write.rows.input_files.run_over_rows", self._run_over_rows))
        patches.enter_context(patch("penstock.door.write.name_jobs", lambda spark, name: nullcontext()))
        patches.enter_context(patch("penstock.door.services.name_jobs", lambda spark, name: nullcontext()))
        return patches

    def _prepare(self, incoming: Any, settings: Any, table_schema: str | None) -> Any:
        key = (settings.operation, table_schema)
        if key not in self._prepared:
            prepared = prepare_rows(incoming, settings, table_schema)
            self._prepared[key] = prepared
        return self._prepared[key]

    def _run_over_rows(self, rows: Any, kernel: Callable[[Iterator[pa.RecordBatch]], Any], returns: Any) -> list[Any]:
        """Run a kernel over the rows of the write, in the form of the template."""
        if id(rows) not in self._templates:
            self._templates[id(rows)] = rows.toArrow()
        batch = self._fill(self._templates[id(rows)])
        run_kernels._local.identity = TaskIdentity(0, "0-1-0")
        try:
            texts = encode_results(partial(kernel, iter(batch.to_batches())))
            return [decode_result(text, returns) for text in texts]
        finally:
            run_kernels._local.identity = None

    def _fill(self, template: pa.Table) -> pa.Table:
        """Return a table like the template, with the rows of the write. Columns that Spark adds hold the key and the partition."""
        by_value = {"k": 0, "p": 1, 0: 2}
        columns = []
        for column in template.schema:
            value = template[column.name][0].as_py()
            at = 3 if isinstance(value, list) else by_value[value]
            columns.append(pa.array([row[at] for row in self._rows], column.type))
        return pa.table(columns, schema=template.schema)


def _scan_twice(spark: Any, plan: QueryPlan) -> Any:
    """Read the rows of a plan twice."""
    schema = read_table_schema(plan.table)
    assert schema is not None
    rules = build_merge_rules(plan.table, schema)
    scans: list[list[tuple[str, list[int]]]] = [[], []]
    for scan in scans:
        for file_slice in plan.all_slices:
            for rows in read_merged_rows(plan.table.storage, file_slice, rules, ("id", "tokens")):
                scan += zip(rows["id"].to_pylist(), rows["tokens"].to_pylist(), strict=True)
    return tuple(scans)
