"""The typed Python API: a table with verbs, for people who would rather not write option strings. A door, beside `spark/`.

`table.py` has the ways to a table; `writing.py`, `reading.py` and `looking.py` have the verbs of every day, `compaction.py`,
`clustering.py`, `cleaning.py`, `restoring.py` and `care.py` those of table services, each with the reports that its verbs give.
Each verb goes through the same pipeline as `df.write.format("hudi")`. `reports.py` has what reports have in common.
"""

from penstock.api.cleaning import Cleaned
from penstock.api.clustering import PendingClustering, PendingClusterings
from penstock.api.compaction import PendingCompaction, PendingCompactions
from penstock.api.index_report import IndexReport, IndexUse
from penstock.api.inspect import DataFile, Files, History, HistoryEntry
from penstock.api.maintenance import FileProblems, Health, ServiceRun, ServiceRuns
from penstock.api.report import Commit
from penstock.api.restoring import Restored, SavepointEntry, Savepoints
from penstock.api.table import Table
from penstock.api.write import MergePlan, SortMode

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
