"""Names of the features of Hudi that Penstock lacks. An `Option` refers to them by these names, and the README lists them."""

from __future__ import annotations

from typing import Final

CHANGE_DATA: Final = "change data capture: rows before and after each change"
ENGINE_PROPERTIES: Final = "properties that the engine sets itself"
JAVA_CLASSES: Final = "Java classes of your own"
NO_METADATA_FILE: Final = "partitions without a metadata file"
OTHER_VERSIONS: Final = "other table versions than 6"
SCHEMA_EVOLUTION: Final = "full schema evolution: columns renamed, dropped or retyped in place"
STREAM_SOURCE: Final = "tables as the source of a stream"
