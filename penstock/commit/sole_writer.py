"""Keeps other writers out of a table while save mode `overwrite` replaces it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.commit.claims import has_claims, run_transaction
from penstock.commit.heartbeat import Heartbeat, describe_writer, is_alive
from penstock.errors import StorageError, WriteConflict
from penstock.options import OPERATION
from penstock.options.operation import Operation
from penstock.table.state import TableState, has_properties
from penstock.timeline.instant import Action
from penstock.timeline.store import instant_path, load_timeline, request_instant


def refuse_other_writers(table: TableState, own: str = "") -> None:
    """Raise WriteConflict if a writer or a table service of the table at `table.base_path` is alive, by its heartbeat.

    Args:
        own: an instant time to leave out.
    """
    for instant in load_timeline(table.storage, table.base_path).pending:
        if instant.time != own and is_alive(table, instant.time):
            raise WriteConflict(
                f"{table.base_path} has another writer: {describe_writer(table, instant)}. mode('overwrite') replaces the whole "
                f"table, so it cannot run next to others: run it when they are finished, or use {OPERATION.key}="
                f"{Operation.INSERT_OVERWRITE_TABLE.stored.lower()} with mode('append')"
            )


@contextmanager
def without_other_writers(table: TableState) -> Iterator[Heartbeat | None]:
    """Keep other writers out of the table while the `with` block replaces it. Raise WriteConflict if one is alive.

    For this the function creates a requested instant with the heartbeat of a single writer. Other writers look for one before
    and after they have created their own instant. The instant disappears with the old table, or is deleted if the block raises
    an error.

    Yields:
        The heartbeat of the instant, whose file was written once; None for a damaged table, which no writer can open.
    """
    if not has_properties(table.storage, table.base_path):
        yield None
        return
    heartbeat = Heartbeat(table, expects_others=False)
    path = ""
    try:
        own = request_instant(
            table.storage, table.base_path, Action.REPLACE_COMMIT, utc=table.config.timeline_utc, announce=heartbeat.announce
        )
        path = instant_path(table.base_path, own)
        if has_claims(table):
            run_transaction(table, lambda timeline: None)  # what was claimed before is completed now
        refuse_other_writers(table, own.time)
        yield heartbeat
    except (StorageError, WriteConflict):
        with suppress(StorageError):
            if path:
                table.storage.delete(path)
            heartbeat.end()
        raise
    finally:
        heartbeat.stop()
