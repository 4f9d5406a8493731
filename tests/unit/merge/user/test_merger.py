"""Functions of the user's own as mergers: in a batch, in a log, with what is stored; and everything that they can do wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import OptionError, PayloadError
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.kernels.fold import LogRecords, fold_batch, fold_log
from penstock.merge.kernels.marks import FRESH, MADE
from penstock.merge.make_merger import make_merger
from penstock.merge.payload_settings import PayloadSettings
from penstock.merge.row_choice import Choice
from penstock.merge.user.merger import UserMerger, make_user_merger
from penstock.registered.functions import MERGE_FUNCTIONS
from penstock.registered.registry import Kind, Registered
from penstock.schema import META_COLUMNS

Function = Callable[..., Any]


def made(function: Function, kind: Kind = Kind.PAYLOAD, timeout_s: float = 0.0, fixed: tuple[str, ...] = ("id",)) -> UserMerger:
    return make_user_merger(Registered("mine", kind, function), fixed=fixed, timeout_s=timeout_s)


def rows(*pairs: tuple[Any, ...], **more: list[Any]) -> pa.Table:
    """Rows of an id and a number."""
    return pa.table({"id": pa.array([p[0] for p in pairs]), "n": pa.array([p[1] for p in pairs], pa.int64()), **more})


def add(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any] | None:
    """Sums; a sum of 0 is no row, and neither is a new key with a negative number."""
    if old is None:
        return new if new["n"] >= 0 else None
    total = old["n"] + new["n"]
    return {**new, "n": total} if total else None


def add_columns(old: pa.Table, new: pa.Table) -> pa.Table:
    total = pc.add(old["n"], new["n"])
    columns = {"id": new["id"], "n": total, DELETE_FLAG: pc.equal(total, 0)}
    return pa.table(columns)


BOTH = pytest.mark.parametrize("merger", [made(add), made(add_columns, Kind.MERGER)], ids=["by-row", "by-column"])


def meeting(merger: UserMerger, old: pa.Table, new: pa.Table) -> tuple[list[int], list[dict[str, Any]]]:
    found = merger.merge(old, np.arange(old.num_rows), new)
    return found.choices.tolist(), found.rows(found.choices).to_pylist()


@pytest.fixture(autouse=True)
def nothing_else_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(MERGE_FUNCTIONS, "registered", {})
    yield


@BOTH
def test_pairs_become_the_functions_rows(merger: UserMerger) -> None:
    choices, found = meeting(merger, rows(("a", 1), ("b", 2), ("c", 3)), rows(("a", 10), ("b", -2), ("c", 30)))
    assert choices == [Choice.BUILD, Choice.DELETE, Choice.BUILD]
    assert found == [{"id": "a", "n": 11}, {"id": "c", "n": 33}]


@BOTH
def test_deletes_do_not_reach_the_function_and_a_row_after_one_begins_again(merger: UserMerger) -> None:
    flags = {DELETE_FLAG: [True, False, None], FRESH: [False, True, False]}
    new = rows(("a", 1), ("b", 2), ("c", 3), **flags)
    choices, found = meeting(merger, rows(("a", 1), ("b", 1), ("c", 1)), new)
    assert choices == [Choice.DELETE, Choice.BUILD, Choice.BUILD]
    assert [(r["id"], r["n"]) for r in found] == [("b", 2), ("c", 4)]
    assert set(found[0]) == {"id", "n", DELETE_FLAG}


def test_a_new_row_goes_through_a_payload_and_past_a_merger() -> None:
    kept, found = made(add).insert(rows(("a", -1), ("b", 1)))
    assert (kept.tolist(), found.to_pylist()) == ([False, True], [{"id": "b", "n": 1}])
    kept, found = made(add_columns, Kind.MERGER).insert(rows(("a", -1), ("b", 1)))
    assert (kept.tolist(), found.num_rows) == ([True, True], 2)


@BOTH
def test_rows_of_a_batch_are_merged_by_ordering_value(merger: UserMerger) -> None:
    batch = rows(("a", 1), ("b", 5), ("a", 2), ("a", 4), ("b", -5), ("c", 7))
    folded = fold_batch(merger, batch, batch["id"].combine_chunks(), pa.array([3, 1, 1, 2, 2, 1]), "ts")
    assert [(r["id"], r["n"]) for r in folded.apply(batch).to_pylist()] == [("a", 7), ("b", -5), ("c", 7)]
    assert folded.gone is not None
    assert dict(zip(folded.changed.tolist(), folded.gone.tolist(), strict=True)) == {3: False, 4: True}


@pytest.mark.parametrize("seed", range(20))
def test_any_run_folds_as_rows_one_after_the_other(seed: int) -> None:
    """Rows, deletes among them, against a loop."""
    random = np.random.default_rng(seed)
    count = 40
    ids, numbers = random.integers(0, 6, count).astype(str).tolist(), random.integers(-2, 3, count).tolist()
    flags = (random.random(count) < 0.15).tolist()

    batch = rows(*zip(ids, numbers, strict=True), **{DELETE_FLAG: flags})
    log = LogRecords(batch["id"].combine_chunks(), batch, np.array(flags))
    found = fold_log(made(lambda old, new: {**new, "n": old["n"] + new["n"]}), log)
    expected: dict[str, Any] = {}
    for key, number, flag in zip(ids, numbers, flags, strict=True):
        earlier = expected.get(key)
        row = {"id": key, "n": number, DELETE_FLAG: flag}
        expected[key] = None if flag else row if earlier is None else {**row, "n": earlier["n"] + number}
    said = {k: None if e else r for k, e, r in zip(found.keys.to_pylist(), found.empty, found.rows.to_pylist(), strict=True)}
    assert said == expected


def test_a_row_that_was_merged_in_another_partition_is_not_inserted_through_the_function() -> None:
    stamped = made(lambda old, new: None if new["id"] == "d" else {**new, "n": 0})
    new = rows(("a", 1), ("b", 2), ("c", 3), ("d", 4)).append_column(MADE, pa.array([False, True, False, False]))
    kept, stored = stamped.insert(new)
    assert kept.tolist() == [True, True, True, False]
    assert stored.to_pylist() == [{"id": "a", "n": 0}, {"id": "b", "n": 2}, {"id": "c", "n": 0}]


def test_the_function_does_not_see_meta_columns() -> None:
    seen: list[set[str]] = []

    def look(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
        seen.append(set(new))
        return new

    meta = {name: ["then"] for name in META_COLUMNS}
    old = rows(("a", 1), **{name: ["before"] for name in META_COLUMNS})
    _, found = meeting(made(look), old, rows(("a", 2), **meta))
    assert seen == [{"id", "n"}]
    assert found == [{"id": "a", "n": 2, **dict.fromkeys(META_COLUMNS, "then")}]


# --- what functions do wrong


def raises(old: Any, new: Any) -> Any:
    raise ValueError("no such currency")


def exits(old: Any, new: Any) -> Any:
    raise SystemExit(3)


WRONG_ROWS = [
    (raises, r"payload 'mine' raised ValueError for key id='a'.*(?s:.*)in raises(?s:.*)no such currency"),
    (exits, "raised SystemExit"),
    (lambda old, new: [new], "returned a list, neither a dict nor None"),
    (lambda old, new: {"id": new["id"]}, r"returned a row without \['n'\], for key id='a'$"),
    (lambda old, new: {"id": new["id"], "m": 1}, r"a row without \['n'\] and with \['m'\] besides the table's columns, for key"),
    (lambda old, new: {**new, "m": 1}, r"with \['m'\] besides the table's columns"),
    (lambda old, new: {**new, "n": "many"}, "returned 'many' for column 'n', which is int64, for key id='a'"),
    (lambda old, new: {**new, "n": 2**70}, "for column 'n'"),
    (lambda old, new: {**new, "id": "z"}, "changed column 'id', of the record key or the partition path, to 'z' for key id='a'"),
    (lambda old: old, "raised TypeError"),
]
WRONG_COLUMNS = [
    (raises, "merger 'mine' raised ValueError for key id='a'"),
    (lambda old, new: None, "returned a NoneType, not a pyarrow.Table"),
    (lambda old, new: new.slice(1), r"returned 1 rows for 2 pairs of rows.*(?s:.*)_hoodie_is_deleted"),
    (lambda old, new: pa.concat_tables([old, new]), "returned 4 rows for 2 pairs"),
    (lambda old, new: new.take([1, 0]), "changed column 'id'.*for key id='a'"),
    (lambda old, new: new.drop_columns(["n"]), "without column 'n'"),
    (lambda old, new: new.append_column("m", [[1, 2]]), "with a column of its own, 'm'"),
    (lambda old, new: new.append_column("n", [[1, 2]]), "with two columns 'n'"),
    (lambda old, new: new.set_column(1, "n", [["1", "2"]]), "returned column 'n' as string; it is int64"),
    (lambda old, new: new.set_column(1, "n", [[1.5, 2.0]]), "returned column 'n' as double; it is int64"),
    (lambda old, new: new.append_column(DELETE_FLAG, [[1, 0]]), "_hoodie_is_deleted' that is not boolean"),
]


@pytest.mark.parametrize(("function", "message"), WRONG_ROWS)
def test_a_payload_that_does_wrong_is_named_with_the_key(function: Function, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        meeting(made(function), rows(("a", 1), ("b", 2)), rows(("a", 3), ("b", 4)))


@pytest.mark.parametrize(("function", "message"), WRONG_COLUMNS)
def test_a_merger_that_does_wrong_is_named_with_a_key(function: Function, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        meeting(made(function, Kind.MERGER), rows(("a", 1), ("b", 2)), rows(("a", 3), ("b", 4)))


def test_a_null_where_none_may_be_is_refused() -> None:
    schema = pa.schema([pa.field("id", pa.string()), pa.field("n", pa.int64(), nullable=False)])
    old, new = (pa.table([["a", "b"], [1, 2]], schema=schema) for _ in range(2))
    with pytest.raises(PayloadError, match="a null in column 'n', which takes none, for key id='b'"):
        meeting(made(lambda old, new: {**new, "n": None if new["id"] == "b" else 1}), old, new)


def test_a_column_of_another_width_is_taken() -> None:
    narrow = made(lambda old, new: new.set_column(1, "n", new["n"].cast(pa.int8())), Kind.MERGER)
    assert meeting(narrow, rows(("a", 1)), rows(("a", 3)))[1] == [{"id": "a", "n": 3}]


def test_a_partition_path_may_stay_that_of_the_old_row() -> None:
    old, new = rows(("a", 1), city=["x"]), rows(("a", 2), city=["y"])
    keeps = made(lambda old, new: {**new, "city": old["city"]}, fixed=("id", "city"))
    assert meeting(keeps, old, new)[1] == [{"id": "a", "n": 2, "city": "x"}]
    with pytest.raises(PayloadError, match="changed column 'city'"):
        meeting(made(lambda old, new: {**new, "city": "z"}, fixed=("id", "city")), old, new)


def test_a_function_that_never_returns_is_abandoned_and_its_thread_ends() -> None:
    def stuck(old: Any, new: dict[str, Any]) -> Any:
        while new["id"] == "b":
            pass
        return new

    said = r"did not return within 0.2 seconds \(penstock.payload.timeout.*for key id='b'\nIt is here .*\n  File .*test_merger.*in stuck\n"
    with pytest.raises(PayloadError, match=said) as raised:
        meeting(made(stuck, timeout_s=0.2), rows(("a", 1), ("b", 2)), rows(("a", 3), ("b", 4)))
    assert str(raised.value).count("  File ") == 1  # the user's own code, and none of ours
    end = time.monotonic() + 5
    while any("payload 'mine'" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_slow_function_that_makes_progress_is_not_abandoned() -> None:
    def slow(old: Any, new: Any) -> Any:
        time.sleep(0.3)
        return new

    many = rows(*((str(i), i) for i in range(5)))
    assert len(meeting(made(slow, timeout_s=1), many, many)[1]) == 5


# --- names


def test_a_name_stands_for_its_function_and_others_are_not_known() -> None:
    penstock.payload("mine")(add)
    merger = make_merger("mine", settings=PayloadSettings(fixed=("id",), timeout_s=7))
    assert isinstance(merger, UserMerger)
    assert merger.function.guard.timeout_s == 7
    with pytest.raises(OptionError, match=r"'com.example.Theirs' is not known here: register.*@penstock.payload\('com.example"):
        make_merger("com.example.Theirs")
