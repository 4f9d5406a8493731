"""Validators before a commit: they see the table as it would be, refuse it or not, and a refused write leaves no trace."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import clock
from penstock.door.expire import expire_partitions
from penstock.door.preview import read_preview
from penstock.errors import OptionError, Unsupported, ValidationFailed
from penstock.hooks import HOOKS, Hook, HookContext, PendingCommit
from penstock.options import read_options
from penstock.options.write import EQUALITY_VALIDATOR, INEQUALITY_VALIDATOR, SINGLE_RESULT_VALIDATOR
from penstock.progress import Stages
from penstock.registered.hooks import VALIDATORS
from penstock.table.state import open_table
from tests.kit.templates import Templates
from tests.table.tables import BULK, META, OPERATION, SIX, TRIPS, Trip, base_files, snapshot, sorted_rows, state_of, trips, write

NAMES = "hoodie.precommit.validators"
EQUAL = {NAMES: EQUALITY_VALIDATOR}
UNEQUAL = {NAMES: INEQUALITY_VALIDATOR}
SINGLE = {NAMES: SINGLE_RESULT_VALIDATOR}
QUIET = {"hoodie.compact.inline": "false", "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
KINDS = pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
CHANGES: tuple[Trip, ...] = (("a", "berlin", 9, 9.5), ("n", "oslo", 1, 0.5))


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the functions that a test registers."""
    monkeypatch.setattr(VALIDATORS, "registered", dict(VALIDATORS.registered))


@pytest.fixture
def kind() -> str:
    return "COPY_ON_WRITE"


@pytest.fixture
def table(spark: Any, table_path: str, templates: Templates, kind: str) -> penstock.Table:
    """Three partitions of two rows each; of a merge-on-read table, one with a log file."""
    options = QUIET | {"hoodie.datasource.write.table.type": kind}

    def make(path: str) -> None:
        write(trips(spark, *SIX).coalesce(1), path, BULK | options)
        penstock.Table.open(path, spark, options).upsert(trips(spark, ("c", "paris", 5, 7.5)))

    templates.copy(f"validated-{kind}", make, table_path)
    return penstock.Table.open(table_path, spark, options)


def queries(kind: str, *texts: str) -> dict[str, str]:
    return {f"{NAMES}.{kind}.sql.queries": ";".join(texts)}


