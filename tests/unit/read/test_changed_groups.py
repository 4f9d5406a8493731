"""What the writes of a range changed: the newest files of each group, without groups that were replaced; and whether they are there."""

from __future__ import annotations

import pytest

from penstock.errors import CorruptFile
from penstock.filegroup.model import BaseFile, FileSlice, LogFile
from penstock.filegroup.names import base_file_name, log_file_name
from penstock.read.changed_groups import ChangedFiles, FilePattern, find_changed_groups, find_missing_file, keep_matching
from penstock.timeline.commit_file import CommitMetadata, WriteStat
from penstock.timeline.history import CompletedWrite
from penstock.timeline.instant import Action, Instant, State


def write(time: str, *files: str, replaced: dict[str, tuple[str, ...]] | None = None) -> CompletedWrite:
    """A write of these files, each `partition/group/name`."""
    stats = [WriteStat(group, path, f"{path}/{name}") for path, group, name in (file.split("/") for file in files)]
    action = Action.COMMIT if replaced is None else Action.REPLACE_COMMIT
    return CompletedWrite(Instant(time, action, State.COMPLETED), CommitMetadata(tuple(stats), replaced=replaced))


def base(group: str, time: str) -> str:
    return f"p/{group}/{base_file_name(group, '0-0-0', time)}"


def log(group: str, base_time: str, version: int) -> str:
    return f"p/{group}/{log_file_name(group, base_time, version, '0-0-0')}"


def name(file: str) -> str:
    return file.rpartition("/")[2]


def test_the_last_version_of_a_file_group_is_read() -> None:
    found = find_changed_groups([write("1", base("a", "1"), base("b", "1")), write("2", base("a", "2"))])
    assert found == {
        ("p", "a"): ChangedFiles("2", {name(base("a", "2")): "2"}),
        ("p", "b"): ChangedFiles("1", {name(base("b", "1")): "1"}),
    }


def test_logs_of_the_newest_slice_count_and_a_compaction_takes_their_place() -> None:
    first = log("a", "1", 1)
    second = log("a", "1", 2)
    later = log("a", "4", 1)
    writes = [write("2", first), write("3", second)]
    assert find_changed_groups(writes)["p", "a"] == ChangedFiles("1", {name(first): "2", name(second): "3"})
    compacted = find_changed_groups([*writes, write("4", base("a", "4")), write("5", later)])
    assert compacted["p", "a"] == ChangedFiles("4", {name(base("a", "4")): "4", name(later): "5"})
    late = find_changed_groups([write("4", base("a", "4")), write("5", second)])  # written during the compaction
    assert late["p", "a"].base_instant == "4"


def test_groups_that_were_replaced_in_the_range_are_left_out_in_their_partition_alone() -> None:
    writes = [write("1", base("a", "1"), base("b", "1")), write("2", base("c", "2"), replaced={"p": ("a",), "q": ("b",)})]
    assert [group for _, group in find_changed_groups(writes)] == ["b", "c"]


def test_files_without_rows_change_no_group() -> None:
    cdc = log("a", "1", 1) + ".cdc"
    assert find_changed_groups([write("1", cdc, "p/a/notes.txt")]) == {}
    nothing = CommitMetadata((WriteStat("a", "p", None),))
    assert find_changed_groups([CompletedWrite(Instant("1", Action.COMMIT, State.COMPLETED), nothing)]) == {}


def test_a_replace_commit_that_does_not_say_what_it_replaced_is_damaged() -> None:
    damaged = CompletedWrite(Instant("1", Action.REPLACE_COMMIT, State.COMPLETED), CommitMetadata())
    with pytest.raises(CorruptFile, match="1.replacecommit does not say"):
        find_changed_groups([damaged])


def test_a_file_that_is_gone_is_named_with_its_write() -> None:
    changed = find_changed_groups([write("1", base("a", "1")), write("2", log("b", "1", 2))])
    a = FileSlice("p", "a", "1", BaseFile(name(base("a", "1")), "a", "1", 1))
    logs = tuple(LogFile(name(log("b", "1", v)), "b", "1", v, "0-0-0", 1) for v in (1, 2))
    b = FileSlice("p", "b", "1", None, logs)
    assert find_missing_file(changed, [a, b]) is None
    assert find_missing_file(changed, [b]) == (f"p/{name(base('a', '1'))}", "1")
    older = FileSlice("p", "a", "0", BaseFile(name(base("a", "0")), "a", "0", 1))  # a savepoint may have kept it
    assert find_missing_file(changed, [older, b]) == (f"p/{name(base('a', '1'))}", "1")
    assert find_missing_file(changed, [a, FileSlice("p", "b", "1", None, logs[:1])]) == (f"p/{logs[1].name}", "2")


def test_log_files_that_a_repair_has_put_on_top_of_a_planned_compaction_are_not_lost() -> None:
    changed = find_changed_groups([write("2", log("b", "1", 1)), write("3", log("b", "1", 2))])
    kept = LogFile(name(log("b", "1", 1)), "b", "1", 1, "0-0-0", 1)
    moved = LogFile(name(log("b", "4", 1)), "b", "4", 1, "0-0-0", 1)
    assert find_missing_file(changed, [FileSlice("p", "b", "1", None, (kept, moved))]) is None
    assert find_missing_file(changed, [FileSlice("p", "b", "1", None, (kept,))]) == (f"p/{name(log('b', '1', 2))}", "3")


def test_log_files_of_an_unscheduled_compaction_are_not_searched_by_their_names() -> None:
    late = log("b", "4", 1)
    changed = find_changed_groups(
        [write("2", log("b", "1", 1)), write("5", late), write("6", log("c", "4", 1))], lambda base: base == "4"
    )
    assert changed["p", "b"] == ChangedFiles("1", {name(log("b", "1", 1)): "2"}, (name(late),))
    logs = tuple(LogFile(name(log("b", "1", v)), "b", "1", v, "0-0-0", 1) for v in (1, 2))
    assert find_missing_file(changed, [FileSlice("p", "b", "1", None, logs)]) is None
    assert set(keep_matching(changed, "/t", FilePattern("/p/*"))) == {("p", "b"), ("p", "c")}


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("", True),
        ("/p/*", True),
        ("p/a*", True),
        ("/q/*", False),
        ("/p", False),
        ("/t/*.parquet", True),
        ("/{q,p}/*", True),
        ("/p/[^a]*", False),
        ("/?/*", True),
    ],
)
def test_a_pattern_matches_the_end_of_a_path_and_crosses_slashes(pattern: str, fits: bool) -> None:
    assert FilePattern(pattern).matches("/t/p/a_0-0-0_1.parquet") is fits
    changed = {("p", "a"): ChangedFiles("1", {"a_0-0-0_1.parquet": "1"})}
    assert bool(keep_matching(changed, "/t", FilePattern(pattern))) is fits
