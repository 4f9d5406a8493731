"""Compaction: log files of a merge-on-read table become base files, by a plan that is made first and run then or later."""
