"""Names of sync tools and of partition extractors: values of options, by the names of Hudi's classes.

The clients of catalogs are registered in `sync/known_catalogs.py`.
"""

from __future__ import annotations

from typing import Final

HIVE_SYNC_TOOL: Final = "org.apache.hudi.hive.HiveSyncTool"
GLUE_SYNC_TOOL: Final = "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool"

_EXTRACTORS: Final = "org.apache.hudi.hive."
MULTI_PART_EXTRACTOR: Final = f"{_EXTRACTORS}MultiPartKeysValueExtractor"
SINGLE_PART_EXTRACTOR: Final = f"{_EXTRACTORS}SinglePartPartitionValueExtractor"
HIVE_STYLE_EXTRACTOR: Final = f"{_EXTRACTORS}HiveStylePartitionValueExtractor"
NON_PARTITIONED_EXTRACTOR: Final = f"{_EXTRACTORS}NonPartitionedExtractor"
SLASH_DAY_EXTRACTOR: Final = f"{_EXTRACTORS}SlashEncodedDayPartitionValueExtractor"
SLASH_HOUR_EXTRACTOR: Final = f"{_EXTRACTORS}SlashEncodedHourPartitionValueExtractor"
EXTRACTOR_NAMES: Final = (
    MULTI_PART_EXTRACTOR,
    SINGLE_PART_EXTRACTOR,
    HIVE_STYLE_EXTRACTOR,
    NON_PARTITIONED_EXTRACTOR,
    SLASH_DAY_EXTRACTOR,
    SLASH_HOUR_EXTRACTOR,
)
