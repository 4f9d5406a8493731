"""Stage 8: what follows a commit. The commit stands whatever happens here, so a failure is a warning."""

from __future__ import annotations

import warnings
from dataclasses import replace

from penstock.commit.heartbeat import is_lazy
from penstock.errors import PenstockError
from penstock.services.rollback import roll_back_expired
from penstock.table import TableState
from penstock.timeline.store import load_timeline


def follow_up(table: TableState) -> None:
    """Under the lazy policy for failed writes, undo those whose writer has been silent for too long."""
    if not is_lazy(table):
        return
    try:
        roll_back_expired(replace(table, timeline=load_timeline(table.storage, table.base_path)))
    except PenstockError as e:
        warnings.warn(f"the write is done, but rolling back failed ones was not possible: {e}", RuntimeWarning, stacklevel=2)
