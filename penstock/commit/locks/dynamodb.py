"""The lock `dynamodb`: an item of a DynamoDB table in the form of AWS's lock client, as Hudi's DynamoDBBasedLockProvider has it.

The item has the attributes `key` (the name of the lock), `ownerName`, `leaseDuration` (milliseconds), `recordVersionNumber`, and
`data`, in which Penstock names its process. Every renewal changes the version number.

A contender reads the item repeatedly. If it sees the same version number for longer than the lease, the lease has expired. Then
it replaces the item, on the condition that the version number is still the same. So the clocks of machines need not agree. The
release deletes the item.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.commit.locks.lease import Lease, Waits, Watch
from penstock.commit.locks.lock import LockContext, LockHolder, LockProvider
from penstock.errors import OptionError, PenstockError, StorageError

_KEY = "key"
_OWNER = "ownerName"
_LEASE = "leaseDuration"
_VERSION = "recordVersionNumber"
_DATA = "data"
#: An item that another client has released and not deleted.
_RELEASED = "isReleased"
#: DynamoDB takes keys up to this length.
_KEY_BYTES_MAX = 2048
_NAMES = {"#k": _KEY, "#v": _VERSION}
_IS_SAME = "attribute_exists(#k) AND #v = :seen"


class DynamoDbLock(LockProvider):
    """The lock of a table by an item of a DynamoDB table, which is written with conditional puts."""

    name = "dynamodb"

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        options = context.options
        self._table = options[o.LOCK_DYNAMODB_TABLE]
        self._key = (
            (options[o.LOCK_DYNAMODB_PARTITION_KEY] or context.table_name).encode()[:_KEY_BYTES_MAX].decode(errors="ignore")
        )
        if not self._key:
            raise OptionError(
                f"{o.LOCK.key}=dynamodb needs {o.LOCK_DYNAMODB_PARTITION_KEY.key}: the name of the lock of this table"
            )
        self._region = options[o.LOCK_DYNAMODB_REGION]
        if not options.is_set(o.LOCK_DYNAMODB_REGION):
            self._region = os.environ.get("AWS_REGION") or self._region
        self._length_ms = options[o.LOCK_WAIT_MS]  # as in Hudi
        self._client = self._make_client()
        self._watch = Watch()
        self._lease: Lease | None = None
        self._version = ""
        self._has_table = False

    @property
    def place(self) -> str:
        """The item and its DynamoDB table, for messages."""
        return f"DynamoDB item {self._key} of table {self._table}"

    def check(self) -> None:
        """Check that DynamoDB can be used. Create the DynamoDB table if there is none.

        Raises:
            OptionError: there are no credentials.
            StorageError: DynamoDB does not answer or refuses the request, or the new table cannot be used in time.
        """
        with self._typed_errors():
            self._require_table()

    def _take(self, mine: LockHolder, deadline_s: float) -> bool:
        waits = Waits(self.context.options, deadline_s)
        with self._typed_errors():
            self._require_table()
            while True:
                item = self._read()
                if self._is_free(item):
                    began_s = clock.elapsed_s()
                    if self._put(mine, item):
                        length_s = self._length_ms / 1000
                        self._lease = Lease(length_s, length_s / 3, lambda: self._touch(mine))
                        self._lease.start(began_s)
                        return True
                if not waits.pause():
                    return False

    def _is_free(self, item: dict[str, Any] | None) -> bool:
        """Whether the lock may be acquired.

        It may if there is no item, if the item is marked as released, if the holder's process has ended, or if the lease has
        expired.
        """
        if item is None or item.get(_RELEASED, {}).get("S") == "1":
            return True
        holder = _holder_of(item)
        if holder.is_gone:
            return True
        return self._watch.is_expired(_text(item, _VERSION), int(_text(item, _LEASE) or self._length_ms) / 1000)

    def _put(self, mine: LockHolder, old: dict[str, Any] | None) -> bool:
        """Create or replace the item so that it names `mine` as owner. Return True; False if another contender was faster.

        Args:
            old: the item that was read before. It is replaced if it still has the same version number. None: there was no item.
        """
        self._version = clock.new_uuid()
        item = {
            _KEY: {"S": self._key},
            _OWNER: {"S": mine.owner},
            _LEASE: {"S": str(self._length_ms)},
            _VERSION: {"S": self._version},
            _DATA: {"B": mine.encode()},
        }
        if old is None:
            condition: dict[str, Any] = {
                "ConditionExpression": "attribute_not_exists(#k)",
                "ExpressionAttributeNames": {"#k": _KEY},
            }
        else:
            condition = {
                "ConditionExpression": _IS_SAME,
                "ExpressionAttributeNames": _NAMES,
                "ExpressionAttributeValues": {":seen": {"S": _text(old, _VERSION)}},
            }
        if self._conditionally("put_item", Item=item, **condition):
            return True
        # boto3 repeats a request after a lost answer: then the item is already there.
        found = self._read()
        return found is not None and _text(found, _OWNER) == mine.owner

    def _touch(self, mine: LockHolder) -> bool:
        """Write a new version number into the item if `mine` still owns it. Return whether `mine` does."""
        new = clock.new_uuid()
        is_mine = self._conditionally(
            "update_item",
            Key={_KEY: {"S": self._key}},
            UpdateExpression="SET #v = :new",
            ConditionExpression=f"{_IS_SAME} AND #o = :owner",
            ExpressionAttributeNames={**_NAMES, "#o": _OWNER},
            ExpressionAttributeValues={":seen": {"S": self._version}, ":new": {"S": new}, ":owner": {"S": mine.owner}},
        )
        if is_mine:
            self._version = new
            return True
        found = self._read()
        if found is not None and _text(found, _OWNER) == mine.owner:
            self._version = _text(found, _VERSION)  # the answer to the last renewal was lost
            return True
        return False

    def _drop(self, mine: LockHolder) -> None:
        lease = self._lease
        self._lease = None
        if lease is not None:
            lease.stop()
        # By owner alone: after an interrupted call the version is not known. The owner differs for each acquisition.
        with self._typed_errors():
            self._delete(mine.owner)

    def _delete(self, owner: str) -> bool:
        """Delete the item if its owner name is `owner`; return whether it was deleted."""
        return self._conditionally(
            "delete_item",
            Key={_KEY: {"S": self._key}},
            ConditionExpression="attribute_exists(#k) AND #o = :owner",
            ExpressionAttributeNames={"#k": _KEY, "#o": _OWNER},
            ExpressionAttributeValues={":owner": {"S": owner}},
        )

    def _is_mine(self, mine: LockHolder) -> bool:
        lease = self._lease
        if lease is None or not lease.is_valid:
            return False
        item = self._read()
        # Asked again after the request, which may have taken long.
        return item is not None and _text(item, _OWNER) == mine.owner and lease.is_valid

    def renew(self) -> bool:
        """Write a new version number into the item; return whether the lock is still held."""
        lease = self._lease
        return lease is not None and lease.renew()

    def holder(self) -> LockHolder | None:
        """Return the holder that the item names; None if the lock is free. Of a writer of Hudi only the owner name is known."""
        with self._typed_errors():
            item = self._read()
        if item is None or item.get(_RELEASED, {}).get("S") == "1":
            return None
        return _holder_of(item)

    def break_lock(self) -> LockHolder | None:
        """Delete the item, unless it has another owner by then. Return the holder that it named; None if there was no item."""
        with self._typed_errors():
            item = self._read()
            if item is None:
                return None
            self._delete(_text(item, _OWNER))
            return _holder_of(item)

    def _read(self) -> dict[str, Any] | None:
        """Return the item; None if there is none."""
        try:
            answer = self._client.get_item(TableName=self._table, Key={_KEY: {"S": self._key}}, ConsistentRead=True)
        except self._client.exceptions.ResourceNotFoundException:
            return None
        item: dict[str, Any] | None = answer.get("Item")
        return item

    def _conditionally(self, call: str, **arguments: Any) -> bool:
        """Change the item under a condition; return whether the condition was met.

        Args:
            call: the method of DynamoDB's client, such as `put_item`.
            arguments: the arguments of the method, with the condition and without the name of the table.
        """
        try:
            getattr(self._client, call)(TableName=self._table, **arguments)
        except self._client.exceptions.ConditionalCheckFailedException:
            return False
        except self._client.exceptions.ResourceNotFoundException:
            if call != "delete_item":
                raise
            return False
        return True

    def _require_table(self) -> None:
        """Create the DynamoDB table if there is none, and wait until it can be used."""
        if self._has_table:
            return
        exceptions = self._client.exceptions
        try:
            state = self._client.describe_table(TableName=self._table)["Table"]["TableStatus"]
        except exceptions.ResourceNotFoundException:
            state = self._create_table()
        deadline_s = clock.elapsed_s() + self.context.options[o.LOCK_DYNAMODB_CREATION_MS] / 1000
        while state not in ("ACTIVE", "UPDATING"):
            if clock.elapsed_s() > deadline_s:
                raise StorageError(
                    f"DynamoDB has not finished table {self._table} in {o.LOCK_DYNAMODB_CREATION_MS.key}="
                    f"{self.context.options[o.LOCK_DYNAMODB_CREATION_MS]} ms: try again, or raise the option"
                )
            clock.sleep_s(0.5)
            state = self._client.describe_table(TableName=self._table)["Table"]["TableStatus"]
        self._has_table = True

    def _create_table(self) -> str:
        """Create the DynamoDB table, unless another writer is creating it. Return its status: `CREATING`.

        The caller waits until the status is `ACTIVE`.
        """
        options = self.context.options
        capacity: dict[str, Any] = {}
        if options[o.LOCK_DYNAMODB_BILLING] == "PROVISIONED":
            capacity["ProvisionedThroughput"] = {
                "ReadCapacityUnits": options[o.LOCK_DYNAMODB_READ_CAPACITY],
                "WriteCapacityUnits": options[o.LOCK_DYNAMODB_WRITE_CAPACITY],
            }
        with suppress(self._client.exceptions.ResourceInUseException):
            self._client.create_table(
                TableName=self._table,
                KeySchema=[{"AttributeName": _KEY, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": _KEY, "AttributeType": "S"}],
                BillingMode=options[o.LOCK_DYNAMODB_BILLING],
                **capacity,
            )
        return "CREATING"

    def _make_client(self) -> Any:
        """Return a client of DynamoDB. Raise OptionError if boto3 is not installed."""
        try:
            import boto3.session
            from botocore.config import Config
        except ImportError:
            raise OptionError(f"{o.LOCK.key}=dynamodb needs the package boto3: pip install 'penstock[dynamodb]'") from None
        # The timeouts are below the lease, so that a request that hangs does not outlast the lock.
        answer_s = max(1.0, min(10.0, self._length_ms / 3000))
        config = Config(connect_timeout=answer_s, read_timeout=answer_s, retries={"mode": "standard", "total_max_attempts": 3})
        with self._typed_errors():
            # A session of its own: that of the module is shared, and not made for several threads.
            return boto3.session.Session().client(
                "dynamodb",
                region_name=self._region,
                endpoint_url=self.context.options[o.LOCK_DYNAMODB_ENDPOINT] or None,
                config=config,
            )

    @contextmanager
    def _typed_errors(self) -> Iterator[None]:
        """Convert errors of boto3 inside the `with` block to Penstock's errors."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

        at = f"{o.LOCK_DYNAMODB_REGION.key}={self._region}"
        if self.context.options[o.LOCK_DYNAMODB_ENDPOINT]:
            at = f"{o.LOCK_DYNAMODB_ENDPOINT.key}={self.context.options[o.LOCK_DYNAMODB_ENDPOINT]}"
        try:
            yield
        except PenstockError:
            raise
        except (NoCredentialsError, PartialCredentialsError) as e:
            raise OptionError(
                f"DynamoDB ({at}) needs credentials, and there are none ({e}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "a profile, or the role of the machine"
            ) from e
        except (BotoCoreError, ClientError, ValueError) as e:
            raise StorageError(
                f"DynamoDB ({at}, table {self._table}) failed: {type(e).__name__}: {e}. Nothing is published; see whether it can "
                "be reached and the table may be read and written, then write again"
            ) from e


def _text(item: dict[str, Any], name: str) -> str:
    """Return a text attribute of an item; empty if the item lacks it."""
    return str(item.get(name, {}).get("S", ""))


def _holder_of(item: dict[str, Any]) -> LockHolder:
    """Return the owner of an item. An owner of Hudi has only a name."""
    holder = LockHolder.decode(item.get(_DATA, {}).get("B", b""))
    # AWS's client keeps the data of the last owner, so the data count only if the names agree.
    if holder is not None and holder.owner == _text(item, _OWNER):
        return holder
    return LockHolder(f"a writer of Hudi named {_text(item, _OWNER)}")
