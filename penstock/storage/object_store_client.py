"""Clients of object stores: `ClientSettings`, a picklable value, and `client_of`, which returns the process's client for it.

A client holds connections and threads of Rust, so it is never pickled: the settings travel to the workers, and each process makes
its own client at first use. obstore cannot be used in a process that was forked from a process which has used obstore: its
threads do not exist in the fork, and a call would wait forever. In a forked process `client_of` raises an error. Spark's worker
daemon uses no storage before it forks, so its workers are not affected.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from penstock.errors import StorageError, Unsupported
from penstock.storage.settings import Found

#: Clients that a process keeps. Each bucket with each identity is one.
_MOST_CLIENTS = 32
_CONNECT_SECONDS = 5
#: The longest time for one request. A part of an upload or a range takes far less.
_REQUEST_SECONDS = 600

Kind = Literal["s3", "gcs", "azure"]
_EXTRAS = {"s3": "s3", "gcs": "gcs", "azure": "azure"}


@dataclass(frozen=True)
class ClientSettings:
    """Everything that a client of obstore needs, for one bucket. Holds secrets, which `repr` leaves out.

    Attributes:
        config: obstore's settings that are not credentials.
        credentials: keys, tokens and secrets. Empty if the client itself finds credentials, such as the role of the machine.
        found: the settings that were found, each with its place. Secrets are masked.
        stall_ms: a request fails if the store sends nothing for this time.
        retry_ms: a failed request is repeated within this time.
    """

    kind: Kind
    bucket: str
    config: tuple[tuple[str, str], ...] = ()
    credentials: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    found: tuple[Found, ...] = field(default=(), compare=False, repr=False)
    stall_ms: int = 20_000
    retry_ms: int = 120_000

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values of all credentials, which must not appear in messages."""
        return tuple(value for _, value in self.credentials if value)

    def origin(self, name: str) -> str:
        """Return the place in which a setting was found, for messages; "the default" if no place has it.

        Args:
            name: the name of the setting, such as "s3 endpoint".
        """
        return next((each.origin for each in self.found if each.name == name), "the default")

    def value(self, name: str) -> str | None:
        """Return the value of a setting as messages show it, masked if it is secret; None if no place has it.

        Args:
            name: the name of the setting, such as "s3 endpoint".
        """
        return next((each.value for each in self.found if each.name == name), None)


_lock = threading.Lock()
_clients: OrderedDict[tuple[ClientSettings, bool], Any] = OrderedDict()
#: The process that first made a client. A forked child has another pid.
_first_user: list[int] = []


def client_of(settings: ClientSettings, *, repeats: bool = True) -> Any:
    """Return the client of this process for these settings. The first call makes it.

    Args:
        repeats: whether the client itself repeats failed requests. False for conditional puts: if the first request succeeded and
            its answer was lost, the store answers the repeated one with "the file exists".

    Raises:
        Unsupported: obstore is not installed.
        StorageError: this process was forked from a process that had used an object store.
    """
    with _lock:
        if _first_user and _first_user[0] != os.getpid():
            raise StorageError(
                f"this process was forked from one that had used {settings.kind} already, which obstore does not support; start "
                'processes with multiprocessing.get_context("spawn")'
            )
        key = (settings, repeats)
        if key not in _clients:
            _clients[key] = _make_client(settings, repeats)
            _first_user[:] = [os.getpid()]
        _clients.move_to_end(key)
        while len(_clients) > _MOST_CLIENTS:
            _clients.popitem(last=False)
        return _clients[key]


def import_obstore(kind: str) -> Any:
    """Return the module obstore.

    Args:
        kind: the kind of store, for the error: s3, gcs or azure.

    Raises:
        Unsupported: obstore is not installed.
    """
    try:
        import obstore
        import obstore.store
    except ImportError:
        extra = _EXTRAS[kind]
        raise Unsupported(f"tables on {kind} need the package obstore; run: pip install 'penstock[{extra}]'") from None
    return obstore


def _make_client(settings: ClientSettings, repeats: bool) -> Any:
    store = import_obstore(settings.kind).store
    config: dict[str, Any] = dict(settings.config)
    arguments: dict[str, Any] = {
        "client_options": _client_options(settings),
        "retry_config": _retry_config(settings, repeats),
    }
    if settings.kind == "s3":
        if settings.credentials:
            # A provider, because obstore would add the session token of the environment to keys that are given directly.
            arguments["credential_provider"] = _constant(dict(settings.credentials))
        return store.S3Store(settings.bucket, config=config, **arguments)
    config.update(dict(settings.credentials))
    if settings.kind == "gcs":
        return store.GCSStore(settings.bucket, config=config, **arguments)
    return store.AzureStore(settings.bucket, config=config, **arguments)


def _constant(keys: dict[str, str]) -> Callable[[], dict[str, Any]]:
    """Return a function that obstore calls for credentials, and that always returns `keys`."""
    credential = {"token": None, **keys, "expires_at": None}
    return lambda: credential


def _client_options(settings: ClientSettings) -> dict[str, Any]:
    config = dict(settings.config)
    address = config.get("endpoint") or config.get("base_url") or ""
    return {
        "allow_http": address.startswith("http://"),
        "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
        "read_timeout": timedelta(milliseconds=settings.stall_ms),
        "timeout": timedelta(seconds=_REQUEST_SECONDS),
    }


def _retry_config(settings: ClientSettings, repeats: bool) -> dict[str, Any]:
    """Return obstore's settings for repeating failed requests.

    The pauses double from 100 ms to 5 s, with random deviations. All repeats are within `retry_ms` of the settings.

    Args:
        repeats: whether requests are repeated at all.
    """
    return {
        "max_retries": 20 if repeats else 0,
        "retry_timeout": timedelta(milliseconds=settings.retry_ms),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
    }
