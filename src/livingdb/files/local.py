"""Files on a local disk: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import builtins
import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from livingdb.errors import StorageFailure
from livingdb.files.base import Files, FileWriter
from livingdb.files.failures import ABSENT, not_found, storage_failure
from livingdb.files.paths import TEMPORARY_PREFIX, check_folder, check_path
from livingdb.files.syscalls import Syscalls

__all__ = ["LocalFiles"]

_DIRECT_BYTES = 1 << 20
"""What is written directly is a multiple of this, and so of every block size."""


class LocalFiles(Files):
    """Files below a folder, which is made on the first write.

    A commit is: write `.tmp-…` in the same folder, sync it, rename it, sync the folder; folders
    that are new are synced into theirs first.  After a sync that failed, or any step the device
    itself failed, nobody knows what the disk holds.  It is never retried: every later write
    through this object is `StorageFailure`, and a new one has to be opened.  Where the very
    last sync failed, the new file may be visible.
    """

    def __init__(self, root: str | os.PathLike[str], *, syscalls: Syscalls | None = None) -> None:
        self.root = os.path.abspath(root)
        self._syscalls = syscalls or Syscalls()
        self._durable_folders = {os.path.sep}
        self._failed_at: str | None = None

    def __repr__(self) -> str:
        return f"LocalFiles({self.root!r})"

    @property
    def url(self) -> str:
        return Path(self.root).as_uri()

    def read(self, path: str) -> bytes:
        with self._read_access(path) as location:
            return self._syscalls.read(location)

    def view(self, path: str) -> memoryview:
        with self._read_access(path) as location:
            return self._syscalls.map(location)

    def make_root(self) -> None:
        """Make the folder itself, durable in the one above."""
        self._make_folder(self.root)

    def create(self, path: str, *, cached: bool = True) -> FileWriter:
        made = _LocalWriter if cached else _DirectWriter
        return made(self, self._location(path))

    def delete(self, path: str) -> None:
        location = self._location(path)
        with self._write_step("delete", location), suppress(*ABSENT):
            if not os.path.isdir(location):
                self._syscalls.unlink(location)

    def exists(self, path: str) -> bool:
        return self._status(self._location(path)) is not None

    def size(self, path: str) -> int:
        location = self._location(path)
        status = self._status(location)
        if status is None:
            raise not_found(location)
        return status.st_size

    def list(self, prefix: str = "") -> builtins.list[str]:
        folder = os.path.join(self.root, check_folder(prefix)) if prefix else self.root
        return sorted(
            os.path.relpath(entry.path, self.root).replace(os.path.sep, "/")
            for entry in self._walk(folder)
            if not entry.name.startswith(TEMPORARY_PREFIX)
        )

    def sweep(self, older_than_seconds: float) -> int:
        limit = time.time() - older_than_seconds
        swept = 0
        for entry in self._walk(self.root):
            if not entry.name.startswith(TEMPORARY_PREFIX):
                continue
            with self._write_step("sweep", entry.path), suppress(*ABSENT):
                if entry.stat().st_mtime <= limit:
                    self._syscalls.unlink(entry.path)
                    swept += 1
        return swept

    def _location(self, path: str) -> str:
        return os.path.join(self.root, check_path(path))

    def _status(self, location: str) -> os.stat_result | None:
        """The regular file's status, if there is one."""
        try:
            status = os.stat(location)
        except ABSENT:
            return None
        except OSError as error:
            raise storage_failure(error, "look at", location) from error
        return status if stat.S_ISREG(status.st_mode) else None

    def _walk(self, folder: str) -> Iterator[os.DirEntry[str]]:
        """Every file in the folder or deeper; links to folders are not followed."""
        try:
            with os.scandir(folder) as scan:
                entries = builtins.list(scan)
        except ABSENT:
            return
        except OSError as error:
            raise storage_failure(error, "list", folder) from error
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(entry.path)
            elif entry.is_file():
                yield entry

    @contextmanager
    def _read_access(self, path: str) -> Iterator[str]:
        """The path's location; what goes wrong with it becomes a typed error."""
        location = self._location(path)
        try:
            yield location
        except ABSENT as error:
            raise not_found(location) from error
        except OSError as error:
            raise storage_failure(error, "read", location) from error

    @contextmanager
    def _write_step(self, action: str, location: str, *, syncing: bool = False) -> Iterator[None]:
        """One step that changes the disk; remembers a failure after which it is unknown."""
        if self._failed_at is not None:
            raise StorageFailure(
                f"cannot {action} {location}: the disk failed earlier at {self._failed_at}, and "
                "what it holds since then is unknown; reopen the database"
            )
        try:
            yield
        except OSError as error:
            if syncing or error.errno == errno.EIO:
                self._failed_at = location
            raise storage_failure(error, action, location) from error

    def _make_folder(self, folder: str) -> None:
        """Make the folder and those above it, each durable in the one above."""
        missing = []
        while folder not in self._durable_folders and self._must_be_durable(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            made = True
            with self._write_step("make the folder", folder):
                try:
                    self._syscalls.mkdir(folder)
                except FileExistsError:
                    made = False
            with self._write_step("sync the folder of", folder, syncing=True):
                try:
                    self._syscalls.fsync_folder(os.path.dirname(folder))
                except PermissionError:
                    if made or folder != self.root:
                        raise
            self._durable_folders.add(folder)

    def _must_be_durable(self, folder: str) -> bool:
        inside = folder == self.root or folder.startswith(self.root + os.path.sep)
        return inside or not os.path.isdir(folder)


class _LocalWriter(FileWriter):
    """Writes a temporary file in the folder of its target."""

    def __init__(self, files: LocalFiles, target: str) -> None:
        super().__init__()
        self._files = files
        self._syscalls = files._syscalls
        self._target = target
        self._folder = os.path.dirname(target)
        self._temporary = os.path.join(self._folder, TEMPORARY_PREFIX + secrets.token_hex(8))
        self._descriptor: int | None = None
        files._make_folder(self._folder)
        with files._write_step("create", target):
            self._descriptor = self._syscalls.create(self._temporary)

    def _append(self, data: memoryview) -> None:
        assert self._descriptor is not None
        while len(data) > 0:
            with self._files._write_step("write", self._target):
                data = data[self._syscalls.write(self._descriptor, data) :]

    def _publish(self) -> None:
        assert self._descriptor is not None
        with self._files._write_step("sync", self._target, syncing=True):
            self._syscalls.fsync(self._descriptor)
        descriptor, self._descriptor = self._descriptor, None
        with self._files._write_step("close", self._target, syncing=True):
            self._syscalls.close(descriptor)
        with self._files._write_step("rename", self._target):
            self._syscalls.replace(self._temporary, self._target)
        with self._files._write_step("sync the folder of", self._target, syncing=True):
            self._syscalls.fsync_folder(self._folder)

    def _discard(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                self._syscalls.close(descriptor)
        with suppress(OSError):
            self._syscalls.unlink(self._temporary)


class _DirectWriter(_LocalWriter):
    """Has large blocks written from where they lie, without a copy of them in the system's cache.

    Where the file system cannot do that, or the memory does not begin at a page, and for what is
    left of a block, it is a writer as any other.
    """

    _is_able = True

    def _append(self, data: memoryview) -> None:
        whole = len(data) - len(data) % _DIRECT_BYTES
        written = self._append_directly(data[:whole]) if whole and self._is_able else 0
        super()._append(data[written:])

    def _append_directly(self, data: memoryview) -> int:
        """How many bytes were taken; fewer than there are if it is not possible."""
        assert self._descriptor is not None
        written = 0
        self._is_able = self._syscalls.pass_by_cache(self._descriptor, True)
        while self._is_able and written < len(data):
            with self._files._write_step("write", self._target):
                try:
                    written += self._syscalls.write(self._descriptor, data[written:])
                except OSError as error:
                    if error.errno != errno.EINVAL:
                        raise
                    self._is_able = False  # nothing of it was written
        self._syscalls.pass_by_cache(self._descriptor, False)
        return written