@KINDS
def test_a_preview_has_the_rows_of_the_table_before_and_after_every_operation(
    spark: Any, table: penstock.Table, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    previews: list[tuple[Any, Any]] = []

    class Reader(Hook):
        def __init__(self, context: HookContext) -> None:
            self.context = context

        def before_commit(self, commit: PendingCommit) -> None:
            # A file of a lost attempt, with rows that the table must not have twice, and its marker.
            stray = f"x-0_0-9-9_{commit.instant}.parquet"
            marker = Path(table.path, ".hoodie", ".temp", commit.instant, "berlin", f"{stray}.marker.CREATE")
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
            shutil.copy(base_files(Path(table.path, "berlin"))[0], Path(table.path, "berlin", stray))
            for seen in (None, commit):
                frame = read_preview(spark, self.context.table, seen)
                previews.append((commit.operation, sorted_rows(frame.drop(*META))))

    monkeypatch.setitem(HOOKS, "reader", Reader)
    before = snapshot(spark, table.path)
    for change in (
        lambda: table.upsert(trips(spark, *CHANGES)),
        lambda: table.delete(trips(spark, SIX[1])),
        lambda: table.insert_overwrite(trips(spark, ("z", "paris", 1, 1.0))),
        lambda: table.delete_partitions("tokyo"),
    ):
        previews.clear()
        change()
        (_, old), (operation, new) = previews
        assert old == before, operation
        assert new != old
        before = snapshot(spark, table.path)
        assert new == before, operation


@KINDS
def test_a_refused_write_leaves_the_old_table_and_names_query_and_values(spark: Any, table: penstock.Table, kind: str) -> None:
    files = state_of(table.path)
    refusals = (
        (EQUAL | queries("equality", "select count(*) from <TABLE_NAME>"), "6, as before the commit", "7"),
        (UNEQUAL | queries("inequality", "select max(fare) from <TABLE_NAME> where city = 'paris'"), "another result", "7.5"),
        (SINGLE | queries("single.value", "select fare from <TABLE_NAME> where id = 'a'#1.5"), "1.5", "9.5"),
        (SINGLE | queries("single.value", "select id from <TABLE_NAME>#a"), "a", "more than one row"),
        (SINGLE | queries("single.value", "select id from <TABLE_NAME> where false#a"), "a", "no row"),
    )
    for options, expected, found in refusals if kind == "COPY_ON_WRITE" else refusals[:1]:
        with pytest.raises(ValidationFailed, match="Nothing was written") as caught:
            table.upsert(trips(spark, *CHANGES), options)
        assert caught.value.query is not None
        assert caught.value.query in str(caught.value)
        assert (caught.value.expected or "").startswith(expected)
        assert caught.value.found == found
        assert state_of(table.path) == files


def test_a_write_that_every_validator_accepts_is_committed(spark: Any, table: penstock.Table) -> None:
    options = {
        NAMES: f"{EQUALITY_VALIDATOR},{INEQUALITY_VALIDATOR}, {SINGLE_RESULT_VALIDATOR}",
        **queries("equality", "select * from <TABLE_NAME> where city = 'tokyo'", "select min(ts) from <TABLE_NAME>"),
        **queries("inequality", "select count(*) from <TABLE_NAME>"),
        **queries("single.value", "select count(*) from <TABLE_NAME>#7", "select max(fare) from <TABLE_NAME> # 9.5 "),
    }
    views = spark.catalog.listTables()
    assert table.upsert(trips(spark, *CHANGES), options).rows_inserted == 1
    assert spark.catalog.listTables() == views


def test_the_first_write_is_compared_with_an_empty_table(spark: Any, table_path: str) -> None:
    options = {**BULK, **EQUAL, **queries("equality", "select count(*) from <TABLE_NAME> where fare < 0")}
    write(trips(spark, *SIX), table_path, options)
    overwritten = {**BULK, **EQUAL, **queries("equality", "select count(id) from <TABLE_NAME>")}
    with pytest.raises(ValidationFailed, match="would return 6; expected 0, as before"):
        write(trips(spark, *SIX), table_path, overwritten, mode="overwrite")
    assert snapshot(spark, table_path) == sorted(SIX, key=repr)


def test_results_are_compared_as_rows_and_rows_may_be_added_as_in_hudi(spark: Any, table: penstock.Table) -> None:
    ids = "select id, city from <TABLE_NAME> order by ts"
    with pytest.raises(ValidationFailed, match=r"would return .*'n'.*; expected another result"):
        table.upsert(trips(spark, CHANGES[1]), UNEQUAL | queries("inequality", ids))
    table.upsert(trips(spark, CHANGES[1]), EQUAL | queries("equality", ids))
    table.upsert(trips(spark, CHANGES[0]), EQUAL | queries("equality", "select city from <TABLE_NAME>"))  # the same row twice
    with pytest.raises(ValidationFailed, match="expected .* as before the commit"):
        table.delete(trips(spark, SIX[5]), EQUAL | queries("equality", "select city from <TABLE_NAME>"))


def test_own_validators_see_both_states_and_may_refuse(spark: Any, table: penstock.Table) -> None:
    counts: list[tuple[int, int, str]] = []

    @penstock.validator("growth")
    def growth(preview: penstock.TablePreview) -> bool:
        counts.append((preview.before.count(), preview.after.count(), preview.notice.operation))
        return preview.after.count() <= 7

    @penstock.validator("broken")
    def broken(preview: penstock.TablePreview) -> None:
        raise ZeroDivisionError("no rows")

    penstock.validator("worded")(lambda preview: "fares look wrong")
    table.upsert(trips(spark, *CHANGES), {NAMES: "growth"})
    assert counts == [(6, 7, "upsert")]
    files = state_of(table.path)
    for name, words in (
        ("growth", "it returned False"),
        ("worded", "fares look wrong"),
        ("broken", "ZeroDivisionError: no rows"),
    ):
        with pytest.raises(ValidationFailed, match=words):
            table.insert(trips(spark, ("o", "oslo", 1, 0.5)), {NAMES: name})
        assert state_of(table.path) == files


def test_table_services_are_not_validated(spark: Any, table_path: str) -> None:
    penstock.validator("never")(lambda preview: "no")
    write(trips(spark, *SIX), table_path, BULK | QUIET)
    table = penstock.Table.open(table_path, spark, QUIET)
    assert [commit.operation for commit in table.cluster(options={NAMES: "never"})] == ["cluster"]


def test_wrong_options_are_named_before_anything_is_written(spark: Any, table_path: str) -> None:
    for options, words in (
        (EQUAL, r"needs hoodie\.precommit\.validators\.equality\.sql\.queries"),
        (SINGLE | queries("single.value", "select 1 from <TABLE_NAME>"), "without an expected value"),
        (EQUAL | queries("equality", "select 1"), "without <TABLE_NAME>"),
    ):
        with pytest.raises(OptionError, match=words):
            write(trips(spark, *SIX), table_path, {**TRIPS, OPERATION: "insert", **options})
    with pytest.raises(Unsupported, match=r"register a Python function under this name with @penstock\.validator"):
        write(trips(spark, *SIX), table_path, {**BULK, NAMES: "com.acme.Check"})
    with pytest.raises(OptionError, match=r"the query 'select nothing from <TABLE_NAME>' of a validator cannot be run"):
        write(trips(spark, *SIX), table_path, {**BULK, **EQUAL, **queries("equality", "select nothing from <TABLE_NAME>")})
    assert not Path(table_path).exists()


def test_the_deletion_of_expired_partitions_is_validated(
    spark: Any, table: penstock.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.local_now
    monkeypatch.setattr(clock, "local_now", lambda: now() + timedelta(days=3))
    before = snapshot(spark, table.path)
    ttl = {"hoodie.partition.ttl.strategy.days.retain": "1", "hoodie.partition.ttl.strategy.partition.selected": "tokyo"}
    ttl["hoodie.partition.ttl.inline"] = "true"
    count = "select count(*) from <TABLE_NAME>#"
    with pytest.raises(ValidationFailed) as caught:
        table.expire_partitions({**ttl, **SINGLE, **queries("single.value", f"{count}6")})
    assert (caught.value.expected, caught.value.found) == ("6", "4")
    assert snapshot(spark, table.path) == before
    with pytest.raises(OptionError, match="needs a Spark session"):
        expire_partitions(
            open_table(table.path, read_options({**ttl, **EQUAL, **queries("equality", count[:-1])})), Stages("", "off")
        )
    runs = table.run_due({**ttl, **SINGLE, **queries("single.value", f"{count}4")})
    assert ("old partitions", "1 partition deleted") in [(run.service, run.done) for run in runs]
    assert snapshot(spark, table.path) == [row for row in before if row[1] != "tokyo"]
