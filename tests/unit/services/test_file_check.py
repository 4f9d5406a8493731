"""The check of files against the timeline reports missing and unexplained files, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.filegroup.names import log_file_name
from penstock.formats.log import encode_rollback_block
from penstock.progress import Stages
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.services.file_check import check_files
from penstock.table.state import open_table
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_compaction_plan
from tests.table.handmade import HandMade
from tests.table.handmade import at as made_at
from tests.unit.services.histories import History, at, base


def problems(history: History) -> dict[str, str]:
    return {one.path: one.problem for one in check_files(history.table())}


@pytest.fixture
def history() -> History:
    """Return three versions of two groups, one of which a fourth commit replaces."""
    made = History().commits(range(1, 4), "p/a-0", "q/b-0")
    return made.commit(4, ["q/c-0"], action="replacecommit", replaced={"q": ("b-0",)})


def test_old_versions_and_replaced_groups_are_explained_with_services_and_without(history: History) -> None:
    assert problems(history) == {}
    for number in range(5, 12):
        history.commit(number, ["p/a-0"])
        options = {"cleaner_commits_retained": 1, "keep_min_commits": 2, "keep_max_commits": 3}
        clean(None, history.table(**options), Stages("", "off"))
        archive(history.table(**options))
        assert problems(history) == {}
    assert len(history.data_files("/t/p/")) < 5


def test_a_missing_file_is_reported_if_the_newest_state_needs_it_and_not_if_it_is_older(history: History) -> None:
    for group, number in (("p/a-0", 2), ("q/b-0", 3)):  # old; and replaced
        folder, _, file_id = group.partition("/")
        history.storage.delete(f"/t/{folder}/{base(file_id, number)}")
    assert problems(history) == {}
    history.storage.delete(f"/t/p/{base('a-0', 3)}")
    assert problems(history) == {
        f"p/{base('a-0', 3)}": f"is missing: commit {at(3)} wrote it, and no later one replaced it",
    }


def test_files_of_no_instant_are_reported_and_files_of_a_pending_write_are_not(history: History) -> None:
    history.file(f"p/{base('z-0', 9)}")
    history.file(f"p/{base('y-0', 2)}")
    found = problems(history)
    assert set(found) == {f"p/{base('z-0', 9)}", f"p/{base('y-0', 2)}"}
    assert "no instant on the timeline made it" in found[f"p/{base('z-0', 9)}"]
    assert f"commit {at(2)} does not name it" in found[f"p/{base('y-0', 2)}"]
    history.instant(f"{at(9)}.commit.requested", b"")
    assert set(problems(history)) == {f"p/{base('y-0', 2)}"}
    history.storage.write_new("/t/p/.something.crc", b"")  # no data file


def test_files_of_a_savepoint_are_needed(history: History) -> None:
    history.savepoint(1, {"p": [base("a-0", 1)], "q": []})
    assert problems(history) == {}
    history.storage.delete(f"/t/p/{base('a-0', 1)}")
    assert problems(history) == {f"p/{base('a-0', 1)}": f"is missing: savepoint {at(1)} holds it"}


def logged(path: Path, *, named: bool = True) -> HandMade:
    """Return a base file with a log file on top, which the second commit names."""
    made = HandMade(path)
    first = WriteStat("x-0", "x", f"x/x-0_0-0-0_{made_at(1)}.parquet")
    second = WriteStat("x-0", "x", f"x/{log_file_name('x-0', made_at(1), 1, '0-0-0')}", prev_commit=made_at(1))
    made.base(1, "x", ("a", "x", 1, 1.0)).instant(1, stats=(first,))
    return made.log(1, "x", 1, made.rows(2, "x", ("a", "x", 2, 2.0))).instant(2, stats=(second,) if named else ())


def file_problems(made: HandMade) -> dict[str, str]:
    return {one.path.rpartition("/")[2]: one.problem for one in check_files(open_table(str(made.path)))}


def test_log_files_are_explained_by_commits_or_by_their_blocks(tmp_path: Path) -> None:
    assert file_problems(logged(tmp_path / "named")) == {}
    made = logged(tmp_path / "unnamed", named=False)
    assert file_problems(made) == {}
    third = log_file_name("x-0", made_at(1), 2, "0-0-0")
    made.log(1, "x", 2, made.rows(3, "x", ("a", "x", 3, 3.0)))
    assert file_problems(made) == {
        third: f"instant {made_at(3)}, which wrote to it, is not on the timeline, and no rollback took it back"
    }
    made.log(1, "x", 3, encode_rollback_block(instant=made_at(4), target_instant=made_at(3)))
    assert file_problems(made) == {}
    made.log(5, "x", 1, made.rows(2, "x", ("a", "x", 3, 3.0)))
    assert list(file_problems(made)) == [log_file_name("x-0", made_at(5), 1, "0-0-0")]


def test_log_files_and_files_that_plans_name_are_needed(tmp_path: Path) -> None:
    made = logged(tmp_path / "t")
    log, old = log_file_name("x-0", made_at(1), 1, "0-0-0"), f"x-0_0-0-0_{made_at(1)}.parquet"
    (made.path / "x" / log).rename(made.path / "kept")
    assert "commit" in file_problems(made)[log]
    (made.path / "kept").rename(made.path / "x" / log)
    stat = WriteStat("x-0", "x", f"x/x-0_0-0-0_{made_at(3)}.parquet", prev_commit=made_at(1))
    made.base(3, "x", ("a", "x", 2, 2.0)).instant(3, "commit", stats=(stat,), compacted=True)
    (made.path / "x" / log).unlink()
    (made.path / "x" / old).unlink()
    assert file_problems(made) == {}
    plan = CompactionPlan((CompactionOperation("x", "x-0", made_at(3), stat.path.rpartition("/")[2], ("gone",)),))  # type: ignore[union-attr]
    (made.path / ".hoodie" / f"{made_at(4)}.compaction.requested").write_bytes(write_compaction_plan(plan))
    assert file_problems(made) == {"gone": f"is missing: plan {made_at(4)} names it"}
