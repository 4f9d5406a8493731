"""Makes the hooks of commit callbacks. A callback is one that `CALLBACKS` (`registered/hooks.py`) lists, or a user's function.

A callback in `CALLBACKS` sends messages. It is a module with a `Sender`, and a function that makes the sender from the options.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock import options as o
from penstock.hooks.commit_hook import Hook, HookContext
from penstock.hooks.own_callbacks import OwnCallback
from penstock.hooks.send_notices import Sender, SendNotices
from penstock.load_part import load_part
from penstock.options import Options
from penstock.registered.hooks import CALLBACKS, find_commit_callback


def make_callbacks(context: HookContext) -> Mapping[str, Hook]:
    """Return a hook for each callback that the options turn on, by the callback's name, in the order of the options.

    Raises:
        OptionError: no callback has one of the names, or an option of a callback is missing or wrong.
    """
    hooks: dict[str, Hook] = {}
    for name in list_callbacks(context.table.options):
        if name in CALLBACKS:
            hooks[f"{name}_callback"] = SendNotices(context.table, make_sender(name, context.table.options), context.final_table)
        else:
            hooks[name] = OwnCallback(context.table, find_commit_callback(name))
    return hooks


def list_callbacks(options: Options) -> tuple[str, ...]:
    """Return the names of the callbacks that the options turn on, each once: names in `CALLBACKS`, or registered by users."""
    names: list[str] = []
    if options[o.CALLBACK_ON]:
        cls = options[o.CALLBACK_CLASS]
        names.append(o.HUDI_CALLBACKS.get(cls, cls))
    for name in options[o.COMMIT_CALLBACKS]:
        if name not in names:
            names.append(name)
    return tuple(names)


def list_senders(options: Options) -> tuple[str, ...]:
    """Return the names of the callbacks that the options turn on and that send messages: those in `CALLBACKS`.

    Functions of the user are left out: they send no messages, so none of theirs wait in the outbox.
    """
    return tuple(name for name in list_callbacks(options) if name in CALLBACKS)


def make_sender(name: str, options: Options) -> Sender:
    """Return the sender of a callback in `CALLBACKS`.

    Raises:
        OptionError: an option of the callback is missing or wrong.
    """
    sender: Sender = load_part(CALLBACKS[name])(options)
    return sender
