"""A table of local files without a timeline: the stages of a write run one after the other in this process, without Spark.

`Engine.write` runs the stages that `write/operations.py` runs between `begin` and `publish`. The write stats name the newest base
file of each file group; `rows` returns what a reader would see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from penstock.commit.markers import open_write
from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.key_footer import BloomSettings
from penstock.filegroup.markers import work_folder
from penstock.filegroup.model import BaseFile, FileSlice
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.index import Index
from penstock.index.bloom import BloomIndex
from penstock.index.simple import SimpleIndex
from penstock.merge.merger import Merger
from penstock.merge.overwrite import OverwriteWithLatest
from penstock.options.operation import Operation
from penstock.storage import LocalStorage, Storage, join
from penstock.timeline.commit_file import WriteStat
from penstock.workers.results import decode_result, encode_results
from penstock.workers.run_kernels import Result, Task
from penstock.workers.runner import Runner
from penstock.write.locate.file_group_tasks import plan_file_group_tasks
from penstock.write.locate.small_files import Sizing
from penstock.write.locate.task_plan import TaskPlan
from penstock.write.rows.crossing_columns import KEY, CrossingColumns
from penstock.write.rows.staging import Piece, Staging, _stage_batches
from penstock.write.tasks.task import UpsertRules
from penstock.write.tasks.task_rows import TaskRowsSettings
from penstock.write.tasks.upsert_kernel import run_task
from tests.kit.model import Row

SIMPLE = SimpleIndex()
BLOOM = BloomIndex()
GLOBAL_SIMPLE = SimpleIndex(is_global=True, moves_rows=True)
GLOBAL_BLOOM = BloomIndex(is_global=True, moves_rows=True)
INDEXES: tuple[Index, ...] = (SIMPLE, BLOOM, GLOBAL_SIMPLE, GLOBAL_BLOOM)

TRIPS = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
DELETABLE = TRIPS.append(pa.field("_hoodie_is_deleted", pa.bool_()))

ROOMY = Sizing(small_file_limit=1 << 20, max_file_bytes=1 << 20, record_bytes=1)
#: No file is small, and a new one takes two rows.
TIGHT = Sizing(small_file_limit=0, max_file_bytes=1 << 20, record_bytes=1, split_rows=2)
SMALL_BLOOM = BloomSettings(entries=100, max_entries=1_000, error_rate=1e-6)


def histories(*, rows_max: int, writes_max: int) -> st.SearchStrategy[list[tuple[str, list[Row]]]]:
    """Draw upserts and deletes of few keys, so that rows of one key meet in many ways."""
    row = st.tuples(
        st.sampled_from([f"k{n}" for n in range(6)]),
        st.sampled_from(["x", "y", "z"]),
        st.integers(0, 3),
        st.sampled_from(["p", "q"]),
        st.sampled_from([False, False, False, True]),
    )
    write = st.tuples(st.sampled_from(["upsert", "upsert", "delete"]), st.lists(row, max_size=rows_max))
    return st.lists(write, min_size=1, max_size=writes_max)


def table_of(schema: pa.Schema, *rows: Sequence[Any]) -> pa.Table:
    """Return a table of literals."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def trips(*rows: Sequence[Any]) -> pa.Table:
    """Return a table of (id, city, ts, v)."""
    return table_of(TRIPS, *rows)


def settings_at(folder: Path | str, schema: pa.Schema, instant: str = "001", **changes: Any) -> FileSettings:
    """Settings of an open write."""
    storage = LocalStorage()
    open_write(storage, str(folder), instant)
    return FileSettings(storage, str(folder), instant, schema, "{}", **{"codec": "snappy", "bloom": SMALL_BLOOM, **changes})


def write_base(settings: FileSettings, rows: pa.Table, path: str = "", *, key: str = "id", task: int = 0) -> BaseFile:
    """Write one base file of these rows."""
    writer = RollingWriter(TaskOutput(settings, task, f"{task}-0-0"), path)
    writer.write(rows, rows[key].cast(pa.string()))
    (stat,) = writer.close()
    return base_of(settings, stat)


def base_of(settings: FileSettings, stat: WriteStat) -> BaseFile:
    """Return the base file that a write stat describes."""
    return BaseFile(f"{settings.base_path}/{stat.path}", stat.file_id, settings.instant, stat.file_size_in_bytes)


