"""`Location`: a path of a table or partition with scheme and authority, as catalogs and other systems write it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?)?(.*)", re.DOTALL)
#: Schemes with several names. The other schemes have one.
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}


@dataclass(frozen=True)
class Location:
    """A path, with the scheme and the bucket, container or host that it was written with; "" for what it lacks."""

    scheme: str
    authority: str
    path: str

    @property
    def common_scheme(self) -> str:
        """The scheme under the first of its names: `s3` for `s3a` and `s3n`."""
        return _SAME_SCHEME.get(self.scheme, self.scheme)


def parse_location(text: str) -> Location:
    """Split a location into scheme in lower case, authority, and path without slashes at the end."""
    match = _LOCATION.fullmatch(text)
    assert match is not None  # every part is optional
    return Location((match[1] or "").lower(), match[2] or "", match[3].rstrip("/"))


def is_same_location(one: str, other: str) -> bool:
    """Whether two locations are the same folder. `s3`, `s3a` and `s3n` are the same scheme.

    A location without a scheme (`/trips`) matches any scheme, and one without an authority (`hdfs:/trips`) any authority: in
    Hadoop the default file system completes both.
    """
    if one == other:
        return True
    left = parse_location(one)
    right = parse_location(other)
    if left.path != right.path:
        return False
    if left.scheme and right.scheme and left.common_scheme != right.common_scheme:
        return False
    return not left.authority or not right.authority or left.authority.lower() == right.authority.lower()
