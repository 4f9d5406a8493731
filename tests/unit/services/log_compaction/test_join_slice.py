"""Log compaction of one slice into one log file: every reader finds the same rows afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.commit.markers import open_write, read_markers
from penstock.filegroup.log.committed_times import CommittedTimes
from penstock.filegroup.log.scan import scan_log_files
from penstock.filegroup.log.write import BlockFormat
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.model import LogFile
from penstock.filegroup.names import mark_token, parse_log_name
from penstock.filegroup.task_output import FileSettings
from penstock.formats.log import BlockType, encode_rollback_block
from penstock.merge.merger import Merger
from penstock.merge.overwrite import EventTimeOrdering, OverwriteWithLatest
from penstock.merge.partial import PartialUpdate
from penstock.schema import avro_text
from penstock.services.log_compaction.join_slice import JoinTask, join_slice
from penstock.timeline.commit_file import WriteStat
from tests.unit.filegroup.slices import ALL_TIMES, AVRO, COLUMNS, Slice, data, deletes, rules_of


def join(
    of: Slice,
    instant: str = "50",
    later: tuple[LogFile, ...] = (),
    block: int = 1 << 20,
    kind: BlockFormat = BlockFormat.AVRO,
    **rules: Any,
) -> WriteStat | None:
    """Compact the log of a slice, and add the new file to the slice."""
    open_write(of.storage, "/t", instant)
    settings = FileSettings(of.storage, "/t", instant, COLUMNS, avro_text(AVRO))
    found = join_slice(JoinTask(of.made, later, rules_of(**rules), settings, block, kind))
    if not found:
        return None
    stat = found[0]
    name = parse_log_name(str(stat.path))
    assert name is not None
    file = LogFile(f"/t/{stat.path}", "f-0", "01", name.version, name.write_token, stat.file_size_in_bytes)
    of.made = replace(of.made, log_files=(*of.made.log_files, file))
    return stat


def blocks(of: Slice) -> list[tuple[str, BlockType]]:
    return [(block.instant, block.type) for _, block in scan_log_files(of.storage, of.made.log_files, ALL_TIMES).blocks]


def changed() -> Slice:
    of = Slice().base(("a", 1, 1), ("b", 1, 1), ("c", 1, 9))
    of.log(data("02", ("a", 2, 2), ("n", 2, 2)), deletes("02", ["b"]))
    of.log(data("03", ("a", 3, 1), ("c", 3, 3), ("b", 3, 3)), deletes("03", ["n"]))
    return of


@pytest.mark.parametrize(
    "merger", [OverwriteWithLatest(), EventTimeOrdering("ts"), PartialUpdate("ts")], ids=lambda m: type(m).__name__
)
def test_a_joined_log_yields_the_same_rows(merger: Merger) -> None:
    of = changed()
    before = of.merged(rules_of(merger)).to_pylist()
    join(of, merger=merger)
    assert {instant for instant, _ in blocks(of)} == {"50"}
    assert of.merged(rules_of(merger)).to_pylist() == before


def test_a_joined_log_has_the_kind_of_blocks_that_is_asked_for() -> None:
    of = changed()
    before = of.merged().to_pylist()
    join(of, kind=BlockFormat.PARQUET)
    assert {kind for _, kind in blocks(of)} == {BlockType.PARQUET_DATA, BlockType.DELETE}
    assert of.merged().to_pylist() == before


def test_a_reader_that_does_not_know_joined_logs_still_reads_the_same_rows() -> None:
    of = changed()
    before = of.merged().to_pylist()
    join(of)
    times = CommittedTimes(frozenset({"01", "02", "03"}))  # as of a time before it, the old blocks count
    assert of.merged(rules_of(times=times)).to_pylist() == before


def test_what_is_written_behind_a_joined_log_counts_on_top_of_it() -> None:
    of = changed()
    join(of)
    of.log(data("60", ("a", 60, 60)), deletes("60", ["c"]))
    assert of.values() == {"a": 60, "b": 3}


def test_a_joined_log_may_be_joined_again() -> None:
    of = changed()
    join(of)
    of.log(data("60", ("a", 60, 60)))
    before = of.merged().to_pylist()
    join(of, "70")
    assert {instant for instant, _ in blocks(of)} == {"70"}
    assert of.merged().to_pylist() == before


def test_the_write_stat_is_one_of_a_log_file() -> None:
    of = changed()
    stat = join(of)
    assert stat is not None
    name = f".f-0_01.log.3_{mark_token('0-0-0', '50')}"
    assert (stat.path, stat.prev_commit) == (name, "01")
    assert (stat.num_writes, stat.num_deletes) == (3, 1)
    assert (stat.total_log_records, stat.total_log_blocks, stat.total_log_files_compacted) == (5, 4, 2)
    assert (stat.log["logVersion"], stat.log["baseFile"]) == (3, "f-0_0-0-0_01.parquet")
    assert stat.log["logFiles"] == [".f-0_01.log.1_0-0-0", ".f-0_01.log.2_0-0-0", name]
    assert [marker.kind for marker in read_markers(of.storage, "/t", "50")] == [MarkerType.APPEND]


def test_rows_beyond_the_limit_of_a_block_become_several() -> None:
    of = Slice().base(("a", 1)).log(data("02", *((f"k{n:04}", n, n) for n in range(500))))
    before = of.merged().to_pylist()
    join(of, block=5_000)
    assert len(blocks(of)) > 3
    assert of.merged().to_pylist() == before


def test_no_block_takes_more_than_its_part_of_the_memory(tmp_path: Any) -> None:
    of = Slice().base(("a", 1)).log(data("02", *((f"k{n:04}", n, n) for n in range(500))))
    before = of.merged().sort_by("id").to_pylist()
    join(of, memory_bytes=20_000, spill_folder=str(tmp_path))
    assert len(blocks(of)) > 3
    assert of.merged().sort_by("id").to_pylist() == before


def test_a_slice_with_newer_log_files_is_not_compacted() -> None:
    of = changed()
    planned = of.made
    of.log(data("04", ("a", 4, 4)))
    later = of.made.log_files[2:]
    of.made = planned
    assert join(of, later=later) is None
    assert read_markers(of.storage, "/t", "50") == []


def test_a_rollback_behind_the_planned_files_does_not_matter() -> None:
    of = changed()
    planned = of.made
    of.log(encode_rollback_block(instant="05", target_instant="50"))
    later = of.made.log_files[2:]
    of.made = planned
    stat = join(of, later=later)
    assert stat is not None
    assert stat.log["logVersion"] == 4


def test_a_log_without_valid_blocks_is_not_compacted() -> None:
    of = Slice().base(("a", 1)).log(data("03", ("a", 9, 9)), encode_rollback_block(instant="04", target_instant="03"))
    assert join(of) is None
