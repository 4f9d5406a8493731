"""Oracle GoldenGate's changes, as rows that `Masked` merges.

A change has `op_type` I, U or D and `pos`, by which changes are ordered; an update supplies the columns that it names. What
makes such rows of GoldenGate's JSON is `spark/ogg.py`.
"""

from __future__ import annotations

from penstock.merge.column_mask import MASK, Masked

OPERATION, POSITION = "op_type", "pos"
#: Digits of a position; shorter ones are filled up, so that positions compare as texts.
POSITION_DIGITS = 20
OPERATIONS = ("I", "U", "D")


def ogg_merger() -> Masked:
    """How rows of `ogg_rows` are merged: by position, absent columns keep their values."""
    return Masked(POSITION, MASK, OPERATION, OPERATIONS)
