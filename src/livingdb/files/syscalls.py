"""The steps that touch a local disk, one method each, so that a test can hook every one."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os

__all__ = ["Syscalls"]

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_DIRECT: int = getattr(os, "O_DIRECT", 0)
_FOLDERS_NEED_NO_SYNC = (errno.EINVAL, errno.ENOTSUP)


class Syscalls:
    """The real ones.  Every method may raise `OSError`, and none retries."""

    def create(self, path: str) -> int:
        """A descriptor for writing a file that must not be there yet."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of the data from its beginning; how many bytes were taken."""
        return os.write(descriptor, data)

    def pass_by_cache(self, descriptor: int, is_on: bool) -> bool:
        """Whether what is written from now on passes by the system's cache, as asked for."""
        if not _DIRECT:
            return False
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | _DIRECT if is_on else flags & ~_DIRECT)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return False
        return is_on

    def fsync(self, descriptor: int) -> None:
        """Wait until the file's bytes are on the disk itself, not in one of its caches."""
        if _FULL_SYNC is not None:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        else:
            os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Let go of the descriptor."""
        os.close(descriptor)

    def replace(self, source: str, target: str) -> None:
        """Rename, atomically taking the place of what was there."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Remove the name."""
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        """Make one folder."""
        os.mkdir(path)

    def fsync_folder(self, path: str) -> None:
        """Wait until the names in the folder are on the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _FOLDERS_NEED_NO_SYNC:
                raise
        finally:
            os.close(descriptor)

    def read(self, path: str) -> bytes:
        """All bytes of the file."""
        with open(path, "rb") as file:
            return file.read()

    def map(self, path: str) -> memoryview:
        """A read-only memory map of the file, which outlives its name."""
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
