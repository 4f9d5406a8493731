"""How a change of a table is published atomically: `change.py` for commits, `overwrite.py` for save mode `overwrite`."""
