"""`penstock.deletes.follow.ordering`: deletes are compared by ordering value, whatever the payload.

`OrderedDeletes` wraps the merger of a write if the table has this option. Readers of logs do not use it: when a log is read,
deletes take effect before the merger is called (`kernels/tombstones.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import OptionError
from penstock.merge.kernels.gather import Flags, find_column
from penstock.merge.kernels.marks import is_fresh
from penstock.merge.kernels.ordering import stored_is_newer
from penstock.merge.kernels.runs import Folded, Runs
from penstock.merge.merger import Merger
from penstock.merge.ordered import drop_before_deletes
from penstock.merge.payload_settings import PAYLOAD_OPTION
from penstock.merge.row_choice import Choice, Choices
from penstock.options import ORDERED_DELETES
from penstock.options.payload_names import HUDI_PAYLOADS, PENSTOCK_PAYLOADS

_PACKAGE = "org.apache.hudi.common.model."
#: Payloads of Hudi that do not go by the table's ordering column, and what they go by.
_WITHOUT_ORDERING = {
    f"{_PACKAGE}HoodieAvroPayload": "the order of the writes",
    f"{_PACKAGE}EmptyHoodieRecordPayload": "no value: every row is a delete",
    f"{_PACKAGE}debezium.MySqlDebeziumAvroPayload": "the position in the database's log",
    f"{_PACKAGE}debezium.PostgresDebeziumAvroPayload": "the position in the database's log",
}


def check_ordered_deletes(payload_class: str, ordering: str | None) -> None:
    """Raise OptionError if the table's payload cannot compare deletes with stored rows by ordering value.

    Nothing is raised for a table that has an ordering column and a payload of Hudi or Penstock that compares rows by that column.

    Args:
        payload_class: the payload class of the table.
        ordering: the ordering column that `hoodie.properties` names; None if it names none.

    Raises:
        OptionError: the table has no ordering column, or the payload chooses rows without it: HoodieAvroPayload,
            EmptyHoodieRecordPayload, a Debezium payload or a function of the user.
    """
    setting = f"{ORDERED_DELETES.key}=true"
    if ordering is None:
        raise OptionError(
            f"{setting} compares deletes by an ordering column, and the table stores none: set "
            "hoodie.datasource.write.precombine.field when the table is created, or leave the option out"
        )
    reason = _WITHOUT_ORDERING.get(payload_class)
    if payload_class not in HUDI_PAYLOADS and payload_class not in PENSTOCK_PAYLOADS:
        reason = "a function of your own"
    if reason is not None:
        raise OptionError(
            f"{setting} compares deletes by {ordering!r}, and {PAYLOAD_OPTION}={payload_class} goes by {reason}; choose "
            "DefaultHoodieRecordPayload, or leave the option out"
        )


@dataclass(frozen=True)
class OrderedDeletes(Merger):
    """A merger that wraps another merger: a delete is ignored if the stored row has a greater ordering value.

    A delete without an ordering value always deletes.
    """

    merger: Merger
    ordering: str

    orders_deletes = True

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.merger.needs, self.ordering)))

    @property
    def reads(self) -> tuple[str, ...]:
        return self.merger.reads

    @property
    def folds(self) -> bool:
        return self.merger.folds

    @property
    def builds(self) -> bool:
        return self.merger.builds

    @property
    def keeps_partition(self) -> bool:
        return self.merger.keeps_partition

    @property
    def logs_deletes_as_rows(self) -> bool:
        return self.merger.logs_deletes_as_rows

    def is_delete(self, new: pa.Table) -> Flags:
        return self.merger.is_delete(new)

    def is_delete_entry(self, new: pa.Table) -> Flags:
        return self.merger.is_delete_entry(new)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        values = find_column(new, self.ordering)
        if values is None:
            return self.merger.resolve(old, new)
        has_value = np.asarray(pc.is_valid(values), dtype=np.bool_)
        is_late = stored_is_newer(old, new, self.ordering, has_value)
        choices = self.merger.resolve(old, new)
        # A row that follows a delete of its key in the batch takes no value from the stored row, which that delete removes.
        begins = is_fresh(new) & (choices == Choice.BUILD) & ~is_late
        choices = np.where(begins, Choice.TAKE_NEW, choices)
        return np.where(self.is_delete(new) & is_late, Choice.KEEP_OLD, choices)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        return self.merger.build(old, new)

    def to_stored(self, new: pa.Table) -> pa.Table:
        return self.merger.to_stored(new)

    def insert(self, new: pa.Table) -> tuple[Flags, pa.Table]:
        return self.merger.insert(new)

    def fold(self, runs: Runs) -> Folded:
        """Combine the rows of each run (the rows of one key) to one row.

        Before that, the run is sorted by ordering value, and its last delete and all rows before that delete are dropped
        (`drop_before_deletes`).
        """
        left, is_after_delete = drop_before_deletes(runs, self.is_delete)
        folded = self.merger.fold(left)
        fresh = is_after_delete if folded.fresh is None else is_after_delete | folded.fresh
        return replace(folded, fresh=fresh)


def order_deletes(merger: Merger, ordering: str) -> Merger:
    """Return a merger that compares deletes by ordering value: `merger` itself if it does so, otherwise a wrapper around it."""
    return merger if merger.orders_deletes else OrderedDeletes(merger, ordering)
