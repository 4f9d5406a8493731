"""Reads and writes Java properties files: `hoodie.properties` of a table, and `.hoodie_partition_metadata` of each partition.

The reader accepts everything that `java.util.Properties` accepts (comments, continued lines, all escapes, any separator). The
writer writes what `Properties.store` would write, but keeps the order of the mapping. The files are ISO-8859-1. A character
beyond printable ASCII is written as ``\\uXXXX``, once per UTF-16 unit.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime

from penstock.errors import CorruptFile

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)", re.DOTALL)
_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*[=: \t\f]")
_VALUE_START = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPED_BY_LETTER = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LETTER_OF = {char: letter for letter, char in _ESCAPED_BY_LETTER.items()}


def read_properties(data: bytes) -> dict[str, str]:
    """Parse the bytes of a Java properties file; return key → value. If a key occurs twice, the last value counts.

    Raises:
        CorruptFile: four hex digits do not follow a ``\\u`` escape.
    """
    properties = {}
    for line in _logical_lines(data.decode("iso-8859-1")):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def write_properties(values: Mapping[str, str], comment: str, date: str) -> bytes:
    """Return the bytes of a Java properties file: `comment` and `date` as comment lines, then one line per property."""
    lines = [_comment(comment), _comment(date)]
    for key, value in values.items():
        # As `Properties.store` does: all spaces of a key are escaped, of a value only leading ones.
        lines.append(f"{_escape(key, every_space=True)}={_escape(value, every_space=False)}")
    return ("\n".join(lines) + "\n").encode("ascii")


def java_date(moment: datetime) -> str:
    """Return a moment in UTC in the form of Java's `Date.toString`, as the comments of properties files have it.

    The names of days and months are English. `strftime` is not used: its names depend on the locale, and it is slow, which counts
    for thousands of new partitions.
    """
    day = f"{_DAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment.day:02d}"
    return f"{day} {moment.hour:02d}:{moment.minute:02d}:{moment.second:02d} UTC {moment.year:04d}"


def table_checksum(database: str | None, table: str) -> int:
    """Return the value of `hoodie.table.checksum`: the CRC-32 of `<database>.<table>`, or of `.<table>` if `database` is None."""
    return zlib.crc32(f"{database or ''}.{table}".encode())


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines that hold a property, with continued lines joined. Comments and blank lines are left out."""
    lines = iter(_LINE_END.split(text))
    for natural_line in lines:
        line = natural_line.lstrip(_BLANK)
        if not line or line[0] in "#!":
            continue
        parts = []
        while _is_continued(line):
            parts.append(line[:-1])
            line = next(lines, "").lstrip(_BLANK)
        yield "".join([*parts, line])


def _is_continued(line: str) -> bool:
    """Whether the next line of the file continues this line: the line ends with an odd number of backslashes.

    The last of these backslashes escapes the line end. Each pair before it is an escaped backslash.
    """
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Split a line into (key, value), both still escaped. The key ends before the first unescaped blank, `=` or `:`."""
    end = _KEY_END.search(line)
    if end is None:
        return line, ""
    key_end = end.end() - 1
    separator = _VALUE_START.match(line, key_end)
    value_start = separator.end() if separator else key_end
    return line[:key_end], line[value_start:]


def _unescape(text: str) -> str:
    """Return a key or value with its escapes decoded."""
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(_unescape_match, text)
    # A character beyond U+FFFF is written as two escapes, its two UTF-16 units. This joins them.
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape_match(match: re.Match[str]) -> str:
    """Return the character for one escape. Raises CorruptFile if four hex digits do not follow ``\\u``."""
    escape = match[1]
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    if escape == "u":
        raise CorruptFile("properties file with a \\u that four hex digits do not follow")
    return _ESCAPED_BY_LETTER.get(escape, escape)


def _escape(text: str, *, every_space: bool) -> str:
    """Escape a key or value for a properties file.

    Args:
        every_space: whether to escape all spaces, or only leading ones.
    """
    leading_spaces = len(text) - len(text.lstrip(" "))
    escaped = []
    for number, char in enumerate(text):
        if char == " ":
            escaped.append("\\ " if every_space or number < leading_spaces else " ")
        else:
            escaped.append(_escape_character(char))
    return "".join(escaped)


def _escape_character(char: str) -> str:
    """Escape one character of a key or value of a properties file, if Java would.

    A backslash goes in front of a backslash, `:`, `=`, `#` and `!`. Tab, newline, return and form feed become an escape of one
    letter, such as `t`. Control characters and characters that are not ASCII become Unicode escapes. Any other character is
    returned unchanged.
    """
    if char in "\\:=#!":
        return "\\" + char
    if char in _LETTER_OF:
        return "\\" + _LETTER_OF[char]
    return char if "\x20" < char < "\x7f" else _escape_units(char)


def _escape_units(text: str) -> str:
    """Return each UTF-16 unit of the text as ``\\uXXXX``."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[at]:02X}{encoded[at + 1]:02X}" for at in range(0, len(encoded), 2))


def _comment(text: str) -> str:
    """Return the text as comment lines of a properties file, with `#` in front of each line."""
    lines = []
    for line in _LINE_END.split(text):
        lines.append("#" + "".join(char if char < "\x7f" else _escape_units(char) for char in line))
    return "\n".join(lines)
