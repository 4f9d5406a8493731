"""Options of OpenLineage: events about writes for a lineage server."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, http_address, positive, word

_LINEAGE: Final = "penstock.openlineage."

LINEAGE_URL: Final[Option[str | None]] = Option(
    f"{_LINEAGE}url",
    http_address,
    None,
    "Address to which OpenLineage events are posted when a write begins, completes or fails, such as "
    "`http://marquez:5000/api/v1/lineage`.",
    secret=True,
)
LINEAGE_API_KEY: Final = Option(
    f"{_LINEAGE}api.key", word, "", "Key that is sent with the events, as a bearer token.", secret=True
)
LINEAGE_NAMESPACE: Final = Option(f"{_LINEAGE}namespace", word, "default", "Namespace of the job in OpenLineage.")
LINEAGE_JOB: Final = Option(
    f"{_LINEAGE}job", word, "", "Name of the job in OpenLineage. If empty, `<folder of the table>.<operation>`."
)
LINEAGE_TIMEOUT_SECONDS: Final = Option(
    f"{_LINEAGE}timeout.seconds", positive, 10, "Seconds to wait until an event is delivered, with all attempts."
)
