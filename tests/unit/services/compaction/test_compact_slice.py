"""Compaction of one file slice into a base file: its rows, their meta columns, its bloom filter and its write stat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.commit.markers import open_write, read_markers
from penstock.errors import CorruptFile
from penstock.filegroup.key_footer import FOOTER_BLOOM, FOOTER_BLOOM_TYPE
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.model import BaseFile
from penstock.filegroup.names import mark_token
from penstock.filegroup.task_output import FileSettings
from penstock.formats.bloom import read_bloom
from penstock.formats.log import encode_rollback_block
from penstock.formats.parquet import read_footer
from penstock.schema import arrow_to_avro, avro_text, with_meta_columns
from penstock.services.compaction.compact_slice import CompactTask, compact_slice
from penstock.services.compaction.planned_slices import named_slice
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.compaction_plan import CompactionOperation
from tests.unit.filegroup.slices import AVRO, COLUMNS, Slice, data, deletes, rules_of

COUNTS = ("num_writes", "num_update_writes", "num_inserts", "num_deletes")


def compact(of: Slice, instant: str = "50", **rules: Any) -> WriteStat:
    open_write(of.storage, "/t", instant)
    settings = FileSettings(of.storage, "/t", instant, COLUMNS, avro_text(AVRO))
    found = compact_slice(CompactTask(of.made, rules_of(**rules), settings, log_bytes=77))
    return found[0]


def file_of(of: Slice, stat: WriteStat | None) -> pq.ParquetFile:
    assert stat is not None
    return pq.ParquetFile(of.storage.open(f"/t/{stat.path}"))


def counts(stat: WriteStat | None) -> tuple[int, ...]:
    return tuple(getattr(stat, name) for name in COUNTS)


def test_rows_of_the_base_file_stay_where_they_were_and_new_ones_follow() -> None:
    of = Slice().base(("a", 1), ("b", 1), ("c", 1)).log(data("02", ("b", 2, 1), ("n", 2, 1)), deletes("02", ["c"]))
    stat = compact(of)
    found = file_of(of, stat).read()
    assert found["id"].to_pylist() == ["a", "b", "n"]
    assert found["v"].to_pylist() == [1, 2, 2]
    assert counts(stat) == (3, 1, 1, 1)


def test_rows_keep_their_commit_time_and_sequence_number_and_get_the_new_file_name() -> None:
    of = Slice().base(("a", 1), ("b", 1)).log(data("02", ("b", 2, 1)))
    stat = compact(of)
    found = file_of(of, stat).read()
    assert stat is not None
    assert found["_hoodie_commit_time"].to_pylist() == ["01", "02"]
    assert found["_hoodie_commit_seqno"].to_pylist() == ["m", "m"]
    assert set(found["_hoodie_file_name"].to_pylist()) == {stat.path}
    assert set(found["_hoodie_partition_path"].to_pylist()) == {""}
    assert stat.path == f"f-0_{mark_token('0-0-0', '50')}_50.parquet"


def test_the_write_stat_has_the_fields_of_hudis() -> None:
    of = Slice().base(("a", 1)).log(data("02", ("a", 2, 1), ("a", 3, 2), ("b", 1, 1)), b"#HUDI#torn")
    of.log(data("03", ("a", 9, 9)), encode_rollback_block(instant="04", target_instant="03"))
    stat = compact(of)
    assert stat is not None
    assert stat.prev_commit == "01"
    assert (stat.total_log_files_compacted, stat.total_log_size_compacted) == (2, 77)
    assert (stat.total_log_records, stat.total_updated_records_compacted) == (3, 2)
    assert (stat.total_log_blocks, stat.total_corrupt_log_block, stat.total_rollback_blocks) == (4, 1, 1)
    assert stat.file_size_in_bytes == stat.total_write_bytes == len(of.storage.read(f"/t/{stat.path}"))


def test_the_key_filter_knows_old_keys_and_those_that_only_the_log_had() -> None:
    of = Slice().base(("a", 1), ("b", 1)).log(data("02", ("n", 2, 1)))
    first = compact(of)  # the old base file has no filter: it is made from all keys
    assert first is not None
    base = BaseFile(f"/t/{first.path}", "f-0", "50", first.file_size_in_bytes)
    of.log(data("03", ("z", 3, 1)))
    of.made = replace(of.made, base_file=base, log_files=of.made.log_files[1:])
    footer = read_footer(file_of(of, compact(of, "60")))  # this time the old filter is gone on with
    bloom = read_bloom(footer[FOOTER_BLOOM], footer.get(FOOTER_BLOOM_TYPE))
    assert bloom.might_contain(pa.array(["a", "b", "n", "z", "x"])).tolist() == [True, True, True, True, False]
    assert (footer["hoodie_min_record_key"], footer["hoodie_max_record_key"]) == ("a", "z")


def test_a_slice_of_log_files_alone_becomes_a_new_base_file() -> None:
    of = Slice().log(data("01", ("a", 1, 1), ("b", 1, 1)), deletes("02", ["b"]))
    stat = compact(of)
    assert stat is not None
    assert stat.prev_commit == "null"
    assert file_of(of, stat).read()["id"].to_pylist() == ["a"]
    assert [m.kind for m in read_markers(of.storage, "/t", "50")] == [MarkerType.CREATE]


def test_a_base_file_that_the_log_changes_nothing_in_is_written_again() -> None:
    """Log files that came since lie on top of the new instant, and need their base file there."""
    of = Slice().base(("a", 1)).log(data("03", ("a", 9, 9)), encode_rollback_block(instant="04", target_instant="03"))
    stat = compact(of)
    assert counts(stat) == (1, 0, 0, 0)
    assert file_of(of, stat).read()["v"].to_pylist() == [1]


def test_log_files_whose_blocks_were_all_taken_back_become_a_file_without_rows() -> None:
    """Otherwise they would be planned again and again, and log files that came since would lack their base file."""
    of = Slice().log(data("01", ("a", 9, 9)), encode_rollback_block(instant="04", target_instant="01"))
    stat = compact(of)
    assert counts(stat) == (0, 0, 0, 0)
    assert file_of(of, stat).metadata.num_rows == 0


def test_a_slice_that_loses_all_rows_is_an_empty_base_file() -> None:
    of = Slice().base(("a", 1)).log(deletes("02", ["a"]))
    stat = compact(of)
    assert counts(stat) == (0, 0, 0, 1)
    assert file_of(of, stat).metadata.num_rows == 0


def test_a_log_larger_than_the_memory_limit_is_compacted_to_the_same_rows(tmp_path: Any) -> None:
    keys = [f"k{n:05}" for n in range(5000)]
    log = [data(f"{i:02}", *((key, i, i) for key in keys[i::3])) for i in range(2, 6)]
    plain, spilled = (Slice().base(*((key, 1) for key in keys[:100])).log(*log) for _ in range(2))
    expected = file_of(plain, compact(plain)).read()
    found = file_of(spilled, compact(spilled, memory_bytes=50_000, spill_folder=str(tmp_path))).read()
    assert found.drop_columns("_hoodie_file_name").sort_by("id").equals(expected.drop_columns("_hoodie_file_name").sort_by("id"))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_of_the_plan_is_an_error_that_names_it() -> None:
    planned = CompactionOperation("p", "f-0", "01", None, (".f-0_01.log.1_0-0-0",))
    with pytest.raises(CorruptFile, match=r"/t/p/\.f-0_01\.log\.1_0-0-0 is missing, which a compaction plan names"):
        named_slice("/t", planned, {})


def test_a_plan_that_names_other_files_than_data_files_is_an_error() -> None:
    with pytest.raises(CorruptFile, match="'hoodie.properties', which is not the name of a data file"):
        named_slice("/t", CompactionOperation("", "f-0", "01", "hoodie.properties", ()), {"hoodie.properties": 1})


def test_log_files_are_read_in_version_order_whatever_the_order_of_the_plan() -> None:
    names = (".f-0_01.log.10_0-0-0", ".f-0_01.log.2_0-0-0", ".f-0_01.log.2_0-0-1")
    found = named_slice("/t", CompactionOperation("", "f-0", "01", None, names), dict.fromkeys(names, 1))
    assert [log.name for log in found.log_files] == [names[1], names[2], names[0]]


def test_memory_follows_the_limit_and_not_the_log(tmp_path: Any) -> None:
    """The log holds ten times the limit; rows go to row groups before they outgrow it."""
    wide = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("text", pa.string())])
    avro = with_meta_columns(arrow_to_avro(wide, "t"))
    limit, of = 2 << 20, Slice().base(columns=wide)
    for number in range(30):
        some = range(number * 1000, (number + 1) * 1000)
        of.log(data(f"{number:02}", *((f"{n:012}", number, number, "x" * 700) for n in some), columns=wide, parquet=True))
    open_write(of.storage, "/t", "50")
    settings = FileSettings(of.storage, "/t", "50", wide, avro_text(avro))
    rules = rules_of(schema=avro, memory_bytes=limit, spill_folder=str(tmp_path))
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        (found,) = compact_slice(CompactTask(of.made, rules, settings, log_bytes=1))
    finally:
        pa.set_memory_pool(before)
    assert found.num_inserts == 30_000
    assert pool.max_memory() < 4 * limit
