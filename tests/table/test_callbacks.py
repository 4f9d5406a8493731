"""Callbacks after the commits of real writes: functions of users and the HTTP callback, and the report of what followed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import OptionError, PenstockError
from penstock.registered.hooks import COMMIT_CALLBACKS
from penstock.registered.registry import list_entry_points
from penstock.services.compaction.service import COMPACTION
from tests.kit.http_servers import Recorder, answer_with, running_server
from tests.table.tables import BULK, SIX, TRIPS, timeline, trips, write

CALLBACKS = "penstock.commit.callbacks"
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the functions that a test registers."""
    monkeypatch.setattr(COMMIT_CALLBACKS, "registered", dict(COMMIT_CALLBACKS.registered))


@pytest.fixture
def server() -> Iterator[Recorder]:
    with running_server() as recorder:
        yield recorder


@pytest.fixture
def table(spark: Any, table_path: str) -> penstock.Table:
    write(trips(spark, *SIX).coalesce(1), table_path, BULK | MERGE_ON_READ)
    return penstock.Table.open(table_path, spark, MERGE_ON_READ | {"hoodie.compact.inline": "false"})


def test_several_callbacks_get_a_typed_notice_of_every_commit_of_a_write_and_of_no_compaction(
    spark: Any, table: penstock.Table
) -> None:
    notices: list[penstock.CommitNotice] = []

    @penstock.commit_callback("count")
    def count(notice: penstock.CommitNotice) -> None:
        notices.append(notice)

    @penstock.commit_callback("made")
    class Made:
        def __call__(self, notice: penstock.CommitNotice) -> None:
            notices.append(notice)

    options = {CALLBACKS: "count,made"}
    commit = table.upsert(trips(spark, ("a", "berlin", 9, 9.5), ("n", "oslo", 1, 0.5)), options)
    first, second = notices
    assert first == second
    assert (first.table_name, first.base_path, first.instant) == ("trips", table.path, commit.instant)
    assert (first.operation, first.action, first.idempotency_key) == ("upsert", "deltacommit", f"trips@{commit.instant}")
    assert (first.rows_inserted, first.rows_updated, first.partitions) == (1, 1, ("berlin", "oslo"))
    assert (first.files_written, first.bytes_written) == (commit.files_written, commit.bytes_written)
    assert first.options[CALLBACKS] == "count,made"
    assert [(step.name, step.kind, step.result) for step in commit.follow_ups][-2:] == [
        ("count", "hook", "done"),
        ("made", "hook", "done"),
    ]
    table.compact(options=options)
    assert len(notices) == 2


