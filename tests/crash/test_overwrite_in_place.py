"""Save mode `overwrite` on a storage that cannot rename: at every request of it, the table is the old one or the new one.

The store is in memory, and deletes a few files per request. Requests that change something are counted, and each of them fails once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from penstock import clock
from penstock.commit.open_finished import open_finished
from penstock.commit.replace_in_place import _is_unique
from penstock.door.plan_again import plan_until_it_holds
from penstock.errors import CommitUnknown, PenstockError, StorageError, TableChanged, WriteConflict
from penstock.options import read_options
from penstock.read.query import Query, parse_query
from penstock.services.rollback.failed_writes import roll_back_failed
from penstock.table.state import TableState
from penstock.timeline.instant import Action
from penstock.timeline.store import request_instant
from tests.crash.scenes import CHANGED, CHANGES, FIRST, HEARTBEATS_EXPIRED, LATER, NEW, Runner, Step, with_later
from tests.kit.faults import Crash, Fault
from tests.kit.memory_object_store import MemoryStore, Requests, memory_store
from tests.kit.plain import Row, orphans, pending, plain_rows, rows_of_columns

PATH = "objects:/lake/table"
OVERWRITE = Step("insert", NEW, "overwrite")
OLD, NEW_ROWS = sorted(CHANGED, key=repr), sorted(NEW, key=repr)
NOTE = "/.hoodie/.overwrite/"


class Waits(Exception):
    """A process waits for another one."""


@pytest.fixture(scope="module")
def store(runner: Runner) -> Iterator[MemoryStore]:
    """A store with a table that has a history."""
    with (
        memory_store() as store,
        runner.in_this_process(),
        patch("penstock.workers.run_kernels._WAITING_THREADS", 1),
        patch("penstock.clock.sleep_s", _wait),
    ):
        runner.run(Step("insert", FIRST), PATH)
        runner.run(Step("upsert", CHANGES), PATH)
        yield store


def _wait(seconds: float) -> None:
    if seconds >= 0.1:  # a shorter pause is that between two attempts to take an instant
        raise Waits


@pytest.fixture(scope="module")
def template(store: MemoryStore) -> dict[str, bytes]:
    """The files of the table before the overwrite."""
    return store.files()


@pytest.fixture(scope="module")
def calls(store: MemoryStore, template: dict[str, bytes], runner: Runner) -> list[str]:
    """The requests of an overwrite that goes well."""
    assert overwrite(store, template, runner) is None
    found = store.requests.calls
    assert len([call for call in found if call.startswith("delete")]) > 5
    return found


def decision(calls: list[str]) -> int:
    """Return the number of the request that decides."""
    (at,) = [at for at, call in enumerate(calls) if call.startswith("write_new") and NOTE in call]
    return at


def overwrite(
    store: MemoryStore,
    template: dict[str, bytes],
    runner: Runner,
    at: int | None = None,
    fault: Fault = Fault.BEFORE,
    watch: Callable[[str], object] = str,
    looks: bool = False,
) -> BaseException | None:
    """Overwrite the table, with a fault at a request. Return the error."""
    store.put(template)
    store.requests = Requests(at, fault, watch=watch, looks=looks)
    try:
        runner.run(OVERWRITE, PATH)
    except (PenstockError, Crash) as e:
        return e
    return None


def read(expired: bool = True) -> list[Row]:
    """Read the table as a query does, by a process that takes the writer for dead, or for alive."""
    query = parse_query([PATH], read_options(HEARTBEATS_EXPIRED if expired else {}))
    return rows_of(query, open_finished(query.base_path, query.options, query.config))


def rows_of(query: Query, table: TableState) -> list[Row]:
    """Plan a query of a table that was opened, and read the rows."""
    paths = plan_until_it_holds(query, table, lambda plan: [s.base_file.path for s in plan.all_slices if s.base_file])
    parts = [pq.read_table(table.storage.open(path), columns=["id", "city", "ts", "fare"], use_threads=False) for path in paths]
    return sorted(rows_of_columns(parts), key=repr)


def look(store: MemoryStore, expired: bool = True) -> list[Row]:
    """Read the table, with requests of another process."""
    mine, store.requests = store.requests, Requests()
    try:
        return read(expired)
    finally:
        store.requests = mine


def write_later(store: MemoryStore, runner: Runner) -> None:
    """Run the next write, by a process that knows nothing of the failed one, after its heartbeat has expired."""
    time.sleep(0.002)  # a heartbeat of this millisecond has not expired
    mine, store.requests = store.requests, Requests()
    try:
        runner.run(Step("upsert", LATER, options=HEARTBEATS_EXPIRED), PATH)
    finally:
        store.requests = mine


def check_later(store: MemoryStore, runner: Runner, rows: list[Row], what: str) -> None:
    """Run the next write. Check that it returns and leaves nothing behind."""
    write_later(store, runner)
    check_whole(store, with_later(tuple(rows)), what)


def check_whole(store: MemoryStore, rows: list[Row], what: str) -> None:
    """Check the rows of the table, and that nothing is left in it of a failed write."""
    with TemporaryDirectory() as folder:
        store.download(Path(folder))
        table = Path(folder, "lake", "table")
        assert plain_rows(table) == rows, what
        assert (orphans(table), pending(table)) == ([], []), what
        assert [note for note in table.glob(f"{NOTE[1:]}*") if note.read_bytes()] == [], what


def test_an_overwrite_moves_no_file_of_the_old_table(calls: list[str], store: MemoryStore) -> None:
    check_whole(store, NEW_ROWS, "nothing went wrong")
    copies = [call for call in calls if call.startswith("copy")]
    assert all(call.split()[1].startswith("/lake/table/.hoodie/.temp/overwrite-") for call in copies)
    assert copies[-1].endswith(".commit")
    assert copies[-2].endswith("hoodie.properties")
    assert len(copies) == len(store.files())


def test_a_crash_at_any_request_leaves_the_old_table_or_the_new_one(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    decided = decision(calls)
    for at, call in enumerate(calls):
        assert isinstance(overwrite(store, template, runner, at), Crash)
        rows = look(store)
        assert rows == (OLD if at <= decided else NEW_ROWS), call
        assert look(store) == rows, call
        check_later(store, runner, rows, call)


def test_the_next_writer_finishes_an_overwrite_too(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    for at in range(decision(calls), len(calls), 3):
        overwrite(store, template, runner, at)
        check_later(store, runner, OLD if at == decision(calls) else NEW_ROWS, calls[at])


@pytest.mark.parametrize("fault", [Fault.FAILS, Fault.FAILS_AFTER])
def test_after_an_error_at_any_request_the_table_is_new_if_the_write_returned_and_old_if_it_raised(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str], fault: Fault
) -> None:
    for at, call in enumerate(calls):
        error = overwrite(store, template, runner, at, fault)
        rows = look(store)
        what = f"{call}: {error!r}"
        assert rows in (OLD, NEW_ROWS), what
        if not isinstance(error, CommitUnknown):
            assert rows == (NEW_ROWS if error is None else OLD), what
        elif at != decision(calls):
            assert rows == NEW_ROWS, what
        check_later(store, runner, rows, what)


def test_after_any_failed_read_the_table_is_new_if_the_write_returned_and_old_if_it_raised(
    store: MemoryStore, template: dict[str, bytes], runner: Runner
) -> None:
    overwrite(store, template, runner, looks=True)
    looks = store.requests.calls
    assert len(looks) > 20
    for at, call in enumerate(looks):
        error = overwrite(store, template, runner, at, looks=True)
        rows = look(store)
        what = f"{call}: {error!r}"
        if not isinstance(error, CommitUnknown):
            assert rows == (NEW_ROWS if error is None else OLD), what
        check_later(store, runner, rows, what)


def test_a_query_of_a_table_that_was_opened_before_the_overwrite_never_reads_half_of_it(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    for at in range(decision(calls), len(calls)):
        store.put(template)
        store.requests = Requests()
        query = parse_query([PATH], read_options({}))
        opened = open_finished(query.base_path, query.options, query.config)
        overwrite(store, template, runner, at)
        store.requests = Requests()
        assert rows_of(query, opened) == (OLD if at == decision(calls) else NEW_ROWS), calls[at]


def test_a_reader_at_any_request_of_a_living_overwrite_reads_the_old_table_or_waits(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    seen: list[str] = []

    def reads(call: str) -> None:
        try:
            rows = look(store, expired=False)
        except Waits:
            seen.append("waits")
        else:
            seen.append("old" if rows == OLD else "new" if rows == NEW_ROWS else f"{call}: {rows}")

    assert overwrite(store, template, runner, watch=reads) is None
    decided = decision(store.requests.calls)
    after = seen[decided + 1 :]
    assert set(seen[: decided + 1]) == {"old"}
    assert after[0] == "waits"
    assert set(after) == {"waits", "new"}
    assert after == sorted(after, reverse=True)  # once the new table is there, nothing waits
    assert look(store) == NEW_ROWS


def test_an_overwrite_is_finished_although_the_process_that_finishes_it_dies_too(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    for first in range(decision(calls) + 1, len(calls), 5):
        for second in range(1, 40, 4):
            overwrite(store, template, runner, first)
            store.requests = Requests(second)
            try:
                assert read() == NEW_ROWS
                break
            except Crash:
                assert look(store) == NEW_ROWS, (first, second)


def names_reused_files(call: str) -> bool:
    """Whether a request deletes files whose names a later write may use again. It follows at once on a look at the note."""
    return call.startswith("delete") and not all(_is_unique(path.removeprefix("/lake/table/")) for path in call.split()[1:])


def test_a_slow_process_loses_no_row_of_a_write_that_came_after_it_was_taken_for_dead(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    """Another process takes the overwrite for dead, finishes it or prevents it, and writes. Then the first one wakes up."""
    decided = decision(calls)
    begun = next(at for at, call in enumerate(calls) if "overwrite-" in call)
    outcomes = set()
    for at in range(begun + 1, len(calls)):

        def another_writes(call: str, at: int = at) -> None:
            if len(store.requests.calls) == at and not names_reused_files(call):
                write_later(store, runner)

        error = overwrite(store, template, runner, watch=another_writes)
        assert error is None or isinstance(error, PenstockError), calls[at]
        rows = look(store)
        if names_reused_files(calls[at]):
            assert rows == NEW_ROWS
        elif len(set(re.findall(r"temp/(overwrite-[^/]+)", " ".join(store.requests.calls)))) > 1:
            assert rows == NEW_ROWS, calls[at]  # the overwrite was begun again after the other write
        elif at <= decided:
            assert error is not None, calls[at]
            assert rows == with_later(tuple(OLD)), calls[at]
        else:
            assert rows == with_later(tuple(NEW_ROWS)), (calls[at], error)
        outcomes.add(type(error))
    assert {type(None), WriteConflict} <= outcomes


def test_another_writer_is_refused_or_waits_while_the_tables_are_swapped(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    for at in range(len(calls)):
        outcome: list[str] = []

        def another_writes(call: str, at: int = at, outcome: list[str] = outcome) -> None:
            if len(store.requests.calls) != at:
                return
            mine, store.requests = store.requests, Requests()
            try:
                runner.run(Step("upsert", LATER), PATH)
                outcome.append("writes")
            except (Waits, WriteConflict):
                outcome.append("refused")
            finally:
                store.requests = mine

        error = overwrite(store, template, runner, watch=another_writes)
        rows = look(store)
        if error is not None:
            assert isinstance(error, WriteConflict), calls[at]
            assert rows == with_later(tuple(OLD)), calls[at]
        elif outcome == ["refused"] or at <= decision(calls):
            assert rows == NEW_ROWS, calls[at]
        else:
            assert rows == with_later(tuple(NEW_ROWS)), calls[at]


def test_no_instant_is_taken_while_the_tables_are_swapped(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    """A table service that requests its instant just before the decision finds it gone later."""
    outcomes: list[str] = []

    def a_service_begins(call: str) -> None:
        at = len(store.requests.calls)
        mine, store.requests = store.requests, Requests()
        try:
            if at >= decision(calls) and "done" not in outcomes:
                request_instant(*store.open(PATH), Action.CLEAN, utc=False)
                outcomes.append("taken")
        except TableChanged:
            outcomes.append("refused")
        finally:
            store.requests = mine
        if call.startswith("delete") and NOTE in call:
            outcomes.append("done")

    assert overwrite(store, template, runner, watch=a_service_begins) is None
    assert outcomes[0] == "taken"
    assert set(outcomes[1:-1]) == {"refused"}
    assert outcomes[-1] == "done"
    check_whole(store, NEW_ROWS, "a service began")


def test_an_overwrite_that_was_given_up_cannot_be_decided(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    def takes_it_for_dead(call: str) -> None:
        if NOTE in call and call.startswith("write_new"):
            time.sleep(0.002)
            mine, store.requests = store.requests, Requests()
            roll_back_failed(open_finished(PATH, read_options(HEARTBEATS_EXPIRED)))
            store.requests = mine

    error = overwrite(store, template, runner, watch=takes_it_for_dead)
    assert isinstance(error, WriteConflict)
    assert "for dead" in str(error)
    assert look(store) == OLD


def test_a_note_that_an_overwrite_was_given_up_is_deleted_after_a_day(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    overwrite(store, template, runner, decision(calls))
    write_later(store, runner)
    assert [key for key in store.files() if NOTE in key]
    later = clock.now_ms() + 25 * 3600 * 1000
    with patch("penstock.clock.now_ms", lambda: later):  # the clock of this process alone is not believed
        write_later(store, runner)
    assert [key for key in store.files() if NOTE in key]
    with patch("penstock.clock.now_ms", lambda: later), patch("penstock.storage.ages._ask_time", lambda storage, folder: later):
        write_later(store, runner)
    assert [key for key in store.files() if NOTE in key] == []


def test_a_file_of_the_new_table_that_is_gone_keeps_the_old_table(
    store: MemoryStore, template: dict[str, bytes], runner: Runner
) -> None:
    def another_deletes(call: str) -> None:
        if "/table/.hoodie/.heartbeat/" in call and call.startswith("write_new"):
            found = [key for key in store.files() if "overwrite-" in key and key.endswith(".parquet")]
            store.put({key: content for key, content in store.files().items() if key != found[0]})

    error = overwrite(store, template, runner, watch=another_deletes)
    assert isinstance(error, WriteConflict)
    assert "for dead" in str(error)
    assert look(store) == OLD
    check_later(store, runner, OLD, "a file was deleted")


def test_a_damaged_table_can_be_overwritten(store: MemoryStore, template: dict[str, bytes], runner: Runner) -> None:
    damaged = {key: content for key, content in template.items() if not key.endswith("hoodie.properties")}
    assert overwrite(store, damaged, runner) is None
    check_whole(store, NEW_ROWS, "a damaged table")
    for at in range(decision(store.requests.calls) + 1, len(store.requests.calls), 4):
        assert isinstance(overwrite(store, damaged, runner, at), Crash)
        assert look(store) == NEW_ROWS, store.requests.calls[at]


def test_an_error_of_the_store_before_the_decision_says_that_the_old_table_is_there(
    store: MemoryStore, template: dict[str, bytes], runner: Runner, calls: list[str]
) -> None:
    error = overwrite(store, template, runner, decision(calls), Fault.FAILS)
    assert isinstance(error, StorageError)
    assert "the old table is as it was" in str(error)
    error = overwrite(store, template, runner, decision(calls) + 2, Fault.FAILS)
    assert isinstance(error, CommitUnknown)
    assert "when the path is next opened" in str(error)
