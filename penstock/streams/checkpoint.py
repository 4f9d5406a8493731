"""The file `penstock-sink.json` in a Spark checkpoint: names the table to which the stream of the checkpoint writes.

Spark numbers the batches of a checkpoint from 0. The numbers mean something only together with the table that holds the batches.
So a checkpoint that is used for another table, and a new checkpoint for a table that holds batches of an older one, are found
before the stream starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from penstock import clock
from penstock import options as o
from penstock.commit.open_finished import open_finished
from penstock.errors import CorruptFile, OptionError, TableNotFound
from penstock.options import Options
from penstock.options.storage import STORAGE_OPTIONS
from penstock.storage import Storage, join, open_storage
from penstock.streams.last_batch import find_last_batch
from penstock.user_warning import warn_user

_NAME = "penstock-sink.json"
#: Spark's folder with one file for each batch that it has planned.
_OFFSETS = "offsets"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a Spark checkpoint when a stream starts: its id, its table, and whether Spark has used it."""

    #: The random id that tells this checkpoint from others. Commits record it.
    checkpoint_id: str
    #: The path of the table that the checkpoint belongs to; None: the checkpoint does not say.
    table: str | None
    #: Whether Spark has planned a batch with it.
    is_used: bool


def claim_checkpoint(location: str, path: str, options: Options, identifier: str) -> str:
    """Check that a checkpoint fits the table, record the table in it, and return the id of the checkpoint.

    Args:
        location: the folder of the checkpoint.
        path: the path of the table, which need not exist yet.
        options: the options of the stream.
        identifier: the identifier of the stream, `hoodie.datasource.write.streaming.checkpoint.identifier`.

    Raises:
        OptionError: the checkpoint belongs to another table; or it is new, and the table holds batches under the identifier.
        CorruptFile: Penstock's file in the checkpoint is damaged.
    """
    settings: Mapping[str, str] = options.prefixed(STORAGE_OPTIONS)
    storage, folder = open_storage(location, settings)
    table_storage, base_path = open_storage(path, settings)
    uri = table_storage.uri(base_path)
    found = _read_checkpoint(storage, folder)
    if found.table is not None and found.table != uri:
        raise OptionError(
            f"checkpointLocation {location} belongs to the stream that writes to {found.table}, not to {uri}: its offsets would "
            "leave out rows here. Give this stream a checkpoint of its own"
        )
    _check_batches(found, location, path, options, identifier)
    if found.table is None:
        content = {"checkpoint": found.checkpoint_id, "table": uri}
        storage.make_dirs(folder)
        storage.replace(join(folder, _NAME), json.dumps(content).encode())
    return found.checkpoint_id


def _check_batches(found: Checkpoint, location: str, path: str, options: Options, identifier: str) -> None:
    """Raise OptionError if the checkpoint is new and the table holds batches under the identifier.

    Spark numbers the batches of a new checkpoint from 0, so the first of them would count as committed already. If the table does
    not exist but the checkpoint has batches, only warn.

    Args:
        found: the state of the checkpoint.
        location: the folder of the checkpoint.
        path: the path of the table.
        identifier: the identifier of the stream.
    """
    try:
        last = find_last_batch(open_finished(path, options), identifier)
    except TableNotFound:
        if found.is_used:
            warn_user(
                f"checkpointLocation {location} has batches, but there is no table at {path}. The rows of those batches are not "
                "read again: use a new checkpoint to write them all"
            )
        return
    if last is None or found.is_used:
        return
    raise OptionError(
        f"checkpointLocation {location} is new, but {path} holds batches up to {last.number} of a stream with "
        f"{o.STREAMING_CHECKPOINT_ID.key}={identifier}. Batches 0 to {last.number} of the new checkpoint would be taken for "
        "those and left out. Use the old checkpoint to go on, or another identifier to write all batches of the new one"
    )


def _read_checkpoint(storage: Storage, folder: str) -> Checkpoint:
    """Return the state of a checkpoint. If `penstock-sink.json` is not in it yet, the state has a new random id and no table.

    Args:
        folder: the folder of the checkpoint.

    Raises:
        CorruptFile: Penstock's file in the checkpoint is damaged.
    """
    is_used = bool(storage.list(join(folder, _OFFSETS)))
    path = join(folder, _NAME)
    try:
        content = json.loads(storage.read(path))
        return Checkpoint(content["checkpoint"], content["table"], is_used)
    except FileNotFoundError:
        return Checkpoint(clock.new_uuid(), None, is_used)
    except (ValueError, TypeError, KeyError) as e:
        raise CorruptFile(f"{path} is damaged: {e}. Delete it if the checkpoint belongs to this stream") from e
