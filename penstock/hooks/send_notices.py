"""The hook of callbacks that send messages: over HTTP, to Kafka. Messages that could not be delivered wait in the outbox.

A message is delivered at least once if the outbox is on, and may be delivered twice: after a crash, and if two processes send
what is in the outbox at the same time. Its idempotency key is the same each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock import clock
from penstock import options as o
from penstock.errors import CallbackFailed, MessageTooLarge
from penstock.hooks.commit_hook import Hook, PendingCommit, PublishedCommit
from penstock.hooks.notice import is_announced, make_notice, write_message
from penstock.hooks.outbox import OUTBOX_FOLDER, Message, list_messages, read_message, remove_message, store_message
from penstock.table.state import TableState, reload_timeline

#: For how many seconds a write sends messages that wait in the outbox. The next write, or a table service, sends the others.
_WAITING_S = 30.0


class Sender(Protocol):
    """Sends messages to one other system."""

    @property
    def name(self) -> str:
        """The name of the callback in `CALLBACKS`, by which messages of the outbox find their sender."""

    def send(self, message: Message) -> None:
        """Send a message, and wait until the other system has accepted it.

        Raises:
            CallbackFailed: the message was not accepted within the time and the attempts that the options allow.
            MessageTooLarge: the other system does not accept messages of this size.
        """


@dataclass(frozen=True)
class SendNotices(Hook):
    """Sends a message after each commit of a write. Messages that wait in the outbox are sent first."""

    #: The table where the commit is written. Its outbox holds the messages.
    table: TableState
    sender: Sender
    #: The table as messages name it: at the path that it has after the commit.
    named_table: TableState

    def before_commit(self, commit: PendingCommit) -> None:
        """Store the message in the outbox (a folder of the table) if `penstock.callback.outbox` is `always`.

        Then a crash after the commit does not lose the message.
        """
        if is_announced(commit) and self._outbox == "always":
            store_message(self.table, self._make_message(commit))

    def after_commit(self, commit: PublishedCommit) -> None:
        """Send the waiting messages of the outbox, then the message of this commit.

        The message of this commit is stored in the outbox if one of the messages cannot be delivered, or if the waiting
        messages take too long to send. With `penstock.callback.outbox=off` nothing waits and nothing is stored.

        Raises:
            CallbackFailed: a message could not be delivered, or still waits.
        """
        if not is_announced(commit):
            return
        message = self._make_message(commit)
        waiting = [] if self._outbox == "off" else list_messages(self.table, self.sender.name)
        try:
            older = [name for name in waiting if name != message.file_name]
            sent = send_messages(self.table, self.sender, older, seconds=_WAITING_S)
            self.sender.send(message)
        except Exception as e:
            if self._outbox == "off":
                raise
            store_message(self.table, message)
            raise CallbackFailed(
                f"{e}. The message waits in {OUTBOX_FOLDER}; the next write, or `penstock services run` with the options of the "
                "callback, sends it"
            ) from e
        if message.file_name in waiting:
            remove_message(self.table, message)
        if sent.too_large is not None:
            raise sent.too_large

    @property
    def _outbox(self) -> str:
        """When messages are stored in the outbox, the value of `penstock.callback.outbox`: `failed`, `always` or `off`."""
        return self.table.options[o.CALLBACK_OUTBOX]

    def _make_message(self, commit: PendingCommit | PublishedCommit) -> Message:
        """Return the message about a commit."""
        notice = make_notice(self.named_table, commit)
        body = write_message(notice, hudi_form=self.table.options[o.CALLBACK_MESSAGE] == "hudi")
        return Message(self.sender.name, notice.table_name, notice.instant, notice.idempotency_key, body)


def send_waiting(table: TableState, sender: Sender) -> int:
    """Send all messages of the outbox that are for a sender; return how many were sent.

    Raises:
        CallbackFailed: a message could not be delivered. It and all later messages stay in the outbox.
        MessageTooLarge: the other system does not accept a message of this size. The message stays in the outbox. Later ones were
            sent.
    """
    sent = send_messages(table, sender, list_messages(table, sender.name))
    if sent.too_large is not None:
        raise sent.too_large
    return sent.count


@dataclass(frozen=True)
class SentMessages:
    """How many messages of the outbox were sent, and the error of the first one that its receiver found too large, or None."""

    count: int = 0
    too_large: MessageTooLarge | None = None


def send_messages(table: TableState, sender: Sender, names: Sequence[str], seconds: float = math.inf) -> SentMessages:
    """Send messages of the outbox, oldest commit first, and remove them from it.

    A message that was stored before its commit stays while the commit is pending. If the commit was never published, the message
    is removed and not sent. A message that is too large stays, and the later ones are sent.

    Args:
        names: the names of the messages' files, oldest commit first.
        seconds: for how long messages are sent. After that time no further one is sent.

    Raises:
        CallbackFailed: a message could not be delivered, or the time is over. It stays in the outbox, with the later ones.
    """
    if not names:
        return SentMessages()
    # Loaded after the messages were listed: then the commit of each message is on the timeline, unless it was undone.
    table = reload_timeline(table)
    sent = SentMessages()
    deadline = clock.monotonic_s() + seconds
    for position, name in enumerate(names):
        if clock.monotonic_s() > deadline:
            raise CallbackFailed(f"{len(names) - position} older messages were not sent within {seconds:g} s")
        message = read_message(table, name)
        if message is None or message.instant in table.timeline.pending_times:
            continue
        if table.timeline.is_visible(message.instant):
            try:
                sender.send(message)
            except MessageTooLarge as e:
                sent = replace(sent, too_large=sent.too_large or e)
                continue
            sent = replace(sent, count=sent.count + 1)
        remove_message(table, message)
    return sent
