"""Files in an object store, S3 or GCS, through `pyarrow.fs`.

Arrow's output stream publishes its object when it is closed, and it is closed when it is
dropped: an upload that was begun cannot be taken back.  So a file is spooled to a local
temporary file first, and the upload happens inside `commit()`, as one write of all the bytes,
in a thread of its own that no interrupt stops halfway.  A store makes an object visible only
once all of it has arrived.
"""

from __future__ import annotations

import builtins
import mmap
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import IO, Any

from livingdb.errors import InvalidName, LivingDBError, NotFound, StorageFailure
from livingdb.files.base import Data, Files, FileWriter
from livingdb.files.failures import not_found, storage_failure
from livingdb.files.object_url import ObjectURL
from livingdb.files.paths import check_folder, check_path

__all__ = ["SINGLE_REQUEST_BYTES", "TAIL_BYTES", "ObjectFiles"]

SINGLE_REQUEST_BYTES = 4 * 1024 * 1024
"""Up to this size an object is uploaded in one request instead of in parts."""

TAIL_BYTES = 64 * 1024
"""How much of an object's end is fetched at once and kept: footers live there."""


class ObjectFiles(Files):
    """Files below a bucket or a prefix in it; credentials come from the URL or the environment."""

    def __init__(self, url: str, *, spool_folder: str | None = None) -> None:
        self._address = ObjectURL.parse(url)
        self._spool_folder = spool_folder

    def __repr__(self) -> str:
        return f"ObjectFiles({self.url!r})"

    @property
    def url(self) -> str:
        return self._address.safe

    def read(self, path: str) -> bytes:
        key = self._key(path)
        with self._store_call("read", key), self._filesystem.open_input_file(key) as file:
            return bytes(file.read())

    def view(self, path: str) -> RangedReader:
        key = self._key(path)
        with self._store_call("read", key):
            return RangedReader(self, key, self._filesystem.open_input_file(key))

    def create(self, path: str, *, cached: bool = True) -> FileWriter:
        return _ObjectWriter(self, self._key(path), self._spool_folder)

    def delete(self, path: str) -> None:
        key = self._key(path)
        with suppress(NotFound), self._store_call("delete", key):
            self._filesystem.delete_file(key)

    def exists(self, path: str) -> bool:
        return self._size(self._key(path)) is not None

    def size(self, path: str) -> int:
        key = self._key(path)
        size_bytes = self._size(key)
        if size_bytes is None:
            raise not_found(self._location(key))
        return size_bytes

    def list(self, prefix: str = "") -> builtins.list[str]:
        from pyarrow import fs

        folder = check_folder(prefix)
        root = self._address.root
        key = f"{root}/{folder}" if folder else root
        selector = fs.FileSelector(key, recursive=True, allow_not_found=True)
        with self._store_call("list", key):
            found = self._filesystem.get_file_info(selector)
        return sorted(entry.path[len(root) + 1 :] for entry in found if entry.is_file)

    def sweep(self, older_than_seconds: float) -> int:
        """Nothing is left behind here but unfinished uploads, which a bucket's rules expire."""
        return 0

    def _key(self, path: str) -> str:
        return f"{self._address.root}/{check_path(path)}"

    def _location(self, key: str) -> str:
        return f"{self._address.scheme}://{key}"

    def _size(self, key: str) -> int | None:
        """The object's length in bytes, if there is one."""
        with self._store_call("look at", key):
            information = self._filesystem.get_file_info(key)
            return int(information.size) if information.is_file else None

    def _upload(self, key: str, data: Data) -> None:
        """Publish the object, whole or not at all."""
        with self._store_call("write", key), ThreadPoolExecutor(1, "livingdb-upload") as thread:
            thread.submit(self._send, key, data).result()

    def _send(self, key: str, data: Data) -> None:
        small = len(data) <= SINGLE_REQUEST_BYTES
        filesystem = self._small_filesystem if small else self._filesystem
        stream = filesystem.open_output_stream(key)
        stream.write(data)
        stream.close()

    @cached_property
    def _filesystem(self) -> Any:
        return self._connect()

    @cached_property
    def _small_filesystem(self) -> Any:
        """For objects of one request.

        With Arrow's delayed opening such an object is begun only when it is whole; but a large
        one whose first request fails would be published empty.
        """
        if self._address.scheme == "s3":
            return self._connect(allow_delayed_open="true")
        return self._filesystem

    def _connect(self, **more_options: str) -> Any:
        from pyarrow import ArrowInvalid, fs

        try:
            return fs.FileSystem.from_uri(self._address.secret(**more_options))[0]
        except ArrowInvalid as error:
            raise InvalidName(
                f"cannot open {self.url}: {self._address.scrub(str(error))}"
            ) from None
        except OSError as error:
            raise self._failure(error, "open", self.url) from None

    @contextmanager
    def _store_call(self, action: str, key: str) -> Iterator[None]:
        """A call to the store; what goes wrong becomes a typed error without secrets."""
        from pyarrow import ArrowException

        try:
            yield
        except FileNotFoundError:
            raise not_found(self._location(key)) from None
        except (OSError, ArrowException) as error:
            raise self._failure(error, action, self._location(key)) from None

    def _failure(self, error: Exception, action: str, location: str) -> LivingDBError:
        return StorageFailure(f"cannot {action} {location}: {self._address.scrub(str(error))}")


