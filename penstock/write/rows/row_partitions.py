"""Maps the number of a staged row to its partition path, without reading the row. The tasks that locate and move rows use it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.merge.kernels.gather import Positions
from penstock.write.rows.staging import Piece


class RowPartitions:
    """The partition path of each row of some pieces. A piece is consecutive rows of a staged file, all of one partition path.

    Rows are numbered in the order of the pieces: row 0 is the first row of the first piece. Paths are numbered alphabetically, so
    that arrays can hold numbers instead of strings.

    Attributes:
        paths: the different partition paths, sorted. The number of a path is its position here.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.paths = sorted({piece.path for piece in pieces})
        self._numbers = {path: number for number, path in enumerate(self.paths)}
        self._piece_ends = np.cumsum([piece.rows for piece in pieces])
        self._path_of_piece = np.array([self._numbers[piece.path] for piece in pieces], np.int64)

    def path_number(self, path: str) -> int:
        """Return the number of a partition path, which is its position in `paths`; -1 if no row has this path."""
        return self._numbers.get(path, -1)

    def path_numbers_of(self, rows: Positions) -> Positions:
        """Return for each of these rows the number of its partition path, which is the path's position in `paths`.

        Args:
            rows: row numbers.
        """
        pieces = np.searchsorted(self._piece_ends, rows, side="right")
        return self._path_of_piece[pieces]
