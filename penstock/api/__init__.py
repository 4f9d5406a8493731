"""The typed Python API: `penstock.Table`, without option strings.

`table.py` creates and opens a table. `write.py`, `read.py` and `inspect.py` hold the methods for daily use; `compaction.py`,
`clustering.py`, `cleaning.py`, `restoring.py`, `repairing.py` and `maintenance.py` hold the methods of table services. Each
module also holds the reports (result objects that print as tables) that its methods return; `report.py` holds their base class.
Every method uses the same pipeline as `df.write.format("hudi")`.
"""

from penstock.api.cleaning import Cleaned
from penstock.api.clustering import PendingClustering, PendingClusterings
from penstock.api.compaction import PendingCompaction, PendingCompactions
from penstock.api.index_report import IndexReport, IndexUse
from penstock.api.inspect import DataFile, Files, History, HistoryEntry
from penstock.api.maintenance import FileProblems, Health, ServiceRun, ServiceRuns
from penstock.api.repairing import Repaired
from penstock.api.report import Commit, Commits, FollowUp, FollowUps
from penstock.api.restoring import Restored, SavepointEntry, Savepoints
from penstock.api.table import Table
from penstock.api.write import MergePlan, SortMode

__all__ = [
    "Cleaned",
    "Commit",
    "Commits",
    "DataFile",
    "FileProblems",
    "Files",
    "FollowUp",
    "FollowUps",
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
    "Repaired",
    "Restored",
    "SavepointEntry",
    "Savepoints",
    "ServiceRun",
    "ServiceRuns",
    "SortMode",
    "Table",
]
