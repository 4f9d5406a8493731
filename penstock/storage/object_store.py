"""`ObjectStorage`: files in S3, Google Cloud Storage or Azure Blob Storage, through obstore.

A path is `/` and the key of an object. There are no folders: a folder exists as long as there is a file below it. `write_new` is
a conditional put: the store creates the object atomically, and only if its key is new. Two methods differ from a file system:
`move_tree` copies and deletes file by file, and a file from `create` appears as a whole when its stream is closed.

Hadoop creates empty objects named `folder/` for folders. obstore cannot delete these objects, and lists each as an empty file
`folder`. `list_tree` leaves them out. `delete_tree` leaves them in the bucket, where they do no harm.
"""

from __future__ import annotations

import builtins
import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from penstock import clock
from penstock.errors import AlreadyExists, CommitUnknown, StorageError
from penstock.storage.base import FileInfo, Storage
from penstock.storage.object_store_client import ClientSettings, client_of, import_obstore
from penstock.storage.object_store_errors import call, code_of, convert, is_unanswered, mask_secrets, repeat_listing
from penstock.storage.object_store_streams import Upload, open_reader, writable_file

#: Files that a move copies, or a listing checks, at once.
_AT_ONCE = 16
#: Keys in one request of a bulk delete, and in one page of a listing.
_DELETE_KEYS = 1000
_PAGE_KEYS = 1000
#: Ranges closer than this are fetched with one request.
_COALESCE_BYTES = 1024 * 1024
#: The name of the user metadata with the id of the call that created an object. Letters only: Azure allows nothing else.
_CREATOR = "penstockwrite"
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True)
class ObjectStorage:
    """A storage for the files of one bucket.

    Attributes:
        scheme: as the user wrote it, such as `s3a`.
        authority: bucket, or container and account, as the user wrote it.
        settings: address, credentials and timeouts for obstore's client. Holds secrets, which `repr` leaves out.
    """

    scheme: str
    authority: str
    settings: ClientSettings

    def __repr__(self) -> str:
        return f"ObjectStorage('{self.scheme}://{self.authority}')"

    @property
    def _store(self) -> Any:
        return client_of(self.settings)

    @property
    def _obstore(self) -> Any:
        return import_obstore(self.settings.kind)

    def _call(self, path: str, action: Callable[[], Any]) -> Any:
        return call(self.settings, self.uri(path), action)

    def uri(self, path: str) -> str:
        return f"{self.scheme}://{self.authority}{path}"

    # --- reading

    def read(self, path: str) -> bytes:
        return bytes(self._call(path, lambda: self._obstore.get(self._store, _key(path)).bytes()))

    def open(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(open_reader(self.settings, _key(path), self.uri(path)), mode="r")

    def map(self, path: str) -> pa.NativeFile:
        return self.open(path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        if not ranges:
            return []
        parts = self._call(
            path,
            lambda: self._obstore.get_ranges(
                self._store,
                _key(path),
                starts=[offset for offset, _ in ranges],
                lengths=[size for _, size in ranges],
                coalesce=_COALESCE_BYTES,
            ),
        )
        return [bytes(part) for part in parts]

    # --- writing

    def create(self, path: str) -> pa.NativeFile:
        """Create a data file.

        A file that fits in one part is a conditional put when it is closed, which raises `AlreadyExists`. A larger file is a
        multipart upload, which obstore cannot complete conditionally: only a file that exists when the upload begins is refused.
        Data files have unique names, so two writers never create the same one.
        """
        upload = Upload(
            self.settings, _key(path), self.uri(path), partial(self._refuse_existing, path), partial(self.write_new, path)
        )
        return writable_file(upload)

    def _refuse_existing(self, path: str) -> None:
        """Raise AlreadyExists if there is an object at the path."""
        if self._head(path) is not None:
            raise AlreadyExists(errno.EEXIST, "the file exists already", self.uri(path))

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: an object is durable when its request was answered."""

    def write_new(self, path: str, data: bytes) -> None:
        """Create a file with a conditional put. If the store does not answer, repeat the put, as long as the settings allow.

        Raises:
            AlreadyExists: the path is taken.
            CommitUnknown: the put was not answered, and the object cannot be read, so the file may or may not exist.
        """
        self._write_new(path, data, self.settings.retry_ms)

    def _write_new(self, path: str, data: bytes, retry_ms: int) -> None:
        """Create a file with a conditional put.

        If the store does not answer, the put may have taken effect or not. Then the object is read: its metadata has the id of
        the call of `write_new` that created the object. If it is the id of this call, the put has succeeded. If it is another
        id, the name is taken. If there is no object, the put is repeated.

        Args:
            retry_ms: the put is repeated within this time.

        Raises:
            AlreadyExists: the path is taken.
            CommitUnknown: the put was not answered, and the object cannot be read either.
        """
        creator = clock.new_uuid()
        deadline = clock.monotonic_s() + retry_ms / 1000
        pause_s = _FIRST_PAUSE_S
        is_unknown = False
        while True:
            try:
                self._put_new(path, data, creator)
                return
            except Exception as e:
                error = e
            if type(error).__name__ == "AlreadyExistsError" and code_of(error) != "ConditionalRequestConflict":
                # Without a put of unknown outcome before, the name was taken by another call.
                if is_unknown and self._is_created_by(path, data, creator) is True:
                    return
                raise AlreadyExists(errno.EEXIST, "the file exists already", self.uri(path))
            is_conflict = code_of(error) == "ConditionalRequestConflict"  # another put of this key is under way: ask again
            if not is_conflict and not is_unanswered(error):
                raise convert(error, self.settings, self.uri(path))
            if not is_conflict:
                is_unknown = True
                is_ours = self._look(path, data, creator, error)
                if is_ours is True:
                    return
                if is_ours is False:
                    raise AlreadyExists(errno.EEXIST, "the file exists already", self.uri(path))
            if clock.monotonic_s() + pause_s > deadline:
                raise convert(error, self.settings, self.uri(path))
            clock.sleep_s(pause_s * (0.5 + clock.random_fraction() / 2))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _put_new(self, path: str, data: bytes, creator: str) -> None:
        client = client_of(self.settings, repeats=False)
        self._obstore.put(client, _key(path), data, mode="create", attributes={_CREATOR: creator}, use_multipart=False)

    def _look(self, path: str, data: bytes, creator: str, error: Exception) -> bool | None:
        """Find out whether this call of `write_new` created the object, after a put that was not answered.

        Args:
            data: the content that the put sent.
            creator: the id of this call, which the put sent as metadata.
            error: the error of the put, for the message.

        Returns:
            True if this call created the object, False if another did; None if there is no object.

        Raises:
            CommitUnknown: the object cannot be read.
        """
        try:
            return self._is_created_by(path, data, creator)
        except StorageError as e:
            reason = f"{mask_secrets(str(error), self.settings)}; then {e}"
        raise CommitUnknown(
            f"{self.uri(path)} may have been created or not: the store did not answer, and cannot be read ({reason}); look at "
            "the timeline before you delete anything or write again"
        )

    def _is_created_by(self, path: str, data: bytes, creator: str) -> bool | None:
        """Whether the call of `write_new` with the id `creator` created the object; None if there is no object.

        If the store keeps no metadata of objects, the content is compared with `data` instead.
        """
        try:
            found = self._call(path, lambda: self._obstore.get(self._store, _key(path)))
        except FileNotFoundError:
            return None
        creators = {name.lower(): value for name, value in dict(found.attributes).items()}
        if _CREATOR in creators:
            return bool(creators[_CREATOR] == creator)
        # A store that keeps no user metadata: compare the content.
        return bool(bytes(self._call(path, found.bytes)) == data)

    def replace(self, path: str, data: bytes) -> None:
        self._call(path, lambda: self._obstore.put(self._store, _key(path), data, mode="overwrite", use_multipart=False))

    # --- looking

    def list(self, path: str) -> builtins.list[FileInfo]:
        prefix = _key(path)
        answer = self._call(path, lambda: repeat_listing(lambda: self._obstore.list_with_delimiter(self._store, prefix or None)))
        children = [_info(meta) for meta in answer["objects"] if meta["path"] != prefix]
        children += [FileInfo(f"/{folder}", 0, 0, is_dir=True) for folder in answer["common_prefixes"]]
        return sorted(children, key=lambda info: info.path)

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        return self._without_folder_objects(self._list_all(path))

    def _list_all(self, path: str) -> builtins.list[FileInfo]:
        """Return all objects below a folder, also the empty ones that Hadoop creates for folders."""
        files: builtins.list[FileInfo] = []
        for page in self._pages(path):
            files += page
        return files

    def list_tree_without(self, path: str, skipped: str, most_requests: int | None) -> builtins.list[FileInfo] | None:
        """Return all files below a folder, without those below its subfolder `skipped`; None if that takes too many requests.

        Args:
            skipped: the name of the subfolder to leave out.
            most_requests: the greatest number of requests for the listing; None: any number.
        """
        files: builtins.list[FileInfo] = []
        for number, page in enumerate(self._pages(path, f"{_key(path)}/{skipped}".lstrip("/"))):
            if most_requests is not None and number >= most_requests:
                return None
            files += page
        return self._without_folder_objects(files)

    def _without_folder_objects(self, files: builtins.list[FileInfo]) -> builtins.list[FileInfo]:
        """Return the files of a listing without the empty objects that Hadoop creates for folders."""
        folders = {info.path.rsplit("/", 1)[0] for info in files}
        doubtful = {info.path for info in files if info.size_bytes == 0 and "." not in info.name[1:]}
        markers = folders | self._missing(sorted(doubtful - folders))
        return [info for info in files if info.size_bytes > 0 or info.path not in markers]

    def _missing(self, paths: Sequence[str]) -> set[str]:
        """Return those of the paths at which there is no object. Makes one request per path.

        Called for empty files without an extension in a listing, each of which may stand for Hadoop's object `folder/`. Hudi's
        own empty files (requested instants and markers) have extensions, so they cost no request.
        """
        if not paths:
            return set()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(self._head, paths)
            return {path for path, info in zip(paths, found, strict=True) if info is None}

    def _pages(self, path: str, skipped: str = "") -> Iterator[builtins.list[FileInfo]]:
        """Yield all objects below a folder, one list per page of the store's listing, in the order of the keys.

        Args:
            skipped: the key of a folder whose objects are left out. Pages that have no other objects are not fetched; "" for
                none.
        """
        prefix = _key(path)
        last_key: str | None = None
        pages: Any = None

        def fetch() -> Any:
            nonlocal pages
            if pages is None:
                pages = iter(self._obstore.list(self._store, prefix or None, offset=last_key, chunk_size=_PAGE_KEYS))
            try:
                return next(pages, None)
            except Exception:
                pages = None  # a repeat goes on after the last page that came
                raise

        while True:
            page = self._call(path, lambda: repeat_listing(fetch))
            if page is None:
                return
            last_key = page[-1]["path"]
            if skipped:
                if last_key.startswith(f"{skipped}/") and len(page) == _PAGE_KEYS:
                    last_key = skipped + chr(ord("/") + 1)  # behind all keys of the folder
                    pages = None
                page = [meta for meta in page if not meta["path"].startswith(f"{skipped}/")]
            yield [_info(meta) for meta in page if meta["path"] != prefix]

    def stat(self, path: str) -> FileInfo | None:
        file = self._head(path) if _key(path) else None
        if file is not None:
            return file
        for page in self._pages(path):
            if page:
                return FileInfo(path, 0, page[0].modified_ms, is_dir=True)
        return None

    def _head(self, path: str) -> FileInfo | None:
        """Return path, size and modification time of an object; None if there is none."""
        try:
            return _info(self._call(path, lambda: self._obstore.head(self._store, _key(path))))
        except FileNotFoundError:
            return None

    # --- removing

    def delete(self, path: str) -> bool:
        """Delete a file. The store does not say whether the file existed, so a request looks it up first."""
        if self._head(path) is None:
            return False
        self.delete_files([path])
        return True

    def delete_files(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _DELETE_KEYS):
            some = [_key(path) for path in paths[start : start + _DELETE_KEYS]]
            try:
                self._call(paths[start], partial(self._obstore.delete, self._store, some))
            except FileNotFoundError:
                # GCS and Azure report a missing file, and may have stopped there.
                self._delete_one_by_one(some)

    def _delete_one_by_one(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                self._call(f"/{key}", partial(self._obstore.delete, self._store, key))
            except FileNotFoundError:
                continue

    def delete_tree(self, path: str) -> None:
        for page in self._pages(path):
            self.delete_files([info.path for info in page])

    def remove_empty(self, path: str) -> bool:
        """Return whether the folder does not exist, because no file is below it. Deletes nothing: there are no empty folders."""
        found = self.stat(path)
        return found is None or not found.is_dir

    def move_tree(self, path: str, to: str) -> None:
        """Copy every file to its new place, then delete the old ones. Not atomic: a crash leaves files at both places."""
        if self.stat(to) is not None:
            raise AlreadyExists(errno.EEXIST, "the folder exists already", self.uri(to))
        if self._head(path) is not None:
            old_paths = [path]
        else:
            old_paths = [info.path for info in self.list_tree(path)]
        if not old_paths:
            raise StorageError(errno.ENOENT, "no such folder", self.uri(path))
        new_paths = [to + old_path[len(path) :] for old_path in old_paths]
        copy_files(self, list(zip(old_paths, new_paths, strict=True)))
        self.delete_files(old_paths)

    def copy(self, path: str, to: str) -> None:
        """Copy a file within the store. A file at `to` is replaced. Raises StorageError if there is no file at `path`."""
        try:
            self._call(path, lambda: self._obstore.copy(self._store, _key(path), _key(to)))
        except FileNotFoundError as e:
            raise StorageError(errno.ENOENT, "the file was deleted while it was moved", self.uri(path)) from e

    def make_dirs(self, path: str) -> None:
        """Do nothing: there are no folders."""


def delete_trees(storage: Storage, paths: Sequence[str]) -> None:
    """Delete several folders and everything below them. On an object store, requests delete files of several folders at once."""
    if not isinstance(storage, ObjectStorage):
        for path in paths:
            storage.delete_tree(path)
        return
    found: builtins.list[str] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for files in pool.map(storage._list_all, paths):
            found += [info.path for info in files]
    storage.delete_files(found)


def copy_files(storage: Storage, pairs: Sequence[tuple[str, str]]) -> None:
    """Copy files to new paths, each (path, new path), concurrently. Files at the new paths are replaced.

    Raises:
        StorageError: a file does not exist, or the storage failed. Some of the files may have been copied.
    """
    if not isinstance(storage, ObjectStorage):
        for path, to in pairs:
            storage.replace(to, storage.read(path))
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for copied in [pool.submit(storage.copy, path, to) for path, to in pairs]:
            copied.result()


def write_new_within(storage: Storage, path: str, data: bytes, most_ms: int) -> None:
    """Create a file atomically and durably. On an object store the put is repeated for `most_ms` milliseconds at most.

    Raises:
        AlreadyExists: the path is taken.
        CommitUnknown: the storage did not answer, so the file may or may not exist.
    """
    if isinstance(storage, ObjectStorage):
        storage._write_new(path, data, min(most_ms, storage.settings.retry_ms))
    else:
        storage.write_new(path, data)


def has_whole_files(storage: Storage) -> bool:
    """Whether a new file appears as a whole when its stream is closed, never in part."""
    return isinstance(storage, ObjectStorage)


def list_tree_without(
    storage: Storage, path: str, skipped: str, most_requests: int | None = None
) -> builtins.list[FileInfo] | None:
    """Return all files below a folder, without those below its subfolder `skipped`, by one recursive listing.

    Args:
        skipped: the name of the subfolder to leave out.
        most_requests: the greatest number of requests for the listing; None: any number.

    Returns:
        The files, sorted by path; None if the storage has no recursive listing, or if the listing takes more requests.
    """
    return storage.list_tree_without(path, skipped, most_requests) if isinstance(storage, ObjectStorage) else None


def _key(path: str) -> str:
    return path.strip("/")


def _info(meta: Any) -> FileInfo:
    modified_ms = int(meta["last_modified"].timestamp() * 1000)
    return FileInfo(f"/{meta['path']}", int(meta["size"]), modified_ms)
