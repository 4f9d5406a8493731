"""Hudi's payload classes by their Java names, merge modes by theirs, Penstock's own and the user's own, as mergers.

A new one is a line here and a class in the module of its family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import OptionError
from penstock.merge.aggregate import Aggregate, FirstRow, KeepHistory
from penstock.merge.change_streams import AwsDms, DebeziumMySql, DebeziumPostgres, WithOperation
from penstock.merge.column_mask import MASK, Masked
from penstock.merge.deletes import DeleteMarker
from penstock.merge.goldengate import POSITION, ogg_merger
from penstock.merge.merger import Merger
from penstock.merge.overwrite import (
    AlwaysDelete,
    CommitTimeOrdering,
    EventTimeAvro,
    EventTimeOrdering,
    FirstValue,
    OverwriteWithLatest,
)
from penstock.merge.partial import NonDefaults, PartialUpdate
from penstock.merge.user.merger import own_merger
from penstock.registry import is_registered, registered, to_register

_PACKAGE = "org.apache.hudi.common.model."
_OPTION = "hoodie.datasource.write.payload.class"


@dataclass(frozen=True)
class PayloadSettings:
    """What a payload is told beside its rows."""

    #: The ordering column; None where the table has none.
    ordering: str | None = None
    #: `hoodie.payload.delete.field` and `.marker`.
    marker: DeleteMarker | None = None
    #: Defaults of columns where they are not null, as the table's Avro schema has them.
    defaults: tuple[tuple[str, Any], ...] = ()
    #: Whether `_hoodie_operation` counts (`hoodie.allow.operation.metadata.field`).
    operation: bool = False
    #: Options of Penstock's own mergers, by what follows `penstock.payload.`.
    own: Mapping[str, str] = field(default_factory=dict)
    #: Columns of the record key and the partition path, which functions of the user's own must leave alone.
    fixed: tuple[str, ...] = ()
    #: Seconds that a call of such a function may take; 0: no limit.
    timeout_s: float = 0.0


def _default(settings: PayloadSettings) -> Merger:
    if settings.ordering is None:
        return OverwriteWithLatest(settings.marker)
    return EventTimeOrdering(settings.ordering, settings.marker)


def _event_time(settings: PayloadSettings) -> Merger:
    return EventTimeAvro(settings.ordering) if settings.ordering else OverwriteWithLatest()


def _first_value(settings: PayloadSettings) -> Merger:
    if settings.ordering is None:
        return OverwriteWithLatest(settings.marker)
    return FirstValue(settings.ordering, settings.marker)


def _aggregate(settings: PayloadSettings) -> Merger:
    pairs = [part.strip().rpartition(":") for part in settings.own.get("aggregate", "").split(",") if part.strip()]
    if not pairs or any(not column for column, _, _ in pairs):
        raise OptionError(
            f"{_OPTION}=penstock.aggregate needs penstock.payload.aggregate=<column>:<aggregate>,..., such as fare:sum,seen:max; "
            f"it is {settings.own.get('aggregate')!r}"
        )
    return Aggregate(tuple((column.strip(), how.strip()) for column, _, how in pairs), settings.ordering)


def _keep_history(settings: PayloadSettings) -> Merger:
    column, limit = settings.own.get("history.column", "history"), settings.own.get("history.limit")
    if limit is not None and (not limit.isdigit() or int(limit) < 1):
        raise OptionError(f"penstock.payload.history.limit={limit!r} has to be a number from 1 on; leave it out to keep all")
    return KeepHistory(column, settings.ordering, int(limit) if limit else None)


def _ogg(settings: PayloadSettings) -> Merger:
    if settings.ordering != POSITION:
        raise OptionError(
            f"{_OPTION}=penstock.ogg goes by the column {POSITION!r}: set hoodie.datasource.write.precombine.field={POSITION}; "
            f"it is {settings.ordering!r}"
        )
    return ogg_merger()


#: Java class → merger, given its settings.
PAYLOADS: dict[str, Callable[[PayloadSettings], Merger]] = {
    f"{_PACKAGE}OverwriteWithLatestAvroPayload": lambda settings: OverwriteWithLatest(),
    f"{_PACKAGE}DefaultHoodieRecordPayload": _default,
    f"{_PACKAGE}EventTimeAvroPayload": lambda s: EventTimeAvro(s.ordering) if s.ordering else OverwriteWithLatest(),
    f"{_PACKAGE}FirstValueAvroPayload": lambda s: (
        FirstValue(s.ordering, s.marker) if s.ordering else OverwriteWithLatest(s.marker)
    ),
    f"{_PACKAGE}HoodieAvroPayload": lambda settings: CommitTimeOrdering(),
    f"{_PACKAGE}OverwriteNonDefaultsWithLatestAvroPayload": lambda settings: NonDefaults(settings.defaults),
    f"{_PACKAGE}PartialUpdateAvroPayload": lambda settings: PartialUpdate(settings.ordering),
    f"{_PACKAGE}EmptyHoodieRecordPayload": lambda settings: AlwaysDelete(),
    f"{_PACKAGE}AWSDmsAvroPayload": lambda settings: AwsDms(),
    f"{_PACKAGE}debezium.MySqlDebeziumAvroPayload": lambda settings: DebeziumMySql(),
    f"{_PACKAGE}debezium.PostgresDebeziumAvroPayload": lambda settings: DebeziumPostgres(),
}

#: Payloads whose rows' event times go into write stats.
PAYLOADS_WITH_EVENT_TIME = (f"{_PACKAGE}DefaultHoodieRecordPayload", f"{_PACKAGE}FirstValueAvroPayload")

#: Penstock's own.
READY: dict[str, Callable[[PayloadSettings], Merger]] = {
    "penstock.aggregate": _aggregate,
    "penstock.masked": lambda settings: Masked(settings.ordering, settings.own.get("mask.column", MASK)),
    "penstock.first_row": lambda settings: FirstRow(settings.ordering),
    "penstock.keep_history": _keep_history,
    "penstock.ogg": _ogg,
}


#: How the options of Penstock's own mergers begin.
OWN_PREFIX = "penstock.payload."


def own_settings(raw: Mapping[str, str]) -> dict[str, str]:
    """The options of Penstock's own mergers among others, by what follows their prefix."""
    return {key[len(OWN_PREFIX) :]: text for key, text in raw.items() if key.startswith(OWN_PREFIX)}


