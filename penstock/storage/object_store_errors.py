"""Converts errors of object stores to Penstock's errors. A message names the path, what is wrong, the setting and the fix.

obstore has few classes of errors. The text of an error contains the store's own answer: an HTTP status and, in XML, a code. The
text may also contain an address with a signature, so everything after a question mark and all secrets are cut out. For the same
reason errors are raised without their cause: a traceback would print the cause.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from penstock import clock
from penstock.errors import AlreadyExists, PenstockError, StorageError
from penstock.storage.object_store_client import ClientSettings
from penstock.storage.settings import MASK

T = TypeVar("T")

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_QUERY = re.compile(r"\?[^\s'\"<>]+")
_LONGEST_TEXT = 400
_LISTING_ATTEMPTS = 4
_LISTING_PAUSE_S = 0.2

_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}
_WRONG_KEY = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthenticationFailed", "InvalidAuthenticationInfo"}
_WRONG_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "TemporaryRedirect"}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "InvalidBucketName"}

#: The names of each store's settings in messages: (bucket, endpoint setting, credentials setting, how to set them).
_WORDS = {
    "s3": ("bucket", "s3 endpoint", "s3 access key", "fs.s3a.access.key and fs.s3a.secret.key, AWS_ACCESS_KEY_ID or a profile"),
    "gcs": ("bucket", "gcs endpoint", "gcs key", "fs.gs.auth.service.account.json.keyfile or GOOGLE_APPLICATION_CREDENTIALS"),
    "azure": (
        "container",
        "azure endpoint",
        "azure credentials",
        "fs.azure.account.key.<account>, a SAS token or AZURE_CLIENT_*",
    ),
}


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status in the text of an error of obstore; None if the text has none, because the store did not answer."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def code_of(error: BaseException) -> str:
    """Return the store's own code in the text of an error of obstore, such as `NoSuchBucket`; "" if the text has none."""
    found = _CODE.search(str(error))
    return found[1] if found else ""


def is_unanswered(error: BaseException) -> bool:
    """Whether a failed request may have taken effect: the store did not answer, or reported a failure of its own."""
    if isinstance(error, FileNotFoundError | PenstockError | ValueError):
        return False
    status = status_of(error)
    return status is None or (status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED) or status in (408, 429)


def repeat_listing(action: Callable[[], T]) -> T:
    """Call `action`, which lists objects, and return its result. Call it again if the store's answer is cut off or damaged.

    obstore itself repeats only requests without an answer.
    """
    for attempt in range(1, _LISTING_ATTEMPTS):
        try:
            return action()
        except Exception as e:
            if "list response" not in str(e):
                raise
        clock.sleep_s(attempt * _LISTING_PAUSE_S * (0.5 + clock.random_fraction() / 2))
    return action()


def mask_secrets(text: str, settings: ClientSettings) -> str:
    """Return the text of an obstore error on one line, cut short, without secrets, query strings of URLs and debug output."""
    text = text.split("\n\nDebug source")[0]
    text = _QUERY.sub(f"?{MASK}", text)
    for secret in settings.secrets:
        text = text.replace(secret, MASK)
    return " ".join(text.split())[:_LONGEST_TEXT]


def convert(error: BaseException, settings: ClientSettings, uri: str) -> Exception:
    """Return Penstock's error for an error of obstore. An error of Penstock is returned unchanged.

    Args:
        uri: the path of the file or folder, for the message.
    """
    kind = type(error).__name__
    code = code_of(error)
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, FileNotFoundError) and code not in _NO_BUCKET and "bucket does not exist" not in str(error):
        return FileNotFoundError(errno.ENOENT, "no such file", uri)
    if kind == "AlreadyExistsError":
        return AlreadyExists(errno.EEXIST, "the file exists already", uri)
    number, message = _explain(error, settings, code)
    return StorageError(number, message, uri)


def _explain(error: BaseException, settings: ClientSettings, code: str) -> tuple[int, str]:
    """Return an error number (errno), and a sentence with what is wrong and how to repair it.

    Args:
        code: the store's own code in the error; "" if there is none.
    """
    bucket_word, endpoint_name, key_name, key_places = _WORDS[settings.kind]
    status = status_of(error)
    text = mask_secrets(str(error), settings)
    endpoint = settings.value(endpoint_name)
    where = f"at {endpoint} (from {settings.origin(endpoint_name)})" if endpoint else f"at the public address of {settings.kind}"
    keys = (
        f"the credentials from {settings.origin(key_name)}"
        if settings.credentials
        else "the role of this machine, or no credentials,"
    )
    if "169.254.169.254" in str(error) or "metadata.google.internal" in str(error):
        return errno.EACCES, f"no credentials were found, and this machine has no role; set {key_places}"
    if code in _NO_BUCKET or status == 404:
        return errno.ENOENT, f"no {bucket_word} '{settings.bucket}' {where}; create it, or correct the path or the endpoint"
    if code in _EXPIRED or "expired" in text.lower():
        return errno.EACCES, f"{keys} have expired; get new ones and set {key_places}"
    if code in _WRONG_REGION or status in (301, 307):
        region = settings.value("s3 region")
        origin = settings.origin("s3 region")
        return errno.EINVAL, (
            f"{bucket_word} '{settings.bucket}' is not in region {region} (from {origin}); set fs.s3a.endpoint.region"
        )
    if code in _WRONG_KEY or status == 401:
        return errno.EACCES, f"{where} {keys} are not accepted ({code or status}); correct {key_places}"
    if status == HTTPStatus.NOT_IMPLEMENTED:
        return errno.ENOTSUP, (
            f"the store {where} does not support the request ({text}); use a store or version that supports it. Conditional puts "
            "(If-None-Match) are needed, or a lock provider (hoodie.write.lock.provider)"
        )
    if status == 403 or type(error).__name__ == "PermissionDeniedError":
        doubt = "" if code else ", or are not accepted: the store does not say which"  # the answer to a HEAD has no body
        return errno.EACCES, f"{keys} have no permission for this {bucket_word} or path{doubt}; grant it, or set {key_places}"
    if status == 400 and not code:  # the answer to a HEAD has no body, so the store cannot say why
        region = (
            f", or {bucket_word} '{settings.bucket}' is not in region {settings.value('s3 region')} (from "
            f"{settings.origin('s3 region')}): set fs.s3a.endpoint.region"
            if settings.kind == "s3"
            else ""
        )
        return errno.EINVAL, (
            f"the store refused the request without a reason {where} (400): {keys} have expired or are malformed: get new ones "
            f"and set {key_places}{region}"
        )
    if status is None and ("sending request" in text or "builder error" in text or "dns" in text.lower()):
        return errno.EHOSTUNREACH, f"no answer {where}; correct the endpoint, or check the network ({text})"
    if type(error).__name__ == "InvalidPathError" or isinstance(error, ValueError):
        return errno.EINVAL, f"a key of the {bucket_word} has an empty component, '.', '..' or a control character ({text})"
    return errno.EIO, f"the store failed {where}: {text}"


def call(settings: ClientSettings, uri: str, action: Callable[[], T]) -> T:
    """Call `action`, which uses obstore's client, and return its result. Convert its errors to Penstock's.

    Args:
        uri: the path of the file or folder, for messages.
    """
    try:
        return action()
    except Exception as e:
        error: Any = convert(e, settings, uri)
    # Outside of the `except` block, so that the error has no context: obstore's text may hold a secret.
    raise error
