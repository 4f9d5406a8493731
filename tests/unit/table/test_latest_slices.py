"""Which files a query sees: committed, not replaced, as of a time."""

from __future__ import annotations

from penstock.filegroup.names import base_file_name
from penstock.storage import FileInfo
from penstock.table.latest_slices import Visibility, group_files, latest_base_slices, latest_merged_slices
from penstock.timeline.timeline import Timeline


def base(file_id: str, instant: str, token: str = "0-1-2") -> FileInfo:
    return FileInfo(f"/t/p/{base_file_name(file_id, token, instant)}", 100, 0)


def log(file_id: str, instant: str, version: int, token: str = "0-1-2") -> FileInfo:
    return FileInfo(f"/t/p/.{file_id}_{instant}.log.{version}_{token}", 10, 0)


def seen(files: list[FileInfo], names: str, **more: object) -> list[tuple[str, str]]:
    visibility = Visibility(Timeline.from_names(names.split()), **more)  # type: ignore[arg-type]
    return [(s.file_id, s.base_instant) for s in latest_base_slices(group_files("p", files), visibility)]


FILES = [base("a-0", "1"), base("a-0", "3"), base("b-0", "2")]


def test_a_group_has_its_slices_newest_first() -> None:
    groups = group_files("p", [*FILES, log("a-0", "3", 1), log("c-0", "4", 1)])
    assert [(g.file_id, [s.base_instant for s in g.slices]) for g in groups] == [
        ("a-0", ["3", "1"]),
        ("b-0", ["2"]),
        ("c-0", ["4"]),
    ]
    assert groups[2].slices[0].base_file is None


def test_log_files_are_ordered_by_version_as_a_number_then_by_token() -> None:
    files = [log("a-0", "1", 10), log("a-0", "1", 9), log("a-0", "1", 2, "1-0-1"), log("a-0", "1", 2, "0-9-9")]
    (group,) = group_files("p", files)
    assert [(f.version, f.write_token) for f in group.slices[0].log_files] == [
        (2, "0-9-9"),
        (2, "1-0-1"),
        (9, "0-1-2"),
        (10, "0-1-2"),
    ]


def test_change_data_logs_and_foreign_files_are_not_part_of_a_slice() -> None:
    cdc = FileInfo("/t/p/.a-0_1.log.1_0-1-2.cdc", 1, 0)
    others = [FileInfo(f"/t/p/{name}", 1, 0) for name in (".hoodie_partition_metadata", "notes.txt", ".a.parquet.crc")]
    (group,) = group_files("p", [base("a-0", "1"), cdc, *others])
    assert group.slices[0].log_files == ()


def test_the_newest_committed_base_file_of_each_group_is_read() -> None:
    assert seen(FILES, "1.commit 2.commit 3.commit") == [("a-0", "3"), ("b-0", "2")]


def test_a_pending_write_does_not_hide_the_version_before_it() -> None:
    assert seen(FILES, "1.commit 2.commit 3.inflight") == [("a-0", "1"), ("b-0", "2")]
    assert seen(FILES, "1.commit 2.commit 3.commit.requested") == [("a-0", "1"), ("b-0", "2")]


def test_files_without_any_instant_after_the_first_commit_are_not_read() -> None:
    assert seen(FILES, "1.commit 2.commit") == [("a-0", "1"), ("b-0", "2")]


def test_files_of_archived_commits_are_read() -> None:
    assert seen(FILES, "5.commit") == [("a-0", "3"), ("b-0", "2")]


def test_a_pending_write_older_than_the_first_commit_is_never_read() -> None:
    assert seen(FILES, "2.commit.requested 2.inflight 5.commit") == [("a-0", "3")]


def test_a_base_file_of_a_pending_compaction_is_not_read() -> None:
    assert seen(FILES, "1.deltacommit 2.deltacommit 3.compaction.requested 4.deltacommit") == [
        ("a-0", "1"),
        ("b-0", "2"),
    ]


def test_a_base_file_of_a_finished_compaction_is_read() -> None:
    assert seen(FILES, "1.deltacommit 2.deltacommit 3.compaction.requested 3.commit") == [("a-0", "3"), ("b-0", "2")]


def test_a_replaced_group_is_not_read() -> None:
    assert seen(FILES, "1.commit 2.commit 3.commit 4.replacecommit", replaced={("p", "a-0"): "4"}) == [("b-0", "2")]


def test_a_group_replaced_in_another_partition_is_read() -> None:
    assert ("a-0", "3") in seen(FILES, "3.commit 4.replacecommit", replaced={("q", "a-0"): "4"})


def test_as_of_a_time_sees_what_was_committed_then() -> None:
    names = "1.commit 2.commit 3.commit 4.replacecommit"
    replaced = {("p", "a-0"): "4"}
    assert seen(FILES, names, replaced=replaced, as_of="0") == []
    assert seen(FILES, names, replaced=replaced, as_of="1") == [("a-0", "1")]
    assert seen(FILES, names, replaced=replaced, as_of="2") == [("a-0", "1"), ("b-0", "2")]
    assert seen(FILES, names, replaced=replaced, as_of="3") == [("a-0", "3"), ("b-0", "2")]
    assert seen(FILES, names, replaced=replaced, as_of="4") == [("b-0", "2")]


