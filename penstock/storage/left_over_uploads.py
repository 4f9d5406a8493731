"""`abort_uploads`: aborts the multipart uploads that a dead writer left on S3. Their parts are invisible, but cost money.

obstore cannot list uploads. So this module itself makes the two requests, which list and abort uploads, with signatures of
version 4 of Amazon's scheme. On Google Cloud Storage a lifecycle rule of the bucket must abort uploads. Azure deletes the parts
after a week.
"""

from __future__ import annotations

import hashlib
import hmac
import urllib.error
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from penstock import clock
from penstock.storage.base import Storage
from penstock.storage.object_store import ObjectStorage
from penstock.storage.object_store_client import ClientSettings
from penstock.storage.object_store_errors import mask_secrets
from penstock.user_warning import warn_user

_NOTHING = hashlib.sha256(b"").hexdigest()
_UNRESERVED = "-_.~"


@dataclass(frozen=True)
class _Upload:
    """An unfinished multipart upload: the path of its file, and its id."""

    path: str
    upload_id: str


def abort_uploads(storage: Storage, folder: str, is_meant: Callable[[str], bool]) -> int:
    """Abort unfinished multipart uploads of files below a folder; return how many were aborted.

    A slow writer that completes an aborted upload gets an error, and its file never appears. Nothing is done for storages other
    than S3. If a request fails, the user is warned, and no error is raised.

    Args:
        is_meant: is called with the path of each file that is being uploaded; returns whether its upload is to be aborted.
    """
    if not isinstance(storage, ObjectStorage) or storage.settings.kind != "s3":
        return 0
    keys = _find_keys(storage.settings)
    if keys is None:
        return 0
    requests = _Requests(storage.settings, keys)
    aborted = 0
    try:
        for upload in list(requests.list_uploads(folder.strip("/"))):
            if is_meant(upload.path):
                requests.abort(upload)
                aborted += 1
    except (OSError, ElementTree.ParseError) as e:
        text = mask_secrets(str(e), storage.settings)
        warn_user(
            f"parts of unfinished uploads may be left below {storage.uri(folder)}: {text}; allow "
            "s3:ListBucketMultipartUploads and s3:AbortMultipartUpload, or let a lifecycle rule of the bucket abort uploads"
        )
    return aborted


def _find_keys(settings: ClientSettings) -> Mapping[str, str] | None:
    """Return access key, secret key and, if there is one, session token, by obstore's names.

    None if access is anonymous, or if the keys come from the machine and botocore is not installed or finds none.
    """
    if settings.credentials:
        return dict(settings.credentials)
    if dict(settings.config).get("skip_signature") == "true":
        return None
    try:
        from botocore.session import Session
    except ImportError:
        return None
    found = Session().get_credentials()
    if found is None:
        return None
    frozen = found.get_frozen_credentials()
    keys = {"access_key_id": frozen.access_key, "secret_access_key": frozen.secret_key}
    return {**keys, "token": frozen.token} if frozen.token else keys


@dataclass(frozen=True)
class _Requests:
    """Makes signed requests to a bucket."""

    settings: ClientSettings
    keys: Mapping[str, str]

    def list_uploads(self, prefix: str) -> Iterator[_Upload]:
        """Yield the unfinished uploads of files below the folder `prefix`, which is a key without slashes at its ends."""
        query = {"uploads": "", "prefix": f"{prefix}/" if prefix else ""}
        while True:
            answer = ElementTree.fromstring(self._send("GET", "", query))
            for element in answer:
                if _name(element) == "Upload":
                    yield _Upload("/" + _text(element, "Key"), _text(element, "UploadId"))
            if _text(answer, "IsTruncated") != "true":
                return
            query["key-marker"] = _text(answer, "NextKeyMarker")
            query["upload-id-marker"] = _text(answer, "NextUploadIdMarker")

    def abort(self, upload: _Upload) -> None:
        """Abort an upload, so that the store deletes its parts. Ignore an upload that no longer exists."""
        try:
            self._send("DELETE", upload.path, {"uploadId": upload.upload_id})
        except urllib.error.HTTPError as e:
            if e.code != 404:  # completed or aborted since it was listed
                raise

    def _send(self, method: str, path: str, query: Mapping[str, str]) -> bytes:
        bucket_address = _address_of(self.settings)
        parts = urlsplit(bucket_address)
        target = quote(parts.path + path, safe="/" + _UNRESERVED) or "/"
        pairs = sorted((quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED)) for name, value in query.items())
        query_text = "&".join(f"{name}={value}" for name, value in pairs)
        headers = self._sign(method, parts.netloc, target, query_text)
        url = f"{parts.scheme}://{parts.netloc}{target}?{query_text}"
        request = urllib.request.Request(url, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=self.settings.stall_ms / 1000) as answer:
            return bytes(answer.read())

    def _sign(self, method: str, host: str, target: str, query: str) -> dict[str, str]:
        """Return the headers of a request without a body, among them its time and signature.

        Args:
            method: the HTTP method.
            target: the path of the request, URL-encoded.
            query: the parameters of the request, URL-encoded and sorted.
        """
        time = clock.utc_now().strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": host, "x-amz-content-sha256": _NOTHING, "x-amz-date": time}
        if self.keys.get("token"):
            headers["x-amz-security-token"] = self.keys["token"]
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        canonical = f"{method}\n{target}\n{query}\n{lines}\n{names}\n{_NOTHING}"
        region = dict(self.settings.config)["region"]
        scope = f"{time[:8]}/{region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = f"AWS4{self.keys['secret_access_key']}".encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        credential = f"{self.keys['access_key_id']}/{scope}"
        authorization = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
        return {**headers, "authorization": authorization}


def _address_of(settings: ClientSettings) -> str:
    """Return the URL of the bucket, as obstore builds it from the settings."""
    config = dict(settings.config)
    if config.get("virtual_hosted_style_request") == "true":
        return config["endpoint"]
    endpoint = config.get("endpoint") or f"https://s3.{config['region']}.amazonaws.com"
    return f"{endpoint}/{settings.bucket}"


def _name(element: ElementTree.Element) -> str:
    """Return the name of an XML element without its namespace, which some stores leave out."""
    return element.tag.rpartition("}")[2]


def _text(element: ElementTree.Element, name: str) -> str:
    """Return the text of the child `name` of an XML element; "" if there is none."""
    for child in element:
        if _name(child) == name:
            return child.text or ""
    return ""
