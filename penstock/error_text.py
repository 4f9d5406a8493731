"""Turns typed errors into text and back, so that an error raised inside a Spark job reaches the driver with its type.

A Spark expression can only raise text. `marked_ends` returns the markers that the expression puts around the message, so that
`typed_error` finds it in Spark's exception, whatever the form: a stack trace, an error class, a Connect status. An error that a
worker raises while a query reads files arrives as a traceback inside Spark's exception. `read_error` puts the message into the
last line of that traceback, where `typed_error` finds it.
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
    """Return the Penstock error that the text of a Spark exception contains; None if it contains none.

    The error was raised by a Spark expression or by a worker.
    """
    if found := _MARKED.search(message):
        return _CLASSES[found.group(1)](found.group(2))
    if found := _RAISED.search(message):
        kind: type[PenstockError] = getattr(errors, found.group(1), PenstockError)
        return kind(found.group(2))
    return None


def read_error(error: PenstockError, place: str) -> PenstockError:
    """Return a worker's error about reading, with the place added and its lines reordered: details first, the message last.

    Spark shows the last line of a traceback, so that line has to name what is wrong and where.

    Args:
        place: what was being read, for example the path of a file.
    """
    message, _, details = str(error).partition("\n")
    last_line = f"{message} {_READING}{place})"
    if not details:
        return type(error)(last_line)
    return type(error)(f"{details}\n{last_line}")


def marked_ends(kind: type[PenstockError] = RecordKeyError) -> tuple[str, str]:
    """Return the markers to put before and after an error message, by which it is found in the text of a Spark exception.

    Args:
        kind: the class of the Penstock error that is raised with the message.
    """
    return f"{_OPEN}{kind.__name__}|", f"|penstock{_CLOSE}"
