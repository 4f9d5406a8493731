"""The lock `hive_metastore`: an exclusive lock on a table of the Hive metastore, as HiveMetastoreBasedLockProvider of Hudi takes.

The metastore queues requests, so the lock is granted in the order in which contenders came. A thread sends heartbeats. A lock
without heartbeat is removed after the metastore's `hive.txn.timeout`, but only if the metastore runs with DbTxnManager and its
housekeeping; otherwise the lock of a dead writer has to be broken.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.commit.locks.hive_connection import LockConnection
from penstock.commit.locks.lease import Lease, Waits
from penstock.commit.locks.lock import LockContext, LockHolder, LockProvider
from penstock.errors import OptionError, PenstockError, StorageError
from penstock.hive_metastore import metastore_types, parse_uris
from penstock.process import this_process

_AGENT = "penstock"
#: The metastore's column has room for 128 characters.
_AGENT_CHARACTERS_MAX = 128
#: Seconds that the metastore may take to answer one call.
_ANSWER_S = 60.0
#: The lease is the metastore's own, which the client does not know: the metastore is asked instead.
_NO_END_S = float("inf")
_RETRIES = 15
_RETRY_MS = 1000
_RETRY_MS_MAX = 16_000


class HiveMetastoreLock(LockProvider):
    """An exclusive lock on a table, in the Hive metastore."""

    name = "hive_metastore"

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self._database = _require(context, o.LOCK_METASTORE_DATABASE)
        self._table = _require(context, o.LOCK_METASTORE_TABLE)
        self._named_by, self._uris = _find_uris(context)
        addresses = parse_uris(self._uris, f"option '{self._named_by}'")
        self._types = metastore_types()
        self._metastore = LockConnection(addresses, _ANSWER_S)
        self._lock_id: int | None = None
        self._lease: Lease | None = None

    @property
    def place(self) -> str:
        """The table and the metastore, for messages."""
        return f"metastore table {self._database}.{self._table} at {self._uris}"

    @property
    def fencing_number(self) -> int | None:
        """The metastore's id of the lock that this process holds or waits for; None if there is none.

        Ids grow, so a later holder has a greater one.
        """
        return self._lock_id

    def check(self) -> None:
        """Raise StorageError if the metastore does not answer, OptionError if it does not have the table.

        A missing table is accepted if catalog sync is on (`hoodie.datasource.hive_sync.enable`), because it will register the
        table.
        """
        is_synced = self.context.options[o.HIVE_SYNC_ENABLE] or self.context.options[o.META_SYNC_ENABLE]
        try:
            self._call_with_retries("get_table", self._database, self._table)
        except self._types.NoSuchObjectException:
            if is_synced:
                return
            raise OptionError(
                f"the metastore at {self._uris} has no table {self._database}.{self._table}, which "
                f"{o.LOCK_METASTORE_DATABASE.key} and {o.LOCK_METASTORE_TABLE.key} name: create it, or correct the "
                "names; all writers of the table must use the same"
            ) from None

    def _take(self, mine: LockHolder, deadline_s: float) -> bool:
        waits = Waits(self.context.options, deadline_s)
        state = self._types.LockState
        with self._typed_errors():
            answer = self._call_with_retries("lock", self._request(mine))
            self._lock_id = answer.lockid
            while answer.state == state.WAITING:
                if not waits.pause():
                    return False
                answer = self._call("check_lock", self._types.CheckLockRequest(lockid=answer.lockid))
        if answer.state != state.ACQUIRED:
            return False
        every_s = self.context.options[o.LOCK_HEARTBEAT_MS] / 1000
        self._lease = Lease(_NO_END_S, every_s, lambda: self._beat(answer.lockid))
        self._lease.start(clock.elapsed_s())
        return True

    def _drop(self, mine: LockHolder) -> None:
        lease = self._lease
        lock_id = self._lock_id
        self._lease = None
        self._lock_id = None
        if lease is not None:
            lease.stop()
        if lock_id is None:
            # Interrupted before the answer of `lock` was read: its id is found by what the request says of its sender.
            lock_id = self._find_id(mine)
        if lock_id is not None:
            with self._typed_errors(), suppress(self._types.NoSuchLockException):
                self._call_with_retries("unlock", self._types.UnlockRequest(lockid=lock_id))

    def _find_id(self, mine: LockHolder) -> int | None:
        """Return the id of the lock request that `mine` sent; None if the metastore has no request of it."""
        agent = _agent_of(mine)
        return next((each.lockid for each in self._list() if each.agentInfo == agent), None)

    def _is_mine(self, mine: LockHolder) -> bool:
        lock_id = self._lock_id
        if lock_id is None or self._lease is None or not self._lease.is_valid:
            return False
        answer = self._call("check_lock", self._types.CheckLockRequest(lockid=lock_id))
        return bool(answer.state == self._types.LockState.ACQUIRED)

    def renew(self) -> bool:
        """Send a heartbeat; return whether the lock is still held."""
        lease = self._lease
        return lease is not None and lease.renew()

    def _beat(self, lock_id: int) -> bool:
        """Send a heartbeat. Return True; False if the metastore has removed the lock."""
        types = self._types
        try:
            self._call("heartbeat", types.HeartbeatRequest(lockid=lock_id))
        except (types.NoSuchLockException, types.NoSuchTxnException, types.TxnAbortedException):
            return False
        return True

    def holder(self) -> LockHolder | None:
        """Return the holder of the lock; None if it is free. Of a writer of Hudi only user and host are known."""
        holding = self._list_holding()
        return _holder_of(holding[0]) if holding else None

    def break_lock(self) -> LockHolder | None:
        """Release the lock of its holder in the metastore. Return the holder; None if the lock was free."""
        holding = self._list_holding()
        if not holding:
            return None
        with self._typed_errors(), suppress(self._types.NoSuchLockException):
            self._call("unlock", self._types.UnlockRequest(lockid=holding[0].lockid))
        return _holder_of(holding[0])

    def close(self) -> None:
        """Release the lock and close the connection."""
        super().close()
        self._metastore.close()

    def _list_holding(self) -> list[Any]:
        """Return the locks of the table that are granted."""
        return [each for each in self._list() if each.state == self._types.LockState.ACQUIRED]

    def _list(self) -> list[Any]:
        """Return all locks of the table and requests for them, in the order of their ids."""
        with self._typed_errors():
            answer = self._call_with_retries("show_locks", self._types.ShowLocksRequest())
        # The request's filter is younger than Hive 2.1, so the answer is filtered here. Hive keeps names in lower case.
        named = (self._database.lower(), self._table.lower())
        found = [each for each in answer.locks or [] if (each.dbname, each.tablename) == named]
        return sorted(found, key=lambda each: each.lockid)

    def _request(self, mine: LockHolder) -> Any:
        """Return the Thrift object with which `mine` requests an exclusive lock on the table."""
        types = self._types
        component = types.LockComponent(
            type=types.LockType.EXCLUSIVE,
            level=types.LockLevel.TABLE,
            dbname=self._database,
            tablename=self._table,
            operationType=types.DataOperationType.NO_TXN,
        )
        return types.LockRequest(component=[component], user=_user(), hostname=mine.host, agentInfo=_agent_of(mine))

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the metastore once, by its name in Thrift, and return its answer."""
        return self._metastore.call(name, *arguments)

    def _call_with_retries(self, name: str, *arguments: Any) -> Any:
        """Call a function of the metastore and return its answer. If the metastore refuses the connection, wait and call again.

        Raises:
            StorageError: the metastore refused the last retry too, or the call failed in another way.
        """
        options = self.context.options
        retries = options[o.LOCK_RETRIES]
        first_ms = options[o.LOCK_RETRY_MS]
        longest_ms = options[o.LOCK_RETRY_MS_MAX]
        wait_s = (_RETRY_MS if first_ms is None else first_ms) / 1000
        deadline_s = clock.elapsed_s() + options[o.LOCK_WAIT_MS] / 1000
        with self._typed_errors():
            for _ in range(_RETRIES if retries is None else retries):
                try:
                    return self._call(name, *arguments)
                except Exception as e:
                    if not _is_refused(e) or clock.elapsed_s() + wait_s > deadline_s:
                        raise
                clock.sleep_s(wait_s)
                wait_s = min(wait_s * 2, (_RETRY_MS_MAX if longest_ms is None else longest_ms) / 1000)
            return self._call(name, *arguments)

    @contextmanager
    def _typed_errors(self) -> Iterator[None]:
        """Convert errors of the network in the `with` block to Penstock's. Errors that the metastore answers pass unchanged."""
        types = self._types
        answers = (types.NoSuchObjectException, types.NoSuchLockException, types.NoSuchTxnException, types.TxnAbortedException)
        try:
            yield
        except (PenstockError, *answers):
            raise
        except Exception as e:  # errors of sockets, of Thrift, and of the server
            message = getattr(e, "message", None) or str(e)
            raise StorageError(
                f"the Hive metastore at {self._uris} ({self._named_by}) did not answer as expected: {type(e).__name__}: "
                f"{message}. Nothing is published; see whether it is up and has lock tables, then write again"
            ) from e


