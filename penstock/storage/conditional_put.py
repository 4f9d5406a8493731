"""`check_conditional_put`: finds out whether a store honours conditional puts, before the first commit to a table there.

A conditional put creates an object only if its key is new. Some services with S3's interface ignore this condition and overwrite
the object. With these services two writers could both publish the same instant, and one commit would be lost without an error.
"""

from __future__ import annotations

import contextlib
import errno
import threading

from penstock import clock
from penstock.errors import AlreadyExists, PenstockError, StorageError, Unsupported
from penstock.storage.base import Storage, join
from penstock.storage.object_store import ObjectStorage

_lock = threading.Lock()
#: (kind, endpoint) of stores that were tried → whether they honour conditions.
_answers: dict[tuple[str, str], bool] = {}


def check_conditional_put(storage: Storage, folder: str) -> None:
    """Raise Unsupported if the store ignores the condition of conditional puts. Other storages always pass.

    The check puts one new key twice: the second put must fail. Then the key is deleted. The result is kept per endpoint as long
    as the process lives, so that later calls cost nothing.

    Args:
        folder: a folder that the caller may write to. The key is a unique file name in this folder.
    """
    if not isinstance(storage, ObjectStorage):
        return
    endpoint = dict(storage.settings.config).get("endpoint") or dict(storage.settings.config).get("base_url") or ""
    key = (storage.settings.kind, endpoint)
    with _lock:
        if key not in _answers:
            _answers[key] = _honours_conditions(storage, folder)
        honours = _answers[key]
    if not honours:
        raise Unsupported(
            f"the store at {endpoint or 'its public address'} ignores conditional puts (If-None-Match) or refuses them, so that "
            f"concurrent writers could overwrite each other's commits in {storage.uri(folder)}; use a store or version that "
            "honours them (Amazon S3, MinIO, SeaweedFS and Ceph do), or a lock that does not lie on this store "
            "(penstock.lock=zookeeper, hive_metastore or dynamodb) with "
            "hoodie.write.concurrency.mode=optimistic_concurrency_control"
        )


def forget_conditional_puts() -> None:
    """Forget the results of all checks, for tests."""
    with _lock:
        _answers.clear()


def _honours_conditions(storage: Storage, folder: str) -> bool:
    probe = join(folder, f".penstock-probe-{clock.new_uuid()}.tmp")
    try:
        try:
            storage.write_new(probe, b"first")
        except StorageError as e:
            if e.errno == errno.ENOTSUP:
                return False
            raise
        try:
            storage.write_new(probe, b"second")
        except AlreadyExists:
            return True
        return False
    finally:
        with contextlib.suppress(PenstockError):
            storage.delete_files([probe])
