"""The table service `commit notices`: sends messages about commits which a callback could not deliver after the write."""

from __future__ import annotations

from typing import Any, ClassVar

from penstock import options as o
from penstock.hooks.callbacks import list_senders, make_sender
from penstock.hooks.send_notices import send_waiting
from penstock.progress import Stages, format_count
from penstock.services.table_service import TableService
from penstock.table.state import TableState


class SendWaitingNotices(TableService):
    """Sends the messages of commit callbacks that wait in a table's outbox. After a write, the hook of the callback does so."""

    name: ClassVar[str] = "commit notices"
    title: ClassVar[str] = "send commit notices of"
    failure_noun: ClassVar[str] = "sending commit notices"

    def follows_write(self, table: TableState) -> bool:
        """Return False: after a write the hook of the callback itself has sent the waiting messages, as far as possible."""
        return False

    def may_be_due(self, table: TableState) -> bool:
        """Whether messages may wait: the options name a callback that sends messages, and do not turn the outbox off."""
        return table.options[o.CALLBACK_OUTBOX] != "off" and bool(list_senders(table.options))

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Send the messages that wait.

        Returns:
            How many messages were sent, in words for a report; None if none waited.

        Raises:
            CallbackFailed: a message could not be delivered.
        """
        sent = 0
        for name in list_senders(table.options):
            sent += send_waiting(table, make_sender(name, table.options))
        return f"{format_count(sent, 'notice')} sent" if sent else None


SEND_NOTICES = SendWaitingNotices()
