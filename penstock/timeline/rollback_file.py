"""The plan of a rollback, `<r>.rollback.requested`, as far as other modules read it: which instant it undoes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import CorruptFile
from penstock.timeline.instant import Action, Instant, State


def target_of(plan: Mapping[str, Any]) -> Instant:
    """Return the instant that a rollback plan undoes. Raise CorruptFile if the plan names none.

    The plan does not say which state the instant was in. The returned instant always has the state completed.
    """
    try:
        target = plan["instantToRollback"]
        return Instant(target["commitTime"], Action(target["action"]), State.COMPLETED)
    except (KeyError, TypeError, ValueError) as e:
        raise CorruptFile(f"a rollback plan does not say what it rolls back: {plan.get('instantToRollback')}") from e
