"""`PayloadSettings`: the options and table properties that a payload depends on. `Merger.from_settings` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.merge.deletes import DeleteMarker

#: The option that names the payload, for messages.
PAYLOAD_OPTION = "hoodie.datasource.write.payload.class"


@dataclass(frozen=True)
class PayloadSettings:
    """The options and table properties from which `Merger.from_settings` makes a merger.

    `own` holds the options of Penstock's own payloads, without the prefix `penstock.payload.`. `fixed` names the columns of the
    record key and the partition path, which a user's function must not change. `timeout_s` limits one call of that function; 0:
    no limit.
    """

    #: The ordering column; None if the table has none.
    ordering: str | None = None
    #: `hoodie.payload.delete.field` and `hoodie.payload.delete.marker`.
    marker: DeleteMarker | None = None
    #: (column, default) pairs from the table's Avro schema, of columns whose default is not null.
    defaults: tuple[tuple[str, Any], ...] = ()
    #: Whether `_hoodie_operation` counts (`hoodie.allow.operation.metadata.field`).
    operation: bool = False
    #: Options of Penstock's own payloads, without the prefix `penstock.payload.`.
    own: Mapping[str, str] = field(default_factory=dict)
    #: Columns of the record key and the partition path. A user's function must not change them.
    fixed: tuple[str, ...] = ()
    #: Seconds that one call of a user's function may take; 0: no limit.
    timeout_s: float = 0.0
