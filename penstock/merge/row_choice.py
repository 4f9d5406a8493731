"""`Choice` and `Fate`: what happens to a stored row when an incoming row has the same key.

A merger returns a choice for each (stored, incoming) pair of rows. Before that, the stage of a write that finds the stored row of
each incoming key decides a fate for the pair: whether the merger is called for it at all. Both are passed as int8 arrays with one
element per pair, so their members are numpy int8 scalars: comparing an array with a member stays an int8 operation. (An IntEnum
member would widen every array to int64.)
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt


class Choice(np.int8, Enum):
    """A merger's decision about a pair of a stored and an incoming row with the same key.

    The stored row stays (KEEP_OLD), the incoming row replaces it (TAKE_NEW), the key is deleted (DELETE), or the merger builds a
    row out of both (BUILD). Only writes use TOUCH, never a merger: the stored row stays, but counts as written by this commit.
    """

    #: The stored row stays unchanged.
    KEEP_OLD = 0
    #: The incoming row replaces the stored one.
    TAKE_NEW = 1
    #: The key is deleted.
    DELETE = 2
    #: The stored row stays, but counts as written by this commit. Only writers use this choice (`Fate.TOUCH`), never a merger.
    TOUCH = 3
    #: The merger builds a row out of both.
    BUILD = 4


class Fate(np.int8, Enum):
    """What a write decides about a stored row when an incoming row has the same key, before the merger is called.

    MERGE: the merger decides. MOVE: the stored row is removed from its file, because the incoming row goes to another partition.
    TOUCH: the stored row stays and counts as written by this commit, because an incoming row that would have moved it came too
    late. DEAD: a log file of the slice has already deleted the stored row.
    """

    #: The merger decides.
    MERGE = 0
    #: The stored row is removed from its file, because the incoming row goes to another partition.
    MOVE = 1
    #: The stored row stays and counts as written by this commit: an incoming row that would have moved it came too late.
    TOUCH = 2
    #: The stored row was already deleted by a log file of its slice.
    DEAD = 3


#: One `Choice` per pair of rows.
Choices = npt.NDArray[np.int8]
#: One `Fate` per pair of rows.
Fates = npt.NDArray[np.int8]


def is_changed(choices: Choices) -> npt.NDArray[np.bool_]:
    """Return a mask over the (stored, incoming) pairs of rows, true where another row replaces the stored row.

    These are the pairs with the choice TAKE_NEW or BUILD.
    """
    return np.asarray((choices == Choice.TAKE_NEW) | (choices == Choice.BUILD), dtype=np.bool_)
