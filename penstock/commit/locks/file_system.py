"""The lock `filesystem`: the file `lock` in `.hoodie`, at the same place as that of Hudi's FileSystemBasedLockProvider.

The file exists as long as the lock is held, so Penstock and Hudi exclude each other. A file of Penstock names its holder. A file
of Hudi is empty or names a thread. A writer of Hudi that waits too long for the lock deletes the file, although another holder
wrote it. Therefore `is_held` reads the file.

A contender takes the lock over if its file is older than `hoodie.write.lock.filesystem.expire`; or at once, if the file names a
process of this machine that has ended. Two contenders must not both do so: the second would delete the new file of the first. So
a contender first creates a guard file, named by a hash of the old file's content and time. It deletes the old file only if it has
created the guard and the old file has not changed. The lock `storage` needs no guards, and is safe also if a contender is stopped
at the worst moment.
"""

from __future__ import annotations

import hashlib

from penstock import clock
from penstock import options as o
from penstock.commit.locks.lease import Lease, Waits
from penstock.commit.locks.lock import LockContext, LockHolder, LockProvider
from penstock.errors import AlreadyExists, OptionError
from penstock.storage import FileInfo, check_conditional_put, is_older, join, open_storage

_NAME = "lock"
#: A guard whose contender has died is ignored after this time, or after the expiry of the lock if that is longer.
_GUARD_S_MIN = 60.0


