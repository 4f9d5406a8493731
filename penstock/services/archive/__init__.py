"""Archiving: move old instants from the timeline to the archive.

`eligible.py` says which instants may leave the timeline; `entries.py` turns their files into entries of the archive, `run.py`
writes the entries and removes the files, and `merge_files.py` joins small archive files.
"""
