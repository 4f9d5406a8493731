"""The known lock providers: maps from the value of an option to the class of the lock, as `module:class`.

To add a lock provider, write a subclass of `LockProvider` in a module of its own in `penstock/commit/locks`, and add one line to
`LOCKS`. `penstock.commit.locks` imports a class when a lock is made: options are in a layer below locks.
"""

from __future__ import annotations

from typing import Final

#: Value of `penstock.lock` → module and class of the lock.
LOCKS: Final = {
    "in_process": "penstock.commit.locks.in_process:InProcessLock",
    "filesystem": "penstock.commit.locks.file_system:FileSystemLock",
    "storage": "penstock.commit.locks.storage:StorageLock",
    "zookeeper": "penstock.commit.locks.zookeeper:ZookeeperLock",
    "hive_metastore": "penstock.commit.locks.hive_metastore:HiveMetastoreLock",
    "dynamodb": "penstock.commit.locks.dynamodb:DynamoDbLock",
}

_PACKAGE = "org.apache.hudi.client.transaction.lock"

#: Hudi's class, as the value of `hoodie.write.lock.provider` → value of `penstock.lock`.
HUDI_LOCKS: Final = {
    f"{_PACKAGE}.InProcessLockProvider": "in_process",
    f"{_PACKAGE}.FileSystemBasedLockProvider": "filesystem",
    f"{_PACKAGE}.ZookeeperBasedLockProvider": "zookeeper",
    # Of Hudi 1.x. Its lock file has another form, see `penstock/commit/locks/storage.py`.
    f"{_PACKAGE}.StorageBasedLockProvider": "storage",
    "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider": "hive_metastore",
    # Its place in Hudi before 0.14, which many scripts still name.
    "org.apache.hudi.hive.HiveMetastoreBasedLockProvider": "hive_metastore",
    "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider": "dynamodb",
}
