"""What SQLite asks of the disk, written down in a `DiskLog`: files made, written, cut, synced.

SQLite's unix layer lets a test replace the calls it makes, all but those that sync: for these the
method of open files that syncs is put in the place of SQLite's own.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import errno
import mmap
import os
import sqlite3
import tempfile
from collections.abc import Callable
from typing import Any

from tests.crash.sqlite_calls import replace_calls

from livingdb.testing.power_loss import DiskLog

__all__ = ["record"]

_MAIN_FILE, _LOG_FILE = 7, 28
"""What a database is asked for to have the files behind it: its own, and its log."""
_CONNECTION_OFFSET = 16
_DESCRIPTOR_OFFSET = 24
_SYNC_OFFSET = 5 * 8
_IGNORED = ("-shm",)

_kept: list[Any] = []


def record(disk: DiskLog, is_sloppy: bool = False) -> None:
    """Write everything down, in this process from now on; as if syncs did nothing, if sloppy."""
    files: dict[int, str] = {}

    def synced(descriptor: int) -> None:
        found = node(descriptor)
        if found is not None and not is_sloppy:
            disk.log_sync(found)

    def node(descriptor: int) -> int | None:
        return disk.node_of(files.get(descriptor, ""))

    _watch_syncs(synced)

    def opened(path: bytes, flags: int, mode: int) -> int:
        name = os.fsdecode(path)
        is_new = bool(flags & os.O_CREAT) and not os.path.exists(name)
        descriptor = os.open(name, flags, mode)
        files[descriptor] = name
        if is_new and not name.endswith(_IGNORED):
            disk.log_create(name)
        return descriptor

    def write(descriptor: int, data: int, length: int, offset: int) -> int:
        held = ctypes.string_at(data, length)
        written = os.pwrite(descriptor, held, offset)
        found = node(descriptor)
        if found is not None:
            disk.log_write(found, offset, held[:written])
        return written

    def truncate(descriptor: int, length: int) -> int:
        os.ftruncate(descriptor, length)
        found = node(descriptor)
        if found is not None:
            disk.log_truncate(found, length)
        return 0

    def unlink(path: bytes) -> int:
        os.unlink(path)
        disk.log_remove(os.fsdecode(path))
        return 0

    def open_folder(path: bytes, target: Any) -> int:
        """Only ever opened to be synced."""
        folder = os.path.dirname(os.fsdecode(path))
        target[0] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        disk.log_folder_sync(folder)
        return 0

    size, number, text = ctypes.c_ssize_t, ctypes.c_int, ctypes.c_char_p
    writing = (size, number, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
    replace_calls(
        {
            "open": ((number, text, number, number), _failing(opened)),
            "pwrite64": (writing, _failing(write)),
            "pwrite": (writing, _failing(write)),
            "ftruncate": ((number, number, ctypes.c_int64), _failing(truncate)),
            "unlink": ((number, text), _failing(unlink)),
            "openDirectory": ((number, text, ctypes.POINTER(number)), _failing(open_folder)),
        }
    )


def _failing(call: Callable[..., int]) -> Callable[..., int]:
    """A call that says what failed as C does."""

    def checked(*given: Any) -> int:
        try:
            return call(*given)
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
            return -1

    return checked


def _watch_syncs(synced: Callable[[int], None]) -> None:
    """Put a method in the place of those that sync a database's file and its log."""
    library = ctypes.CDLL(_sqlite3.__file__)
    control = library.sqlite3_file_control
    control.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(f"{folder}/scratch.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (n)")
        handle = ctypes.c_void_p.from_address(id(connection) + _CONNECTION_OFFSET).value
        for which in (_MAIN_FILE, _LOG_FILE):
            file = ctypes.c_void_p()
            assert control(handle, b"main", which, ctypes.byref(file)) == 0
            assert file.value is not None
            methods = ctypes.c_void_p.from_address(file.value).value
            assert methods is not None
            _replace_sync(library, methods + _SYNC_OFFSET, kind, synced)
        connection.close()


def _replace_sync(library: Any, place: int, kind: Any, synced: Callable[[int], None]) -> None:
    slot = ctypes.c_void_p.from_address(place)
    if slot.value in [pointer for pointer, *_ in _kept]:
        return
    original = kind(slot.value)

    def sync(file: int, flags: int) -> int:
        done: int = original(file, flags)
        if done == 0:
            synced(ctypes.c_int.from_address(file + _DESCRIPTOR_OFFSET).value)
        return done

    made = kind(sync)
    start = place - place % mmap.PAGESIZE
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert protect(start, 2 * mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    slot.value = ctypes.cast(made, ctypes.c_void_p).value
    _kept.append((slot.value, made, original))