class RangedReader:
    """The bytes of one object, fetched slice by slice; its tail is fetched once."""

    def __init__(self, files: ObjectFiles, key: str, file: Any) -> None:
        self._files = files
        self._key = key
        self._file = file
        self._size: int = file.size()
        self._tail_start = max(0, self._size - TAIL_BYTES)
        self._tail: bytes | None = None

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, span: slice, /) -> bytes:
        start, stop, step = span.indices(self._size)
        if step != 1:
            raise ValueError("a file is sliced in steps of one")
        if stop <= start:
            return b""
        if start < self._tail_start:
            return self._fetch(start, stop)
        if self._tail is None:
            self._tail = self._fetch(self._tail_start, self._size)
        return self._tail[start - self._tail_start : stop - self._tail_start]

    def _fetch(self, start: int, stop: int) -> bytes:
        try:
            with self._files._store_call("read", self._key):
                data = bytes(self._file.read_at(stop - start, start))
        except StorageFailure:
            if self._files._size(self._key) is None:
                raise not_found(self._files._location(self._key)) from None
            raise
        if len(data) != stop - start:
            raise StorageFailure(
                f"cannot read {self._files._location(self._key)}: "
                f"the store gave {len(data)} bytes of {stop - start}"
            )
        return data


class _ObjectWriter(FileWriter):
    """Spools to a nameless local file, which is gone with the process, and uploads on commit."""

    def __init__(self, files: ObjectFiles, key: str, spool_folder: str | None) -> None:
        super().__init__()
        self._files = files
        self._key = key
        with self._spool_step():
            self._spool: IO[bytes] = tempfile.TemporaryFile(dir=spool_folder)  # noqa: SIM115

    def _append(self, data: memoryview) -> None:
        with self._spool_step():
            self._spool.write(data)

    def _publish(self) -> None:
        with self._spool_step():
            self._spool.flush()
            empty = self._spool.tell() == 0
        if empty:
            self._files._upload(self._key, b"")
        else:
            spooled = mmap.mmap(self._spool.fileno(), 0, access=mmap.ACCESS_READ)
            self._files._upload(self._key, memoryview(spooled))
        self._spool.close()

    def _discard(self) -> None:
        with suppress(OSError):
            self._spool.close()

    @contextmanager
    def _spool_step(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            action = "spool to a local temporary file"
            raise storage_failure(error, action, self._files._location(self._key)) from error
