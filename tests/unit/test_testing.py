"""The checker of merge laws reports broken laws with their rows, and accepts correct mergers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import OptionError, PayloadError, SchemaError
from penstock.registered.functions import MERGE_FUNCTIONS
from penstock.testing import LAWS, check_merger
from tests.kit.notebooks import words_of_html

Row = dict[str, Any]


def newest(old: Row | None, new: Row) -> Row:
    return new


def greatest(old: pa.Table, new: pa.Table) -> pa.Table:
    return new.set_column(3, "amount", pc.max_element_wise(old["amount"], new["amount"])).set_column(
        1, "ts", pc.max_element_wise(old["ts"], new["ts"])
    )


def difference(old: Row | None, new: Row) -> Row:
    return new if old is None else {**new, "amount": (old["amount"] or 0) - (new["amount"] or 0)}


def test_the_newest_row_depends_on_the_order_alone() -> None:
    laws = check_merger(newest, kind="payload")
    assert laws.held == ("associative", "idempotent", "begins alike")
    found = laws.breaks("order-independent")
    assert found is not None
    assert found.rows["f(a, b)"] == found.rows["b"] != found.rows["a"] == found.rows["f(b, a)"]
    assert found.rows["a"]["id"] == found.rows["b"]["id"]  # type: ignore[index]


def test_a_merger_over_columns_is_tried_too() -> None:
    assert check_merger(greatest).held == ("associative", "idempotent")


def test_a_broken_law_is_shown_with_its_rows() -> None:
    laws = check_merger(difference, kind="payload")
    assert laws.breaks("associative") is not None
    text = str(laws)
    assert "not associative: f(f(a, b), c) = f(a, f(b, c))" in text
    _, _, _, *lines = str(laws.breaks("associative")).splitlines()  # the law, the columns and a rule come first
    sides = [line.partition("  ")[0] for line in lines]
    assert sides == ["a", "b", "c", "f(f(a, b), c)", "f(a, f(b, c))"]
    assert "amount" in text
    words = [word for word in text.split() if set(word) != {"─"}]
    assert words_of_html(laws._repr_html_()) == words
    assert str(check_merger(difference, kind="payload")) == text  # the same rows each time


def test_a_dropped_row_is_shown_as_deleted() -> None:
    laws = check_merger(lambda old, new: None if old and old["ts"] == 3 else new, kind="payload")
    found = laws.breaks("associative")
    assert found is not None
    assert None in (found.rows["f(f(a, b), c)"], found.rows["f(a, f(b, c))"])
    assert "gone" in str(found)


def test_inserts_that_are_changed_twice_are_found() -> None:
    def counts(old: Row | None, new: Row) -> Row:
        return {**new, "ts": (new["ts"] or 0) + 1} if old is None else {**new, "ts": (old["ts"] or 0) + (new["ts"] or 0)}

    assert check_merger(counts, kind="payload").breaks("begins alike") is None
    twice = check_merger(lambda old, new: {**new, "name": f"<{new['name']}>"} if old is None else new, kind="payload")
    assert twice.breaks("begins alike") is not None


def test_registered_functions_go_by_their_name_and_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MERGE_FUNCTIONS, "registered", {})
    penstock.payload("newest")(newest)
    assert "payload 'newest'" in str(check_merger("newest"))
    assert check_merger(newest).held == check_merger("newest").held
    with pytest.raises(OptionError, match="'oldest' is not known here"):
        check_merger("oldest")


def test_random_values_exist_for_every_type_of_column() -> None:
    kinds = [
        pa.bool_(), pa.int8(), pa.uint16(), pa.float32(), pa.decimal128(9, 2), pa.date32(), pa.time64("us"), pa.binary(),
        pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.list_(pa.string()), pa.map_(pa.string(), pa.int64()),
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.date32()))]),
    ]  # fmt: skip
    schema = pa.schema([("id", pa.string()), *((f"c{i}", kind) for i, kind in enumerate(kinds))])
    laws = check_merger(newest, schema, kind="payload", examples=50)
    assert laws.held == tuple(law for law in LAWS if law != "order-independent")
    with pytest.raises(SchemaError, match="duration"):
        check_merger(newest, pa.schema([("id", pa.string()), ("took", pa.duration("s"))]), kind="payload")


def test_an_invalid_merge_raises_the_error_of_a_write() -> None:
    with pytest.raises(PayloadError, match="changed column 'ts'"):
        check_merger(lambda old, new: {**new, "ts": 77}, key=("id", "ts"), kind="payload")
