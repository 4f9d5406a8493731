"""Whether another index may go on with a table, by what its commits and its file slices say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import OptionError
from penstock.filegroup.log.write import log_fields
from penstock.filegroup.names import log_file_name
from penstock.index.previous_index import INDEX_FIGURES, find_rows_of_other_index, list_logs_with_inserts
from penstock.index.simple import SimpleIndex
from penstock.table.listing import list_merged_slices
from penstock.table.state import open_table
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from tests.table.handmade import HandMade, at


def logged(city: str, version: int, *, inserts: int) -> WriteStat:
    """The write stat of a log file on top of the first instant."""
    name = log_file_name(f"{city}-0", at(1), version, "0-0-0")
    fields = log_fields(version=version, base_file="", log_files=[name])
    return WriteStat(f"{city}-0", city, f"{city}/{name}", num_update_writes=1, num_inserts=inserts, log=fields)


def test_an_index_that_reads_base_files_refuses_rows_that_are_only_in_logs(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "table")
    for city in ("berlin", "rome"):
        made.base(1, city, ("a", city, 1, 1.0)).log(1, city, 1, made.rows(2, city, ("a", city, 2, 2.0)))
    made.instant(1).instant(2, stats=(logged("berlin", 1, inserts=0), logged("rome", 1, inserts=0)))
    check(made)

    made.log(1, "berlin", 2, made.rows(3, "berlin", ("b", "berlin", 3, 3.0)))
    made.instant(3, stats=(logged("berlin", 2, inserts=1),))
    check(made, "rome")
    with pytest.raises(
        OptionError, match=r"berlin-0 of partition berlin of .* has rows in log files alone.*=SIMPLE does not find"
    ):
        check(made)

    made.base(4, "berlin", ("a", "berlin", 2, 2.0), ("b", "berlin", 3, 3.0)).instant(4, "commit")  # a compaction
    check(made)
    made.log(5, "oslo", 1, made.rows(5, "oslo", ("c", "oslo", 1, 1.0))).instant(5)
    with pytest.raises(OptionError, match="oslo-0 of partition oslo .*Compact the table first"):
        check(made)


def check(made: HandMade, *partitions: str) -> None:
    table = open_table(str(made.path))
    SimpleIndex().check_slices(table, list_merged_slices(table, partitions or None))


def test_a_commit_that_is_archived_while_commits_are_read_is_passed_over(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "table").instant(2, stats=(logged("rome", 1, inserts=1),))
    made.instant(3, stats=(logged("rome", 2, inserts=1),))
    table = open_table(str(made.path))
    (made.path / ".hoodie" / f"{at(2)}.deltacommit").unlink()
    assert list_logs_with_inserts(table, at(1)) == {log_file_name("rome-0", at(1), 2, "0-0-0")}


def test_the_newest_write_by_another_index_that_added_rows_is_found(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "table")
    written(made, 1, "HBASE", inserts=3)
    assert find_rows_of_other_index(open_table(str(made.path)), "HBASE") is None
    written(made, 2, "SIMPLE", inserts=0)
    written(made, 3, None, inserts=5)  # another engine's, which does not say
    assert find_rows_of_other_index(open_table(str(made.path)), "HBASE") is None
    written(made, 4, "SIMPLE", inserts=1)
    written(made, 5, "GLOBAL_BLOOM", inserts=0)
    assert find_rows_of_other_index(open_table(str(made.path)), "HBASE") == (at(4), "SIMPLE")
    for number in range(6, 26):  # however long ago it was
        written(made, number, "SIMPLE", inserts=0)
    assert find_rows_of_other_index(open_table(str(made.path)), "HBASE") == (at(4), "SIMPLE")


def written(made: HandMade, number: int, index: str | None, *, inserts: int) -> None:
    extra = {INDEX_FIGURES: json.dumps({"index": index})} if index else {}
    stat = WriteStat("berlin-0", "berlin", "berlin/f.parquet", num_inserts=inserts)
    content = write_commit(CommitMetadata((stat,), "UPSERT", extra))
    (made.path / ".hoodie" / f"{at(number)}.deltacommit").write_bytes(content)
