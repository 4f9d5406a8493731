"""Hudi's payload classes by their Java names, as mergers. A new one is a line here and a class in `mergers.py`."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import OptionError
from penstock.merge.mergers import AlwaysDelete, LatestCommit, LatestOrdering, Merger

_PACKAGE = "org.apache.hudi.common.model."

#: Java class → merger, given the ordering column (None where the table has none).
PAYLOADS: dict[str, Callable[[str | None], Merger]] = {
    f"{_PACKAGE}OverwriteWithLatestAvroPayload": lambda ordering: LatestCommit(),
    f"{_PACKAGE}DefaultHoodieRecordPayload": lambda ordering: LatestOrdering(ordering) if ordering else LatestCommit(),
    f"{_PACKAGE}EmptyHoodieRecordPayload": lambda ordering: AlwaysDelete(),
}


def merger_of(payload_class: str, ordering: str | None) -> Merger:
    """The merger that a payload class stands for. Nothing is imported because an option or a table names it."""
    try:
        return PAYLOADS[payload_class](ordering)
    except KeyError:
        known = ", ".join(sorted(name.rpartition(".")[2] for name in PAYLOADS))
        raise OptionError(
            f"hoodie.datasource.write.payload.class={payload_class!r} is not known here; known payloads: {known}"
        ) from None
