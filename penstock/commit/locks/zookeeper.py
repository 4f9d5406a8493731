"""The lock `zookeeper`: Curator's recipe of a mutex, as Hudi's ZookeeperBasedLockProvider uses it, with the package kazoo.

Every contender creates an ephemeral node `_c_<uuid>-lock-<sequence>` below `<base_path>/<lock_key>`. The one with the lowest
sequence number has the lock; each other one watches the node before its own. So the lock is granted in the order in which
contenders came, also among writers of Hudi and Penstock. A node vanishes with the session of its process.

Curator sorts nodes by what follows `lock-` in their names. kazoo's own recipe uses other names, so it does not exclude Curator's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.commit.locks.lock import LockContext, LockHolder, LockProvider
from penstock.errors import OptionError, PenstockError, StorageError

_MARK = "lock-"
_PORT = 2181
#: Hudi's settings of the connection.
_RETRIES = 15
_RETRY_MS = 1000
_RETRY_MS_MAX = 16_000


class ZookeeperLock(LockProvider):
    """The lock of a table by ephemeral nodes of ZooKeeper."""

    name = "zookeeper"

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        options = context.options
        self._hosts = make_hosts(_require(context, o.LOCK_ZOOKEEPER_URL), options[o.LOCK_ZOOKEEPER_PORT])
        base_path = _require(context, o.LOCK_ZOOKEEPER_BASE_PATH)
        if not base_path.startswith("/"):
            raise OptionError(f"option '{o.LOCK_ZOOKEEPER_BASE_PATH.key}' is '{base_path}'; it must begin with /, such as /hudi")
        key = options[o.LOCK_ZOOKEEPER_KEY] or context.table_name
        if not key:
            raise OptionError(f"{self._named} needs {o.LOCK_ZOOKEEPER_KEY.key}: the name of the lock of this table")
        self._path = f"{base_path.rstrip('/')}/{key.strip('/')}"
        retries = options[o.LOCK_RETRIES]
        first_ms = options[o.LOCK_RETRY_MS]
        longest_ms = options[o.LOCK_RETRY_MS_MAX]
        self._retries = _RETRIES if retries is None else retries
        self._first_s = (_RETRY_MS if first_ms is None else first_ms) / 1000
        self._longest_s = (_RETRY_MS_MAX if longest_ms is None else longest_ms) / 1000
        self._kazoo = _import_kazoo()
        self._client: Any = None
        self._client_lock = threading.Lock()
        self._node: str | None = None

    @property
    def place(self) -> str:
        """The node and the servers, for messages."""
        return f"ZooKeeper node {self._path} at {self._hosts}"

    @property
    def fencing_number(self) -> int | None:
        """The sequence number of this process's node, greater than that of every earlier contender; None if it has no node."""
        digits = "" if self._node is None else _sequence_of(self._node)
        return int(digits) if digits.isdigit() else None

    @property
    def _named(self) -> str:
        return f"{o.LOCK.key}=zookeeper"

    def check(self) -> None:
        """Raise StorageError if ZooKeeper does not answer, OptionError if it demands authentication or refuses the path."""
        with self._typed_errors():
            self._ask(self._connect().ensure_path_async, self._path)

    def _take(self, mine: LockHolder, deadline_s: float) -> bool:
        with self._typed_errors():
            client = self._connect()
            while True:
                node = self._find_or_create(client, mine)
                contenders = self._list(client)
                if node not in contenders:
                    continue  # the session ended, or the node was deleted to break the lock: start again
                place = contenders.index(node)
                if place == 0:
                    self._node = node
                    return True
                if not self._wait_for(client, contenders[place - 1], deadline_s):
                    return False

    def _find_or_create(self, client: Any, mine: LockHolder) -> str:
        """Return the name of the node of `mine`. The node is created if there is none.

        The node is looked for first: if a connection was lost while the node was created, it may exist already.
        """
        for _ in range(self._retries):
            with suppress(self._kazoo.exceptions.ConnectionLoss):
                return self._find(client, mine) or self._create(client, mine)
        return self._find(client, mine) or self._create(client, mine)

    def _create(self, client: Any, mine: LockHolder) -> str:
        """Create the node of `mine`; return its name.

        If the connection is lost, an error is raised, and the node may exist or not.
        """
        name = f"{self._path}/{_prefix_of(mine)}"
        made = client.create_async(name, mine.encode(), ephemeral=True, sequence=True, makepath=True)
        return str(made.get(timeout=self._answer_s)).rpartition("/")[2]

    def _wait_for(self, client: Any, node: str, deadline_s: float) -> bool:
        """Wait until a node is deleted or the connection changes, and return True. Return False if the deadline passes first."""
        changed = threading.Event()

        def on_change(_: object) -> None:
            changed.set()

        client.add_listener(on_change)
        try:
            if self._ask(client.exists_async, f"{self._path}/{node}", watch=on_change) is None:
                return True
            return changed.wait(max(0.0, deadline_s - clock.elapsed_s()))
        finally:
            client.remove_listener(on_change)

    def _drop(self, mine: LockHolder) -> None:
        client = self._client
        self._node = None
        if client is None:
            return
        try:
            # Without the search a node whose creation was interrupted would stay as long as the session.
            node = self._find(client, mine)
            if node is not None:
                with suppress(self._kazoo.exceptions.NoNodeError):
                    self._ask(client.delete_async, f"{self._path}/{node}")
        except Exception:
            self._disconnect()  # the node ends with the session
            raise

    def _is_mine(self, mine: LockHolder) -> bool:
        client = self._client
        node = self._node
        if client is None or node is None:
            return False
        # With a timeout: kazoo would wait for a server that is down until it is back.
        found = client.exists_async(f"{self._path}/{node}").get(timeout=self._answer_s)
        return found is not None and client.client_id is not None and found.ephemeralOwner == client.client_id[0]

    def holder(self) -> LockHolder | None:
        """Return the holder of the lock, the owner of its first node; None if there is no node.

        For a holder that uses Curator, such as real Hudi, only the machine's address is known.
        """
        with self._typed_errors():
            first = self._read_first()
        return None if first is None else first[1]

    def break_lock(self) -> LockHolder | None:
        """Delete the first node, which holds the lock. Return its holder; None if there is no node."""
        with self._typed_errors():
            first = self._read_first()
            if first is None:
                return None
            with suppress(self._kazoo.exceptions.NoNodeError):
                self._ask(self._connect().delete_async, f"{self._path}/{first[0]}")
            return first[1]

    def close(self) -> None:
        """Release the lock and end the session."""
        super().close()
        self._disconnect()

    def _read_first(self) -> tuple[str, LockHolder] | None:
        """Return the first node and its holder; None if there is no node."""
        client = self._connect()
        for node in self._list(client):
            with suppress(self._kazoo.exceptions.NoNodeError):  # deleted since the listing
                data, stat = self._ask(client.get_async, f"{self._path}/{node}")
                holder = LockHolder.decode(data)
                if holder is None:
                    host = data.decode(errors="replace")
                    holder = LockHolder(f"a writer of Hudi at {host or 'an unknown host'}", host, since_ms=stat.ctime)
                return node, holder
        return None

    def _list(self, client: Any) -> list[str]:
        """Return the nodes of all contenders, in the order in which they get the lock."""
        try:
            return sorted(self._ask(client.get_children_async, self._path), key=_sequence_of)
        except self._kazoo.exceptions.NoNodeError:
            return []

    def _find(self, client: Any, mine: LockHolder) -> str | None:
        """Return the node of `mine`; None if there is none."""
        return next((node for node in self._list(client) if node.startswith(_prefix_of(mine))), None)

    def _ask(self, call: Any, *arguments: Any, **named: Any) -> Any:
        """Send a request to ZooKeeper and return the answer. Send it again if the connection is lost, until the timeout.

        The timeout `_answer_s` is for all attempts together: kazoo itself would wait until a server that is down is back.

        Args:
            call: an asynchronous method of the client, whose request may be sent twice without harm.
            arguments: the arguments of the method.
            named: the keyword arguments of the method.
        """
        deadline_s = clock.elapsed_s() + self._answer_s
        wait_s = self._first_s
        for _ in range(self._retries):
            try:
                return call(*arguments, **named).get(timeout=max(0.0, deadline_s - clock.elapsed_s()))
            except (self._kazoo.exceptions.ConnectionLoss, self._kazoo.exceptions.SessionExpiredError):
                if clock.elapsed_s() + wait_s > deadline_s:
                    raise
            clock.sleep_s(wait_s)
            wait_s = min(wait_s * 2, self._longest_s)
        return call(*arguments, **named).get(timeout=max(0.0, deadline_s - clock.elapsed_s()))

    @property
    def _answer_s(self) -> float:
        """The timeout for an answer of ZooKeeper, in seconds."""
        return self.context.options[o.LOCK_ZOOKEEPER_CONNECTION_MS] / 1000

    def _connect(self) -> Any:
        """Return a client with a session, which is opened at the first call."""
        with self._client_lock:
            if self._client is None:
                self._client = self._open_client()
            return self._client

    def _open_client(self) -> Any:
        """Open a session. kazoo connects again by itself when the connection is lost."""
        client = self._kazoo.client.KazooClient(self._hosts, timeout=self.context.options[o.LOCK_ZOOKEEPER_SESSION_MS] / 1000)
        try:
            client.start(timeout=self._answer_s)
        except BaseException:
            client.stop()
            client.close()
            raise
        return client

    def _disconnect(self) -> None:
        """End the session, and with it all nodes that it has."""
        with self._client_lock:
            client = self._client
            self._client = None
        if client is not None:
            # Without a connection the server does not learn of the end of the session: then the server ends it after its timeout.
            with suppress(Exception):
                client.stop()
                client.close()

    @contextmanager
    def _typed_errors(self) -> Iterator[None]:
        """Convert errors of kazoo inside the `with` block to Penstock's errors."""
        exceptions = self._kazoo.exceptions
        try:
            yield
        except PenstockError:
            raise
        except (exceptions.NoAuthError, exceptions.AuthFailedError) as e:
            raise OptionError(
                f"ZooKeeper at {self._hosts} demands authentication for {self._path} ({type(e).__name__}), which Penstock does "
                f"not send: set {o.LOCK_ZOOKEEPER_BASE_PATH.key} to a node that every client may change, or use another lock"
            ) from e
        except (exceptions.InvalidACLError, exceptions.BadArgumentsError, ValueError) as e:
            raise OptionError(
                f"{self._path} is no path of ZooKeeper ({e}): correct {o.LOCK_ZOOKEEPER_BASE_PATH.key} or "
                f"{o.LOCK_ZOOKEEPER_KEY.key}"
            ) from e
        except (exceptions.KazooException, self._kazoo.handlers.threading.KazooTimeoutError) as e:
            raise StorageError(
                f"ZooKeeper does not answer at {self._hosts} ({type(e).__name__}: {e}), which {o.LOCK_ZOOKEEPER_URL.key} names. "
                f"Nothing is published; see whether it is up, or raise {o.LOCK_ZOOKEEPER_CONNECTION_MS.key}="
                f"{self.context.options[o.LOCK_ZOOKEEPER_CONNECTION_MS]}"
            ) from e


