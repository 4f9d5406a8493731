"""Claims: one order of all transactions, whatever process stops where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.commit import claims
from penstock.commit.claims import CLAIMS, Completed, run_transaction
from penstock.errors import CommitUnknown, StorageError, WriteConflict
from penstock.options import Options
from penstock.storage import MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.state import TableState
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import load_timeline
from penstock.timeline.timeline import Timeline

BASE = "/t"


@dataclass(frozen=True)
class Interrupted(MemoryStorage):
    """A memory storage that runs an action, once, before a call to create a file whose path ends in `before`."""

    before: str = ""
    actions: list[Callable[[], object]] = field(default_factory=list, compare=False)

    def write_new(self, path: str, data: bytes) -> None:
        if self.actions and path.endswith(self.before):
            self.actions.pop()()
        super().write_new(path, data)


def make_table(request: pytest.FixtureRequest, **arguments: Any) -> TableState:
    storage = Interrupted(request.node.name, **arguments)
    return TableState(storage, BASE, TableConfig({}), Options({}), Timeline())


def begin(table: TableState, time: str) -> None:
    table.storage.write_new(f"{BASE}/.hoodie/{time}.commit.requested", b"")


def commit(table: TableState, time: str, seen: list[list[str]] | None = None) -> None:
    def check(timeline: Timeline) -> Completed:
        if seen is not None:
            seen.append(sorted(timeline.completed_times))
        return Completed(Instant(time, Action.COMMIT, State.COMPLETED), f"content of {time}".encode())

    run_transaction(table, check)


def completed(table: TableState) -> list[str]:
    return sorted(load_timeline(table.storage, BASE).completed_times)


def numbers(table: TableState) -> list[int]:
    return [int(file.name) for file in table.storage.list(f"{BASE}/.hoodie/{CLAIMS}")]


def test_a_transaction_creates_the_completed_file(request: pytest.FixtureRequest) -> None:
    table = make_table(request)
    begin(table, "1")
    commit(table, "1")
    assert table.storage.read(f"{BASE}/.hoodie/1.commit") == b"content of 1"


def test_a_transaction_that_another_came_before_is_checked_again(request: pytest.FixtureRequest) -> None:
    table = make_table(request, before="/000000000001")
    for time in ("1", "2"):
        begin(table, time)
    table.storage.actions.append(lambda: commit(table, "2"))  # type: ignore[attr-defined]
    seen: list[list[str]] = []
    commit(table, "1", seen)
    assert seen == [[], ["2"]]
    assert completed(table) == ["1", "2"]


def test_a_check_that_fails_leaves_nothing(request: pytest.FixtureRequest) -> None:
    table = make_table(request)

    def check(timeline: Timeline) -> Completed:
        raise WriteConflict("no")

    with pytest.raises(WriteConflict):
        run_transaction(table, check)
    assert numbers(table) == []


def test_the_next_transaction_completes_one_that_stopped_after_its_claim(request: pytest.FixtureRequest) -> None:
    table = make_table(request, before="/1.commit")
    for time in ("1", "2"):
        begin(table, time)

    def stop() -> None:
        raise StorageError("the process stops here")

    table.storage.actions.append(stop)  # type: ignore[attr-defined]
    with pytest.raises(claims.CommitUnknown, match="is committed"):
        commit(table, "1")
    assert completed(table) == []
    seen: list[list[str]] = []
    commit(table, "2", seen)
    assert seen == [["1"]]
    assert table.storage.read(f"{BASE}/.hoodie/1.commit") == b"content of 1"


def test_a_commit_that_was_rolled_back_is_not_completed_again(request: pytest.FixtureRequest) -> None:
    table = make_table(request)
    for time in ("1", "2"):
        begin(table, time)
    commit(table, "1")
    table.storage.delete(f"{BASE}/.hoodie/1.commit")  # as a rollback does, while the instant is still pending
    commit(table, "2")
    assert completed(table) == ["2"]


def test_old_claims_are_deleted_and_the_last_stays(request: pytest.FixtureRequest) -> None:
    table = make_table(request)
    for time in range(1, 201):
        begin(table, str(time))
        commit(table, str(time))
    left = numbers(table)
    assert len(left) <= 100
    assert left[-1] == 200
    assert len(completed(table)) == 200


def test_a_process_that_slept_while_its_number_was_used_and_deleted_does_not_commit_unchecked(
    request: pytest.FixtureRequest,
) -> None:
    table = make_table(request, before="/000000000002")
    begin(table, "900")
    begin(table, "100")
    commit(table, "100")

    def sleep() -> None:
        for time in range(200, 400):
            begin(table, str(time))
            commit(table, str(time))
        assert 2 not in numbers(table)

    table.storage.actions.append(sleep)  # type: ignore[attr-defined]
    seen: list[list[str]] = []
    commit(table, "900", seen)
    assert [len(times) for times in seen] == [1, 201]
    assert 2 not in numbers(table)
    assert "900" in completed(table)


def test_a_storage_that_fails_while_it_is_not_clear_whether_a_claim_counts_says_so(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(request, before="/000000000002")
    begin(table, "900")
    begin(table, "100")
    commit(table, "100")
    listed = claims._list_numbers

    def sleep() -> None:
        for time in range(200, 400):
            begin(table, str(time))
            commit(table, str(time))
        answers = iter((listed,))  # the look whether the claim counts is answered, the next one is not

        def list_once(*args: Any) -> list[int]:
            for answer in answers:
                return answer(*args)
            raise StorageError(5, "the storage does not answer")

        monkeypatch.setattr(claims, "_list_numbers", list_once)

    table.storage.actions.append(sleep)  # type: ignore[attr-defined]
    with pytest.raises(CommitUnknown, match=r"does not answer\) before it was clear whether 900.commit of /t is committed"):
        commit(table, "900")