def test_a_callback_is_called_after_the_table_services_even_if_one_of_them_raises(
    spark: Any, table: penstock.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []

    @penstock.commit_callback("look")
    def look(notice: penstock.CommitNotice) -> None:
        compactions = [name for name in timeline(notice.base_path) if name.endswith(".commit") and name > notice.instant]
        seen.append((notice.instant, len(compactions)))

    options = {CALLBACKS: "look", "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    commit = table.upsert(trips(spark, SIX[0]), options)
    assert seen == [(commit.instant, 1)]
    assert [step.name for step in commit.follow_ups] == ["clean", "archive", "compact", "look"]

    def fail(*arguments: object) -> None:
        raise RuntimeError("no space")

    monkeypatch.setattr(type(COMPACTION), "run_after_write", fail)
    with pytest.raises(PenstockError, match="the write is done, do not run it again; but .*no space"):
        table.upsert(trips(spark, SIX[1]), {**options, "hoodie.fail.writes.on.inline.table.service.exception": "true"})
    assert len(seen) == 2


def test_an_error_of_a_callback_is_reported_and_the_next_one_is_called(
    spark: Any, table_path: str, table: penstock.Table
) -> None:
    called: list[str] = []

    @penstock.commit_callback("broken")
    def broken(notice: penstock.CommitNotice) -> None:
        raise RuntimeError("no disk\nat a line")

    penstock.commit_callback("fine")(lambda notice: called.append(notice.instant))
    hudi = {"hoodie.write.commit.callback.on": "true", "hoodie.write.commit.callback.class": "broken", CALLBACKS: "fine"}
    with pytest.warns(RuntimeWarning, match="do not run it again; but hook 'broken' failed after it: RuntimeError: no disk$"):
        commit = table.upsert(trips(spark, SIX[0]), hudi)
    assert called == [commit.instant]
    broken_step, fine_step = list(commit.follow_ups)[-2:]
    assert (broken_step.name, broken_step.result, broken_step.error) == ("broken", "failed", "RuntimeError: no disk")
    assert (fine_step.name, fine_step.error) == ("fine", None)
    assert "failed: RuntimeError: no disk" in str(commit.follow_ups)
    assert f"{commit.instant}.deltacommit" in timeline(table_path)


def test_a_name_that_is_not_registered_and_a_class_that_does_not_fit_are_found_before_the_write(
    spark: Any, table_path: str
) -> None:
    @penstock.commit_callback("uncallable")
    class Uncallable:
        pass

    @penstock.commit_callback("needy")
    class Needy:
        def __init__(self, config: object) -> None: ...

    for name, words in (
        ("unknown", "no commit callback is registered as 'unknown'"),
        ("uncallable", "which cannot be called: define __call__"),
        ("needy", r"Needy\(\) failed with TypeError"),
    ):
        with pytest.raises(OptionError, match=words):
            write(trips(spark, *SIX), table_path, {**BULK, CALLBACKS: name})
        assert not Path(table_path).exists()
    for name in ("http", "penstock.mine", "no name"):
        with pytest.raises(OptionError, match="cannot name a commit callback"):
            penstock.commit_callback(name)


def test_a_callback_may_come_from_an_installed_package(
    spark: Any, table_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site"
    (package / "acme-1.dist-info").mkdir(parents=True)
    (package / "acme-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (package / "acme-1.dist-info" / "entry_points.txt").write_text("[penstock.commit_callbacks]\nacme.log = acme_log:log\n")
    (package / "acme_log.py").write_text("SEEN = []\ndef log(notice):\n    SEEN.append(notice.operation)\n")
    monkeypatch.syspath_prepend(str(package))
    list_entry_points.cache_clear()
    try:
        write(trips(spark, *SIX), table_path, {**BULK, CALLBACKS: "acme.log"})
    finally:
        list_entry_points.cache_clear()
    import acme_log  # type: ignore[import-not-found]

    assert acme_log.SEEN == ["bulk_insert"]
    assert "acme.log" in COMMIT_CALLBACKS.registered


def test_http_and_own_callbacks_run_together_and_what_is_not_delivered_is_sent_by_the_services(
    spark: Any, table: penstock.Table, server: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    penstock.commit_callback("mine")(lambda notice: seen.append(notice.instant))
    address = {"hoodie.write.commit.callback.http.url": server.url, "penstock.callback.backoff.seconds": "0.001"}
    options = {CALLBACKS: "http,mine", "penstock.progress": "on", **address}
    server.answer = answer_with(500)
    with pytest.warns(RuntimeWarning, match="'http_callback' failed after it: CallbackFailed: POST .* the server answered 500"):
        commit = table.upsert(trips(spark, SIX[0]), options)
    assert seen == [commit.instant]
    assert [step.result for step in commit.follow_ups][-2:] == ["failed", "done"]
    assert "running http_callback after the commit" in capsys.readouterr().err
    assert len(server.received) == 3
    server.answer = answer_with(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs = table.run_due(options)
    assert ("commit notices", "1 notice sent") in [(run.service, run.done) for run in runs]
    message = server.received[-1].json
    assert (message["commitTime"], message["tableName"]) == (commit.instant, "trips")
    assert message["hoodieWriteStat"][0]["logFiles"]
    assert message["extraMetadata"]["schema"]


def test_overwriting_a_table_calls_back_when_the_new_table_is_in_place(spark: Any, table: penstock.Table) -> None:
    seen: list[int] = []
    penstock.commit_callback("look")(lambda notice: seen.append(len(timeline(notice.base_path))))
    write(trips(spark, SIX[0]), table.path, {**TRIPS, CALLBACKS: "look"}, mode="overwrite")
    assert seen == [3]
