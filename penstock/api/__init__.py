"""The typed Python API: a table with verbs, for people who would rather not write option strings. A door, beside `spark/`.

`table.py` has the verbs, `compaction.py` and `cleaning.py` those of table services; each goes through the same pipeline as
`df.write.format("hudi")`. `reports.py` has what they give back: frozen values that print as tables.
"""

from penstock.api.reports import (
    Cleaned,
    Commit,
    DataFile,
    Files,
    History,
    HistoryEntry,
    PendingClustering,
    PendingClusterings,
    PendingCompaction,
    PendingCompactions,
)
from penstock.api.table import SortMode, Table

__all__ = [
    "Cleaned",
    "Commit",
    "DataFile",
    "Files",
    "History",
    "HistoryEntry",
    "PendingClustering",
    "PendingClusterings",
    "PendingCompaction",
    "PendingCompactions",
    "SortMode",
    "Table",
]
