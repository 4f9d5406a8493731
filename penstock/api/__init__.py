"""The typed Python API: a table with verbs, for people who would rather not write option strings. A door, beside `spark/`.

`table.py` has the verbs; `compaction.py`, `cleaning.py`, `restoring.py` and `care.py` have those of table services. Each goes
through the same pipeline as `df.write.format("hudi")`. `reports.py` has what they give back: frozen values that print as tables.
"""

from penstock.api.care import FileProblems, Health, ServiceRun, ServiceRuns
from penstock.api.reports import (
    Cleaned,
    Commit,
    DataFile,
    Files,
    History,
    HistoryEntry,
    IndexReport,
    IndexUse,
    MergePlan,
    PendingClustering,
    PendingClusterings,
    PendingCompaction,
    PendingCompactions,
)
from penstock.api.restoring import Restored, SavepointEntry, Savepoints
from penstock.api.table import SortMode, Table

__all__ = [
    "Cleaned",
    "Commit",
    "DataFile",
    "FileProblems",
    "Files",
    "Health",
    "History",
    "HistoryEntry",
    "IndexReport",
    "IndexUse",
    "MergePlan",
    "PendingClustering",
    "PendingClusterings",
    "PendingCompaction",
    "PendingCompactions",
    "Restored",
    "SavepointEntry",
    "Savepoints",
    "ServiceRun",
    "ServiceRuns",
    "SortMode",
    "Table",
]
