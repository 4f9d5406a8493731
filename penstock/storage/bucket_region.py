"""`find_bucket_region`: asks Amazon for the region of a bucket, if no setting names it.

A request to another region than that of the bucket is refused. Amazon names the region in every answer, also without keys.
"""

from __future__ import annotations

import http.client
import threading
from urllib.parse import quote, urlsplit

_ADDRESS = "https://s3.amazonaws.com"
_TIMEOUT_SECONDS = 5.0
_lock = threading.Lock()
#: The regions of buckets that were asked for; None: Amazon did not name one.
_known: dict[str, str | None] = {}


def find_bucket_region(bucket: str) -> str | None:
    """Return the region of a bucket of Amazon; None if there is no such bucket, or no answer.

    One request, without credentials. The answer is remembered as long as the process lives.
    """
    with _lock:
        if bucket not in _known:
            _known[bucket] = _ask(bucket)
        return _known[bucket]


def _ask(bucket: str) -> str | None:
    """Send Amazon one request for a bucket. Return the region in the answer; None if there is no answer or it names no region."""
    address = urlsplit(_ADDRESS)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("HEAD", f"/{quote(bucket)}")
        return connection.getresponse().getheader("x-amz-bucket-region")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
