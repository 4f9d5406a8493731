"""The base class of mergers: its defaults, and what holds for every merger of the table of payloads."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, dataclass, fields

import numpy as np
import pyarrow as pa
import pytest

from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.kernels.marks import FRESH
from penstock.merge.kernels.runs import Runs
from penstock.merge.make_merger import make_merger
from penstock.merge.merger import Merger
from penstock.merge.operation_column import WithOperation
from penstock.merge.payload_settings import PayloadSettings
from penstock.merge.row_choice import Choice, Choices
from penstock.options.payload_names import HUDI_PAYLOADS, PENSTOCK_PAYLOADS

OLD = pa.table({"id": ["a", "b", "c"], "n": [1, 2, 3]})
NEW = pa.table({"id": ["c", "a"], "n": [30, 10], DELETE_FLAG: [True, False]})
AT = np.array([2, 0])
SETTINGS = PayloadSettings("pos", own={"aggregate": "n:sum"})
ALL = {name: make_merger(name, settings=SETTINGS) for name in (*HUDI_PAYLOADS, *PENSTOCK_PAYLOADS)}


def test_by_default_the_incoming_row_wins_and_a_delete_deletes() -> None:
    merged = Merger().merge(OLD, AT, NEW)
    assert merged.choices.tolist() == [Choice.DELETE, Choice.TAKE_NEW]
    assert merged.rows(merged.choices)["n"].to_pylist() == [10]
    assert Merger().is_delete_entry(NEW).tolist() == [True, False]


def test_by_default_new_rows_are_stored_without_marks_and_deletes_are_not_stored() -> None:
    kept, rows = Merger().insert(NEW.append_column(FRESH, pa.array([False, False])))
    assert kept.tolist() == [False, True]
    assert rows.column_names == ["id", "n", DELETE_FLAG]
    assert rows["n"].to_pylist() == [10]


@pytest.mark.parametrize(
    ("ranks", "picked"),
    [(None, [2, 5]), ([1, 3, 2, 5, 5], [3, 5]), ([1, 1, 1, 6, 5], [2, 4])],
    ids=["last row", "greatest ordering value", "last among equals"],
)
def test_by_default_the_newest_row_of_each_key_is_picked(ranks: list[int] | None, picked: list[int]) -> None:
    rows = pa.table({"n": [1, 3, 2, 4, 5]})
    runs = Runs(rows, np.array([0, 3]), None if ranks is None else np.array(ranks))
    assert Merger().fold(runs).rows["n"].to_pylist() == picked


def test_a_merger_that_overrides_build_or_fold_says_so_by_itself() -> None:
    class Building(Merger):
        def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
            return np.array([Choice.BUILD, Choice.TAKE_NEW], np.int8)

        def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
            return old.append_column(DELETE_FLAG, new[DELETE_FLAG])

    assert (Merger().builds, Merger().folds) == (False, False)
    assert (Building().builds, Building().folds) == (True, False)
    merged = Building().merge(OLD, AT, NEW)
    assert merged.rows(merged.choices)["n"].to_pylist() == [3, 10]
    only_taken = np.array([Choice.KEEP_OLD, Choice.TAKE_NEW], np.int8)
    assert merged.rows(only_taken)["n"].to_pylist() == [10]


def test_choices_are_one_byte_each_and_compare_with_arrays() -> None:
    choices = np.where(np.array([True, False]), Choice.BUILD, Choice.KEEP_OLD)
    assert choices.dtype == np.int8
    assert (choices == Choice.BUILD).tolist() == [True, False]
    assert pickle.loads(pickle.dumps(Choice.BUILD)) is Choice.BUILD


@pytest.mark.parametrize("merger", [*ALL.values(), WithOperation(ALL["penstock.aggregate"])], ids=lambda m: type(m).__name__)
def test_every_merger_is_a_frozen_dataclass_that_can_be_pickled(merger: Merger) -> None:
    assert pickle.loads(pickle.dumps(merger)) == merger
    for field in fields(merger):  # type: ignore[arg-type]
        with pytest.raises(FrozenInstanceError):
            setattr(merger, field.name, None)


def test_a_merger_with_fields_of_its_own_keeps_the_defaults() -> None:
    @dataclass(frozen=True)
    class Named(Merger):
        name: str
        ignores_ordering = True

    named = Named("x")
    assert named.ignores_ordering
    assert (named.needs, named.reads, named.keeps_partition, named.is_user_function) == ((), (), False, False)
