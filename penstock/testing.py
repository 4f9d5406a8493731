"""`check_merger`, for authors of merge functions: checks on generated rows whether a function keeps laws such as associativity.

Needs neither Spark nor a table. Rows are generated from few small values of each type, so that they collide often and read well.
A law that does not hold is reported with the smallest rows that break it.
"""

from __future__ import annotations

import datetime
import decimal
import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.kernels.gather import Flags, take_rows
from penstock.merge.kernels.marks import FRESH, GONE
from penstock.merge.make_merger import unknown_payload
from penstock.merge.row_choice import Choice
from penstock.merge.user.merger import UserMerger, make_user_merger
from penstock.registered.functions import MERGE_FUNCTIONS
from penstock.registered.registry import Kind, Registered
from penstock.report_table import ColumnHead, ReportTable

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])

#: What each law says, and what it is for.
LAWS = {
    "associative": "f(f(a, b), c) = f(a, f(b, c)); rows of a batch or log are merged before they meet the stored one",
    "idempotent": "f(f(a, b), b) = f(a, b); a batch may be written again after a failure",
    "order-independent": "f(a, b) = f(b, a); rows may come late",
    "begins alike": "f(None, f(a, b)) = f(f(None, a), b); several rows of a key that is new",
}

_EPOCH = datetime.datetime(2024, 1, 1)
_NULLS = 0.15


@dataclass(frozen=True)
class CounterExample:
    """Rows that break a law: the input rows, and the result of each side of the law.

    `rows` has the row of each input (`a`, `b`, for associativity also `c`) and of the two formulas, such as `f(a, b)`. A row is
    None if the key is deleted.
    """

    law: str
    rows: dict[str, dict[str, Any] | None]

    def __str__(self) -> str:
        return self._to_table().to_text()

    def _repr_html_(self) -> str:
        """Return the rows as an HTML table, for notebooks."""
        return self._to_table().to_html()

    def _to_table(self) -> ReportTable:
        """Return the rows as a table with one column per field."""
        names: dict[str, None] = {}
        for row in self.rows.values():
            names |= dict.fromkeys(row or ())
        cells = [[side, *(_format_cell(row, name) for name in names)] for side, row in self.rows.items()]
        heads = [ColumnHead(""), *(ColumnHead(name, right=True) for name in names)]
        return ReportTable(f"not {self.law}: {LAWS[self.law]}", heads, cells)


