"""Two writers that insert the same new key, and what a write that runs again evaluates."""

from __future__ import annotations

import getpass
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import penstock
from penstock.commit import overlap
from penstock.commit.table_lock import find_lock
from penstock.errors import WriteConflict
from penstock.write.locate import key_collisions
from tests.table.tables import OPERATION, SIX, TRIPS, Trip, snapshot, trips, write

SEVERAL = {
    **TRIPS,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "penstock.lock": "storage",
    "hoodie.parquet.small.file.limit": "0",  # new rows open new file groups
    "hoodie.compact.inline": "false",
}
LOGS = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}
IN_LOGS = {**LOGS, "hoodie.index.type": "INMEMORY"}
CLUSTERED = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
NEW: Trip = ("new", "oslo", 1, 0.5)
#: Names of validators must differ.
_NUMBERS = itertools.count()


def beside(action: Callable[[int], None], times: int = 1) -> dict[str, str]:
    """Return options with which an action runs just before a write commits, in its first attempts.

    Args:
        action: called with the number of the attempt.
    """
    attempts = itertools.count()
    name = f"beside{next(_NUMBERS)}"

    @penstock.validator(name)
    def run(preview: Any) -> None:
        attempt = next(attempts)
        if attempt < times:
            action(attempt)

    return {"hoodie.precommit.validators": name}


@pytest.mark.parametrize(
    ("kind", "other", "options", "collides"),
    [
        ({}, NEW, {}, True),
        ({}, NEW, {OPERATION: "insert"}, True),
        ({}, NEW, CLUSTERED, True),
        ({}, ("other", "oslo", 1, 0.5), {}, False),
        ({}, ("new", "rome", 1, 0.5), {}, False),
        (GLOBAL, ("new", "rome", 1, 0.5), {}, True),
        (LOGS, NEW, {}, True),
        (IN_LOGS, NEW, {}, True),
    ],
    ids=["same", "insert", "clustering", "other-key", "other-partition", "global", "logs", "rows-in-logs"],
)
def test_one_of_two_writers_that_insert_a_key_loses(
    spark: Any, table_path: str, kind: dict[str, str], other: Trip, options: dict[str, str], collides: bool
) -> None:
    several = {**SEVERAL, **kind}
    write(trips(spark, *SIX), table_path, several)
    both = {**several, **beside(lambda _: write(trips(spark, other), table_path, {**several, **options}))}
    if not collides:
        write(trips(spark, NEW), table_path, both)
        assert len(snapshot(spark, table_path)) == 8
        return
    with pytest.raises(WriteConflict) as lost:
        write(trips(spark, NEW), table_path, both)
    assert lost.value.other_instant is not None
    if not options.keys() & CLUSTERED.keys():
        assert f"{lost.value.other_instant} of {getpass.getuser()}@" in str(lost.value)
        assert "both inserted 1 key" in str(lost.value) or "both changed file group" in str(lost.value)
    assert len(snapshot(spark, table_path)) == 7


def test_keys_that_cannot_collide_are_not_looked_for(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, SEVERAL)
    updates = beside(lambda _: write(trips(spark, ("f", "tokyo", 9, 9.5), ("x", "rome", 1, 0.5)), table_path, SEVERAL))
    with patch.object(key_collisions, "_list_slices", wraps=key_collisions._list_slices) as listed:
        write(trips(spark, ("a", "berlin", 9, 9.5), NEW), table_path, {**SEVERAL, **updates})
        assert listed.call_count == 0
        inserts = beside(lambda _: write(trips(spark, ("y", "oslo", 1, 0.5)), table_path, SEVERAL))
        write(trips(spark, ("z", "oslo", 1, 0.5)), table_path, {**SEVERAL, **inserts})
        assert listed.call_count == 1


def test_keys_are_looked_for_without_the_lock_and_commits_are_parsed_once(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, SEVERAL)
    holders: list[object] = []
    list_slices = key_collisions._list_slices

    def another_commits(context: Any, *arguments: Any) -> Any:
        """Look who holds the lock; and commit once more, so that the turn has to be taken a third time."""
        holders.append(find_lock(context.table).holder())
        if len(holders) == 1:
            write(trips(spark, ("x", "oslo", 1, 0.5)), table_path, SEVERAL)
        return list_slices(context, *arguments)

    inserts = beside(lambda _: write(trips(spark, ("y", "oslo", 1, 0.5)), table_path, SEVERAL))
    with (
        patch.object(key_collisions, "_list_slices", another_commits),
        patch.object(overlap, "read_metadata", wraps=overlap.read_metadata) as parsed,
    ):
        write(trips(spark, ("z", "oslo", 1, 0.5)), table_path, {**SEVERAL, **inserts})
    assert holders == [None, None]
    assert parsed.call_count == 2, "the commits of y and x, by the write of z"
    assert len(snapshot(spark, table_path)) == 9


def count_evaluations(spark: Any, folder: Path) -> Any:
    """Return a DataFrame with a change of one row. Each evaluation adds a file to a folder."""
    folder.mkdir()

    def note(batches: Any) -> Any:
        import uuid

        for batch in batches:
            (folder / str(uuid.uuid4())).touch()
            yield batch

    frame = trips(spark, ("a", "berlin", 9, 9.5))
    return frame.coalesce(1).mapInArrow(note, frame.schema)


@pytest.mark.parametrize(("conflicts", "succeeds"), [(3, True), (4, False)])
def test_a_table_runs_a_write_again_three_times_and_evaluates_it_once(
    spark: Any, table_path: str, tmp_path: Path, conflicts: int, succeeds: bool
) -> None:
    write(trips(spark, *SIX), table_path, SEVERAL)
    table = penstock.Table.open(table_path, spark)
    evaluations = tmp_path / "evaluations"
    frame = count_evaluations(spark, evaluations)

    def change(attempt: int) -> None:
        write(trips(spark, ("a", "berlin", 3 + attempt, 1.0)), table_path, SEVERAL)

    options = {**SEVERAL, **beside(change, conflicts)}
    if succeeds:
        assert table.upsert(frame, options).conflicts == conflicts
    else:
        with pytest.raises(WriteConflict, match="both changed file group"):
            table.upsert(frame, options)
    assert len(list(evaluations.iterdir())) == 1
    assert len(snapshot(spark, table_path)) == 6
