"""The table of payloads: the name of a Hudi payload class, a merge mode or a payload of Penstock's own → its merger.

A new payload is a subclass of `Merger` in a file of its own, and one line in `HUDI_PAYLOADS` or `PENSTOCK_PAYLOADS`. A name that
is in neither table may be a function that the user registered (`penstock/registry.py`). No class is ever imported because an
option or a table names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import OptionError
from penstock.merge.aggregate import Aggregate
from penstock.merge.change_streams import AwsDms, DebeziumMySql, DebeziumPostgres
from penstock.merge.column_mask import MASK, MaskedUpdate
from penstock.merge.deletes import DeleteMarker
from penstock.merge.first_row import FirstRow
from penstock.merge.goldengate import POSITION, make_goldengate_merger
from penstock.merge.history import KeepHistory
from penstock.merge.merger import Merger
from penstock.merge.operation_column import WithOperation
from penstock.merge.overwrite import (
    AlwaysDelete,
    CommitTimeOrdering,
    EventTimeAvro,
    EventTimeOrdering,
    FirstValue,
    OverwriteWithLatest,
)
from penstock.merge.partial import OverwriteNonDefaults, PartialUpdate
from penstock.merge.user.merger import make_user_merger
from penstock.registry import explain_registration, find_registered, is_registered

_PACKAGE = "org.apache.hudi.common.model."
_OPTION = "hoodie.datasource.write.payload.class"
#: The prefix of options of Penstock's own payloads.
PAYLOAD_OPTION_PREFIX = "penstock.payload."


@dataclass(frozen=True)
class PayloadSettings:
    """What the options and the table say about a payload."""

    #: The ordering column; None if the table has none.
    ordering: str | None = None
    #: `hoodie.payload.delete.field` and `hoodie.payload.delete.marker`.
    marker: DeleteMarker | None = None
    #: Defaults of columns that are not null, from the table's Avro schema.
    defaults: tuple[tuple[str, Any], ...] = ()
    #: Whether `_hoodie_operation` counts (`hoodie.allow.operation.metadata.field`).
    operation: bool = False
    #: Options of Penstock's own payloads, without the prefix `penstock.payload.`.
    own: Mapping[str, str] = field(default_factory=dict)
    #: Columns of the record key and the partition path. A user's function must not change them.
    fixed: tuple[str, ...] = ()
    #: Seconds that one call of a user's function may take; 0: no limit.
    timeout_s: float = 0.0


MakeMerger = Callable[[PayloadSettings], Merger]


def _make_default(settings: PayloadSettings) -> Merger:
    if settings.ordering is None:
        return OverwriteWithLatest(settings.marker)
    return EventTimeOrdering(settings.ordering, settings.marker)


def _make_event_time(settings: PayloadSettings) -> Merger:
    return EventTimeAvro(settings.ordering) if settings.ordering else OverwriteWithLatest()


def _make_first_value(settings: PayloadSettings) -> Merger:
    if settings.ordering is None:
        return OverwriteWithLatest(settings.marker)
    return FirstValue(settings.ordering, settings.marker)


def _make_aggregate(settings: PayloadSettings) -> Merger:
    parts = settings.own.get("aggregate", "").split(",")
    columns = []
    for part in parts:
        if part.strip():
            column, _, aggregate = part.strip().rpartition(":")
            columns.append((column.strip(), aggregate.strip()))
    if not columns or not all(column for column, _ in columns):
        raise OptionError(
            f"{_OPTION}=penstock.aggregate needs penstock.payload.aggregate=<column>:<aggregate>,..., such as fare:sum,seen:max; "
            f"it is {settings.own.get('aggregate')!r}"
        )
    return Aggregate(tuple(columns), settings.ordering)


def _make_masked(settings: PayloadSettings) -> Merger:
    return MaskedUpdate(settings.ordering, settings.own.get("mask.column", MASK))


def _make_keep_history(settings: PayloadSettings) -> Merger:
    limit = settings.own.get("history.limit")
    if limit is not None and (not limit.isdigit() or int(limit) < 1):
        raise OptionError(f"penstock.payload.history.limit={limit!r} has to be a number from 1 on; leave it out to keep all")
    column = settings.own.get("history.column", "history")
    return KeepHistory(column, settings.ordering, int(limit) if limit else None)


def _make_goldengate(settings: PayloadSettings) -> Merger:
    if settings.ordering != POSITION:
        raise OptionError(
            f"{_OPTION}=penstock.ogg goes by the column {POSITION!r}: set hoodie.datasource.write.precombine.field={POSITION}; "
            f"it is {settings.ordering!r}"
        )
    return make_goldengate_merger()


#: Hudi's payload classes.
HUDI_PAYLOADS: dict[str, MakeMerger] = {
    f"{_PACKAGE}OverwriteWithLatestAvroPayload": lambda _: OverwriteWithLatest(),
    f"{_PACKAGE}DefaultHoodieRecordPayload": _make_default,
    f"{_PACKAGE}EventTimeAvroPayload": _make_event_time,
    f"{_PACKAGE}FirstValueAvroPayload": _make_first_value,
    f"{_PACKAGE}HoodieAvroPayload": lambda _: CommitTimeOrdering(),
    f"{_PACKAGE}OverwriteNonDefaultsWithLatestAvroPayload": lambda settings: OverwriteNonDefaults(settings.defaults),
    f"{_PACKAGE}PartialUpdateAvroPayload": lambda settings: PartialUpdate(settings.ordering),
    f"{_PACKAGE}EmptyHoodieRecordPayload": lambda _: AlwaysDelete(),
    f"{_PACKAGE}AWSDmsAvroPayload": lambda _: AwsDms(),
    f"{_PACKAGE}debezium.MySqlDebeziumAvroPayload": lambda _: DebeziumMySql(),
    f"{_PACKAGE}debezium.PostgresDebeziumAvroPayload": lambda _: DebeziumPostgres(),
}

#: Penstock's own payloads. Only Penstock can read the log files that they write.
PENSTOCK_PAYLOADS: dict[str, MakeMerger] = {
    "penstock.aggregate": _make_aggregate,
    "penstock.masked": _make_masked,
    "penstock.first_row": lambda settings: FirstRow(settings.ordering),
    "penstock.keep_history": _make_keep_history,
    "penstock.ogg": _make_goldengate,
}

#: Payloads whose event times go into write stats.
PAYLOADS_WITH_EVENT_TIME = (f"{_PACKAGE}DefaultHoodieRecordPayload", f"{_PACKAGE}FirstValueAvroPayload")


def make_merger(payload_class: str, ordering: str | None = None, settings: PayloadSettings | None = None) -> Merger:
    """Return the merger of a payload.

    Args:
        payload_class: the name of a payload, as `hoodie.datasource.write.payload.class` has it.
        settings: what else the payload depends on; by default the ordering column alone.

    Raises:
        OptionError: the name is unknown, or an option of the payload is wrong.
    """
    settings = settings or PayloadSettings(ordering)
    make = _find_payload(payload_class)
    if make is None:
        function = find_registered(payload_class)
        if function is None:
            raise unknown_payload(payload_class)
        return make_user_merger(function, fixed=settings.fixed, timeout_s=settings.timeout_s, operation=settings.operation)
    return _with_operation(make(settings), settings)


def make_merger_of_mode(mode: str, settings: PayloadSettings, payload_class: str | None = None) -> Merger:
    """Return the merger of a merge mode (`hoodie.record.merge.mode` of newer Hudi releases).

    Args:
        payload_class: the payload of the mode CUSTOM.

    Raises:
        OptionError: the mode is unknown, or CUSTOM without a payload.
    """
    if mode == "COMMIT_TIME_ORDERING":
        return _with_operation(CommitTimeOrdering(), settings)
    if mode == "EVENT_TIME_ORDERING":
        return _with_operation(_make_default(settings), settings)
    if mode != "CUSTOM":
        modes = "COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING and CUSTOM"
        raise OptionError(f"hoodie.record.merge.mode={mode!r} is not known; known modes: {modes}")
    if payload_class is None:
        raise OptionError(f"hoodie.record.merge.mode=CUSTOM does not say how rows are merged: set {_OPTION} too")
    return make_merger(payload_class, settings=settings)


def _with_operation(merger: Merger, settings: PayloadSettings) -> Merger:
    return WithOperation(merger) if settings.operation else merger


def is_known_payload(payload_class: str) -> bool:
    """Whether a name is that of a payload: Hudi's, Penstock's own, or a registered function."""
    return _find_payload(payload_class) is not None or is_registered(payload_class)


def _find_payload(payload_class: str) -> MakeMerger | None:
    # The Debezium payloads are accepted in the package of the others too.
    for name in (payload_class, payload_class.replace(_PACKAGE, f"{_PACKAGE}debezium.")):
        make = HUDI_PAYLOADS.get(name) or PENSTOCK_PAYLOADS.get(name)
        if make is not None:
            return make
    return None


def unknown_payload(payload_class: str, where: str = "") -> OptionError:
    """Return the error about a name that is not that of a payload.

    Args:
        where: what names the payload, if it is not the option of a write.
    """
    hudi_names = sorted(name.rpartition(".")[2] for name in HUDI_PAYLOADS)
    known = ", ".join([*hudi_names, *sorted(PENSTOCK_PAYLOADS)])
    name = payload_class.removeprefix(_PACKAGE)
    return OptionError(f"{where or _OPTION}={name!r} is not known here: {explain_registration(name)}. Known payloads: {known}")


def read_payload_options(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Penstock's own payloads, without their prefix."""
    return {key[len(PAYLOAD_OPTION_PREFIX) :]: text for key, text in raw.items() if key.startswith(PAYLOAD_OPTION_PREFIX)}


def make_delete_marker(column: str | None, value: str | None) -> DeleteMarker | None:
    """Return what `hoodie.payload.delete.field` and `hoodie.payload.delete.marker` say together.

    Raises:
        OptionError: the column is named, but not the value that means delete.
    """
    if column is None:
        return None
    if value is None:
        raise OptionError("hoodie.payload.delete.marker should be configured with hoodie.payload.delete.field: set both")
    return DeleteMarker(column, value)
