"""Arrow files of object stores, which are kept in memory."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.storage import ObjectStorage, arrow_files
from penstock.storage.object_store_client import ClientSettings


class EmptyStore(ObjectStorage):
    """A store without a single file."""

    def open(self, path: str) -> Any:
        raise FileNotFoundError(path)


def test_a_file_that_cannot_be_opened_leaves_nothing_behind() -> None:
    store = EmptyStore("s3", "bucket", ClientSettings("s3", "bucket"))
    with pytest.raises(FileNotFoundError):
        arrow_files.open_arrow_file(store, "/staged/0.arrow")
    assert (store, "/staged/0.arrow") not in arrow_files._fetching
