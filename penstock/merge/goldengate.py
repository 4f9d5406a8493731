"""`penstock.ogg`: the payload for changes of Oracle GoldenGate, which `MaskedUpdate` merges.

A change has an `op_type` of I, U or D, and a `pos` by which changes are ordered. An update supplies only the columns in its mask.
`penstock/spark/goldengate.py` turns GoldenGate's JSON into these rows.
"""

from __future__ import annotations

from penstock.errors import OptionError
from penstock.merge.column_mask import MASK, MaskedUpdate
from penstock.merge.merger import Merger
from penstock.merge.payload_settings import PAYLOAD_OPTION, PayloadSettings

#: The column that says what was done to a row.
OPERATION = "op_type"
#: The column of the change's place in GoldenGate's trail, by which changes are ordered.
POSITION = "pos"
#: Digits of a position. Shorter positions are padded with zeros, so that positions compare as text.
POSITION_DIGITS = 20
OPERATIONS = ("I", "U", "D")


def make_goldengate_merger(settings: PayloadSettings) -> Merger:
    """Return the merger for change rows of Oracle GoldenGate: each change replaces only the columns that it contains.

    Changes are ordered by `pos`. A change with `op_type` D deletes the row.

    Raises:
        OptionError: the ordering column of the table is not `pos`.
    """
    if settings.ordering != POSITION:
        raise OptionError(
            f"{PAYLOAD_OPTION}=penstock.ogg goes by the column {POSITION!r}: set "
            f"hoodie.datasource.write.precombine.field={POSITION}; it is {settings.ordering!r}"
        )
    return MaskedUpdate(POSITION, MASK, OPERATION, OPERATIONS)
