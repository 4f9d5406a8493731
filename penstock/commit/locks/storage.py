"""The lock `storage`: numbered lease files next to the timeline. It needs no server.

The files are in `.hoodie/.aux/locks`:

* `<n>.lease` is created exclusively by the writer that acquires the lock as its n-th holder. No other process ever writes it. The
  holder replaces it to renew its lease.
* `<n>.released` ends lease n: its holder has released the lock, or a user has broken it.

The lease with the greatest number decides whether the lock is free. If it is released or expired, a contender creates the lease
file of the next number; if several contenders try, one succeeds. So a take-over is one atomic step, and it cannot hit a later
holder. The number grows with every holder, so it is a fencing number. `docs/decisions/0017-storage-lock.md` has the reasons and
the proof.

Hudi 1.x has a storage lock with another file, which Hudi changes by a conditional put. That lock and this one do not exclude each
other, so this lock refuses a table that has the file of Hudi's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock import clock
from penstock import options as o
from penstock.commit.locks.lease import Lease, Waits, Watch
from penstock.commit.locks.lock import LockContext, LockHolder, LockProvider
from penstock.errors import AlreadyExists, OptionError, Unsupported
from penstock.storage import check_conditional_put, join
from penstock.timeline.store import FOLDER

_FOLDER = ".hoodie/.aux/locks"
_HUDI_LOCK = ".hoodie/.locks/table_lock.json"
_LEASE = ".lease"
_RELEASED = ".released"
#: A contender that takes longer than this from its listing to its file starts again.
_DECIDE_S_MAX = 20.0
#: Files of a number are deleted when the next number is at least this old. It must be well above `_DECIDE_S_MAX`.
_KEEP_MS = 60_000


@dataclass(frozen=True)
class _Files:
    """The files of the lock as a listing found them.

    These are the time of each lease file by its number (when it was last written), and the numbers that have a `.released` file.
    """

    modified_ms: dict[int, int]
    released: frozenset[int]

    @property
    def latest(self) -> int:
        """The greatest number of a lease or release file; 0 if the lock was never acquired."""
        return max([0, *self.modified_ms, *self.released])

    @property
    def is_released(self) -> bool:
        """Whether the latest lease was released, or the lock was never acquired."""
        return self.latest == 0 or self.latest in self.released

    def list_old(self) -> list[int]:
        """Return the numbers whose files may be deleted, ascending: the lease file of the next number is over a minute old.

        All times are of the storage's clock: the time of the newest lease file counts as the current time.
        """
        now_ms = max(self.modified_ms.values(), default=0)
        old = []
        for number in sorted({*self.modified_ms, *self.released}):
            successor_ms = self.modified_ms.get(number + 1)
            if successor_ms is not None and now_ms - successor_ms > _KEEP_MS:
                old.append(number)
        return old


class StorageLock(LockProvider):
    """The lock of a table by numbered lease files next to its timeline."""

    name = "storage"

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self._storage = context.storage
        self._folder = join(context.base_path, _FOLDER)
        self._length_s = context.options[o.LOCK_STORAGE_VALIDITY_SECONDS]
        self._every_s = context.options[o.LOCK_STORAGE_RENEW_SECONDS]
        if 3 * self._every_s > self._length_s:
            raise OptionError(
                f"{o.LOCK_STORAGE_RENEW_SECONDS.key}={self._every_s} must be at most a third of "
                f"{o.LOCK_STORAGE_VALIDITY_SECONDS.key}={self._length_s}: lower the first: a lease must survive a failed renewal"
            )
        self._watch = Watch()
        self._lease: Lease | None = None
        self._number: int | None = None
        self._renewals = 0
        self._old: list[int] = []

    @property
    def place(self) -> str:
        """The folder of the lease files, for messages."""
        return f"lease files in {self._folder}"

    @property
    def fencing_number(self) -> int | None:
        """The number of the lease, which grows with every holder; None if this process has no lease."""
        return self._number

    def check(self) -> None:
        """Raise an error if the lock cannot work on this table.

        Raises:
            Unsupported: the table has the lock file of Hudi 1.x, which this lock does not exclude; or the table's store ignores
                conditional puts, so two contenders would create the same lease file.
        """
        self.check_store()
        path = join(self.context.base_path, _HUDI_LOCK)
        if self._storage.stat(path) is not None:
            raise Unsupported(
                f"the table has the storage lock of Hudi 1.x ({path}), which does not exclude Penstock's: use another lock for "
                f"both ({o.LOCK.key}=zookeeper or dynamodb), or delete the file if no writer of Hudi uses it any more"
            )

    def check_store(self) -> None:
        """Raise Unsupported if the table's store ignores conditional puts: two contenders would create the same lease file."""
        check_conditional_put(self._storage, join(self.context.base_path, FOLDER))

    def _take(self, mine: LockHolder, deadline_s: float) -> bool:
        waits = Waits(self.context.options, deadline_s)
        while True:
            began_s = clock.elapsed_s()
            files = self._list()
            if self._is_free(files):
                # Set before the file is created: `_drop` looks whether the file is there, whatever interrupts us here.
                self._number = files.latest + 1
                self._renewals = 0
                if self._create(mine, began_s):
                    self._old = files.list_old()
                    return True
                self._number = None
            if not waits.pause():
                return False

    def _create(self, mine: LockHolder, began_s: float) -> bool:
        """Create the lease file of the next number; return whether `mine` holds the lock with it.

        Args:
            began_s: the value of `clock.elapsed_s()` before the listing from which the next number was computed. If the listing
                is too old, the lease is released at once.
        """
        created_s = clock.elapsed_s()
        number = self._own_number
        try:
            self._storage.write_new(self._path(number), self._content(mine))
        except AlreadyExists:
            # A client that repeats a request after a lost answer finds its own file.
            if not self._has_file(mine, number):
                return False
        if clock.elapsed_s() - began_s > _DECIDE_S_MAX:
            # The listing is too old: files of this number may have been deleted since, and greater numbers exist.
            self._mark_released(number)
            return False
        self._lease = Lease(self._length_s, self._every_s, lambda: self._rewrite(mine))
        self._lease.start(created_s)
        return True

    def _drop(self, mine: LockHolder) -> None:
        lease = self._lease
        number = self._number
        self._lease = None
        self._number = None
        if lease is not None:
            lease.stop()
        if number is None:
            return
        if lease is not None or self._has_file(mine, number):
            self._mark_released(number)
        for old in self._old:
            self._storage.delete(self._path(old))
            self._storage.delete(self._path(old, _RELEASED))
        self._old = []

    def _is_mine(self, mine: LockHolder) -> bool:
        lease = self._lease
        if lease is None or not lease.is_valid:
            return False
        files = self._list()
        # Asked again after the listing, which may have taken long.
        return files.latest == self._number and not files.is_released and lease.is_valid

    def renew(self) -> bool:
        """Replace the lease file; return whether the lock is still held."""
        lease = self._lease
        return lease is not None and lease.renew()

    def _rewrite(self, mine: LockHolder) -> bool:
        """Replace the lease file of `mine`, so that contenders see a renewal. Return True; False if the lock was lost."""
        number = self._own_number
        files = self._list()
        if files.latest != number or files.is_released:
            return False
        self._renewals += 1
        self._storage.replace(self._path(number), self._content(mine))
        return True

    def holder(self) -> LockHolder | None:
        """Return the holder of the latest lease; None if it was released."""
        files = self._list()
        if files.is_released:
            return None
        content = self._read(files.latest)
        return _decode(content)[0] if content is not None else None

    def break_lock(self) -> LockHolder | None:
        """End the latest lease, and return its holder; None if the lock was free.

        Each lease has a numbered file of its own. So a process that takes the lock at the same moment keeps its lease.
        """
        files = self._list()
        if files.is_released:
            return None
        content = self._read(files.latest)
        self._mark_released(files.latest)
        return _decode(content or b"")[0]

    def _is_free(self, files: _Files) -> bool:
        """Whether the lock may be acquired: the latest lease is released or expired, or its holder's process has ended.

        Only the end of a process of this machine is noticed before its lease expires.
        """
        if files.is_released:
            return True
        content = self._read(files.latest)
        if content is None:
            return False  # deleted since the listing, so there are greater numbers: look again
        holder, length_s = _decode(content)
        if holder.is_gone:
            return True
        return self._watch.is_expired((files.latest, content), length_s or self._length_s)

    def _list(self) -> _Files:
        """List the files of the lock."""
        modified_ms: dict[int, int] = {}
        released: set[int] = set()
        for info in self._storage.list(self._folder):
            number, dot, kind = info.name.partition(".")
            if not number.isdigit():
                continue  # a temporary file
            if dot + kind == _LEASE:
                modified_ms[int(number)] = info.modified_ms
            elif dot + kind == _RELEASED:
                released.add(int(number))
        return _Files(modified_ms, frozenset(released))

    def _mark_released(self, number: int) -> None:
        """Create the file that ends a lease. Does nothing if it exists."""
        try:
            self._storage.write_new(self._path(number, _RELEASED), b"")
        except AlreadyExists:
            return

    def _has_file(self, mine: LockHolder, number: int) -> bool:
        """Whether the lease file of this number names `mine` as holder."""
        content = self._read(number)
        return content is not None and _decode(content)[0].owner == mine.owner

    def _read(self, number: int) -> bytes | None:
        """Return the content of a lease file; None if there is none."""
        try:
            return self._storage.read(self._path(number))
        except FileNotFoundError:
            return None

    def _content(self, mine: LockHolder) -> bytes:
        """Return the content for the lease file of `mine`. It differs after every renewal."""
        values = {"holder": json.loads(mine.encode()), "lease_s": self._length_s, "renewals": self._renewals}
        return json.dumps(values).encode()

    def _path(self, number: int, kind: str = _LEASE) -> str:
        """Return the path of a file of the lock. Numbers have leading zeros, so that a listing is in their order."""
        return join(self._folder, f"{number:012d}{kind}")

    @property
    def _own_number(self) -> int:
        """The number of the lease file that this object creates or has created."""
        assert self._number is not None
        return self._number


def _decode(content: bytes) -> tuple[LockHolder, float | None]:
    """Return the holder that a lease file names, and the length of its lease in seconds.

    If the content is not that of a lease file, the holder is a placeholder for messages, and the length is None.
    """
    try:
        values = json.loads(content)
        holder = LockHolder.decode(json.dumps(values["holder"]).encode())
        length_s = float(values["lease_s"])
    except (ValueError, TypeError, KeyError):
        holder = None
        length_s = None
    return holder or LockHolder("a lease file that does not name its holder"), length_s
