"""The HTTP callback: posts a message about each commit of a write to a server, as Hudi's HoodieWriteCommitHttpCallback does."""

from __future__ import annotations

import base64
import http.client
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from penstock import clock
from penstock import options as o
from penstock.errors import CallbackFailed, MessageTooLarge, OptionError
from penstock.hooks.outbox import Message
from penstock.hooks.time_limit import run_within
from penstock.options import Options

_KEY_HEADER = "HUDI-CALLBACK-KEY"
_IDEMPOTENCY_HEADER = "Idempotency-Key"
#: Statuses that say "try again": time-out of the request, too many requests. All statuses from 500 on are tried again too.
_RETRIED = (408, 429)


class _Failure(Exception):
    """The failure of one attempt to post a message: its reason as text.

    Attributes:
        may_pass: whether another attempt may succeed.
    """

    def __init__(self, why: str, *, may_pass: bool) -> None:
        super().__init__(why)
        self.may_pass = may_pass


class _NoRedirects(HTTPRedirectHandler):
    """Makes a redirect a failure. A redirected POST would become a GET without the message."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Return None, so that the redirect is not followed and counts as a failure."""


@dataclass(frozen=True)
class HttpSender:
    """Posts messages to one address, with several attempts until `timeout_s` has passed."""

    #: The address without user and password.
    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    retries: int
    backoff_s: float
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    name: str = "http"

    def send(self, message: Message) -> None:
        """Post a message. After a failure that may pass, try again, until no attempts or no time are left.

        Raises:
            CallbackFailed: no attempt succeeded.
            MessageTooLarge: the server does not accept messages of this size.
        """
        deadline = clock.monotonic_s() + self.timeout_s
        opener = _make_opener(self.tls)
        pause_s = self.backoff_s
        for attempt in range(1, self.retries + 2):
            try:
                self._post(opener, message, max(deadline - clock.monotonic_s(), 0.001))
                return
            except _Failure as failure:
                has_time = clock.monotonic_s() + pause_s < deadline
                if not failure.may_pass or not has_time or attempt == self.retries + 1:
                    attempts = "" if attempt == 1 else f" ({attempt} attempts)"
                    raise CallbackFailed(f"POST {hide_secrets(self.url)}: {failure}{attempts}") from None
            clock.sleep_s(pause_s)
            pause_s *= 2

    def _post(self, opener: OpenerDirector, message: Message, timeout_s: float) -> None:
        """Post a message once.

        Args:
            opener: posts the request.
            timeout_s: the seconds to wait for the answer.

        Raises:
            _Failure: the server did not accept the message.
            MessageTooLarge: the server does not accept messages of this size.
        """
        headers = {**self.headers, _IDEMPOTENCY_HEADER: quote(message.idempotency_key, safe="@")}
        request = Request(self.url, data=message.body.encode(), headers=headers, method="POST")

        def post() -> None:
            opener.open(request, timeout=timeout_s).close()

        try:
            run_within(timeout_s, post)
        except HTTPError as e:
            e.close()
            if e.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                raise MessageTooLarge(
                    f"POST {hide_secrets(self.url)}: {len(message.body):,} characters are too many (413)"
                ) from None
            raise _Failure(f"the server answered {e.code}", may_pass=e.code >= 500 or e.code in _RETRIED) from None
        except TimeoutError:
            raise _Failure(f"no answer within {self.timeout_s:g} s", may_pass=True) from None
        except URLError as e:
            if isinstance(e.reason, TimeoutError):
                raise _Failure(f"no connection within {self.timeout_s:g} s", may_pass=True) from None
            is_wrong_certificate = isinstance(e.reason, ssl.SSLCertVerificationError)
            raise _Failure(str(e.reason), may_pass=not is_wrong_certificate) from None
        except http.client.HTTPException as e:
            raise _Failure(f"the answer is not HTTP ({type(e).__name__})", may_pass=True) from None
        except (OSError, ValueError) as e:
            raise _Failure(f"{type(e).__name__}: {hide_secrets(str(e))}", may_pass=isinstance(e, OSError)) from None


def make_http_sender(options: Options) -> HttpSender:
    """Return the sender of the HTTP callback, with the address, headers and limits in the options.

    Raises:
        OptionError: the address is missing, or a certificate cannot be read.
    """
    address = options[o.CALLBACK_HTTP_URL]
    if not address:
        raise OptionError(f"the HTTP callback needs {o.CALLBACK_HTTP_URL.key}: the address to which the message is posted")
    url, credentials = split_credentials(address)
    headers = {
        _KEY_HEADER: options[o.CALLBACK_HTTP_API_KEY],
        "Content-Type": "application/json; charset=UTF-8",
        **credentials,
    }
    for name, value in options[o.CALLBACK_HTTP_HEADERS]:
        headers[name] = value
    return make_sender(options, url, headers, options[o.CALLBACK_HTTP_TIMEOUT_SECONDS])


def make_sender(options: Options, url: str, headers: Mapping[str, str], timeout_s: float) -> HttpSender:
    """Return a sender to an address. The options set its retries, its pauses and its certificates.

    Args:
        options: the options of callbacks.
        url: the address, without user and password.
        headers: the headers of each request.
        timeout_s: the seconds that all attempts to send a message may take together.

    Raises:
        OptionError: a certificate cannot be read.
    """
    return HttpSender(
        url=url,
        headers=headers,
        timeout_s=timeout_s,
        retries=options[o.CALLBACK_RETRIES],
        backoff_s=options[o.CALLBACK_BACKOFF_SECONDS],
        tls=make_tls(options) if url.startswith("https:") else None,
    )


def hide_secrets(text: str) -> str:
    """Return the text with user, password and query removed from the addresses in it, for messages."""
    without_user = re.sub(r"//[^/@\s]*@", "//", text)
    return re.sub(r"[?#]\S*", "", without_user)


def split_credentials(address: str) -> tuple[str, dict[str, str]]:
    """Return the address without user and password, and a dict with the `Authorization` header that sends them.

    If the address has no user, return it unchanged, and an empty dict.
    """
    parts = urlsplit(address)
    if parts.username is None:
        return address, {}
    host = parts.netloc.rpartition("@")[2]
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    encoded = base64.b64encode(pair.encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {encoded}"}


def make_tls(options: Options) -> ssl.SSLContext:
    """Return the TLS settings of https connections, with the certificate files that the options name.

    Raises:
        OptionError: a certificate file is missing or damaged.
    """
    ca_file = options[o.CALLBACK_HTTP_CA_FILE]
    cert_file = options[o.CALLBACK_HTTP_CERT_FILE]
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as e:
        raise OptionError(f"{o.CALLBACK_HTTP_CA_FILE.key}={ca_file} cannot be read: {e}") from e
    try:
        if cert_file:
            context.load_cert_chain(cert_file)
    except OSError as e:
        raise OptionError(f"{o.CALLBACK_HTTP_CERT_FILE.key}={cert_file} cannot be read: {e}") from e
    return context


def _make_opener(tls: ssl.SSLContext | None) -> OpenerDirector:
    """Return an object that posts HTTP requests. It follows no redirects.

    Args:
        tls: the TLS settings of https connections; None: the defaults.
    """
    handlers: list[Any] = [_NoRedirects()]
    if tls is not None:
        handlers.append(HTTPSHandler(context=tls))
    return build_opener(*handlers)
