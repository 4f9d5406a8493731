"""A DynamoDB for tests: moto's server on a free port of this machine.

It serves one request at a time. moto itself does not protect a conditional write from a concurrent one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.kit.servers import ServerUnavailable

#: moto accepts any credentials, but boto3 wants some.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(frozen=True)
class DynamoDb:
    """A running server."""

    url: str

    def options(self, table: str, key: str) -> dict[str, str]:
        """Return Hudi's options of the lock."""
        return {
            "hoodie.write.lock.provider": "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
            "hoodie.write.lock.dynamodb.table": table,
            "hoodie.write.lock.dynamodb.partition_key": key,
            "hoodie.write.lock.dynamodb.endpoint_url": self.url,
        }

    def client(self) -> Any:
        """Return a client for a test."""
        import boto3

        return boto3.client("dynamodb", region_name="us-east-1", endpoint_url=self.url)


@contextmanager
def running_dynamodb() -> Iterator[DynamoDb]:
    """Run a server on a thread until the block ends, with credentials in the environment."""
    try:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server
    except ImportError:
        raise ServerUnavailable("DynamoDB needs the package moto with its server (make setup)") from None
    application: Any = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, threaded=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    with mock.patch.dict(os.environ, CREDENTIALS):
        thread.start()
        try:
            yield DynamoDb(f"http://127.0.0.1:{server.port}")
        finally:
            server.shutdown()
            thread.join()
