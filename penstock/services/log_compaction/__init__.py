"""Log compaction: merge the blocks of a slice's log files into one new log file. Base files are not rewritten."""
