"""HTTP servers for tests: one that records what it receives, and answers as the test says, also badly."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


@dataclass
class Recorder:
    """A running server. `answer` is called for each request, and answers it."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    #: Answers a request; the default is status 200.
    answer: Callable[[BaseHTTPRequestHandler], None] = field(default_factory=lambda: answer_with(200))
    #: Set when the server ends: a handler that waits for it is released.
    over: threading.Event = field(default_factory=threading.Event)
    scheme: str = "http"

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"{self.scheme}://127.0.0.1:{self.port}"


def answer_with(*statuses: int) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return a function that answers with these statuses in turn, and then always with the last."""
    left = list(statuses)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(left.pop(0) if len(left) > 1 else left[0])
        handler.send_header("Location", "/elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def answer_garbage(handler: BaseHTTPRequestHandler) -> None:
    """Answer with bytes that are not HTTP."""
    handler.wfile.write(b"\x00\x01 this is not HTTP\r\n\r\n")


@contextmanager
def running_server(tls: ssl.SSLContext | None = None) -> Iterator[Recorder]:
    """Run a server until the block ends."""
    recorder = Recorder(scheme="https" if tls else "http")

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            recorder.received.append(Received(self.command, self.path, dict(self.headers.items()), body))
            recorder.answer(self)

        do_POST = do_PUT = do_GET = do_DELETE = _handle

        def log_message(self, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    recorder.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        recorder.over.set()
        server.shutdown()
        server.server_close()
