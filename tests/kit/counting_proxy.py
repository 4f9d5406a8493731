"""A proxy between Penstock and an object store: counts requests by kind, and injects faults.

    with CountingProxy.before(store.port) as proxy:
        storage, base = open_storage(path, store.through(proxy.port))
        storage.read(...)
        assert proxy.counts == {"get": 1}

        proxy.inject(Fault.answer(503), kind="put_new", times=2)     # the next two conditional puts are answered 503
        proxy.inject(Fault.DROP_AFTER, kind="put_new")               # the next one takes effect, and its answer is lost

Every request has a kind: `get`, `head`, `list`, `put`, `put_new` (with a condition), `copy`, `delete`, `delete_many`, and for multipart uploads
`upload_begin`, `upload_part`, `upload_complete` and `upload_abort`. Faults are used up in the order in which they were injected; a fault applies
to the first request that it matches. `proxy.fail_all(fault)` applies a fault to every request until `proxy.heal()`.

The proxy forwards the `Host` header unchanged, because signatures contain it. It speaks HTTP/1.1 without TLS. One thread per connection.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

#: Headers that belong to one connection and are not forwarded.
_HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-connection"}
#: Credentials of S3 for a server that does not check them.
_ANY_KEY = "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
_HOLD_SECONDS_MAX = 120
_CODES = {500: "InternalError", 503: "SlowDown", 429: "TooManyRequests", 403: "AccessDenied", 412: "PreconditionFailed"}


@dataclass
class Request:
    """A request that the proxy saw, and the status that the client got; None if its connection was dropped, or until it is answered."""

    kind: str
    method: str
    path: str
    size_bytes: int
    status: int | None
    began_s: float = 0.0
    ended_s: float = 0.0


@dataclass(frozen=True)
class Fault:
    """What happens to a request.

    Attributes:
        name: `answer`, `answer_after`, `drop_before`, `drop_after`, `hold`, `truncate`, `corrupt`, `stall` or `stale`.
        status: of the answer, for the first two.
        code: the store's own code in the answer, such as `ExpiredToken`.
        seconds: the length of a stall.
    """

    name: str
    status: int = 0
    code: str = ""
    seconds: float = 0.0

    #: The connection ends before the request reaches the store.
    DROP_BEFORE: ClassVar[Fault]
    #: The store executes the request; then the connection ends without an answer.
    DROP_AFTER: ClassVar[Fault]
    #: The request reaches the store only after `CountingProxy.release`.
    HOLD: ClassVar[Fault]
    #: The answer ends in the middle of its body.
    TRUNCATE: ClassVar[Fault]
    #: A byte in the middle of the answer's body is changed.
    CORRUPT: ClassVar[Fault]
    #: The answer is the one that the same listing got first. Other requests get their own answers.
    STALE: ClassVar[Fault]
    #: The store does not accept the session token any more.
    EXPIRED: ClassVar[Fault]

    @classmethod
    def answer(cls, status: int, code: str = "") -> Fault:
        """Return a fault that answers with a status. The request does not reach the store."""
        return cls("answer", status, code or _CODES.get(status, "Error"))

    @classmethod
    def answer_after(cls, status: int, code: str = "") -> Fault:
        """Return a fault that answers with a status after the store has executed the request."""
        return cls("answer_after", status, code or _CODES.get(status, "Error"))

    @classmethod
    def stall(cls, seconds: float) -> Fault:
        """Return a fault that waits, and then drops the connection. The request does not reach the store."""
        return cls("stall", seconds=seconds)


Fault.DROP_BEFORE = Fault("drop_before")
Fault.DROP_AFTER = Fault("drop_after")
Fault.HOLD = Fault("hold")
Fault.TRUNCATE = Fault("truncate")
Fault.CORRUPT = Fault("corrupt")
Fault.STALE = Fault("stale")
Fault.EXPIRED = Fault("answer", 400, "ExpiredToken")


@dataclass
class _Planned:
    """An injected fault that waits for its requests."""

    fault: Fault
    matches: Callable[[str, str], bool]
    skip: int
    times: int


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass
class CountingProxy:
    """A running proxy.

    Attributes:
        delay_s: is added to every request, to show what waits for what.
        rename: pairs (client's beginning of a header, server's), for a server with another dialect. See `tests/kit/object_stores.py`.
    """

    target_port: int
    delay_s: float = 0.0
    rename: tuple[tuple[str, str], ...] = ()
    requests: list[Request] = field(default_factory=list)
    _planned: list[_Planned] = field(default_factory=list)
    _always: Fault | None = None
    _first_answers: dict[tuple[str, str], _Answer] = field(default_factory=dict)
    _released: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    @classmethod
    @contextmanager
    def before(cls, target_port: int, delay_s: float = 0.0, rename: tuple[tuple[str, str], ...] = ()) -> Iterator[CountingProxy]:
        """Run a proxy before a server on a port of this machine, until the block ends."""
        proxy = cls(target_port, delay_s, rename)
        handler = type("Handler", (_Handler,), {"proxy": proxy})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        proxy._server = server
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    @property
    def port(self) -> int:
        """The proxy's own port."""
        assert self._server is not None
        return int(self._server.server_address[1])

    @property
    def counts(self) -> dict[str, int]:
        """How many requests of each kind came since the last `reset`."""
        with self._lock:
            return dict(Counter(request.kind for request in self.requests))

    @property
    def total(self) -> int:
        """How many requests came since the last `reset`."""
        with self._lock:
            return len(self.requests)

    @property
    def depth(self) -> int:
        """How many of the requests came one after the other: the most of which no two were under way at the same time.

        So many times the latency of the store is waited for. Meaningful with a delay that is longer than the work between requests.
        """
        with self._lock:
            spans = sorted((request.ended_s, request.began_s) for request in self.requests)
        count = 0
        last_end_s = 0.0
        for ended_s, began_s in spans:
            if began_s >= last_end_s:
                count += 1
                last_end_s = ended_s
        return count

    def reset(self) -> None:
        """Forget the requests so far."""
        with self._lock:
            self.requests.clear()

    def inject(self, fault: Fault, kind: str = "", path: str = "", skip: int = 0, times: int = 1) -> None:
        """Let a fault happen to the next requests.

        Args:
            kind: of the requests. Empty: any kind.
            path: a part of the requests' path. Empty: any path.
            skip: how many matching requests pass before.
            times: how many matching requests the fault happens to.
        """

        def matches(its_kind: str, its_path: str) -> bool:
            return kind in ("", its_kind) and path in its_path

        with self._lock:
            self._planned.append(_Planned(fault, matches, skip, times))

    def fail_all(self, fault: Fault) -> None:
        """Let a fault happen to every request until `heal`."""
        with self._lock:
            self._always = fault

    def release(self) -> None:
        """Forward the requests that are held, now and later."""
        self._released.set()

    def heal(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._always = None
            self._planned.clear()

    def _take_fault(self, kind: str, path: str) -> Fault | None:
        with self._lock:
            for planned in self._planned:
                if planned.times == 0 or not planned.matches(kind, path):
                    continue
                if planned.skip > 0:
                    planned.skip -= 1
                    continue
                planned.times -= 1
                return planned.fault
            return self._always


def kind_of(method: str, target: str, headers: Mapping[str, str]) -> str:
    """Return the kind of a request to S3, Azure or Google Cloud Storage."""
    query = parse_qs(urlsplit(target).query, keep_blank_values=True)
    path = urlsplit(target).path
    if method == "POST":
        if "delete" in query or query.get("comp") == ["batch"]:
            return "delete_many"
        return "upload_begin" if "uploads" in query else "upload_complete"
    if method == "DELETE":
        return "upload_abort" if "uploadId" in query else "delete"
    if method == "PUT":
        if "partNumber" in query or query.get("comp") == ["block"]:
            return "upload_part"
        if query.get("comp") == ["blocklist"]:
            return "upload_complete"
        if any(name in headers for name in ("x-amz-copy-source", "x-ms-copy-source", "x-goog-copy-source")):
            return "copy"
        has_condition = "if-none-match" in headers or headers.get("x-goog-if-generation-match") == "0"
        return "put_new" if has_condition else "put"
    if method == "GET" and ("list-type" in query or query.get("comp") == ["list"] or path.count("/") <= 1):
        return "list"
    return method.lower()


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    proxy: ClassVar[CountingProxy]

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _handle(self) -> None:
        body = self._read_body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        kind = kind_of(self.command, self.path, headers)
        path = unquote(urlsplit(self.path).path)
        request = Request(kind, self.command, path, len(body), None, time.monotonic())
        with self.proxy._lock:  # before the answer: a client that has its answer finds the request counted
            self.proxy.requests.append(request)
        if self.proxy.delay_s:
            time.sleep(self.proxy.delay_s)
        # Before the answer is sent: the client's next request begins after this one has ended.
        request.ended_s = time.monotonic()
        request.status = self._answer(kind, self.proxy._take_fault(kind, path), body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle

    def _answer(self, kind: str, fault: Fault | None, body: bytes) -> int | None:
        """Answer the request as the fault says. Return the status; None if the connection was dropped."""
        if fault is None:
            return self._send(self._forward(body))
        if fault.name == "answer":
            return self._send_error(fault)
        if fault.name == "stall":
            time.sleep(fault.seconds)
        if fault.name in ("stall", "drop_before"):
            self._drop()
            return None
        if fault.name == "hold":
            self.proxy._released.wait(_HOLD_SECONDS_MAX)
            return self._send(self._forward(body))
        answer = self._forward(body)
        if fault.name == "answer_after":
            return self._send_error(fault)
        if fault.name == "drop_after":
            self._drop()
            return None
        if fault.name == "truncate":
            self._send(answer, body=answer.body[: len(answer.body) // 2])
            self._drop()
            return None
        if fault.name == "corrupt":
            changed = bytearray(answer.body)
            if changed:
                changed[len(changed) // 2] ^= 0xFF
            return self._send(answer, body=bytes(changed))
        if kind != "list":
            return self._send(answer)
        return self._send(self.proxy._first_answers.get((self.command, self.path), answer))

    def _read_body(self) -> bytes:
        if "chunked" in (self.headers.get("Transfer-Encoding") or "").lower():
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _forward(self, body: bytes) -> _Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.target_port, timeout=60)
        try:
            connection.putrequest(self.command, self._target(), skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                is_foreign = self.proxy.rename and name.lower() == "authorization"  # a server of another dialect cannot read it
                if name.lower() not in _HOP_HEADERS and name.lower() != "content-length" and not is_foreign:
                    connection.putheader(*self._translate(name, value))
            if self.proxy.rename:
                connection.putheader("Authorization", _ANY_KEY)
            if body or self.command in ("PUT", "POST"):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            response = connection.getresponse()
            headers = [(self._translate_back(name), value) for name, value in response.getheaders()]
            answer = _Answer(response.status, headers, response.read())
        finally:
            connection.close()
        self.proxy._first_answers.setdefault((self.command, self.path), answer)
        return answer

    def _target(self) -> str:
        """Return path and query for the server. Google's clients also encode slashes of keys, which S3's do not."""
        path, mark, query = self.path.partition("?")
        return quote(unquote(path), safe="/-_.~") + mark + query if self.proxy.rename else self.path

    def _translate(self, name: str, value: str) -> tuple[str, str]:
        """Return a header of a request as the server takes it."""
        for theirs, ours in self.proxy.rename:
            if name.lower().startswith(theirs):
                name = ours + name[len(theirs) :]
        return name, "*" if name.lower() == "if-none-match" else value

    def _translate_back(self, name: str) -> str:
        """Return the name of a header of an answer as the client takes it."""
        for theirs, ours in self.proxy.rename:
            if name.lower().startswith(ours):
                name = theirs + name[len(ours) :]
        return name

    def _send(self, answer: _Answer, body: bytes | None = None) -> int:
        """Send an answer. A body that is shorter than the answer's is announced with the full length."""
        self.send_response_only(answer.status)
        names = {name.lower() for name, _ in answer.headers}
        for name, value in answer.headers:
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        if "content-length" not in names and answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(answer.body)))
        with contextlib.suppress(OSError):  # a client that did not wait
            self.end_headers()
            self.wfile.write(answer.body if body is None else body)
            self.wfile.flush()
        return answer.status

    def _send_error(self, fault: Fault) -> int:
        text = f'<?xml version="1.0"?><Error><Code>{fault.code}</Code><Message>injected</Message></Error>'
        body = b"" if self.command == "HEAD" else text.encode()
        return self._send(_Answer(fault.status, [("Content-Type", "application/xml")], body))

    def _drop(self) -> None:
        """End the connection at once."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
