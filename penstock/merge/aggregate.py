"""Mergers that users write again and again: aggregates by column, the first row of a key, a list of a row's earlier versions.

All of them take rows of a batch by ordering value, then by arrival. A delete in between starts anew: what follows it takes
nothing from the stored row (`FRESH`). A delete that is older than the stored row does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import OptionError, SchemaError
from penstock.merge.choice import Choice, Choices
from penstock.merge.deletes import delete_flags
from penstock.merge.kernels.blend import blend, cast_column, fill_nulls
from penstock.merge.kernels.gather import Flags, Positions, find_column, take_rows, to_array
from penstock.merge.kernels.lists import concat_lists
from penstock.merge.kernels.marks import drop_marks, is_fresh
from penstock.merge.kernels.ordering import rank_values, stored_is_newer
from penstock.merge.kernels.runs import Folded, Runs, join_neighbours
from penstock.merge.merger import Merger
from penstock.schema import META_COLUMNS

AGGREGATES = ("sum", "max", "min", "first", "last", "collect")


@dataclass(frozen=True)
class FirstRow(Merger):
    """The first row of a key stays until it is deleted."""

    logs_deletes_as_rows = True
    keeps_partition = True
    ordering: str | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,) if self.ordering else ()

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return _resolved(old, new, self.ordering, Choice.KEEP_OLD)

    def is_delete_entry(self, rows: pa.Table) -> Flags:
        """In a log deletes are rows."""
        return np.zeros(rows.num_rows, np.bool_)

    def fold(self, runs: Runs) -> Folded:
        if runs.in_log:
            return _first_to_come(runs)
        left, fresh = _since_deletes(runs)
        return Folded(take_rows(left.rows, left.starts), fresh)


class _Joining(Merger):
    """Mergers that make one row of an earlier and a later one, in a batch as with the stored row."""

    logs_deletes_as_rows = True
    keeps_partition = True
    ordering: str | None

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,) if self.ordering else ()

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return _resolved(old, new, self.ordering, Choice.BUILD)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        new = drop_marks(new)
        return _as_of_later_commit(old, new, self._join(old, new, _is_late(old, new, self.ordering)))

    def is_delete_entry(self, rows: pa.Table) -> Flags:
        """In a log deletes are rows; what cannot be joined is refused before it is in one."""
        none = drop_marks(rows).slice(0, 0)
        self._join(none, none, np.zeros(0, np.bool_))
        return np.zeros(rows.num_rows, np.bool_)

    def fold(self, runs: Runs) -> Folded:
        left, fresh = _since_deletes(runs)
        return Folded(join_neighbours(left, self._join_in_order), fresh)

    def _join_in_order(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        return _as_of_later_commit(older, newer, self._join(older, newer, np.zeros(older.num_rows, np.bool_)))

    def _join(self, old: pa.Table, new: pa.Table, late: Flags) -> pa.Table:
        """One row of each pair; where `late`, the new one is the earlier."""
        raise NotImplementedError


@dataclass(frozen=True)
class Aggregate(_Joining):
    """Named columns are aggregated over all rows of a key; the others are those of the newest row.

    `sum`, `max`, `min`, `first` and `last` pass over nulls; `collect` puts lists behind one another.
    """

    columns: tuple[tuple[str, str], ...]
    ordering: str | None = None

    def __post_init__(self) -> None:
        for column, aggregate in self.columns:
            if aggregate not in AGGREGATES:
                raise OptionError(f"aggregate {aggregate!r} of column {column!r} is none of {', '.join(AGGREGATES)}")

    def _join(self, old: pa.Table, new: pa.Table, late: Flags) -> pa.Table:
        named = dict(self.columns)
        if missing := [name for name in named if name not in new.column_names]:
            raise SchemaError(f"column {missing[0]!r} is to be aggregated, but the rows have {', '.join(new.column_names)}")
        columns = []
        for field in new.schema:
            stored, incoming = cast_column(old, field), new[field.name]
            earlier, later = blend(late, incoming, stored), blend(late, stored, incoming)
            columns.append(_aggregate(named.get(field.name), field, earlier, later))
        return pa.table(columns, schema=new.schema)


@dataclass(frozen=True)
class KeepHistory(_Joining):
    """The newest row stays, with its earlier versions in a list column, oldest first.

    The list's structs hold what is to be kept of a version: any of the columns, by name. Where they hold the ordering column,
    versions that come late are put in their place.
    """

    column: str
    ordering: str | None = None
    #: Versions that are kept, the newest ones; None: all.
    limit: int | None = None

    def _join(self, old: pa.Table, new: pa.Table, late: Flags) -> pa.Table:
        kind = self._checked(new.schema)
        whole = [(cast_column(old, field), new[field.name]) for field in new.schema]
        winner = pa.table([blend(late, a, b) for a, b in whole], schema=new.schema)
        loser = pa.table([blend(late, b, a) for a, b in whole], schema=new.schema)
        # What the older row had comes before itself, what the newer one had behind it.
        before, behind = loser[self.column], winner[self.column]
        versions = concat_lists([before, _versions(loser, kind), behind], self._rank(kind), self.limit)
        return winner.set_column(new.schema.get_field_index(self.column), new.schema.field(self.column), versions)

    def _checked(self, schema: pa.Schema) -> pa.ListType:
        kind = schema.field(self.column).type if self.column in schema.names else None
        if kind is None or not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
            raise SchemaError(
                f"column {self.column!r} has to be a list of structs to keep earlier versions of a row; it is {kind}"
            )
        return kind

    def _rank(self, kind: pa.ListType) -> Callable[[pa.Array], Positions] | None:
        ordering, fields = self.ordering, [field.name for field in kind.value_type]
        if ordering is None or ordering.split(".")[0] not in fields:
            return None

        def rank(versions: pa.Array) -> Positions:
            values = find_column(pa.Table.from_arrays(versions.flatten(), names=fields), ordering)
            return np.zeros(len(versions), np.int64) if values is None else rank_values(values, ordering)

        return rank


def _resolved(old: pa.Table, new: pa.Table, ordering: str | None, otherwise: Choice) -> Choices:
    """Deletes and fresh rows win unless the stored row is newer."""
    late = _is_late(old, new, ordering)
    gone = np.where(late, Choice.KEEP_OLD, Choice.DELETE)
    taken = np.where(is_fresh(new) & ~late, Choice.TAKE_NEW, otherwise)
    return np.where(delete_flags(new), gone, taken).astype(np.int8)


def _is_late(old: pa.Table, new: pa.Table, ordering: str | None) -> Flags:
    return stored_is_newer(old, new, ordering) if ordering else np.zeros(new.num_rows, np.bool_)


def _since_deletes(runs: Runs) -> tuple[Runs, Flags]:
    """Each run by ordering value, from behind its last delete on (the delete alone, where nothing follows); which had one."""
    runs = runs.sort_by_ordering()
    fresh = np.zeros(len(runs), np.bool_) if runs.after_delete is None else runs.after_delete
    deletes = delete_flags(runs.rows)
    if not deletes.any():
        return runs, fresh
    last = np.maximum.reduceat(np.where(deletes, np.arange(len(deletes)), -1), runs.starts)
    followed = (last >= 0) & (last < runs.ends)
    left = runs.start_at(np.where(last < 0, runs.starts, np.minimum(last + 1, runs.ends)))
    return replace(left, after_delete=None), (fresh & (last != runs.ends)) | followed


def _first_to_come(runs: Runs) -> Folded:
    """The row of each run that came first since its key was last deleted; or that delete, if no row came since.

    A delete that is older than the row which is there does nothing. One round for each place in a run.
    """
    first, gone = np.full(len(runs), -1), np.full(len(runs), -1)
    deletes, active = delete_flags(runs.rows), np.arange(len(runs))
    ranks = np.zeros(len(deletes), np.int64) if runs.ranks is None else runs.ranks
    for step in range(int(runs.lengths.max(initial=0))):
        active = active[runs.lengths[active] > step]
        at = runs.starts[active] + step
        there = first[active]
        ends = deletes[at] & ((there < 0) | (ranks[at] >= ranks[there]))
        gone[active[ends]], first[active[ends]] = at[ends], -1
        begins = ~deletes[at] & (there < 0)
        first[active[begins]] = at[begins]
    fresh = (gone >= 0) & (first >= 0)
    if runs.after_delete is not None:
        fresh |= runs.after_delete & (first >= 0)
    return Folded(take_rows(runs.rows, np.where(first < 0, gone, first)), fresh)


def _as_of_later_commit(old: pa.Table, new: pa.Table, rows: pa.Table) -> pa.Table:
    """Rows made of two, with the meta columns of the one that was written later: that is when they became what they are."""
    known = [name for name in META_COLUMNS if name in rows.column_names and name in old.column_names]
    if META_COLUMNS[0] not in known:
        return rows
    before = np.asarray(pc.greater(cast_column(old, new.schema.field(META_COLUMNS[0])), new[META_COLUMNS[0]]))
    for name in known:
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, blend(before.astype(np.bool_), cast_column(old, field), new[name]))
    return rows


def _versions(rows: pa.Table, kind: pa.ListType) -> pa.ChunkedArray:
    """Each row as a list of one struct."""
    fields = list(kind.value_type)
    structs = pa.StructArray.from_arrays([to_array(cast_column(rows, field)) for field in fields], fields=fields)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(rows.num_rows + 1, dtype=np.int32)), structs)
    return pa.chunked_array([lists.cast(kind)])


def _aggregate(name: str | None, field: pa.Field, earlier: pa.ChunkedArray, later: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    try:
        if name == "sum":
            return fill_nulls(_sum(earlier, later), fill_nulls(earlier, later))
        if name in ("max", "min"):
            return _extreme(name, earlier, later)
        if name == "collect":
            return concat_lists([earlier, later])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise SchemaError(f"{name} of column {field.name!r}, which is {field.type}, cannot be taken: {e}") from e
    if name == "first":
        return fill_nulls(earlier, later)
    if name == "last":
        return fill_nulls(later, earlier)
    return later


def _sum(earlier: pa.ChunkedArray, later: pa.ChunkedArray) -> pa.ChunkedArray:
    """Sums in the type of the column; null where either is. A sum of decimals may need a digit more than 128 bits hold."""
    kind = earlier.type
    if pa.types.is_decimal128(kind):
        wide = pa.decimal256(kind.precision, kind.scale)
        earlier, later = earlier.cast(wide), later.cast(wide)
    return pc.add_checked(earlier, later).cast(kind)


def _extreme(name: str, earlier: pa.ChunkedArray, later: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """The greater or the lesser of two values of any type that compares; Arrow's own kernels lack booleans and zoned times."""
    if pa.types.is_floating(earlier.type):
        return (pc.max_element_wise if name == "max" else pc.min_element_wise)(earlier, later)
    stays = (pc.greater if name == "max" else pc.less)(earlier, later)
    chosen = blend(np.asarray(pc.fill_null(stays, False), dtype=np.bool_), earlier, later)
    return fill_nulls(chosen, earlier)
