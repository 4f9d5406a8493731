"""An attempt of a task whose file reaches an object store after the commit. Its process is killed before it looks at the write."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.commit.begin import begin
from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.log.write import LogSettings
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.options.operation import Operation
from penstock.schema import arrow_to_avro, avro_text, with_meta_columns
from penstock.storage import join, open_storage
from penstock.table.listing import list_merged_slices
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.instant import Action
from penstock.write.tasks.log_file import RollingLogWriter
from tests.kit.object_stores import ObjectStore
from tests.storage.test_late_publish import open_state
from tests.unit.write.engine import TRIPS, trips

pytestmark = pytest.mark.server

ROWS = trips(("a", "paris", 1, "v"), ("b", "paris", 2, "w"))
AVRO = avro_text(with_meta_columns(arrow_to_avro(TRIPS, "trips")))
LOGS = LogSettings()


def write_late(table: TableState, *, to_logs: bool) -> TableState:
    """Insert rows. A first attempt of the task puts its file after the commit of the second one. Return the table then."""

    def attempt(number: int) -> RollingWriter | RollingLogWriter:
        """Write the rows, all but the end of the file."""
        output = TaskOutput(settings, 0, f"0-7-{number}")
        writer = RollingLogWriter(output, "paris", LOGS) if to_logs else RollingWriter(output, "paris")
        writer.write(ROWS, ROWS["id"])
        return writer

    with begin(table, Action.DELTA_COMMIT if to_logs else Action.COMMIT) as change:
        change.start()
        settings = FileSettings(table.storage, table.base_path, change.time, TRIPS, AVRO, codec="snappy", bloom=None)
        late = attempt(1)
        stats = attempt(2).close()
        change.complete(stats, operation=Operation.INSERT, schema="{}")
    late.close()
    return reload_timeline(table)


@pytest.fixture
def table(moto: ObjectStore) -> TableState:
    path = moto.path()
    storage, base = open_storage(path, moto.settings)
    storage.write_new(join(base, ".hoodie/hoodie.properties"), b"hoodie.table.name=t\n")
    return open_state(path, moto.settings, {})


def test_a_base_file_that_arrives_after_the_commit_doubles_no_rows(table: TableState) -> None:
    after = write_late(table, to_logs=False)
    files = [file.path for file in table.storage.list_tree(table.base_path) if file.name.endswith(".parquet")]
    assert len(files) == 2
    (slices,) = list_merged_slices(after).values()
    rows = [pq.read_table(table.storage.open(each.base_file.path)) for each in slices if each.base_file is not None]
    assert pa.concat_tables(rows)["id"].to_pylist() == ["a", "b"]


def test_a_log_that_arrives_after_the_commit_is_part_of_the_same_file_group(table: TableState) -> None:
    after = write_late(table, to_logs=True)
    (slices,) = list_merged_slices(after).values()
    assert [len(each.log_files) for each in slices] == [2]
