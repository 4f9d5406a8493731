"""Log files: what is written reads back block by block, here and with fastavro; names, roll-over, counts and lost attempts."""

from __future__ import annotations

import io
import json
import uuid
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.commit.markers import open_write, read_markers, reconcile, seal
from penstock.errors import StorageError
from penstock.filegroup.log.write import BlockFormat, LogSettings, LogWriter
from penstock.filegroup.markers import Marker, MarkerType
from penstock.filegroup.model import BaseFile, FileSlice, LogFile
from penstock.filegroup.names import log_file_name, mark_token, parse_log_name
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.formats.log import BlockType, LogBlock, read_content, read_deletes, read_rows, scan_blocks
from penstock.formats.log.deletes import ALWAYS, build_deletes
from penstock.schema import avro_text, with_meta_columns
from penstock.storage import MemoryStorage
from penstock.timeline.commit_file import WriteStat

BASE = "/t"
TIME = "20240101000000002"
OLD = "20240101000000001"
FILE_ID = "0f1e-0"
AVRO = avro_text(
    with_meta_columns(
        json.dumps(
            {
                "type": "record",
                "name": "trips_record",
                "fields": [
                    {"name": name, "type": ["null", kind], "default": None}
                    for name, kind in (("id", "string"), ("ts", "long"), ("fare", "double"))
                ],
            }
        )
    )
)
TOKEN = mark_token("3-0-0", TIME)
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
OLD_BASE = BaseFile(f"{BASE}/p/{FILE_ID}_0-0-0_{OLD}.parquet", FILE_ID, OLD, 100)
SLICE = FileSlice("p", FILE_ID, OLD, OLD_BASE)


@pytest.fixture
def storage() -> MemoryStorage:
    """With a write under way."""
    storage = MemoryStorage(uuid.uuid4().hex)
    open_write(storage, BASE, TIME)
    return storage


def output(storage: MemoryStorage, token: str = "3-0-0") -> TaskOutput:
    return TaskOutput(FileSettings(storage, BASE, TIME, SCHEMA, AVRO), int(token[0]), token)


def log_file(version: int, token: str, base_instant: str = OLD) -> LogFile:
    name = log_file_name(FILE_ID, base_instant, version, token)
    return LogFile(f"{BASE}/p/{name}", FILE_ID, base_instant, version, token, 10)


def rows(count: int, first: int = 0) -> pa.Table:
    ids = [f"k{n}" for n in range(first, first + count)]
    return pa.table([ids, list(range(count)), [n / 2 for n in range(count)]], schema=SCHEMA)


def append(out: TaskOutput, table: pa.Table, settings: LogSettings | None = None, target: FileSlice = SLICE) -> list[WriteStat]:
    writer = LogWriter(out, target, settings or LogSettings())
    writer.write(table, table["id"])
    return writer.close()


def test_two_writes_that_know_the_same_slice_never_make_the_same_file(storage: MemoryStorage) -> None:
    """One joins the logs of a slice while another adds to it: what is given up must not be the other's."""
    later = "20240101000000003"
    open_write(storage, BASE, later)
    (one,) = append(output(storage, "0-0-0"), rows(1))
    (other,) = append(TaskOutput(FileSettings(storage, BASE, later, SCHEMA, AVRO), 0, "0-0-0"), rows(1))
    assert one.path != other.path
    assert {parse_log_name(str(stat.path).rpartition("/")[2]).version for stat in (one, other)} == {1}  # type: ignore[union-attr]


def content(storage: MemoryStorage, stat: WriteStat) -> bytes:
    return storage.read(f"{BASE}/{stat.path}")


def blocks(storage: MemoryStorage, stat: WriteStat) -> list[LogBlock]:
    return list(scan_blocks(content(storage, stat), file_name=str(stat.path)))


def by_fastavro(log: bytes, block: LogBlock) -> list[dict[str, Any]]:
    """Return the records of an Avro block, read one by one by fastavro."""
    data = read_content(log, block).to_pybytes()
    schema = fastavro.parse_schema(json.loads(block.schema))
    at = 8
    found = []
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        found.append(fastavro.schemaless_reader(io.BytesIO(data[at + 4 : at + 4 + size]), schema, None))
        at += 4 + size
    return found  # type: ignore[return-value]


