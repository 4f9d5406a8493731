"""Names of the metrics in plans of compactions and clusterings: how much work an operation is, in Hudi's spelling."""

from __future__ import annotations

LOG_FILES = "TOTAL_LOG_FILES"
LOG_BYTES = "TOTAL_LOG_FILES_SIZE"
READ_MB = "TOTAL_IO_READ_MB"
WRITE_MB = "TOTAL_IO_WRITE_MB"
IO_MB = "TOTAL_IO_MB"

#: Hudi counts whole megabytes.
MB = 1024 * 1024
