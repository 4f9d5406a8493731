"""Who wins when an incoming row meets a stored one: one line per line of Hudi's tables."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import OptionError, SchemaError
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.kernels.ordering import stored_is_newer
from penstock.merge.make_merger import make_merger
from penstock.merge.merger import Merger
from penstock.merge.overwrite import AlwaysDelete, EventTimeOrdering, OverwriteWithLatest
from penstock.merge.row_choice import Choice
from penstock.options.payload_names import HUDI_PAYLOADS

MODEL = "org.apache.hudi.common.model."
OVERWRITE = f"{MODEL}OverwriteWithLatestAvroPayload"
DEFAULT = f"{MODEL}DefaultHoodieRecordPayload"
EMPTY = f"{MODEL}EmptyHoodieRecordPayload"


def one(ts: Any, deleted: bool | None = None, kind: pa.DataType | None = None) -> pa.Table:
    columns = {"ts": pa.array([ts], kind or pa.int64()), "v": pa.array(["x"])}
    if deleted is not None:
        columns[DELETE_FLAG] = pa.array([deleted])
    return pa.table(columns)


def decide(merger: Merger, old: pa.Table, new: pa.Table) -> int:
    (choice,) = merger.resolve(old, new)
    return int(choice)


@pytest.mark.parametrize(
    ("stored", "incoming", "deleted", "expected"),
    [
        (10, 20, None, Choice.TAKE_NEW),
        (10, 10, None, Choice.TAKE_NEW),
        (20, 10, None, Choice.TAKE_NEW),  # the ordering is ignored when a later commit meets storage
        (10, 20, True, Choice.DELETE),
        (20, 10, True, Choice.DELETE),
        (10, 20, False, Choice.TAKE_NEW),
        (10, None, None, Choice.TAKE_NEW),
        (None, 10, None, Choice.TAKE_NEW),
    ],
)
def test_overwrite_with_latest_takes_whatever_arrived_last(
    stored: int | None, incoming: int | None, deleted: bool | None, expected: int
) -> None:
    assert decide(make_merger(OVERWRITE, "ts"), one(stored), one(incoming, deleted)) == expected


@pytest.mark.parametrize(
    ("stored", "incoming", "deleted", "expected"),
    [
        (10, 20, None, Choice.TAKE_NEW),
        (10, 10, None, Choice.TAKE_NEW),
        (20, 10, None, Choice.KEEP_OLD),
        (10, 20, True, Choice.DELETE),
        (10, 10, True, Choice.DELETE),
        (20, 10, True, Choice.KEEP_OLD),  # a late delete loses
        (None, 10, None, Choice.TAKE_NEW),
        (None, 10, True, Choice.DELETE),
        (None, None, None, Choice.TAKE_NEW),
    ],
)
def test_the_default_payload_keeps_the_greater_ordering_value(
    stored: int | None, incoming: int | None, deleted: bool | None, expected: int
) -> None:
    assert decide(make_merger(DEFAULT, "ts"), one(stored), one(incoming, deleted)) == expected


@pytest.mark.parametrize("stored", [10, 30, None])
def test_an_empty_payload_deletes_whatever_the_ordering(stored: int | None) -> None:
    assert decide(make_merger(EMPTY, "ts"), one(stored), one(20)) == Choice.DELETE
    assert decide(make_merger(EMPTY, None), one(stored), one(None)) == Choice.DELETE


def test_without_an_ordering_field_the_default_payload_takes_the_incoming_row() -> None:
    assert make_merger(DEFAULT, None) == OverwriteWithLatest()


def test_a_stored_row_that_is_older_than_the_ordering_column_loses() -> None:
    old = pa.table({"v": ["x"]})
    assert decide(EventTimeOrdering("ts"), old, one(1)) == Choice.TAKE_NEW
    assert decide(EventTimeOrdering("ts"), old, one(1, deleted=True)) == Choice.DELETE


def test_an_incoming_row_without_the_ordering_column_wins() -> None:
    assert decide(EventTimeOrdering("ts"), one(5), pa.table({"v": ["x"]})) == Choice.TAKE_NEW


def test_an_incoming_null_is_refused_if_the_stored_row_has_an_ordering_value() -> None:
    with pytest.raises(SchemaError, match=r"Ordering value is null in column 'ts'"):
        decide(EventTimeOrdering("ts"), one(5), one(None))


def test_the_ordering_field_may_lie_inside_structs() -> None:
    def nested(value: int | None, *, there: bool = True) -> pa.Table:
        return pa.table({"meta": pa.array([{"at": {"ms": value}} if there else None])})

    merger = EventTimeOrdering("meta.at.ms")
    assert merger.needs == ("meta.at.ms",)
    assert decide(merger, nested(20), nested(10)) == Choice.KEEP_OLD
    assert decide(merger, nested(10), nested(20)) == Choice.TAKE_NEW
    assert decide(merger, nested(None, there=False), nested(1)) == Choice.TAKE_NEW
    with pytest.raises(SchemaError, match=r"meta\.at\.ms"):
        decide(merger, nested(1), pa.table({"meta": pa.array([None], nested(1)["meta"].type)}))


@pytest.mark.parametrize(
    ("less", "greater", "kind"),
    [
        ("a", "b", pa.string()),
        ("ä", "😀", pa.string()),
        (b"a", b"b", pa.binary()),
        (1.5, 2.5, pa.float64()),
        (1.5, math.nan, pa.float64()),  # as Java compares
        (math.inf, math.nan, pa.float32()),
        (Decimal("1.10"), Decimal("1.20"), pa.decimal128(10, 2)),
        (date(2020, 1, 1), date(2021, 1, 1), pa.date32()),
        (datetime(2020, 1, 1, tzinfo=timezone.utc), datetime(2021, 1, 1, tzinfo=timezone.utc), pa.timestamp("us", "UTC")),
        (False, True, pa.bool_()),
    ],
)
def test_ordering_values_of_every_type_compare(less: Any, greater: Any, kind: pa.DataType) -> None:
    merger = EventTimeOrdering("ts")
    assert decide(merger, one(greater, kind=kind), one(less, kind=kind)) == Choice.KEEP_OLD
    assert decide(merger, one(less, kind=kind), one(greater, kind=kind)) == Choice.TAKE_NEW
    assert decide(merger, one(greater, kind=kind), one(greater, kind=kind)) == Choice.TAKE_NEW


def test_ordering_values_of_types_that_do_not_compare_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"ordering column 'ts' is string in the table and int64 in the rows"):
        decide(EventTimeOrdering("ts"), one("a", kind=pa.string()), one(1))


def test_many_pairs_are_decided_at_once() -> None:
    old = pa.table({"ts": [5, 5, None, 5, 9]})
    new = pa.table({"ts": [4, 5, 1, 6, 1], DELETE_FLAG: [None, False, True, True, True]})
    keep, take, delete = Choice.KEEP_OLD, Choice.TAKE_NEW, Choice.DELETE
    assert EventTimeOrdering("ts").resolve(old, new).tolist() == [keep, take, delete, delete, keep]
    assert OverwriteWithLatest().resolve(old, new).tolist() == [take, take, delete, delete, delete]
    assert AlwaysDelete().resolve(old, new).tolist() == [delete] * 5


def test_a_row_that_is_inserted_is_a_delete_only_by_its_flag_or_its_payload() -> None:
    new = pa.table({"ts": [1, 2, 3], DELETE_FLAG: [True, None, False]})
    assert OverwriteWithLatest().is_delete(new).tolist() == [True, False, False]
    assert EventTimeOrdering("ts").is_delete(new).tolist() == [True, False, False]
    assert EventTimeOrdering("ts").is_delete(new.drop_columns([DELETE_FLAG])).tolist() == [False] * 3
    assert AlwaysDelete().is_delete(new).tolist() == [True] * 3


def test_an_unknown_payload_class_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(OptionError, match=r"payload\.class='com\.example\.Mine'.*DefaultHoodieRecordPayload"):
        make_merger("com.example.Mine", "ts")
    assert {OVERWRITE, DEFAULT, EMPTY} <= HUDI_PAYLOADS.keys()


def test_ordering_values_of_text_are_compared_in_slices_too() -> None:
    """pyarrow 17 gets offsets wrong where null scalars meet slices of text."""
    old = pa.table({"ts": ["skipped", "b", "bb", "c"]}).slice(1)
    new = pa.table({"ts": ["skipped", "a", "bc", "b"]}).slice(1)
    assert stored_is_newer(old, new, "ts", np.array([True, True, True])).tolist() == [True, False, True]
    assert stored_is_newer(old, new, "ts", np.array([False, True, True])).tolist() == [False, False, True]
