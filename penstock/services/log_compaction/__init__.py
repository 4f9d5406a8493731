"""Log compaction: the many blocks of a slice's log files are joined in one new log file; base files stay as they are."""
