"""Files and folders that can be read and not written, and why."""

from __future__ import annotations

import builtins
import errno
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from livingdb.errors import Forbidden, LivingDBError, StorageFailure
from livingdb.files.base import Buffer, Files, FileWriter

__all__ = [
    "ReadOnlyFiles",
    "Refusal",
    "is_fixed_media",
    "refusal_of",
    "room_refusal",
    "temporary_folder",
]

_FULL = (errno.ENOSPC, errno.EDQUOT)
_ROOM_BYTES = 64 << 10
_FIXED_TYPES = ("cramfs", "erofs", "iso9660", "romfs", "squashfs")
_OCTAL = re.compile(r"\\([0-7]{3})")
_MOUNTS = "/proc/self/mountinfo"


@dataclass(frozen=True)
class Refusal:
    """Why nothing is written to a database that can be read."""

    reason: str
    is_failure: bool = False
    """Whether it is the disk that cannot, and not the user who may not."""

    def error(self) -> LivingDBError:
        """What a writer is told."""
        kind = StorageFailure if self.is_failure else Forbidden
        return kind(f"the database is open for reading only: {self.reason}")


def refusal_of(folder: Path, file: Path) -> Refusal | None:
    """Why this process cannot write a file and others beside it; None if it can."""
    if os.access(folder, os.W_OK) and os.access(file, os.W_OK):
        return None
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return Refusal(f"{folder} is on a disk that is mounted read-only")
    return Refusal(f"this user may not write to {folder}")


def room_refusal(folder: Path) -> Refusal | None:
    """That a disk is full, if it takes no file more; None if it does."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM_BYTES))
            file.flush()
    except OSError as error:
        if error.errno in _FULL:
            return Refusal(f"the disk of {folder} is full; make room and open it again", True)
    return None


def temporary_folder() -> str | None:
    """Where this process may put files for a while; None where every such place is full."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return None


def is_fixed_media(folder: Path, mounts: str | None = None) -> bool:
    """Whether a folder is on media that nobody can write, by their nature.

    A disk that is mounted read-only is none: it may be writable elsewhere, or become so.
    """
    if mounts is None:
        try:
            mounts = Path(_MOUNTS).read_text(errors="surrogateescape")
        except OSError:
            return False
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        at = _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), fields[4])
        place = at.rstrip("/") + "/"
        if f"{folder}/".startswith(place) and len(place) >= len(best):
            best, kind = place, fields[fields.index("-") + 1]
    return kind in _FIXED_TYPES


class ReadOnlyFiles(Files):
    """Files of a database that is only read: whatever would change them is refused."""

    def __init__(self, files: Files, refusal: Refusal) -> None:
        self._files = files
        self._refusal = refusal

    @property
    def url(self) -> str:
        return self._files.url

    def read(self, path: str) -> bytes:
        return self._files.read(path)

    def view(self, path: str) -> Buffer:
        return self._files.view(path)

    def create(self, path: str, *, cached: bool = True) -> FileWriter:
        self._refuse()

    def delete(self, path: str) -> None:
        self._refuse()

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def list(self, prefix: str = "") -> builtins.list[str]:
        return self._files.list(prefix)

    def sweep(self, older_than_seconds: float) -> int:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise self._refusal.error()
