"""The outbox: messages that were not delivered yet, one file each under `.hoodie/.penstock/outbox` of the table.

Hudi and hudi-rs ignore the folder: it is no timeline file, and no partition. A file holds the message and the name of the
callback that sends it. Addresses and passwords are not stored; they come from the options of the process that sends the message.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from penstock.errors import CorruptFile
from penstock.storage import join
from penstock.table.state import TableState
from penstock.timeline.store import FOLDER

OUTBOX_FOLDER = join(FOLDER, ".penstock", "outbox")


@dataclass(frozen=True)
class Message:
    """A message about one commit, for one callback."""

    #: The name of the callback that sends the message: `http` or `kafka`.
    callback: str
    table_name: str
    instant: str
    idempotency_key: str
    #: The content, JSON.
    body: str

    @property
    def file_name(self) -> str:
        """The name of the message's file in the outbox. Names sort by instant."""
        return f"{self.instant}.{self.callback}.json"


def store_message(table: TableState, message: Message) -> None:
    """Store a message in the outbox of the table. A message of the same commit and callback is replaced."""
    table.storage.replace(_path_of(table, message.file_name), json.dumps(asdict(message), ensure_ascii=False).encode())


def remove_message(table: TableState, message: Message) -> None:
    """Remove a message that was delivered. Does nothing if the outbox does not have it."""
    table.storage.delete(_path_of(table, message.file_name))


def list_messages(table: TableState, callback: str) -> list[str]:
    """Return the names of the files in the outbox that hold messages of one callback, oldest commit first.

    Args:
        callback: the name of the callback, for example `http`.
    """
    names = [file.name for file in table.storage.list(join(table.base_path, OUTBOX_FOLDER))]
    return sorted(name for name in names if name.endswith(f".{callback}.json"))


def read_message(table: TableState, name: str) -> Message | None:
    """Read a message of the outbox; return None if it has no file of this name any more.

    Another process may have delivered the message since the outbox was listed.

    Args:
        name: the name of the message's file.

    Raises:
        CorruptFile: the file is damaged.
    """
    path = _path_of(table, name)
    try:
        return Message(**json.loads(table.storage.read(path)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as e:
        raise CorruptFile(f"{path} is not a message of a callback: {e}. Delete the file") from e


def _path_of(table: TableState, name: str) -> str:
    """Return the path of a file in the outbox."""
    return join(table.base_path, OUTBOX_FOLDER, name)
