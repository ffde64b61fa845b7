"""The system calls SQLite makes to change its files, each one watched, failed or cut in half.

SQLite's unix layer keeps a table of the calls it makes, and lets a test replace them.  That
table has no entry for syncs; `fail_syncs` takes those away from the whole process instead.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

__all__ = ["CALLS", "Hook", "Moment", "can_fail_syncs", "fail_syncs", "replace_calls", "watch"]

Moment = Literal["before", "middle", "after"]
Hook = Callable[[str, Moment], int]
"""Given a call and a moment; the error number the call is to fail with, or 0."""

CALLS = ("pwrite64", "pwrite", "ftruncate", "unlink")

_kept: list[Any] = []


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("file_bytes", ctypes.c_int),
        ("path_bytes", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("methods", ctypes.c_void_p * 12),
        ("current_time", ctypes.c_void_p),
        (
            "set_system_call",
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        ),
    )


def watch(hook: Hook) -> None:
    """Call the hook around every change SQLite makes to a file, in this process from now on."""

    def write(descriptor: int, data: int, length: int, offset: int) -> int:
        for moment, part in (("before", 0), ("middle", length // 2)):
            if part:
                os.pwrite(descriptor, ctypes.string_at(data, part), offset)
            error = hook("write", moment)  # type: ignore[arg-type]
            if error:
                return _failed(error)
        written = os.pwrite(descriptor, ctypes.string_at(data, length), offset)
        hook("write", "after")
        return written

    def truncate(descriptor: int, length: int) -> int:
        return _whole(hook, "truncate", lambda: os.ftruncate(descriptor, length))

    def unlink(path: bytes) -> int:
        return _whole(hook, "unlink", lambda: os.unlink(path))

    size, number = ctypes.c_ssize_t, ctypes.c_int
    writing = (size, number, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
    replace_calls(
        {
            "pwrite64": (writing, write),
            "pwrite": (writing, write),
            "ftruncate": ((number, number, ctypes.c_int64), truncate),
            "unlink": ((number, ctypes.c_char_p), unlink),
        }
    )


def replace_calls(calls: Mapping[str, tuple[Sequence[Any], Callable[..., int]]]) -> None:
    """Let SQLite make these calls from now on: for each the types of its answer and arguments."""
    find = ctypes.CDLL(_sqlite3.__file__).sqlite3_vfs_find
    find.restype, find.argtypes = ctypes.POINTER(_Vfs), (ctypes.c_char_p,)
    vfs = find(None)
    made = {name: _callback(*types)(call) for name, (types, call) in calls.items()}
    _kept.append(made)
    for name, function in made.items():
        pointer = ctypes.cast(function, ctypes.c_void_p)
        vfs.contents.set_system_call(ctypes.addressof(vfs.contents), name.encode(), pointer)


def _callback(*types: Any) -> Any:
    return ctypes.CFUNCTYPE(*types, use_errno=True)


def _whole(hook: Hook, name: str, action: Callable[[], None]) -> int:
    error = hook(name, "before")
    if error:
        return _failed(error)
    try:
        action()
    except OSError as failure:
        return _failed(failure.errno or errno.EIO)
    hook(name, "after")
    return 0


def _failed(error: int) -> int:
    ctypes.set_errno(error)
    return -1


# --- syncs ---------------------------------------------------------------------------------------

_SYNCS = {"x86_64": (74, 75), "aarch64": (82, 83)}
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2


def can_fail_syncs() -> bool:
    """Whether `fail_syncs` works on this machine."""
    return sys.platform == "linux" and platform.machine() in _SYNCS


def fail_syncs(error: int = errno.EIO) -> None:
    """From now on every fsync and fdatasync of this process fails; there is no way back."""
    fsync, fdatasync = _SYNCS[platform.machine()]
    program = b"".join(
        struct.pack("<HBBI", *step)
        for step in (
            (_LOAD, 0, 0, 0),
            (_EQUAL, 1, 0, fsync),
            (_EQUAL, 0, 1, fdatasync),
            (_RETURN, 0, 0, _ERROR | error),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    held = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.prctl(_SECCOMP, _FILTER, ctypes.create_string_buffer(described), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp is not permitted here")
