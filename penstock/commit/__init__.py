"""How a change becomes visible, all or nothing: `change.py` for commits, `overwrite.py` for save mode `overwrite`."""