def stage_pieces(
    settings: FileSettings, *tables: pa.Table, key: str = "id", path: str | None = None, numbered: bool = False
) -> tuple[Staging, list[Piece]]:
    """Stage rows, each table a batch of one task; `path` names the column with the partition path."""
    staging = Staging(settings.storage, join(work_folder(settings.base_path, settings.instant), "staged"))
    crossing = CrossingColumns(tables[0].schema, key, path, key_is_plain=True, path_is_plain=True)
    batches = (b for t in tables for b in t.to_batches())
    (staged,) = _stage_batches(crossing, staging, numbered, None, batches)
    return staging, list(staged.pieces)


def task_rows_settings(
    staging: Staging, ordering: str | None = "ts", memory: int = 1 << 30, folder: str = ""
) -> TaskRowsSettings:
    """Return how tasks load these staged rows."""
    return TaskRowsSettings(staging, ordering, memory, folder or staging.folder)


@dataclass(frozen=True)
class NotingRunner(Runner):
    """Runs kernels on the driver, and sends results through JSON as Spark tasks do."""

    #: The names of the kernels, in the order in which they ran.
    jobs: list[str] = field(default_factory=list)

    def run(self, kernel: Callable[[Task], Result], tasks: Sequence[Task], returns: type[Result]) -> list[Result]:
        """Run a kernel."""
        self.jobs.append(kernel.__name__)
        results = super().run(kernel, tasks, returns)
        texts = encode_results(lambda: results)
        return [decode_result(text, returns) for text in texts]


@dataclass
class Engine:
    """A table that is written without Spark."""

    folder: Path
    schema: pa.Schema = TRIPS
    index: Index = SIMPLE
    sizing: Sizing = ROOMY
    merger: Merger = field(default_factory=OverwriteWithLatest)
    ordering: str | None = "ts"
    memory: int = 1 << 30
    path: str | None = "city"
    groups: dict[tuple[str, str], BaseFile] = field(default_factory=dict)
    instant: int = 0
    task_plan: TaskPlan | None = None
    stats: list[WriteStat] = field(default_factory=list)
    #: The kernels that the last write ran, in order.
    jobs: list[str] = field(default_factory=list)

    @property
    def storage(self) -> Storage:
        """The storage of the table."""
        return LocalStorage()

    def write(
        self, rows: pa.Table, *, operation: Operation = Operation.UPSERT, batches: int = 1, **rules: Any
    ) -> list[WriteStat]:
        """Upsert rows, or run another operation; the rows arrive in this many batches."""
        self.instant += 1
        settings = settings_at(self.folder, self.schema, f"{self.instant:03}")
        size = max(1, -(-rows.num_rows // batches))
        parts = [rows.slice(at, size) for at in range(0, rows.num_rows, size)] or [rows]
        staging, pieces = stage_pieces(settings, *parts, path=self.path, numbered=self.index.is_global)
        loading = task_rows_settings(staging, self.ordering, self.memory, str(self.folder / "spill"))
        all_rules = replace(UpsertRules(settings, loading, self.merger, self.sizing, self.index), **rules)
        self.jobs = []
        self.task_plan = plan_file_group_tasks(all_rules, pieces, self.slices(), operation, self.runner)
        self.stats = self.runner.collect(run_task, self.task_plan.tasks, WriteStat)
        for stat in self.stats:
            self.groups[stat.partition_path or "", stat.file_id] = base_of(settings, stat)
        return self.stats

    @property
    def runner(self) -> Runner:
        """A runner that notes the kernels it runs."""
        return NotingRunner(None, jobs=self.jobs)

    def slices(self) -> Mapping[str, list[FileSlice]]:
        """Return the file slices by partition path."""
        found: dict[str, list[FileSlice]] = {}
        for (path, file_id), base in self.groups.items():
            found.setdefault(path, []).append(FileSlice(path, file_id, base.instant, base))
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return every row with its meta columns."""
        return [row for base in self.groups.values() for row in read_base(base).to_pylist()]

    def snapshot(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return some columns of every row, sorted."""
        return sorted((tuple(row[c] for c in columns) for row in self.rows()), key=repr)


def read_base(base: BaseFile) -> pa.Table:
    """Read the rows of a base file."""
    return pq.ParquetFile(base.path).read()


def with_keys(rows: pa.Table, key: str = "id") -> pa.Table:
    """Return rows with the record key as the last column, as `TaskRows` holds them."""
    return rows.append_column(KEY, rows[key])