def test_a_group_of_log_files_only_has_no_base_file_to_read() -> None:
    assert seen([log("c-0", "1", 1)], "1.deltacommit") == []


# slices that a snapshot merges


def merged(files: list[FileInfo], names: str, **more: object) -> list[tuple[str, str | None, list[str]]]:
    """File id, instant of the base file, and `<base instant>.<version>` of the log files."""
    visibility = Visibility(Timeline.from_names(names.split()), **more)  # type: ignore[arg-type]
    return [
        (s.file_id, s.base_file.instant if s.base_file else None, [f"{f.base_instant}.{f.version}" for f in s.log_files])
        for s in latest_merged_slices(group_files("p", files), visibility)
    ]


def test_log_files_belong_to_the_base_file_whose_instant_they_name() -> None:
    files = [base("a-0", "1"), log("a-0", "1", 1), log("a-0", "1", 2), base("a-0", "4"), log("a-0", "4", 1), base("b-0", "2")]
    assert merged(files, "1.deltacommit 2.deltacommit 3.deltacommit 4.commit") == [
        ("a-0", "4", ["4.1"]),
        ("b-0", "2", []),
    ]


def test_a_group_of_log_files_alone_is_merged() -> None:
    assert merged([log("c-0", "1", 1), log("c-0", "1", 2)], "1.deltacommit") == [("c-0", None, ["1.1", "1.2"])]


def test_a_group_of_log_files_alone_of_a_write_that_failed_is_not_merged() -> None:
    assert merged([log("c-0", "2", 1)], "1.deltacommit 2.deltacommit.inflight 3.deltacommit") == []
    assert merged([log("c-0", "2", 1)], "1.deltacommit 3.deltacommit") == []


def test_a_base_file_of_a_write_that_failed_does_not_hide_the_slice_before_it() -> None:
    files = [base("a-0", "1"), log("a-0", "1", 1), base("a-0", "3")]
    assert merged(files, "1.deltacommit 2.deltacommit 3.deltacommit.inflight") == [("a-0", "1", ["1.1"])]
    assert merged(files, "1.deltacommit 2.deltacommit 4.deltacommit") == [("a-0", "1", ["1.1"])]


COMPACTING = [base("a-0", "1"), log("a-0", "1", 1), log("a-0", "1", 2), log("a-0", "3", 1), log("a-0", "3", 2)]


def test_log_files_of_a_pending_compaction_are_added_to_the_slice_before() -> None:
    for state in ("requested", "inflight"):
        names = f"1.deltacommit 2.deltacommit 3.compaction.{state} 4.deltacommit"
        assert merged(COMPACTING, names) == [("a-0", "1", ["1.1", "1.2", "3.1", "3.2"])]
        assert merged([*COMPACTING, base("a-0", "3")], names) == [("a-0", "1", ["1.1", "1.2", "3.1", "3.2"])]


def test_a_finished_compaction_begins_a_slice() -> None:
    names = "1.deltacommit 2.deltacommit 3.compaction.requested 3.commit 4.deltacommit"
    assert merged([*COMPACTING, base("a-0", "3")], names) == [("a-0", "3", ["3.1", "3.2"])]
    assert merged([*COMPACTING, base("a-0", "3")], names, as_of="2") == [("a-0", "1", ["1.1", "1.2"])]


def test_a_pending_compaction_of_log_files_alone_goes_on_with_them() -> None:
    files = [log("a-0", "1", 1), log("a-0", "3", 1)]
    assert merged(files, "1.deltacommit 3.compaction.requested 4.deltacommit") == [("a-0", None, ["1.1", "3.1"])]


def test_log_files_of_a_pending_compaction_without_an_older_slice_are_merged_alone() -> None:
    assert merged([log("a-0", "3", 1)], "2.deltacommit 3.compaction.requested 4.deltacommit") == [("a-0", None, ["3.1"])]
    assert merged([base("a-0", "3")], "2.deltacommit 3.compaction.inflight 4.deltacommit") == []


def test_a_pending_compaction_later_than_the_time_of_the_query_is_ignored() -> None:
    names = "1.deltacommit 2.deltacommit 3.compaction.requested 4.deltacommit"
    assert merged(COMPACTING, names, as_of="2") == [("a-0", "1", ["1.1", "1.2"])]
    assert merged(COMPACTING, names, as_of="3") == [("a-0", "1", ["1.1", "1.2", "3.1", "3.2"])]


def test_read_optimized_queries_read_the_base_file_before_a_pending_compaction() -> None:
    assert seen(COMPACTING, "1.deltacommit 2.deltacommit 3.compaction.requested 4.deltacommit") == [("a-0", "1")]


def test_slices_of_archived_commits_are_merged() -> None:
    assert merged([base("a-0", "1"), log("a-0", "1", 1), log("c-0", "2", 1)], "5.deltacommit") == [
        ("a-0", "1", ["1.1"]),
        ("c-0", None, ["2.1"]),
    ]


def test_a_replaced_group_is_merged_only_as_of_a_time_before() -> None:
    files = [base("a-0", "1"), log("a-0", "1", 1)]
    names = "1.deltacommit 2.deltacommit 3.replacecommit"
    assert merged(files, names, replaced={("p", "a-0"): "3"}) == []
    assert merged(files, names, replaced={("p", "a-0"): "3"}, as_of="2") == [("a-0", "1", ["1.1"])]
