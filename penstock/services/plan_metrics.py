"""Names of the metrics in compaction and clustering plans, in Hudi's spelling.

The metrics say how much each entry of a plan (an operation of a compaction, a group of a clustering) reads and writes.
"""

from __future__ import annotations

LOG_FILES = "TOTAL_LOG_FILES"
LOG_BYTES = "TOTAL_LOG_FILES_SIZE"
READ_MB = "TOTAL_IO_READ_MB"
WRITE_MB = "TOTAL_IO_WRITE_MB"
IO_MB = "TOTAL_IO_MB"

#: Bytes of a megabyte. Hudi rounds the metrics in megabytes down.
MB = 1024 * 1024
