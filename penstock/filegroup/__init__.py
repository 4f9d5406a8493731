"""File groups: the names of their files, their file slices, markers, and how base files and log files are read and written."""