class FileSystemLock(LockProvider):
    """The lock of a table that is held as long as a file exists."""

    name = "filesystem"

    def __init__(self, context: LockContext, expire_s: float | None = None) -> None:
        """Make the lock of a table.

        Args:
            expire_s: the age at which a lock file is abandoned, for tests. None: `hoodie.write.lock.filesystem.expire` decides.
        """
        super().__init__(context)
        folder = context.options[o.LOCK_FILESYSTEM_PATH]
        self._storage = context.storage
        self._folder = join(context.base_path, ".hoodie")
        if folder and folder.strip():
            self._storage, self._folder = open_storage(folder.strip())
        self._path = join(self._folder, _NAME)
        self._expire_s = context.options[o.LOCK_FILESYSTEM_EXPIRE_MINUTES] * 60.0 if expire_s is None else expire_s
        self._lease: Lease | None = None

    @property
    def place(self) -> str:
        """The path of the lock file, for messages."""
        return f"file {self._path}"

    def check(self) -> None:
        """Raise an error if the lock file cannot be used.

        Raises:
            OptionError: there is a folder where the lock file should be.
            Unsupported: the store ignores conditional puts, so two contenders would both create the file.
        """
        self.check_store()
        found = self._storage.stat(self._path)
        if found is not None and found.is_dir:
            raise OptionError(
                f"{self._path} is a folder, not a lock file: set {o.LOCK_FILESYSTEM_PATH.key} to a folder in which Penstock can "
                f"create the file {_NAME!r}"
            )

    def check_store(self) -> None:
        """Raise Unsupported if the store of the lock file ignores conditional puts: two contenders would both create the file."""
        check_conditional_put(self._storage, self._folder)

    def _take(self, mine: LockHolder, deadline_s: float) -> bool:
        self.check()
        waits = Waits(self.context.options, deadline_s)
        while True:
            began_s = clock.elapsed_s()
            try:
                self._storage.write_new(self._path, mine.encode())
            except AlreadyExists:
                if not self._remove_abandoned() and not waits.pause():
                    return False
                continue
            if self._expire_s:
                self._lease = Lease(self._expire_s, self._expire_s / 4, lambda: self._rewrite(mine))
                self._lease.start(began_s)
            return True

    def _drop(self, mine: LockHolder) -> None:
        lease = self._lease
        self._lease = None
        # A file whose time is over is left to contenders: one of them may be about to replace it.
        may_delete = lease is None or lease.is_valid
        if lease is not None:
            lease.stop()
        if may_delete and self._has_file(mine):
            self._storage.delete(self._path)

    def _is_mine(self, mine: LockHolder) -> bool:
        lease = self._lease
        if self._expire_s and (lease is None or not lease.is_valid):
            return False
        return self._has_file(mine)

    def renew(self) -> bool:
        """Write the lock file again, so that it has a new time; return whether the lock is still held."""
        lease = self._lease
        return self.is_held() if lease is None else lease.renew()

    def _rewrite(self, mine: LockHolder) -> bool:
        """Write the lock file again if it still names `mine` as holder. Return whether it does."""
        if not self._has_file(mine):
            return False
        self._storage.replace(self._path, mine.encode())
        return True

    def _has_file(self, mine: LockHolder) -> bool:
        """Whether the lock file names `mine` as holder."""
        try:
            found = LockHolder.decode(self._storage.read(self._path))
        except FileNotFoundError:
            return False
        return found is not None and found.owner == mine.owner

    def holder(self) -> LockHolder | None:
        """Return the holder that the lock file names; None if there is no lock file.

        Of a writer of Hudi only the time of the file and the thread that it names are known.
        """
        found = self._read()
        return None if found is None else _holder_of(*found)

    def break_lock(self) -> LockHolder | None:
        """Delete the lock file. Return the holder that it named; None if there was no file."""
        found = self._read()
        if found is None:
            return None
        self._storage.delete(self._path)
        return _holder_of(*found)

    def _read(self) -> tuple[bytes, FileInfo] | None:
        """Return the content of the lock file, and its size and time; None if there is no file."""
        try:
            content = self._storage.read(self._path)
        except FileNotFoundError:
            return None
        info = self._storage.stat(self._path)
        return None if info is None else (content, info)

    def _remove_abandoned(self) -> bool:
        """Delete the lock file if its holder is dead. Return whether to try at once to acquire the lock.

        True if the file is gone or has changed since it was read. False if the holder may be alive, or if another contender is
        about to delete the file.
        """
        found = self._read()
        if found is None:
            return True
        if not self._is_abandoned(*found):
            return False
        content, info = found
        version = hashlib.sha256(content + str(info.modified_ms).encode()).hexdigest()[:16]
        guards = self._create_guard(version)
        if not guards:
            return False
        try:
            if self._read() == found:
                self._storage.delete(self._path)
        finally:
            # In order: as long as the last guard exists, no other contender can create one for this version.
            for guard in guards:
                self._storage.delete(guard)
        return True

    def _is_abandoned(self, content: bytes, info: FileInfo) -> bool:
        """Whether the holder of the lock file is dead: it is an ended process of this machine, or the file is too old."""
        holder = LockHolder.decode(content)
        if holder is not None and holder.is_gone:
            return True
        return self._expire_s > 0 and is_older(self._storage, info, int(self._expire_s * 1000), self._folder)

    def _create_guard(self, version: str) -> list[str]:
        """Create the guard file that allows this contender alone to delete one version of the lock file.

        If a guard of this version exists and is old, its contender has died. That guard is not deleted, because two contenders
        could do so at the same time. Instead the guard with the next number is created.

        Args:
            version: a hash of the content and time of the lock file; part of the guard's name.

        Returns:
            The paths of the old guards, then of the new one; an empty list if another contender has a guard.
        """
        guards: list[str] = []
        while True:
            path = join(self._folder, f".{_NAME}-{version}-{len(guards)}.guard")
            guards.append(path)
            try:
                self._storage.write_new(path, b"")
                return guards
            except AlreadyExists:
                info = self._storage.stat(path)
            limit_ms = int(max(self._expire_s, _GUARD_S_MIN) * 1000)
            if info is None or not is_older(self._storage, info, limit_ms, self._folder):
                return []


def _holder_of(content: bytes, info: FileInfo) -> LockHolder:
    """Return the holder of a lock file. A file of another origin than Penstock is described by its age and first words."""
    holder = LockHolder.decode(content)
    if holder is not None:
        return holder
    text = " ".join(content.decode(errors="replace").split())[:80]
    return LockHolder(f"a writer of Hudi, or another program ({text or 'its file is empty'})", since_ms=info.modified_ms)
