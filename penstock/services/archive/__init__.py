"""Archiving: old instants leave the timeline, so that loading it costs the same however long the table lives.

`choose.py` says which instants may go, `entries.py` makes archived entries of them, `run.py` writes these and removes the
instants, `merge.py` joins small archive files.
"""
