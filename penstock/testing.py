"""For authors of merge functions: the laws that one should keep, tried on generated rows. Needs neither Spark nor a table.

Rows are made up by numpy from few small values of each type, so that they collide often and read well. A law that does not hold
comes with the smallest of the rows that show it.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.merge.choice import Choice
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.kernels.gather import Flags, take_rows
from penstock.merge.kernels.marks import FRESH, GONE
from penstock.merge.payloads import unknown_payload
from penstock.merge.user.merger import UserMerger, make_user_merger
from penstock.progress import format_table
from penstock.registry import Kind, Registered, find_registered, find_registration

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])

#: What a law says, and what it is for.
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
    """Rows that break a law: those that went in, and what the two sides of the law make of them (None: the key is gone)."""

    law: str
    rows: dict[str, dict[str, Any] | None]

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for row in self.rows.values() if row for name in row))
        cells = [[side, *(_shown(row, name) for name in names)] for side, row in self.rows.items()]
        return f"not {self.law}: {LAWS[self.law]}\n" + format_table("", ["", *names], cells)


@dataclass(frozen=True)
class Laws:
    """Which laws a function keeps on all rows that were tried. Prints with the counter-examples."""

    name: str
    tried: int
    held: tuple[str, ...]
    broken: tuple[CounterExample, ...]

    def breaks(self, law: str) -> CounterExample | None:
        """The rows that break a law; None if none were found."""
        return next((one for one in self.broken if one.law == law), None)

    def __str__(self) -> str:
        held = f"{self.name}: {', '.join(self.held) or 'no law'} held on {self.tried} examples"
        return "\n\n".join([held, *map(str, self.broken)])

    __repr__ = __str__


def check_merger(
    merger: str | Callable[..., Any],
    schema: pa.Schema = SCHEMA,
    *,
    key: str | Sequence[str] = (),
    kind: str = "merger",
    examples: int = 1000,
    seed: int = 0,
) -> Laws:
    """Look for rows that show that a payload or merger breaks a law.

    Associativity is what batches and merge-on-read tables rely on. The others are good to have: whether a function needs them
    depends on what may happen to its rows. The same seed gives the same rows.

    Args:
        merger: the function, or the name it is find_registered under.
        schema: the columns of its rows.
        key: the columns of the record key and the partition path; the first column, if none are named.
        kind: `merger` or `payload`, for a function that is not find_registered.

    Raises:
        PayloadError: the function raises something, or gives back what cannot be stored.

    Example:
        >>> from penstock.testing import check_merger
        >>> laws = check_merger(lambda old, new: {**new, "amount": (old or new)["amount"]}, kind="payload")
        >>> laws.held
        ('associative', 'idempotent', 'begins alike')
        >>> print(laws.breaks("order-independent"))
        not order-independent: f(a, b) = f(b, a); rows may come late
        ...
    """
    function = _function_of(merger, kind)
    fixed = ((key,) if isinstance(key, str) else tuple(key)) or (schema.names[0],)
    tried = _Trial(make_user_merger(function, fixed=fixed), _generated(schema, fixed, examples, seed))
    laws = [law for law in LAWS if law != "begins alike" or function.kind is Kind.PAYLOAD]
    found = {law: tried.counter_example(law) for law in laws}
    return Laws(
        f"{function.kind.value} {function.name!r}",
        examples,
        tuple(law for law, broken in found.items() if broken is None),
        tuple(broken for broken in found.values() if broken is not None),
    )


def _function_of(merger: str | Callable[..., Any], kind: str) -> Registered:
    if isinstance(merger, str):
        found = find_registered(merger)
        if found is None:
            raise unknown_payload(merger, "check_merger")
        return found
    return find_registration(merger) or Registered(getattr(merger, "__name__", "function"), Kind(kind), merger)


@dataclass(frozen=True)
class _Rows:
    """A row for each of many keys; some are not there: their key is gone."""

    table: pa.Table
    there: Flags

    def to_list(self) -> list[dict[str, Any] | None]:
        return [row if there else None for row, there in zip(self.table.to_pylist(), self.there, strict=True)]


class _Trial:
    """A function, and three rows for each of many keys."""

    def __init__(self, merger: UserMerger, tables: Sequence[pa.Table]) -> None:
        self._merger = merger
        self._rows = {name: _Rows(t, np.ones(t.num_rows, np.bool_)) for name, t in zip("abc", tables, strict=True)}

    def counter_example(self, law: str) -> CounterExample | None:
        """The smallest rows on which the two sides of a law differ."""
        f, a, b, c = self._joined, *self._rows.values()
        sides = {
            "associative": lambda: {"f(f(a, b), c)": f(f(a, b), c), "f(a, f(b, c))": f(a, f(b, c))},
            "idempotent": lambda: {"f(f(a, b), b)": f(f(a, b), b), "f(a, b)": f(a, b)},
            "order-independent": lambda: {"f(a, b)": f(a, b), "f(b, a)": f(b, a)},
            "begins alike": lambda: {"f(None, f(a, b))": f(None, f(a, b)), "f(f(None, a), b)": f(f(None, a), b)},
        }[law]()
        one, other = (side.to_list() for side in sides.values())
        shown = {name: self._rows[name].to_list() for name in ("abc" if law == "associative" else "ab")}
        shown |= dict(zip(sides, (one, other), strict=True))
        broken = [{name: its[at] for name, its in shown.items()} for at in range(len(one)) if not _same(one[at], other[at])]
        return CounterExample(law, min(broken, key=_size)) if broken else None

    def _joined(self, old: _Rows | None, new: _Rows) -> _Rows:
        """One row of each pair. What follows a row that is gone begins anew, as in a batch and in a log."""
        before = np.zeros(len(new.there), np.bool_) if old is None else old.there
        flagged = new.table.append_column(FRESH, pa.array(~before)).append_column(GONE, pa.array(~new.there))
        choices, rows = self._merger.join_pairs((old or new).table, flagged)
        there = choices == Choice.BUILD
        places = np.arange(len(there))
        places[there] = len(there) + np.arange(rows.num_rows)
        return _Rows(take_rows(pa.concat_tables([new.table, rows]), places), there)


def _generated(schema: pa.Schema, fixed: Sequence[str], examples: int, seed: int) -> list[pa.Table]:
    """Three tables whose rows have the same keys."""
    random = np.random.default_rng(seed)
    tops = {path.split(".")[0] for path in fixed}
    keys = {f.name: _column(random, f, examples, nulls=0) for f in schema if f.name in tops}
    return [pa.table([keys.get(f.name) or _column(random, f, examples) for f in schema], schema=schema) for _ in range(3)]


def _column(random: np.random.Generator, field: pa.Field, count: int, nulls: float = _NULLS) -> pa.Array:
    choices = _values(field.type)
    if field.name == DELETE_FLAG:
        choices = [False]  # deletes never reach the function
    picked = [choices[i] for i in random.integers(0, len(choices), count)]
    lacking = random.random(count) < (nulls if field.nullable else 0)
    return pa.array([None if lack else value for value, lack in zip(picked, lacking, strict=True)], field.type)


def _values(kind: pa.DataType) -> list[Any]:
    """A few values of a type. Sums of the fractions are exact."""
    types = pa.types
    if types.is_struct(kind):
        return [{f.name: _values(f.type)[i % len(_values(f.type))] for f in kind} for i in range(4)]
    if types.is_list(kind) or types.is_large_list(kind):
        return [[], _values(kind.value_type)[:1], _values(kind.value_type)[:2]]
    if types.is_map(kind):
        return [[], list(zip(_values(kind.key_type)[:2], _values(kind.item_type)[:2], strict=False))]
    for is_a, values in _SAMPLES:
        if is_a(kind):
            return values
    raise SchemaError(f"rows with columns of type {kind} cannot be generated; leave them out of the schema")


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


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) or (one != one and other != other)  # not-a-number is the same as itself


def _size(rows: dict[str, Any]) -> int:
    return len(repr(rows)) + 10 * repr(rows).count("None")


def _shown(row: dict[str, Any] | None, name: str) -> str:
    return "gone" if row is None else repr(row.get(name))