def merger_of(payload_class: str, ordering: str | None = None, settings: PayloadSettings | None = None) -> Merger:
    """The merger that a payload class stands for. Nothing is imported because an option or a table names it.

    Args:
        settings: all that the payload is told; where it is left out, the ordering column alone.
    """
    settings = settings or PayloadSettings(ordering)
    make = _made_by(payload_class)
    if make is None:
        function = registered(payload_class)
        if function is None:
            raise unknown_payload(payload_class)
        return own_merger(function, fixed=settings.fixed, timeout_s=settings.timeout_s, operation=settings.operation)
    return WithOperation(make(settings)) if settings.operation else make(settings)


def unknown_payload(payload_class: str, where: str = "") -> OptionError:
    """The error to raise about a name that stands for no payload.

    Args:
        where: who names it, if that is not the option of a write.
    """
    names = ", ".join([*sorted(name.rpartition(".")[2] for name in PAYLOADS), *sorted(READY)])
    name = payload_class.removeprefix(_PACKAGE)
    return OptionError(f"{where or _OPTION}={name!r} is not known here: {to_register(name)}. Known payloads: {names}")


def is_known(payload_class: str) -> bool:
    """Whether a name stands for a payload: Hudi's, Penstock's, or a function that is registered."""
    return _made_by(payload_class) is not None or is_registered(payload_class)


def _made_by(payload_class: str) -> Callable[[PayloadSettings], Merger] | None:
    known = PAYLOADS | READY
    return known.get(payload_class) or known.get(payload_class.replace(_PACKAGE, f"{_PACKAGE}debezium."))


def merger_of_mode(mode: str, settings: PayloadSettings, payload_class: str | None = None) -> Merger:
    """The merger that a merge mode of newer Hudi releases stands for.

    Args:
        payload_class: what CUSTOM means.
    """
    if mode == "COMMIT_TIME_ORDERING":
        merger: Merger = CommitTimeOrdering()
    elif mode == "EVENT_TIME_ORDERING":
        merger = _default(settings)
    elif mode == "CUSTOM":
        if payload_class is None:
            raise OptionError(f"hoodie.record.merge.mode=CUSTOM does not say how rows are merged: set {_OPTION} too")
        return merger_of(payload_class, settings=settings)
    else:
        modes = "COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING and CUSTOM"
        raise OptionError(f"hoodie.record.merge.mode={mode!r} is not known; known modes: {modes}")
    return WithOperation(merger) if settings.operation else merger


def delete_marker(column: str | None, value: str | None) -> DeleteMarker | None:
    """What `hoodie.payload.delete.field` and `hoodie.payload.delete.marker` say together.

    Raises:
        OptionError: the column is named, but not the value that means delete.
    """
    if column is None:
        return None
    if value is None:
        raise OptionError("hoodie.payload.delete.marker should be configured with hoodie.payload.delete.field: set both")
    return DeleteMarker(column, value)