@dataclass(frozen=True)
class Laws:
    """The result of `check_merger`: the laws that held on all generated rows, and a counter-example for each law that did not."""

    name: str
    tried: int
    held: tuple[str, ...]
    broken: tuple[CounterExample, ...]

    def breaks(self, law: str) -> CounterExample | None:
        """Return the counter-example of a law, such as "associative"; None if the law held or was not checked."""
        return next((example for example in self.broken if example.law == law), None)

    def __str__(self) -> str:
        return "\n\n".join([self._summary, *map(str, self.broken)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the laws that held, and a table per counter-example, as HTML for notebooks."""
        tables = [example._repr_html_() for example in self.broken]
        return "".join([f"<div>{html.escape(self._summary)}</div>", *tables])

    @property
    def _summary(self) -> str:
        """The laws that held, in one line."""
        return f"{self.name}: {', '.join(self.held) or 'no law'} held on {self.tried} examples"


def check_merger(
    merger: str | Callable[..., Any],
    schema: pa.Schema = SCHEMA,
    *,
    key: str | Sequence[str] = (),
    kind: str = "merger",
    examples: int = 1000,
    seed: int = 0,
) -> Laws:
    """Check on generated rows which laws, such as associativity, a payload or merger keeps. `testing.LAWS` lists the laws.

    Batches and merge-on-read tables rely on associativity. Whether a function needs the other laws depends on what may happen to
    its rows. The same seed generates the same rows.

    Args:
        merger: the function, or the name under which it is registered.
        schema: the columns of the rows to generate.
        key: the columns of the record key and the partition path; by default the first column.
        kind: `merger` or `payload`, for a function that is not registered.
        examples: how many keys to generate, each with three rows.

    Raises:
        PayloadError: the function raises an exception, or returns rows that cannot be stored.

    Example:
        >>> from penstock.testing import check_merger
        >>> laws = check_merger(lambda old, new: {**new, "amount": (old or new)["amount"]}, kind="payload")
        >>> laws.held
        ('associative', 'idempotent', 'begins alike')
        >>> print(laws.breaks("order-independent"))
        not order-independent: f(a, b) = f(b, a); rows may come late
        ...
    """
    function = _find_function(merger, kind)
    fixed = ((key,) if isinstance(key, str) else tuple(key)) or (schema.names[0],)
    trial = _Trial(make_user_merger(function, fixed=fixed), _generate_tables(schema, fixed, examples, seed))
    held = []
    broken = []
    for law in LAWS:
        if law == "begins alike" and function.kind is not Kind.PAYLOAD:
            continue  # a merger is never called without an old row
        example = trial.find_counter_example(law)
        if example is None:
            held.append(law)
        else:
            broken.append(example)
    return Laws(f"{function.kind.value} {function.name!r}", examples, tuple(held), tuple(broken))


def _find_function(merger: str | Callable[..., Any], kind: str) -> Registered:
    """Return the function to check as a `Registered`.

    Args:
        merger: the name of a registered function, or a function.
        kind: `merger` or `payload`, for a function that is not registered.

    Raises:
        OptionError: no function of this name is registered.
    """
    if isinstance(merger, str):
        registered = MERGE_FUNCTIONS.find(merger)
        if registered is None:
            raise unknown_payload(merger, "check_merger")
        return registered
    return MERGE_FUNCTIONS.find_registration(merger) or Registered(getattr(merger, "__name__", "function"), Kind(kind), merger)


@dataclass(frozen=True)
class _Rows:
    """Rows of a trial as an Arrow table, one per key; some keys are deleted. Row i of all `_Rows` of a trial has the same key."""

    table: pa.Table
    #: False where the key is deleted; the table's row then means nothing.
    there: Flags

    def to_list(self) -> list[dict[str, Any] | None]:
        """Return the rows as dictionaries; None where the key is deleted."""
        return [row if there else None for row, there in zip(self.table.to_pylist(), self.there, strict=True)]


class _Trial:
    """A merge function under test, and the generated rows: three rows, a, b and c, for each of many keys."""

    def __init__(self, merger: UserMerger, tables: Sequence[pa.Table]) -> None:
        self._merger = merger
        self._rows = {}
        for name, table in zip("abc", tables, strict=True):
            self._rows[name] = _Rows(table, np.ones(table.num_rows, np.bool_))

    def find_counter_example(self, law: str) -> CounterExample | None:
        """Return the smallest rows for which the two sides of a law differ; None if there are none."""
        sides = {side: rows.to_list() for side, rows in self._compute_sides(law).items()}
        names = "abc" if law == "associative" else "ab"
        columns = {name: self._rows[name].to_list() for name in names} | sides
        left, right = sides.values()
        broken = []
        for at in range(len(left)):
            if not _are_same(left[at], right[at]):
                broken.append({name: rows[at] for name, rows in columns.items()})
        return CounterExample(law, min(broken, key=_measure)) if broken else None

    def _compute_sides(self, law: str) -> dict[str, _Rows]:
        """Return the two sides of a law, computed for all keys: formula such as `f(f(a, b), c)` → its rows."""
        f = self._join
        a, b, c = self._rows.values()
        if law == "associative":
            return {"f(f(a, b), c)": f(f(a, b), c), "f(a, f(b, c))": f(a, f(b, c))}
        if law == "idempotent":
            return {"f(f(a, b), b)": f(f(a, b), b), "f(a, b)": f(a, b)}
        if law == "order-independent":
            return {"f(a, b)": f(a, b), "f(b, a)": f(b, a)}
        return {"f(None, f(a, b))": f(None, f(a, b)), "f(f(None, a), b)": f(f(None, a), b)}

    def _join(self, old: _Rows | None, new: _Rows) -> _Rows:
        """Return f(old, new) for each key, where f is the merge function under test: the merged row, or a deleted key.

        If the old row is deleted, the new row is merged as the first row of its key, as in batches and logs.

        Args:
            old: the older rows; None: no key has an older row.
        """
        has_old = np.zeros(len(new.there), np.bool_) if old is None else old.there
        marked = new.table.append_column(FRESH, pa.array(~has_old)).append_column(GONE, pa.array(~new.there))
        choices, rows = self._merger.join_pairs((old or new).table, marked)
        there = choices == Choice.BUILD
        places = np.arange(len(there))
        places[there] = len(there) + np.arange(rows.num_rows)
        return _Rows(take_rows(pa.concat_tables([new.table, rows]), places), there)


def _generate_tables(schema: pa.Schema, fixed: Sequence[str], examples: int, seed: int) -> list[pa.Table]:
    """Generate three tables in which row i has the same key, and random values in the other columns.

    Args:
        fixed: the columns of the record key and the partition path.
        examples: the number of rows of each table.
    """
    random = np.random.default_rng(seed)
    key_columns = {path.split(".")[0] for path in fixed}
    keys = {field.name: _generate_column(random, field, examples, nulls=0) for field in schema if field.name in key_columns}
    tables = []
    for _ in range(3):
        columns = [keys[field.name] if field.name in keys else _generate_column(random, field, examples) for field in schema]
        tables.append(pa.table(columns, schema=schema))
    return tables


def _generate_column(random: np.random.Generator, field: pa.Field, count: int, nulls: float = _NULLS) -> pa.Array:
    """Generate a column of random samples of the field's type.

    Args:
        count: the number of values.
        nulls: the share of nulls, if the field is nullable.
    """
    samples = _list_samples(field.type)
    if field.name == DELETE_FLAG:
        samples = [False]  # deletes never reach the function
    picked = [samples[number] for number in random.integers(0, len(samples), count)]
    is_null = random.random(count) < (nulls if field.nullable else 0)
    return pa.array([None if null else value for value, null in zip(picked, is_null, strict=True)], field.type)


def _list_samples(kind: pa.DataType) -> list[Any]:
    """Return a few small values of a type, from which columns are generated.

    The floating-point samples can be added without rounding. Otherwise a function that adds values would seem not associative.

    Raises:
        SchemaError: there are no samples of this type.
    """
    types = pa.types
    if types.is_struct(kind):
        return [_sample_struct(kind, number) for number in range(4)]
    if types.is_list(kind) or types.is_large_list(kind):
        return [[], _list_samples(kind.value_type)[:1], _list_samples(kind.value_type)[:2]]
    if types.is_map(kind):
        return [[], list(zip(_list_samples(kind.key_type)[:2], _list_samples(kind.item_type)[:2], strict=False))]
    for is_of, values in _SAMPLES:
        if is_of(kind):
            return values
    raise SchemaError(f"rows with columns of type {kind} cannot be generated; leave them out of the schema")


def _sample_struct(kind: pa.StructType, number: int) -> dict[str, Any]:
    """Return a struct made of samples of its fields; `number` selects the samples."""
    struct = {}
    for field in kind:
        samples = _list_samples(field.type)
        struct[field.name] = samples[number % len(samples)]
    return struct


_SAMPLES: list[tuple[Callable[[pa.DataType], bool], list[Any]]] = [
    (pa.types.is_boolean, [True, False]),
    (pa.types.is_unsigned_integer, [0, 1, 2, 3]),
    (pa.types.is_integer, [0, 1, 2, 3, -1]),
    (pa.types.is_floating, [0.0, 1.0, 2.5, -1.0]),
    (pa.types.is_decimal, [decimal.Decimal(0), decimal.Decimal(1), decimal.Decimal(-2)]),
    (pa.types.is_timestamp, [_EPOCH + datetime.timedelta(days=i) for i in range(3)]),
    (pa.types.is_date, [(_EPOCH + datetime.timedelta(days=i)).date() for i in range(3)]),
    (pa.types.is_time, [datetime.time(i) for i in range(3)]),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), ["p", "q", "r"]),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), [b"a", b"b", b""]),
]


def _are_same(left: Any, right: Any) -> bool:
    """Whether two rows or values are equal. NaN equals NaN, also inside structs and lists."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_are_same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_are_same, left, right))
    return bool(left == right) or (left != left and right != right)  # NaN is the same as NaN


def _measure(rows: dict[str, Any]) -> int:
    """Return a number that is greater for a counter-example that is harder to read: its length, with a penalty for nulls."""
    return len(repr(rows)) + 10 * repr(rows).count("None")


def _format_cell(row: dict[str, Any] | None, name: str) -> str:
    """Return the value of a column for a printed counter-example; `gone` if the key is deleted."""
    return "gone" if row is None else repr(row.get(name))
