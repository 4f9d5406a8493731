"""Opens paths of object stores and HDFS: splits the path, finds the settings, and makes the storage."""

from __future__ import annotations

import re
from dataclasses import replace

from penstock.errors import OptionError
from penstock.options import STORAGE_RETRY_MS, STORAGE_TIMEOUT_MS
from penstock.storage.azure_settings import find_azure_settings
from penstock.storage.base import Storage, split_scheme
from penstock.storage.bucket_region import find_bucket_region
from penstock.storage.gcs_settings import find_gcs_settings
from penstock.storage.hdfs import HdfsStorage, import_hdfs_native
from penstock.storage.hdfs_settings import find_hdfs_settings
from penstock.storage.object_store import ObjectStorage
from penstock.storage.object_store_client import ClientSettings, import_obstore
from penstock.storage.s3_settings import DEFAULT, REGION, find_s3_settings
from penstock.storage.settings import Sources, explain_found


def open_object_store(path: str, sources: Sources) -> tuple[Storage, str]:
    """Return the storage of a bucket, and the path in the bucket.

    Args:
        path: the path with its scheme, such as `s3a://bucket/folder`.
        sources: the places where settings are looked up.

    Raises:
        OptionError: the path names no bucket, or a setting has a wrong value.
        Unsupported: obstore is not installed, or a setting is not supported.
    """
    scheme, authority, below = split_remote(path)
    if not authority:
        raise OptionError(f"the path {path!r} names no bucket; write {scheme}://bucket/folder")
    settings = _find_settings(scheme, authority, sources)
    import_obstore(settings.kind)
    settings = _with_region_of_bucket(settings, sources)
    settings = replace(
        settings,
        found=tuple(sources.found),
        stall_ms=sources.get_number(STORAGE_TIMEOUT_MS),
        retry_ms=sources.get_number(STORAGE_RETRY_MS),
    )
    return ObjectStorage(scheme, authority, settings), below


def _with_region_of_bucket(settings: ClientSettings, sources: Sources) -> ClientSettings:
    """Return the settings with the region of the bucket, if it is a bucket of Amazon and no setting names the region.

    Amazon is asked for the region. In any other case, or if Amazon does not answer, the settings are returned unchanged.
    """
    config = dict(settings.config)
    if settings.kind != "s3" or "endpoint" in config or settings.origin(REGION.name) != DEFAULT:
        return settings
    region = find_bucket_region(settings.bucket)
    if region is None:
        return settings
    sources.found = [each for each in sources.found if each.name != REGION.name]
    sources.add(REGION.name, region, "the bucket")
    return replace(settings, config=tuple(sorted({**config, "region": region}.items())))


def open_hdfs(path: str, sources: Sources) -> tuple[Storage, str]:
    """Return the storage of a HDFS, and the path in it. `hdfs:///folder` is a folder of the default file system.

    Raises:
        OptionError: the path names no name node, and there is no default file system.
        Unsupported: hdfs-native is not installed.
    """
    _, authority, below = split_remote(path)
    import_hdfs_native()
    return HdfsStorage(*find_hdfs_settings(authority, sources)), below


def explain_remote(storage: Storage, path: str) -> str:
    """Return the path with its scheme, then one line per setting: its value, masked if secret, and where it was found."""
    if isinstance(storage, ObjectStorage):
        found = storage.settings.found
    elif isinstance(storage, HdfsStorage):
        found = storage.found
    else:
        found = ()
    return f"{storage.uri(path)}\n{explain_found(found)}"


def split_remote(path: str) -> tuple[str, str, str]:
    """Split a path into (scheme, bucket or host, path from the root). Empty components are left out, as Hadoop does.

    Raises:
        OptionError: the path holds a password, or the component `.` or `..`.
    """
    scheme, rest = split_scheme(path)
    match = re.match("^//([^/]*)(.*)$", rest, re.DOTALL)
    authority, below = (match[1], match[2]) if match else ("", rest)
    if ":" in authority.rpartition("@")[0]:
        raise OptionError(f"the {scheme} path holds a secret before the '@'; set the keys in the session's settings instead")
    components = [component for component in below.split("/") if component]
    if "." in components or ".." in components:
        raise OptionError(f"the path {path!r} holds '.' or '..'; write the folder's full path")
    return scheme, authority, "/" + "/".join(components)


def _find_settings(scheme: str, authority: str, sources: Sources) -> ClientSettings:
    if scheme == "gs":
        return find_gcs_settings(authority, sources)
    if scheme in ("s3", "s3a", "s3n"):
        return find_s3_settings(authority, sources)
    return find_azure_settings(authority, sources)
