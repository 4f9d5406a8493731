"""Archiving: move old instants from the timeline to the archive.

`eligible.py` chooses the instants to archive; `entries.py` converts their files to archive entries; `run.py` writes the entries
to a new archive file and removes the files from the timeline; and `merge_files.py` joins small archive files.
"""
