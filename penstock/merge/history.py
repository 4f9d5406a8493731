"""`penstock.keep_history`: a payload that keeps the newest row of each key, and its earlier versions in a list column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import OptionError, SchemaError
from penstock.merge.kernels.blend import blend, cast_column
from penstock.merge.kernels.gather import Flags, Positions, find_column, to_array
from penstock.merge.kernels.lists import concat_lists
from penstock.merge.kernels.ordering import rank_values
from penstock.merge.merger import Merger
from penstock.merge.ordered import JoiningMerger
from penstock.merge.payload_settings import PayloadSettings


@dataclass(frozen=True)
class KeepHistory(JoiningMerger):
    """A merger that keeps the newest row of each key, with the earlier versions of the row in a list column, oldest first.

    A version is a struct in that list. The struct's fields choose which columns of an earlier version are kept, by name. If the
    ordering column is one of them, a version that arrives late is sorted into its place. `limit` is the number of versions to
    keep, the newest ones; None: all.
    """

    column: str
    ordering: str | None = None
    #: The most versions that are kept, the newest ones; None: all.
    limit: int | None = None

    @classmethod
    def from_settings(cls, settings: PayloadSettings) -> Merger:
        """Return the merger for the options `penstock.payload.history.column` and `penstock.payload.history.limit`.

        Raises:
            OptionError: the limit is not a number from 1 on.
        """
        limit = settings.own.get("history.limit")
        if limit is not None and (not limit.isdigit() or int(limit) < 1):
            raise OptionError(f"penstock.payload.history.limit={limit!r} has to be a number from 1 on; leave it out to keep all")
        column = settings.own.get("history.column", "history")
        return cls(column, settings.ordering, int(limit) if limit else None)

    def join(self, old: pa.Table, new: pa.Table, late: Flags) -> pa.Table:
        kind = self._find_list_type(new.schema)
        winners = []
        losers = []
        for field in new.schema:
            stored = cast_column(old, field)
            incoming = new[field.name]
            winners.append(blend(late, stored, incoming))
            losers.append(blend(late, incoming, stored))
        winner = pa.table(winners, schema=new.schema)
        loser = pa.table(losers, schema=new.schema)
        # The versions of the older row come before the older row itself, those of the newer row behind it.
        parts = [loser[self.column], _wrap_in_lists(loser, kind), winner[self.column]]
        versions = concat_lists(parts, self._make_ranking(kind), self.limit)
        return winner.set_column(new.schema.get_field_index(self.column), new.schema.field(self.column), versions)

    def _find_list_type(self, schema: pa.Schema) -> pa.ListType:
        """Return the type of the history column. Raise SchemaError if the column is missing or is not a list of structs."""
        kind = schema.field(self.column).type if self.column in schema.names else None
        if kind is None or not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
            raise SchemaError(
                f"column {self.column!r} has to be a list of structs to keep earlier versions of a row; it is {kind}"
            )
        return kind

    def _make_ranking(self, kind: pa.ListType) -> Callable[[pa.Array], Positions] | None:
        """Return a function that computes numbers by which to sort versions of rows; None if versions have no ordering value.

        A version has no ordering value if the history column does not keep the ordering column. The function is called with an
        array of versions, which are structs. It returns one number per version. The numbers compare as the ordering values of the
        versions do.

        Args:
            kind: the type of the history column, a list of structs.
        """
        ordering = self.ordering
        names = [field.name for field in kind.value_type]
        if ordering is None or ordering.split(".")[0] not in names:
            return None

        def rank(versions: pa.Array) -> Positions:
            values = find_column(pa.Table.from_arrays(versions.flatten(), names=names), ordering)
            return np.zeros(len(versions), np.int64) if values is None else rank_values(values, ordering)

        return rank


def _wrap_in_lists(rows: pa.Table, kind: pa.ListType) -> pa.ChunkedArray:
    """Return a history column that has for each row a list with one version: a struct made of that row.

    Args:
        kind: the type of the history column; its struct says which columns to take.
    """
    fields = list(kind.value_type)
    structs = pa.StructArray.from_arrays([to_array(cast_column(rows, field)) for field in fields], fields=fields)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(rows.num_rows + 1, dtype=np.int32)), structs)
    return pa.chunked_array([lists.cast(kind)])
