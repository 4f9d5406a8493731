"""The check of histories (`tests/soak/history.py`) finds each anomaly, and accepts what snapshot isolation allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.history import FAILED, OK, UNKNOWN, Append, History, Read, find_anomalies


def append(token: int, keys: str, began: float, ended: float = 0, outcome: str = OK) -> Append:
    return Append(token, tuple(keys), began, ended or began + 1, outcome)


def read(began: float, *scans: dict[str, list[int]]) -> Read:
    return Read(began, began + 1, tuple({key: [tokens] for key, tokens in scan.items()} for scan in scans))


def kinds(appends: list[Append], reads: list[Read]) -> set[str]:
    return {anomaly.kind for anomaly in find_anomalies(History.of(appends, reads))}


ONE_AFTER_THE_OTHER = [append(1, "xy", 0), append(2, "xy", 2), append(3, "x", 4)]
CONCURRENT = [append(1, "x", 0, 10), append(2, "y", 0, 10)]

RIGHT = {
    "one after the other": (ONE_AFTER_THE_OTHER, [read(1.5, {"x": [1], "y": [1]}), read(6, {"x": [1, 2, 3], "y": [1, 2]})]),
    "a read during a write sees it": ([append(1, "x", 0, 10)], [read(2, {"x": [1]})]),
    "a read during a write does not see it": ([append(1, "x", 0, 10)], [read(2, {})]),
    "a write whose process died is there": ([append(1, "x", 0, outcome=UNKNOWN)], [read(5, {"x": [1]})]),
    "a write whose process died is not there": ([append(1, "x", 0, outcome=UNKNOWN)], [read(5, {})]),
    "a failed write is not there": ([append(1, "x", 0, outcome=FAILED)], [read(5, {})]),
    "two scans of a query are equal": ([append(1, "x", 0)], [read(2, {"x": [1]}, {"x": [1]})]),
}
WRONG = {
    "lost update": (ONE_AFTER_THE_OTHER, [read(6, {"x": [1, 3], "y": [1]})]),
    "doubled row": ([append(1, "x", 0)], [Read(2, 3, ({"x": [[1], [1]]},))]),
    "doubled write": ([append(1, "x", 0)], [read(2, {"x": [1, 1]})]),
    "dirty read": ([append(1, "x", 0, outcome=FAILED)], [read(2, {"x": [1]})]),
    "half a write": ([append(1, "xy", 0, 10)], [read(2, {"x": [1]})]),
    "non-repeatable read": ([append(1, "x", 0, 10)], [read(2, {}, {"x": [1]})]),
    "read of the future": ([append(1, "x", 8)], [read(2, {"x": [1]})]),
}
WITHOUT_ORDER = {
    "an acknowledged write comes after a later one": (
        [append(1, "x", 0), append(2, "x", 5)],
        [read(8, {"x": [2, 1]})],
    ),
    "two keys have different orders": ([append(1, "xy", 0, 10), append(2, "xy", 0, 10)], [read(11, {"x": [1, 2], "y": [2, 1]})]),
    "two reads see two writes in different orders": (
        CONCURRENT,
        [Read(1, 9, ({"x": [[1]]},)), Read(1, 9, ({"y": [[2]]},)), read(11, {"x": [1], "y": [2]})],
    ),
    "a later read sees less": (
        [append(1, "x", 0, 10)],
        [read(2, {"x": [1]}), read(4, {}), read(11, {"x": [1]})],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_history_has_no_anomaly(name: str) -> None:
    assert kinds(*RIGHT[name]) == set()


@pytest.mark.parametrize("name", WRONG)
def test_an_anomaly_is_found_by_its_name(name: str) -> None:
    assert name in kinds(*WRONG[name])


@pytest.mark.parametrize("name", WITHOUT_ORDER)
def test_a_history_that_no_order_explains_is_found(name: str) -> None:
    assert kinds(*WITHOUT_ORDER[name]) == {"no order"}


def test_an_update_that_vanishes_from_a_key_is_found() -> None:
    appends = [append(1, "x", 0, outcome=UNKNOWN), append(2, "x", 0, 10)]
    assert "lost update" in kinds(appends, [read(2, {"x": [1]}), read(11, {"x": [2]})])


def test_a_ledger_that_was_cut_off_has_a_write_of_unknown_outcome(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.write_text('{"event": "begin", "token": 1, "keys": ["x"], "at": 1}\n{"event": "ok", "token": 1, "at": 2}\n')
    with ledger.open("a") as file:
        file.write('{"event": "begin", "token": 2, "keys": ["x"], "at": 3}\n')
    history = History.load([ledger])
    assert [each.outcome for each in history.appends.values()] == [OK, UNKNOWN]