def test_rows_become_an_avro_block_with_the_meta_columns_of_a_log(storage: MemoryStorage) -> None:
    (stat,) = append(output(storage), rows(2))
    (block,) = blocks(storage, stat)
    assert (block.type, block.instant, json.loads(block.schema)) == (BlockType.AVRO_DATA, TIME, json.loads(AVRO))
    expected = [
        {
            "_hoodie_commit_time": TIME,
            "_hoodie_commit_seqno": f"{TIME}_3_{n + 1}",
            "_hoodie_record_key": f"k{n}",
            "_hoodie_partition_path": "p",
            "_hoodie_file_name": FILE_ID,
            "id": f"k{n}",
            "ts": n,
            "fare": n / 2,
        }
        for n in range(2)
    ]
    assert by_fastavro(content(storage, stat), block) == expected
    assert read_rows(content(storage, stat), block).to_pylist() == expected


def test_rows_become_a_parquet_block_where_asked(storage: MemoryStorage) -> None:
    (stat,) = append(output(storage), rows(3), LogSettings(BlockFormat.PARQUET))
    (block,) = blocks(storage, stat)
    assert block.type is BlockType.PARQUET_DATA
    file = pq.ParquetFile(pa.BufferReader(read_content(content(storage, stat), block)))
    assert file.read().to_pylist() == read_rows(content(storage, stat), block).to_pylist()
    assert file.read().column("fare").to_pylist() == [0.0, 0.5, 1.0]
    assert file.metadata.row_group(0).column(0).compression == "GZIP"


def test_deletes_follow_the_rows_in_one_block(storage: MemoryStorage) -> None:
    writer = LogWriter(output(storage), SLICE, LogSettings(max_file_bytes=1))
    writer.write(rows(2), rows(2)["id"])
    ordering = pa.array([7, None], pa.int64())
    writer.delete(build_deletes(pa.array(["x", "y"]), pa.array(["p", "p"]), ordering))
    (stat,) = writer.close()
    data, gone = blocks(storage, stat)
    assert (data.type, gone.type, gone.instant) == (BlockType.AVRO_DATA, BlockType.DELETE, TIME)
    deletes = read_deletes(content(storage, stat), gone)
    assert (deletes.keys.to_pylist(), deletes.partitions.to_pylist()) == (["x", "y"], ["p", "p"])
    assert deletes.ordering(pa.int64()).to_pylist() == [7, None]
    assert deletes.branches.tolist() == [3, ALWAYS]
    assert (stat.num_writes, stat.num_update_writes, stat.num_inserts, stat.num_deletes) == (2, 2, 0, 2)


def test_a_stat_says_which_file_of_which_slice(storage: MemoryStorage) -> None:
    earlier = (log_file(1, "9-1-1"), log_file(10, "0-2-2"))
    (stat,) = append(output(storage), rows(1), target=replace(SLICE, log_files=earlier))
    name = log_file_name(FILE_ID, OLD, 11, TOKEN)
    assert (stat.path, stat.file_id, stat.partition_path, stat.prev_commit) == (f"p/{name}", FILE_ID, "p", OLD)
    assert stat.total_write_bytes == stat.file_size_in_bytes == len(content(storage, stat))
    assert stat.log == {
        "logVersion": 11,
        "logOffset": 0,
        "baseFile": OLD_BASE.name,
        "logFiles": [*(log.name for log in earlier), name],
        "recordsStats": {"val": None},
    }


def test_while_a_compaction_is_pending_the_log_belongs_to_its_slice(storage: MemoryStorage) -> None:
    compaction = "20240101000000001500"
    (stat,) = append(output(storage), rows(1), target=replace(SLICE, base_instant=compaction))
    assert stat.path == f"p/{log_file_name(FILE_ID, compaction, 1, TOKEN)}"
    assert (stat.prev_commit, stat.log["baseFile"]) == (compaction, "")