def make_hosts(url: str, port: int | None) -> str:
    """Return the hosts as kazoo takes them: each with a port.

    Hudi 0.15 ignores `hoodie.write.lock.zookeeper.port`, so users write the port into the url. Both forms are accepted.
    """
    hosts, slash, root = url.partition("/")
    named = []
    for host in hosts.split(","):
        host = host.strip()
        # An IPv6 address is written in brackets, so a colon after them begins the port.
        has_port = ":" in host.rpartition("]")[2]
        if host:
            named.append(host if has_port else f"{host}:{port or _PORT}")
    return f"{','.join(named)}{slash}{root}"


def _prefix_of(mine: LockHolder) -> str:
    """Return the name of the node of `mine`, without its sequence number."""
    return f"_c_{mine.owner}-{_MARK}"


def _sequence_of(node: str) -> str:
    """Return the part of a node's name that Curator sorts by."""
    _, mark, sequence = node.rpartition(_MARK)
    return sequence if mark else node


def _require(context: LockContext, option: o.Option[str | None]) -> str:
    """Return the value of an option. Raise OptionError if it is not set."""
    value = context.options[option]
    if not value:
        raise OptionError(f"the ZooKeeper lock needs {option.key}: {option.doc[0].lower()}{option.doc[1:]}")
    return value


def _import_kazoo() -> Any:
    """Return the package kazoo. Raise OptionError if it is not installed."""
    try:
        import kazoo.client
        import kazoo.exceptions
        import kazoo.handlers.threading
    except ImportError:
        raise OptionError(f"{o.LOCK.key}=zookeeper needs the package kazoo: pip install 'penstock[zookeeper]'") from None
    return kazoo
