"""Typed errors as text, and back: how an error inside a Spark job reaches the driver as the same error.

An expression can only raise text. `marked_ends` encloses the message, so that `typed_error` finds it in whatever Spark makes of
it: a stack trace, an error class, a Connect status. An error that a worker raises while a query reads (`read_error`) comes out of
Spark as a traceback inside another error; its last line says what went wrong.
"""

from __future__ import annotations

import re

from penstock import errors
from penstock.errors import OptionError, PayloadError, PenstockError, RecordKeyError, SchemaError

_OPEN = "<<penstock:"
_CLOSE = ">>"
_CLASSES: dict[str, type[PenstockError]] = {
    kind.__name__: kind for kind in (RecordKeyError, SchemaError, OptionError, PayloadError)
}
_MARKED = re.compile(rf"<<penstock:({'|'.join(_CLASSES)})\|(.*?)\|penstock>>", re.DOTALL)
_READING = "(while reading "
_RAISED = re.compile(rf"penstock\.errors\.(\w+): (.*?{re.escape(_READING)}[^\n]*\))", re.DOTALL)


def typed_error(message: str) -> PenstockError | None:
    """Return the error that an expression or a worker raised, found in the text of a Spark exception; None if there is none."""
    if found := _MARKED.search(message):
        return _CLASSES[found.group(1)](found.group(2))
    if found := _RAISED.search(message):
        kind: type[PenstockError] = getattr(errors, found.group(1), PenstockError)
        return kind(found.group(2))
    return None


def read_error(error: PenstockError, place: str) -> PenstockError:
    """Return the error of a worker that reads for a query, with its details first and its message last.

    Spark shows the last line of a traceback, so that line names what is wrong and the place.

    Args:
        place: what was read.
    """
    message, _, details = str(error).partition("\n")
    last_line = f"{message} {_READING}{place})"
    if not details:
        return type(error)(last_line)
    return type(error)(f"{details}\n{last_line}")


def marked_ends(kind: type[PenstockError] = RecordKeyError) -> tuple[str, str]:
    """Return the texts that go before and after a message, by which `typed_error` finds it."""
    return f"{_OPEN}{kind.__name__}|", f"|penstock{_CLOSE}"