def test_new_rows_count_as_inserts_where_they_go_to_a_log(storage: MemoryStorage) -> None:
    target = FileSlice("", FILE_ID, TIME)
    writer = LogWriter(output(storage), target, LogSettings())
    writer.write(rows(3), rows(3)["id"], are_updates=False)
    (stat,) = writer.close()
    assert (stat.num_writes, stat.num_update_writes, stat.num_inserts) == (3, 0, 3)
    assert stat.path == log_file_name(FILE_ID, TIME, 1, TOKEN)


@pytest.mark.parametrize("kind", list(BlockFormat))
def test_rows_too_large_for_a_block_are_cut_and_keep_their_order(storage: MemoryStorage, kind: BlockFormat) -> None:
    settings = LogSettings(kind, max_block_bytes=4_000)
    (stat,) = append(output(storage), rows(500), settings)
    cut = blocks(storage, stat)
    assert len(cut) > 3
    read = pa.concat_tables([read_rows(content(storage, stat), block) for block in cut])
    assert read.select(SCHEMA.names).equals(rows(500))
    numbers = [int(text.rsplit("_", 1)[1]) for text in read["_hoodie_commit_seqno"].to_pylist()]
    assert numbers == list(range(1, 501))
    if kind is BlockFormat.AVRO:
        assert max(block.content_size for block in cut[1:]) < 5_000


def test_a_file_past_its_limit_is_followed_by_the_next_version(storage: MemoryStorage) -> None:
    stats = append(output(storage), rows(300), LogSettings(max_block_bytes=4_000, max_file_bytes=6_000))
    assert [stat.log["logVersion"] for stat in stats] == list(range(1, len(stats) + 1))
    assert len(stats) > 2
    assert sum(stat.num_writes for stat in stats) == 300
    assert [stat.num_writes for stat in stats] == [
        sum(read_rows(content(storage, stat), block).num_rows for block in blocks(storage, stat)) for stat in stats
    ]
    assert stats[-1].log["logFiles"] == [str(stat.path).removeprefix("p/") for stat in stats]
    assert all(stat.file_size_in_bytes > 6_000 for stat in stats[:-1])


def test_a_writer_without_rows_makes_no_file(storage: MemoryStorage) -> None:
    writer = LogWriter(output(storage), SLICE, LogSettings())
    writer.write(rows(0), rows(0)["id"])
    writer.delete(build_deletes(pa.array([], pa.string()), pa.array([], pa.string())))
    assert writer.close() == []
    assert read_markers(storage, BASE, TIME) == []


def test_a_log_file_is_announced_as_appended(storage: MemoryStorage) -> None:
    (stat,) = append(output(storage), rows(1))
    assert read_markers(storage, BASE, TIME) == [Marker(str(stat.path), MarkerType.APPEND)]


def test_of_two_attempts_of_a_task_one_is_left(storage: MemoryStorage) -> None:
    (lost,) = append(output(storage, "3-0-0"), rows(5))
    (won,) = append(output(storage, "3-0-1"), rows(5))
    assert (lost.log["logVersion"], won.log["logVersion"]) == (1, 1)
    seal(storage, BASE, TIME)
    assert reconcile(storage, BASE, TIME, [str(won.path)]) == [lost.path]
    assert storage.stat(f"{BASE}/{lost.path}") is None
    assert storage.stat(f"{BASE}/{won.path}") is not None


def test_an_attempt_that_comes_too_late_leaves_nothing(storage: MemoryStorage) -> None:
    seal(storage, BASE, TIME)
    with pytest.raises(StorageError, match="closed"):
        append(output(storage), rows(1))
    assert [file.path for file in storage.list(f"{BASE}/p") if ".log." in file.path] == []


def test_numbers_of_a_task_are_its_own_whatever_it_writes(storage: MemoryStorage) -> None:
    out = output(storage)
    (first,) = append(out, rows(2))
    (second,) = append(out, rows(2), target=replace(SLICE, file_id="other-0"))
    taken = [read_rows(content(storage, s), blocks(storage, s)[0])["_hoodie_commit_seqno"].to_pylist() for s in (first, second)]
    assert len(set(np.concatenate(taken))) == 4
    assert taken[0] == [f"{TIME}_3_1", f"{TIME}_3_2"]
