"""Java properties files: the table's configuration and the metadata file of each partition.

Kernel: bytes in, a dict out, and back. Reading accepts everything `java.util.Properties` accepts (comments, continued
lines, all escapes, any separator); writing gives what `Properties.store` would, with the order of the mapping kept.
The files are ISO-8859-1; a character beyond printable ASCII is written as ``\\uXXXX``, one per UTF-16 unit.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping

from penstock.errors import CorruptFile

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)", re.DOTALL)
_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*[=: \t\f]")
_VALUE_START = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPED_BY_LETTER = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LETTER_OF = {char: letter for letter, char in _ESCAPED_BY_LETTER.items()}


def read_properties(data: bytes) -> dict[str, str]:
    """All properties of a file; of a key that stands twice, the last value.

    Raises:
        CorruptFile: a ``\\u`` escape is not followed by four hex digits.
    """
    properties = {}
    for line in _logical_lines(data.decode("iso-8859-1")):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def write_properties(values: Mapping[str, str], comment: str, date: str) -> bytes:
    """A properties file with two comment lines, then one line per value."""
    lines = [_comment(comment), _comment(date)]
    lines += [f"{_escape(key, every_space=True)}={_escape(value, every_space=False)}" for key, value in values.items()]
    return ("\n".join(lines) + "\n").encode("ascii")


def table_checksum(database: str | None, table: str) -> int:
    """The value of ``hoodie.table.checksum``: a CRC over the two names; without a database, a leading dot remains."""
    return zlib.crc32(f"{database or ''}.{table}".encode())


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with a key, continued ones joined; comments and blank lines left out."""
    lines = iter(_LINE_END.split(text))
    for natural in lines:
        line = natural.lstrip(_BLANK)
        if not line or line[0] in "#!":
            continue
        parts = []
        while _is_continued(line):
            parts.append(line[:-1])
            line = next(lines, "").lstrip(_BLANK)
        yield "".join([*parts, line])


def _is_continued(line: str) -> bool:
    """An odd number of backslashes at the end: the last one escapes the line end."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Key and value, both still escaped. The key ends before the first blank, ``=`` or ``:`` that is not escaped."""
    end = _KEY_END.search(line)
    if end is None:
        return line, ""
    at = end.end() - 1
    separator = _VALUE_START.match(line, at)
    return line[:at], line[separator.end() if separator else at :]


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(lambda found: _unescape_one(found[1]), text)
    # Two escapes of one character beyond the BMP are its two UTF-16 units.
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape_one(escape: str) -> str:
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    if escape == "u":
        raise CorruptFile("properties file with a \\u that four hex digits do not follow")
    return _ESCAPED_BY_LETTER.get(escape, escape)


def _escape(text: str, *, every_space: bool) -> str:
    spaces = len(text) if every_space else len(text) - len(text.lstrip(" "))
    return "".join(_escape_one(char, is_escaped_space=at < spaces) for at, char in enumerate(text))


def _escape_one(char: str, *, is_escaped_space: bool) -> str:
    if char == " ":
        return "\\ " if is_escaped_space else " "
    if char in "\\:=#!":
        return "\\" + char
    if char in _LETTER_OF:
        return "\\" + _LETTER_OF[char]
    return char if "\x20" < char < "\x7f" else _units(char)


def _units(text: str) -> str:
    """Every UTF-16 unit of the text as ``\\uXXXX``."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[at]:02X}{encoded[at + 1]:02X}" for at in range(0, len(encoded), 2))


def _comment(text: str) -> str:
    """A comment line; a line end inside starts another one."""
    lines = _LINE_END.split(text)
    return "\n".join("#" + "".join(char if char < "\x7f" else _units(char) for char in line) for line in lines)
