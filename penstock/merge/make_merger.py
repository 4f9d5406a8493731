"""Factory of mergers: from the name of a Hudi payload class, a merge mode, a payload of Penstock's own or a registered function.

`penstock/options/payload_names.py` has the table of names. A name that is not in it may be a function that the user registered
(`penstock/registered/functions.py`). No module is ever imported because an option or a table names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.errors import OptionError
from penstock.load_part import load_part
from penstock.merge.deletes import DeleteMarker
from penstock.merge.merger import Merger
from penstock.merge.operation_column import WithOperation
from penstock.merge.overwrite import CommitTimeOrdering, EventTimeOrdering
from penstock.merge.payload_settings import PAYLOAD_OPTION, PayloadSettings
from penstock.merge.user.merger import make_user_merger
from penstock.options.payload_names import HUDI_PAYLOADS, PENSTOCK_PAYLOADS
from penstock.registered.functions import MERGE_FUNCTIONS, explain_registration

_PACKAGE = "org.apache.hudi.common.model."
#: The prefix of options of Penstock's own payloads.
PAYLOAD_OPTION_PREFIX = "penstock.payload."


MakeMerger = Callable[[PayloadSettings], Merger]

#: Payloads whose event times go into write stats.
PAYLOADS_WITH_EVENT_TIME = (f"{_PACKAGE}DefaultHoodieRecordPayload", f"{_PACKAGE}FirstValueAvroPayload")


def make_merger(payload_class: str, ordering: str | None = None, settings: PayloadSettings | None = None) -> Merger:
    """Return the merger for the name of a payload.

    Args:
        payload_class: a value of `hoodie.datasource.write.payload.class`, or the name of a registered function.
        ordering: the table's ordering column; ignored if `settings` is given.
        settings: all settings of the payload; None: only the ordering column is set.

    Raises:
        OptionError: the name is unknown, or an option of the payload is wrong.
    """
    settings = settings or PayloadSettings(ordering)
    make = _find_payload(payload_class)
    if make is None:
        function = MERGE_FUNCTIONS.find(payload_class)
        if function is None:
            raise unknown_payload(payload_class)
        return make_user_merger(function, fixed=settings.fixed, timeout_s=settings.timeout_s, operation=settings.operation)
    return _with_operation(make(settings), settings)


def make_merger_of_mode(mode: str, settings: PayloadSettings, payload_class: str | None = None) -> Merger:
    """Return the merger for a merge mode (`hoodie.record.merge.mode` of newer Hudi releases).

    Args:
        payload_class: the payload that the mode CUSTOM uses; ignored in other modes.

    Raises:
        OptionError: the mode is unknown, or is CUSTOM without a payload.
    """
    if mode == "COMMIT_TIME_ORDERING":
        return _with_operation(CommitTimeOrdering(), settings)
    if mode == "EVENT_TIME_ORDERING":
        return _with_operation(EventTimeOrdering.from_settings(settings), settings)
    if mode != "CUSTOM":
        modes = "COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING and CUSTOM"
        raise OptionError(f"hoodie.record.merge.mode={mode!r} is not known; known modes: {modes}")
    if payload_class is None:
        raise OptionError(f"hoodie.record.merge.mode=CUSTOM does not say how rows are merged: set {PAYLOAD_OPTION} too")
    return make_merger(payload_class, settings=settings)


def _with_operation(merger: Merger, settings: PayloadSettings) -> Merger:
    """Wrap a merger if the table has the column `_hoodie_operation`: rows with the operation `D` then are deletes.

    Otherwise return `merger` itself.
    """
    return WithOperation(merger) if settings.operation else merger


def is_known_payload(payload_class: str) -> bool:
    """Whether the name is that of a Hudi payload, of a Penstock payload or of a registered function."""
    return _find_payload(payload_class) is not None or MERGE_FUNCTIONS.has(payload_class)


def _find_payload(payload_class: str) -> MakeMerger | None:
    """Return the function that makes the merger of a Hudi or Penstock payload; None if the name is not one of these."""
    # The Debezium payloads are accepted in the package of the others too.
    for name in (payload_class, payload_class.replace(_PACKAGE, f"{_PACKAGE}debezium.")):
        entry = HUDI_PAYLOADS.get(name) or PENSTOCK_PAYLOADS.get(name)
        if entry is not None:
            make: MakeMerger = load_part(entry)
            return make
    return None


def unknown_payload(payload_class: str, where: str = "") -> OptionError:
    """Return an OptionError that says that the payload is not known and lists the known payloads.

    Args:
        where: the setting that names the payload; by default the option hoodie.datasource.write.payload.class.
    """
    hudi_names = sorted(name.rpartition(".")[2] for name in HUDI_PAYLOADS)
    known = ", ".join([*hudi_names, *sorted(PENSTOCK_PAYLOADS)])
    name = payload_class.removeprefix(_PACKAGE)
    return OptionError(
        f"{where or PAYLOAD_OPTION}={name!r} is not known here: {explain_registration(name)}. Known payloads: {known}"
    )


def read_payload_options(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the options that start with `penstock.payload.`, without that prefix.

    Args:
        raw: all options, key → text.
    """
    return {key[len(PAYLOAD_OPTION_PREFIX) :]: text for key, text in raw.items() if key.startswith(PAYLOAD_OPTION_PREFIX)}


def make_delete_marker(column: str | None, value: str | None) -> DeleteMarker | None:
    """Return the delete marker: a row with the text `value` in `column` is a delete. Return None if `column` is None.

    Args:
        column: the option hoodie.payload.delete.field.
        value: the option hoodie.payload.delete.marker.

    Raises:
        OptionError: the column is named, but not the value.
    """
    if column is None:
        return None
    if value is None:
        raise OptionError("hoodie.payload.delete.marker should be configured with hoodie.payload.delete.field: set both")
    return DeleteMarker(column, value)