def _is_refused(error: Exception) -> bool:
    """Whether the metastore refused the connection. Then the call was never sent, and may be repeated."""
    from thriftpy2.transport import TTransportException

    return isinstance(error, TTransportException) and error.type == TTransportException.NOT_OPEN


def _holder_of(lock: Any) -> LockHolder:
    """Return the holder of a lock in the metastore; for a writer of Hudi, its user and host."""
    agent, _, rest = (lock.agentInfo or "").partition(" ")
    parts = rest.split(" ")
    if agent != _AGENT or len(parts) != 4 or not parts[1].isdigit():
        owner = f"user {lock.user} on {lock.hostname} (lock {lock.lockid})"
        return LockHolder(owner, lock.hostname, since_ms=lock.acquiredat)
    owner, pid, started, instant = parts
    here = this_process()
    # The column is too short for the machine's identity. Of a process of this host it is known.
    machine = here.machine if lock.hostname == here.host else ""
    return LockHolder(owner, lock.hostname, int(pid), started, instant, lock.acquiredat, machine)


def _agent_of(mine: LockHolder) -> str:
    """Return the text that the metastore stores about the sender of a lock request: owner id, process and instant."""
    return f"{_AGENT} {mine.owner} {mine.pid} {mine.process_started} {mine.instant}"[:_AGENT_CHARACTERS_MAX]


def _user() -> str:
    """Return the name of the user that runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run under a number without a name
        return "unknown"


def _find_uris(context: LockContext) -> tuple[str, str]:
    """Return the option that names the metastore, and its value. Raise OptionError if no option does."""
    uris = context.options[o.LOCK_METASTORE_URIS]
    if uris:
        return o.LOCK_METASTORE_URIS.key, uris
    if context.options.is_set(o.HIVE_SYNC_METASTORE_URIS):
        return o.HIVE_SYNC_METASTORE_URIS.key, context.options[o.HIVE_SYNC_METASTORE_URIS]
    raise OptionError(f"the lock of the Hive metastore needs {o.LOCK_METASTORE_URIS.key}, such as thrift://host:9083")


def _require(context: LockContext, option: o.Option[str | None]) -> str:
    """Return the value of an option. Raise OptionError if it is not set."""
    value = context.options[option]
    if not value:
        raise OptionError(f"the lock of the Hive metastore needs {option.key}: {option.doc[0].lower()}{option.doc[1:]}")
    return value
